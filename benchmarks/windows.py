"""Windows under single rows, against DuckDB running the query again.

    python benchmarks/windows.py [--rows 1000000] [--changes 9] [--only lag,range]

A table of `--rows` rows in ten partitions. Into each view rows come behind all others (`append`),
then in the middle, then rows in the middle go, each in a transaction of its own; milliseconds,
medians. `first` is the first change after the fill, which pays for what the fill has put off.
DuckDB makes the same changes, and runs the query once after them, into a temporary table. `times`
is what that takes over what an appended row takes with its view. Where a row in the middle changes
all rows behind it (running sums, places), so it does here. Every view is verified at the end.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from typing import Any

import duckdb

import tidewheel

TABLE = """CREATE TABLE t AS SELECT (2 * i)::INTEGER AS id, (i % 10)::INTEGER AS g,
    (hash(i) % 1000)::INTEGER AS x, (hash(i) % 99991) / 100 AS y,
    TIMESTAMP '2024-01-01' + to_seconds(2 * i) AS moment
    FROM range({rows}) AS r(i)"""
VIEWS = {
    "lag": "SELECT id, x - lag(x) OVER (ORDER BY id) AS d FROM t",
    "lead": "SELECT g, id, lead(id) OVER (PARTITION BY g ORDER BY id) AS d FROM t",
    "moving mean": "SELECT id, avg(x) OVER (ORDER BY id ROWS 6 PRECEDING) AS d FROM t",
    "mean of doubles": "SELECT id, avg(y) OVER (ORDER BY id ROWS 6 PRECEDING) AS d FROM t",
    "range": "SELECT id, count(*) OVER (ORDER BY moment RANGE BETWEEN INTERVAL 1 MINUTE PRECEDING "
    "AND CURRENT ROW) AS d FROM t",
    "ranges": "SELECT g, id, sum(x) OVER (PARTITION BY g ORDER BY id RANGE BETWEEN 100 PRECEDING "
    "AND 100 FOLLOWING) AS d FROM t",
    "running sum": "SELECT id, sum(x) OVER (ORDER BY id) AS d FROM t",
    "running sums": "SELECT g, id, sum(x) OVER (PARTITION BY g ORDER BY id) AS d FROM t",
    "sums of doubles": "SELECT g, id, sum(y) OVER (PARTITION BY g ORDER BY id) AS d FROM t",
    "running mean": "SELECT g, id, avg(x) OVER (PARTITION BY g ORDER BY id) AS d FROM t",
    "deviations": "SELECT id, stddev(y) OVER (ORDER BY id ROWS 6 PRECEDING) AS d FROM t",
    "running deviations": "SELECT g, id, stddev(x) OVER (PARTITION BY g ORDER BY id) AS d FROM t",
    "groups": "SELECT id, sum(x) OVER (ORDER BY id // 8 GROUPS 1 PRECEDING) AS d FROM t",
    "without itself": "SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND "
    "3 FOLLOWING EXCLUDE CURRENT ROW) AS d FROM t",
    "to the end": "SELECT id, sum(x) OVER (ORDER BY id DESC ROWS BETWEEN CURRENT ROW AND "
    "UNBOUNDED FOLLOWING) AS d FROM t",
    "places": "SELECT g, id, row_number() OVER (PARTITION BY g ORDER BY id) AS d FROM t",
    "first three": "SELECT * FROM (SELECT id, g, x, row_number() OVER (PARTITION BY g "
    "ORDER BY x DESC, id) AS r FROM t) WHERE r <= 3",
}
ANEW = "CREATE OR REPLACE TEMP TABLE anew AS "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=9)
    parser.add_argument("--only", default=",".join(VIEWS))
    options = parser.parse_args()
    print(f"{'':20}{'first':>9}{'append':>9}{'middle':>9}{'delete':>9}{'DuckDB':>9}{'times':>8}")
    for name in options.only.split(","):
        with tidewheel.connect() as con, duckdb.connect() as peer:
            threads = con.execute("SHOW threads").fetchall()[0][0]
            peer.execute(f"SET threads = {threads}")
            for each in (con, peer):
                each.execute(TABLE.format(rows=options.rows))
            con.execute(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
            first, *rest = (seconds(con, c) for c in changes(options.rows, options.changes))
            for change in changes(options.rows, options.changes):
                peer.execute(change)
            again = statistics.median(seconds(peer, ANEW + VIEWS[name]) for _ in range(3))
            assert con.execute("VERIFY VIEW v").fetchall() == [], name
        n = options.changes
        parts = [rest[:n], rest[n : 2 * n], rest[2 * n :]]
        append, middle, delete = (statistics.median(part) * 1e3 for part in parts)
        print(
            f"{name:20}{first * 1e3:9.1f}{append:9.2f}{middle:9.2f}{delete:9.2f}"
            f"{again * 1e3:9.1f}{again * 1e3 / append:8.1f}",
            flush=True,
        )


def changes(rows: int, n: int) -> Iterator[str]:
    """One row behind all others, `n` more, `n` in the middle, and `n` in the middle that go."""
    for i in range(n + 1):
        yield f"INSERT INTO t VALUES ({row(2 * rows + 2 * i)})"
    middle = rows // 2 * 2
    for i in range(n):
        yield f"INSERT INTO t VALUES ({row(middle + 2 * i + 1)})"
    for i in range(n):
        yield f"DELETE FROM t WHERE id = {middle + 4 * i}"


def row(at: int) -> str:
    moment = f"TIMESTAMP '2024-01-01' + to_seconds({at})"
    return f"{at}, 3, {at * 7 % 1000}, {at * 7 % 99991 / 100}, {moment}"


def seconds(con: Any, sql: str) -> float:
    """How long a statement takes that gives no rows."""
    start = time.perf_counter()
    con.execute(sql)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
