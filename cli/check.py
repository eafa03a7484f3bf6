"""`tidewheel check`: a query here and on Spark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from ..sql.check import Checked

_SHOWN = 10


@click.command(short_help="Run a query here and on Spark, and compare.")
@click.argument("database", required=False)
@click.option("-c", "--command", metavar="SQL", help="The query.")
@click.option("-f", "--file", "path", type=click.File(encoding="utf-8-sig"), help="Its file.")
@click.option("--threads", type=int, help="Degree of parallelism here.")
def check(
    database: str | None,
    command: str | None,
    path: TextIO | None,
    threads: int | None,
) -> None:
    """Run one query on DATABASE (default: in memory) and on Spark, and compare the answers.

    Answers are compared as multisets: doubles to 12 significant digits, decimals exactly. The
    exit code is 0 if they are the same, 1 if they differ or the query fails.
    """
    if (command is None) == (path is None):
        raise click.UsageError("give the query by either -c SQL or -f FILE")
    text = command if command is not None else path.read() if path else ""
    name = "<command>" if path is None else path.name

    from ..sql.check import check as run_check
    from ..sql.dbapi import connect
    from ..sql.errors import Error
    from .run import report

    try:
        config: dict[str, Any] = {} if threads is None else {"threads": threads}
        # Without a database file there is nothing to protect.
        with connect(
            database or ":memory:", read_only=database is not None, **config
        ) as connection:
            connection.enable_progress()  # else DuckDB may print a bar of its own
            checked = run_check(connection, text, report=_step)
    except Error as error:
        report(error, name)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("Interrupted", err=True)
        sys.exit(130)
    _print(checked)
    sys.exit(0 if checked.same else 1)


def _step(step: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{step} …", err=True)


def _print(checked: Checked) -> None:
    found = checked.comparison
    unit = "row" if found.left_rows == 1 else "rows"
    here = f"{found.left_rows} {unit} here in {checked.seconds_here:.3f} s"
    there = f"{found.right_rows} on Spark in {checked.seconds_spark:.3f} s"
    if checked.same:
        click.echo(f"same: {here}, {there}")
        return
    click.echo(f"different: {here}, {there}")
    if found.problem:
        click.echo(found.problem)
    for title, rows in (("only here", found.only_left), ("only on Spark", found.only_right)):
        for count, row in rows[:_SHOWN]:
            values = ", ".join(
                f"{column}={'NULL' if value is None else value}"
                for column, value in zip(checked.columns, row, strict=True)
            )
            click.echo(f"  {title}, {count}×: {values}")
        if len(rows) > _SHOWN:
            click.echo(f"  {title}: {len(rows) - _SHOWN} more rows")
    if checked.ordered_limit:
        click.echo("The query has a LIMIT: rows that tie for the last place may rightly differ.")
