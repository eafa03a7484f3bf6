"""``python -m slt``: run sqllogictest files, ours or another engine's, and record ours."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click

from slt.engines import CONFIGURATIONS
from slt.parser import FormatError, parse
from slt.record import RecordError
from slt.record import new as make_new
from slt.record import record as record_file
from slt.runner import Runner

SUFFIXES = (".slt", ".test", ".test_slow")


def scripts(paths: tuple[Path, ...]) -> Iterator[Path]:
    """The files named, and those below the folders named."""
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES)
        else:
            yield path


@click.group()
def main() -> None:
    """Run and record sqllogictest files."""


PATHS = click.argument(
    "paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)


@main.command()
@PATHS
@click.option("--on", type=click.Choice(list(CONFIGURATIONS)), default="fused-1", show_default=True)
@click.option("--style", type=click.Choice(["tidewheel", "duckdb", "sqlite"]), default=None)
@click.option("--failures", default=10, show_default=True, help="Failures to print per file.")
def run(paths: tuple[Path, ...], on: str, style: str | None, failures: int) -> None:
    """Run files on an engine and print a line per file that does not pass."""
    passed = failed = skipped = 0
    for path in scripts(paths):
        try:
            with tempfile.TemporaryDirectory() as scratch:
                script = parse(path)
                result = Runner(script, CONFIGURATIONS[on](), Path(scratch), style=style).run()
        except FormatError as error:
            click.echo(str(error))
            failed += 1
            continue
        passed += result.passed
        failed += len(result.failures)
        skipped += result.skipped
        if result.skip_reason:
            click.echo(f"{path}: skipped: {result.skip_reason}")
        if result.failures:
            click.echo(f"{path}: {len(result.failures)} of {result.passed + len(result.failures)}")
            for failure in result.failures[:failures]:
                click.echo(f"{failure}\n")
    click.echo(f"{on}: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


@main.command()
@PATHS
def record(paths: tuple[Path, ...]) -> None:
    """Fill in types and answers from plain DuckDB."""
    for path in scripts(paths):
        try:
            click.echo(f"{path}: {record_file(path)} queries recorded")
        except (RecordError, FormatError) as error:
            raise click.ClickException(str(error)) from None


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("sql", type=click.File())
def new(path: Path, sql: IO[str]) -> None:
    """Make PATH out of the statements in the file SQL, and record it."""
    try:
        click.echo(f"{path}: {make_new(path, sql.read())} queries recorded")
    except (RecordError, FormatError) as error:
        raise click.ClickException(str(error)) from None


main()
