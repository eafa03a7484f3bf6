"""The interactive shell: `tidewheel`, `tidewheel shell [DATABASE]`; also what a pipe is read by."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ..sql import errors
from ..sql.cursor import Cursor
from ..sql.dbapi import Connection, connect
from ..sql.statements import tokens
from . import render
from .dot_commands import COMMANDS, OUTSIDE, Usage
from .parameters import hint
from .progress import ProgressBar
from .run import connection_options, report

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from ..sql.subscribe import Subscription

MODES = ("table", "csv", "json", "jsonl", "markdown", "line")


@dataclass
class Options:
    """What the dot-commands set."""

    mode: str = "table"
    timer: bool = False
    pager: bool = False
    progress_bar: bool = True
    max_rows: int = 40
    width: int = 0


class Shell:
    """Reads statements and dot-commands, runs them on one connection, prints what they give.

    `interactive`: somebody sits at a terminal, so errors do not end it and output fits the screen.
    """

    def __init__(self, database: str, config: dict[str, Any], interactive: bool) -> None:
        self.database = database
        self.config = config
        self.interactive = interactive
        self.options = Options()
        self.connection = self._connect(database)
        self.output: TextIO | None = None
        self.once: TextIO | None = None
        self.watched: dict[str, Subscription] = {}
        self.before_prompt: Callable[[], None] = lambda: None

    # -- the connection

    def _connect(self, database: str) -> Connection:
        connection = connect(database, **self.config)
        connection.enable_progress()  # else DuckDB may print a bar of its own among the rows
        return connection

    def open(self, database: str) -> None:
        """Go over to another database; the present one stays if that one does not open."""
        fresh = self._connect(database)
        self.close()
        self.database, self.connection = database, fresh

    def open_again(self) -> None:
        """Open the closed database, as `config` says now."""
        self.connection = self._connect(self.database)

    def close(self) -> None:
        """Close the connection and the files that are written to."""
        for subscription in self.watched.values():
            subscription.close()
        self.watched.clear()
        self.connection.close()

    def query(self, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """The rows of a query of the shell's own."""
        with self.connection.execute(sql, parameters) as cursor:
            return cursor.fetchall()

    def run_checked(self, sql: str) -> None:
        """Run a script for a dot-command; errors are the command's."""
        self._script(sql)

    # -- running

    def run(self, text: str, name: str = "<shell>", line: int | None = None) -> bool:
        """Run a dot-command or a script; False if it failed. KeyboardInterrupt goes through.

        `line`: where a dot-command stands in the file `name`.
        """
        place = "" if line is None else f"{name}:{line}: "
        start = click.style(f"{place}Error: ", fg="red", bold=True)
        try:
            if text.lstrip().startswith("."):
                self._command(text.strip().rstrip(";"))
            else:
                self._script(text)
                self.changes()
        except errors.Error as error:
            hint(error, shell=True)
            report(error, "<command>" if name == "<shell>" else name, place)
        except Usage as error:
            click.echo(start + str(error), err=True)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            problem = error.strerror or str(error)
            where = f"{error.filename}: " if error.filename else ""
            click.echo(start + where + problem, err=True)
        else:
            return True
        finally:
            if self.once is not None and not text.lstrip().startswith(".once"):
                self.once.close()
                self.once = None
        return False

    def _command(self, line: str) -> None:
        word, _, rest = line[1:].partition(" ")
        matching = [c for c in COMMANDS if c == word] or [c for c in COMMANDS if c.startswith(word)]
        if len(matching) != 1:
            import difflib

            close = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.5)
            hint = f"did you mean .{close[0]}?" if close else ".help lists what there is"
            hint = _AS_SQL.get(word, hint)
            if matching:
                hint = "it could be " + ", ".join(f".{c}" for c in matching)
            raise Usage(f"there is no command .{word}; {hint}")
        if self.config.get("safe_mode") and matching[0] in OUTSIDE:
            raise Usage(f"safe mode: .{matching[0]} reaches files")
        COMMANDS[matching[0]].run(self, rest.strip())

    def _script(self, text: str) -> None:
        statements = self.connection.script(text)
        while True:
            start = time.perf_counter()
            wanted = self.options.progress_bar and sys.stderr.isatty()
            with ProgressBar(self.connection, wanted) as bar:
                cursor = next(statements, None)
                if cursor is None:
                    return
                shown = "" if cursor.description is None else self._shown(cursor)
                bar.stop()
            self.write(shown, paged=True)
            if self.options.timer:
                click.echo(f"Time: {time.perf_counter() - start:.3f} s", err=True)

    def _shown(self, cursor: Cursor) -> str:
        """A result in the present mode."""
        mode = self.options.mode
        plan = render.explained(cursor)
        if plan is not None:
            return plan
        if mode == "table":
            to_file = self.once is not None or self.output is not None
            rows = 0 if to_file else self.options.max_rows
            width = self.options.width
            if not width and not to_file and sys.stdout.isatty():
                width = shutil.get_terminal_size().columns
            return render.table(cursor, rows, width)
        out = StringIO()
        if mode == "line":
            _lines(cursor, out)
        else:
            write = {
                "csv": render.csv,
                "json": render.json_array,
                "jsonl": render.jsonl,
                "markdown": render.markdown,
            }[mode]
            write(cursor, out)
        return out.getvalue()

    def write(self, text: str, paged: bool = False) -> None:
        """Write to where output goes; with `.pager on` what does not fit the screen is paged."""
        out = self.once or self.output
        if out is not None:
            out.write(text)
            out.flush()
        elif (
            paged
            and self.options.pager
            and self.interactive
            and text.count("\n") >= shutil.get_terminal_size().lines
        ):
            click.echo_via_pager(text)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()

    # -- watched views

    def changes(self) -> None:
        """Print what the last statements changed in the watched views."""
        if self.connection.in_transaction:
            return
        for name, subscription in list(self.watched.items()):
            try:
                while (update := subscription.read(timeout=0)) is not None:
                    # what went before what came
                    for _, weight, *values in sorted(update.rows(), key=lambda row: row[1]):
                        self._change(name, weight, values)
            except errors.OperationalError as error:  # it is another view now, or none; say it once
                del self.watched[name]
                subscription.close()
                click.echo(f"{name} is no longer watched: {error.message}", err=True)

    def _change(self, name: str, weight: int, values: list[Any]) -> None:
        sign, colour = ("+", "green") if weight > 0 else ("-", "red")
        times = f" ×{abs(weight)}" if abs(weight) > 1 else ""
        row = ", ".join("NULL" if v is None else str(v) for v in values)
        line = f"{name} {sign} {row}{times}"
        coloured = sys.stdout.isatty() and not (self.output or os.environ.get("NO_COLOR"))
        self.write((click.style(line, fg=colour) if coloured else line) + "\n")

    # -- reading

    def read(self, source: TextIO | Iterator[str], name: str) -> bool:
        """Run what a file or a pipe holds, to the first error; False if there was one."""
        waiting = ""
        for number, line in enumerate(source):
            if not waiting and line.lstrip().startswith("."):
                if not self.run(line, name, number + 1):
                    return False
                continue
            waiting = waiting + line if waiting else "\n" * number + line  # for errors' places
            if not waiting.strip():
                waiting = ""
            elif complete(waiting):
                if not self.run(waiting, name):
                    return False
                waiting = ""
        return not waiting.strip() or self.run(waiting, name)

    def loop(self, session: PromptSession[str]) -> None:
        """Read from the terminal until Ctrl-D or `.exit`."""
        while True:
            self.before_prompt()
            try:
                text = session.prompt()
            except KeyboardInterrupt:
                continue  # the line is given up
            except EOFError:
                return
            if not text.strip():
                continue
            try:
                lines = text.strip().splitlines()
                if len(lines) > 1 and any(line.lstrip().startswith(".") for line in lines):
                    self.read(StringIO(text), "<shell>")  # pasted, with dot-commands among it
                else:
                    self.run(meant(text))
            except KeyboardInterrupt:
                click.echo("Interrupted", err=True)
            except SystemExit:
                return


