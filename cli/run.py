"""`tidewheel run`: statements from the command line, a file or standard input."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import click

from .parameters import collect, hint

if TYPE_CHECKING:
    from ..sql.cursor import Cursor
    from ..sql.dbapi import Connection
    from ..sql.errors import Error

FORMATS = ("table", "csv", "json", "jsonl", "markdown", "parquet", "arrow")
_BINARY = ("parquet", "arrow")
_TEXT = ("table", "csv", "markdown")
_EXTENSIONS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".md": "markdown",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}


def connection_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say how a database is opened."""
    for option in (
        click.option(
            "--safe", is_flag=True, help="SQL reaches no file, network, extension or setting."
        ),
        click.option("--readonly", is_flag=True, help="Open the database read-only."),
        click.option("--threads", type=int, help="Degree of parallelism."),
    ):
        command = option(command)
    return command


@click.command(short_help="Run SQL statements and print what they give.")
@click.argument("database", required=False)
@click.argument("dash", required=False, metavar="[-]")
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Run SQL.")
@click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE", help="Run a file; - is stdin."
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="How rows are printed.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the rows to FILE, by its ending: .csv, .json, .jsonl, .md, .parquet, .arrow, .txt.",
)
@click.option(
    "-p", "--param", "params", multiple=True, metavar="[NAME=]VALUE", help="A parameter's value."
)
@click.option("--explain", is_flag=True, help="Explain queries instead of running them.")
@click.option("--timer", is_flag=True, help="Print each statement's time on stderr.")
@click.option("--max-rows", type=int, help="Rows shown of a table; 0: all. Default: 40.")
@connection_options
def run(
    database: str | None,
    dash: str | None,
    commands: tuple[str, ...],
    files: tuple[str, ...],
    form: str | None,
    output: str | None,
    params: tuple[str, ...],
    explain: bool,
    timer: bool,
    max_rows: int | None,
    threads: int | None,
    readonly: bool,
    safe: bool,
) -> None:
    """Run statements on DATABASE (default: in memory), given by -c, -f or on stdin.

    As table or markdown every result is printed; the other formats print the last one, so that
    the output is one valid document. --param values are typed as they look: 1, 1.5, true, null,
    2026-01-31; in single quotes they are text.
    """
    if dash not in (None, "-"):
        raise click.UsageError(f"unexpected argument {dash}; SQL is given with -c or -f")
    if database == "-":
        database, dash = None, "-"
    scripts = _scripts(commands, (*files, *([dash] if dash else [])))
    form = form or _form_of(output)
    if form in _BINARY and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{form} is binary: give --output FILE")
    values = collect(params)

    from ..sql.dbapi import connect
    from ..sql.errors import Error

    name = "<connection>"
    try:
        config: dict[str, Any] = {} if threads is None else {"threads": threads}
        with (
            connect(
                database or ":memory:", read_only=readonly, safe_mode=safe, **config
            ) as connection,
            _destination(output, form in _BINARY) as (out, finish),
        ):
            connection.enable_progress()  # else DuckDB may print a bar of its own among the rows
            printer = _Printer(connection, form, out, timer, max_rows, output is not None)
            for name, script in scripts:  # noqa: B007  `name` is for the error's message
                printer.run(script, values, explain)
            printer.last()
            finish()
    except Error as error:
        hint(error)
        report(error, name)
        sys.exit(1)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("Interrupted", err=True)
        sys.exit(130)


def _form_of(output: str | None) -> str:
    """The format that the ending of --output's name says; a table where it says none."""
    ending = os.path.splitext(output or "")[1].lower()
    if ending in _EXTENSIONS or ending in ("", ".txt", ".log", ".out"):
        return _EXTENSIONS.get(ending, "table")
    if output is not None and os.path.exists(output) and not os.path.isfile(output):
        return "table"  # a pipe or a device
    known = ", ".join(_EXTENSIONS)
    raise click.UsageError(
        f"no format is known for {ending}: give --format, or a name that ends in {known}; "
        "a .txt is a table"
    )


def report(error: Error, name: str, place: str = "") -> None:
    """An error on stderr: what is wrong, where, what would be right; red if it is a terminal.

    `place`: where it is if the error itself cannot know.
    """
    if not place and name not in ("<command>", "<connection>") and error.line is not None:
        place = f"{name}:{error.line}:{error.column}: "
    head, _, rest = str(error).partition("\n")
    click.echo(click.style(f"{place}Error: ", fg="red", bold=True) + head, err=True)
    if rest:
        click.echo(rest, err=True)


