"""The shell's dot-commands: one function each, in one table."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidewheel.engine.quoting import literal, quoted

from .definitions import Definitions, maintained, rows_of, shown

if TYPE_CHECKING:
    from .shell import Shell


class Usage(Exception):
    """A dot-command was not given what it needs; the message says what that is."""


@dataclass(frozen=True)
class Command:
    """A dot-command: its arguments and what it does, for `.help`."""

    arguments: str
    about: str
    run: Callable[[Shell, str], None]


COMMANDS: dict[str, Command] = {}
"""By name, without the dot."""

OUTSIDE = {"graph", "import", "once", "open", "output", "read", "save"}
"""What safe mode refuses: they reach files."""


def command(
    name: str, arguments: str, about: str
) -> Callable[[Callable[[Shell, str], None]], Callable[[Shell, str], None]]:
    """Put a function into the table."""

    def put(function: Callable[[Shell, str], None]) -> Callable[[Shell, str], None]:
        COMMANDS[name] = Command(arguments, about, function)
        return function

    return put


def words(name: str, rest: str, least: int, most: int) -> list[str]:
    """The arguments of `.name`, quotes taken off. Raises Usage if they are too few or too many."""
    try:
        found = shlex.split(rest)
    except ValueError as error:
        raise Usage(f"{rest}: {error}") from None
    if not least <= len(found) <= most:
        spaced = len(found) > most == 1 and "FILE" in COMMANDS[name].arguments
        cure = "; a name with spaces goes into quotes" if spaced else ""
        raise Usage(f"usage: .{name} {COMMANDS[name].arguments}{cure}")
    return found


def files(name: str, rest: str, least: int = 1) -> list[str]:
    """The argument of `.name` that is a file, with ~ for the home folder."""
    return [os.path.expanduser(file) for file in words(name, rest, least, 1)]


def _switch(shell: Shell, name: str, option: str, rest: str) -> None:
    found = words(name, rest, 0, 1)
    if found and found[0] not in ("on", "off"):
        raise Usage(f"usage: .{name} on|off")
    value = found[0] == "on" if found else not getattr(shell.options, option)
    setattr(shell.options, option, value)
    shell.write(f"{name} is {'on' if value else 'off'}\n")


def _number(shell: Shell, name: str, option: str, rest: str) -> None:
    found = words(name, rest, 1, 1)[0]
    if not found.isdecimal():
        raise Usage(f"usage: .{name} {COMMANDS[name].arguments}")
    setattr(shell.options, option, int(found))


# -- what is there

_HIDDEN = "NOT starts_with(table_name, '__tw_') AND table_schema <> '__tidewheel'"


@command("help", "[COMMAND]", "this list, or one command")
def _help(shell: Shell, rest: str) -> None:
    wanted = [w.lstrip(".") for w in words("help", rest, 0, 1)]
    for name in wanted:
        if name not in COMMANDS:
            raise Usage(f"there is no command .{name}")
    out = click.HelpFormatter(width=min(shutil.get_terminal_size().columns, 100))
    with out.indentation():
        out.write_dl(
            [
                (f".{n} {COMMANDS[n].arguments}", COMMANDS[n].about)
                for n in wanted or sorted(COMMANDS)
            ]
        )
    shell.write(out.getvalue())


@command("tables", "[PATTERN]", "tables and views; PATTERN as in LIKE")
def _tables(shell: Shell, rest: str) -> None:
    pattern = (words("tables", rest, 0, 1) or ["%"])[0]
    views = maintained(shell)
    rows = shell.query(
        f"SELECT table_schema, table_name, table_type FROM information_schema.tables "
        f"WHERE {_HIDDEN} AND table_name ILIKE ? ORDER BY ALL",
        [pattern],
    )
    for schema, name, kind in rows:
        what = {"BASE TABLE": "table", "VIEW": "view"}.get(kind, kind.lower())
        if (schema, name) in views and kind == "VIEW":
            what = "maintained view"
        shell.write(f"{shown((schema, name)):30} {what}\n")


@command("views", "", "the maintained views and their queries")
def _views(shell: Shell, rest: str) -> None:
    words("views", rest, 0, 0)
    for name, sql in maintained(shell).items():
        shell.write(f"{shown(name)}\n")
        for line in sql.strip().splitlines():
            shell.write(f"    {line}\n")


@command("schema", "[NAME]", "the CREATE statements")
def _schema(shell: Shell, rest: str) -> None:
    found = words("schema", rest, 0, 1)
    for sql in Definitions(shell, *found).statements():
        shell.write(sql + "\n")


@command("dump", "[TABLE]", "SQL that makes the database again")
def _dump(shell: Shell, rest: str) -> None:
    definitions = Definitions(shell, *words("dump", rest, 0, 1))
    shell.write("BEGIN;\n")
    for sql in (*definitions.first, *definitions.tables.values()):
        shell.write(sql + "\n")
    for table in definitions.tables:
        for row in rows_of(shell, table):
            shell.write(row + "\n")
    for sql in definitions.last:
        shell.write(sql + "\n")
    shell.write("COMMIT;\n")


# -- how results are shown


@command("mode", "MODE", "table, csv, json, jsonl, markdown or line")
def _mode(shell: Shell, rest: str) -> None:
    from .shell import MODES

    found = words("mode", rest, 0, 1)
    if not found:
        shell.write(f"{shell.options.mode}\n")
    elif found[0] not in MODES:
        raise Usage(f"there is no mode {found[0]}; there are {', '.join(MODES)}")
    else:
        shell.options.mode = found[0]


@command("timer", "on|off", "the time that each statement takes")
def _timer(shell: Shell, rest: str) -> None:
    _switch(shell, "timer", "timer", rest)


@command("pager", "on|off", "page what does not fit the screen")
def _pager(shell: Shell, rest: str) -> None:
    _switch(shell, "pager", "pager", rest)


@command("progress_bar", "on|off", "progress of what takes over half a second")
def _progress_bar(shell: Shell, rest: str) -> None:
    _switch(shell, "progress_bar", "progress_bar", rest)


@command("maxrows", "N", "rows shown of a table; 0: all")
def _maxrows(shell: Shell, rest: str) -> None:
    _number(shell, "maxrows", "max_rows", rest)


@command("width", "N", "characters that a table may be wide; 0: the terminal")
def _width(shell: Shell, rest: str) -> None:
    _number(shell, "width", "width", rest)


@command("output", "[FILE]", "write results to FILE; without it to the screen again")
def _output(shell: Shell, rest: str) -> None:
    found = files("output", rest, 0)
    fresh = open(found[0], "w", encoding="utf-8") if found and found[0] != "stdout" else None  # noqa: SIM115
    if shell.output is not None:
        shell.output.close()
    shell.output = fresh


@command("once", "FILE", "write the next result to FILE")
def _once(shell: Shell, rest: str) -> None:
    shell.once = open(files("once", rest)[0], "w", encoding="utf-8")  # noqa: SIM115


# -- files and databases


@command("read", "FILE", "run the statements and commands of FILE")
def _read(shell: Shell, rest: str) -> None:
    name = files("read", rest)[0]
    with Path(name).open(encoding="utf-8-sig") as file:
        if not shell.read(file, name):
            raise Usage(f"{name} was run to its first error")


@command("import", "FILE TABLE", "read CSV, JSON or Parquet into a table, made if it is not there")
def _import(shell: Shell, rest: str) -> None:
    file, table = words("import", rest, 2, 2)
    there = shell.query(
        "SELECT count(*) FROM information_schema.tables WHERE table_name = ?", [table]
    )
    source = f"SELECT * FROM {literal(os.path.expanduser(file))}"
    if there[0][0]:
        shell.run_checked(f"INSERT INTO {quoted(table)} {source}")
    else:
        shell.run_checked(f"CREATE TABLE {quoted(table)} AS {source}")
    count = shell.query(f"SELECT count(*) FROM {quoted(table)}")[0][0]
    shell.write(f"{table} has {count:,} rows\n")


@command("open", "[FILE]", "open another database; without FILE one in memory")
def _open(shell: Shell, rest: str) -> None:
    found = files("open", rest, 0)
    shell.open(found[0] if found else ":memory:")


@command("save", "FILE", "copy the database to a new file")
def _save(shell: Shell, rest: str) -> None:
    name = files("save", rest)[0]
    if os.path.exists(name):
        raise Usage(f"{name} exists")
    own = shell.query("SELECT current_database()")[0][0]
    shell.run_checked(f"ATTACH {literal(name)} AS __saved")
    try:
        shell.run_checked(f"COPY FROM DATABASE {quoted(own)} TO __saved")
    finally:
        shell.run_checked("DETACH __saved")


# -- the engine


@command("threads", "[N]", "the degree of parallelism")
def _threads(shell: Shell, rest: str) -> None:
    found = words("threads", rest, 0, 1)
    if found:
        shell.run_checked(f"SET threads = {found[0]}")
    else:
        shell.write(f"{shell.query('SHOW threads')[0][-1]}\n")


@command("safe_mode", "", "open the database again so that SQL reaches nothing else; for good")
def _safe_mode(shell: Shell, rest: str) -> None:
    words("safe_mode", rest, 0, 0)
    if shell.config.get("safe_mode"):
        shell.write("safe_mode is on\n")
        return
    if shell.database == ":memory:":
        raise Usage("a database in memory cannot be opened again; start with --safe")
    shell.close()
    shell.config["safe_mode"] = True
    shell.open_again()


@command("explain", "[STAGE] QUERY", "the plan; STAGE is logical, dataflow, kernels or analyze")
def _explain(shell: Shell, rest: str) -> None:
    stage, _, query = rest.partition(" ")
    if stage.lower() in ("logical", "dataflow", "kernels"):
        shell.run_checked(f"EXPLAIN ({stage}) {query}")
    elif rest:
        shell.run_checked(f"EXPLAIN {rest}")
    else:
        raise Usage("usage: .explain [STAGE] QUERY")


@command("graph", "FILE QUERY", "draw the dataflow of QUERY: .svg, .html, .dot or .mermaid")
def _graph(shell: Shell, rest: str) -> None:
    name, _, query = rest.partition(" ")
    name = os.path.expanduser(name)
    kind = Path(name).suffix.lstrip(".").lower()
    kind = {"mmd": "mermaid", "gv": "dot", "htm": "html"}.get(kind, kind)
    if kind not in ("svg", "html", "dot", "mermaid") or not query.strip():
        raise Usage("usage: .graph FILE.svg|.html|.dot|.mermaid QUERY")
    picture = shell.query(f"EXPLAIN (FORMAT {kind}) {query}")[0][1]
    Path(name).write_text(picture, encoding="utf-8")
    shell.write(f"wrote {name}\n")


@command("verify", "VIEW", "compare a maintained view with a run of its query")
def _verify(shell: Shell, rest: str) -> None:
    words("verify", rest, 1, 1)
    name = rest  # with its quotes
    with shell.connection.execute(f"VERIFY VIEW {name}") as cursor:
        rows, status = cursor.fetchall(), cursor.status
    if rows:
        raise Usage(f"{status}; VERIFY VIEW {name} shows them")
    shell.write(f"{status}\n")


@command("watch", "[VIEW|off]", "show a maintained view, then its changes as commits make them")
def _watch(shell: Shell, rest: str) -> None:
    found = words("watch", rest, 0, 1)
    if not found:
        shell.write("".join(f"{name}\n" for name in shell.watched))
        return
    if found[0] == "off":
        for subscription in shell.watched.values():
            subscription.close()
        shell.watched.clear()
        return
    name = rest  # with its quotes
    if name in shell.watched:
        return
    subscription = shell.connection.subscribe(name)
    subscription.read(timeout=0)  # the snapshot, shown as a table
    shell.run_checked(f"FROM {name}")
    shell.watched[name] = subscription


@command("exit", "", "leave; also .quit and Ctrl-D")
def _exit(shell: Shell, rest: str) -> None:
    sys.exit(0)


@command("quit", "", "leave")
def _quit(shell: Shell, rest: str) -> None:
    sys.exit(0)
