"""What operators of a new view get, or give, by statements; see `view_filling` for how they begin.

What DuckDB can compute from tables, it computes, in one statement, in parallel: filters,
projections, joins by keys, distinct rows and the sums of groups. Operators get the rows of
these statements where they keep them, or have no statement of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.circuit import Circuit, Node
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.quantiles import Quantiles
from tidewheel.engine.operators.ranged import RangeJoin
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.operators.running_sums import Totals
from tidewheel.engine.operators.shared import SharedArrangements
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.operators.topk import Ordered, Wake
from tidewheel.engine.state.delta import Delta, KeySpec, consolidate
from tidewheel.planner import view_answers
from tidewheel.planner.plans import Queries
from tidewheel.planner.text import OWN
from tidewheel.planner.view_answers import Answer, Together, of_groups
from tidewheel.planner.view_bounds import Known
from tidewheel.planner.view_heads import First, Lists, Size, Whole
from tidewheel.planner.view_reads import TableReads
from tidewheel.planner.view_reuse import Reading, Reusing
from tidewheel.planner.view_statements import (
    as_delta,
    counted,
    each_once,
    grouped,
    named,
    sources,
)
from tidewheel.planner.view_sums import Sums, groups_alike, kept_of
from tidewheel.planner.view_texts import alike

MANY: Final = 100_000
SOON: Final = 20
"""So many times fewer rows operators join and add up before DuckDB has planned a statement."""
_PAIRS: Final = 1_000_000  # of them, were all their keys the same
_SORTED: Final = (
    16  # rows of a value up to which it takes less time to sort them than to group them
)
_WRONG: Final = 8  # so many times the rows that are expected of a join there may well be
_WIDE: Final = 2  # columns, behind which more of them take longer than the rows themselves
_SMALL: Final = 1000  # rows of a table like those of nations or days
_NARROW: Final = 2  # columns of sides that meet sooner than DuckDB would join again


class Contents(TableReads):
    """Statements that compute what operators give, or get, from tables."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Mapping[Node, int] = {}
        """Of the tables behind the sources."""
        self.expected: Callable[[Node], float] = lambda _: float("inf")
        """About how many rows an operator gives."""
        self.asked: set[Node] = set()
        """Arrangements that wait until operators have what asks them for rows."""
        self.late: set[Node] = set()
        """Operators whose sums wait, as DuckDB computes what they give at first."""
        self.found: dict[Node, int] = {}
        """Rows that operators give, where they have been computed."""
        self._gets: dict[Node, Callable[[Reusing], Delta | None]] = {}
        self._answers: dict[Node, tuple[Answer, SharedArrangements]] = {}
        self._wakes: dict[Node, Wake] = {}
        self._sizes: dict[str, Size] = {}
        self._bounds: dict[Node, float] = {}
        self._lists = Lists()
        self._begun: dict[Node, Totals | None] = {}
        self._kept: dict[Node, dict[int, Known]] = {}
        self._grouped: dict[Node, Sequence[str]] = {}
        """Operators whose groups are DuckDB's, with what they call the columns of their rows."""

    def asked_for(self, node: Node) -> None:
        """An operator asks the tables itself, also for its first rows."""
        self._gets[node] = lambda _: Delta.empty(node.inputs[0].node.op.schema)

    def sums(
        self, node: Node, source: Node, names: Sequence[str], together: Together | None = None
    ) -> None:
        """An `Accumulate` gets the rows of `source`: their sums do.

        What operators that are `together` with it begin with, the same statement computes.
        """
        given, op = self._gives.get(source), node.op
        assert isinstance(op, Accumulate)
        if given is None or not Sums.possible(op, source.op.schema.types):
            return

        def rows(run: Reusing) -> Totals | None:
            if node in self._begun:
                return self._begun.pop(node)
            many = self._most(source)
            doubles = any(s.float for s in op.arguments)
            if self._few(source) or (doubles and self._many(source) < MANY // SOON):
                return None
            kept = self.known(node, run) if many >= MANY else {}
            query = None
            if together is not None and together.calls:
                query = together.query() if all(map(self._begins, together.operators)) else None
            if query is None or together is None:
                return Sums(op, named(given, names), names, kept, many)(run)
            sums = Sums(op, query, together.names(), kept, many, together.calls)
            totals = sums(run)
            if sums.others is not None:
                run.found(together.statement(), sums.others)
            return totals

        self._gets[node] = rows
        if not op.key:
            self.total(node, named(given, names), names)
        elif self.given(source) is not None and (together is None or not together.calls):
            self.computed(node)
            if alike(op) and self.tables(source) and not isinstance(source.op, Tally):
                self._grouped[node] = names

    def known(self, node: Node, run: Queries) -> dict[int, Known]:
        """What DuckDB keeps of the columns that an `Accumulate` reads, by their places."""
        if node not in self._kept:
            text, op = self.text(node.inputs[0].node), node.op
            assert isinstance(op, Accumulate)
            self._kept[node] = {} if text is None else kept_of(op, text, run)
        return self._kept[node]

    def first(
        self,
        node: Node,
        source: Node,
        names: Sequence[str],
        registry: SharedArrangements | None,
        whole: Whole | None = None,
        later: bool = False,
    ) -> None:
        """An `Ordered` gets the rows of `source`: of many rows the first of each group.

        `whole` is a query that gives its columns, and those of others. `later`: its output is
        quicker to have without them (see `answered`), so they follow when a change asks.
        """
        given, op = self._gives.get(source), node.op
        assert isinstance(op, Ordered)
        stored = self.tables(source) is not None and self.given(source) is not None
        origin = self.origin(source)
        again = stored or isinstance(origin.op, Join)
        if given is None or not again or registry is None or not First.possible(op):
            return

        def rest(present: Delta) -> list[Delta]:
            if not stored:
                return [self._joined(source)]
            assert self.read is not None
            return [self.collect(source, self.read), present]

        def about() -> float | None:
            return min(self._most(source), self.expected(source)) if origin.inputs else None

        def rows(run: Queries) -> Delta | None:
            if self._most(source) < MANY:
                return None
            return First(op, query, names, rest, self._sizes, lists, about())(run)

        def wake() -> Delta | None:
            assert self.read is not None
            return First(op, query, names, rest, {}, (Lists(), query), about())(Reading(self.read))

        query = named(given, names)
        if later:
            self._wakes[node] = wake
        lists = self._lists, query if whole is None else whole
        First.want(op, names, *lists)
        self._gets[node] = rows

    def answered(self, node: Node, answer: Answer, registry: SharedArrangements | None) -> None:
        """A `Keyed` gives `answer` for all rows of its source, which wait if they are many."""
        if registry is None:
            return
        self._answers[node] = answer, registry
        if self.given(node.inputs[0].node) is not None:
            self.computed(node)

    def beside(self, node: Node) -> None:
        """Operators stand side by side."""
        if self.outputs.issuperset(wire.node for wire in node.inputs):
            self.computed(node)

    def asked_again(self, node: Node, query: str, names: Sequence[str], key: Sequence[int]) -> None:
        """An operator gives `query` for the rows of its source, or of some groups of it."""
        op, source = node.op, node.inputs[0].node
        assert isinstance(op, Regroup | Quantiles)

        def ask(keys: Delta | None) -> Delta:
            assert self.now is not None
            given = named(self._gives[source], names)
            return of_groups(query, names, key, op.schema, self.now, given, keys)

        if self.given(source) is not None and self.tables(source):
            op.tables = ask

    def _begins(self, node: Node) -> bool:
        """Does an operator begin with its answer, while its rows wait?"""
        source = node.inputs[0].node
        known = self.given(source) is not None and self.tables(source)
        return bool(known and node in self._answers and self._many(source) >= view_answers.MANY)

    def _many(self, source: Node) -> float:
        return min(self._most(source), self.expected(source))

    def counted(self, node: Node, source: Node) -> None:
        """An operator gets each row of `source` once, with how often it is there."""
        given, schema = self._gives.get(source), source.op.schema
        if given is None or not all(map(groups_alike, schema.types)):
            return
        stats = "system.main.any_value(system.main.stats(c).approx_unique::BIGINT)"
        values = f"SELECT {stats} FROM (FROM ({given}) AS t(c) LIMIT 1)"

        def rows(run: Reusing) -> Delta:
            if self._few(source):
                return consolidate(as_delta(run(given), schema))
            once = self._gives.get(node)
            if once is not None and (
                run.again(once) or any(r in self._gets for r, _, _ in node.readers[0])
            ):
                return counted(run.counted(given, once), schema)
            most = self._most(source)
            if most >= MANY and KeySpec(schema, range(len(schema))).integer:
                different = run.row(values)[0]
                if different is not None and different * _SORTED >= most:
                    return each_once(run(given), schema)
            return grouped(run, given, schema)

        self._gets[node] = rows

    def counts_wait(self, node: Node) -> bool:
        """May a `Tally` of a table's rows count them later, as all who read it wait themselves?"""
        readers = [reader for reader, _, _ in node.readers[0]]
        return self.of_table(node) and bool(readers) and all(map(_waits, readers))

    def of_table(self, node: Node) -> bool:
        """Does a `Tally` count the rows of a table, as nothing but a statement does?"""
        source = node.inputs[0].node
        stored = self.tables(source) is not None and not self.origin(source).inputs
        return node in self._gets and stored

    def tallied(self, node: Node) -> None:
        """A `Tally` of several inputs gets each row once, with how often each of them has it."""
        given, schema = [self._gives.get(wire.node) for wire in node.inputs], node.op.schema
        if None in given or not all(map(groups_alike, schema.types)):
            return
        names = [f"c{i}" for i in range(len(schema))]
        sides = (
            f"SELECT *, {i} AS side FROM ({q}) AS t({', '.join(names)})"
            for i, q in enumerate(given)
        )
        counts = ", ".join(f"{OWN}count(*) FILTER (side = {i})" for i in range(len(given)))
        listed = ", ".join(names)
        query = f"SELECT {listed}, {counts} FROM ({' UNION ALL '.join(sides)}) GROUP BY {listed}"

        def rows(run: Reusing) -> Delta | None:
            if max(self._most(wire.node) for wire in node.inputs) < MANY:
                return None
            return counted(run(query), schema, len(given))

        self._gets[node] = rows

    def distinct(self, node: Node, source: Node) -> None:
        """A `Tally` gives the rows of `source`, each once."""
        self.counted(node, source)
        if node in self._gets:
            self._gives[node] = f"SELECT DISTINCT * FROM ({self._gives[source]})"
            self._reads[node] = self._reads.get(source, 1)

    def _keys(self, join: Node, right: Node, key: Sequence[int]) -> Node | None:
        once = super()._keys(join, right, key)
        if once is not None:
            self.counted(once, once.inputs[0].node)
        return once

    def _most(self, source: Node) -> float:
        """Rows that there may be: those of a table, but if far fewer are expected of joins."""
        origin = self.origin(source)
        if isinstance(origin.op, RangeJoin):  # without keys
            return math.prod(self._most(side.node) for side in origin.inputs)
        most = max(self.rows.get(s, 0) for s in sources(source))
        if most >= MANY and isinstance(origin.op, Join):
            return min(most, _WRONG * self.expected(source))
        return most

    def _few(self, node: Node) -> bool:
        """Do few rows of tables make few at most, whatever their values are?"""
        few = all(self.rows.get(s, 0) <= MANY // SOON for s in sources(node))
        return few and self._at_most(node) <= _PAIRS

    def _at_most(self, node: Node) -> float:
        if not node.inputs:
            return self.rows.get(node, 0)
        if node not in self._bounds:
            below = (self._at_most(wire.node) for wire in node.inputs)
            self._bounds[node] = math.prod(below) if isinstance(node.op, Join) else sum(below)
        return self._bounds[node]

    def served(self, circuit: Circuit) -> set[Node]:
        """The operators whose first output DuckDB computes: they need not be stepped for it.

        What arrangements of such an output hold must be of use to operators of this kind only.
        """
        nodes = [n for n in circuit.nodes if n is not None]
        # Two sides that are kept, and sorted, meet as fast if they are narrow, or not large.
        # But what waits would have to be read for them if it is not a statement that joins it.
        left_out = {n for n in nodes if isinstance(n.op, Join)}
        if not all(map(self._few, left_out)):
            left_out = {n for n in left_out if self.kept(n) and (_narrow(n) or not self._large(n))}
        left_out -= self._under_waiting(nodes)
        totals = {n for n in nodes if isinstance(n.op, Accumulate) and n in self._gives}
        totals |= self.outputs
        left_out |= {n for n in totals if n not in self.late and not self._meets(n)}
        served: set[Node] = set()
        for node in nodes:
            behind = (w.node for w in node.inputs if node not in self.outputs)
            if isinstance(node.op, Join):
                behind = (arranged.inputs[0].node for arranged in behind)
            if node in self._gives and node not in left_out and served.issuperset(behind):
                served.add(node)
        return served

    def kept(self, join: Node) -> bool:
        """If both sides of a join are kept: are its pairs narrow, or wanted row by row?

        Without keys there are too many of them.
        """
        return join not in self._gives or _narrow(join) or self._by_row(join)

    def apart(self, join: Node) -> bool:
        """May both sides of a join wait, which DuckDB can join at first?

        If hardly a change concerns both, one may never be asked for what it has, or both may not:
        what both sides come of are small tables at most, which seldom change. And what each has of
        one table is soon found there, though each change of a table that is joined with itself asks
        both.
        """
        sides = [arranged.node for arranged in join.inputs]
        left, right = map(self.tables, sides)
        if join not in self._gives or left is None or right is None:
            return False
        shared = [s for s in sources(*sides) if self._tables[s] in left & right]
        plain = all(not self.origin(side.inputs[0].node).inputs for side in sides)
        seldom = all(self.rows.get(s, 0) <= _SMALL for s in shared)
        return (plain or seldom) and self._large(join)

    def _large(self, join: Node) -> bool:
        """Has a join a side that it takes long to put in order?"""
        return any(self.large(side.node) for side in join.inputs)

    def large(self, node: Node) -> bool:
        """Does it take long to put what a node gives in order? Rows of many columns count more."""
        return self.expected(node) * max(1, len(node.op.schema) / _WIDE) >= MANY

    def _under_waiting(self, nodes: Sequence[Node]) -> set[Node]:
        """Joins with a side that waits, or under groups that wait, and what goes on to them by
        statements alone.
        """
        found = set(self.late)
        for node in reversed(nodes):
            op, behind = node.op, [wire.node for wire in node.inputs]
            if node in found or any(_waits(n) and n not in self.asked for n in behind):
                found.add(node)
                if isinstance(op, Join | Arrange) or node in self._gives or node in self.late:
                    found.update(behind)
        return found

    def _by_row(self, node: Node) -> bool:
        return any(
            reader not in self._gives or self._by_row(reader)
            for reader, _, _ in node.readers[0]
            if reader not in self._gets
        )

    def _meets(self, node: Node) -> bool:
        """Does DuckDB join what a node gives?"""
        return self._met(node) is not None

    def _met(self, node: Node) -> Node | None:
        """What becomes of a node's output where DuckDB joins it: what a join reads."""
        for reader, _, _ in node.readers[0]:
            if reader in self._gives or isinstance(reader.op, Arrange):
                found = node if isinstance(reader.op, Join) else self._met(reader)
                if found is not None:
                    return found
        return None


def _narrow(join: Node) -> bool:
    op = join.op
    assert isinstance(op, Join)
    columns = len(op.left.schema) + len(op.right.schema)
    return columns <= _NARROW and not op.ranged


def _waits(node: Node) -> bool:
    return isinstance(node.op, Arrange) and node.op.arrangement.waiting
