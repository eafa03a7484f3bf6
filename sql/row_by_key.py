"""One row changed in autocommit mode by a statement that names it by its primary key.

Which row that is, an index of ours tells (`engine.state.key_index`), and so the change is known
before DuckDB makes it: it goes through the views first, like an inserted row (`row_insert`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidewheel.engine.state.change import Change
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.rowwise import MINUS, NEW_OLD, Row
from tidewheel.sql import hidden
from tidewheel.sql.capture import TableInfo
from tidewheel.sql.key_indexes import index_of
from tidewheel.sql.keyed_forms import Keyed
from tidewheel.sql.row_insert import held
from tidewheel.sql.row_rules import Rules

if TYPE_CHECKING:
    from tidewheel.sql.view_epochs import Epochs


def change(views: Epochs, key: str, info: TableInfo, asked: Keyed) -> int | None:
    """Change or delete a row of a table that views read; how many that were.

    None: nothing is done, run the statement as written.
    """
    rules = views.rules(key, info)
    if rules is None or not rules.key or not views.registry.incremental(key):
        return None
    named = _named(asked, info, rules)
    index = None if named is None else index_of(views, key, info, rules)
    if named is None or index is None:
        return None
    name, assigned = named
    row = index.find(name)
    if row is None:
        return 0
    behind = views.behind if rules.in_memory and views.database.private else None
    given = list(asked.given) if isinstance(asked.given, (list, tuple)) else None

    def once() -> object:
        return hidden.execute(views.host.connection, asked.text, given)

    write: Callable[[], object] = once
    if not assigned:
        delta = Delta.of_rows(_layout(info), [row], MINUS, True)
        if behind is not None:
            write = lambda: behind.delete(info, rules.key, name, once)  # noqa: E731
    else:
        new = _changed(row, assigned)
        if new is None or rules.lacks(new):
            return None
        if new == row:
            return 1
        delta = Delta.of_rows(_layout(info), [new, row], NEW_OLD, True)
        if behind is not None:
            at = [i for i, _ in assigned]
            write = lambda: behind.update(info, rules.key, new, at, once)  # noqa: E731
    return 1 if views.step_ahead(key, Change.of(delta, info.columns), write) else None


def _layout(info: TableInfo) -> Schema:
    assert info.layout is not None
    return info.layout


def _named(
    asked: Keyed, info: TableInfo, rules: Rules
) -> tuple[Row, Sequence[tuple[int, Any]]] | None:
    """The key's values, and the assigned columns with theirs; None where only DuckDB can tell."""
    place = {name.lower(): i for i, name in enumerate(info.columns)}
    form, kinds = asked.form, _layout(info).kinds
    try:
        key = {place[name]: v for name, v in zip(form.key, asked.key, strict=True)}
        sets = {place[name]: v for name, v in zip(form.assigned, asked.assigned, strict=True)}
        if len(key) < len(form.key) or len(sets) < len(form.assigned):
            return None  # a column that is named twice
        if key.keys() != set(rules.key) or sets.keys() & key.keys():
            return None
        name = tuple([held(key[i], kinds[i]) for i in rules.key])
        assigned = [(i, held(value, kinds[i])) for i, value in sets.items()]
    except (KeyError, ValueError, TypeError, ArithmeticError):
        return None
    return None if None in name else (name, assigned)


def _changed(row: Row, assigned: Sequence[tuple[int, Any]]) -> Row | None:
    """The row after an UPDATE; None where a value is assigned that is equal, but not the same.

    DuckDB may leave such a value as it is.
    """
    new = list(row)
    for i, value in assigned:
        zeros = type(value) is float and value == 0 == new[i]
        if zeros and math.copysign(1, value) != math.copysign(1, new[i]):
            return None
        new[i] = value
    return tuple(new)
