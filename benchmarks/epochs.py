"""Epochs per second: single rows inserted in autocommit, with 0, 1 and 10 views over the table.

    python benchmarks/epochs.py [--rows 10000] [--seconds 2] [--only 0,1,10] [--json FILE]

Each INSERT is a transaction of its own, and all views are right when it returns. The views are
simple: `filter` keeps columns of some rows, `group` has a count and a sum per group, `of texts`
calls functions of texts, `newest ten` and `ten groups` are the first rows of an order; the ten are
five of each of the first two. The table has `--rows` rows before. `values` writes the row into the
SQL text, `bound` passes it as parameters. DuckDB inserts the same rows into the same table and has
no views; with `requery` it runs the view's query again after each row, as one would without
maintenance. The last column is Tidewheel's rate over DuckDB's without views.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TABLE = "CREATE TABLE t (id INTEGER, g INTEGER, x INTEGER, s VARCHAR)"
ROWS = "INSERT INTO t SELECT i, i % 100, i * 7 % 1000, 'row ' || i FROM range({}) r(i)"
FILTER = "SELECT id, x * 2 AS y, s FROM t WHERE x > {0}"
TEXTS = (
    "SELECT id, upper(s) AS name, concat(g, '-', s) AS label, round(x / 7, 2) AS share, "
    "CASE WHEN x > 500 THEN 'high' ELSE 'low' END AS level FROM t WHERE s LIKE '%1%'"
)
NEWEST = "SELECT * FROM t ORDER BY id DESC LIMIT 10"
LARGEST = "SELECT g, sum(x) AS total FROM t GROUP BY g ORDER BY total DESC, g LIMIT 10"
GROUP = "SELECT g % {0} AS g, count(*) AS n, sum(x) AS total FROM t GROUP BY ALL"
VIEWS = {
    "0 views": [],
    "1 filter": [FILTER.format(500)],
    "1 group": [GROUP.format(100)],
    "1 of texts": [TEXTS],
    "1 newest ten": [NEWEST],
    "1 ten groups": [LARGEST],
    "10 views": [q.format(100 * k) for k in range(1, 6) for q in (FILTER, GROUP)],
}


def rate(insert: Callable[[int], None], seconds: float) -> tuple[float, float, float]:
    """Calls per second, their median and 95th percentile in ms; the first tenth is a warm-up."""
    for i in range(20):
        insert(i)
    times: list[float] = []
    until = time.perf_counter() + seconds
    while (start := time.perf_counter()) < until:
        insert(20 + len(times))
        times.append(time.perf_counter() - start)
    return (
        len(times) / sum(times),
        statistics.median(times) * 1e3,
        statistics.quantiles(times, n=20)[-1] * 1e3,
    )


def inserter(con: Any, bound: bool, after: str = "") -> Callable[[int], None]:
    """A function that inserts its i-th row."""

    def insert(i: int) -> None:
        row = (1_000_000 + i, i % 100, i * 13 % 1000, f"new {i}")
        if bound:
            done = con.execute("INSERT INTO t VALUES (?, ?, ?, ?)", row)
        else:
            done = con.execute("INSERT INTO t VALUES ({}, {}, {}, '{}')".format(*row))
        if done.description is not None:
            done.fetchall()
        if after:
            con.execute(after).fetchall()

    return insert


def tidewheel_rate(
    views: list[str], rows: int, seconds: float, bound: bool
) -> tuple[float, float, float]:
    """With maintained views; they are compared with their queries at the end."""
    import tidewheel

    with tidewheel.connect() as con:
        con.execute(TABLE)
        con.execute(ROWS.format(rows))
        for i, query in enumerate(views):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
            con.execute(f"SELECT count(*) FROM v{i}").fetchall()
        found = rate(inserter(con, bound), seconds)
        for i in range(len(views)):
            if con.execute(f"VERIFY VIEW v{i}").fetchall():
                raise SystemExit(f"view {views[i]} is wrong")
    return found


def duckdb_rate(rows: int, seconds: float, bound: bool, after: str = "") -> tuple[float, ...]:
    """DuckDB's own INSERT, perhaps with a query after it."""
    import duckdb

    con = duckdb.connect()
    con.execute(TABLE)
    con.execute(ROWS.format(rows)).fetchall()
    found = rate(inserter(con, bound, after), seconds)
    con.close()
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000, help="rows in the table before")
    parser.add_argument("--seconds", type=float, default=2.0, help="per line")
    parser.add_argument("--only", default="0,1,10", help="numbers of views")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    counts = options.only.split(",")
    done: dict[str, tuple[float, ...]] = {}
    print(f"{'':28}{'epochs/s':>10}{'median ms':>11}{'95% ms':>9}{'of DuckDB':>11}")
    for bound in (False, True):
        how = "bound" if bound else "values"
        plain = duckdb_rate(options.rows, options.seconds, bound)
        lines = {"duckdb": plain}
        after = VIEWS["1 group"][0]
        lines["duckdb, requery group"] = duckdb_rate(options.rows, options.seconds, bound, after)
        for name, views in VIEWS.items():
            if name.split()[0] in counts:
                lines[name] = tidewheel_rate(views, options.rows, options.seconds, bound)
        for name, found in lines.items():
            done[f"{name}, {how}"] = found
            print(
                f"{name + ', ' + how:28}{found[0]:10,.0f}{found[1]:11.3f}{found[2]:9.3f}"
                f"{found[0] / plain[0]:11.2f}",
                flush=True,
            )
    if options.json:
        Path(options.json).write_text(json.dumps(done, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
