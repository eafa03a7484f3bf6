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
x + w): so a row's value always is exactly what its parent's value gives. A step that is not (least
of x and w, a rounded sum) must never give a better value than it is made of: then what is below a
row in the tree has nothing better to offer to it.

Source: Vora, Gupta, Xu, "KickStarter" (ASPLOS 2017), section 3, dependence trees; Ramalingam, Reps,
"An incremental algorithm for a generalization of the shortest-path problem" (1996).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from tidewheel.engine.operators.forest import ANCHOR, NONE, Forest, ValuedForest
from tidewheel.engine.operators.members import Members
from tidewheel.engine.operators.operator import Emission, Operator
from tidewheel.engine.operators.rule import Related, Rule, neighbours
from tidewheel.engine.operators.unkept import Unkept
from tidewheel.engine.operators.walk import BestFirst, Narrow, Walk, below, walk_set, walk_values
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.columns import Col, Index
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec, Schema, net
from tidewheel.engine.state.spine import Spine

_FIRST: Final = 1 << 12  # rows whose neighbours are looked up at once, before it is known
_AT_ONCE: Final = 1 << 18  # how many there are; so many are wanted
_PASS: Final = 64  # a pass over so many slots takes as long as what one row derives
_FEWER: Final = 2  # so many times as few look for what they can be derived from
Candidates = tuple[Int64s, Int64s, Int64s]
"""Slots, the places of the values that they could have, and the slots that these come from."""


class Improving(Unkept):
    """Rows can't be kept by one derivation each: see `Rule.checked`."""


