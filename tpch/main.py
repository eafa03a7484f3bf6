"""`tidewheel tpch`: generate the data, run the queries."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..engine.kernels.spark import Spark
    from .generate import DataFolder
    from .queries import Query

EPOCHS = 10


def _fit(_: click.Context, __: click.Parameter, scale: float) -> float:
    from .generate import unfit

    if reason := unfit(scale):
        raise click.BadParameter(reason)
    return scale


_scale = click.option(
    "--scale",
    type=float,
    required=True,
    callback=_fit,
    help="Scale factor: 1 is 6 million lineitems; 0.01 is small.",
)
_threads = click.option("--threads", type=click.IntRange(1), help="Degree of parallelism here.")
_epochs = click.option(
    "--epochs",
    type=click.IntRange(1, 1000),
    default=EPOCHS,
    show_default=True,
    help="Refresh sets to make.",
)


class _Steps:
    """What is going on, on stderr: a line that is rewritten on a terminal, else a line a step."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def __call__(self, step: str) -> None:
        seconds = time.monotonic() - self._start
        line = f"{seconds:7.1f} s  {step}"
        if self._terminal:
            click.echo(f"\r\x1b[K{line}", nl=False, err=True)
        else:
            click.echo(line, err=True)

    def end(self) -> None:
        if self._terminal:
            click.echo("\r\x1b[K", nl=False, err=True)