def meant(text: str) -> str:
    """What is typed, or the dot-command for what other shells call it."""
    line = text.strip().rstrip(";")
    if not line.startswith("\\"):
        return _ELSEWHERE.get(line.lower(), text)
    word, _, rest = line.partition(" ")
    word = word.rstrip("+") or word
    if word == "\\d" and rest:
        return f".schema {rest}"
    if word in _PSQL_SQL:
        return _PSQL_SQL[word]
    return f"{_PSQL.get(word, '.' + word[1:])} {rest}".rstrip()


_ELSEWHERE = {"exit": ".exit", "quit": ".exit", "help": ".help"}
_PSQL = {
    "\\q": ".exit", "\\?": ".help", "\\h": ".help", "\\d": ".tables", "\\dt": ".tables",
    "\\dv": ".views", "\\dm": ".views", "\\i": ".read", "\\o": ".output", "\\timing": ".timer",
    "\\x": ".mode line", "\\c": ".open",
}  # fmt: skip
_PSQL_SQL = {"\\l": "SHOW DATABASES;", "\\dn": "SHOW SCHEMAS;"}
_AS_SQL = {
    "copy": "COPY table TO 'file' and COPY table FROM 'file' are SQL",
    "databases": "SHOW DATABASES is SQL",
    "columns": "DESCRIBE table is SQL",
}


