"""Every snippet of the documentation is run, and gives what stands below it.

* ``python``: an expression with a comment below it must have the value that the comment shows.
* ``sql``: run on the page's connection `con`. Comments below a statement are its columns and rows,
  ``a | b``; ``-- Error: text`` says that it must fail, with `text` in the message.
* ``console``: lines after ``$ tidewheel …`` are what it prints.

The snippets of a page belong together: they share names, the connection and an empty folder.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidewheel
from tidewheel.sql.statements import split

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "docs/quickstart.md",
    "docs/tutorial-recursive-views.md",
    "docs/sql-reference.md",
    "docs/python-reference.md",
    "docs/compared.md",
    "docs/how-it-works.md",
    "docs/adding-an-operator.md",
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def comment_below(lines: list[str], end: int, mark: str) -> list[str]:
    """The comment lines that follow line `end`, from 1."""
    found = []
    for line in lines[end:]:
        if not line.startswith(mark):
            break
        found.append(line.removeprefix(mark).strip())
    return found


def run_python(text: str, names: dict[str, Any], first_line: int) -> int:
    """Run statements one by one; how many results were compared."""
    lines = text.splitlines()
    compared = 0
    for node in ast.parse(text).body:
        assert node.end_lineno is not None
        ast.increment_lineno(node, first_line)
        wanted = comment_below(lines, node.end_lineno - first_line, "# ")
        if not isinstance(node, ast.Expr):
            exec(compile(ast.Module([node], []), "<page>", "exec"), names)
            continue
        value = eval(compile(ast.Expression(node.value), "<page>", "eval"), names)
        if wanted:
            shown = repr(value)
            joined = " ".join(wanted)
            assert shown == joined or value == ast.literal_eval(joined), f"{shown} != {joined}"
            compared += 1
    return compared


def shown(value: object) -> str:
    return "NULL" if value is None else str(value)


def run_sql(text: str, names: dict[str, Any]) -> int:
    """Run statements one by one; how many results were compared."""
    connection = names.setdefault("con", None) or tidewheel.connect()
    names["con"] = connection
    lines = text.splitlines()
    compared = 0
    for statement in split(text):
        end = text.index(";", statement.start + len(statement.text))
        wanted = comment_below(lines, text.count("\n", 0, end) + 1, "-- ")
        if wanted and wanted[0].startswith("Error: "):
            with pytest.raises(tidewheel.Error, match=re.escape(wanted[0][len("Error: ") :])):
                read(connection.execute(statement.text))
            compared += 1
            continue
        found = read(connection.execute(statement.text))
        if wanted:
            assert found == wanted, statement.text
            compared += 1
    return compared


def read(cursor: tidewheel.Cursor) -> list[str]:
    if cursor.description is None:
        return []
    header = " | ".join(column[0] for column in cursor.description)
    return [header, *(" | ".join(map(shown, row)) for row in cursor.fetchall())]


def run_console(text: str) -> int:
    compared = 0
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        program, *arguments = shlex.split(command)
        assert program == "tidewheel"
        outcome = subprocess.run(
            [sys.executable, "-m", "tidewheel.cli", *arguments], capture_output=True, text=True
        )
        assert outcome.returncode == 0, outcome.stderr
        assert outcome.stdout.strip() == wanted.strip()
        compared += 1
    return compared


@pytest.mark.parametrize("page", PAGES)
def test_snippets(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    text = (ROOT / page).read_text()
    names: dict[str, Any] = {"__name__": "page"}
    compared = 0
    try:
        for block in BLOCK.finditer(text):
            kind, body = block[1], block[2]
            place = text.count("\n", 0, block.start()) + 2
            try:
                if kind == "python":
                    compared += run_python(body, names, place)
                elif kind == "sql":
                    compared += run_sql(body, names)
                elif kind == "console":
                    compared += run_console(body)
                else:
                    assert kind in ("text", "sh"), kind
            except AssertionError as error:
                raise AssertionError(f"{page}:{place}: {error}") from None
            except tidewheel.Error as error:
                raise AssertionError(f"{page}:{place}: {error}") from error
    finally:
        connection = names.get("con")
        if isinstance(connection, tidewheel.Connection) and not connection._session.closed:
            connection.close()
    assert compared > 0 or page in ("docs/compared.md", "docs/how-it-works.md")


def test_links_between_pages_hold() -> None:
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+\.\w+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_files_that_pages_name_exist() -> None:
    named = re.compile(r"`((?:sql|planner|engine|cli|tpch|tests|benchmarks)/[\w/]+\.py)`")
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    found = {(page.name, name) for page in pages for name in named.findall(page.read_text())}
    assert len(found) > 50
    missing = {(page, name) for page, name in found if not (ROOT / name).exists()}
    assert not missing
