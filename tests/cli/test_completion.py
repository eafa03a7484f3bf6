"""What the line editor completes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tidewheel.cli.prompt import SqlCompleter
from tidewheel.cli.shell import Shell


@pytest.fixture
def completer() -> Iterator[SqlCompleter]:
    shell = Shell(":memory:", {}, interactive=True)
    shell.run('CREATE TABLE "my table" ("unit price" INT, "order" INT, größe INT, "a""b" INT)')
    shell.run("CREATE TABLE Mytable (x INT)")
    found = SqlCompleter(shell)
    found.refresh()
    yield found
    shell.close()


@pytest.mark.parametrize(
    ("typed", "whole"),
    [
        ("SELECT * FROM my", {'SELECT * FROM "my table"', "SELECT * FROM Mytable"}),
        ('SELECT * FROM "my t', {'SELECT * FROM "my table"'}),
        ('SELECT "unit price" FROM "my t', {'SELECT "unit price" FROM "my table"'}),
        ("SELECT uni", {'SELECT "unit price"'}),
        ("SELECT ord", {'SELECT "order"'}),
        ("SELECT grö", {"SELECT größe"}),
        ('SELECT "A', {'SELECT "a""b"'}),
        (".schema my", {'.schema "my table"', ".schema Mytable"}),
        ('.schema "my', {'.schema "my table"', ".schema Mytable"}),
    ],
)
def test_names_have_the_quotes_that_they_need(
    completer: SqlCompleter, typed: str, whole: set[str]
) -> None:
    found = completer.get_completions(Document(typed, len(typed)), CompleteEvent())
    lines = {typed[: len(typed) + c.start_position] + c.text for c in found}
    assert whole <= lines
    assert not [line for line in lines if "my table" in line and '"my table"' not in line]


def test_what_a_name_is() -> None:
    shell = Shell(":memory:", {}, interactive=True)
    shell.run("CREATE TABLE kin_t (x INT); CREATE VIEW kin_v AS FROM kin_t")
    shell.run("CREATE MATERIALIZED VIEW kin_m AS FROM kin_t")
    found = SqlCompleter(shell)
    found.refresh()
    asked = Document("FROM kin", 8)
    kinds = {c.text: c.display_meta_text for c in found.get_completions(asked, CompleteEvent())}
    shell.close()
    assert kinds == {"kin_t": "table", "kin_v": "view", "kin_m": "maintained view"}
