"""The queries as maintained views while refresh functions change the tables.

Each epoch is one transaction with RF1 and RF2. What a view cost in it is read from
``tidewheel_views()``; beside it DuckDB runs the query from scratch on tables of its own that went
through the same changes, and both answers are compared as multisets.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table as RichTable

from ..sql.compare import Comparison, compare
from ..sql.dbapi import Connection
from .generate import DataFolder
from .queries import Query
from .refresh import apply_epoch, rf1_rows, rf2_rows
from .run import load, shown_rows
from .schema import TABLES

if TYPE_CHECKING:
    from ..engine.kernels.spark import Spark

Report = Callable[[str], None]


@dataclass
class Measured:
    """One view: what it cost, and whether it was right.

    Seconds: `filled` for its creation, `epochs` per epoch, `recomputed` for DuckDB's run of the
    query after each epoch (empty where DuckDB does not run it). `checked` counts comparisons that
    found no difference; `problem` says what went wrong first.
    """

    query: Query
    rows: int = 0
    filled: float = 0.0
    reason: str = ""
    epochs: list[float] = field(default_factory=list)
    recomputed: list[float] = field(default_factory=list)
    checked: int = 0
    problem: str | None = None

    @property
    def touched(self) -> bool:
        """Did an epoch change what the view reads?"""
        return any(self.epochs)

    @property
    def ratio(self) -> float | None:
        """How many times faster than recomputing, median by median; None if there is no telling."""
        if not (self.touched and self.recomputed):
            return None
        return statistics.median(self.recomputed) / statistics.median(filter(None, self.epochs))


class Churn:
    """Views over a folder's tables on `connection`, and DuckDB's own copy of the tables.

    `commits` are the seconds of each epoch: the changes, all views, the commit.
    """

    def __init__(
        self, connection: Connection, folder: DataFolder, queries: Iterable[Query], report: Report
    ) -> None:
        self.connection = connection
        self.folder = folder
        self.report = report
        self.epoch = 0
        self.commits: list[float] = []
        self.changed: list[int] = []
        report("loading the tables")
        load(connection, folder)
        threads = connection.execute("SHOW threads").fetchall()[0][0]
        self.peer = duckdb.connect(config={"threads": int(threads)})
        load(self.peer, folder)
        self.views = [self._create(query) for query in queries]

    def close(self) -> None:
        """Close DuckDB's copy; the connection is its owner's."""
        self.peer.close()

    def _create(self, query: Query) -> Measured:
        self.report(f"{query.name}: filling the view")
        view = Measured(query)
        start = time.perf_counter()
        try:
            self.connection.execute(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")
        except self.connection.Error as error:
            view.problem = f"cannot be created: {error}"
        view.filled = time.perf_counter() - start
        return view

    def step(self, compared: bool) -> None:
        """One epoch; with `compared` every view is held against its query afterwards."""
        self.epoch += 1
        self.report(f"epoch {self.epoch}: RF1 and RF2")
        start = time.perf_counter()
        self.changed.append(apply_epoch(self.connection, self.folder.path, self.epoch))
        self.commits.append(time.perf_counter() - start)
        costs = {
            name: (seconds, reason)
            for name, seconds, reason in self.connection.execute(
                "SELECT view_name, CASE WHEN last_epoch = max(last_epoch) OVER () "
                "THEN last_seconds ELSE 0 END, reason FROM tidewheel_views()"
            ).fetchall()
        }
        self._follow()
        for view in self.views:
            if view.query.name in costs:
                seconds, reason = costs[view.query.name]
                view.epochs.append(seconds)
                view.reason = reason or ""
                self._recompute(view, compared)

    def _follow(self) -> None:
        """The same changes to DuckDB's tables."""
        orders, lineitem = rf1_rows(self.folder.path, self.epoch)
        gone = rf2_rows(self.folder.path, self.epoch)
        self.peer.begin()
        for name, rows in (("orders", orders), ("lineitem", lineitem)):
            self.peer.register("__tw_new", rows)
            self.peer.execute(f"INSERT INTO {name} BY NAME FROM __tw_new").fetchall()
        self.peer.register("__tw_gone", gone)
        for name, key in (("lineitem", "l_orderkey"), ("orders", "o_orderkey")):
            chosen = f"{key} IN (SELECT o_orderkey FROM __tw_gone)"
            self.peer.execute(f"DELETE FROM {name} WHERE {chosen}").fetchall()
        self.peer.commit()

    def _recompute(self, view: Measured, compared: bool) -> None:
        self.report(f"epoch {self.epoch}: {view.query.name} from scratch")
        expected: pa.Table | None = None
        start = time.perf_counter()
        try:
            expected = self.peer.sql(view.query.sql).to_arrow_table()
            view.recomputed.append(time.perf_counter() - start)
        except duckdb.Error:
            view.recomputed.clear()  # a recursion that DuckDB does not run
        if not compared or view.problem is not None:
            return
        kept = self.rows(view)
        if expected is None:
            wrong = self.connection.execute(f"VERIFY VIEW {view.query.name}").fetchall()
            problem = f"VERIFY VIEW finds {len(wrong)} rows" if wrong else None
        else:
            problem = difference(compare(kept, expected), "recomputed")
        self._note(view, problem, f"after epoch {self.epoch}")

    def rows(self, view: Measured) -> pa.Table:
        """The rows that the view holds."""
        kept = self.connection.execute(f"FROM {view.query.name}").to_arrow_table()
        view.rows = kept.num_rows
        return kept

    def _note(self, view: Measured, problem: str | None, when: str) -> None:
        if problem is None:
            view.checked += 1
        elif view.problem is None:
            view.problem = f"{when}: {problem}"

    def check_on_spark(self, spark: Spark) -> None:
        """Every view against its query on Spark, over the tables as they are now."""
        from ..engine.kernels.spark import SparkError
        from ..planner.spark_recursion import SparkQueries
        from ..sql.check import parse_query

        on_spark = SparkQueries(spark)
        for table in TABLES:
            self.report(f"copying {table.name} to Spark")
            path = spark.folder / f"churn_{table.name}.parquet"
            reader = self.connection.execute(f"FROM {table.name}").to_arrow_reader()
            with pq.ParquetWriter(path, reader.schema, store_schema=False) as writer:
                for batch in reader:
                    writer.write_batch(batch)
            on_spark.add_table(table.name, spark.read_parquet(path))
        for view in self.views:
            if view.problem is not None:
                continue
            self.report(f"{view.query.name}: on Spark")
            try:
                expected = spark.arrow(on_spark.evaluate(parse_query(view.query.sql)))
            except SparkError as error:
                self._note(view, str(error), "on Spark")
                continue
            self._note(view, difference(compare(self.rows(view), expected), "Spark"), "on Spark")
        on_spark.close()


