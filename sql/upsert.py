"""Rows inserted by their values, in autocommit mode: several, or such as may be there already.

    INSERT INTO t VALUES (7, 'a'), (8, 'b')
    INSERT INTO t VALUES (7, 'a') ON CONFLICT (id) DO UPDATE SET a = excluded.a, n = t.n + 1
    INSERT INTO t (id, a) VALUES (?, ?) ON CONFLICT DO NOTHING
    INSERT OR REPLACE INTO t VALUES (7, 'a')

Which of them are there an index of ours tells, so that the change is known before DuckDB makes it
(see `row_by_key`). Whatever is not surely of these forms is run as written. One row that nothing is
said about is `repeated`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache

from ..planner.context import Parameters
from .repeated import FLAGS, NAME, VALUE, any_reserved, bound, is_text, name_of, names
from .statements import Statement, split

_LIST = rf"\(\s*{NAME}(?:\s*,\s*{NAME})*\s*\)"
_ROW = rf"\(\s*{VALUE}(?:\s*,\s*{VALUE})*\s*\)"
_SET = (
    rf"{NAME}\s*=\s*(?:(?:{NAME}\s*\.\s*)?{NAME}\s*[+-](?!-)\s*)?"
    rf"(?:EXCLUDED\s*\.\s*{NAME}|{VALUE})"
)
_ASSIGNED = re.compile(
    rf"({NAME})\s*=\s*(?:(?:({NAME})\s*\.\s*)?({NAME})\s*([+-])(?!-)\s*)?"
    rf"(?:EXCLUDED\s*\.\s*({NAME})|({VALUE}))",
    FLAGS,
)
_ROWS = re.compile(_ROW, FLAGS)
_VALUE = re.compile(VALUE, FLAGS)
_LONGEST = 1 << 14


@cache
def _pattern() -> re.Pattern[str]:
    """INSERT of rows, with or without ON CONFLICT. (Compiled when it is asked for: 10 ms.)"""
    return re.compile(
        rf"\s*INSERT\s+(?:OR\s+(?P<either>REPLACE|IGNORE)\s+)?INTO\s+(?P<table>{NAME}(?:\.{NAME})*)"
        rf"\s*(?P<columns>{_LIST})?\s*VALUES\s*(?P<rows>{_ROW}(?:\s*,\s*{_ROW})*)"
        rf"(?P<on>\s*ON\s+CONFLICT\s*(?P<target>{_LIST})?\s*DO\s+"
        rf"(?:NOTHING|UPDATE\s+SET\s+(?P<set>{_SET}(?:\s*,\s*{_SET})*)))?\s*;?\s*\Z",
        FLAGS,
    )


@dataclass(frozen=True, slots=True)
class Assignment:
    """A column is set to a value, or to that which another column of the row has that was not
    inserted (`excluded`); `sign`: that is added to what is there, or taken from it.
    """

    column: str
    sign: str
    excluded: str | None


@dataclass(frozen=True, slots=True)
class Form:
    """A statement, its values as they are written. Column names are in lower case."""

    statement: Statement
    columns: tuple[str, ...]
    """Those that are listed."""
    target: tuple[str, ...]
    sets: tuple[Assignment, ...] | None
    """None: all that are listed are replaced; none of them: nothing is done."""
    refused: bool
    """May no row of the same key be there?"""
    rows: tuple[tuple[str, ...], ...]
    assigned: tuple[str, ...]
    """The values in `sets`."""


@dataclass(frozen=True, slots=True)
class Inserted:
    """One statement of a form: its text, what was given to it, its values as Python has them."""

    form: Form
    text: str
    given: Parameters
    """A copy: the statement may be run later."""
    rows: Sequence[Sequence[object]]
    assigned: Sequence[object]


def find(script: str, given: Parameters) -> Inserted | None:
    """The statement that `script` is; None if it is none of these."""
    if len(script) > _LONGEST or script.lstrip()[:6].upper() != "INSERT":
        return None
    form = _form(script)
    if form is None:
        return None
    values = bound([text for row in (*form.rows, form.assigned) for text in row], given)
    if values is None:
        return None
    width, count = len(form.rows[0]), len(form.rows)
    rows = [values[i * width : (i + 1) * width] for i in range(count)]
    if count > 1 and not all(map(_alike, zip(*rows, strict=True))):
        return None
    return Inserted(form, script, copy(given), rows, values[count * width :])


def _alike(values: tuple[object, ...]) -> bool:
    """Does DuckDB surely take these values of one column as they are, without regard to others?"""
    kinds = {type(value) for value in values if value is not None}
    return len(kinds) < 2 and (
        kinds != {Decimal} or all(value is None or len(str(value)) <= 16 for value in values)
    )


@lru_cache(64)
def _form(script: str) -> Form | None:
    cut = _pattern().match(script) if is_text(script) else None
    if cut is None or (cut["either"] and cut["on"]):
        return None
    rows = tuple(tuple(_VALUE.findall(row)) for row in _ROWS.findall(cut["rows"]))
    if len({len(row) for row in rows}) > 1:
        return None
    lists = [names(cut[part] or "") for part in ("columns", "target")]
    items = _ASSIGNED.findall(cut["set"] or "")
    written = [n for name, of, there, _, excluded, _ in items for n in (name, of, there, excluded)]
    table = names(cut["table"])
    if any_reserved([*table, *(n for part in lists for n in part), *written]):
        return None
    if items and name_of(table[-1]) == "excluded":  # what is set names both, which DuckDB refuses
        return None
    sets: list[Assignment] = []
    for name, of, there, sign, excluded, _ in items:
        if of and name_of(of) != name_of(table[-1]):
            return None
        if there and name_of(there) != name_of(name):
            return None
        sets.append(Assignment(name_of(name), sign, name_of(excluded) if excluded else None))
    columns, target = (tuple(map(name_of, part)) for part in lists)
    replaced = (cut["either"] or "").upper() == "REPLACE"
    refused = not (cut["either"] or cut["on"])
    values = tuple(text for *_, text in items if text)
    shown = None if replaced else tuple(sets)
    return Form(split(script)[0], columns, target, shown, refused, rows, values)
