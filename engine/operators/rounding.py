"""Exact sums of many groups, rounded at the same time: what `exact.ratio` does one by one.

A number is a list of limbs of 26 bits, the lowest first, each an array with one item per group: sum
of limbs[i] × 2**(26 i). *Carried*, all limbs but the last, which has the sign, lie in [0, 2**26):
what is left out at the low end makes a number smaller, also below 0, and is told by whether it is
there at all (`rest`). Law: bit for bit what Python's quotient of the same integers is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tidewheel.engine.operators import exact
from tidewheel.engine.state.columns import Array, Mask
from tidewheel.engine.state.delta import Int64s

BITS: Final = exact.DOUBLE_LIMB
LARGEST: Final = 1 << 62  # what is smaller than this can be carried
MOST: Final = 1 << 34  # divisors are smaller: what is left, and one limb more, are 60 bits
_LOW: Final = np.int64((1 << BITS) - 1)
_ROOM: Final = 61  # bits: more than a double has, so that the last one can tell of all below
_EXPONENT: Final = 52  # where a double has it, and what it is for 0.5
_HALF: Final = 1022
_NORMAL: Final = float(np.finfo(np.float64).tiny)


def carried(limbs: Sequence[Int64s]) -> list[Int64s]:
    """The same numbers with one limb more, carried. Limbs are smaller than `LARGEST`."""
    out = [limbs[0] & _LOW]
    carry = limbs[0] >> BITS
    for limb in limbs[1:]:
        carry += limb
        out.append(carry & _LOW)
        carry >>= BITS
    return [*out, carry]


def divided(limbs: Sequence[Int64s], by: Int64s, rest: Mask) -> tuple[list[Int64s], Mask]:
    """Carried numbers over positive ones smaller than `MOST`, rounded down; what is left then?

    By hand, limb by limb. `rest`: is something left of the numbers already?
    """
    left = np.zeros(len(by), np.int64)
    out: list[Int64s] = []
    for limb in reversed(limbs):
        left <<= BITS
        left += limb
        quotient = left // by
        left -= quotient * by
        out.append(quotient)
    return out[::-1], rest | (left != 0)


def finer(limbs: Sequence[Int64s], by: int) -> tuple[list[Int64s], int]:
    """The same numbers with limbs below, and how many: quotients by `by` have enough bits then."""
    more = -(-(_ROOM + by.bit_length()) // BITS)
    return [np.zeros_like(limbs[0])] * more + list(limbs), more


def spread(
    x: Sequence[Int64s], low: int, squares: Sequence[Int64s], low_square: int, n: Int64s
) -> tuple[list[Int64s], int]:
    """n Σx² − (Σx)², not carried, and the place of its lowest limb.

    `x` and `squares` are carried twice, such that the last limb is small, too; `n` < `MOST`.
    """
    low_out = min(2 * low, low_square)
    size = max(2 * (low + len(x)), low_square + len(squares)) - low_out
    out = [np.zeros(len(n), np.int64) for _ in range(size)]
    for i, limb in enumerate(squares, low_square - low_out):
        out[i] += limb * n
    for i, one in enumerate(x):
        at = 2 * (low + i) - low_out
        out[at] -= one * one
        for j, other in enumerate(x[i + 1 :], 1):
            out[at + j] -= 2 * one * other
    return out, low_out


def rounded(limbs: Sequence[Int64s], exponent: int, rest: Mask) -> tuple[Array, Mask]:
    """Carried numbers times 2**exponent to the nearest double, and where that is not known.

    The leading 61 bits of each are brought together in one integer. Its last bit is set if
    anything is left of the number: it lies several bits behind those that a double keeps, and so
    the one rounding of the integer is that of the number. Numbers smaller than all normal doubles
    would be rounded twice.
    """
    top = limbs[-1].copy()
    rest = rest.copy()
    left_out = np.zeros(len(top), np.int64)
    for limb in reversed(limbs[:-1]):
        room = np.where(left_out > 0, 0, np.clip(_ROOM - _bits(top), 0, BITS))
        cut = BITS - room
        top <<= room
        top += limb >> cut
        rest |= (limb & ((1 << cut) - 1)) != 0
        left_out += cut
    top |= rest
    with np.errstate(over="ignore", under="ignore"):
        out = np.ldexp(top.astype(np.float64), left_out + exponent)
    return out, (np.abs(out) < _NORMAL) & (top != 0)


def _bits(values: Int64s) -> Int64s:
    """How many bits have these numbers, but for their sign? At most one too many."""
    words: npt.NDArray[np.int64] = np.abs(values).astype(np.float64).view(np.int64)
    words >>= _EXPONENT
    words -= _HALF
    return words
