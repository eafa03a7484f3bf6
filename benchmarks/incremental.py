"""Maintained views against Pathway and against DuckDB running the query again, in one run.

    python benchmarks/incremental.py [--only reach,hop] [--edges 500000] [--tenfold] [--json FILE]

The views, over edges (id, a, b) of a random graph with five edges per node:

    reach       the nodes that are reached from node 0 (recursive)
    hop         the number of paths of two edges: count(*) of the edges joined with themselves
    hop_by      the same by starting node (GROUP BY)
    components  the least node of each component (a minimum in the recursion); 20,000 nodes
    chain       reach on a chain of 5,000 nodes; the edge in the middle is cut and put back

For each: the first answer, what a view takes that is dropped and made again, and the query run
again; then the medians over transactions that insert, and ones that delete, 1,
100 and 10,000 edges. Milliseconds for everything from the statement to the committed answer:
Tidewheel's one INSERT or DELETE; for DuckDB the same statement and the query; for Pathway from
`commit()` to the row at its output (the rows are handed over before the clock starts).
`hop` also has DuckDB maintaining the count with handwritten SQL on the difference. `ratio` is
Tidewheel over the best of the others. All end with the same answer, or the line says so.
`--tenfold` repeats reach and hop with ten times the data and prints the ratios of one edge.

Pathway has its own environment, as it pins versions of what Tidewheel needs:

    python -m venv /tmp/pathway && /tmp/pathway/bin/pip install pathway
    python benchmarks/incremental.py --pathway /tmp/pathway/bin/python

Without it that column is left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

REACH = (
    "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT b FROM r JOIN edge ON a = x) SELECT {0} FROM r"
)
BOTH = "both_ways AS (SELECT a, b FROM edge UNION ALL SELECT b, a FROM edge)"
# view, a summary of it, and how DuckDB says it where it can't run the view's own query
QUERIES = {
    "reach": (REACH.format("x"), "SELECT count(*), sum(x) FROM ({0})", None),
    "chain": (REACH.format("x"), "SELECT count(*), sum(x) FROM ({0})", None),
    "hop": (
        "SELECT count(*) AS n FROM edge p JOIN edge q ON q.a = p.b",
        "SELECT max(n), 0 FROM ({0})",
        None,
    ),
    "hop_by": (
        "SELECT p.a, count(*) AS n FROM edge p JOIN edge q ON q.a = p.b GROUP BY p.a",
        "SELECT count(*), sum(n) FROM ({0})",
        None,
    ),
    "components": (
        f"WITH RECURSIVE {BOTH}, c(n, l) AS (SELECT n, n FROM node UNION SELECT g.b, min(c.l) "
        "FROM c JOIN both_ways g ON g.a = c.n GROUP BY g.b) SELECT n, l FROM c",
        "SELECT count(*), sum(l) FROM ({0})",
        f"WITH RECURSIVE {BOTH}, c(n, l) USING KEY (n) AS (SELECT n, n FROM node UNION "
        "SELECT g.b, min(c.l) FROM c JOIN both_ways g ON g.a = c.n JOIN recurring.c r ON r.n = g.b "
        "WHERE c.l < r.l GROUP BY g.b) SELECT n, l FROM c",
    ),
}
SIZES = (1, 100, 10_000)


@dataclass
class Workload:
    """A view, the edges it begins with, and the batches of edges to be inserted and deleted."""

    name: str
    nodes: int
    edges: np.ndarray[Any, Any]  # (n, 3): id, a, b
    batches: list[tuple[str, int, np.ndarray[Any, Any]]] = field(default_factory=list)


Times = dict[str, list[float]]  # "first", "insert 100", … → milliseconds


def workload(name: str, edge_count: int, sizes: tuple[int, ...], runs: int) -> Workload:
    """Random edits, the same for all engines."""
    rng = np.random.default_rng(7)
    if name == "chain":
        i = np.arange(5_000)
        found = Workload(name, 5_001, np.stack([i, i, i + 1], axis=1))
        ids = [2_500, 5_000, 5_001, 5_002]  # the edge that is put back has a new one each time
        for gone, come in pairwise(ids):
            found.batches.append(("delete", 1, np.array([[gone, 2_500, 2_501]])))
            found.batches.append(("insert", 1, np.array([[come, 2_500, 2_501]])))
        return found
    if name == "components":
        edge_count = max(edge_count // 5, 10)
    nodes = edge_count // 5
    edges = np.stack(
        [np.arange(edge_count), *(rng.integers(0, nodes, edge_count) for _ in "ab")], axis=1
    )
    found = Workload(name, nodes, edges)
    low, high = 1, edge_count  # edge 0 stays: Pathway is followed by the sum of the ids
    for size in sizes:
        times = runs if size < 10_000 else max(3, runs // 12)
        if low + size * times > edge_count:
            continue
        for _ in range(times):
            a, b = (rng.integers(0, nodes, size) for _ in "ab")
            fresh = np.stack([np.arange(high, high + size), a, b], axis=1)
            found.batches.append(("insert", size, fresh))
            found.batches.append(("delete", size, edges[low : low + size]))
            low, high = low + size, high + size
    return found


def note(times: Times, key: str, seconds: float) -> None:
    """Add a measurement."""
    times.setdefault(key, []).append(seconds * 1e3)


# -- Tidewheel and DuckDB ------------------------------------------------------------------------


def load(con: Any, work: Workload) -> None:
    """The tables."""
    con.execute("CREATE TABLE edge (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
    con.execute(f"CREATE TABLE node AS SELECT range::INTEGER AS n FROM range({work.nodes})")
    fill(con, work.edges)


def fill(con: Any, rows: np.ndarray[Any, Any]) -> None:
    """Insert many rows by a registered Arrow table."""
    con.register("__batch", arrow(rows))
    run(con, "INSERT INTO edge FROM __batch")
    con.unregister("__batch")


def run(con: Any, sql: str, parameters: Any = None) -> None:
    """A statement to its end: DuckDB has a row for every one, an unread row blocks."""
    done = con.execute(sql, parameters)
    if done.description is not None:
        done.fetchall()


def arrow(rows: np.ndarray[Any, Any]) -> Any:
    """Edges as an Arrow table."""
    import pyarrow as pa

    return pa.table({n: pa.array(rows[:, i], pa.int32()) for i, n in enumerate(("id", "a", "b"))})


def change(con: Any, kind: str, rows: np.ndarray[Any, Any]) -> float:
    """One statement; the seconds that it took."""
    low, high = int(rows[0, 0]), int(rows[-1, 0])
    batch = len(rows) > 1 and kind == "insert"
    if batch:
        con.register("__batch", arrow(rows))
    start = time.perf_counter()
    if batch:
        run(con, "INSERT INTO edge FROM __batch")
    elif kind == "insert":
        run(con, "INSERT INTO edge VALUES (?, ?, ?)", rows[0].tolist())
    elif low == high:
        run(con, "DELETE FROM edge WHERE id = ?", [low])
    else:
        run(con, "DELETE FROM edge WHERE id BETWEEN ? AND ?", [low, high])
    seconds = time.perf_counter() - start
    if batch:
        con.unregister("__batch")
    return seconds


def tidewheel_times(work: Workload) -> tuple[Times, Any]:
    """Every batch as one autocommitted statement."""
    import tidewheel

    times: Times = {}
    query, summary, _ = QUERIES[work.name]
    with tidewheel.connect() as con:  # load what is imported at the first use
        load(con, Workload(work.name, 10, work.edges[:10]))
        con.execute(f"CREATE MATERIALIZED VIEW answer AS {query}")
        change(con, "insert", np.array([[1_000_000_000, 0, 1]]))
    with tidewheel.connect() as con:
        load(con, work)
        for again in (False, True):
            start = time.perf_counter()
            con.execute(f"CREATE MATERIALIZED VIEW answer AS {query}")
            con.execute("SELECT 1 FROM answer LIMIT 1").fetchall()
            note(times, "again" if again else "first", time.perf_counter() - start)
            if not again:
                con.execute("DROP MATERIALIZED VIEW answer")
        for kind, size, rows in work.batches:
            note(times, f"{kind} {size}", change(con, kind, rows))
        final = con.execute(summary.format("FROM answer")).fetchall()[0]
    return times, [int(v) for v in final]


def duckdb_times(work: Workload) -> tuple[Times, Any]:
    """Every batch, then the query from scratch; its rows as an Arrow table."""
    import duckdb

    times: Times = {}
    query, summary, other = QUERIES[work.name]
    con = duckdb.connect()
    load(con, work)

    def again() -> float:
        start = time.perf_counter()
        con.sql(other or query).to_arrow_table()
        return time.perf_counter() - start

    note(times, "first", again())
    note(times, "again", again())
    done: dict[str, int] = {}
    for kind, size, rows in work.batches:
        key = f"{kind} {size}"
        done[key] = done.get(key, 0) + 1
        seconds = change(con, kind, rows)
        if done[key] <= 4:  # it takes as long each time
            note(times, key, seconds + again())
    final = con.execute(summary.format(other or query)).fetchall()[0]
    con.close()
    return times, [int(v) for v in final]


def handwritten_times(work: Workload) -> tuple[Times, Any]:
    """`hop` kept by SQL on the difference: δp⋈q + p⋈δq ± δp⋈δq, in one transaction."""
    import duckdb

    times: Times = {}
    con = duckdb.connect()
    load(con, work)
    start = time.perf_counter()
    con.execute(f"CREATE TABLE answer AS {QUERIES['hop'][0]}").fetchall()
    note(times, "first", time.perf_counter() - start)
    for kind, size, rows in work.batches:
        con.register("__delta", arrow(rows))
        sign = "+" if kind == "insert" else "-"
        start = time.perf_counter()
        con.execute("BEGIN")
        con.execute(
            f"UPDATE answer SET n = n {sign} (SELECT count(*) FROM __delta d JOIN edge q "
            f"ON q.a = d.b) {sign} (SELECT count(*) FROM edge p JOIN __delta d ON d.a = p.b) "
            "+ (SELECT count(*) FROM __delta p JOIN __delta q ON q.a = p.b)"
        ).fetchall()
        if kind == "insert":
            con.execute("INSERT INTO edge FROM __delta").fetchall()
        else:
            con.execute("DELETE FROM edge USING __delta d WHERE edge.id = d.id").fetchall()
        con.execute("COMMIT")
        note(times, f"{kind} {size}", time.perf_counter() - start)
        con.unregister("__delta")
    final = con.execute("SELECT n, 0 FROM answer").fetchall()[0]
    con.close()
    return times, [int(v) for v in final]


# -- Pathway, in a process of its own ------------------------------------------------------------


def pathway_times(work: Workload, python: str, limit: float) -> tuple[Times, Any] | None:
    """Run this file there; None if it fails or takes over `limit` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        name = str(Path(folder) / "work.npz")
        arrays = {f"batch{i}": rows for i, (_, _, rows) in enumerate(work.batches)}
        np.savez(name, edges=work.edges, **arrays)
        plan = [(kind, size) for kind, size, _ in work.batches]
        given = json.dumps({"name": work.name, "nodes": work.nodes, "plan": plan, "file": name})
        command = [python, __file__, "--as-pathway"]
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, timeout=limit, check=True
            )
        except subprocess.TimeoutExpired:
            print(f"  (Pathway: {work.name} took over {limit:g} s)")
            return None
        except (OSError, subprocess.CalledProcessError) as error:
            lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            wrong = [line for line in lines if "Error" in line] or lines
            print(f"  (Pathway: {wrong[-1] if wrong else error})")
            return None
    times, final = json.loads(done.stdout.splitlines()[-1])
    return times, final