class Fixpoint(Operator):
    """Inputs: the anchor (port 0), then the delta of each relation of each rule, arranged already.

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
        self.arity = 1 + sum(len(rule.relations) for rule in self.rules)
        self.key = tuple(key)
        self.value = value
        self.descending = descending
        self.watch = watch
        self._keys = schema.select(self.key)
        for rule in self.rules:
            rule.prepare(self._keys)
        self.anchors = Arrangement(schema, self.key, name=f"{name} anchor")
        relations = [r for rule in self.rules for r in rule.relations]
        self.looks = any(rule.checked for rule in self.rules)
        self._plain = all(r.rewrite is None for r in self.rules) and all(r.tells for r in relations)
        self._joins = {r.join for r in relations if not r.tells}
        self._present = 0
        if value is None:
            self._forest: Forest = Forest(schema, key, name)
        else:
            self._forest = ValuedForest(schema, key, value, descending, name)
        self._index()

    def _index(self) -> None:
        """Slots by the columns that relations meet, where their rows do not tell the whole key."""
        self._members = {join: Members(self._forest.slots, join) for join in self._joins}

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
        added: list[tuple[Rule, Related, Delta]] = []
        rest = iter(edges)
        for rule in self.rules:
            lost: dict[int, Delta] = {}
            for i, (related, delta) in enumerate(zip(rule.relations, rest, strict=False)):
                if delta is not None and len(delta):
                    gone, more = _split(delta)
                    if gone is not None:
                        lost[i] = gone
                    if more is not None:
                        added.append((rule, related, more))
            if lost:
                orphans += self._orphans(rule, lost)
        out = NONE
        if any(len(o) for o in orphans):
            out = self._take_out(orphans)
            waiting += self._pulled(out)
        for rule, related, delta in added:
            waiting.append(self._derived_by(rule, related, delta))
        if come is not None:
            slots = forest.open([come.cols[i] for i in self.key], len(come))
            waiting.append((slots, forest.places(come.cols), np.full(len(come), ANCHOR)))
        frontier, rounds = self._offered([waiting], 0), 0
        if self.value is None and not added and come is None:
            frontier, rounds = self._restored(out, frontier)
        self._spread(frontier, rounds)
        return self._finish(counters)

    # -- what goes away ------------------------------------------------------------------------

    def _orphans(self, rule: Rule, lost: Mapping[int, Delta]) -> list[Int64s]:
        """Rows that have a parent which derived them by rows that are gone, by relation."""
        found: list[Int64s] = []
        gone: dict[int, Spine] = {}
        if len(rule.relations) > 1:  # a derivation may have lost rows of several
            for i, delta in lost.items():
                layout = rule.relations[i].forward.layout
                gone[i] = Spine(layout)
                gone[i].insert(layout.rows(delta.negate()))
        for i, delta in lost.items():
            sources, related = self._meeting(rule, rule.relations[i], delta, gone)
            targets = self._targets(rule, sources, related)
            known = (targets >= 0).nonzero()[0]
            targets = targets[known]
            found.append(np.asarray(targets[self._forest.parent[targets] == sources[known]]))
        return found

    def _take_out(self, orphans: list[Int64s]) -> Int64s:
        """Take rows out, with all below them in the tree of parents; all their slots."""
        forest = self._forest
        frontier = forest.distinct(np.concatenate(orphans))
        out: list[Int64s] = []
        narrow = Narrow(lambda: forest.slots.size)
        while len(frontier):
            many = len(frontier) * _PASS >= forest.slots.size
            all_at_once = many or narrow(len(frontier))
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
                # (what rows derived that are gone goes as well)
                found = rule.derived(cols, len(frontier), standing=False)
                if found is None:
                    continue
                at, related = found
                sources = frontier[at]
                targets = self._targets(rule, sources, related)
                if len(targets):
                    mine = (targets >= 0) & (forest.parent[targets] == sources)
                    parts.append(targets[mine])
            frontier = forest.distinct(np.concatenate(parts)) if parts else NONE
        return np.concatenate(out)

    def _pulled(self, slots: Int64s) -> list[Candidates]:
        """See `_pull`; of a part of the slots at a time."""
        parts = (slots[i : i + 2 * _FIRST] for i in range(0, len(slots), 2 * _FIRST))
        return [offer for some in parts for offer in self._pull(some)]

    def _restored(self, out: Int64s, frontier: Int64s) -> tuple[Int64s, int]:
        """Rows of a set come back where nothing is new; where to go on, after how many rounds.

        What they derive was there before, so it is there or among those taken `out`. Few that are
        still out look for themselves, which is less than all that `frontier` derives.
        """
        rounds = 0
        while len(frontier):
            out = out[~self._forest.there(out)]
            if len(out) * _FEWER > len(frontier):
                break
            if self.rounds is not None:
                self.rounds.append(((rounds,), [len(frontier)]))
            rounds += 1
            frontier = self._offered([self._pulled(out)], rounds)
        return frontier, rounds

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
            found = rule.deriving(cols, len(slots))
            if found is None:
                continue
            at, related = found
            keys, possible = rule.origins(cols, at, related)
            sources = forest.slots.find(keys, len(at))
            there = forest.there(sources) & possible
            keep = there.nonzero()[0]
            if len(keep):
                related = [columns_.take(c, keep) for c in related]
                out.append(self._values(rule, sources[keep], related, slots[at[keep]]))
        return out

    # -- what comes ----------------------------------------------------------------------------

    def _derived_by(self, rule: Rule, one: Related, come: Delta) -> Candidates:
        """What the rows that are there derive by new rows of a relation."""
        sources, related = self._meeting(rule, one, come, None)
        return self._values(rule, sources, related, None) if len(sources) else (NONE, NONE, NONE)

    def _spread(self, frontier: Int64s, rounds: int) -> None:
        """Round by round: what rows derive is offered, and better values are taken."""
        forest = self._forest
        narrow = Narrow(self._related) if self._plain else None
        valued = forest if isinstance(forest, ValuedForest) else None
        order = BestFirst()
        while True:
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
            frontier = self._offered(self._derived_in_parts(frontier), rounds)

    def _derived_in_parts(self, slots: Int64s) -> Iterator[list[Candidates]]:
        """What rows derive, of a part of them at a time, so that it needs little memory."""
        begin, size = 0, _FIRST
        while begin < len(slots):
            some = slots[begin : begin + size]
            out = self._derived(some)
            yield out
            begin += size
            made = sum(len(w[0]) for w in out)
            size = min(4 * size, 1 + _AT_ONCE * len(some) // max(made, 1))

    def _derived(self, slots: Int64s) -> list[Candidates]:
        """What rows derive."""
        cols = self._forest.slots.take(slots)
        out: list[Candidates] = []
        for rule in self.rules:
            found = rule.derived(cols, len(slots))
            if found is not None:
                out.append(self._values(rule, slots[found[0]], found[1], None))
        return out

    def _offered(self, offers: Iterable[list[Candidates]], rounds: int) -> Int64s:
        """The slots that have something better, of what is offered in a round."""
        better: list[Int64s] = []
        for waiting in offers:
            some = [w for w in waiting if len(w[0])]
            if some and not better and self.watch is not None:
                self.watch((rounds,))
            if some:
                better.append(self._improved(some))
        if len(better) < 2:
            return better[0] if better else NONE
        return self._forest.distinct(np.concatenate(better))

    def _improved(self, waiting: list[Candidates]) -> Int64s:
        """Take what is better than what is there; the slots that have it."""
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
        for rule in self.rules:  # (each of one relation, see `_plain`)
            rows = rule.relations[0].forward.contents()
            rows = rows.where(rows.weights > 0)
            if self.value is None:
                keys = [rows.cols[i] for _, i in rule.target]
                rows = rows.where(~forest.there(forest.slots.find(keys, len(rows))))
            sources.append(forest.open([rows.cols[i] for _, i in rule.source], len(rows)))
            targets.append(forest.open([rows.cols[i] for _, i in rule.target], len(rows)))
        return np.concatenate(sources), np.concatenate(targets)

    def _related(self) -> int:
        """Rows of all relations."""
        return sum(len(r.forward) for rule in self.rules for r in rule.relations)

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
            before, places = places, forest.places(out.cols)
            if rule.checked and (places < before[index]).any():
                raise Improving(f"a step of {self.name} gives a better value than it is made of")
            sources = sources[index]
            if targets is not None:
                return targets[index], places, sources
            keys = [out.cols[i] for i in self.key]
            return forest.open(keys, len(index)), places, sources
        if targets is None:
            keys = self._target_keys(rule, sources, related)
            targets = forest.open(keys, len(sources))
        return targets, places, sources

    # -- slots ---------------------------------------------------------------------------------

    def _meeting(
        self, rule: Rule, one: Related, delta: Delta, gone: Mapping[int, Spine] | None
    ) -> tuple[Int64s, Sequence[Col]]:
        """Slots of rows that meet a relation's delta, and the relations' columns beside each.

        `gone`: rows of the others that count too, see `Rule.beside`.
        """
        at, slots = self._sources(rule, one, delta)
        related = [columns_.take(c, at) for c in delta.cols]
        if len(rule.relations) == 1 or not len(slots):
            return slots, related
        found = rule.beside(self._forest.slots.take(slots), len(slots), one, related, gone)
        return (NONE, []) if found is None else (slots[found[0]], found[1])

    def _sources(self, rule: Rule, one: Related, delta: Delta) -> tuple[Index, Int64s]:
        """Rows that are there and join rows of a relation: (position in `delta`, slot)."""
        forest = self._forest
        if not forest.slots.size:
            return NONE, NONE
        if one.tells:
            at, keys = None, [delta.cols[i] for _, i in rule.source]
            slots = forest.slots.find(keys, len(delta))
        else:
            at, slots = self._members[one.join].find(delta.cols, one.forward.key, len(delta))
        there = forest.there(slots).nonzero()[0]
        return there if at is None else at[there], slots[there]

    def _targets(self, rule: Rule, sources: Int64s, related: Sequence[Col]) -> Int64s:
        if not len(sources):
            return NONE
        return self._forest.slots.find(self._target_keys(rule, sources, related), len(sources))

    def _target_keys(self, rule: Rule, sources: Int64s, related: Sequence[Col]) -> list[Col]:
        mine: list[Col] | None = None
        keys: list[Col] = []
        for side, i in rule.target:
            if side:
                keys.append(related[i])
            else:
                if mine is None:
                    mine = self._forest.slots.take(sources)
                keys.append(mine[i])
        return keys

    # -- the end -------------------------------------------------------------------------------

    def _finish(self, counters: Counters) -> list[Emission]:
        forest = self._forest
        gone, come = forest.changes()
        self._present += len(come) - len(gone)
        for members in self._members.values():
            members.extend()
        out: list[Emission] = []
        if len(gone) or len(come):
            signs = np.repeat(np.array([-1, 1]), (len(gone), len(come)))
            rows = forest.changed(gone, come)
            out.append((0, counters, Delta(self.schema, rows, signs, distinct=True)))
        if forest.slots.size > 2 * self._present + 1024:
            forest.compact()
            self._index()
            for members in self._members.values():
                members.extend()
        return out

    def arrangements(self) -> Sequence[Arrangement]:
        """The anchor."""
        return (self.anchors,)

    @property
    def state_rows(self) -> int:
        """Rows held, those of the anchor among them."""
        return self._present + super().state_rows

    @property
    def state_bytes(self) -> int:
        """Bytes held."""
        members = sum(m.nbytes for m in self._members.values())
        return self._forest.nbytes + members + super().state_bytes


def _split(delta: Delta) -> tuple[Delta | None, Delta | None]:
    """What a delta takes away, and what it adds."""
    less = delta.weights < 0
    if less.all():
        return delta, None
    if not less.any():
        return None, delta
    return delta.where(less), delta.where(~less)
