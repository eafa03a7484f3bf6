"""The order of integers by counting, a digit at a time.

Arrow counts values whose range is below 4096, and compares others, which takes forty times as long.
So it gets twelve bits of the values at a time, the lowest first, each in the order by those before
(Knuth, The Art of Computer Programming, vol. 3, section 5.2.5). For half a million integers
of 17 bits that is 4 ms, of 34 bits 8; to sort words with the positions in them takes NumPy 9,
and 28 by its AVX-512 code on processors that are slow to store some lanes of a vector.
"""

from __future__ import annotations

import functools
import math
from time import perf_counter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.arrow import array_of, computed, numbers

Int64s = npt.NDArray[np.int64]

_DIGIT: Final = 12
BITS: Final = 4 * _DIGIT
"""Up to so many bits of the values this is worth while."""
LEADING: Final = 3 * _DIGIT
"""So many tell most of a million values from each other where these are spread evenly."""
FEWEST: Final = 12_000
"""Fewer are sorted as fast by comparing."""
_SAMPLE: Final = 1 << 15
_ODD: Final = 0x9E3779B97F4A7C1  # its multiples are in no order


def order(values: Int64s, bits: int) -> Int64s:
    """Positions in ascending order of `values`, not negative and of at most `bits` bits; stable."""
    return numbers(_order(values, bits)).view(np.int64)


def ordered(values: Int64s, bits: int) -> Int64s:
    """Such `values` in ascending order."""
    if len(values) < FEWEST or bits > BITS or not _faster_than_words():
        if bits > 32:
            return np.sort(values)
        return np.sort(values.astype(np.uint32)).astype(np.int64)  # half as wide is twice as fast
    return taken(values, _order(values, bits))


def taken(values: Int64s, places: pa.Array | Int64s) -> Int64s:
    """`values[places]`: of many in no order, NumPy takes twice as long."""
    where = array_of(places) if isinstance(places, np.ndarray) else places
    return numbers(computed("array_take").call([array_of(values), where]))


def _order(values: Int64s, bits: int) -> pa.Array:
    passes = max(1, math.ceil(bits / _DIGIT))
    width = math.ceil(bits / passes)
    found, sort, take = None, computed("array_sort_indices"), computed("array_take")
    for i in range(passes):
        digits = (values >> (i * width)).astype(np.uint16)
        digits &= np.uint16((1 << width) - 1)
        digit = array_of(digits)
        if found is None:
            found = sort.call([digit])
        else:
            found = take.call([found, sort.call([take.call([digit, found])])])
    return found


@functools.cache
def _faster_than_words() -> bool:
    """Is it faster than NumPy's sort of plain words on this processor?"""
    sample = np.arange(_SAMPLE) * _ODD & ((1 << BITS) - 1)

    def seconds(counting: bool) -> float:
        start = perf_counter()
        if counting:
            taken(sample, _order(sample, BITS))
        else:
            np.sort(sample)
        return perf_counter() - start

    return min(seconds(True) for _ in range(5)) < min(seconds(False) for _ in range(5))
