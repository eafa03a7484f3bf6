"""Rows that a step is about to make: do they fit into memory, and are they worth it?

A join counts the pairs that it meets before it makes them. Numbers of rows beyond `LOOK` are
compared with what is free: an operating system that gives away more memory than there is kills
who uses it, and with the process goes every database that it holds.
"""

from __future__ import annotations

from contextvars import ContextVar
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Final, Protocol

from tidewheel.engine.interruption import stop_if_asked

LOOK: Final = 1 << 22
"""Fewer rows are made without a question."""
_WORK: Final = 60
"""Bytes of a row while it is made, beside its values: positions, keys, weights (measured)."""
_SYSTEM: Final = Path("/proc/meminfo")
_GROUP: Final = Path("/sys/fs/cgroup")

_most: ContextVar[float | None] = ContextVar("most", default=None)
_until: ContextVar[float] = ContextVar("until", default=inf)


class Excess(MemoryError):
    """More rows than fit, or than are worth it."""


class Overtime(Excess):
    """Going round takes longer than it is worth."""


class AtMost:
    """Within the block no step may make more rows at a time, and loops have so many seconds."""

    __slots__ = ("_ends", "_rows", "_seconds", "_token")

    def __init__(self, rows: float, seconds: float = inf) -> None:
        self._rows = rows
        self._seconds = seconds

    def __enter__(self) -> None:
        self._token = _most.set(self._rows)
        self._ends = _until.set(perf_counter() + self._seconds)

    def __exit__(self, *_: object) -> None:
        _until.reset(self._ends)
        _most.reset(self._token)


def ensure_time() -> None:
    """Overtime if a loop has gone round for long enough."""
    if perf_counter() > _until.get():
        raise Overtime("its operators took longer than its query")


class Held(Protocol):
    """Rows that take memory."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


def ensure(rows: int, of: str, like: Held | None = None) -> None:
    """Excess if a step is not to make `rows` rows, `of` such a kind, as wide as those in `like`."""
    if rows <= LOOK:
        return
    stop_if_asked()
    most = _most.get()
    if most is not None and rows > most:
        raise Excess(f"{rows:,} {of}")
    room = free()
    need = rows * (_WORK + (like.nbytes / len(like) if like else 0))
    if room is not None and need > room:
        raise Excess(
            f"{rows:,} {of} need some {_gigabytes(need)}, of which {_gigabytes(room)} are free"
        )


def free() -> int | None:
    """Bytes that can still be had, also by the limits of a container; None if nobody tells."""
    found = []
    try:
        lines = dict(line.split(":") for line in _SYSTEM.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    except (OSError, KeyError, ValueError):
        pass
    try:
        limit, used = (int((_GROUP / f"memory.{n}").read_text()) for n in ("max", "current"))
        found.append(limit - used)
    except (OSError, ValueError):  # no control groups, or "max": no limit
        pass
    return max(0, min(found)) if found else None


def _gigabytes(count: float) -> str:
    return f"{count / (1 << 30):,.1f} GiB"
