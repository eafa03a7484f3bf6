"""A new view's circuit gets its first rows: by statements, by operators, in the order of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.asof import AsofJoin
from tidewheel.engine.operators.circuit import Circuit, Node
from tidewheel.engine.operators.collate import Collate
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.operators.linear import Map
from tidewheel.engine.operators.quantiles import Quantiles
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.operators.running_sums import Totals
from tidewheel.engine.operators.shared import Later, Read, SharedArrangements
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.operators.topk import Ordered
from tidewheel.engine.state.delta import Delta, concat
from tidewheel.planner import view_answers
from tidewheel.planner.plans import Run
from tidewheel.planner.text import OWN
from tidewheel.planner.view_fill import Contents
from tidewheel.planner.view_groups import many_groups
from tidewheel.planner.view_reuse import Reading, Reusing, reusing
from tidewheel.planner.view_statements import as_delta, behind, item, named, row_of, sought_alike
from tidewheel.planner.view_sums import Sums

if TYPE_CHECKING:
    import pyarrow as pa

GROUPS: Final = 10_000
"""Groups whose sums DuckDB joins with others; more are kept by operators, or wait."""
_CROWD: Final = 4
"""So many of a key are crowded; up to `_HANDED` of them all are handed to DuckDB."""
_HANDED: Final = 1_000_000
_SCANNED: Final = 1_000_000  # rows that take longer to filter than DuckDB to plan two statements
_LEFT: Final = 20
_GROUPED: Final = 3e-7  # seconds to read a row, add it to its group, and sort the groups, at least


class Filling(Contents):
    """What a view's operators begin with."""

    def __init__(self) -> None:
        super().__init__()
        self._answered_by: dict[Node, Delta] = {}
        self._registry: SharedArrangements | None = None
        self._computed: dict[Node, Delta] = {}
        self._ends: dict[Node, Node] = {}  # where what comes of groups that wait is in `_computed`

    def begin(self, run: Run, expected: Callable[[Node], float]) -> None:
        """Compute groups that DuckDB could join with others; it shall, if they are few.

        Operators that begin with an answer do so where many rows are `expected`. Many groups
        wait, if their sums are DuckDB's.
        """
        self._registry = run.shared
        with reusing(run, []) as alone:
            for node in self._grouped:
                # (a rule that was given up has taken its operators out again)
                if node.alive and self._many_groups(node, run, expected):
                    self._compute(node, alone)
            groups = (Accumulate, Keyed, Collate)
            met = [n for n in self.outputs if isinstance(n.op, groups) and self._meets(n)]
            for node in sorted(met, key=lambda n: n.index):
                if node in self._computed:
                    continue
                many = self._groups(node, alone, expected)
                if many is None or (many > GROUPS and not self._crowded(node, alone)):
                    self.outputs.remove(node)
                    self._by_operators(node)

    def _crowded(self, node: Node, run: Reusing) -> bool:
        """Have many of an operator's rows the same key where they are joined?

        Of so many pairs a condition may leave few, as of the times for which a price was the one:
        DuckDB need not hold them.
        """
        output, met = self._answered_by.get(node), self._met(node)
        if output is None or met is None or len(output) > _HANDED:
            return False
        op, given = met.op, met.inputs[0].node
        if not isinstance(op, Arrange):
            return False
        names = [f"c{i}" for i in range(len(op.schema))]
        key = ", ".join(names[i] for i in op.arrangement.key.indices)
        if not key:
            return False
        run.computed(self._gives[node], output)
        some = f"FROM {item(self._gives[given], names)}"
        found = run.row(f"SELECT {OWN}approx_count_distinct({OWN}row({key})), {OWN}count(*) {some}")
        return bool(found[0] * _CROWD < found[1])

    def _by_operators(self, node: Node) -> None:
        """DuckDB computes nothing that comes of a node."""
        for other in [n for n in self._gives if node in behind(n)]:
            del self._gives[other]

    def _many_groups(self, node: Node, run: Run, expected: Callable[[Node], float]) -> bool:
        """May an operator's groups wait, and are they many?"""
        op, source = node.op, node.inputs[0].node
        assert isinstance(op, Accumulate)
        most = view_answers.MANY
        if self._registry is None or self._most(source) < most:
            return False
        if not all(map(sought_alike, op.group.types)):
            return False
        if any(isinstance(reader.op, Collate) for reader, _, _ in node.readers[0]):
            return False  # which asks for those of others' groups
        if expected(source) < most:
            return False
        text, known = self.text(source), self.known(node, run)
        return many_groups(op, text, known, run, self._most(source), GROUPS)

    def _compute(self, node: Node, run: Reusing) -> None:
        """Compute many groups, and what filters leave of them; DuckDB joins these, if few.

        Who reads them may begin with an answer: then they are part of its statement.
        """
        end, between = node, {node}
        while not _several(end) and isinstance((reader := end.readers[0][0][0]).op, Map):
            if reader not in self._gives:
                break
            end = reader
            between.add(end)
        names = self._grouped[node]
        given = named(self._gives[node.inputs[0].node], names)
        groups = self.groups(node, given, names)
        self.late.add(node)
        if not _several(end) and end.readers[0][0][0] in self._answers:
            self._written_out(node, groups)
            return
        run.known(self._gives[node], groups)
        output = as_delta(run(groups if end is node else self._gives[end]), end.op.schema)
        self._computed[end] = output
        self._ends[node] = end
        self.outputs.discard(node)
        if len(output) > GROUPS or not self._meets(end):
            self._by_operators(node)
            return
        self.found[end] = max(1, len(output))
        self.outputs.add(end)
        for other in between - {end}:
            del self._gives[other]

    def _written_out(self, node: Node, query: str) -> None:
        """What a node gives is this query at any time."""
        called = f"({self._gives[node]})"
        for other, text in self._gives.items():
            self._gives[other] = text.replace(called, f"({query})")
        self._gives[node] = query
        self.outputs.discard(node)
        self._totals.discard(node)

    def _wait(self, node: Node) -> None:
        """Let the sums of an operator wait."""
        op, source, names = node.op, node.inputs[0].node, self._grouped[node]
        registry = self._registry
        assert isinstance(op, Accumulate)
        assert registry is not None

        def sums(read: Read, query: str, keys: pa.Table | None = None) -> Delta:
            found = Sums(op, named(query, names), names, {})(Reading(read, keys))
            assert found is not None  # there are no doubles
            return found

        def collect(read: Read) -> Delta:
            return sums(read, self._gives[source])

        def find(read: Read, keys: Delta) -> Delta:
            return sums(read, *self.sought(source, op.key, keys))

        op.wait(Later(registry, self, collect, find, self._many(source), row=_GROUPED))

    def _groups(self, node: Node, run: Reusing, expected: Callable[[Node], float]) -> int | None:
        """How many groups there are; None if operators have to say so."""
        op = node.op
        if isinstance(op, Accumulate):
            totals = self._gets[node](run)
            assert totals is None or isinstance(totals, Totals)
            self._begun[node] = totals
            return None if totals is None else len(totals)
        if isinstance(op, Collate):
            return 0 if self.outputs.issuperset(w.node for w in node.inputs) else None
        source = node.inputs[0].node
        if not self._begins(node) or expected(source) < view_answers.MANY:
            return None
        answer, _ = self._answers[node]
        output = self._answered_by[node] = answer(run, self._gives[source])
        return len(output)

    def fill(self, circuit: Circuit, run: Run, constants: Mapping[Node, Delta]) -> None:
        """Give all operators what they get from tables, and `constants`; then they may run."""
        served = self.served(circuit)
        for node in [n for n in self.late if n.inputs[0].node not in served]:
            self.late.discard(node)  # its rows come of operators, so they would count twice
            self._computed.pop(self._ends.get(node, node), None)
        texts = [self._gives[node] for node in served if node in self._gives]
        with reusing(run, texts) as again:
            for node in served:
                if isinstance(node.op, AsofJoin):
                    self._choose_partners(node, node.op, again)
            self._fill(circuit, served, again, dict(constants))

    def _fill(
        self, circuit: Circuit, served: set[Node], run: Reusing, known: dict[Node, Delta]
    ) -> None:
        def rows(node: Node) -> Delta:
            if node not in known:
                query = self._gives[node]
                twice = self._slow(node) and run.again(query)
                known[node] = as_delta(run.kept(query) if twice else run(query), node.op.schema)
                node.rows_out += len(known[node])
            return known[node]

        def take(node: Node, port: int, source: Node) -> None:
            """An operator gets what a served `source` gives, or begins with what comes of it."""
            op = node.op
            output = self._answered(node, run) if node in self._wakes else None
            delta = None
            if output is None and node in self._gets:
                delta = self._gets[node](run)
            if output is None and delta is None:
                output = self._answered(node, run)
            if output is not None:
                if node in self.outputs and node in served:
                    known[node] = output
                else:
                    _push_on(circuit, node, output)
                return
            delta = rows(source) if delta is None else delta
            if isinstance(op, Tally) and node in served:
                known[node] = op.begin(delta)
            elif node in served and node not in self.outputs:  # a total
                (emitted,) = op.step((), [delta])
                known[node] = emitted[2]
                node.rows_out += 1
                run.known(self._gives[node], row_of(known[node]))
            elif len(delta):
                circuit.push(node, delta, port=port)

        for node in circuit.nodes:
            if node is None or not node.inputs:
                continue
            op = node.op
            if node in self.late:
                self._wait(node)
            if node in self._computed:
                output = self._computed.pop(node)
                node.rows_out += len(output)
                if node in served:
                    known[node] = output
                    run.computed(self._gives[node], output)
                else:
                    _push_on(circuit, node, output)
            if node in self.late or node in known:
                continue
            ready = [(port, w.node) for port, w in enumerate(node.inputs) if w.node in served]
            if node in served and isinstance(op, Join):
                op.begun = True
            elif isinstance(op, Arrange) and ready:
                others = [r for r in node.readers[0] if r[0] not in served]
                if (others and node not in self.asked) or not (others or op.has_all):
                    for _, _, delta in op.step((), [rows(node.inputs[0].node)]):
                        for reader, port, _ in others:
                            circuit.push(reader, delta, port=port)
            elif isinstance(op, Tally) and op.counts.waiting:
                continue
            elif isinstance(op, Tally) and op.arity > 1:
                counts = None
                if len(ready) == op.arity and node in self._gets:
                    counts = self._gets[node](run)
                if counts is not None:
                    output = op.begin(counts)
                    node.rows_out += len(output)
                    _push_on(circuit, node, output)
                    continue
                for port, source in ready:
                    circuit.push(node, rows(source), port=port)
            elif node not in served or node in self._gets or node in self.outputs:
                for port, source in ready:
                    take(node, port, source)
            if node in self.outputs and node in served and node not in known:
                said = circuit.first(node)
                known[node] = concat(said) if said else Delta.empty(op.schema)
            if node in self.outputs and node in known:
                run.computed(self._gives[node], known[node])

    def _slow(self, node: Node) -> bool:
        """Does what a node gives take longer to compute than to be read again?

        DuckDB filters one table as soon as it reads what was left of it, if that is much.
        """
        most = self._most(node)
        return self._reads.get(node, 1) > 1 or (most >= max(_SCANNED, _LEFT * self.expected(node)))

    def _choose_partners(self, node: Node, op: AsofJoin, run: Reusing) -> None:
        """Give an ASOF join one right row for each place: of several DuckDB may take any."""
        right = node.inputs[1].node.inputs[0].node
        given, schema = self._gives[right], right.op.schema
        names = [f"c{i}" for i in range(len(schema))]
        place = ", ".join(names[i] for i in (*op.right.key.indices, op.points[1]))
        places = f"SELECT {place} FROM {item(given, names)}"
        once = f"SELECT count(*) FROM (SELECT DISTINCT * FROM ({places}))"
        several, different = run.row(f"SELECT count(*), ({once}) FROM ({places})")
        if several == different:
            run.known(self.partners(node), given)
        else:
            run.computed(self.partners(node), op.partners(as_delta(run(given), schema)))

    def _answered(self, node: Node, run: Reusing) -> Delta | None:
        """What an operator gives, which begins with it; None if it needs the rows."""
        if not self._begins(node):
            return None
        op, source = node.op, node.inputs[0].node
        assert isinstance(op, Keyed)
        answer, registry = self._answers[node]
        output = self._answered_by.pop(node, None)
        if output is None:
            output = answer(run, self._gives[source])
        key, wake = op.input.key.indices, self._wakes.get(node)
        collect, find = partial(self.collect, source), partial(self.find, source, key)
        rows = Later(registry, self, collect, find, self._many(source), looks=bool(key))
        if isinstance(op, Ordered):
            op.begin(rows, output, wake, self._many(source))
        else:
            op.begin(rows, output)
        if isinstance(op, Regroup):
            op.look()
        elif isinstance(op, Quantiles):
            op.look(self._many(source))
        node.rows_out += len(output)
        return output


def _several(node: Node) -> bool:
    return len(node.readers[0]) > 1


def _push_on(circuit: Circuit, node: Node, output: Delta) -> None:
    """Give what a node gives to those who read it."""
    for reader, port, _ in node.readers[0]:
        circuit.push(reader, output, port=port)
