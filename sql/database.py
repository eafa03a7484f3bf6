"""What all connections of one process to one database share: views, epochs, the writers' queue."""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakSet, WeakValueDictionary

from tidewheel.planner.maintain import Maintainer
from tidewheel.sql.errors import OperationalError, ProgrammingError
from tidewheel.sql.kept_rows import KeptRows, mark

if TYPE_CHECKING:
    from tidewheel.planner.maintain import Found

LOCK_TIMEOUT = 60.0
"""Seconds that a writer waits for the one before it."""


class WriteLock:
    """One writer at a time, first come first served; owned by a session, not by a thread.

    `mark` tells the state of the database's file, None while that does not matter.
    """

    def __init__(self, mark: Callable[[], object] = lambda: None) -> None:
        self._mark = mark
        self.undisturbed = True
        """Has the file changed in our writers' turns only? (Others of this process may have it.)"""
        self._seen: object = mark()
        self._condition = threading.Condition()
        self._owner: object | None = None
        self._thread = 0
        self._queue: deque[object] = deque()
        self.turns = 0
        """Grows when a writer begins and when one ends."""
        self.ended = 0
        """Grows when one ends: what it wrote, others may see from some time before on."""

    def held_by(self, owner: object) -> bool:
        """Does `owner` have it?"""
        return self._owner is owner

    def acquire(self, owner: object, timeout: float = LOCK_TIMEOUT) -> None:
        """Wait for the lock; OperationalError after `timeout` seconds.

        A thread that has it through another session would wait for itself: refused at once.
        """
        with self._condition:
            self.turns += 1
            if self._owner is None and not self._queue:
                self._begin(owner)
                return
            if self._thread == threading.get_ident() and self._owner is not None:
                raise OperationalError(
                    "another connection of this thread has an open transaction that writes",
                    hint="commit or roll back that transaction first",
                )
            ticket = object()
            self._queue.append(ticket)
            until = monotonic() + timeout
            try:
                while self._owner is not None or self._queue[0] is not ticket:
                    if not self._condition.wait(until - monotonic()) and monotonic() >= until:
                        raise OperationalError(
                            f"waited {timeout:g} s for another connection's transaction to end",
                            hint="commit or roll back that transaction",
                        )
                self._begin(owner)
            finally:
                self._queue.remove(ticket)
                self._condition.notify_all()

    def try_acquire(self, owner: object) -> bool:
        """Take it if nobody has it or waits for it."""
        with self._condition:
            if self._owner is not None or self._queue:
                return False
            self._begin(owner)
            return True

    def _begin(self, owner: object) -> None:
        self.look()
        self._owner, self._thread = owner, threading.get_ident()

    def look(self) -> None:
        """Has somebody else written to the file? Call between two turns."""
        self.undisturbed = self.undisturbed and self._mark() == self._seen

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A block that may write to the file without a turn: DDL."""
        if self._owner is None:
            self.look()
        yield
        if self._owner is None:
            self._seen = self._mark()

    def start(self) -> None:
        """The file is as it is: from now on it is looked at."""
        self.undisturbed, self._seen = True, self._mark()

    def release(self, owner: object) -> None:
        """Give it up; no error if `owner` does not have it."""
        with self._condition:
            if self._owner is owner:
                self._owner, self._thread = None, 0
                self._seen = self._mark()
                self.turns += 1
                self.ended += 1
                self._condition.notify_all()


@dataclass(frozen=True, slots=True)
class Epoch:
    """A committed transaction as subscribers see it: the deltas of the hot views it changed."""

    number: int
    deltas: Mapping[str, Found]
    bytes: int


_OBJECTS: Final = 2048
"""Bytes of the objects that a delta of a few rows is, and its place in an epoch (measured)."""


class History:
    """The last epochs' deltas, bounded; subscribers read it at their own pace.

    `unread_bytes` is the bound while nobody subscribes: for who was here, and goes on.
    """

    def __init__(
        self, max_epochs: int = 10_000, max_bytes: int = 256 << 20, unread_bytes: int = 32 << 20
    ) -> None:
        self.max_epochs = max_epochs
        self.max_bytes = max_bytes
        self.unread_bytes = unread_bytes
        self.readers: WeakSet[object] = WeakSet()
        """The subscriptions that are not closed."""
        self.changed = threading.Condition()
        self.waiting: set[Callable[[], object]] = set()
        """Called when something changed, with `changed` held: event loops that wait."""
        self._epochs: deque[Epoch] = deque()
        self._bytes = 0
        self.broken: dict[str, int] = {}
        """Per view that was dropped, the epoch up to which its history can't be used."""
        self.floor = 0
        """Every kept epoch is greater than this one."""

    def append(self, number: int, deltas: Mapping[str, Found]) -> None:
        """Publish an epoch; the oldest ones go when the bounds are passed."""
        size = sum([d.nbytes + _OBJECTS for d in deltas.values()])
        with self.changed:
            self._epochs.append(Epoch(number, deltas, size))
            self._bytes += size
            most = self.max_bytes if self.readers else self.unread_bytes
            while len(self._epochs) > self.max_epochs or (
                self._bytes > most and len(self._epochs) > 1
            ):
                old = self._epochs.popleft()
                self._bytes -= old.bytes
                self.floor = old.number
            self.wake()

    def forget(self, number: int) -> None:
        """Keep no epoch up to `number`."""
        with self.changed:
            self._epochs.clear()
            self._bytes, self.floor = 0, number
            self.wake()

    def wake(self) -> None:
        """Have everybody who waits look again. Call with `changed` held."""
        self.changed.notify_all()
        for call in tuple(self.waiting):
            with suppress(RuntimeError):  # its event loop has been closed
                call()

    def next(self, number: int) -> Epoch | None:
        """The first kept epoch behind `number`. Call with `changed` held."""
        at = bisect_right(self._epochs, number, key=attrgetter("number"))
        return self._epochs[at] if at < len(self._epochs) else None


