"""Keyed operators: the output for a key is a function of the input rows of that key.

For each touched key: new output − output so far. Inside a loop "the input at counters c" is all
that changed at counters ≤ c in the product order, and a key touched at c must be looked at again at
every later counter at which its input or output changed in the past, for there the present change
meets the past one (the *interesting times* of differential dataflow: McSherry, Murray, Isaacs,
Isard, "Differential dataflow", CIDR 2013, section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tidewheel.engine.operators.asked import Ask, asked_anew
from tidewheel.engine.operators.collisions import check
from tidewheel.engine.operators.join import counts_at
from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.state.arrangement import Arrangement, Counters, Waiting
from tidewheel.engine.state.delta import Delta, Int64s, Schema, concat, consolidate, unique
from tidewheel.engine.state.order import begins, order_by
from tidewheel.engine.state.run import Rows
from tidewheel.engine.state.sorting import sort_rows
from tidewheel.engine.state.spine import Spine


class Agenda:
    """Keys to be looked at again, by time."""

    def __init__(self) -> None:
        self._keys: dict[Counters, list[Int64s]] = {}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def times(self) -> Sequence[Counters]:
        """Times at which there are keys: the interesting ones."""
        return list(self._keys)

    def put(self, counters: Counters, keys: Int64s) -> None:
        """Look at `keys` again at `counters`."""
        self._keys.setdefault(counters, []).append(keys)

    def touched(self, counters: Counters, come: Iterable[Int64s]) -> Int64s:
        """The keys of a time, which is done with, and of what comes at it: in order, each once."""
        found = [*self._keys.pop(counters, []), *(unique(keys) for keys in come if len(keys))]
        if not found:
            return np.empty(0, np.int64)
        return found[0] if len(found) == 1 else unique(np.concatenate(found))

    def counted(self, counters: Counters, rows: Rows) -> Rows:
        """Those of some rows that count at a time; the keys of others are to be looked at later."""
        self._interesting(counters, rows)
        mask = counts_at(rows, counters)
        return (rows if mask is None else rows.where(mask)).untimed()

    def _interesting(self, counters: Counters, rows: Rows) -> None:
        """Note the keys of rows that changed at times that do not count at `counters` yet."""
        if rows.times is None:
            return
        if rows.times.shape[1] == 1:  # (what is said of several axes takes many times as long)
            only = rows.times[:, 0]
            later = (only > counters[0]).nonzero()[0]
            if not len(later):
                return
            times, which = only[later][:, None], only[later]
        else:
            now = np.array(counters, np.int64)
            later = np.asarray((rows.times > now).any(axis=1)).nonzero()[0]
            if not len(later):
                return
            times = np.maximum(rows.times[later], now)
            which = np.unique(times, axis=0, return_inverse=True)[1].ravel()
        order, first = order_by([which, rows.keys[later]])
        order = order[first]
        keys, starts = rows.keys[later[order]], begins(which[order]).nonzero()[0]
        ends = [*starts[1:].tolist(), len(order)]
        for start, end, time in zip(
            starts.tolist(), ends, times[order[starts]].tolist(), strict=True
        ):
            self.put(tuple(time), keys[start:end])

    def clear(self) -> None:
        """Forget everything."""
        self._keys.clear()


class Keyed(Operator):
    """The base of keyed operators over one collection. Law: keyed.

    Subclasses implement `evaluate`. The input is arranged by key here; so is the output, because
    what was said before must be taken back exactly, also where the function is free to choose
    (ties in top-k, any_value, row_number). Who knows the output for all rows that there are may
    `begin` with it: then the rows wait until a change asks for those of some keys.

    Where the key has no columns there is one group always, also for an empty input: the operator is
    due at the very first time.
    """

    #: Does it read some rows of a key only, so that all of them must be of one group?
    some_rows: bool = False
    #: Can it evaluate rows as they come, each as often as its weight says (see `_first`)?
    as_they_come: bool = False
    #: The last input may be read only; set by operators whose input somebody else arranges.
    shared: Arrangement | None = None

    def __init__(
        self,
        input_schema: Schema,
        key: Sequence[int],
        schema: Schema,
        output_key: Sequence[int],
        depth: int = 0,
        name: str = "reduce",
    ) -> None:
        self.schema = schema
        self.depth = depth
        self.name = name
        self.input = self._arrange(input_schema, key, depth)
        self._group = input_schema.select(key)
        self.output = Arrangement(schema, output_key, depth, name=f"{name} output")
        self._asked: Spine | None = None  # what the present keys find of rows that wait
        self._agenda = Agenda()
        if not key:
            self._agenda.put((0,) * depth, np.zeros(1, np.int64))

    def begin(self, rows: Waiting, output: Delta) -> None:
        """Take over the output for all `rows` that there are. Outside loops."""
        self._agenda.clear()
        self.input.wait(rows)
        self.output.post(output)

    @property
    def _stored(self) -> Spine:
        """The input's rows, those of the present keys at least."""
        return self.input.spine if self._asked is None else self._asked

    def _arrange(self, schema: Schema, key: Sequence[int], depth: int) -> Arrangement:
        return Arrangement(schema, key, depth, name=f"{self.name} input")

    def evaluate(self, keys: Int64s, rows: Delta) -> Delta:
        """The output for the groups in `rows`: consolidated, weights positive in a proper bag.

        `keys` are the 64-bit keys of all touched groups, those without rows included.
        """
        return consolidate(self.evaluated(rows))

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New output − output so far, of all touched keys."""
        delta = deltas[0]
        if delta is not None and self._begins(delta):
            return self._first(delta)
        keys = self._touched(counters, delta)
        if not len(keys):
            return []
        now = self._rows(self.input, keys, counters)
        before = self._rows(self.output, keys, counters)
        if delta is not None and (self.some_rows or self._asked is not None):
            check((self.input.key, now), (self.output.key, before), (self.input.key, delta))
        self._asked = None
        parts = [self.evaluate(keys, now)]
        if len(before):
            parts.append(before.negate())
        change = consolidate(concat(parts))
        self.output.insert(change, counters)
        return emit(counters, change)

    def _begins(self, delta: Delta) -> bool:
        """Are these all rows that there are, outside of loops?"""
        if not self.as_they_come or self.depth or self.shared is not None or self.input.waiting:
            return False
        nothing = not len(self.input) and not len(self.output)
        return nothing and len(delta) > 0 and bool((delta.weights > 0).all())

    def _first(self, delta: Delta) -> list[Emission]:
        """The output for the first rows. Nothing is put in order before a change asks for it."""
        self._agenda.clear()
        self.input.post(delta)
        output = self.evaluated(delta)
        self.output.post(output)
        return emit((), output)

    def evaluated(self, rows: Delta) -> Delta:
        """The output for `rows`, not consolidated; of those who take them as they come."""
        raise NotImplementedError

    def _touched(self, counters: Counters, delta: Delta | None) -> Int64s:
        """The keys to be looked at, each once, in their order; what comes is taken in."""
        come: list[Int64s] = []
        if delta is not None and len(delta):
            keys = self.input.key.keys(delta.cols, len(delta))
            come.append(self._relevant(delta, keys))
            if self.input.waiting:
                self.input.post(delta)
            else:
                self.input.insert(delta, counters, keys)
        touched = self._agenda.touched(counters, come)
        if len(touched) and delta is not None and self.input.waiting:
            self._asked = self._ask(delta)
        return touched

    def _from_tables(self, counters: Counters, delta: Delta, ask: Ask) -> list[Emission]:
        """`step` where tables say what the output of touched groups is. Outside loops."""
        cols = [delta.cols[i] for i in self.input.key.indices]
        change = asked_anew(Delta(self._group, cols, delta.weights), ask, self.output)
        self.output.insert(change, counters)
        return emit(counters, change)

    def given(self, keys: Int64s) -> Delta:
        """The output by now for some keys (each once), in their order. Outside loops."""
        return self._rows(self.output, keys, ())

    def _ask(self, delta: Delta) -> Spine | None:
        """Of rows that wait, those that the change makes a difference to; None: read them all."""
        return self.input.asked(delta.cols, self.input.key, len(delta), after=True)

    def _relevant(self, delta: Delta, keys: Int64s) -> Int64s:
        """The keys (one per row) of the rows that can make a difference."""
        return keys

    def _rows(self, arrangement: Arrangement, keys: Int64s, counters: Counters) -> Delta:
        found = (self._stored if arrangement is self.input else arrangement.spine).lookup(keys)
        if found is None:
            return Delta.empty(arrangement.schema)
        _, rows = found
        return sort_rows(self._agenda.counted(counters, rows)).delta()

    def due(self) -> Iterable[Counters]:
        """Interesting times."""
        return self._agenda.times()

    def abort_epoch(self) -> None:
        """Forget the times."""
        self._agenda.clear()
        self._asked = None

    def arrangements(self) -> Sequence[Arrangement]:
        """Input and output by key."""
        return (self.input, self.output)
