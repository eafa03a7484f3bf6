# ruff: noqa: E501
"""Recursive queries against DuckDB, SQLite, DataFusion, Hyper and PostgreSQL, in one run.

    python benchmarks/recursion.py [--small] [--runs N] [--only TEXT,…] [--edges N] [--json FILE]

DataFusion and Hyper where their packages are installed, PostgreSQL with `--postgres`.
Milliseconds, the best of three times `--runs`, in turns; a peer that cannot say it, or takes over
`--limit` seconds once, is left out. Tidewheel's first runs of a text try what is faster, the loop or
DuckDB. Each line ends with Tidewheel's time over that of the fastest peer. All answers of a line
are compared. `--edges` also measures the queries as maintained views: an edge out and in again, each
with a read of the view, against the same changes in DuckDB and in Tidewheel without a view, each with
a run of the query. `USING KEY` is DuckDB's way to say shortest paths and components.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from recursion_peers import Peer, peers

import tidewheel

REACH = "WITH RECURSIVE t(x) AS (SELECT 0 UNION SELECT b FROM t JOIN {e} ON a = x) SELECT count(*), sum(x) FROM t"
CLOSURE = "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM {e} UNION SELECT t.x, g.b FROM t JOIN {e} g ON g.a = t.y) SELECT count(*), sum(y) FROM t"
PATHS = "WITH RECURSIVE d(n, v) AS (SELECT 0, 0 UNION SELECT g.b, min(d.v + g.w) FROM d JOIN {e} g ON g.a = d.n GROUP BY g.b) SELECT count(*), sum(v) FROM d"
PATHS_KEY = "WITH RECURSIVE d(n, v) USING KEY (n) AS (SELECT 0, 0 UNION SELECT g.b, min(d.v + g.w) FROM d JOIN {e} g ON g.a = d.n LEFT JOIN recurring.d r ON r.n = g.b WHERE r.v IS NULL OR d.v + g.w < r.v GROUP BY g.b) SELECT count(*), sum(v) FROM d"
BOTH = "s AS (SELECT a, b FROM {e} UNION ALL SELECT b, a FROM {e})"
COMPONENTS = f"WITH RECURSIVE {BOTH}, c(n, l) AS (SELECT a, a FROM s UNION SELECT s.b, min(c.l) FROM c JOIN s ON s.a = c.n GROUP BY s.b) SELECT count(*), sum(l) FROM c"
COMPONENTS_KEY = f"WITH RECURSIVE {BOTH}, c(n, l) USING KEY (n) AS (SELECT DISTINCT a, a FROM s UNION SELECT s.b, min(c.l) FROM c JOIN s ON s.a = c.n JOIN recurring.c r ON r.n = s.b WHERE c.l < r.l GROUP BY s.b) SELECT count(*), sum(l) FROM c"
GENERATION = "WITH RECURSIVE g(x, y) AS (SELECT p.b, q.b FROM {e} p JOIN {e} q ON p.a = q.a UNION SELECT p.b, q.b FROM g JOIN {e} p ON p.a = g.x JOIN {e} q ON q.a = g.y) SELECT count(*), sum(x) FROM g"
BOM = "WITH RECURSIVE b(part, n) AS (SELECT b, w FROM {e} WHERE a = 0 UNION ALL SELECT g.b, b.n * g.w FROM b JOIN {e} g ON g.a = b.part) SELECT count(*), sum(n) FROM b"
DISTANCES = "WITH RECURSIVE d(x, y, v) AS (SELECT a, b, 1 FROM {e} UNION SELECT d.x, g.b, min(d.v + 1) FROM d JOIN {e} g ON g.a = d.y GROUP BY d.x, g.b) SELECT count(*), sum(v) FROM d"
DISTANCES_KEY = "WITH RECURSIVE d(x, y, v) USING KEY (x, y) AS (SELECT a, b, 1 FROM {e} UNION SELECT d.x, g.b, min(d.v + 1) FROM d JOIN {e} g ON g.a = d.y LEFT JOIN recurring.d r ON r.x = d.x AND r.y = g.b WHERE r.v IS NULL GROUP BY d.x, g.b) SELECT count(*), sum(v) FROM d"
PAIRS = "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM {e} UNION SELECT t.x, u.y FROM t JOIN t u ON u.x = t.y) SELECT count(*), sum(y) FROM t"


@dataclass
class Cell:
    """A query on a graph; `duckdb` where DuckDB says it differently, `linear`: SQL's own recursion."""

    name: str
    query: str
    graph: str
    duckdb: str | None = None
    linear: bool = True
    times: dict[str, float] = field(default_factory=dict)


