"""A shop's dashboards under a stream of small changes: not only the median, the slowest, too.

    python benchmarks/shop.py [--orders 1000000] [--changes 400]

What a view keeps is looked up, or read, by the first changes that ask for it, so a few changes take
as long as a query. `query` and `fill` are of each view. Then, for each kind of change, how many
there were, the median, nine tenths, and the slowest; `DuckDB` makes the same change and runs the
queries that read the table again (the median of some of them); `ratio` is median over that.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import duckdb

import tidewheel

FACTS = "lines l JOIN orders o ON o.id = l.order_id JOIN customers c ON c.id = o.customer"
VIEWS = {
    "countries": f"SELECT country, sum(qty * price) AS s, count(*) AS n FROM {FACTS} "
    "JOIN products p ON p.id = l.product GROUP BY country",
    "top ten": f"SELECT c.id, c.name, sum(qty * price) AS s FROM {FACTS} "
    "JOIN products p ON p.id = l.product GROUP BY ALL ORDER BY s DESC, c.id LIMIT 10",
    "days": "SELECT date_trunc('day', made) AS day, count(*), count(DISTINCT customer) "
    "FROM orders GROUP BY day",
    "empty orders": "SELECT o.* FROM orders o WHERE status = 'new' "
    "AND NOT EXISTS (FROM lines l WHERE l.order_id = o.id)",
    "medians": "SELECT category, median(qty * price), max(qty) FROM lines l "
    "JOIN products p ON p.id = l.product GROUP BY category",
    "last order": "SELECT customer, max(made), arg_max(id, (made, id)) FROM orders "
    "GROUP BY customer",
    "last three": "SELECT id, customer, made FROM orders "
    "QUALIFY row_number() OVER (PARTITION BY customer ORDER BY made DESC, id) <= 3",
    "idle": "SELECT c.id FROM customers c LEFT JOIN orders o "
    "ON o.customer = c.id AND o.status <> 'done' WHERE o.id IS NULL",
    "together": "SELECT a.product, count(*) AS n FROM lines a JOIN lines b "
    "ON a.order_id = b.order_id AND a.product < b.product GROUP BY a.product HAVING n > 10",
    "states": "SELECT status, count(*) FROM orders GROUP BY status",
}


def tables(n: int) -> list[str]:
    """A shop of `n` orders."""
    people, things = n // 20, n // 200
    return [
        "CREATE TABLE customers AS SELECT i AS id, 'c' || i AS name, "
        f"['de', 'fr', 'us', 'uk', 'jp'][1 + i % 5] AS country FROM range({people}) t(i)",
        "CREATE TABLE products AS SELECT i AS id, 'cat' || (i % 30) AS category, "
        f"(1 + i * 13 % 500)::DECIMAL(10, 2) AS price FROM range({things}) t(i)",
        f"CREATE TABLE orders AS SELECT i AS id, i * 7919 % {people} AS customer, "
        "TIMESTAMP '2026-01-01' + INTERVAL (i % 500000) MINUTE AS made, "
        f"['new', 'paid', 'sent', 'done'][1 + i % 4] AS status FROM range({n}) t(i)",
        f"CREATE TABLE lines AS SELECT i // 3 AS order_id, i * 104729 % {things} AS product, "
        f"1 + i % 7 AS qty FROM range({3 * n}) t(i)",
    ]


def change(kind: str, n: int, rng: random.Random) -> list[str]:
    """The statements of one change."""
    order, customer, product = rng.randrange(n), rng.randrange(n // 20), rng.randrange(n // 200)
    if kind == "order":
        new = n + rng.randrange(10**9)
        some = ", ".join(f"({new}, {rng.randrange(n // 200)}, {1 + i})" for i in range(3))
        made = f"TIMESTAMP '2026-11-01' + INTERVAL {rng.randrange(10**5)} SECOND"
        return [
            "BEGIN",
            f"INSERT INTO orders VALUES ({new}, {customer}, {made}, 'new')",
            f"INSERT INTO lines VALUES {some}",
            "COMMIT",
        ]
    return {
        "status": [f"UPDATE orders SET status = 'done' WHERE id = {order}"],
        "returned": [f"DELETE FROM lines WHERE order_id = {order}"],
        "price": [f"UPDATE products SET price = price + 1 WHERE id = {product}"],
        "moved": [f"UPDATE customers SET country = 'fr' WHERE id = {customer}"],
        "given away": [f"UPDATE orders SET customer = {customer} WHERE id = {order}"],
        "left": [f"DELETE FROM customers WHERE id = {customer}"],
    }[kind]


OFTEN = {
    "order": 8, "status": 6, "returned": 2, "given away": 2, "price": 2, "moved": 1, "left": 1,
}  # fmt: skip
CHANGED = {
    "order": ("orders", "lines"), "status": ("orders",), "returned": ("lines",),
    "price": ("products",), "moved": ("customers",), "given away": ("orders",),
    "left": ("customers",),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=400)
    options = parser.parse_args()
    n, rng = options.orders, random.Random(1)
    ours: dict[str, list[float]] = {kind: [] for kind in OFTEN}
    theirs: dict[str, list[float]] = {kind: [] for kind in OFTEN}
    with tidewheel.connect() as con, duckdb.connect() as plain:
        con.execute("CREATE MATERIALIZED VIEW warm AS SELECT 1 AS one")
        for text in tables(n):
            con.execute(text)
            plain.execute(text)
        print(f"{'milliseconds':14}{'query':>8}{'fill':>8}")
        for i, (name, query) in enumerate(VIEWS.items()):
            recompute(plain, [query])
            took = timed(recompute, plain, [query])
            filled = timed(con.execute, f"CREATE MATERIALIZED VIEW v{i} AS {query}")
            print(f"{name:14}{took:8.0f}{filled:8.0f}")
        for _ in range(options.changes):
            (kind,) = rng.choices([*OFTEN], [*OFTEN.values()])
            texts = change(kind, n, rng)
            ours[kind].append(timed(run, con, texts))
            run(plain, texts)
            if len(theirs[kind]) < 5:
                theirs[kind].append(timed(recompute, plain, touched(kind)))
        print(
            f"\n{'':12}{'changes':>8}{'median':>8}{'9 of 10':>8}{'slowest':>8}{'DuckDB':>8}  ratio"
        )
        for kind in OFTEN:
            if not ours[kind]:
                continue
            took = statistics.median(theirs[kind])
            times = sorted(ours[kind])
            median = statistics.median(times)
            tenth = times[len(times) * 9 // 10]
            print(
                f"{kind:12}{len(times):8}{median:8.1f}{tenth:8.1f}{times[-1]:8.1f}{took:8.1f}"
                f"{median / took:8.2f}"
            )
        for i, name in enumerate(VIEWS):
            assert not con.execute(f"VERIFY VIEW v{i}").fetchall(), name


def touched(kind: str) -> list[str]:
    """The queries that read what a change touches."""
    return [q for q in VIEWS.values() if any(f"{t} " in f"{q} " for t in CHANGED[kind])]


def run(con: Any, texts: Sequence[str]) -> None:
    for text in texts:
        con.execute(text)


def recompute(plain: duckdb.DuckDBPyConnection, queries: Sequence[str]) -> None:
    """Each query's rows, as Arrow tables."""
    for query in queries:
        plain.sql(query).to_arrow_table()


def timed(call: Callable[..., object], *given: object) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    call(*given)
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    main()
