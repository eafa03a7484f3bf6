"""Filling maintained views, against DuckDB running their queries once.

    python benchmarks/fill.py [--rows 3000000] [--runs 3] [--scale 1] [--data FOLDER] [--only facts]

`facts`: what dashboards ask of a table of facts and a dimension of a thousand rows. `layers`: the
same of a maintained view of all facts. `tpch`: the 22 queries of TPC-H. Every view is made and
dropped alone, so none finds another one's state. Both sides in turns, medians; DuckDB gives its
answer as an Arrow table. `state` is what the view keeps.
`first` and `second` are the first two changes after the fill, each a transaction that deletes some
hundred rows of the largest table that the view reads: what a fill puts off is seen there.
"""

from __future__ import annotations

import argparse
import itertools
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

import tidewheel
from tidewheel.tpch import generate, queries
from tidewheel.tpch.churn import geometric_mean
from tidewheel.tpch.run import load

TABLES = """
CREATE TABLE fact AS SELECT i::INTEGER AS id, (hash(i) % 1000)::INTEGER AS k,
    chr(65 + (hash(i + 7) % 26)::INTEGER) AS s, ((hash(i + 1) % 100000) / 100)::DECIMAL(12, 2) AS x,
    (hash(i + 3) % 1000003) / 1000003 AS y, (hash(i + 2) % 5000)::INTEGER AS z
    FROM range({rows}) AS t(i);
CREATE TABLE dim AS SELECT i::INTEGER AS k, 'name ' || (i % 50) AS name, i % 7 AS g
    FROM range(1000) AS t(i)
"""
FACTS = {
    "sums": "SELECT s, count(*), sum(x), avg(x) FROM fact GROUP BY s",
    "sums of doubles": "SELECT k, sum(y), avg(y) FROM fact GROUP BY k",
    "variance": "SELECT s, stddev(y) FROM fact GROUP BY s",
    "filtered count": "SELECT z, count(*) FROM fact WHERE x > 500 GROUP BY z",
    "distinct rows": "SELECT DISTINCT s, z FROM fact",
    "count distinct": "SELECT s, count(DISTINCT z) FROM fact GROUP BY s",
    "min and max": "SELECT k, min(y), max(y) FROM fact GROUP BY k",
    "ends of many groups": "SELECT id // 10 AS g, min(y), max(x) FROM fact GROUP BY g",
    "sums of many groups": "SELECT id // 10 AS g, sum(y) FROM fact GROUP BY g",
    "median": "SELECT k, median(y) FROM fact GROUP BY k",
    "running sum": "SELECT id, sum(x) OVER (PARTITION BY k ORDER BY id) FROM fact WHERE s < 'D'",
    "texts in order": "SELECT k, string_agg(s, '' ORDER BY id) FROM fact GROUP BY k",
    "total": "SELECT count(*), sum(y), avg(y), min(y), max(y) FROM fact",
    "doubles by dimension": "SELECT name, sum(y) FROM fact JOIN dim USING (k) GROUP BY name",
    "top 10": "SELECT * FROM fact ORDER BY y LIMIT 10",
    "a tenth": "SELECT * FROM fact WHERE z < 500",
    "sums by dimension": "SELECT name, sum(x), count(*) FROM fact JOIN dim USING (k) GROUP BY name",
    "max by dimension": "SELECT name, max(y) FROM fact JOIN dim USING (k) GROUP BY name",
    "last of a group": "SELECT k, arg_max(id, x), max(x) FROM fact GROUP BY k",
    "above a mean": "SELECT id FROM fact WHERE y > (SELECT 1.99 * avg(y) FROM fact AS f "
    "WHERE f.k = fact.k)",
    "in both": "SELECT name, g FROM fact JOIN dim USING (k) WHERE z < 2500 "
    "INTERSECT SELECT name, g FROM fact JOIN dim USING (k) WHERE x < 100",
    "windows over groups": "SELECT s, z, n, rank() OVER (PARTITION BY s ORDER BY n, z) AS r, "
    "n * 100.0 / sum(n) OVER (PARTITION BY s) AS part "
    "FROM (SELECT s, z, count(*) AS n FROM fact GROUP BY s, z)",
    "points of a series": "SELECT n, count(id), sum(x) FROM range(1000) AS r(n) LEFT JOIN fact "
    "ON k = n GROUP BY n",
    "below a node": "WITH RECURSIVE r(k) AS (SELECT 0 UNION SELECT k * 2 + 1 FROM r WHERE k < 500) "
    "SELECT r.k, count(*), sum(x) FROM r JOIN fact ON fact.k = r.k GROUP BY r.k",
    "nearest before": "SELECT f.k, count(*), sum(g.x) FROM fact AS f ASOF JOIN (FROM fact WHERE "
    "id % 100 = 0) AS g ON f.k = g.k AND f.id >= g.id GROUP BY f.k",
    "share of a total": "SELECT id, x / sum(x) OVER (PARTITION BY s) FROM fact WHERE z < 500",
    "two in one": "SELECT k, sum(x), max(y) FROM (SELECT k, x, y FROM fact WHERE z < 2500 "
    "UNION ALL SELECT k, -x, y FROM fact WHERE s = 'A') GROUP BY k",
    "bands": "SELECT b.k, count(*), sum(x) FROM fact JOIN (SELECT k, k * 5 AS low, k * 5 + 4 AS "
    "high FROM dim) AS b ON z BETWEEN low AND high GROUP BY b.k",
    "days of a calendar": "WITH RECURSIVE c(d) AS (SELECT DATE '2020-01-01' UNION ALL "
    "SELECT (d + INTERVAL 1 DAY)::DATE FROM c WHERE d < DATE '2022-08-01') "
    "SELECT d, count(id), sum(x) FROM c LEFT JOIN fact ON k = d - DATE '2020-01-01' GROUP BY d",
    "rows of a dimension": "SELECT id, name FROM fact JOIN dim USING (k) WHERE g = 3 AND z < 99",
}