def graphs(small: bool) -> dict[str, pa.Table]:
    """Edges (a, b, w) of every graph."""
    rng = np.random.default_rng(7)
    nodes, edges = (10_000, 50_000) if small else (100_000, 500_000)
    side, little = (60, 20) if small else (300, 50)
    scale, rmat_edges = (12, 40_000) if small else (17, 1_000_000)

    def table(a: Any, b: Any) -> pa.Table:
        a, b = np.asarray(a, dtype=np.int32), np.asarray(b, dtype=np.int32)
        w = rng.integers(1, 20, len(a)).astype(np.int32)
        return pa.table({"a": a, "b": b, "w": w})

    def grid(n: int) -> pa.Table:
        i = np.arange(n * n)
        right, down = i[i % n < n - 1], i[i < n * (n - 1)]
        return table(np.concatenate([right, down]), np.concatenate([right + 1, down + n]))

    def tree(depth: int) -> pa.Table:
        i = np.arange(1, 2 ** (depth + 1) - 1)
        return table((i - 1) // 2, i)

    def chain(n: int) -> pa.Table:
        return table(np.arange(n), np.arange(1, n + 1))

    def rmat() -> pa.Table:
        a = np.zeros(rmat_edges, dtype=np.int64)
        b = np.zeros(rmat_edges, dtype=np.int64)
        for _ in range(scale):
            p = rng.random(rmat_edges)
            a = a * 2 + (p >= 0.76)
            b = b * 2 + (((p >= 0.57) & (p < 0.76)) | (p >= 0.95))
        return table(a, b)

    def bom() -> pa.Table:
        levels, width = (8, 6) if small else (10, 8)
        a, b = [], []
        for level in range(levels):
            for i in range(width):
                for j in rng.choice(width, 3, replace=False):
                    a.append(1 + (level - 1) * width + i if level else 0)
                    b.append(1 + level * width + int(j))
        found = table(a, b)
        return found.set_column(2, "w", pa.array(rng.integers(1, 3, len(found)), pa.int32()))

    return {
        "random": table(rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)),
        "grid": grid(side),
        "smallgrid": grid(little),
        "tree11": tree(7 if small else 11),
        "tree17": tree(10 if small else 17),
        "chain5k": chain(500 if small else 5_000),
        "chain20k": chain(2_000 if small else 20_000),
        "rmat": rmat(),
        "parts": bom(),
    }


def cells() -> list[Cell]:
    """The lines of the table."""
    found = [
        Cell("reachability", REACH, g)
        for g in ("random", "grid", "chain5k", "chain20k", "rmat", "tree17")
    ]
    found += [Cell("closure", CLOSURE, g) for g in ("smallgrid", "tree11", "tree17")]
    found += [Cell("closure, non-linear", PAIRS, "tree11", CLOSURE, linear=False)]
    found += [Cell("paths", PATHS, g, PATHS_KEY, linear=False) for g in ("random", "grid", "rmat")]
    found += [
        Cell("components", COMPONENTS, g, COMPONENTS_KEY, linear=False)
        for g in ("random", "grid", "rmat")
    ]
    found += [Cell("generation", GENERATION, g) for g in ("tree11",)]
    found += [Cell("bill of materials", BOM, "parts")]
    found += [Cell("distances", DISTANCES, "smallgrid", DISTANCES_KEY, linear=False)]
    return found