def spelled_out(name: str) -> str:
    """What DuckDB takes `name` for: `~/a.db`, `file:/a.db` and `duckdb:a.db` are files, too.

    With two names a file would have two states of its views here, and neither would see the other's
    commits.
    """
    if "\0" in name:
        raise ProgrammingError("the name of a database has no NUL in it")
    if name[:7].lower() == "duckdb:" and name[7:9] != "//":
        name = name[7:] or ":memory:"
    if name.startswith("~"):
        return os.environ.get("USERPROFILE" if os.name == "nt" else "HOME", "") + name[1:]
    return _FILE.sub("/", name)


_FILE = re.compile("^file:(//(localhost)?)?/")


def file_of(name: str) -> str:
    """The path of a database's file, resolved; "" for one in memory."""
    return "" if not name or name.startswith(":memory:") else str(Path(name).resolve())


class Database:
    """The shared state of one database; `of` finds it by what was passed to `connect`."""

    _open: ClassVar[WeakValueDictionary[str, Database]] = WeakValueDictionary()
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, new: bool = False, file: str = "") -> None:
        self.kept = KeptRows(file) if file else None
        """Of a file, the rows of views that an earlier process left."""
        self.maintainer = Maintainer()
        self.history = History()
        self.epoch = 0
        self.loaded = new
        self._shared = not new
        self.writer = WriteLock(lambda: mark(file) if file and self.maintainer.views else None)
        self.reading = threading.RLock()
        """Held while a statement takes its snapshot and while an epoch is published."""
        self.catalog_version = 0
        self.position = 0
        """Of the view that was made last, among all that are kept here. Hold the write lock."""
        self._sessions: WeakSet[object] = WeakSet()
        self.committing = threading.Lock()
        """Held while an epoch goes through the views, up to its commit."""
        self.removed: dict[str, int] = {}
        """Per table, how many writers had ended when rows of it were last removed or changed."""
        self.lapsed: set[str] = set()
        """Views that an epoch emptied by failing: they were filled before."""
        self.attached: set[str] = set()
        """Files that it may write to beside its own."""
        self.remembered: dict[tuple[str, str], tuple[int, int]] = {}
        """What `planner.rewrites.measured` knows of columns."""

    @classmethod
    def of(cls, name: str) -> Database:
        """The database of a path or a named memory; an unnamed memory is nobody else's."""
        if name in ("", ":memory:"):
            return cls(new=True)
        file = file_of(name)
        key = file or name
        with cls._guard:
            found = cls._open.get(key)
            if found is None:
                found = cls._open[key] = cls(file=file)
            return found

    def enter(self, session: object) -> None:
        """A session uses the database, until it leaves or is nobody's any more."""
        with self.committing, self._guard:
            self._sessions.add(session)

    @property
    def state(self) -> object:
        """Another one after every change of tables or catalog, by whichever connection."""
        return self.epoch, self.catalog_version, self.writer.turns

    @property
    def written(self) -> tuple[int, int]:
        """Another one after every commit of others than the one who writes just now."""
        return self.epoch, self.writer.ended

    def own_state(self) -> object:
        """`state`, if nobody but one session can reach the database; else None."""
        return None if self._shared or self.has_others else self.state

    @property
    def private(self) -> bool:
        """Can nobody but one session ever reach it?"""
        return not self._shared

    @property
    def has_others(self) -> bool:
        """May somebody read while one session writes?"""
        return len(self._sessions) > 1

    def is_last(self, session: object) -> bool:
        """Is it the only one here?"""
        return set(self._sessions) == {session}

    def leave(self, session: object) -> None:
        """The last one out takes the views' state along: the file may change behind our back."""
        with self._guard:
            self._sessions.discard(session)
            if not self._sessions:
                self.maintainer.views = {}
                self.maintainer.settle()
                self.lapsed.clear()
                self.history.forget(self.epoch)
                self.loaded = False

    @contextmanager
    def writing(self, owner: object, keeps: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Hold the write lock for a block, unless `owner` has it already, or `keeps` it."""
        if self.writer.held_by(owner):
            yield
            return
        self.writer.acquire(owner)
        try:
            yield
        finally:
            if not keeps():
                self.writer.release(owner)

    def publish(self, deltas: Mapping[str, Found]) -> None:
        """Count an epoch and show it to subscribers. Call with `reading` held, after the commit."""
        self.epoch += 1
        self.history.append(self.epoch, dict(deltas))

    def break_off(self, keys: Collection[str]) -> None:
        """Who follows these views is told that it can't go on, in an epoch of its own."""
        if keys:
            with self.reading:
                self.history.broken.update(dict.fromkeys(keys, self.epoch))
                self.publish({})
