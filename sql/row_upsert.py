"""What an INSERT of known rows does to a table that views read (`upsert` says which those are)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tidewheel.engine.state.change import Change
from tidewheel.engine.state.delta import Delta
from tidewheel.engine.state.rowwise import Row
from tidewheel.sql import hidden
from tidewheel.sql.capture import TableInfo
from tidewheel.sql.key_indexes import index_of
from tidewheel.sql.row_by_key import Assigned, adds, changed
from tidewheel.sql.row_insert import held
from tidewheel.sql.row_rules import Rules
from tidewheel.sql.upsert import Form, Inserted

if TYPE_CHECKING:
    from tidewheel.sql.view_rows import RowEpochs


def change(views: RowEpochs, key: str, info: TableInfo, asked: Inserted) -> int | None:
    """Insert or update rows; how many that were.

    None: nothing is done, run the statement as written.
    """
    rules, form = views.rules(key, info), asked.form
    if rules is None or not views.registry.incremental(key):
        return None
    if not rules.key and not form.refused:
        return None
    if form.target and sorted(form.target) != sorted(info.columns[i].lower() for i in rules.key):
        return None
    rows = _rows(asked, info, rules)
    if rows is None:
        return None
    found: Sequence[Row | None] = [None] * len(rows)
    if rules.key:
        index = index_of(views, key, info, rules)
        named = [tuple([row[i] for i in rules.key]) for row in rows]
        if index is None or len(set(named)) < len(named):
            return None
        found = [index.find(name) for name in named]
    come, new, old, at, same = list[Row](), list[Row](), list[Row](), set[int](), 0
    for row, there in zip(rows, found, strict=True):
        # also of what comes: a column may be named that is none
        assigned = _assigned(asked, row, info, rules)
        if assigned is None or (there is not None and form.refused):
            return None
        if there is None:
            come.append(row)
        elif form.sets != ():
            after = changed(there, assigned, info.known.kinds)
            if after is None or rules.lacks(after):
                return None
            if after == there:
                same += 1
                continue
            new.append(after)
            old.append(there)
            at.update(i for i, *_ in assigned)
    if not (come or new):
        return same

    def once() -> object:
        return hidden.execute(views.host.connection, asked.text, asked.given)

    write: Callable[[], object] = once
    if rules.may_wait and not new:
        write = partial(views.behind.insert, info, rules.key, come, once)
    elif rules.may_wait and not come:
        write = partial(views.behind.update, info, rules.key, new, sorted(at), once)
    weights = np.repeat(np.array([1, -1]), [len(come) + len(new), len(old)])
    delta = Delta.of_rows(info.known, [*come, *new, *old], weights, bool(rules.key))
    done = views.step_ahead(key, Change.of(delta, info.columns), write)
    return len(come) + len(new) + same if done else None


def _rows(asked: Inserted, info: TableInfo, rules: Rules) -> list[Row] | None:
    """The rows as DuckDB will have them; None where only DuckDB can tell."""
    columns = asked.form.columns or tuple(map(str.lower, info.columns))
    found, kinds = list[Row](), info.known.kinds
    for given in asked.rows:
        values = rules.whole(columns, given)
        if values is None:
            return None
        try:
            row = tuple([held(value, kind) for value, kind in zip(values, kinds, strict=True)])
        except (ValueError, TypeError, ArithmeticError):
            return None
        if rules.lacks(row):
            return None
        found.append(row)
    return found


def _assigned(
    asked: Inserted, row: Row, info: TableInfo, rules: Rules
) -> Sequence[Assigned] | None:
    """The columns that a row with this key gets others in; None where DuckDB must tell."""
    form, place = asked.form, rules.place
    if form.sets is None:
        listed = [place[name] for name in form.columns] or range(len(row))
        return [(i, "", row[i]) for i in listed if i not in rules.key]
    try:
        return _set(form, asked.assigned, row, rules.key, place, info)
    except (KeyError, ValueError, TypeError, ArithmeticError):
        return None


def _set(
    form: Form,
    values: Sequence[object],
    row: Row,
    key: Sequence[int],
    place: Mapping[str, int],
    info: TableInfo,
) -> list[Assigned] | None:
    assert form.sets is not None
    kinds, left = info.known.kinds, iter(values)
    found: dict[int, Assigned] = {}
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
