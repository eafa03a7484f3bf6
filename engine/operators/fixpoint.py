"""A recursion's least fixpoint, kept by one derivation of each row.

    X = anchor ∪ step(X)                          a set; or, with a value,
    X = best by key(anchor ⊎ step(X))             the least or greatest value of each key

Every row knows one row that it was derived from: its *parent*. Parents form trees whose roots are
rows of the anchor. What comes in can only add rows or better values, and spreads from where it came
in. What goes away matters only where a parent was derived by it: the rows below it in the tree have
lost their support, are taken out, get what their other neighbours still derive, and that spreads
too. Nothing is known of iterations, so a change costs what it moves in the answer and not what it
would have moved on the way there.

                    insert                              delete
    1. ─────────────────────────────────  orphans: rows whose parent's derivation is gone
    2. ─────────────────────────────────  taken out, with all rows below them
    3. what new rows derive               what rows that stay derive for those taken out
    4. spread, round by round, until nothing gets better

Law: least fixpoint. A tree never closes to a cycle because a row takes a parent only when it is
not there or its value becomes strictly better, and each step is strictly rising in the value (x,
x + w): so a row's value always is exactly what its parent's value gives.

Source: Vora, Gupta, Xu, "KickStarter" (ASPLOS 2017), section 3, dependence trees; Ramalingam, Reps,
"An incremental algorithm for a generalization of the shortest-path problem" (1996).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tidewheel.engine.operators.forest import ABSENT, ANCHOR, NONE, Forest, ValuedForest
from tidewheel.engine.operators.operator import Emission, Operator
from tidewheel.engine.operators.rule import Rule, neighbours
from tidewheel.engine.operators.walk import BestFirst, Narrow, Walk, below, walk_set, walk_values
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.columns import Col, Index
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec, Schema, net

Candidates = tuple[Int64s, Int64s, Int64s]
"""Slots, the places of the values that they could have, and the slots that these come from."""


class Fixpoint(Operator):
    """Inputs: the anchor (port 0), then the delta of each rule's relation, arranged already.

    `key` are the positions of X's key columns in `schema`; `value` that of the value column, the
    least of which is kept (`descending`: the greatest), None for a set. NULL loses against any
    value. `watch` is called before each round and may raise.
    """

    def __init__(
        self,
        schema: Schema,
        key: Sequence[int],
        rules: Sequence[Rule],
        value: int | None = None,
        descending: bool = False,
        watch: Callable[[Counters], int] | None = None,
        name: str = "fixpoint",
    ) -> None:
        self.schema = schema
        self.name = name
        self.rules = tuple(rules)
        self.arity = 1 + len(self.rules)
        self.key = tuple(key)
        self.value = value
        self.descending = descending
        self.watch = watch
        self._keys = schema.select(self.key)
        for rule in self.rules:
            rule.prepare(self._keys, name)
        self.anchors = Arrangement(schema, self.key, name=f"{name} anchor")
        self._plain = all(r.rewrite is None and r.members is None for r in self.rules)
        self._present = 0
        if value is None:
            self._forest: Forest = Forest(schema, key, name)
        else:
            self._forest = ValuedForest(schema, key, value, descending, name)

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """Brings the fixpoint up to date."""
        forest = self._forest
        anchor, *edges = (None if d is None else net(d) for d in deltas)
        forest.begin()
        orphans: list[Int64s] = []
        waiting: list[Candidates] = []
        come: Delta | None = None
        if anchor is not None and len(anchor):
            self.anchors.insert(anchor)
            gone, come = _split(anchor)
            if gone is not None:
                slots = forest.slots.find([gone.cols[i] for i in self.key], len(gone))
                slots = slots[slots >= 0]
                orphans.append(slots[forest.parent[slots] == ANCHOR])
        added: list[tuple[Rule, Delta]] = []
        for rule, delta in zip(self.rules, edges, strict=True):
            if delta is None or not len(delta):
                continue
            gone, more = _split(delta)
            if gone is not None:
                orphans.append(self._orphans(rule, gone))
            if more is not None:
                added.append((rule, more))
        if any(len(o) for o in orphans):
            waiting += self._pull(self._take_out(orphans))
        for rule, delta in added:
            waiting.append(self._derived_by(rule, delta))
        if come is not None:
            slots = forest.open([come.cols[i] for i in self.key], len(come))
            waiting.append((slots, forest.places(come.cols), np.full(len(come), ANCHOR)))
        self._spread(waiting)
        return self._finish(counters)

    # -- what goes away ------------------------------------------------------------------------

    def _orphans(self, rule: Rule, gone: Delta) -> Int64s:
        """Rows that have a parent which derived them by rows that are gone."""
        at, sources = self._sources(rule, gone)
        targets = self._targets(rule, sources, gone.cols, at)
        known = (targets >= 0).nonzero()[0]
        targets = targets[known]
        return np.asarray(targets[self._forest.parent[targets] == sources[known]])

    def _take_out(self, orphans: list[Int64s]) -> Int64s:
        """Take rows out, with all below them in the tree of parents; all their slots."""
        forest = self._forest
        frontier = forest.distinct(np.concatenate(orphans))
        out: list[Int64s] = []
        narrow = Narrow(lambda: forest.slots.size)
        while len(frontier):
            all_at_once = narrow(len(frontier))
            if all_at_once:
                frontier = below(frontier, forest.parent[: forest.slots.size])
            if self.rounds is not None:
                self.rounds.append(((len(out),), [len(frontier)]))
            forest.take_out(frontier)
            out.append(frontier)
            if all_at_once:
                break
            parts: list[Int64s] = []
            cols = forest.slots.take(frontier)
            for rule in self.rules:
                found = neighbours(rule.forward, rule.by_join, cols, len(frontier))
                if found is None:
                    continue
                at, related = found
                sources = frontier[at]
                targets = self._targets(rule, sources, related, None)
                if len(targets):
                    mine = (targets >= 0) & (forest.parent[targets] == sources)
                    parts.append(targets[mine])
            frontier = forest.distinct(np.concatenate(parts)) if parts else NONE
        return np.concatenate(out)

    def _pull(self, slots: Int64s) -> list[Candidates]:
        """What the anchor and the rows that are there derive for slots that were taken out."""
        forest = self._forest
        cols = forest.slots.take(slots)
        out: list[Candidates] = []
        whole = KeySpec(self._keys, range(len(self._keys)))
        found = neighbours(self.anchors, whole, cols, len(slots))
        if found is not None:
            at, rows = found
            out.append((slots[at], forest.places(rows), np.full(len(at), ANCHOR)))
        for rule in self.rules:
            found = neighbours(rule.reverse, rule.by_target, cols, len(slots))
            if found is None:
                continue
            at, related = found
            keys = [related[i] if side else columns_.take(cols[i], at) for side, i in rule.source]
            sources = forest.slots.find(keys, len(at))
            there = forest.there(sources)
            for i in rule.forward.key.indices:  # NULL joins nothing
                nulls = columns_.is_null(related[i])
                if nulls is not None:
                    there &= ~nulls
            keep = there.nonzero()[0]
            if len(keep):
                related = [columns_.take(c, keep) for c in related]
                out.append(self._values(rule, sources[keep], related, slots[at[keep]]))
        return out

    # -- what comes ----------------------------------------------------------------------------

    def _derived_by(self, rule: Rule, come: Delta) -> Candidates:
        """What the rows that are there derive by new rows of a relation."""
        at, sources = self._sources(rule, come)
        if not len(at):
            return NONE, NONE, NONE
        related = [columns_.take(c, at) for c in come.cols]
        return self._values(rule, sources, related, None)

    def _spread(self, waiting: list[Candidates]) -> None:
        """Round by round: better values are taken, and what they derive is offered."""
        forest = self._forest
        rounds = 0
        narrow = Narrow(self._related) if self._plain else None
        valued = forest if isinstance(forest, ValuedForest) else None
        order = BestFirst()
        while True:
            if self.watch is not None and any(len(w[0]) for w in waiting):
                self.watch((rounds,))
            frontier = self._improved([w for w in waiting if len(w[0])])
            if self.rounds is not None and len(frontier):
                self.rounds.append(((rounds,), [len(frontier)]))
            if valued is not None:
                frontier = order(frontier, valued.place)
            if not len(frontier):
                return
            rounds += 1
            if narrow is not None and narrow(len(frontier)):
                walk = Walk(*self._pairs(), forest.slots.size)
                args = frontier, rounds, self.watch, self.rounds
                if valued is not None:
                    frontier, rounds = walk_values(walk, valued, *args)
                else:
                    frontier, rounds = walk_set(walk, forest, *args)
            cols = forest.slots.take(frontier)
            waiting = []
            for rule in self.rules:
                found = neighbours(rule.forward, rule.by_join, cols, len(frontier))
                if found is not None:
                    waiting.append(self._values(rule, frontier[found[0]], found[1], None))

    def _improved(self, waiting: list[Candidates]) -> Int64s:
        """Take what is better than what is there; the slots that have it."""
        if not waiting:
            return NONE
        slots, places, sources = (
            waiting[0]
            if len(waiting) == 1
            else tuple(np.concatenate(c) for c in zip(*waiting, strict=True))
        )
        return self._forest.improve(slots, places, sources)

    def _pairs(self) -> tuple[Int64s, Int64s]:
        """Who derives whom, by slots; of a set, those who are not there.

        Rows that never were there get slots: the walk may reach them.
        """
        forest = self._forest
        sources: list[Int64s] = []
        targets: list[Int64s] = []
        for rule in self.rules:
            rows = rule.forward.contents()
            rows = rows.where(rows.weights > 0)
            if self.value is None:
                keys = [rows.cols[i] for _, i in rule.target]
                rows = rows.where(~forest.there(forest.slots.find(keys, len(rows))))
            sources.append(forest.open([rows.cols[i] for _, i in rule.source], len(rows)))
            targets.append(forest.open([rows.cols[i] for _, i in rule.target], len(rows)))
        return np.concatenate(sources), np.concatenate(targets)

    def _related(self) -> int:
        """Rows of all relations."""
        return sum(len(rule.forward) for rule in self.rules)

    def _values(
        self, rule: Rule, sources: Int64s, related: Sequence[Col], targets: Int64s | None
    ) -> Candidates:
        """What pairs of a row and a related row derive; `targets` where these are known."""
        forest = self._forest
        places = forest.place_of(sources)
        if rule.rewrite is not None:
            assert rule.pairs is not None
            delta = Delta(
                rule.pairs,
                [*forest.rows(sources, places), *related],
                np.arange(1, len(sources) + 1),  # weights pass: they say which pair it was
            )
            out = rule.rewrite(delta)
            index = out.weights - 1
            places = forest.places(out.cols)
            sources = sources[index]
            if targets is not None:
                return targets[index], places, sources
            keys = [out.cols[i] for i in self.key]
            return forest.open(keys, len(index)), places, sources
        if targets is None:
            keys = self._target_keys(rule, sources, related, None)
            targets = forest.open(keys, len(sources))
        return targets, places, sources

    # -- slots ---------------------------------------------------------------------------------

    def _sources(self, rule: Rule, delta: Delta) -> tuple[Index, Int64s]:
        """Rows that are there and join rows of the relation: (position in `delta`, slot)."""
        forest = self._forest
        if rule.members is None:
            keys = [delta.cols[i] for _, i in rule.source]
            slots = forest.slots.find(keys, len(delta))
            at = forest.there(slots).nonzero()[0]
            return at, slots[at]
        found = neighbours(rule.members, rule.forward.key, delta.cols, len(delta))
        if found is None:
            return NONE, NONE
        at, rows = found
        there = (forest.parent[rows[-1]] != ABSENT).nonzero()[0]
        return at[there], rows[-1][there]

    def _targets(
        self, rule: Rule, sources: Int64s, related: Sequence[Col], at: Index | None
    ) -> Int64s:
        keys = self._target_keys(rule, sources, related, at)
        return self._forest.slots.find(keys, len(sources))

    def _target_keys(
        self, rule: Rule, sources: Int64s, related: Sequence[Col], at: Index | None
    ) -> list[Col]:
        mine: list[Col] | None = None
        keys: list[Col] = []
        for side, i in rule.target:
            if side:
                keys.append(related[i] if at is None else columns_.take(related[i], at))
            else:
                if mine is None:
                    mine = self._forest.slots.take(sources)
                keys.append(mine[i])
        return keys

    # -- the end -------------------------------------------------------------------------------

    def _finish(self, counters: Counters) -> list[Emission]:
        forest = self._forest
        gone, come, moved = forest.changes()
        self._present += len(come) - len(gone)
        for rule in self.rules:
            if rule.members is not None and len(moved):
                signs = np.where(forest.parent[moved] != ABSENT, 1, -1)
                rows = forest.slots.take(moved)
                cols = [*(rows[p] for p in rule.join), moved]
                rule.members.insert(Delta(rule.members.schema, cols, signs, distinct=True))
        out: list[Emission] = []
        if len(gone) or len(come):
            signs = np.repeat(np.array([-1, 1]), (len(gone), len(come)))
            rows = forest.changed(gone, come)
            out.append((0, counters, Delta(self.schema, rows, signs, distinct=True)))
        if forest.slots.size > 2 * self._present + 1024:
            self._compact()
        return out

    def _compact(self) -> None:
        cols, slots = self._forest.compact()
        for rule in self.rules:
            if rule.members is not None:
                old = rule.members
                rule.members = Arrangement(old.schema, old.key.indices, name=old.name)
                if len(slots):
                    weights = np.ones(len(slots), np.int64)
                    members = [*(cols[p] for p in rule.join), slots]
                    rule.members.insert(Delta(old.schema, members, weights, distinct=True))

    def arrangements(self) -> Sequence[Arrangement]:
        """The anchor; where a relation meets only a part of the key, the rows by that part."""
        return (self.anchors, *(r.members for r in self.rules if r.members is not None))

    @property
    def state_rows(self) -> int:
        """Rows held, those of the anchor among them."""
        return self._present + super().state_rows

    @property
    def state_bytes(self) -> int:
        """Bytes held."""
        return self._forest.nbytes + super().state_bytes


def _split(delta: Delta) -> tuple[Delta | None, Delta | None]:
    """What a delta takes away, and what it adds."""
    less = delta.weights < 0
    if less.all():
        return delta, None
    if not less.any():
        return None, delta
    return delta.where(less), delta.where(~less)