def text(cell: Cell, engine: str) -> str | None:
    """A cell's query for an engine; None if it cannot say it."""
    if engine == "duckdb" and cell.duckdb:
        return cell.duckdb.format(e=cell.graph)
    if engine not in ("tidewheel", "duckdb") and not cell.linear:
        return None
    return cell.query.format(e=cell.graph)


def measure(
    table: dict[str, Peer], cell: Cell, runs: int, limit: float
) -> dict[str, list[tuple[int, ...]]]:
    """Everyone's answer; `cell.times` is the best time in ms of each.

    Each runs `runs` times, with warm caches, and all do so in turns, `TURNS` times, so that what else
    the machine does meets all alike. Who cannot say it or takes too long is left out, who is slow
    runs once.
    """
    answers: dict[str, list[tuple[int, ...]]] = {}
    going = {name: sql for name in table if (sql := text(cell, name)) is not None}
    for name in [*going] * TURNS:
        run, stop = table[name]
        for _ in range(runs if name in going else 0):
            timer = threading.Timer(limit, stop)
            timer.start()
            start = time.perf_counter()
            try:
                answer = run(going[name])
            except Exception:  # a peer's refusal is a result of this table
                del going[name]
                break
            finally:
                timer.cancel()
            spent = time.perf_counter() - start
            answers[name] = [tuple(int(v) for v in row) for row in answer]
            cell.times[name] = min(cell.times.get(name, math.inf), spent * 1000)
            if spent > limit / 3:
                del going[name]
                break
    return answers


TURNS = 3
AGAIN = 25
"""Runs of a line that is over `OVER` times DuckDB's: a few milliseconds differ by more from run to run."""
OVER = 1.1


def again(table: dict[str, Peer], cells: list[Cell]) -> None:
    """The lines in which DuckDB was the faster by a tenth, run by run in turns with DuckDB alone."""
    print(f"again, in turns with DuckDB{'best':>17}{'median':>12}{'DuckDB best':>14}{'median':>8}")
    for cell in cells:
        times: dict[str, list[float]] = {"tidewheel": [], "duckdb": []}
        for _ in range(AGAIN):
            for name, spent in times.items():
                sql = text(cell, name)
                assert sql is not None
                start = time.perf_counter()
                table[name][0](sql)
                spent.append((time.perf_counter() - start) * 1000)
        (best, median), (least, middle) = ((min(t), statistics.median(t)) for t in times.values())
        numbers = f"{best:12.1f}{median:12.1f}{least:14.1f}{middle:8.1f}"
        ratios = f"times {best / least:.2f} and {median / middle:.2f}"
        print(f"{cell.name + ' ' + cell.graph:32}{numbers}   {ratios}", flush=True)


def maintained(cells: list[Cell], data: dict[str, pa.Table], edges: int, limit: float) -> None:
    """Of each query as a maintained view: one edge out, the same edge in, against recomputation.

    All sides make the change: "recompute" (Tidewheel without the view) and "duckdb" are medians of
    it and the query. DuckDB is left out where its query took over `limit` / 3 seconds.
    """
    con, duck = tidewheel.connect(), duckdb.connect()
    rng = np.random.default_rng(3)
    head = f"{'maintained':32}{'fill':>12}{'edge out':>12}{'edge in':>12}"
    print(f"{head}{'recompute':>12}{'duckdb':>12}{'times':>10}")
    for cell in cells:
        for each in (con, duck):
            each.register("__edges", data[cell.graph])
            each.execute(f"CREATE OR REPLACE TABLE {cell.graph} AS SELECT * FROM __edges")
            each.unregister("__edges")
        query, theirs = cell.query.format(e=cell.graph), text(cell, "duckdb")
        name = f"{cell.name} {cell.graph}"
        start = time.perf_counter()
        con.execute(f"CREATE MATERIALIZED VIEW kept AS {query}")
        fill = time.perf_counter() - start
        spent: tuple[list[float], list[float]] = ([], [])
        reruns: list[float] = []
        table = data[cell.graph]
        asked = cell.times.get("duckdb", math.inf) < limit / 3 * 1000
        for at in rng.integers(0, len(table), edges):
            a, b, w = (table.column(c)[int(at)].as_py() for c in "abw")
            changes = (
                f"DELETE FROM {cell.graph} WHERE a = {a} AND b = {b} AND w = {w}",
                f"INSERT INTO {cell.graph} VALUES ({a}, {b}, {w})",
            )
            for change, times in zip(changes, spent, strict=True):
                times.append(_timed(con, change, "FROM kept"))
                if theirs and asked:
                    reruns.append(_timed(duck, change, theirs))
        kept = con.execute("FROM kept").fetchall()
        con.execute("DROP MATERIALIZED VIEW kept")
        wrong = "" if kept == con.execute(query).fetchall() else "  DIFFERENT ANSWER"
        again = statistics.median(_timed(con, change, query) for change in changes)
        out, into = map(statistics.median, spent)
        anew = statistics.median(reruns) if reruns else math.nan
        gain = min(again, anew if reruns else again) / max(out, into)
        numbers = f"{fill * 1000:12.0f}{out:12.2f}{into:12.2f}{again:12.1f}{anew:12.1f}"
        print(f"{name:32}{numbers}{gain:10.1f}{wrong}", flush=True)


