"""What a new view does not keep until somebody asks for it.

A join of many rows with few keeps the few; what of the many a change of these meets is read from
their tables, and kept if that comes again and again.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tidewheel.engine.operators.circuit import Circuit, Node
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.linear import Concat, Map
from tidewheel.engine.operators.shared import Later, SharedArrangements
from tidewheel.engine.operators.tally import Tally
from tidewheel.planner import view_fill
from tidewheel.planner.maintain import Run
from tidewheel.planner.view_fill import Contents, sources

FEWER: Final = 8
LOOKED_AT: Final = 500_000  # rows of a table, to find out how many of them a filter leaves


def put_off(circuit: Circuit, contents: Contents, registry: SharedArrangements, run: Run) -> None:
    """Leave out the state by which only a change of something much smaller finds its partners.

    Of other tables, that is: a change of the same table would ask at once.
    """
    sizes = Sizes(contents, run)
    for node in circuit.nodes:
        if node is None or not isinstance(node.op, Arrange):
            continue
        given = node.inputs[0].node
        others = [_other(reader, port) for reader, port, _ in node.readers[0]]
        if contents.given(given) is None or not all(_apart(contents, given, o) for o in others):
            continue
        many = sizes(given)
        if many >= view_fill.MANY and all(sizes(o) * FEWER <= many for o in others if o):
            key = node.op.arrangement.key.indices
            collect, find = partial(contents.collect, given), partial(contents.find, given, key)
            # whole tables are the same for all views
            own = registry if node.op.shared is not None else contents
            node.op.wait(Later(registry, own, collect, find, many))


def _other(join: Node, port: int) -> Node | None:
    """What the other side of a join comes from; None for other operators."""
    return join.inputs[1 - port].node.inputs[0].node if isinstance(join.op, Join) else None


def _apart(contents: Contents, given: Node, other: Node | None) -> bool:
    """Do both sides of a join follow from stored tables, and not from the same ones?"""
    theirs = None if other is None else contents.tables(other)
    mine = contents.tables(given)
    return mine is not None and theirs is not None and not mine & theirs


class Sizes:
    """About how many rows the operators of a circuit give."""

    def __init__(self, contents: Contents, run: Run) -> None:
        self._contents = contents
        self._run = run
        self._known: dict[Node, float] = {}

    def __call__(self, node: Node) -> float:
        """Counted where one large table is filtered; of joins, what keys of one side would give."""
        if node not in self._known:
            self._known[node] = self._size(node)
        return self._known[node]

    def _size(self, node: Node) -> float:
        below = [wire.node for wire in node.inputs]
        if not below:
            return self._contents.rows.get(node, 1)
        if isinstance(node.op, Join):
            left, right = (arranged.inputs[0].node for arranged in below)
            if isinstance(right.op, Tally):
                return min(self(left), self._pairs(left, right))
            return self._pairs(left, right)
        if isinstance(node.op, Map) and not below[0].inputs:
            rows = self(below[0])
            if rows >= view_fill.MANY and self._contents.given(node) is not None:
                part = min(1, LOOKED_AT / max(1, rows))
                return float(self._run.row(self._contents.counted_in(node, part))[0]) / part
        if isinstance(node.op, Concat):
            return sum(map(self, below))
        return max(map(self, below))

    def _pairs(self, left: Node, right: Node) -> float:
        """Each row of the side with more rows finds one of all that the other side could have."""
        most = (max(self._contents.rows.get(s, 1) for s in sources(n)) for n in (left, right))
        return self(left) * self(right) / max(1, min(most))
