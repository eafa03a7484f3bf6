"""Rows changed in autocommit mode by a statement that names them by their primary keys.

Which rows these are an index of ours tells (`engine.state.key_index`), and so the change is known
before DuckDB makes it: it goes through the views first, like an inserted row (`row_insert`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tidewheel.engine.arrow import pa
from tidewheel.engine.state.change import Change
from tidewheel.engine.state.columns import ColumnType
from tidewheel.engine.state.delta import Delta
from tidewheel.engine.state.key_index import KeyIndex
from tidewheel.engine.state.rowwise import NEW_OLD, Row
from tidewheel.sql import hidden
from tidewheel.sql.capture import TableInfo
from tidewheel.sql.key_indexes import index_of
from tidewheel.sql.keyed_forms import Keyed
from tidewheel.sql.row_insert import held, number_limits
from tidewheel.sql.row_rules import Rules
from tidewheel.sql.write_behind import MOST

if TYPE_CHECKING:
    from tidewheel.sql.view_rows import RowEpochs


Assigned = tuple[int, str, Any]
"""A column, "+" or "-" if the value is added to what is there, and the value."""


def change(views: RowEpochs, key: str, info: TableInfo, asked: Keyed) -> int | None:
    """Change or delete rows of a table that views read; how many that were.

    None: nothing is done, run the statement as written.
    """
    rules = views.rules(key, info)
    if rules is None or not rules.key or not views.registry.incremental(key):
        return None
    named = _named(asked, info, rules)
    if named is None or (asked.form.how == "BETWEEN" and not _narrow(*named[0])):
        return None
    index = index_of(views, key, info, rules)
    if index is None:
        return None
    names, assigned = named
    rows = _found(index, names, asked.form.how)
    if not rows:
        return None if rows is None else 0

    def once() -> object:
        return hidden.execute(views.host.connection, asked.text, asked.given)

    behind = views.behind if rules.may_wait else None
    write: Callable[[], object] = once
    if not assigned:
        delta = Delta.of_rows(info.known, rows, np.full(len(rows), -1), True)
        if behind is not None:
            write = partial(behind.delete, info, rules.key, rows, once)
    else:
        after = [(changed(row, assigned, info.known.kinds), row) for row in rows]
        if any(new is None or rules.lacks(new) for new, _ in after):
            return None
        pairs = [(new, row) for new, row in after if new is not None and new != row]
        if not pairs:
            return len(rows)
        weights = np.tile(NEW_OLD, len(pairs))
        delta = Delta.of_rows(info.known, [row for pair in pairs for row in pair], weights, True)
        if behind is not None:
            new_rows, at = [new for new, _ in pairs], [i for i, *_ in assigned]
            write = partial(behind.update, info, rules.key, new_rows, at, once)
    if views.step_ahead(key, Change.of(delta, info.columns), write):
        return len(rows)
    return None


def _narrow(low: Row, high: Row) -> bool:
    """Are there few integers from `low` to `high`? Of others an index is not asked."""
    first, last = low[0], high[0]
    return len(low) == 1 and isinstance(first, int) and last - first <= 4 * MOST


def _found(index: KeyIndex, names: Sequence[Row], how: str) -> Sequence[Row] | None:
    """The rows of some keys; None where they are not to be looked for here."""
    if how == "BETWEEN":
        (low,), (high,) = names
        return index.between(low, high, MOST) if index.ordered else None
    rows = [index.find(name) for name in dict.fromkeys(names)]
    return [row for row in rows if row is not None]


def _named(
    asked: Keyed, info: TableInfo, rules: Rules
) -> tuple[Sequence[Row], Sequence[Assigned]] | None:
    """The values of keys, and the assigned columns with theirs; None where DuckDB must look."""
    form, kinds, place = asked.form, info.known.kinds, rules.place
    try:
        key = [place[name] for name in form.key]
        values = zip(form.assigned, form.signs, asked.assigned, strict=True)
        sets = {place[name]: (sign, value) for name, sign, value in values}
        if len(sets) < len(form.assigned) or sorted(key) != sorted(rules.key):
            return None
        if sets.keys() & set(key):
            return None
        if any(sign and not adds(kinds[i]) for i, (sign, _) in sets.items()):
            return None
        if form.how == "=":
            given = dict(zip(key, asked.key, strict=True))
            names = [tuple([held(given[i], kinds[i]) for i in rules.key])]
        else:
            names = [(held(value, kinds[key[0]]),) for value in asked.key]
        assigned = [(i, sign, held(value, kinds[i])) for i, (sign, value) in sets.items()]
    except (KeyError, ValueError, TypeError, ArithmeticError):
        return None
    return None if any(None in name for name in names) else (names, assigned)


def changed(row: Row, assigned: Sequence[Assigned], kinds: Sequence[ColumnType]) -> Row | None:
    """The row after an UPDATE; None where DuckDB must tell.

    As it must for a sum that does not fit, and for a value that is equal and not the same: DuckDB
    may leave that as it is.
    """
    new = list(row)
    for i, sign, value in assigned:
        if sign:
            value = _sum(row[i], sign, value, kinds[i])
            if value is _UNKNOWN:
                return None
        zeros = type(value) is float and value == 0 == row[i]
        if zeros and math.copysign(1, value) != math.copysign(1, row[i]):
            return None
        new[i] = value
    return tuple(new)


def adds(kind: ColumnType) -> bool:
    """Is it a type of numbers? Of others DuckDB may know no sum, be it of NULL."""
    return number_limits(kind) is not None or pa.types.is_floating(kind.arrow)


def _sum(there: Any, sign: str, value: Any, kind: ColumnType) -> Any:
    """What is there plus or minus a value, if it is a value of the column; else `_UNKNOWN`."""
    if there is None or value is None:
        return None
    if type(there) not in (int, float) or type(value) is not type(there):
        return _UNKNOWN
    found = there + value if sign == "+" else there - value
    if type(found) is float:
        return found if math.isfinite(found) else _UNKNOWN
    limits = number_limits(kind)
    return found if limits is not None and limits[0] <= found <= limits[1] else _UNKNOWN


_UNKNOWN = object()
