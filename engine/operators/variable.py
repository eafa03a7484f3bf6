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
from typing import Literal

import pyarrow as pa

from tidewheel.engine.operators.improved import Improved
from tidewheel.engine.operators.keyed_rows import KeyedRows, equal
from tidewheel.engine.operators.merging import Merge
from tidewheel.engine.operators.rowset import RowSet
from tidewheel.engine.operators.step_program import Unfit
from tidewheel.engine.state.columns import column_type

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

    def __init__(self, spec: VariableSpec, merge: Merge | None = None) -> None:
        self.spec = spec
        self._merge = merge
        self.changed = False
        self._seen: RowSet | None = None
        self._improved: Improved | None = None
        self._old: list[pa.Table] = []
        self._begin(pa.table({}))

    def _begin(self, empty: pa.Table) -> None:
        self.empty = self.delta = self._value = empty
        self._keyed = KeyedRows(empty.schema, self.spec.key)
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
            self.delta = self._keyed.replace(arrived, self.spec.changes_only)
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
        return self._keyed.rows()

    def _improve(self, arrived: pa.Table) -> pa.Table:
        if self._improved is not None:
            try:
                return self._improved.improve(arrived)
            except Unfit:
                found, self._improved = self._improved.rows(), None
                self._improve(found)
        assert self._merge is not None
        return self._keyed.improve(arrived, self.spec.merge, self._merge)


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    filled = [t for t in tables if t.num_rows]
    if not filled:
        return tables[0]
    return filled[0] if len(filled) == 1 else pa.concat_tables(filled)


def _same(one: pa.Table, other: pa.Table) -> bool:
    """Equal rows; both come in one order (their kernel sorts them)."""
    if one.num_rows != other.num_rows:
        return False
    if one.equals(other):
        return True
    # NaN equals itself here, not in Arrow.
    return all(
        column_type(x.type).loose and equal(x, y).all()
        for x, y in zip(one.columns, other.columns, strict=True)
        if not x.equals(y)
    )