def _scripts(commands: tuple[str, ...], files: tuple[str, ...]) -> list[tuple[str, str]]:
    """(name, text) of what is to be run."""
    if commands and files:
        raise click.UsageError("give either -c or -f, not both")
    if commands:
        return [("<command>", text) for text in commands]
    if not files:
        if sys.stdin.isatty():
            raise click.UsageError("nothing to run: give -c SQL, -f FILE or -")
        files = ("-",)
    found: list[tuple[str, str]] = []
    for path in files:
        try:
            if path == "-":
                found.append(("<stdin>", sys.stdin.read()))
            else:
                with open(path, encoding="utf-8-sig") as file:
                    found.append((path, file.read()))
        except OSError as error:
            raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise click.ClickException(f"{path} is not UTF-8: {error.reason}") from None
    return found


@contextmanager
def _destination(
    output: str | None, binary: bool
) -> Iterator[tuple[TextIO | BinaryIO, Callable[[], None]]]:
    """Where rows go, and what is called at the end. A file appears only if all went well.

    What is there and no file, a pipe or a device, is written to as it is.
    """
    if output is None:
        if not binary and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(newline="")
        yield (sys.stdout.buffer if binary else sys.stdout), sys.stdout.flush
        return
    target = os.path.realpath(output)
    old = os.path.isfile(target)
    path = ""
    try:
        if os.path.exists(output) and not old:
            handle = os.open(output, os.O_WRONLY)
        else:
            handle, path = tempfile.mkstemp(prefix=".tidewheel-", dir=os.path.dirname(target))
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(path, stat.S_IMODE(os.stat(target).st_mode) if old else 0o666 & ~umask)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from None
    file: TextIO | BinaryIO
    if binary:
        file = os.fdopen(handle, "wb")
    else:
        file = os.fdopen(handle, "w", encoding="utf-8", newline="")

    def finish() -> None:
        file.close()
        if path:
            os.replace(path, target)

    try:
        yield file, finish
    finally:
        file.close()
        if path and os.path.exists(path):
            os.unlink(path)


class _Printer:
    """Runs scripts and prints what they give in one format."""

    def __init__(
        self,
        connection: Connection,
        form: str,
        out: TextIO | BinaryIO,
        timer: bool,
        max_rows: int | None,
        to_file: bool,
    ) -> None:
        self._connection = connection
        self._form = form
        self._out: Any = out
        self._timer = timer
        self._max_rows = 40 if max_rows is None and not to_file else max_rows or 0
        self._file = to_file
        self._width = shutil.get_terminal_size().columns if not to_file and out.isatty() else 0
        self._kept: Cursor | None = None

    def run(self, script: str, values: Any, explain: bool) -> None:
        """Run a script; a format of one document prints its last result when `last` is called."""
        from .progress import ProgressBar

        statements = self._connection.script(
            script, values, explain=explain, as_text=self._form in _TEXT
        )
        while True:
            start = time.perf_counter()
            with ProgressBar(self._connection, sys.stderr.isatty()) as bar:
                cursor = next(statements, None)
                if cursor is None:
                    return
                if cursor.description is not None:
                    if self._form in ("table", "markdown"):
                        self._print(cursor, bar.stop)
                    else:
                        if self._kept is not None:
                            self._kept.close()
                        self._kept = cursor
            if self._timer:
                click.echo(f"Time: {time.perf_counter() - start:.3f} s", err=True)

    def last(self) -> None:
        """Print the result that was kept."""
        from .progress import ProgressBar

        if self._kept is not None:
            with ProgressBar(self._connection, sys.stderr.isatty() and self._file) as bar:
                self._print(self._kept, bar.stop)

    def _print(self, cursor: Cursor, ready: Callable[[], None]) -> None:
        from . import binary, render

        if self._form == "table":
            text = render.explained(cursor)
            if text is None:
                text = render.table(cursor, self._max_rows, self._width)
            ready()
            self._out.write(text)
            return
        if not self._file:
            ready()
        if self._form == "parquet":
            binary.parquet(cursor, self._out)
        elif self._form == "arrow":
            (binary.arrow_file if self._file else binary.arrow_stream)(cursor, self._out)
        else:
            write = {
                "csv": render.csv,
                "json": render.json_array,
                "jsonl": render.jsonl,
                "markdown": render.markdown,
            }[self._form]
            write(cursor, self._out)