@contextmanager
def _errors(steps: _Steps) -> Iterator[None]:
    """Errors as one line on stderr and exit code 1, Ctrl-C as 130."""
    from ..engine.kernels.spark import SparkError
    from ..sql.errors import Error
    from .generate import GenerateError
    from .pipeline import PipelineError

    try:
        yield
    except (SparkError, Error, GenerateError, PipelineError, OSError) as error:
        steps.end()
        click.echo(click.style("Error: ", fg="red", bold=True) + str(error), err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        steps.end()
        click.echo("Interrupted; what is incomplete will be made again", err=True)
        sys.exit(130)


def _folder(path: Path | None, scale: float) -> DataFolder:
    from .generate import DataFolder, default_folder

    return DataFolder(path or default_folder(scale))


def _queries(scale: float, wanted: tuple[str, ...]) -> list[Query]:
    from .queries import load

    names = [name for text in wanted for name in text.split(",") if name.strip()]
    try:
        return load(scale, names)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--queries") from None


@click.group(short_help="Generate TPC-H data and run its queries.")
def tpch() -> None:
    """TPC-H on a Spark pipeline: data made and checked by Spark, queries run here and there."""


@tpch.command()
@_scale
@click.option("--out", type=click.Path(path_type=Path), help="The data folder.")
@_epochs
@click.option("--no-answers", is_flag=True, help="Do not have Spark answer the queries.")
def generate(scale: float, out: Path | None, epochs: int, no_answers: bool) -> None:
    """Make the data of a scale factor: Parquet, refresh sets, and Spark's own answers.

    A complete folder is kept as it is, an incomplete one is made again.
    """
    from . import generate as making

    steps = _Steps()
    folder = _folder(out, scale)
    queries = [] if no_answers else _queries(scale, ())
    with _errors(steps), ExitStack() as stack:
        spark: Spark | None = None
        if not folder.complete(scale, epochs):
            steps("starting Spark")
            spark = stack.enter_context(making.start_spark(scale))
        making.generate(folder, scale, epochs, steps, spark)
        missing = [query for query in queries if folder.recorded(query) is None]
        if missing:
            if spark is None:
                steps("starting Spark")
                spark = stack.enter_context(making.start_spark(scale))
            on_spark = making.spark_queries(spark, folder)
            for query in missing:
                steps(f"{query.name}: Spark's answer")
                making.answer(spark, on_spark, query, folder)
    steps.end()
    click.echo(f"scale factor {scale:g} is ready in {folder.path}")


@tpch.command()
@_scale
@_threads
@click.option(
    "--queries", "wanted", multiple=True, help="Some only: 1,q06,bom_explosion; tpch; recursive."
)
@click.option("--no-spark", is_flag=True, help="Compare with Spark's recorded answers, if any.")
@click.option("--data", type=click.Path(path_type=Path), help="The data folder.")
@_epochs
def run(
    scale: float,
    threads: int | None,
    wanted: tuple[str, ...],
    no_spark: bool,
    data: Path | None,
    epochs: int,
) -> None:
    """Run the 22 queries and the recursive ones here and on Spark, and compare the answers.

    Missing data are generated first, into --data or ./tidewheel-tpch. The exit code is 1 if any
    answer differs or fails.
    """
    from rich.console import Console

    from . import generate as making
    from . import run as running

    steps = _Steps()
    queries = _queries(scale, wanted)
    folder = _folder(data, scale)
    config = {} if threads is None else {"threads": threads}
    outcomes: list[running.Outcome] = []
    with _errors(steps), ExitStack() as stack:
        spark: Spark | None = None
        if not no_spark or not folder.complete(scale, epochs):
            steps("starting Spark")
            spark = stack.enter_context(making.start_spark(scale, threads or 2))
        making.generate(folder, scale, epochs, steps, spark)
        if no_spark and spark is not None:
            spark.stop()
        connection = stack.enter_context(running.opened(folder, config, steps))
        against = None if no_spark else spark
        for outcome in running.run(connection, folder, queries, against, steps):
            outcomes.append(outcome)
    steps.end()
    console = Console()
    console.print(running.outcome_table(outcomes, scale))
    for outcome in outcomes:
        for line in running.difference_lines(outcome):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    sys.exit(1 if any(outcome.failed for outcome in outcomes) else 0)


@tpch.command()
@_scale
@_epochs
@_threads
@click.option(
    "--every",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Compare every n-th epoch.",
)
@click.option("--spark/--no-spark", default=True, help="Compare with Spark at the end.")
@click.option(
    "--queries", "wanted", multiple=True, help="Some only: 1,q06,bom_explosion; tpch; recursive."
)
@click.option("--data", type=click.Path(path_type=Path), help="The data folder.")
def refresh(
    scale: float,
    epochs: int,
    threads: int | None,
    every: int,
    spark: bool,
    wanted: tuple[str, ...],
    data: Path | None,
) -> None:
    """Keep all queries as maintained views while RF1 and RF2 change the tables.

    Each epoch inserts 0.1% of the orders and deletes as many, in one transaction; then the views
    are compared with DuckDB's run of their queries, and at the end with Spark's. The table shows
    the median time that each view took per epoch, and DuckDB's for the query. Missing data are
    generated first, into --data or ./tidewheel-tpch. The exit code is 1 if any view is wrong.
    """
    from rich.console import Console

    from ..sql.dbapi import connect
    from . import generate as making
    from .churn import Churn, summary

    steps = _Steps()
    queries = _queries(scale, wanted)
    folder = _folder(data, scale)
    config: dict[str, Any] = {} if threads is None else {"threads": threads}
    with _errors(steps), ExitStack() as stack:
        if not folder.complete(scale, epochs):
            steps("starting Spark")
            with making.start_spark(scale, threads or 2) as session:
                making.generate(folder, scale, epochs, steps, session)
        connection = stack.enter_context(connect(**config))
        churn = Churn(connection, folder, queries, steps)
        stack.callback(churn.close)
        for epoch in range(1, epochs + 1):
            churn.step(epoch % every == 0 or epoch == epochs)
        if spark:
            steps("starting Spark")
            churn.check_on_spark(stack.enter_context(making.start_spark(scale, threads or 2)))
    steps.end()
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(summary(churn, scale))
    problems = [view for view in churn.views if view.problem is not None]
    for view in problems:
        console.print(
            f"{view.query.name}: {view.problem}", markup=False, highlight=False, soft_wrap=True
        )
    sys.exit(1 if problems else 0)
