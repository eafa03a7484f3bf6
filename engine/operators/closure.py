"""A recursion's loop as one operator: join, project, distinct, round and round.

    X = distinct(anchor ⊎ step(X)),   step(X) = π(X ⋈ E)

State is how often each row is derived at each counter. A row's *level* is the first counter at
which it is derived; there, and only there, it is new and derives others. A change is taken through
the counters upwards: at each, the derivation counts of the touched rows decide whether they are
there, whether their level moved, and so what they derive one counter later. A row that loses its
level is looked at again at the next counter at which it was derived: the *interesting times* of
`Keyed`, for
the one kind of loop in which they can be had without arranging the output. Nothing of the graph
that the change does not reach is read.

The same as `Loop` with `Tally` and `Join` inside (tests hold the two together), without a circuit's
work per counter.

Source: McSherry et al., "Differential dataflow" (CIDR 2013), specialised to one loop counter, where
the product order is total; the counting is that of Gupta, Mumick, Subrahmanian, "Maintaining Views
Incrementally" (SIGMOD 1993), section 7, per counter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from tidewheel.engine.operators.linear import Rewrite
from tidewheel.engine.operators.operator import Emission, Operator
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.columns import Col, Index
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec, Schema, concat

NEVER = np.int64(1 << 31)
_SHIFT = 32
_MASK = np.int64((1 << _SHIFT) - 1)
DENSE = 1 << 24  # integer keys below this are looked up in a table


class Collision(Exception):
    """Two rows with one 64-bit hash: the loop must be run by operators that tell them apart."""


class Closure(Operator):
    """A linear recursion with UNION over one other relation. Law: least fixpoint, kept.

    Inputs: the anchor (port 0) and the delta of `relation`, which is arranged by the columns that
    `key` (positions in X) is matched with (port 1). `columns` are the derived row's columns: (0, i)
    of the row of X, (1, i) of the relation's, named by `pairs`; `rewrite`, if given, is applied
    to them.
    Null keys match nothing (the relation leaves them out).
    """

    arity = 2

    def __init__(
        self,
        schema: Schema,
        key: Sequence[int],
        relation: Arrangement,
        columns: Sequence[tuple[int, int]],
        pairs: Schema,
        rewrite: Rewrite | None = None,
        watch: Callable[[Counters], None] | None = None,
        name: str = "closure",
    ) -> None:
        self.schema = schema
        self.name = name
        self.relation = relation
        self.columns = tuple(columns)
        self.rewrite = rewrite
        self.watch = watch
        self._pair_schema = pairs
        self.key = KeySpec(schema, key)
        whole = range(len(schema))
        self.derived = Arrangement(schema, whole, 1, name=f"{name} derivations")
        self.levels = Arrangement(schema, key, 1, name=f"{name} rows by key")
        self._table: Int64s | None = None  # dense integer key → slot, all -1 between epochs

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """Runs through the counters until nothing changes any more."""
        anchor, edges = deltas
        epoch = _Epoch(self)
        if anchor is not None and len(anchor):
            epoch.derive(0, anchor)
        if edges is not None and len(edges):
            # Rows that are there from before meet the changed part of the relation …
            spec = self.relation.key
            keys = spec.keys(edges.cols, len(edges))
            found = self.levels.match(edges.cols, spec, keys)
            if found is not None:
                at, rows = found
                assert rows.times is not None
                weights = edges.weights[at] * rows.weights
                derived = self._project(rows.cols, None, edges.cols, at, weights)
                epoch.derive_at(rows.times[:, 0] + 1, derived)
        # … and what changes of them meets all of it, the changes included.
        try:
            epoch.run()
            return epoch.finish(counters)
        finally:
            epoch.release()

    def successors(self, rows: Delta) -> Delta | None:
        """What rows derive from the relation as it is now."""
        keys = self.key.keys(rows.cols, len(rows))
        found = self.relation.match(rows.cols, self.key, keys)
        if found is None:
            return None
        at, matches = found
        weights = rows.weights[at] * matches.weights
        return self._project(rows.cols, at, matches.cols, None, weights)

    def _project(
        self,
        left: Sequence[Col],
        left_at: Index | None,
        right: Sequence[Col],
        right_at: Index | None,
        weights: Int64s,
    ) -> Delta:
        cols = []
        for side, i in self.columns:
            col, at = (left[i], left_at) if side == 0 else (right[i], right_at)
            cols.append(col if at is None else columns_.take(col, at))
        if self.rewrite is None:
            return Delta(self.schema, cols, weights)
        return self.rewrite(Delta(self._pair_schema, cols, weights))

    def arrangements(self) -> Sequence[Arrangement]:
        """Derivation counts, and the rows with their levels."""
        return (self.derived, self.levels)


class _Epoch:
    """One epoch's way through the counters. Touched rows have slots; arrays are by slot."""

    def __init__(self, op: Closure) -> None:
        self.op = op
        self.integer = op.derived.key.integer
        self.pending: dict[int, list[Delta]] = {}
        self.again: dict[int, list[Int64s]] = {}  # counter → slots to look at
        self.heap: list[int] = []
        self.size = 0
        self.keys = np.empty(0, np.int64)  # by slot
        self.rows: list[Delta] = []  # by slot, in pieces
        self.old = np.empty(0, np.int64)  # level before
        self.new = np.empty(0, np.int64)  # level after, NEVER while not known
        # What was derived before: slot << 32 | counter, sorted, and how often.
        self.past = np.empty(0, np.int64)
        self.past_counts = np.empty(0, np.int64)
        self.changes: list[tuple[int, Int64s, Int64s]] = []  # counter, slots, weights
        self._sorted: tuple[Int64s, Index] | None = None

    # -- what is to be done --------------------------------------------------------------------

    def derive(self, counter: int, delta: Delta) -> None:
        """Rows derived more or less often at a counter."""
        if counter not in self.pending:
            self._note(counter)
            self.pending[counter] = [delta]
        else:
            self.pending[counter].append(delta)

    def derive_at(self, counters: Int64s, delta: Delta) -> None:
        """The same, each row at its own counter."""
        first = int(counters[0])
        if (counters == first).all():
            self.derive(first, delta)
            return
        order = counters.argsort(kind="stable")
        ordered = counters[order]
        cuts = (ordered[1:] != ordered[:-1]).nonzero()[0] + 1
        edges = [0, *cuts.tolist(), len(order)]
        for begin, end in pairwise(edges):
            self.derive(int(ordered[begin]), delta.take(order[begin:end]))

    def _look_again(self, counters: Int64s, slots: Int64s) -> None:
        for counter in np.unique(counters).tolist() if len(counters) > 1 else counters.tolist():
            if counter not in self.again:
                self._note(counter)
                self.again[counter] = []
            self.again[counter].append(slots[counters == counter])

    def _note(self, counter: int) -> None:
        if counter not in self.pending and counter not in self.again:
            heappush(self.heap, counter)

    # -- the loop ------------------------------------------------------------------------------

    def run(self) -> None:
        """Counter by counter, upwards."""
        while self.heap:
            counter = heappop(self.heap)
            if self.op.watch is not None:
                self.op.watch((counter,))
            parts = self.pending.pop(counter, None)
            slots = weights = np.empty(0, np.int64)
            if parts is not None:
                slots, weights = self._slots(parts[0] if len(parts) == 1 else concat(parts))
                if len(slots):
                    self.changes.append((counter, slots, weights))
                    fresh = (self.old[slots] < counter) & (self.new[slots] == NEVER)
                    if fresh.any():
                        # Touched for the first time and there from before this counter: it stays.
                        settled = slots[fresh]
                        untouched = settled[~self.looked[settled]]
                        self.new[untouched] = self.old[untouched]
                    self.looked[slots] = True
            self._at(counter, slots, weights)

    def _at(self, counter: int, slots: Int64s, weights: Int64s) -> None:
        again = self.again.pop(counter, None)
        if again is not None:
            extra = np.concatenate(again) if len(again) > 1 else again[0]
            if len(slots):
                more = extra[~np.isin(extra, slots)]
                slots = np.concatenate((slots, np.unique(more)))
                weights = np.concatenate((weights, np.zeros(len(slots) - len(weights), np.int64)))
            else:
                slots = np.unique(extra) if len(extra) > 1 else extra
                weights = np.zeros(len(slots), np.int64)
        if not len(slots):
            return
        old, new = self.old[slots], self.new[slots]
        open_ = new == NEVER
        was_here = old == counter
        change = np.where(was_here & ~open_, -1, 0)
        if open_.any():
            waiting = slots if open_.all() else slots[open_]
            place = (waiting << _SHIFT) | counter
            at = self.past.searchsorted(place)
            inside = np.minimum(at, max(len(self.past) - 1, 0))
            counts = weights[open_] if len(waiting) != len(slots) else weights.copy()
            if len(self.past):
                counts = counts + np.where(
                    (at < len(self.past)) & (self.past[inside] == place),
                    self.past_counts[inside],
                    0,
                )
            here = counts > 0
            arrived = waiting[here]
            self.new[arrived] = counter
            change[open_] = here.astype(np.int64) - was_here[open_]
            moved = arrived[(self.old[arrived] > counter) & (self.old[arrived] < NEVER)]
            if len(moved):
                self._look_again(self.old[moved], moved)
            absent = waiting[~here]
            if len(absent) and len(self.past):
                nxt = self.past.searchsorted((absent << _SHIFT) | counter, side="right")
                ok = nxt < len(self.past)
                absent, nxt = absent[ok], nxt[ok]
                entry = self.past[nxt]
                ok = entry >> _SHIFT == absent
                if ok.any():
                    self._look_again(entry[ok] & _MASK, absent[ok])
        moving = change.nonzero()[0]
        if len(moving):
            if self.op.rounds is not None:
                self.op.rounds.append(((counter,), len(moving)))
            rows = self._take(slots[moving], change[moving])
            derived = self.op.successors(rows)
            if derived is not None and len(derived):
                self.derive(counter + 1, derived)

    # -- slots ---------------------------------------------------------------------------------

    @property
    def looked(self) -> columns_.Mask:
        """By slot: was it touched at an earlier counter?"""
        return self._looked

    _looked: columns_.Mask = np.empty(0, bool)

    def _slots(self, delta: Delta) -> tuple[Int64s, Int64s]:
        """Distinct rows of a delta as slots, with their summed weights; zeros left out."""
        spec = self.op.derived.key
        keys = spec.keys(delta.cols, len(delta))
        exact = spec.exact(delta.cols)
        if len(keys) > 1:
            order = keys.argsort(kind="stable")
            ordered = keys[order]
            first = np.empty(len(keys), bool)
            first[0] = True
            np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
            if not exact:
                self._check_equal(delta, order[1:][~first[1:]], order[:-1][~first[1:]])
            starts = first.nonzero()[0]
            weights = np.add.reduceat(delta.weights[order], starts)
            keep = weights != 0
            index = order[starts[keep]]
            keys, weights = ordered[starts[keep]], weights[keep]
        else:
            weights = delta.weights
            index = weights.nonzero()[0]
            keys, weights = keys[index], weights[index]
        if not len(keys):
            return keys, weights
        slots = self._find(keys)
        missing = (slots < 0).nonzero()[0]
        if not exact and len(missing) < len(slots):
            known = (slots >= 0).nonzero()[0]
            mine = self._take(slots[known], weights[known])
            theirs = delta.take(index[known])
            for kind, a, b in zip(spec.kinds, mine.cols, theirs.cols, strict=True):
                if not kind.equal(a, b).all():
                    raise Collision(self.op.name)
        if len(missing):
            fresh = delta.take(index[missing]) if len(missing) < len(delta) else delta.take(index)
            slots[missing] = self._open(keys[missing], fresh)
        return slots, weights

    def _check_equal(self, delta: Delta, a: Index, b: Index) -> None:
        if len(a):
            for kind, col in zip(self.op.schema.kinds, delta.cols, strict=True):
                if not kind.equal(columns_.take(col, a), columns_.take(col, b)).all():
                    raise Collision(self.op.name)

    def _find(self, keys: Int64s) -> Int64s:
        """Slots by key, -1 where there is none yet."""
        if self.integer and self._dense(keys):
            table = self.op._table
            assert table is not None
            return table[keys]
        if self._sorted is None:
            by_key = self.keys.argsort(kind="stable")
            self._sorted = (self.keys[by_key], by_key)
        ordered, by_key = self._sorted
        if not len(ordered):
            return np.full(len(keys), -1, np.int64)
        at = np.minimum(ordered.searchsorted(keys), len(ordered) - 1)
        return np.where(ordered[at] == keys, by_key[at], -1)

    def _dense(self, keys: Int64s) -> bool:
        """May the table be used for these keys? Once not, never again in this epoch."""
        if not self.integer:
            return False
        low, high = int(keys.min()), int(keys.max())
        if low < 0 or high >= DENSE:
            self.integer = False
            return False
        table = self.op._table
        if table is None or len(table) <= high:
            size = max(1024, 1 << (high + 1).bit_length())
            larger = np.full(size, -1, np.int64)
            if table is not None:
                larger[: len(table)] = table
            self.op._table = larger
        return True

    def release(self) -> None:
        """Leave the table as it was found."""
        if self.op._table is not None and len(self.keys):
            table = self.op._table
            mine = self.keys[(self.keys >= 0) & (self.keys < len(table))]
            table[mine] = -1

    def _open(self, keys: Int64s, rows: Delta) -> Int64s:
        """New slots, with what is known of their rows from before."""
        n = len(keys)
        slots = np.arange(self.size, self.size + n)
        if self.integer and self.op._table is not None:
            self.op._table[keys] = slots
        self.size += n
        self.keys = np.concatenate((self.keys, keys))
        self.rows.append(Delta(rows.schema, rows.cols, rows.weights))
        self._sorted = None
        levels = np.full(n, NEVER, np.int64)
        found = self.op.derived.spine.lookup(keys)
        if found is not None:
            at, past = found
            if (
                not self.op.derived.key.exact(past.cols)
                or self.op.derived.key.exact(rows.cols) is False
            ):
                for kind, a, b in zip(self.op.schema.kinds, past.cols, rows.cols, strict=True):
                    if not kind.equal(a, columns_.take(b, at)).all():
                        raise Collision(self.op.name)
            assert past.times is not None
            place = ((at + slots[0]) << _SHIFT) | past.times[:, 0]
            order = place.argsort(kind="stable")
            place = place[order]
            first = np.empty(len(place), bool)
            first[0] = True
            np.not_equal(place[1:], place[:-1], out=first[1:])
            starts = first.nonzero()[0]
            counts = np.add.reduceat(past.weights[order], starts)
            keep = counts > 0
            place, counts = place[starts[keep]], counts[keep]
            if len(place):
                owner = (place >> _SHIFT) - slots[0]
                lead = np.empty(len(owner), bool)
                lead[0] = True
                np.not_equal(owner[1:], owner[:-1], out=lead[1:])
                levels[owner[lead]] = place[lead] & _MASK
                self.past = np.concatenate((self.past, place))
                self.past_counts = np.concatenate((self.past_counts, counts))
        self.old = np.concatenate((self.old, levels))
        self.new = np.concatenate((self.new, np.full(n, NEVER, np.int64)))
        self._looked = np.concatenate((self._looked, np.zeros(n, bool)))
        return slots

    def _take(self, slots: Int64s, weights: Int64s) -> Delta:
        if len(self.rows) > 1:
            self.rows = [concat(self.rows)]
        cols = [columns_.take(c, slots) for c in self.rows[0].cols]
        return Delta(self.op.schema, cols, weights)

    # -- the end -------------------------------------------------------------------------------

    def finish(self, counters: Counters) -> list[Emission]:
        """Keep what changed; emit the rows that came or went."""
        if not self.size:
            return []
        slots = np.concatenate([s for _, s, _ in self.changes])
        weights = np.concatenate([w for _, _, w in self.changes])
        at = np.repeat([c for c, _, _ in self.changes], [len(s) for _, s, _ in self.changes])
        self.op.derived.insert_timed(self._take(slots, weights), at[:, None].astype(np.int64))
        moved = (self.old != self.new).nonzero()[0]
        if not len(moved):
            return []
        left = moved[self.old[moved] < NEVER]
        came = moved[self.new[moved] < NEVER]
        slots = np.concatenate((left, came))
        signs = np.repeat(np.array([-1, 1]), (len(left), len(came)))
        levels = np.concatenate((self.old[left], self.new[came]))
        self.op.levels.insert_timed(self._take(slots, signs), levels[:, None])
        gone = left[self.new[left] == NEVER]
        fresh = came[self.old[came] == NEVER]
        slots = np.concatenate((gone, fresh))
        if not len(slots):
            return []
        signs = np.repeat(np.array([-1, 1]), (len(gone), len(fresh)))
        return [(0, counters, self._take(slots, signs))]
