"""The first rows of each group in an order: top-k, LIMIT and OFFSET, min and max."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tidewheel.engine.operators.asked import Ask
from tidewheel.engine.operators.collisions import Groups
from tidewheel.engine.operators.finer import Finer
from tidewheel.engine.operators.first_rows import FirstRows
from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.operators.operator import Emission, emit
from tidewheel.engine.operators.rank import Order, Ranking
from tidewheel.engine.operators.regroup import Evaluate
from tidewheel.engine.operators.ties import asked_for
from tidewheel.engine.state.arrangement import Arrangement, Counters, Waiting
from tidewheel.engine.state.columns import Col, Index, Mask, is_null, take
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec, Schema, concat, consolidate, unique
from tidewheel.engine.state.heads import Heads
from tidewheel.engine.state.order import begins
from tidewheel.engine.state.rowwise import FEW, Row, all_rows, few_rows
from tidewheel.engine.state.run import Rows, concat_rows
from tidewheel.engine.state.sorting import sort_rows
from tidewheel.engine.state.spine import Spine, empty_rows

Rest = Callable[[Delta], Sequence[Delta]]
"""Reads all rows of an input again, its present delta included: deltas that add up to them."""

Wake = Callable[[], Delta | None]
"""Reads the heads of what waits as it was before the present turn; None: all must be read."""

_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_WORTH: Final = 1024  # looking at so many rows takes as long as reading one group
_FEW: Final = 16  # groups that are read one by one
_FIRST: Final = np.zeros(1, np.int64)
_CROWD: Final = 1024
_PER_ROW: Final = 16
_KNOWN: Final = 4096  # groups whose last row wanted is remembered when many are read at once
_SOUGHT: Final = 1 << 14  # rows of groups that are sooner found than the heads of all


class Ordered(Keyed):
    """Functions that read only the first `count` rows of each group by an order. Law: keyed.

    The input is arranged by key and place, so a change reads the ends of the touched groups and not
    the groups. Rows that share the place of the last row wanted are read too: `evaluate` gets at
    least the first `count` rows of each group and must choose itself. Outside loops only.

    Of large groups it may be given the `heads` alone, so many rows that some can go. The others are
    read when a head has become too short.
    """

    some_rows = True

    def __init__(
        self,
        input_schema: Schema,
        key: Sequence[int],
        order: Order,
        count: int,
        evaluate: Evaluate,
        schema: Schema,
        output_key: Sequence[int],
        name: str = "top-k",
        plain: bool = False,
        further: Sequence[Order] = (),
    ) -> None:
        """`plain`: the output is these rows, and nothing else. `further` orders follow `order`."""
        self.ranking = Ranking(input_schema, order, further)
        super().__init__(input_schema, key, schema, output_key, 0, name)
        self.count = count
        self._evaluate = evaluate
        self._last: dict[int, int] = {}
        self._of: dict[int, Row] = {}  # the groups of these keys, which others may share
        self._heads: tuple[Heads, Rest] | None = None
        self._beheaded: Groups | None = None
        self._present: Delta | None = None
        self._plain = plain
        self._plain_key = all(kind.plain for kind in self.input.key.kinds)
        self._wake: Wake | None = None
        self._group_rows = 0.0
        self._crowd = max(_CROWD, _PER_ROW * count)
        """So many rows of one place ask for finer ones, once in a step."""
        self._tried = False
        orders, of = self.ranking.orders, self.input.key
        self._known = FirstRows.of(orders, of, input_schema, count) if plain else None

    def _arrange(self, schema: Schema, key: Sequence[int], depth: int) -> Arrangement:
        return Arrangement(schema, key, depth, self.ranking, name=f"{self.name} input")

    def behead(self, heads: Heads, groups: Groups, rest: Rest) -> None:
        """From now on only the rows in `heads` are kept; `rest` reads others when they must be.

        `groups`: those of the heads.
        """
        self._heads, self._beheaded = (heads, rest), groups

    def begin(
        self, rows: Waiting, output: Delta, wake: Wake | None = None, many: float = 0
    ) -> None:
        """Take over the output for all `rows`, about so `many`; `wake` reads their heads."""
        super().begin(rows, output)
        self._wake = wake
        self._group_rows = many * self.count / max(1, len(output))

    @property
    def whole(self) -> bool:
        """Does it keep all rows of all groups?"""
        return self._heads is None

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New output − output so far, of all touched keys."""
        self._tried, self._present = False, deltas[0]
        delta = self._present
        found = None if delta is None else self._by_row(delta)
        if found is not None:
            self._present = None
            return emit(counters, found)
        if self._heads is not None and delta is not None:
            deltas = [self._kept(self._heads[0], delta)]
        change = super().step(counters, deltas)
        self._present = None
        return change

    def _by_row(self, delta: Delta) -> Delta | None:
        """The change of the output by one of a few rows; None if it takes more to tell."""
        known = self._known
        if known is None:
            return None
        rows = few_rows(self.input.schema.kinds, delta.cols, len(delta))
        if rows is None or self._agenda or self.input.refused or abs(delta.weights).sum() > FEW:
            known.forget()
            return None
        keys = self.input.key.keys(delta.cols, len(delta)).tolist()
        said = known.change(keys, rows, delta.weights.tolist(), self._read_first)
        if said is None:
            return None
        for key in keys:
            self._last.pop(key, None)
        self.input.post(delta if self._heads is None else self._kept(self._heads[0], delta))
        weights = np.array(list(said.values()), np.int64)
        output = Delta.of_rows(self.schema, list(said), weights)
        if len(output):
            self.output.post(output)
        return output

    def _read_first(self, key: int) -> tuple[Delta, bool]:
        """First rows of a group, and whether it has no others."""
        keys = np.array([key], np.int64)
        waiting = self.input.waiting
        found = self._rows(self.output, keys, ()) if waiting else self._firsts(keys)
        return found, self._heads is None and int(found.weights.sum()) < self.count

    def settled(self, keys: Delta | None, ask: Ask) -> Delta:
        """The output of groups whose rows tie; of all without keys.

        `ask` says it, unless all that came is one row: it comes behind those that were there.
        """
        delta = self._present
        if delta is None or len(delta) > 1 or delta.weights[0] < 0:
            return ask(keys)
        if keys is None:
            return self.output.contents()
        of = KeySpec(keys.schema, range(len(keys.schema)))
        found = self.output.match(keys.cols, of, of.keys(keys.cols, len(keys)))
        assert found is not None
        return found[1].delta()

    def _kept(self, heads: Heads, delta: Delta) -> Delta:
        """Of a change, what is not only counted."""
        keys, ranks, weights = self._places(delta)
        if self._beheaded is not None:
            self._beheaded.check(self.input.key, keys, delta.cols)
        return delta.where(heads.take(keys, ranks, weights))

    def _places(self, delta: Delta) -> tuple[Int64s, Int64s, Int64s]:
        """Keys, ranks and weights of rows."""
        n = len(delta)
        return self.input.key.keys(delta.cols, n), self.ranking(delta.cols, n), delta.weights

    def _relevant(self, delta: Delta, keys: Int64s) -> Int64s:
        # What comes and goes behind the last row wanted changes nothing.
        if self.input.waiting and self._plain:
            return keys[self._within(delta, keys)]
        if not self._last or not self._plain_key:
            return keys
        distinct = unique(keys)
        ends = np.array([self._last.get(k, _MAX) for k in distinct.tolist()])
        ranks = self.ranking(delta.cols, len(delta))
        behind = (ranks > ends[distinct.searchsorted(keys)]).nonzero()[0]
        if len(behind) and not self.input.key.exact(delta.cols):
            rows = zip(keys[behind].tolist(), self._groups(delta.cols, behind), strict=True)
            behind = behind[[self._of.get(key) == group for key, group in rows]]
        return np.delete(keys, behind)

    def _groups(self, cols: Sequence[Col], at: Index) -> Sequence[Row]:
        """The groups of some rows."""
        key = self.input.key
        return all_rows(key.kinds, [take(cols[i], at) for i in key.indices])

    def _within(self, delta: Delta, keys: Int64s) -> Mask:
        """Which rows of a change do not lie behind the last row of the output, if that is full?"""
        n = len(delta)
        last, found = np.full(n, _MAX), self.output.match(delta.cols, self.input.key, keys)
        if found is not None:
            at, rows = found
            ends, there = np.full(n, _MIN), np.zeros(n, np.int64)
            np.maximum.at(ends, at, self.ranking(rows.cols, len(rows)))
            np.add.at(there, at, rows.weights)
            last = np.where(there >= self.count, ends, _MAX)
        return np.asarray(self.ranking(delta.cols, n) <= last)

    def _ask(self, delta: Delta) -> Spine | None:
        if self._plain:
            # what only comes may displace what the output has, whatever else there is
            keys = self.input.key.keys(delta.cols, len(delta))
            within = self._within(delta, keys)
            if (delta.weights[within] > 0).all():
                spine = Spine(self.input.layout)
                spine.insert(self.input.layout.rows(delta.where(within)))
                known = self.output.fetch(unique(keys[within]))
                if known is not None:
                    same = Delta(self.input.schema, known.cols, known.weights)
                    spine.insert(self.input.layout.rows(same))
                return spine
        if self._wake is not None and len(delta) * self._group_rows <= _SOUGHT:
            found = super()._ask(delta)
            if found is not None:
                return found
        # (what tables have refused is not in them, nor in what is read of them)
        refused, heads = self.input.refused, None if self._wake is None else self._wake()
        self._wake = None
        if heads is None:  # groups are too small
            return super()._ask(delta)
        posted = None if refused else self.input.posted
        if posted is not None and self._heads is not None:
            posted = self._kept(self._heads[0], posted)
        self.input.begin(heads, posted)
        return None

    def _rows(self, arrangement: Arrangement, keys: Int64s, counters: Counters) -> Delta:
        if arrangement is self.output:
            return super()._rows(arrangement, keys, counters)
        rows = self._firsts(keys)
        if self._heads is not None and self._present is not None:
            of = self.input.key.keys(rows.cols, len(rows))
            short = self._heads[0].short(self.count, of, rows.weights, keys)
            if len(short):
                self._deepen(*self._heads, short)
                rows = self._firsts(keys)
        return rows

    def _crowded(self, size: int) -> bool:
        """Do so many rows share one place, and have all got finer ones now?"""
        if size <= self._crowd or not self.ranking.coarse or self._asked is not None:
            return False
        if self._tried:  # they are the same
            self._crowd = size
            return False
        self._tried = True
        runs = list(self.input.spine.runs())
        if not runs:
            return False
        rows = concat_rows(runs)
        finer = Finer(self.input.schema, self.ranking.orders, rows.cols)
        if self._heads is not None and not self._heads[0].move(finer.ends):
            self._crowd = max(size, 2 * len(rows))
            return False
        self.ranking.finer = finer
        self.input = self._arrange(self.input.schema, self.input.key.indices, 0)
        self.input.insert(rows.delta())
        self._last.clear()
        self._of.clear()
        return True

    def _deepen(self, heads: Heads, rest: Rest, short: Int64s) -> None:
        """Read what is missing at the heads that are too `short`."""
        assert self._present is not None
        deltas = rest(self._present)
        places = [self._places(delta) for delta in deltas]
        chosen = heads.deepen(short, places)
        if chosen is None:
            self._heads = None
            chosen = [heads.others(keys, ranks).nonzero()[0] for keys, ranks, _ in places]
        for delta, index in zip(deltas, chosen, strict=True):
            self.input.insert(delta.take(index))
        self._last.clear()
        self._of.clear()

    def _firsts(self, keys: Int64s) -> Delta:
        """At least the first `count` rows of each group."""
        if len(keys) * _WORTH > len(self._stored):
            run = self._stored.single
            if run is None and len(keys) > _FEW:
                found = self._stored.lookup(keys)
                run = empty_rows(self.input.layout) if found is None else sort_rows(found[1])
            if run is not None:
                return self._ends(run, keys)
        ends = [self._end(key) for key in keys.tolist()]
        present = [e for e in ends if e is not None and len(e)]
        return concat([p.delta() for p in present]) if present else Delta.empty(self.input.schema)

    def _ends(self, run: Rows, keys: Int64s) -> Delta:
        """The first rows of many groups, where one run has all of their rows."""
        for key in keys.tolist() if self._last else ():
            self._last.pop(key, None)
        if not len(run):
            return Delta.empty(self.input.schema)
        low, counts = run.find(keys)
        there = counts > 0
        enough = counts >= self.count
        assert run.rank is not None
        if len(keys) <= _KNOWN:
            last = run.rank[low[enough] + self.count - 1]
            self._last.update(zip(keys[enough].tolist(), last.tolist(), strict=True))
            if self._plain_key and not self.input.key.exact(run.cols):
                groups = self._groups(run.cols, low[enough])
                self._of.update(zip(keys[enough].tolist(), groups, strict=True))
        low, counts = low[there], np.minimum(counts[there], self.count)
        # with them go the rows that share the place of the last one
        places = begins(run.keys)
        places |= begins(run.rank)
        starts = np.append(places.nonzero()[0], len(run))
        ends = starts[starts.searchsorted(low + counts - 1, side="right")]
        lengths = ends - low
        if self._crowded(int(lengths.max(initial=0))):
            return self._firsts(keys)
        offsets = lengths.cumsum() - lengths
        index = np.arange(lengths.sum()) + (low - offsets).repeat(lengths)
        return sort_rows(run.take(index)).delta()

    def _end(self, key: int) -> Rows | None:
        """The first rows of a group: at least `count` if it has so many."""
        wanted = few = max(4 * self.count, 16)
        while True:
            if self._crowded(wanted):
                wanted = few
            parts, bound = self._stored.first(key, wanted)
            if not parts:
                self._last.pop(key, None)
                return None
            rows = concat_rows(parts)
            if bound is not None:
                rows = rows.where(np.asarray(rows.rank < bound))  # type: ignore[operator]
            rows = sort_rows(rows)
            sums = rows.weights.cumsum()
            enough = len(sums) > 0 and int(sums[-1]) >= self.count
            if bound is None or enough:
                assert rows.rank is not None
                if enough:
                    self._last[key] = int(rows.rank[sums.searchsorted(self.count)])
                    if self._plain_key and not self.input.key.exact(rows.cols):
                        (self._of[key],) = self._groups(rows.cols, _FIRST)
                else:
                    self._last.pop(key, None)
                return rows
            wanted *= 4

    def abort_epoch(self) -> None:
        """Forget the times, and what was read in vain."""
        super().abort_epoch()
        self._last.clear()
        self._of.clear()
        if self._known is not None:
            self._known.forget()

    def evaluate(self, keys: Int64s, rows: Delta) -> Delta:
        """One call of the function for all touched groups."""
        if not len(rows) and self.input.key.indices:
            return Delta.empty(self.schema)
        out = self._evaluate(rows.repeated())
        return consolidate(Delta(self.schema, out.cols, out.weights))


