"""Arrangements: a collection indexed by a key, shared by all who need that key.

An arrangement has one writer, the operator that owns it, and any number of readers. Readers run
after the writer at each time (the circuit sees to that), so what they read includes the present
delta; a reader that needs what was there before subtracts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Col, Index
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec, Schema, unique
from tidewheel.engine.state.run import Layout, Rank, Rows, concat_rows
from tidewheel.engine.state.sorting import sort_rows
from tidewheel.engine.state.spine import Spine

Counters = tuple[int, ...]


class Waiting(Protocol):
    """Stands for the rows of an arrangement that nobody has asked for yet."""

    def read(self) -> Delta:
        """The rows that were there before the present turn."""

    def worth(self, keys: int) -> bool:
        """Should so many keys be looked for, or all rows be read?"""

    def find(self, keys: Delta) -> Delta | None:
        """Those of them that have one of some keys, more perhaps; None if all should be read."""

    @property
    def turn(self) -> int:
        """The present turn: an epoch, or the filling of a view."""

    @property
    def refused(self) -> bool:
        """Does the present turn take back what tables have refused? They are as it leaves them."""

    @property
    def nbytes(self) -> int:
        """Bytes that are held for them."""
        return 0


class Changed(Waiting):
    """Rows that are waited for, as `change` makes them what an arrangement holds."""

    def __init__(self, rows: Waiting, change: Callable[[Delta], Delta]) -> None:
        self._rows = rows
        self._change = change

    def read(self) -> Delta:
        return self._change(self._rows.read())

    def worth(self, keys: int) -> bool:
        return self._rows.worth(keys)

    def find(self, keys: Delta) -> Delta | None:
        rows = self._rows.find(keys)
        return None if rows is None else self._change(rows)

    @property
    def turn(self) -> int:
        return self._rows.turn

    @property
    def refused(self) -> bool:
        return self._rows.refused


def times_of(n: int, counters: Counters) -> Int64s | None:
    """The counters of n rows that change together; None outside loops."""
    if not counters:
        return None
    return np.repeat(np.array([counters], np.int64), n, axis=0)


class Arrangement:
    """Rows indexed by the columns `key` (positions), with loop counters where `depth` > 0.

    `exactly`: keys that are equal and do not look the same are not the same.
    """

    def __init__(
        self,
        schema: Schema,
        key: Sequence[int],
        depth: int = 0,
        rank: Rank | None = None,
        name: str = "",
        exactly: bool = False,
    ) -> None:
        self.layout = Layout(schema, key, depth, rank, exactly)
        self._spine = Spine(self.layout)
        self.posted: Delta | None = None  # added last, and nobody has asked for it yet
        self._waiting: Waiting | None = None
        self._turn = 0  # the one in which it began to wait, or was posted to
        self.name = name

    @property
    def schema(self) -> Schema:
        """Columns of the rows."""
        return self.layout.schema

    @property
    def key(self) -> KeySpec:
        """The indexed columns."""
        return self.layout.key

    def __len__(self) -> int:
        """Rows held, where rows that cancel but are not yet merged count twice."""
        return len(self._spine) + (0 if self.posted is None else len(self.posted))

    @property
    def spine(self) -> Spine:
        """The rows, those of a posted delta included."""
        self._ready()
        self.settle()
        return self._spine

    def settle(self) -> None:
        """Take in a posted delta."""
        if self.posted is not None and self._waiting is None:
            delta, self.posted = self.posted, None
            if len(delta.weights) > 1 or not self._spine.add_row(delta):
                self._spine.insert(self.layout.rows(delta))

    @property
    def waiting(self) -> bool:
        """Does it hold nothing until it is read?"""
        return self._waiting is not None

    def ends(self, keys: int) -> bool:
        """Does it wait, but not if so many keys are asked for?"""
        return self._waiting is not None and not self._waiting.worth(keys)

    def wait(self, rows: Waiting) -> None:
        """Hold nothing, what comes in this turn included, until somebody reads it.

        One that others share, and that has rows by now, goes on to have them.
        """
        if not len(self) and self._waiting is None:
            self._waiting, self._turn = rows, rows.turn

    def begin(self, rows: Delta, posted: Delta | None) -> None:
        """Wait no longer: hold these of the rows, and of what is posted."""
        self._waiting, self.posted = None, posted
        self._spine.insert(self.layout.rows(rows))

    @property
    def refused(self) -> bool:
        """Does it wait, in a turn that takes back what tables have refused?"""
        return self._waiting is not None and self._waiting.refused

    def _ready(self) -> None:
        """Get the rows that it waited for."""
        if self._waiting is None:
            return
        waiting, self._waiting = self._waiting, None
        if self._turn != waiting.turn:
            self.posted = None  # it is among the rows by now
        self._spine.insert(self.layout.rows(waiting.read()))
        if waiting.refused and self.posted is not None:
            self._spine.insert(self.layout.rows(self.posted.negate()))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        waiting = 0 if self._waiting is None else self._waiting.nbytes
        return waiting + self._spine.nbytes + (0 if self.posted is None else self.posted.nbytes)

    def insert(self, delta: Delta, counters: Counters = (), keys: Int64s | None = None) -> None:
        """Add a delta that happened at `counters`."""
        if len(delta):
            self.spine.insert(self.layout.rows(delta, times_of(len(delta), counters), keys))

    def insert_run(self, delta: Delta, counters: Counters, keys: Int64s) -> None:
        """`insert` where the delta is sorted by its `keys`, and each row stands in it once."""
        if len(delta):
            self.spine.insert_run(self.layout.rows(delta, times_of(len(delta), counters), keys))

    def netted(self, delta: Delta, counters: Counters) -> Delta:
        """`insert` inside a loop, and the delta consolidated, as it is to get in any case."""
        run = sort_rows(self.layout.rows(delta, times_of(len(delta), counters)))
        self.spine.insert_run(run)
        return Delta(delta.schema, run.cols, run.weights, distinct=True)

    def post(self, delta: Delta) -> None:
        """Add a delta outside loops, but no sooner than the rows are read.

        So a join that needs what was there `before` does not have to take the delta out again.
        """
        if self._waiting is not None:
            # what it will read has the delta, if that is of an earlier turn by then
            turn, self._turn = self._turn, self._waiting.turn
            self.posted = None if turn == self._turn else delta
            return
        self.settle()
        if len(delta):
            self.posted = delta

    def lacks(self, delta: Delta) -> bool:
        """Has this delta been posted, but not been taken in yet?"""
        # other circuits have the same change of a table in a delta of their own
        return self.posted is not None and self.posted.weights is delta.weights

    def asked(self, cols: Sequence[Col], spec: KeySpec, n: int, after: bool) -> Spine | None:
        """What some keys find of rows that it waits for and goes on to; `after` a posted delta.

        None if it does not wait, or all rows should be read.
        """
        if self._waiting is None:
            return None
        schema = self.schema.select(self.key.indices)
        found = self._waiting.find(
            Delta(schema, [cols[i] for i in spec.indices], np.ones(n, np.int64))
        )
        if found is None:
            return None
        spine = Spine(self.layout)
        spine.insert(self.layout.rows(found))
        posted = self.posted if self._turn == self._waiting.turn else None
        if posted is not None and after != self._waiting.refused:
            spine.insert(self.layout.rows(posted if after else posted.negate()))
        return spine

    def before(self, delta: Delta, cols: Sequence[Col], spec: KeySpec, keys: Int64s) -> Spine:
        """What was there under `keys` (see `match`) before `delta`, which has been added since."""
        if self.lacks(delta):
            asked = self.asked(cols, spec, len(keys), after=False)
            if asked is not None:
                return asked
            self._ready()
            return self._spine
        probes = unique(keys)
        gone = self.layout.rows(delta.negate())
        place = probes.searchsorted(gone.keys)
        place[place == len(probes)] = 0
        common = probes[place] == gone.keys
        if not common.any():
            return self.spine
        gone = gone.where(common)
        found = self.fetch(probes)
        spine = Spine(self.layout)
        spine.insert(gone if found is None else concat_rows([found, gone]))
        return spine

    def fetch(self, keys: Int64s) -> Rows | None:
        """All rows whose 64-bit key is among `keys` (each at most once), None if none."""
        found = self.spine.lookup(keys)
        return None if found is None else found[1]

    def match(
        self,
        cols: Sequence[Col],
        spec: KeySpec,
        keys: Int64s,
        spine: Spine | None = None,
        net: bool = True,
    ) -> tuple[Index, Rows] | None:
        """Pairs (position in `keys`, row) whose key *values* are equal, None if none.

        `keys` is ``spec.keys(cols, n)``: the other side's key columns, of the same types. `spine`:
        only the rows in there. `net` as in `Spine.lookup`.
        """
        if spine is None:
            spine = self.asked(cols, spec, len(keys), after=True)
        if spine is None:
            spine = self.spine
        found = spine.lookup(keys, net=net)
        if found is None:
            return None
        at, rows = found
        if spec.exact(cols) and self.key.exact(rows.cols):
            return at, rows
        same = np.ones(len(at), bool)
        for i, j, kind in zip(spec.indices, self.key.indices, self.key.kinds, strict=True):
            same &= kind.equal(columns_.take(cols[i], at), rows.cols[j], self.key.exactly)
        if same.all():
            return at, rows
        index = same.nonzero()[0]
        return (at[index], rows.take(index)) if len(index) else None

    def contents(self) -> Delta:
        """All rows, consolidated, counters left out where there are none."""
        return self.spine.all().delta()
