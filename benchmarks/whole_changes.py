"""Rows of which each one changes all, or much: one updated row under views of a million.

    python benchmarks/whole_changes.py [--rows 1000000] [--runs 20]

A share of a total, places, distance from a mean: after a row has changed, so have all rows of the
view, and the query itself takes DuckDB less time than to say which two million rows come and go.
`fill` makes the view, `first` are its first three changes (the operators take them), `then` the
median of the others, `DuckDB` the same change and the query again, given as an Arrow table.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import duckdb

import tidewheel

VIEWS = {
    "share of all": "SELECT id, x / (SELECT sum(x) FROM t) AS part FROM t",
    "share, window": "SELECT id, x / sum(x) OVER () AS part FROM t",
    "share of a tenth": "SELECT t.id, t.x / s.x AS part FROM t JOIN "
    "(SELECT k, sum(x) AS x FROM t GROUP BY k) AS s USING (k)",
    "places": "SELECT id, rank() OVER (ORDER BY x, id) AS place FROM t",
    "percents": "SELECT id, percent_rank() OVER (ORDER BY x, id) AS part FROM t",
    "tenths": "SELECT id, ntile(10) OVER (ORDER BY x, id) AS tenth FROM t",
    "running sum": "SELECT id, sum(x) OVER (ORDER BY id) AS total FROM t",
    "above the mean": "SELECT id FROM t WHERE x > (SELECT avg(x) FROM t)",
    "from the largest": "SELECT id, m - x AS below FROM t, (SELECT max(x) AS m FROM t)",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    table = (
        "CREATE TABLE t AS SELECT i::INTEGER AS id, (hash(i) % 10)::INTEGER AS k, "
        f"(hash(i + 1) % 100000)::DOUBLE AS x FROM range({options.rows}) r(i)"
    )
    print(f"{'milliseconds':18}{'fill':>8}{'first':>22}{'then':>8}{'DuckDB':>8}{'times':>7}")
    for name, query in VIEWS.items():
        with tidewheel.connect() as con, duckdb.connect() as plain:
            con.execute("CREATE MATERIALIZED VIEW warm AS SELECT 1 AS one")
            con.execute(table)
            plain.execute(table)
            fill = timed(con.execute, f"CREATE MATERIALIZED VIEW v AS {query}")
            ours, theirs = [], []
            for i in range(options.runs):
                change = f"UPDATE t SET x = x + 1 WHERE id = {i * 1000 + 5}"
                ours.append(timed(con.execute, change))
                theirs.append(timed(anew, plain, change, query))
            first = " / ".join(f"{ms:.0f}" for ms in ours[:3])
            then, duck = statistics.median(ours[3:]), statistics.median(theirs)
            print(f"{name:18}{fill:8.0f}{first:>22}{then:8.1f}{duck:8.1f}{then / duck:7.2f}")


def anew(plain: Any, change: str, query: str) -> None:
    """What recomputing takes."""
    plain.execute(change)
    plain.sql(query).to_arrow_table()


def timed(call: Callable[..., object], *given: object) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    call(*given)
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    main()