def extreme(
    input_schema: Schema,
    key: Sequence[int],
    value: int,
    schema: Schema,
    chosen: int | None = None,
    ask: Ask | None = None,
    nulls_first: bool = False,
) -> Evaluate:
    """min or max without a statement: per group the value of the lowest place.

    Or, for arg_min and first, what another column has `chosen` there; where that is open, as
    several rows share the place, `ask` says it.

    For types whose places are values (`rank.rankable`), with an input ordered by place; the output
    is the key columns and the value.
    """
    positions = (*key, value if chosen is None else chosen)

    def evaluate(rows: Delta) -> Delta:
        # Rows come group by group, each in the order of places: the first of each group is it,
        # but that NULL shares the last place, or the first one, with a value.
        nulls = is_null(rows.cols[value])
        layout = Arrangement(input_schema, key).layout
        keys = layout.key.keys(rows.cols, len(rows))
        first = begins(keys)
        if nulls is not None:
            rows = rows.take(np.lexsort((nulls != nulls_first, first.cumsum())))
        if not len(rows):
            empty = Delta.empty(schema)
            if key:
                return empty
            cols = [schema.kinds[-1].nulls(1)]
            return Delta(schema, cols, np.ones(1, np.int64))
        if not layout.key.exact(rows.cols):
            for i in layout.key.indices:  # two groups under one hash
                kind, col = input_schema.kinds[i], rows.cols[i]
                first[1:] |= ~kind.equal(col[1:], col[:-1])
        out = rows.take(first.nonzero()[0])
        found = Delta(schema, [out.cols[i] for i in positions], np.ones(len(out), np.int64))
        if ask is None or chosen is None:
            return found
        group = first.cumsum() - 1
        like = input_schema.kinds[value].equal(rows.cols[value], take(out.cols[value], group))
        shown, others = take(out.cols[chosen], group), rows.cols[chosen]
        same = input_schema.kinds[chosen].equal(others, shown, exactly=True)
        open_ = np.zeros(len(out), bool)
        open_[group[like & ~same]] = True
        return asked_for(found, open_, ask, range(len(key)))

    return evaluate
