"""A recursive step that is joins, arithmetic and comparisons of integers only: run without SQL.

A row of the loop is a list of slots: first the columns of the recursive table, then, join by join,
those of the relations that do not change. A step is: keep the rows that pass the `before`
conditions,
join by join look up a slot's value in a relation's first column and append its other columns, keep
the rows that pass the `after` conditions, compute the `outputs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Union

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tidewheel.engine.operators.lookup import Relation

Ints = npt.NDArray[np.int64]

NULL = np.int64(1 << 62)
"""Stands for NULL. Values that large are refused."""
FAR = 1 << 61
"""Computed values stay below it, so that the next operation does not leave 64 bits."""

Limits = tuple[int, int]
"""The least and the greatest value that a computed one may have."""


class Unfit(Exception):
    """The values do not fit this way of running; the same query has to run as a loop of kernels."""


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
    """`widths[i]`: columns of relation i beside its key; `keys[i]`: the slot looked up in it.

    `limits[i]`: what output i, and what is computed on the way to it, may not pass (none if empty).
    """

    columns: int
    keys: tuple[int, ...]
    widths: tuple[int, ...]
    before: tuple[Compare, ...]
    after: tuple[Compare, ...]
    outputs: tuple[Value, ...]
    limits: tuple[Limits | None, ...] = ()

    @cached_property
    def plain(self) -> bool:
        """Do all outputs only take over values?"""
        return all(isinstance(o, Slot) for o in self.outputs)

    @cached_property
    def wanted(self) -> tuple[frozenset[int], ...]:
        """Per relation: the slots before it that are read after it has been joined."""
        found: list[frozenset[int]] = []
        later = {s for o in self.outputs for s in _slots(o)}
        later |= {s for c in self.after for s in _slots(c.left) | _slots(c.right)}
        width = self.columns + sum(self.widths)
        for key, own in zip(reversed(self.keys), reversed(self.widths), strict=True):
            width -= own
            found.append(frozenset(s for s in later if s < width))
            later.add(key)
        return tuple(reversed(found))

    @cached_property
    def inverse(self) -> tuple[frozenset[int], ...] | None:
        """Per relation the columns beside its key that an output row tells, or a later key.

        Where they tell the relation's row, each output row comes from one row of the loop alone.
        None if some column of that row could not be told.
        """
        known = {o.index for o in self.outputs if isinstance(o, Slot)}
        found: list[frozenset[int]] = []
        width = self.columns + sum(self.widths)
        for key, own in zip(reversed(self.keys), reversed(self.widths), strict=True):
            width -= own
            found.append(frozenset(s - width for s in known if width <= s < width + own))
            known.add(key)
        return tuple(reversed(found)) if known.issuperset(range(self.columns)) else None

    def passes_over(self, slot: int, operator: Operator) -> bool:
        """Is the value of `slot` an operand of `operator`, which passes over its NULLs?"""
        return any(_below(o, slot, operator, False) for o in self.outputs)

    @property
    def limited(self) -> Iterator[tuple[Value, Limits | None]]:
        """The outputs, each with its limits."""
        return zip(self.outputs, self.limits or (None,) * len(self.outputs), strict=True)

    def run(
        self, columns: Sequence[Ints], relations: Sequence[Relation], nulls: bool
    ) -> list[Ints]:
        """New rows from the last step's. `nulls`: values may be NULL. Raises Unfit."""
        slots = list(columns)
        slots = self._filter(slots, self.before, nulls)
        for key, relation, wanted in zip(self.keys, relations, self.wanted, strict=True):
            where, found = relation.lookup(slots[key], bool(wanted) or not relation.columns)
            unread = found[0] if found else where  # of the right length, as good as any
            assert unread is not None
            slots = [
                s[where] if where is not None and i in wanted else unread
                for i, s in enumerate(slots)
            ]
            slots += found
        slots = self._filter(slots, self.after, nulls)
        length = len(slots[0])
        return [
            _value(o, slots, length, nulls)
            if limit is None or not length
            else _within(o, slots, length, nulls, limit)[0]
            for o, limit in self.limited
        ]

    def _filter(self, slots: list[Ints], conditions: Sequence[Compare], nulls: bool) -> list[Ints]:
        for condition in conditions:
            length = len(slots[0])
            if not length:
                break
            left, right = (
                _within(side, slots, length, nulls, (-FAR, FAR))[0]
                if isinstance(side, Compute)
                else _value(side, slots, length, nulls)
                for side in (condition.left, condition.right)
            )
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


def _below(value: Value, slot: int, operator: Operator, within: bool) -> bool:
    if isinstance(value, Slot):
        return within and value.index == slot
    if isinstance(value, Number):
        return False
    within = within or value.operator == operator
    return any(_below(side, slot, operator, within) for side in (value.left, value.right))


def _slots(value: Value) -> set[int]:
    if isinstance(value, Slot):
        return {value.index}
    if isinstance(value, Number):
        return set()
    return _slots(value.left) | _slots(value.right)


def _value(value: Value, slots: Sequence[Ints], length: int, nulls: bool) -> Ints:
    if isinstance(value, Slot):
        return slots[value.index]
    if isinstance(value, Number):
        return np.full(length, value.value, dtype=np.int64)
    left = _value(value.left, slots, length, nulls)
    right = _value(value.right, slots, length, nulls)
    return _computed(value.operator, left, right, nulls)


def _computed(operator: Operator, left: Ints, right: Ints, nulls: bool) -> Ints:
    if operator == "least":
        return np.minimum(left, right)  # NULL is larger than any value
    if operator == "greatest":
        found = np.maximum(left, right)
        if nulls:
            found = np.where(left == NULL, right, np.where(right == NULL, left, found))
        return found
    if operator == "+":
        found = left + right
    elif operator == "-":
        found = left - right
    else:
        found = left * right
    if nulls:
        found = np.where((left == NULL) | (right == NULL), NULL, found)
    return found


def _within(
    value: Value, slots: Sequence[Ints], length: int, nulls: bool, limits: Limits
) -> tuple[Ints, Limits]:
    """The values of some rows, and what they lie between. Raises Unfit beyond `limits`."""
    if isinstance(value, Number):
        return np.full(length, value.value, dtype=np.int64), (value.value, value.value)
    if isinstance(value, Slot):
        return slots[value.index], _extent(slots[value.index], nulls)
    left, (a, b) = _within(value.left, slots, length, nulls, limits)
    right, (c, d) = _within(value.right, slots, length, nulls, limits)
    if value.operator == "+":
        low, high = a + c, b + d
    elif value.operator == "-":
        low, high = a - d, b - c
    elif value.operator == "*":
        ends = a * c, a * d, b * c, b * d
        low, high = min(ends), max(ends)
    else:
        low, high = min(a, c), max(b, d)
    if low <= -FAR or high >= FAR:
        raise Unfit("a value may be too large")
    found = _computed(value.operator, left, right, nulls)
    if low < limits[0] or high > limits[1]:
        low, high = _extent(found, nulls)
        if low < limits[0] or high > limits[1]:
            raise Unfit("a value is too large for its type")
    return found, (low, high)


def _extent(values: Ints, nulls: bool) -> Limits:
    """The least and the greatest value; of none zero."""
    high = int(values.max())
    if nulls and high == NULL:
        values = values[values != NULL]
        high = int(values.max()) if len(values) else 0
    return (int(values.min()) if len(values) else 0), high
