"""A recursive step that is joins, arithmetic and comparisons of integers only: run without SQL.

A row of the loop is a list of slots: first the columns of the recursive table, then, join by join,
those of the relations that do not change. A step is: keep the rows that pass the `before`
conditions,
join by join look up a slot's value in a relation's first column and append its other columns, keep
the rows that pass the `after` conditions, compute the `outputs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Union

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tidewheel.engine.operators.traverse import Relation

Ints = npt.NDArray[np.int64]

NULL = np.int64(1 << 62)
"""Stands for NULL. Values that large are refused."""

Operator = Literal["+", "-", "*", "least", "greatest"]
Comparison = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Slot:
    """The value of a slot."""

    index: int


@dataclass(frozen=True)
class Number:
    """A whole number."""

    value: int


@dataclass(frozen=True)
class Compute:
    """Arithmetic; NULL if one side is, except `least` and `greatest`, which skip it."""

    operator: Operator
    left: Value
    right: Value


Value = Union[Slot, Number, Compute]  # noqa: UP007  (a forward reference)


@dataclass(frozen=True)
class Compare:
    """A condition; false where one side is NULL."""

    operator: Comparison
    left: Value
    right: Value


@dataclass(frozen=True)
class Program:
    """`widths[i]`: columns of relation i beside its key; `keys[i]`: the slot looked up in it."""

    columns: int
    keys: tuple[int, ...]
    widths: tuple[int, ...]
    before: tuple[Compare, ...]
    after: tuple[Compare, ...]
    outputs: tuple[Value, ...]

    def is_plain(self, output: int) -> bool:
        """Does an output only take over a value?"""
        return isinstance(self.outputs[output], Slot)

    def run(
        self, columns: Sequence[Ints], relations: Sequence[Relation], nulls: bool
    ) -> list[Ints]:
        """New rows from the last step's. `nulls`: values may be NULL."""
        slots = list(columns)
        slots = self._filter(slots, self.before, nulls)
        for key, relation in zip(self.keys, relations, strict=True):
            where, found = relation.lookup(slots[key])
            slots = [s[where] for s in slots]
            slots += found
        slots = self._filter(slots, self.after, nulls)
        length = len(slots[0])
        return [_value(o, slots, length, nulls) for o in self.outputs]

    def _filter(self, slots: list[Ints], conditions: Sequence[Compare], nulls: bool) -> list[Ints]:
        for condition in conditions:
            length = len(slots[0])
            left = _value(condition.left, slots, length, nulls)
            right = _value(condition.right, slots, length, nulls)
            kept = _COMPARE[condition.operator](left, right)
            if nulls:
                kept &= (left != NULL) & (right != NULL)
            slots = [s[kept] for s in slots]
        return slots


_COMPARE = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _value(value: Value, slots: Sequence[Ints], length: int, nulls: bool) -> Ints:
    if isinstance(value, Slot):
        return slots[value.index]
    if isinstance(value, Number):
        return np.full(length, value.value, dtype=np.int64)
    left = _value(value.left, slots, length, nulls)
    right = _value(value.right, slots, length, nulls)
    if value.operator == "least":
        return np.minimum(left, right)  # NULL is larger than any value
    if value.operator == "greatest":
        found = np.maximum(left, right)
        if nulls:
            found = np.where(left == NULL, right, np.where(right == NULL, left, found))
        return found
    if value.operator == "+":
        found = left + right
    elif value.operator == "-":
        found = left - right
    else:
        found = left * right
    if nulls:
        found = np.where((left == NULL) | (right == NULL), NULL, found)
    return found
