"""One edge more or less under recursions whose steps see the last step's rows together.

    python benchmarks/stepwise.py [--nodes 20000] [--edges 100000] [--changes 20]

Milliseconds: DuckDB's for the query after each change, and the view's; the medians of all changes,
of the quick ones and the slow ones; how long the view took to make, in runs of the query.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

import duckdb

import tidewheel
from tidewheel.planner import view_choice

QUERIES = {
    "ways": "WITH RECURSIVE d(x, v) USING KEY (x) AS (SELECT 0, 0::BIGINT UNION "
    "SELECT e.b, min(d.v + e.w) FROM d JOIN e ON e.a = d.x LEFT JOIN recurring.d r ON r.x = e.b "
    "WHERE r.v IS NULL OR d.v + e.w < r.v GROUP BY e.b) FROM d",
    "ways and where from": "WITH RECURSIVE d(x, v, p) USING KEY (x) AS (SELECT 0, 0::BIGINT, 0 "
    "UNION SELECT e.b, min(d.v + e.w), arg_min(d.x, d.v + e.w) FROM d JOIN e ON e.a = d.x "
    "LEFT JOIN recurring.d r ON r.x = e.b WHERE r.v IS NULL OR d.v + e.w < r.v GROUP BY e.b) "
    "SELECT x, v FROM d",
    "labels": "WITH RECURSIVE c(x, l) USING KEY (x) AS (SELECT DISTINCT a, a FROM e UNION "
    "(SELECT DISTINCT ON (e.b) e.b, c.l FROM c JOIN e ON e.a = c.x JOIN recurring.c r ON r.x = e.b "
    "WHERE c.l < r.l ORDER BY e.b, c.l)) SELECT l, count(*) FROM c GROUP BY l",
    "levels": "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION ALL SELECT DISTINCT e.b, n + 1 FROM t "
    "JOIN e ON e.a = t.x WHERE NOT EXISTS (FROM recurring.t r WHERE r.x = e.b)) "
    "SELECT n, count(*) FROM t GROUP BY n",
    "counted ways": "WITH RECURSIVE t(i, x, n) AS (SELECT DISTINCT 0, a, 1::HUGEINT FROM e "
    "WHERE a < 20 UNION ALL SELECT i + 1, e.b, sum(n)::HUGEINT FROM t JOIN e ON e.a = t.x "
    "WHERE i < 6 GROUP BY i + 1, e.b) SELECT x, sum(n) FROM t GROUP BY x",
}


def took(run: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=20)
    options = parser.parse_args()
    view_choice.AT_ONCE = 1e9  # the operators are what is measured
    print(f"{'':20} {'query':>7} {'view':>7} {'quick':>7} {'slow':>7} {'ratio':>7} {'made':>6}")
    for name, query in QUERIES.items():
        chance = random.Random(1)

        def edge(chance: random.Random = chance) -> tuple[int, int, int]:
            nodes = options.nodes
            return chance.randrange(nodes), chance.randrange(nodes), chance.randrange(1, 100)

        edges = [edge() for _ in range(options.edges)]
        with tidewheel.connect() as con, duckdb.connect() as duck:
            for each in (con, duck):
                each.execute("CREATE TABLE e (a INTEGER, b INTEGER, w INTEGER)")
            con.executemany("INSERT INTO e VALUES (?, ?, ?)", edges)
            columns = [list(column) for column in zip(*edges, strict=True)]
            duck.execute("INSERT INTO e SELECT unnest(?), unnest(?), unnest(?)", columns)
            con.execute(
                "CREATE MATERIALIZED VIEW warm AS " + query.replace(" e ", " (FROM e LIMIT 9) e ")
            )
            con.execute("DROP MATERIALIZED VIEW warm")
            run = lambda: duck.execute(query).fetchall()  # noqa: B023, E731
            first = statistics.median(took(run) for _ in range(3))
            made = took(lambda: con.execute(f"CREATE MATERIALIZED VIEW v AS {query}"))  # noqa: B023
            queries, views = [], []
            for i in range(options.changes):
                if i % 2:
                    change = "DELETE FROM e WHERE a = ? AND b = ? AND w = ?"
                    row = edges.pop(chance.randrange(len(edges)))
                else:
                    change, row = "INSERT INTO e VALUES (?, ?, ?)", edge()
                    edges.append(row)
                views.append(took(lambda: con.execute(change, row)))  # noqa: B023
                queries.append(took(lambda: (duck.execute(change, row), run())))  # noqa: B023
                kept = sorted(map(str, con.execute("FROM v").fetchall()))
                assert kept == sorted(map(str, run())), name
            quick, *_, slow = statistics.quantiles(views, n=10)
            one, other = statistics.median(queries), statistics.median(views)
            print(
                f"{name:20} {one:7.1f} {other:7.1f} {quick:7.1f} {slow:7.1f} {one / other:7.1f} "
                f"{made / first:6.1f}"
            )


if __name__ == "__main__":
    main()
