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
Places = tuple[list[Int64s], int]
"""Numbers, and the place of their lowest limb."""
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


def whole(limbs: Sequence[Int64s], low: int) -> Places:
    """The same numbers, carried such that the last limb is small, too."""
    return carried(carried(limbs)), low


def central(sums: Sequence[Places], n: Int64s) -> Places:
    """What central moments are multiples of, carried; see `doubles`. `sums` are `whole`.

    Of x, y and their products; or of x, again x, and its powers from the second. `n` < `MOST`.
    """
    x, y, *others = sums
    xy = _multiplied(x, y)
    if len(others) == 1:
        return _together([(1, _by(others[0], n)), (-1, xy)])
    x2 = others[0]
    parts = [(1, _by(others[1], n, n)), (-3, _by(_multiplied(x2, x), n)), (2, _multiplied(xy, x))]
    if len(others) > 2:
        parts = [
            (1, _by(others[2], n, n, n)),
            (-4, _by(_multiplied(others[1], x), n, n)),
            (6, _by(_multiplied(x2, xy), n)),
            (-3, _multiplied(xy, xy)),
        ]
    return _together(parts)


def _by(number: Places, *counts: Int64s) -> Places:
    limbs, low = number
    for n in counts:
        limbs = carried(carried([limb * n for limb in limbs]))
    return limbs, low


def _multiplied(one: Places, other: Places) -> Places:
    (some, low), (others, low_other) = one, other
    out = [np.zeros(len(some[0]), np.int64) for _ in range(len(some) + len(others) - 1)]
    for i, a in enumerate(some):
        for j, b in enumerate(others, i):
            out[j] += a * b
    return carried(carried(out)), low + low_other


def _together(parts: Sequence[tuple[int, Places]]) -> Places:
    low = min(at for _, (_, at) in parts)
    size = max(at + len(limbs) for _, (limbs, at) in parts) - low
    out = [np.zeros(len(parts[0][1][0][0]), np.int64) for _ in range(size)]
    for factor, (limbs, at) in parts:
        for limb, into in zip(limbs, out[at - low :], strict=False):
            into += factor * limb
    return carried(out), low


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
