"""A recursive variable during a one-shot run: how rows that a step made change it.

| kind | a row that arrives | what the next step reads | the answer |
|---|---|---|---|
| union | is added if it is new | the rows that were added | all rows |
| union_all | is added | the rows that were added | all rows |
| improve | is merged into the row of its key | the rows that got better | the rows at the end |
| using_key | replaces the row of its key | the rows that changed something | the rows at the end |
| mutual | replaces all rows | all rows | the rows at the end |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from tidewheel.engine.arrow import hugeints
from tidewheel.engine.operators.improved import Improved
from tidewheel.engine.operators.rowset import RowSet, frozen
from tidewheel.engine.operators.step_program import Unfit
from tidewheel.engine.state.columns import canonical, column_type, counted

Kind = Literal["union", "union_all", "improve", "using_key", "mutual"]


@dataclass(frozen=True)
class VariableSpec:
    """`merge`: per column "min", "max", "bool_or", …, "arg_min:2", or None for a key (improve).

    `key`: positions of the key columns. `keep`: somebody reads all rows so far, or all but the last
    step's. `changes_only`: of `using_key`, a row that changes nothing is not read by the next step.
    `from_nothing`: a step may give rows where there are none yet.
    """

    label: str
    kind: Kind
    key: tuple[int, ...] = ()
    merge: tuple[str | None, ...] = ()
    keep: bool = False
    changes_only: bool = True
    from_nothing: bool = False


class Variable:
    """The rows of one variable; `absorb` is called once per counter."""

    def __init__(self, spec: VariableSpec) -> None:
        self.spec = spec
        self.changed = False
        self._seen: RowSet | None = None
        self._improved: Improved | None = None
        self._old: list[pa.Table] = []
        self._rows: dict[tuple[Any, ...], list[Any]] = {}
        self._begin(pa.table({}))

    def _begin(self, empty: pa.Table) -> None:
        self.empty = self.delta = self._value = empty
        merge = self.spec.merge
        if self.spec.kind == "improve" and len(merge) == empty.num_columns:
            at = Improved.fits(empty.schema, merge)
            if at is not None:
                self._improved = Improved(empty.schema, self.spec.key, at, merge[at] or "")

    @property
    def streams(self) -> bool:
        """Is the answer the sum of the deltas, so that each can be given out at once?"""
        return self.spec.kind in ("union", "union_all")

    def rest(self) -> None:
        """Nothing arrived at this counter."""
        if self.spec.keep and self.streams and self.delta.num_rows:
            self._old.append(self.delta)
        self.delta = self.empty
        self.changed = False

    def absorb(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Add what arrived at this counter (at least one table); the rows that are new."""
        if not self.empty.num_columns:
            self._begin(tables[0].slice(0, 0))
        self.rest()
        kind = self.spec.kind
        arrived = _concat(tables)
        if kind == "union":
            if self._seen is None:
                self._seen = RowSet(arrived.num_columns)
            self.delta = self._seen.add(arrived)
        elif kind == "union_all":
            self.delta = arrived
        elif kind == "improve":
            self.delta = self._improve(arrived)
        elif kind == "using_key":
            self.delta = self._replace(arrived)
        else:
            same = _same(arrived, self._value)
            self.delta = self.empty if same else arrived
            self.changed = not same
            self._value = arrived
            return self.delta
        self.changed = self.delta.num_rows > 0
        return self.delta

    def part(self, part: str) -> pa.Table:
        """`delta`, `all` or `old`, as of this counter."""
        if part == "delta":
            return self.delta if self.spec.kind != "mutual" else self._value
        if self.spec.kind == "mutual":
            return self._value
        if not self.streams:
            return self.answer()
        # Chunks are shared, so this costs what the number of steps is; now and then they are
        # joined.
        if len(self._old) > 64:
            self._old = [pa.concat_tables(self._old).combine_chunks()]
        tables = [*self._old, self.delta] if part == "all" else self._old
        return _concat([self.empty, *tables])

    def answer(self) -> pa.Table:
        """The rows at the end, for a variable that does not give them out as they come."""
        if self.spec.kind == "mutual":
            return self._value
        if self._improved is not None:
            return self._improved.rows()
        return self._table(list(self._rows.values()))

    def _improve(self, arrived: pa.Table) -> pa.Table:
        if self._improved is not None:
            try:
                return self._improved.improve(arrived)
            except Unfit:
                found, self._improved = self._improved.rows(), None
                self._improve(found)
        touched: dict[tuple[Any, ...], list[Any]] = {}
        key, merge = self.spec.key, self.spec.merge
        for row in _rows(arrived):
            name = tuple(frozen(row[i]) for i in key)
            old = self._rows.get(name)
            if old is None:
                self._rows[name] = touched[name] = list(row)
                continue
            better = _merged(old, row, merge)
            if better is not None:
                self._rows[name] = touched[name] = better
        return self._table(list(touched.values()))

    def _replace(self, arrived: pa.Table) -> pa.Table:
        touched: dict[tuple[Any, ...], list[Any]] = {}
        latest: dict[tuple[Any, ...], list[Any]] = {}
        for row in _rows(arrived):
            latest[tuple(frozen(row[i]) for i in self.spec.key)] = list(row)
        for name, values in latest.items():
            old = self._rows.get(name)
            if old is None or not self.spec.changes_only or frozen(old) != frozen(values):
                touched[name] = values
            self._rows[name] = values
        return self._table(list(touched.values()))

    def _table(self, rows: list[list[Any]]) -> pa.Table:
        if not rows:
            return self.empty
        columns = zip(*rows, strict=True)
        return pa.Table.from_arrays(
            [_array(c, f.type) for c, f in zip(columns, self.empty.schema, strict=True)],
            schema=self.empty.schema,
        )


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    filled = [t for t in tables if t.num_rows]
    if not filled:
        return tables[0]
    return filled[0] if len(filled) == 1 else pa.concat_tables(filled)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*map(_values, table.columns), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Python values; those of extension types are what stores them, HUGEINTs integers.

    Dates and times are numbers: Python's have no infinity, nor 24:00.
    """
    kind = column.type
    if not isinstance(kind, pa.BaseExtensionType):
        return list(counted(column).to_pylist())
    stored = pa.chunked_array([c.storage for c in column.chunks], kind.storage_type).to_pylist()
    return hugeints(stored) if column_type(kind).wide else list(stored)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not isinstance(kind, pa.BaseExtensionType):
        return pa.array(values, kind)
    found = column_type(kind)
    return found.dump(found.of(values))


def _same(one: pa.Table, other: pa.Table) -> bool:
    """Equal rows; both come in one order (their kernel sorts them)."""
    if one.num_rows != other.num_rows:
        return False
    if one.equals(other):
        return True
    if not any(pa.types.is_floating(t) for t in one.schema.types):
        return False
    # NaN equals itself here, not in Arrow.
    return [frozen(r) for r in _rows(one)] == [frozen(r) for r in _rows(other)]


def _merged(old: list[Any], new: Sequence[Any], merge: Sequence[str | None]) -> list[Any] | None:
    """The better of two rows of a key, column by column; None if the old one is as good."""
    result = list(old)
    improved = [False] * len(result)
    for i, how in enumerate(merge):
        if how is None or how.startswith("arg_"):
            continue
        value = _better(how, old[i], new[i])
        if value is not None:
            result[i], improved[i] = value[0], True
    for i, how in enumerate(merge):
        if how is not None and how.startswith("arg_") and improved[int(how.partition(":")[2])]:
            result[i] = new[i]
    return result if any(improved) else None


def _better(how: str, old: Any, new: Any) -> tuple[Any] | None:
    """The improved value, in a tuple; None if `new` is no improvement. NULL is the worst value."""
    if new is None:
        return None
    if old is None:
        return (new,)
    if how == "min":
        return (new,) if _less(new, old) else None
    if how == "max":
        return (new,) if _less(old, new) else None
    if how == "bool_or":
        return (new,) if new and not old else None
    if how == "bool_and":
        return (new,) if old and not new else None
    joined = old | new if how == "bit_or" else old & new
    return (joined,) if joined != old else None


def _less(one: Any, other: Any) -> bool:
    if isinstance(one, dict | list | tuple):
        return bool(_place(one) < _place(other))
    if one != one:  # NaN is the largest value
        return False
    return bool(other != other or one < other)


def _place(value: Any) -> tuple[Any, ...]:
    """Where a value within others stands, as DuckDB orders them: NaN behind numbers, then NULL.

    A month is 30 days.
    """
    if value is None:
        return (2,)
    if isinstance(value, pa.MonthDayNano):
        return (0, *canonical(value))
    if isinstance(value, dict | list | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return (0, *map(_place, parts))
    return (1,) if value != value else (0, value)