def difference(found: Comparison, other: str) -> str | None:
    """What differs between a view (left) and the other side, in a line; None if nothing does."""
    if found.same:
        return None
    lines = [f"{found.left_rows} rows in the view, {found.right_rows} {other}"]
    lines += [found.problem] if found.problem else []
    lines += shown_rows(found, ("only in the view", f"only {other}"))
    return "\n  ".join(lines)


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    logarithms = [math.log(v) for v in values]
    return math.exp(statistics.fmean(logarithms)) if logarithms else math.nan


def milliseconds(values: list[float]) -> str:
    """The median of seconds, as text."""
    return f"{statistics.median(values) * 1e3:,.1f} ms" if values else "–"


def summary(churn: Churn, scale: float) -> RichTable:
    """Times per view for the terminal, totals at the end.

    Views over tables that neither RF1 nor RF2 changes cost nothing; they are no part of the mean.
    """
    table = RichTable(
        title=f"TPC-H under RF1 and RF2, scale factor {scale:g}, {churn.epoch} epochs",
        title_justify="left",
    )
    for name in ("view", "rows", "filled", "epoch", "DuckDB", "faster"):
        table.add_column(name, justify="left" if name == "view" else "right", no_wrap=True)
    table.add_column("answers", no_wrap=True)
    for view in churn.views:
        ratio = view.ratio
        faster = "–" if ratio is None else f"{ratio:,.1f}×"
        right = f"right {view.checked}×" + (", recomputed" if view.reason else "")
        table.add_row(
            view.query.name,
            f"{view.rows:,}",
            f"{view.filled:,.2f} s",
            milliseconds(view.epochs) if view.touched else "untouched",
            milliseconds(view.recomputed),
            f"[red]{faster}[/red]" if ratio is not None and ratio < 1 else faster,
            "[red]wrong[/red]" if view.problem else right,
        )
    whole = zip(*(v.recomputed for v in churn.views if v.recomputed), strict=True)
    table.add_section()
    table.add_row(
        "all",
        "",
        f"{sum(v.filled for v in churn.views):,.1f} s",
        milliseconds(churn.commits),
        milliseconds([sum(seconds) for seconds in whole]),
        f"{geometric_mean(v.ratio for v in churn.views if v.ratio is not None):,.1f}×",
        f"{sum(v.problem is None for v in churn.views)} of {len(churn.views)} right",
    )
    return table