CHANGES = {
    "fact": "DELETE FROM fact WHERE id BETWEEN {0}00 AND {0}99",
    "lineitem": "DELETE FROM lineitem WHERE l_orderkey BETWEEN {0}00 AND {0}99",
    "partsupp": "DELETE FROM partsupp WHERE ps_partkey BETWEEN {0}00 AND {0}25",
    "orders": "DELETE FROM orders WHERE o_orderkey BETWEEN {0}000 AND {0}399",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default="facts,layers,tpch")
    options = parser.parse_args()
    for name in options.only.split(","):
        with tidewheel.connect() as con, duckdb.connect() as peer:
            threads = con.execute("SHOW threads").fetchall()[0][0]
            peer.execute(f"SET threads = {threads}")
            if name in ("facts", "layers"):
                for at in (con, peer):
                    at.execute(TABLES.format(rows=options.rows))
                chosen = FACTS
                if name == "layers":
                    con.execute("CREATE MATERIALIZED VIEW seen AS FROM fact")
                    peer.execute("CREATE VIEW seen AS FROM fact")
                    chosen = {n: re.sub(r"\bfact\b", "seen", q) for n, q in FACTS.items()}
            else:
                folder = generate.DataFolder(options.data or generate.default_folder(options.scale))
                if not folder.complete(options.scale, 1):
                    generate.generate(folder, options.scale, 1, print)
                for at in (con, peer):
                    load(at, folder)
                chosen = {q.name: q.sql for q in queries.load(options.scale, [name])}
            # what is imported and prepared at the first use
            con.execute("CREATE MATERIALIZED VIEW warm AS SELECT 1 AS one")
            report(name, list(measured(con, peer, chosen, options.runs)))


class Row(NamedTuple):
    """One view: seconds of its fill, of DuckDB's run, of two changes, and megabytes of state."""

    name: str
    fill: float
    peer: float
    first: float
    second: float
    megabytes: float


def measured(
    con: tidewheel.Connection, peer: Any, chosen: dict[str, str], runs: int
) -> Iterator[Row]:
    """A row for each query; DuckDB's tables stay as they were."""
    changed = itertools.count(1)
    for name, query in chosen.items():
        read = query.replace("seen", "fact")
        change = next(text for table, text in CHANGES.items() if re.search(rf"\b{table}\b", read))
        mine, theirs, first, second = [], [], [], []
        for _ in range(runs):
            start = time.perf_counter()
            peer.sql(query).to_arrow_table()
            theirs.append(time.perf_counter() - start)
            start = time.perf_counter()
            con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
            mine.append(time.perf_counter() - start)
            kept = con.execute(
                "SELECT state_bytes FROM tidewheel_views() WHERE view_name = 'v'"
            ).fetchall()[0][0]
            for seconds in (first, second):
                start = time.perf_counter()
                con.execute(change.format(next(changed)))
                seconds.append(time.perf_counter() - start)
            con.execute("DROP MATERIALIZED VIEW v")
        found = map(statistics.median, (mine, theirs, first, second))
        yield Row(name, *found, (kept or 0) / 1e6)


def report(title: str, rows: list[Row]) -> None:
    """A line per view and the geometric mean."""
    print(f"{title:20}{'fill ms':>9}{'DuckDB':>8}{'times':>7}{'first':>7}{'second':>8}{'MB':>7}")
    for r in rows:
        print(
            f"{r.name:20}{r.fill * 1e3:9.0f}{r.peer * 1e3:8.1f}{r.fill / r.peer:7.1f}"
            f"{r.first * 1e3:7.1f}{r.second * 1e3:8.1f}{r.megabytes:7.1f}"
        )
    total = sum(r.fill for r in rows) / sum(r.peer for r in rows)
    ratio = geometric_mean([r.fill / r.peer for r in rows])
    print(f"geometric mean {ratio:.1f}, all together {total:.1f} times DuckDB")
    both = (sum(r.fill for r in rows), sum(r.first for r in rows), sum(r.second for r in rows))
    print(
        "all fills {:.0f} ms, first changes {:.0f}, second {:.0f}\n".format(
            *(s * 1e3 for s in both)
        )
    )


if __name__ == "__main__":
    main()
