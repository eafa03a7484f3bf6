"""Running the queries here and on Spark, and comparing the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from rich.table import Table as RichTable

from ..sql.compare import Comparison, compare
from ..sql.dbapi import Connection, connect
from .generate import DataFolder, answer, spark_queries
from .queries import Query
from .schema import TABLES

if TYPE_CHECKING:
    from ..engine.kernels.spark import Spark

Report = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """One query's run: rows and seconds here, seconds on Spark, and whether the answers agree.

    `comparison` is None where there is no answer of Spark's; `recorded` says that Spark's answer
    and time are those of an earlier run; `problem` is why a side failed.
    """

    query: Query
    rows: int | None = None
    seconds: float | None = None
    spark_seconds: float | None = None
    comparison: Comparison | None = None
    recorded: bool = False
    problem: str | None = None

    @property
    def failed(self) -> bool:
        """Did a side fail, or do the answers differ?"""
        return self.problem is not None or (
            self.comparison is not None and not self.comparison.same
        )


@contextmanager
def opened(folder: DataFolder, config: dict[str, Any], report: Report) -> Iterator[Connection]:
    """A connection in memory with the folder's tables loaded."""
    with connect(**config) as connection:
        report("loading the tables")
        load(connection, folder)
        yield connection


def load(connection: Connection | duckdb.DuckDBPyConnection, folder: DataFolder) -> None:
    """Creates the tables and fills them from the folder's Parquet files."""
    for table in TABLES:
        columns = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in table.columns)
        pattern = folder.files(table.name).replace("'", "''")
        connection.execute(
            f"CREATE TABLE {table.name} AS SELECT {columns} FROM read_parquet('{pattern}')"
        )


def run(
    connection: Connection,
    folder: DataFolder,
    queries: list[Query],
    spark: Spark | None,
    report: Report,
) -> Iterator[Outcome]:
    """Runs each query here and on Spark; without `spark` it is compared with recorded answers."""
    on_spark = spark_queries(spark, folder) if spark is not None else None
    for query in queries:
        report(f"{query.name}: here")
        try:
            start = time.perf_counter()
            rows = connection.execute(query.sql).to_arrow_table()
            seconds = time.perf_counter() - start
        except connection.Error as error:
            yield Outcome(query, problem=f"here: {error}")
            continue
        if spark is None:
            yield _against_record(query, rows, seconds, folder)
            continue
        report(f"{query.name}: on Spark")
        yield _against_spark(query, rows, seconds, spark, on_spark, folder)
    if on_spark is not None:
        on_spark.close()


def _against_record(query: Query, rows: pa.Table, seconds: float, folder: DataFolder) -> Outcome:
    found = folder.recorded(query)
    if found is None:
        return Outcome(query, rows.num_rows, seconds)
    expected, spark_seconds = found
    comparison = compare(rows, expected)
    return Outcome(query, rows.num_rows, seconds, spark_seconds, comparison, recorded=True)


def _against_spark(
    query: Query,
    rows: pa.Table,
    seconds: float,
    spark: Spark,
    on_spark: Any,
    folder: DataFolder,
) -> Outcome:
    from ..engine.kernels.spark import SparkError

    try:
        expected, spark_seconds = answer(spark, on_spark, query, folder)
    except SparkError as error:
        return Outcome(query, rows.num_rows, seconds, problem=f"on Spark: {error}")
    return Outcome(query, rows.num_rows, seconds, spark_seconds, compare(rows, expected))


def outcome_table(outcomes: list[Outcome], scale: float) -> RichTable:
    """The outcomes as a table for the terminal, totals at the end."""
    recorded = any(outcome.recorded for outcome in outcomes)
    table = RichTable(title=f"TPC-H, scale factor {scale:g}", title_justify="left")
    table.add_column("query")
    table.add_column("rows", justify="right")
    table.add_column("here", justify="right")
    table.add_column("Spark (recorded)" if recorded else "Spark", justify="right")
    table.add_column("answers")
    for i, outcome in enumerate(outcomes):
        last = i + 1 == len(outcomes)
        table.add_row(
            outcome.query.name,
            "–" if outcome.rows is None else f"{outcome.rows:,}",
            _time(outcome.seconds),
            _time(outcome.spark_seconds),
            _verdict(outcome),
            end_section=last or outcome.query.recursive != outcomes[i + 1].query.recursive,
        )
    same = sum(o.comparison is not None and o.comparison.same for o in outcomes)
    table.add_row(
        "all",
        "",
        _time(sum(o.seconds or 0 for o in outcomes)),
        _time(sum(o.spark_seconds or 0 for o in outcomes) or None),
        f"{same} of {len(outcomes)} the same",
    )
    return table


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1000:,.0f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def _verdict(outcome: Outcome) -> str:
    if outcome.problem is not None:
        return "[red]failed[/red]"
    if outcome.comparison is None:
        return "not compared"
    return "[green]same[/green]" if outcome.comparison.same else "[red]different[/red]"


def difference_lines(outcome: Outcome, shown: int = 5) -> list[str]:
    """What to print below the table about an outcome that failed."""
    if outcome.problem is not None:
        return [f"{outcome.query.name} failed {outcome.problem}"]
    found = outcome.comparison
    if found is None or found.same:
        return []
    lines = [
        f"{outcome.query.name} differs: {found.left_rows} rows here, {found.right_rows} on Spark"
    ]
    if found.problem:
        lines.append(f"  {found.problem}")
    return lines + [
        f"  {line}" for line in shown_rows(found, ("only here", "only on Spark"), shown)
    ]


def shown_rows(found: Comparison, titles: tuple[str, str], shown: int = 5) -> list[str]:
    """A line per differing row, the first ones of each side."""
    lines = []
    for title, rows in zip(titles, (found.only_left, found.only_right), strict=True):
        lines += [f"{title}, {count}×: {row}" for count, row in rows[:shown]]
        if len(rows) > shown:
            lines.append(f"{title}: {len(rows) - shown} more rows")
    return lines
