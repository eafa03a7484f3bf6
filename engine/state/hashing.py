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

_SHORT: Final = 256  # bytes; longer strings are hashed one by one
_MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # the first n bytes


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


def hash_bytes(offsets: npt.NDArray[Any], data: npt.NDArray[np.uint8]) -> U64:
    """Hash variable-length byte strings: value i is ``data[offsets[i]:offsets[i + 1]]``."""
    offsets = offsets.astype(np.int64, copy=False)
    starts, lengths = offsets[:-1], offsets[1:] - offsets[:-1]
    shortest, longest = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
    h = mix(lengths.view(np.uint64) + SEED)
    if len(data) < 8:
        data = np.concatenate([data, np.zeros(8, np.uint8)])
    words: U64 = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))  # a word at every byte
    for begin in range(0, min(longest, _SHORT), 8):
        rows = slice(None) if begin < shortest else (lengths > begin).nonzero()[0]
        place = starts[rows] + begin
        at = np.minimum(place, len(data) - 8)  # at the end of the data a word begins sooner
        word = words[at] >> ((place - at) * 8 & 63).view(np.uint64)
        left = np.minimum(lengths[rows] - begin, 8)
        word &= _MASKS[left]
        h[rows] = combine(h[rows], mix(word))
    if longest > _SHORT:
        for i in (lengths > _SHORT).nonzero()[0].tolist():
            h[i] = _digest(data[offsets[i] : offsets[i + 1]].tobytes())
    return h


def _digest(value: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little")


def hash_text(text: str) -> int:
    """A stable 64-bit hash of one string: for values that only Python can take apart."""
    return _digest(text.encode())
