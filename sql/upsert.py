"""One row inserted or, where its primary key is there, updated or left out, in autocommit mode.

    INSERT INTO t VALUES (7, 'a') ON CONFLICT (id) DO UPDATE SET a = excluded.a, n = t.n + 1
    INSERT INTO t (id, a) VALUES (?, ?) ON CONFLICT DO NOTHING
    INSERT OR REPLACE INTO t VALUES (7, 'a')

Which of these it will be an index of ours tells, so that the change is known before DuckDB makes
it (see `row_by_key`). Whatever is not surely of these forms is run as written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from ..planner.context import Parameters
from .repeated import FLAGS, NAME, VALUE, any_reserved, is_text, name_of, names, python
from .statements import Statement, split

if TYPE_CHECKING:
    from .capture import TableInfo
    from .view_rows import RowEpochs

_LIST = rf"\(\s*{NAME}(?:\s*,\s*{NAME})*\s*\)"
_SET = (
    rf"{NAME}\s*=\s*(?:(?:{NAME}\s*\.\s*)?{NAME}\s*[+-](?!-)\s*)?"
    rf"(?:EXCLUDED\s*\.\s*{NAME}|{VALUE})"
)
_PATTERN = re.compile(
    rf"\s*INSERT\s+(?:OR\s+(?P<either>REPLACE|IGNORE)\s+)?INTO\s+(?P<table>{NAME}(?:\.{NAME})*)"
    rf"\s*(?P<columns>{_LIST})?\s*VALUES\s*\(\s*(?P<row>{VALUE}(?:\s*,\s*{VALUE})*)\s*\)"
    rf"(?P<on>\s*ON\s+CONFLICT\s*(?P<target>{_LIST})?\s*DO\s+"
    rf"(?:NOTHING|UPDATE\s+SET\s+(?P<set>{_SET}(?:\s*,\s*{_SET})*)))?\s*;?\s*\Z",
    FLAGS,
)
_ASSIGNED = re.compile(
    rf"({NAME})\s*=\s*(?:(?:({NAME})\s*\.\s*)?({NAME})\s*([+-])(?!-)\s*)?"
    rf"(?:EXCLUDED\s*\.\s*({NAME})|({VALUE}))",
    FLAGS,
)
_VALUE = re.compile(VALUE, FLAGS)
_LONGEST = 4096


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
    row: tuple[str, ...]
    assigned: tuple[str, ...]
    """The values in `sets`."""


@dataclass(frozen=True, slots=True)
class Upsert:
    """One statement of a form: its text, what was given to it, its values as Python has them."""

    form: Form
    text: str
    given: Sequence[object] | None
    row: Sequence[object]
    assigned: Sequence[object]


def find(script: str, given: Parameters) -> Upsert | None:
    """The statement that `script` is; None if it is none of these."""
    if len(script) > _LONGEST or script.lstrip()[:6].upper() != "INSERT":
        return None
    form = _form(script)
    if form is None or not (given is None or isinstance(given, (list, tuple))):
        return None
    texts = (*form.row, *form.assigned)
    if texts.count("?") != len(given or ()):
        return None
    left = iter(given or ())
    values = [next(left) if text == "?" else python(text) for text in texts]
    width = len(form.row)
    copy = None if given is None else list(given)
    return Upsert(form, script, copy, values[:width], values[width:])


@lru_cache(64)
def _form(script: str) -> Form | None:
    cut = _PATTERN.match(script) if is_text(script) else None
    if cut is None or (cut["either"] is None) == (cut["on"] is None):
        return None
    lists = [names(cut[part] or "") for part in ("columns", "target")]
    items = _ASSIGNED.findall(cut["set"] or "")
    written = [n for name, of, there, _, excluded, _ in items for n in (name, of, there, excluded)]
    table = names(cut["table"])
    if any_reserved([*table, *(n for part in lists for n in part), *written]):
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
    values = tuple(text for *_, text in items if text)
    row = tuple(_VALUE.findall(cut["row"]))
    return Form(split(script)[0], columns, target, None if replaced else tuple(sets), row, values)


def change(views: RowEpochs, key: str, info: TableInfo, asked: Upsert) -> int | None:
    """Insert or update a row of a table that views read; how many that were.

    None: nothing is done, run the statement as written.
    """
    import numpy as np

    from tidewheel.engine.state.change import Change
    from tidewheel.engine.state.delta import Delta
    from tidewheel.engine.state.rowwise import NEW_OLD

    from . import hidden
    from .key_indexes import index_of
    from .row_by_key import changed
    from .row_insert import held

    rules, form, kinds = views.rules(key, info), asked.form, info.known.kinds
    if rules is None or not rules.key or not views.registry.incremental(key):
        return None
    place = rules.place
    if form.target and sorted(form.target) != sorted(info.columns[i].lower() for i in rules.key):
        return None
    values = rules.whole(form.columns or tuple(map(str.lower, info.columns)), asked.row)
    if values is None:
        return None
    try:
        row = tuple([held(value, kind) for value, kind in zip(values, kinds, strict=True)])
        assigned = _assigned(form, asked.assigned, row, rules.key, place, info)
    except (KeyError, ValueError, TypeError, ArithmeticError):
        return None
    if assigned is None or rules.lacks(row):
        return None
    index = index_of(views, key, info, rules)
    if index is None:
        return None
    there = index.find(tuple([row[i] for i in rules.key]))

    def once() -> object:
        return hidden.execute(views.host.connection, asked.text, asked.given)

    behind = views.behind if rules.may_wait else None
    write: Callable[[], object] = once
    if there is None:
        delta = Delta.of_rows(info.known, [row], np.ones(1, np.int64), True)
        if behind is not None:
            write = partial(behind.insert, info, rules.key, [row], once)
    elif form.sets == ():
        return 0
    else:
        new = changed(there, assigned, kinds)
        if new is None or rules.lacks(new):
            return None
        if new == there:
            return 1
        delta = Delta.of_rows(info.known, [new, there], NEW_OLD, True)
        if behind is not None:
            at = [i for i, *_ in assigned]
            write = partial(behind.update, info, rules.key, [new], at, once)
    return 1 if views.step_ahead(key, Change.of(delta, info.columns), write) else None


def _assigned(
    form: Form,
    values: Sequence[object],
    row: Sequence[object],
    key: Sequence[int],
    place: Mapping[str, int],
    info: TableInfo,
) -> list[tuple[int, str, object]] | None:
    """The columns that a row with this key gets others in; None where DuckDB must tell."""
    from .row_by_key import adds
    from .row_insert import held

    if form.sets is None:
        listed = [place[name] for name in form.columns] or range(len(row))
        return [(i, "", row[i]) for i in listed if i not in key]
    kinds, left = info.known.kinds, iter(values)
    found: dict[int, tuple[int, str, object]] = {}
    for item in form.sets:
        i = place[item.column]
        if i in key or i in found or (item.sign and not adds(kinds[i])):
            return None
        if item.excluded is None:
            value = held(next(left), kinds[i])
        else:
            source = place[item.excluded]
            if kinds[source] is not kinds[i]:
                return None
            value = row[source]
        found[i] = i, item.sign, value
    return list(found.values())
