"""Exact sums: integers in limbs of 32 bits, doubles as integers times powers of two, in 26.

A sum kept in floating point drifts: after (x + y) − y it need not be x again. Here every value is
split without error into integers that are added as integers, so what is taken away again leaves no
trace, in whatever order. A sum is rounded once, when it is read.

Source for the doubles: Neal, "Fast exact summation using small and large superaccumulators"
(arXiv:1505.05571), here sparse: only limbs that are in use exist, as rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.arrow import array_of, bitmap
from tidewheel.engine.state.columns import Array
from tidewheel.engine.state.delta import Int64s

LIMB = 32
_LOW = np.int64((1 << LIMB) - 1)
DOUBLE_LIMB = 26  # products of two, and sums of 2 ** 27 of them, are exact in a double: DuckDB adds
_DOUBLE_LOW = np.int64((1 << DOUBLE_LIMB) - 1)
_FEW = 8  # limbs that cover all doubles of a column, as often is so
_LARGE = 1e200  # doubles up to here, and their inverses, times a limb's unit are normal ones
BIAS = 88  # limb b weighs 2 ** (26 * (b - BIAS)); b may be negative


def split_integers(values: Array) -> list[Int64s]:
    """64-bit integers as limbs (low unsigned, high signed); narrow ones as one limb."""
    if values.dtype.itemsize <= 4:
        return [values.astype(np.int64)]
    if values.dtype == np.uint64:
        return [
            (values & np.uint64(_LOW)).astype(np.int64),
            (values >> np.uint64(LIMB)).astype(np.int64),
        ]
    values = values.astype(np.int64, copy=False)
    return [values & _LOW, values >> LIMB]


def split_bits(values: Array) -> list[Int64s]:
    """The bits of integers, 0 or 1, the lowest first."""
    return [((values >> i) & 1).astype(np.int64) for i in range(8 * values.dtype.itemsize)]


def join_bits(bits: Sequence[npt.NDArray[np.bool_]], kind: np.dtype[Any]) -> Array:
    """Integers of a type, from their bits."""
    out = np.zeros(len(bits[0]), np.uint64)
    for i, bit in enumerate(bits):
        out |= bit.astype(np.uint64) << np.uint64(i)
    return out.astype(f"u{kind.itemsize}").view(kind)


def split_wide(pairs: npt.NDArray[np.uint64]) -> list[Int64s]:
    """128-bit integers, shape (n, 2) little-endian words, as four limbs, the last one signed."""
    low, high = pairs[:, 0], pairs[:, 1]
    mask, shift = np.uint64(_LOW), np.uint64(LIMB)
    return [
        (low & mask).astype(np.int64),
        (low >> shift).astype(np.int64),
        (high & mask).astype(np.int64),
        high.view(np.int64) >> LIMB,
    ]


def join_limbs(limbs: Sequence[Int64s]) -> npt.NDArray[np.int64] | list[int]:
    """Sums of limbs as integers: int64 where all fit, else Python's."""
    if len(limbs) == 1:
        return limbs[0]
    if len(limbs) == 2:
        low, high = limbs
        if len(high) == 0 or (_within(high, 1 << 30) and _within(low, 1 << 61)):
            return (high << LIMB) + low if high.any() else low
    if len(limbs) == 4 and len(limbs[0]):
        words = _one_word(limbs)
        if words is not None:
            return words
    lists = [limb.tolist() for limb in limbs]
    return [
        sum(part << (LIMB * i) for i, part in enumerate(parts))
        for parts in zip(*lists, strict=True)
    ]


def _one_word(limbs: Sequence[Int64s]) -> Int64s | None:
    """The sums of four limbs, where all of them are of 64 bits."""
    low, second, third, last = limbs
    if not all(_within(limb, 1 << 62) for limb in limbs):
        return None  # what is carried could overflow
    second = second + (low >> LIMB)
    third = third + (second >> LIMB)
    last = last + (third >> LIMB)
    sign = second << LIMB >> 63
    if not ((third & _LOW == sign & _LOW).all() and (last == sign).all()):
        return None
    return (second << LIMB) | (low & _LOW)


def _within(values: Int64s, bound: int) -> bool:
    return bool(-bound < values.min() and values.max() < bound)


def split_doubles(values: npt.NDArray[np.float64]) -> tuple[Int64s, Int64s, Int64s]:
    """Finite doubles as (position of the value, limb number, signed limb), zeros left out."""
    return split_products([values])


def limb_columns(values: npt.NDArray[np.float64]) -> dict[int, Int64s]:
    """Finite doubles as columns of signed limbs, by their numbers; those with nothing left out."""
    sizes = np.abs(values)
    high = float(sizes.max(initial=0))
    low = float(sizes.min(where=sizes > 0, initial=np.inf))
    if high == 0:
        return {}
    first = _limb(math.frexp(high)[1] - 1)
    if high < _LARGE and low > 1 / _LARGE and first - _limb(math.frexp(low)[1] - 53) < _FEW:
        return _cut(values, first)
    return _columns(*split_doubles(values), len(values))


def square_columns(
    values: npt.NDArray[np.float64], limbs: Mapping[int, Int64s]
) -> dict[int, Int64s]:
    """The squares of finite doubles, whose `limb_columns` are known, in the same form."""
    if len(limbs) > _FEW:
        return _columns(*split_products([values, values]), len(values))
    found: dict[int, Int64s] = {}
    for one, other in itertools.combinations_with_replacement(limbs, 2):
        product = limbs[one] * limbs[other]
        if one != other:
            product <<= 1
        for limb, part in enumerate((product & _DOUBLE_LOW, product >> DOUBLE_LIMB)):
            at = one + other - BIAS + limb
            found[at] = found[at] + part if at in found else part
    return found


