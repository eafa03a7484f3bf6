"""Streams that were handed to Arrow, which keeps them past the end of Python's own objects."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Generator
from typing import Any
from weakref import WeakSet


class Handed:
    """An iterator over `stream` that lets go of it when Python ends.

    An Arrow reader that still exists then never frees what it reads from. DuckDB's connection
    would be part of that, and complain of it on stderr.
    """

    def __init__(self, stream: Generator[Any]) -> None:
        self._stream = stream
        _HANDED.add(self)

    def __iter__(self) -> Handed:
        return self

    def __next__(self) -> Any:
        return next(self._stream)

    def close(self) -> None:
        """Give up the rest."""
        stream, self._stream = self._stream, (_ for _ in ())
        with contextlib.suppress(ValueError):  # a thread that still reads it
            stream.close()


_HANDED: WeakSet[Handed] = WeakSet()


def _close_all() -> None:
    for handed in list(_HANDED):
        handed.close()


atexit.register(_close_all)
