"""The 22 TPC-H queries against plain DuckDB on the same tables, in one run; Spark on request.

    python benchmarks/tpch.py [--scale 1] [--runs 7] [--data FOLDER] [--spark] [--only q01,q06]

Milliseconds. `first` is a text's first run here and there, the medians are of the later ones,
taken in turns so that both see the same machine. `over` is what Tidewheel adds to DuckDB. The
closing line has the geometric means, and the worst query by ratio and by milliseconds. Both engines
read tables in memory, loaded from the same Parquet files, and return Arrow tables; DuckDB uses as
many threads as Tidewheel lets it. With --spark each query also runs once warm on Spark local[2].
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

import tidewheel
from tidewheel.sql.compare import compare
from tidewheel.tpch import generate, queries, run
from tidewheel.tpch.schema import TABLES


def milliseconds(call: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def plain(folder: generate.DataFolder) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables that `run.load` makes."""
    con = duckdb.connect()
    for table in TABLES:
        columns = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in table.columns)
        con.execute(
            f"CREATE TABLE {table.name} AS SELECT {columns} "
            f"FROM read_parquet('{folder.files(table.name)}')"
        )
    return con


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--only", default="tpch")
    parser.add_argument("--fusion", choices=["on", "off"], default="on")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()

    folder = generate.DataFolder(given.data or generate.default_folder(given.scale))
    chosen = queries.load(given.scale, given.only.split(","))
    spark = generate.start_spark(given.scale) if given.spark else None
    generate.generate(folder, given.scale, 1, lambda text: None, spark)
    on_spark = generate.spark_queries(spark, folder) if spark is not None else None
    config: dict[str, Any] = {"fusion": given.fusion == "on"}
    if given.threads:
        config["threads"] = given.threads
    con = tidewheel.connect(**config)
    run.load(con, folder)
    duck = plain(folder)
    if given.threads:
        duck.execute(f"SET threads = {given.threads}").fetchall()

    print(f"TPC-H, scale factor {given.scale:g}, {given.runs} runs, milliseconds")
    print(f"{'':14}{'Tidewheel':>20}{'DuckDB':>20}{'':>8}{'':>8}{'Spark':>10}")
    print(f"{'':14}{'first':>10}{'median':>10}{'first':>10}{'median':>10}{'ratio':>8}{'over':>8}")
    rows: list[tuple[str, float, float, float, float]] = []
    for query in chosen:
        here: Callable[[], Any] = lambda q=query: con.execute(q.sql).to_arrow_table()  # type: ignore[misc]  # noqa: E731
        there: Callable[[], Any] = lambda q=query: duck.sql(q.sql).to_arrow_table()  # type: ignore[misc]  # noqa: E731
        first = milliseconds(here), milliseconds(there)
        assert compare(here(), there()).same, query.name
        times: tuple[list[float], list[float]] = [], []
        for i in range(given.runs):
            for side, call in ((0, here), (1, there)) if i % 2 else ((1, there), (0, here)):
                times[side].append(milliseconds(call))
        ours, theirs = statistics.median(times[0]), statistics.median(times[1])
        line = f"{query.name:14}{first[0]:10.1f}{ours:10.1f}{first[1]:10.1f}{theirs:10.1f}"
        line += f"{ours / theirs:8.3f}{ours - theirs:8.1f}"
        if spark is not None and on_spark is not None:
            generate.answer(spark, on_spark, query, folder)
            _, seconds = generate.answer(spark, on_spark, query, folder)
            line += f"{seconds * 1e3:10.0f}"
        print(line, flush=True)
        rows.append((query.name, first[0], ours, first[1], theirs))
    worst = max(rows, key=lambda r: r[2] / r[4])
    most = max(rows, key=lambda r: r[2] - r[4])
    print(
        f"\ngeometric mean of ratios: {mean([r[2] / r[4] for r in rows]):.3f} later, "
        f"{mean([r[1] / r[3] for r in rows]):.3f} first; "
        f"all: {sum(r[2] for r in rows):,.0f} against {sum(r[4] for r in rows):,.0f} ms; "
        f"worst ratio {worst[0]} {worst[2] / worst[4]:.2f}; most over {most[0]} "
        f"{most[2] - most[4]:.1f} ms"
    )


if __name__ == "__main__":
    main()