def as_pathway() -> None:
    """The other side of `pathway_times`."""
    import logging

    import pathway as pw  # type: ignore[import-not-found]

    logging.disable(logging.CRITICAL)
    given = json.loads(sys.stdin.read())
    data = np.load(given["file"])
    times: Times = {}
    ended = threading.Event()
    latest: dict[str, int] = {}
    wanted = [0]

    class Edge(pw.Schema):  # type: ignore[misc]
        nr: int = pw.column_definition(primary_key=True)
        a: int
        b: int

    class Feed(pw.io.python.ConnectorSubject):  # type: ignore[misc]
        def run(self) -> None:
            rows = data["edges"]
            for i, a, b in rows.tolist():
                self.next(nr=i, a=a, b=b)
            self._send("first", int(rows[:, 0].sum()))
            for n, (kind, size) in enumerate(given["plan"]):
                rows = data[f"batch{n}"]
                sign = 1 if kind == "insert" else -1
                for i, a, b in rows.tolist():
                    if sign > 0:
                        self.next(nr=i, a=a, b=b)
                    else:
                        self.delete(nr=i, a=a, b=b)
                self._send(f"{kind} {size}", sign * int(rows[:, 0].sum()))

        def _send(self, key: str, moved: int) -> None:
            wanted[0] += moved
            start = time.perf_counter()
            self.commit()
            ended.wait()
            ended.clear()
            note(times, key, time.perf_counter() - start)

    edges = pw.io.python.read(Feed(), schema=Edge, autocommit_duration_ms=None)
    name = given["name"]
    if name in ("hop", "hop_by"):
        other = edges.copy()
        pairs = edges.join(other, pw.left.b == pw.right.a).select(a=pw.left.a)
        if name == "hop":
            out = pairs.reduce(n=pw.reducers.count(), s=0)
        else:
            by = pairs.groupby(pw.this.a).reduce(pw.this.a, n=pw.reducers.count())
            out = by.reduce(n=pw.reducers.count(), s=pw.reducers.sum(pw.this.n))
    elif name == "components":
        types = pw.schema_from_types(n=int, l=int)
        rows = [(i, i) for i in range(given["nodes"])]
        start = pw.debug.table_from_rows(types, rows)
        start = start.groupby(pw.this.n).reduce(pw.this.n, l=pw.reducers.min(pw.this.l))
        back = edges.select(a=pw.this.b, b=pw.this.a)
        both = pw.Table.concat_reindex(edges.select(pw.this.a, pw.this.b), back)

        def step(labels: Any, both: Any, start: Any) -> Any:
            found = labels.join(both, labels.n == both.a).select(n=both.b, l=labels.l)
            every = pw.Table.concat_reindex(start, found)
            best = every.groupby(pw.this.n).reduce(pw.this.n, l=pw.reducers.min(pw.this.l))
            return {"labels": best}

        found = pw.iterate(step, labels=pw.iterate_universe(start), both=both, start=start).labels
        out = found.reduce(n=pw.reducers.count(), s=pw.reducers.sum(pw.this.l))
    else:
        roots = pw.debug.table_from_rows(pw.schema_from_types(x=int), [(0,)])
        start = roots.groupby(pw.this.x).reduce(pw.this.x)

        def reach(reached: Any, edges: Any, roots: Any) -> Any:
            found = reached.join(edges, reached.x == edges.a).select(x=edges.b)
            every = pw.Table.concat_reindex(roots, found)
            return {"reached": every.groupby(pw.this.x).reduce(pw.this.x)}

        found = pw.iterate(
            reach, reached=pw.iterate_universe(start), edges=edges, roots=roots
        ).reached
        out = found.reduce(n=pw.reducers.count(), s=pw.reducers.sum(pw.this.x))
    # The sum of the ids changes every time, so that the output says something every time.
    ticks = edges.reduce(tick=pw.reducers.sum(pw.this.nr))
    shown = out.join(ticks).select(pw.left.n, pw.left.s, pw.right.tick)

    def on_change(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        # One row per time, when the time is complete: it is the answer.
        if is_addition:
            latest.update(row)
            if row["tick"] == wanted[0]:
                ended.set()

    pw.io.subscribe(shown, on_change=on_change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps([times, [latest["n"], latest["s"]]]))


# -- the table -----------------------------------------------------------------------------------


def report(work: Workload, options: argparse.Namespace) -> dict[str, Times]:
    """Run a workload on all engines and print its lines."""
    print(f"\n{work.name}: {work.nodes:,} nodes, {len(work.edges):,} edges", flush=True)
    found: dict[str, tuple[Times, Any]] = {"tidewheel": tidewheel_times(work)}
    found["duckdb"] = duckdb_times(work)
    if work.name == "hop":
        found["by hand"] = handwritten_times(work)
    if options.pathway:
        other = pathway_times(work, options.pathway, options.limit)
        if other is not None:
            found["pathway"] = other
    names = ["tidewheel", "duckdb", "by hand", "pathway"]
    names = [n for n in names if n in found]
    print(f"{'milliseconds':16}" + "".join(f"{n:>12}" for n in names) + f"{'ratio':>9}")
    rows: dict[str, Times] = {n: times for n, (times, _) in found.items()}
    for key in rows["tidewheel"]:
        medians = {n: statistics.median(rows[n][key]) for n in names if key in rows[n]}
        best = min((v for n, v in medians.items() if n != "tidewheel"), default=None)
        line = f"{key:16}" + "".join(
            f"{medians[n]:12.2f}" if n in medians else f"{'-':>12}" for n in names
        )
        print(line + (f"{medians['tidewheel'] / best:9.2f}" if best else ""), flush=True)
    for n, (_, final) in found.items():
        if final != found["tidewheel"][1]:
            print(f"  DIFFERENT ANSWER: {n} {final}, tidewheel {found['tidewheel'][1]}")
    return rows


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="reach,hop,hop_by,components,chain")
    parser.add_argument("--edges", type=int, default=500_000, help="components has a fifth of it")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="edges per transaction")
    parser.add_argument("--runs", type=int, default=40, help="transactions of each kind and size")
    parser.add_argument(
        "--tenfold", action="store_true", help="reach and hop also ten times larger"
    )
    parser.add_argument("--pathway", default="", help="a python that has pathway")
    parser.add_argument("--limit", type=float, default=600, help="seconds for Pathway per workload")
    parser.add_argument("--json", default="")
    parser.add_argument("--as-pathway", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_pathway:
        as_pathway()
        return
    if not options.pathway:
        print("(no column for Pathway: give --pathway PYTHON, see the top of this file)")
    sizes = tuple(int(s) for s in options.sizes.split(","))
    done: dict[str, dict[str, Times]] = {}
    names = [n for n in options.only.split(",") if n]
    unknown = [n for n in names if n not in QUERIES]
    if unknown:
        parser.error(f"no workload {unknown[0]}; there are {', '.join(QUERIES)}")
    for name in names:
        done[name] = report(workload(name, options.edges, sizes, options.runs), options)
    if options.tenfold:
        for name in [n for n in ("reach", "hop") if n in names]:
            larger = workload(name, 10 * options.edges, sizes[:2], options.runs)
            done[f"{name} tenfold"] = report(larger, options)
        print("\none edge at ten times the data, against the data once:")
        for name in [n for n in ("reach", "hop") if n in names]:
            for key in ("insert 1", "delete 1"):
                one, ten = (
                    statistics.median(done[n]["tidewheel"][key]) for n in (name, f"{name} tenfold")
                )
                print(f"{name:12}{key:12}{one:8.2f} ms {ten:8.2f} ms {ten / one:6.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps(done, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
