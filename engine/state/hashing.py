"""64-bit hashes of columns, vectorised: equal values (by DuckDB's rules) hash equal.

The hash of a value does not depend on the batch that it stands in, nor on the process, so that
hashes can be stored. Whoever uses a hash as identity must check collisions (`equal_at`).
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]

_C1: Final = np.uint64(0x9E3779B97F4A7C15)
_C2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_S29: Final = np.uint64(29)
_S32: Final = np.uint64(32)
NULL_HASH: Final = np.uint64(0xBF58476D1CE4E5B9)
SEED: Final = np.uint64(0x2545F4914F6CDD1D)

_CHUNK_BYTES: Final = 1 << 20


def mix(x: U64) -> U64:
    """Spread the bits of 64-bit integers (two rounds of multiply and xor-shift); a bijection."""
    h = x * _C1
    h ^= h >> _S32
    h *= _C2
    h ^= h >> _S29
    return h


def combine(h: U64, column: U64) -> U64:
    """The hash of a row so far (`h`) with one more column's hash; order matters."""
    out = (h ^ column) * _C1
    out ^= out >> _S32
    return out


def hash_words(words: U64) -> U64:
    """Hash fixed-width values given as uint64 words, shape (n, words per value)."""
    h = np.full(len(words), SEED)
    for i in range(words.shape[1]):
        h = combine(h, mix(words[:, i]))
    return h


def _tables() -> tuple[U64, U64]:
    rng = np.random.Generator(np.random.PCG64(0x71DE))
    letters = rng.integers(1, 1 << 63, size=256, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return letters, _powers(1 << 10)


def _powers(n: int) -> U64:
    return np.cumprod(np.full(n, _C2), dtype=np.uint64)


_LETTERS, _POWERS = _tables()


def hash_bytes(offsets: npt.NDArray[Any], data: npt.NDArray[np.uint8]) -> U64:
    """Hash variable-length byte strings: value i is ``data[offsets[i]:offsets[i + 1]]``.

    A polynomial over random letters, modulo 2**64, as a difference of running sums.
    """
    global _POWERS
    n = len(offsets) - 1
    offsets = offsets.astype(np.int64, copy=False)
    lengths = offsets[1:] - offsets[:-1]
    longest = int(lengths.max()) if n else 0
    if longest > len(_POWERS):
        _POWERS = _powers(max(longest, 2 * len(_POWERS)))
    out = np.empty(n, np.uint64)
    begin = 0
    while begin < n:
        # As many strings as fill a chunk, at least one: temporaries take 8 bytes per letter.
        end = int(offsets.searchsorted(offsets[begin] + _CHUNK_BYTES, side="right")) - 1
        end = min(max(end, begin + 1), n)
        lo, hi = int(offsets[begin]), int(offsets[end])
        starts = offsets[begin:end] - lo
        place = np.arange(hi - lo) - starts.repeat(lengths[begin:end])
        sums = np.empty(hi - lo + 1, np.uint64)
        sums[0] = 0
        np.cumsum(_LETTERS[data[lo:hi]] * _POWERS[place], out=sums[1:])
        out[begin:end] = sums[offsets[begin + 1 : end + 1] - lo] - sums[starts]
        begin = end
    return mix(out + lengths.view(np.uint64))


def hash_text(text: str) -> int:
    """A stable 64-bit hash of one string: for values that only Python can take apart."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