def integer_columns(values: Int64s) -> dict[int, Int64s]:
    """Integers in the form of `limb_columns`."""
    if not len(values) or _within(values, 1 << LIMB):
        return {BIAS: values}
    middle = (values >> DOUBLE_LIMB) & _DOUBLE_LOW
    return {BIAS: values & _DOUBLE_LOW, BIAS + 1: middle, BIAS + 2: values >> 2 * DOUBLE_LIMB}


def _columns(at: Int64s, number: Int64s, part: Int64s, n: int) -> dict[int, Int64s]:
    found = {}
    for limb in np.unique(number).tolist():
        mine = (number == limb).nonzero()[0]
        found[limb] = np.zeros(n, np.int64)
        found[limb][at[mine]] = part[mine]
    return found


def _limb(bit: int) -> int:
    """The number of the limb that has the bit of 2**bit."""
    return bit // DOUBLE_LIMB + BIAS


def _cut(values: npt.NDArray[np.float64], limb: int) -> dict[int, Int64s]:
    """Limbs from the highest on, each what is left of the values in whole units of it: all exact.

    A few passes over doubles take less time than one that looks at the bits of each.
    """
    found = {}
    while True:
        unit = math.ldexp(1.0, DOUBLE_LIMB * (limb - BIAS))
        whole = np.trunc(values * (1 / unit))
        found[limb] = whole.astype(np.int64)
        values = values - whole * unit
        if not values.any():
            return found
        limb -= 1


def split_products(factors: Sequence[npt.NDArray[np.float64]]) -> tuple[Int64s, Int64s, Int64s]:
    """The exact products of finite doubles, row by row, in the form of `split_doubles`.

    The limbs of a number have one sign, so those of sizes are multiplied, by hand.
    """
    first, limbs, sign = _sized(factors[0])
    for values in factors[1:]:
        number, others, other_sign = _sized(values)
        first, sign = first + number - BIAS, sign * other_sign
        limbs = _multiplied(limbs, others)
    return _present([first + i for i in range(len(limbs))], [limb * sign for limb in limbs])


def _sized(values: npt.NDArray[np.float64]) -> tuple[Int64s, list[Int64s], Int64s]:
    """The number of the lowest limb, the limbs of the size, and the sign."""
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    first, limbs = _limbs(np.abs(whole), exponent.astype(np.int64) - 53)
    return first, limbs, np.sign(whole)


def _multiplied(some: Sequence[Int64s], others: Sequence[Int64s]) -> list[Int64s]:
    """Limbs of products; all limbs are positive, and of no more bits than they should have."""
    out = [np.zeros(len(some[0]), np.int64) for _ in range(len(some) + len(others))]
    for i, one in enumerate(some):
        for j, other in enumerate(others, i):
            product = one * other
            out[j] += product & _DOUBLE_LOW
            out[j + 1] += product >> DOUBLE_LIMB
    for limb, above in itertools.pairwise(out):
        above += limb >> DOUBLE_LIMB
        limb &= _DOUBLE_LOW
    return out


def _limbs(size: Int64s, exponent: Int64s) -> tuple[Int64s, list[Int64s]]:
    """size × 2**exponent as the number of the lowest limb, and three of them."""
    number, shift = np.divmod(exponent + DOUBLE_LIMB * BIAS, DOUBLE_LIMB)
    low_half = (size & _DOUBLE_LOW) << shift  # < 2**51
    high_half = (size >> DOUBLE_LIMB) << shift  # < 2**52
    middle = (low_half >> DOUBLE_LIMB) + (high_half & _DOUBLE_LOW)
    return number, [low_half & _DOUBLE_LOW, middle, high_half >> DOUBLE_LIMB]


def _present(places: list[Int64s], parts: list[Int64s]) -> tuple[Int64s, Int64s, Int64s]:
    """Parts of values that are not zero: (position of the value, place, part)."""
    at = [part.nonzero()[0] for part in parts]
    return (
        np.concatenate(at),
        np.concatenate([place[index] for place, index in zip(places, at, strict=True)]),
        np.concatenate([part[index] for part, index in zip(parts, at, strict=True)]),
    )


def ratio(numerator: int, denominator: int) -> float:
    """A quotient of integers, correctly rounded; infinite where it does not fit."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def integers_to_arrow(
    values: npt.NDArray[np.int64] | list[int],
    valid: npt.NDArray[np.bool_] | None,
    kind: pa.DataType,
) -> pa.Array:
    """Integers (unscaled for DECIMAL) as an Arrow array; OverflowError where one is too big."""
    n = len(values)
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if pa.types.is_decimal128(storage) or pa.types.is_fixed_size_binary(storage):
        if pa.types.is_decimal128(storage):
            bound = 10**storage.precision
        else:
            bound = 1 << 127
        if isinstance(values, list):
            if any(not -bound < v < bound for v in values):
                raise OverflowError(f"sum out of the range of {kind}")
            raw = pa.py_buffer(b"".join(v.to_bytes(16, "little", signed=True) for v in values))
        else:
            pairs = np.empty((n, 2), np.int64)
            pairs[:, 0] = values
            np.right_shift(values, 63, out=pairs[:, 1])
            raw = pa.py_buffer(pairs)
        mask = bitmap(valid)
        array = pa.Array.from_buffers(storage, n, [mask, raw])
        if storage is not kind:
            return pa.ExtensionArray.from_storage(kind, array)
        return array
    if isinstance(values, np.ndarray):
        array = array_of(values, valid)
        return array if array.type == kind else array.cast(kind)
    return pa.array(values, kind, mask=None if valid is None else ~valid)
