"""What it takes to make a view over small tables: milliseconds of processor time, by stage.

    python benchmarks/planning.py [--runs 7] [--scale 0.01] [--data FOLDER] [--only simple]

`simple`: thirteen views over tables of a thousand rows. `tpch`: the 22 queries at a small scale.
Each run makes all of them one after the other in a database in memory, and reads each once; each
time their texts are others, so nothing is known of them. `parse` has sqlglot and what its text is
compared with, `bind` names and types, `rewrite` and `lower` the way to operators, `DuckDB` all of
its statements, whoever sends them, `rest` checks, the catalog, and the first rows. Medians.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

import tidewheel
from tidewheel.planner import lower_view, view_plan
from tidewheel.sql import binder, session, table_names, view_text
from tidewheel.tpch import generate, queries
from tidewheel.tpch.run import load

TABLES = """
CREATE TABLE f AS SELECT i::INTEGER AS id, (i % 50)::INTEGER AS k, (i * 7 % 100)::INTEGER AS x,
    (i * 13 % 1000 / 10)::DECIMAL(12, 2) AS d, 's' || (i % 20) AS s FROM range(1000) AS t(i);
CREATE TABLE g AS SELECT i::INTEGER AS k, 'name ' || (i % 10) AS name, i % 7 AS c
    FROM range(50) AS t(i);
CREATE TABLE e AS SELECT i::INTEGER AS a, (i + 1)::INTEGER AS b FROM range(1000) AS t(i)
    WHERE i % 10 <> 9
"""
SIMPLE = {
    "filter": "SELECT id, x * 2 AS y, s FROM f WHERE x > 50",
    "sum": "SELECT k, sum(x) AS t FROM f GROUP BY k",
    "sums, mean": "SELECT s, sum(x), sum(d), avg(x) FROM f GROUP BY s",
    "top 10": "SELECT * FROM f ORDER BY d DESC LIMIT 10",
    "join, sum": "SELECT name, sum(x), count(*) FROM f JOIN g ON f.k = g.k GROUP BY name",
    "left join": "SELECT f.id, g.name FROM f LEFT JOIN g ON f.k = g.k AND g.c < 3",
    "exists": "SELECT id, s FROM f WHERE EXISTS (SELECT 1 FROM g WHERE g.k = f.k AND c = 2)",
    "in": "SELECT id, s FROM f WHERE k IN (SELECT k FROM g WHERE c = 2)",
    "above a mean": "SELECT id FROM f WHERE x > (SELECT avg(x) FROM f AS h WHERE h.k = f.k)",
    "count distinct": "SELECT s, count(DISTINCT k) FROM f GROUP BY s",
    "window": "SELECT id, sum(x) OVER (PARTITION BY k ORDER BY id) AS r FROM f",
    "union": "SELECT k FROM f WHERE x > 70 UNION SELECT k FROM g",
    "reachability": "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT e.b FROM r JOIN e ON e.a = r.n) "
    "SELECT n FROM r",
}
STAGES = ("parse", "bind", "rewrite", "lower", "DuckDB")


class Clock:
    """Whose time it is: that of the innermost stage."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._stages = ["rest"]
        self._since = time.thread_time()

    def turn(self) -> None:
        """The time until now is that of the stage that was."""
        now = time.thread_time()
        self.seconds[self._stages[-1]] += now - self._since
        self._since = now

    def follow(self, owner: Any, name: str, stage: str) -> None:
        """What a function takes belongs to `stage`."""
        called = getattr(owner, name)

        def timed(*args: Any, **more: Any) -> Any:
            self.turn()
            self._stages.append(stage)
            try:
                return called(*args, **more)
            finally:
                self.turn()
                self._stages.pop()

        setattr(owner, name, timed)

    def follow_duckdb(self) -> None:
        """The same for DuckDB, which looks for tables in the frame that calls it."""
        owner = duckdb.DuckDBPyConnection
        call = compile("__result = __method(*__args, **__more)", "<called>", "exec")
        names = ("execute", "sql", "_submit", "_bind", "begin", "commit", "register", "unregister")

        def within(method: Any) -> Any:
            def called(*args: Any, **more: Any) -> Any:
                frame = sys._getframe(2).f_globals
                scope = {**frame, "__method": method, "__args": args, "__more": more}
                exec(call, scope)
                return scope["__result"]

            return called

        for name in names:
            if hasattr(owner, name):
                setattr(owner, name, within(getattr(owner, name)))
                self.follow(owner, name, "DuckDB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default="simple,tpch")
    options = parser.parse_args()
    clock = Clock()
    clock.follow_duckdb()
    for owner, name, stage in (
        (view_text, "parse_create", "parse"),
        (table_names, "tables_in", "parse"),
        (binder, "_parsed", "parse"),
        (session.Session, "bind", "bind"),
        (view_plan, "enum_places", "rewrite"),
        (view_plan, "rewritten", "rewrite"),
        (lower_view.ViewLowering, "place", "lower"),
    ):
        clock.follow(owner, name, stage)
    for name in options.only.split(","):
        if name == "simple":
            report(name, measured(lambda con: con.execute(TABLES), SIMPLE, options.runs, clock))
            continue
        folder = generate.DataFolder(options.data or generate.default_folder(options.scale))
        if not folder.complete(options.scale, 1):
            generate.generate(folder, options.scale, 1, print)
        chosen = {q.name: q.sql for q in queries.load(options.scale, [name])}
        report(name, measured(partial(load, folder=folder), chosen, options.runs, clock))


_texts = itertools.count(2)


def measured(
    fill: Callable[[Any], Any], chosen: dict[str, str], runs: int, clock: Clock
) -> dict[str, dict[str, float]]:
    """By view, the seconds of each stage."""
    found: dict[str, list[Counter[str]]] = {name: [] for name in chosen}
    for _ in range(runs + 1):
        with tidewheel.connect() as con:
            con.execute("SET threads = 1")
            fill(con)
            con.execute("CREATE MATERIALIZED VIEW warm AS SELECT 1 AS one")
            for i, (name, query) in enumerate(chosen.items()):
                text = query.replace(" ", " " * next(_texts), 1)
                clock.turn()
                clock.seconds.clear()
                con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {text}")
                con.execute(f"SELECT * FROM v{i}").fetchall()
                clock.turn()
                found[name].append(clock.seconds.copy())
    stages = (*STAGES, "rest")
    return {
        name: {s: statistics.median(run[s] for run in found[name][1:]) for s in stages}
        for name in chosen
    }


def report(title: str, views: dict[str, dict[str, float]]) -> None:
    """A line for each view, and one for all."""
    stages = (*STAGES, "rest")
    print(f"{title:16}" + "".join(f"{stage:>9}" for stage in (*stages, "all")))
    total = {stage: sum(view[stage] for view in views.values()) for stage in stages}
    for name, view in {**views, "all": total}.items():
        parts = [view[stage] for stage in stages]
        print(f"{name:16}" + "".join(f"{ms * 1e3:9.2f}" for ms in (*parts, sum(parts))))
    print()


if __name__ == "__main__":
    main()
