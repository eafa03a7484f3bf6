"""Subscriptions: a snapshot of a maintained view, then every later epoch's change.

All subscribers read one bounded history (`database.History`) at their own pace, so a slow one costs
nothing and holds nobody up; one that falls behind the oldest kept epoch gets a clear error.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import isnan
from time import monotonic
from typing import Any, NoReturn

from tidewheel.engine.arrow import empty, pa
from tidewheel.planner.recompute import WEIGHT
from tidewheel.sql import errors
from tidewheel.sql.convert import RowConverter
from tidewheel.sql.database import Database, Epoch

_POLL = 0.1
"""Seconds between two looks at whether the connection is open while waiting."""


@dataclass(frozen=True, slots=True)
class Update:
    """One epoch of a subscription.

    `delta` holds the view's columns and `weight` (int64: +n rows came, −n went); it has no rows if
    the epoch left the view as it was: then the update is only the mark that the epoch is complete.
    The first update of a subscription without a start epoch is the snapshot.

    Its types are those in which Arrow loses nothing: a HUGEINT, as `sum` gives for integers, is 16
    bytes. `rows` gives values of Python; SUBSCRIBE TO as a statement gives the types of a query.
    """

    epoch: int
    delta: pa.Table
    snapshot: bool = False

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows ``(epoch, weight, *columns)``."""
        convert = RowConverter(self.delta.schema)
        found = [row for batch in self.delta.to_batches() for row in convert.rows(batch)]
        return [(self.epoch, row[-1], *row[:-1]) for row in found]


def snapshot(rows: pa.Table) -> pa.Table:
    """A view's rows as a delta from nothing."""
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))


class Subscription(Iterator[Update], AsyncIterator[Update]):
    """The epochs of one view, in order, each once; iterate it, or ``async for`` over it.

    `read(timeout)` gives the next update, or None after `timeout` seconds. `close()` (from any
    thread) ends the iteration; `interrupt()` does not, which is for statements. Closing the
    connection does not, lest it looked as if nothing more had changed: whoever reads on gets
    `ProgrammingError`, as from its cursors.
    """

    def __init__(
        self,
        database: Database,
        key: str,
        schema: pa.Schema,
        first: Update | None,
        position: int,
        check_open: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._key = key
        self._ready: deque[Update] = deque([first] if first is not None else [])
        self._position = position
        self._check_open = check_open
        self._closed = False
        self.schema = schema.append(pa.field(WEIGHT, pa.int64()))
        with database.history.changed:
            database.history.readers.add(self)

    @property
    def epoch(self) -> int | None:
        """The last epoch that was handed out: resume from here. None: the snapshot was not yet."""
        return None if self._ready else self._position

    def read(self, timeout: float | None = None) -> Update | None:
        """The next update; None after `timeout` seconds or when closed.

        An error if it fell too far behind, or its connection was closed.
        """
        if self._ready and not self._closed:
            self._check_open()
            return self._ready.popleft()
        if timeout is not None and (not isinstance(timeout, (int, float)) or isnan(timeout)):
            raise errors.ProgrammingError(f"a timeout is a number of seconds, not {timeout!r}")
        until = None if timeout is None else monotonic() + timeout
        changed = self._database.history.changed
        with changed:
            while True:
                if self._closed:
                    return None
                self._check_open()
                self._check()
                epoch = self._database.history.next(self._position)
                if epoch is not None:
                    break
                wait = _POLL if until is None else min(_POLL, until - monotonic())
                if wait <= 0:
                    return None
                changed.wait(wait)
        # one at a time: what is not asked for yet stays in the shared history
        self._position = epoch.number
        return self._update(epoch)

    def _update(self, epoch: Epoch) -> Update:
        delta = epoch.deltas.get(self._key)
        return Update(epoch.number, empty(self.schema) if delta is None else delta.table())

    def _check(self) -> None:
        history = self._database.history
        if history.broken.get(self._key, -1) >= self._position:
            raise errors.OperationalError(
                f"the maintained view {self._key.split('.', 1)[1]} was dropped or made anew, "
                "or renamed",
                hint="subscribe again, to what it is now, for a new snapshot",
            )
        if self._position < history.floor:
            raise errors.OperationalError(
                f"the subscription fell behind: epoch {self._position + 1} is no longer kept, "
                f"the oldest kept one is {history.floor + 1}",
                hint="subscribe again for a new snapshot, and read faster",
            )

    def close(self) -> None:
        """End the subscription; a waiting `read` returns None."""
        self._closed = True
        with self._database.history.changed:
            self._database.history.readers.discard(self)
            self._database.history.wake()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Subscription cannot be pickled or copied: subscribe again")

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> Update:
        update = self.read()
        if update is None:
            raise StopIteration
        return update

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Update:
        import asyncio  # takes long to load

        # no thread waits: a commit wakes the event loop
        history = self._database.history
        loop = asyncio.get_running_loop()
        while True:
            woken = asyncio.Event()
            call = partial(loop.call_soon_threadsafe, woken.set)
            with history.changed:
                history.waiting.add(call)
            try:
                update = self.read(0)
                if update is not None:
                    return update
                if self._closed:
                    raise StopAsyncIteration
                # before Python 3.12 asyncio.wait_for loses a cancellation that comes with the wake
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL):
                        await woken.wait()
            finally:
                with history.changed:
                    history.waiting.discard(call)

    def __await__(self) -> Generator[Any, None, Subscription]:
        """Itself, with the snapshot ready: ``subscription = await connection.subscribe(view)``."""
        import asyncio

        yield from asyncio.sleep(0).__await__()
        return self

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class SubscriptionReader:
    """SUBSCRIBE as a result: batches of (epoch, weight, progress, the view's columns)."""

    endless = True

    def __init__(
        self, subscription: Subscription, aborts: set[Callable[[], None]], late: Callable[[], bool]
    ) -> None:
        """`aborts`: what is called to stop it while it waits; not where another one is `late`."""
        self._subscription = subscription
        self._aborts, self._late = aborts, late
        self.schema = pa.schema(
            [
                pa.field("epoch", pa.int64()),
                pa.field("weight", pa.int64()),
                pa.field("progress", pa.bool_()),
                *list(subscription.schema)[:-1],  # the weight is last
            ]
        )

    def __next__(self) -> pa.RecordBatch:
        """The rows of the next epoch, then one row with `progress` true and the rest NULL."""
        update = self._next()
        delta, count = update.delta, update.delta.num_rows
        mark = [pa.nulls(1, f.type) for f in list(self.schema)[3:]]
        columns = [
            pa.array([update.epoch] * (count + 1), pa.int64()),
            pa.concat_arrays([_one(delta.columns[-1]), pa.nulls(1, pa.int64())]),
            pa.array([False] * count + [True]),
            *(pa.concat_arrays([_one(delta.column(i)), null]) for i, null in enumerate(mark)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _next(self) -> Update:
        interrupted = threading.Event()

        def stop() -> None:
            if not self._late():
                interrupted.set()

        self._aborts.add(stop)
        try:
            while (update := self._subscription.read(_POLL)) is None:
                if self._subscription._closed:
                    raise StopIteration
                if interrupted.is_set():
                    raise errors.Interrupted("the statement was interrupted")
            return update
        finally:
            self._aborts.discard(stop)

    def close(self) -> None:
        """End the subscription."""
        self._subscription.close()


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        return whole.chunk(0) if whole.num_chunks else pa.array([], whole.type)
    return whole