def _behind(cell: Cell) -> bool:
    """Was DuckDB the faster by more than a tenth?"""
    ours, theirs = (cell.times.get(name, math.inf) for name in ("tidewheel", "duckdb"))
    return ours < math.inf and ours > OVER * theirs


def _timed(con: Any, change: str, read: str) -> float:
    """Milliseconds for a change and for what is read after it."""
    start = time.perf_counter()
    changed = con.execute(change)
    if isinstance(con, duckdb.DuckDBPyConnection):
        changed.fetchall()  # what is not read to its end is not done
    con.execute(read).fetchall()
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--small", action="store_true", help="small graphs: some seconds in all")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds per query")
    parser.add_argument("--only", default="", help="parts of lines' names or graphs, with commas")
    parser.add_argument("--postgres", default="", help="libpq connection string of a server to use")
    parser.add_argument("--edges", type=int, default=0, help="also maintained: this many changes")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    data = graphs(options.small)
    asked = [c for c in cells() if any(o in f"{c.name} {c.graph}" for o in options.only.split(","))]
    data = {name: rows for name, rows in data.items() if any(c.graph == name for c in asked)}
    table = peers(data, options.postgres, options.limit)
    print(f"{'query':32}" + "".join(f"{name:>12}" for name in table) + f"{'ours/best':>12}")
    run, _ = table["tidewheel"]
    run("WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT x FROM t) SELECT count(*) FROM t")  # imports
    ratios: list[float] = []
    against: dict[str, list[float]] = {}
    done = []
    for cell in asked:
        title = f"{cell.name} {cell.graph}"
        answers = measure(table, cell, options.runs, options.limit)
        wrong = {n for n, a in answers.items() if a != answers.get("tidewheel")}
        others = [t for n, t in cell.times.items() if n != "tidewheel"]
        line = f"{title:32}"
        for name in table:
            line += f"{cell.times[name]:12.1f}" if name in cell.times else f"{'-':>12}"
        if others and "tidewheel" in cell.times:
            ratio = cell.times["tidewheel"] / min(others)
            ratios.append(ratio)
            line += f"{ratio:12.2f}"
            for name, spent in cell.times.items():
                against.setdefault(name, []).append(cell.times["tidewheel"] / spent)
        print(
            line + (f"  DIFFERENT ANSWER: {', '.join(sorted(wrong))}" if wrong else ""), flush=True
        )
        done.append({"query": cell.name, "graph": cell.graph, "ms": cell.times})
    for label, values in {"the fastest peer": ratios, **against}.items():
        if values and label != "tidewheel":
            mean = math.exp(sum(math.log(v) for v in values) / len(values))
            count = f"{len(values)} queries"
            print(f"against {label}: {count}, geometric mean {mean:.2f}, worst {max(values):.2f}")
    slower = [c for c in asked if _behind(c)]
    if slower:
        again(table, slower)
    if options.edges:
        maintained(asked, data, options.edges, options.limit)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(done, file, indent=1)


if __name__ == "__main__":
    main()
