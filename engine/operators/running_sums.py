"""What is kept for aggregates that are functions of sums: where each argument's sum lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from tidewheel.engine.operators.limbs import LimbColumns
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrow_values import words
from tidewheel.engine.state.columns import Col, Mask
from tidewheel.engine.state.delta import Delta, Int64s, Schema

Function = Literal[
    "count_star",
    "count",
    "sum",
    "avg",
    "bool_and",
    "bool_or",
    "var_samp",
    "var_pop",
    "stddev_samp",
    "stddev_pop",
    "covar_samp",
    "covar_pop",
    "third",
    "fourth",
    "bit_and",
    "bit_or",
    "bit_xor",
]
"""`third` and `fourth` are central moments: the means of (x - mean)³ and (x - mean)⁴."""
FUNCTIONS: tuple[str, ...] = Function.__args__  # type: ignore[attr-defined]
SQUARED = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
COVARIANT = ("covar_samp", "covar_pop")
_DEGREES = {"third": 3, "fourth": 4}
CENTRAL = (*SQUARED, *COVARIANT, *_DEGREES)
"""Functions of how far values lie from their mean: of doubles, by sums of products of these."""
BITS = ("bit_and", "bit_or", "bit_xor")
"""Functions of how many values have each bit: of arguments that no others have."""
Factors = tuple[int, ...]
"""Arguments whose products are summed up, one of them perhaps several times, in ascending order."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: its function, the position of its argument (None for count(*)), its type.

    `other`: the second argument of a covariance, NULL where the first one is.
    """

    function: Function
    argument: int | None
    type: pa.DataType
    other: int | None = None

    @property
    def arguments(self) -> Sequence[int]:
        """Both arguments, or as many as there are."""
        return [a for a in (self.argument, self.other) if a is not None]

    @property
    def products(self) -> Sequence[Factors]:
        """The products whose sums it takes, those of fewer factors first."""
        if self.argument is None or self.function not in CENTRAL:
            return []
        if self.other is not None:
            return [(min(self.argument, self.other), max(self.argument, self.other))]
        return [(self.argument,) * i for i in range(2, _DEGREES.get(self.function, 2) + 1)]


def supports(function: str, argument: pa.DataType | None) -> bool:
    """Can `Accumulate` keep this aggregate?"""
    if function not in FUNCTIONS:
        return False
    if function in ("count_star", "count"):
        return True
    if argument is None:
        return False
    t = pa.types
    truth = t.is_boolean(argument) or isinstance(argument, pa.Bool8Type)
    if function in ("bool_and", "bool_or") or (truth and function == "sum"):
        return bool(truth)
    if function in CENTRAL:
        return bool(t.is_float64(argument))
    if function in BITS:
        return bool(t.is_integer(argument))
    number = t.is_integer(argument) or t.is_decimal128(argument) or t.is_floating(argument)
    return bool(number or _is_huge(argument))


def _is_huge(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.OpaqueType) and kind.type_name == "hugeint"


class Sum:
    """Where the running sum of one argument lies: parts of the weight, or rows of terms."""

    def __init__(
        self,
        argument: int,
        kind: pa.DataType,
        first: int,
        term: int,
        counted: bool,
        bits: bool = False,
    ) -> None:
        self.argument = argument
        self.kind = kind
        self.count_part = first
        self.parts = range(first + 1, first + 1)
        self.counted = counted  # only its NULLs matter
        self.bits = bits  # each part counts one
        self.float = pa.types.is_floating(kind) and not counted
        self.term = term
        self.special: int | None = None
        self.truth = pa.types.is_boolean(kind) or isinstance(kind, pa.Bool8Type)
        if counted:
            self.width = 1
        elif self.float:
            self.special = first + 1  # NaN, +inf, -inf
            self.width = 4
        else:
            dtype = columns_.column_type(kind).dtype
            limbs = 4 if dtype is None else 1 if dtype.itemsize <= 4 else 2
            limbs = kind.bit_width if bits else limbs
            self.parts = range(first + 1, first + 1 + limbs)
            self.width = 1 + limbs

    def values(self, col: Col) -> tuple[Any, Mask | None]:
        """Numbers of a column (uint64 pairs for 128 bits) and the mask of NULLs."""
        if self.counted:
            return None, columns_.is_null(col)
        kind = columns_.column_type(self.kind)
        if kind.dtype is not None:
            return kind.split(col)  # type: ignore[attr-defined, no-any-return]
        storage = col.storage if isinstance(col, pa.ExtensionArray) else col
        return words(storage, 16), columns_.is_null(col)


class Totals(Delta):
    """Groups with what their sums grow by: weights (groups, parts), and limbs of sums of doubles.

    `sums` has columns of sums that are known, by argument: 0 where there are no values.
    """

    __slots__ = ("limbs", "sums")

    def __init__(
        self,
        group: Schema,
        cols: Sequence[Col],
        weights: Int64s,
        limbs: LimbColumns,
        sums: Mapping[int, Col],
    ) -> None:
        super().__init__(group, cols, weights)
        self.limbs = limbs
        self.sums = sums