def complete(text: str) -> bool:
    """Is this a whole script: does it end in a semicolon outside strings and comments?

    A dot-command is a whole line, behind statements that are whole.
    """
    last = None
    for last in tokens(text):  # noqa: B007  the last one is wanted
        pass
    if last is not None and last.text == ";":
        return True
    before, _, line = text.rstrip().rpartition("\n")
    return line.lstrip().startswith(".") and (not before.strip() or complete(before))


def _lines(cursor: Cursor, out: TextIO) -> None:
    """One `name = value` a line, rows apart by an empty one."""
    names = render.names_of(cursor)
    width = max(map(len, names), default=0)
    for i, row in enumerate(cursor.text_rows()):
        if i:
            out.write("\n")
        for name, value in zip(names, row, strict=True):
            out.write(f"{name:>{width}} = {'NULL' if value is None else value}\n")


def _rc() -> Path:
    return Path("~/.tidewheelrc").expanduser()


@click.command(short_help="The interactive shell.")
@click.argument("database", required=False)
@click.option("--init", "init", metavar="FILE", help="Run FILE first, instead of ~/.tidewheelrc.")
@click.option("--no-init", is_flag=True, help="Run no ~/.tidewheelrc.")
@connection_options
def shell(
    database: str | None,
    init: str | None,
    no_init: bool,
    threads: int | None,
    readonly: bool,
    safe: bool,
) -> None:
    """The shell on DATABASE (default: in memory). `.help` lists its commands.

    A statement ends with a semicolon. What is piped in is run to its first error.
    """
    interactive = sys.stdin.isatty()
    config: dict[str, Any] = {"read_only": readonly, "safe_mode": safe}
    if threads is not None:
        config["threads"] = threads
    try:
        opened = Shell(database or ":memory:", config, interactive)
    except errors.Error as error:
        report(error, "<connection>")
        sys.exit(1)
    good = True
    try:
        start = Path(init) if init else _rc()
        if init or (interactive and not no_init and start.exists()):
            with start.open(encoding="utf-8") as file:
                good = opened.read(file, str(start))
        if not interactive:
            good = good and opened.read(sys.stdin, "<stdin>")
        else:
            from .prompt import make_session

            _greet(opened)
            opened.loop(make_session(opened))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        click.echo(f"Error: {error}", err=True)
        good = False
    except KeyboardInterrupt:
        click.echo("Interrupted", err=True)
        sys.exit(130)
    finally:
        opened.close()
    sys.exit(0 if good or interactive else 1)


def _greet(opened: Shell) -> None:
    import duckdb

    from tidewheel import __version__

    where = "in memory" if opened.database == ":memory:" else os.path.abspath(opened.database)
    click.echo(
        f"Tidewheel {__version__} (DuckDB {duckdb.__version__}), {where}\n"
        'Statements end with ";". Type ".help" for help, Ctrl-D to leave.'
    )
