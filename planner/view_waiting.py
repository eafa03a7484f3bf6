"""What a new view does not keep until somebody asks for it.

A join of many rows with few keeps the few, and one of many rows with many of other tables keeps
none; what of the many a change of the others meets is read from their tables, and kept if that
comes again and again.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Final

from tidewheel.engine.operators import shared
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.asof import AsofJoin
from tidewheel.engine.operators.circuit import Circuit, Node
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.linear import Concat, Negate
from tidewheel.engine.operators.shared import Later, SharedArrangements
from tidewheel.engine.operators.tally import Tally
from tidewheel.planner import view_fill
from tidewheel.planner.rewrites.measured import Measures
from tidewheel.planner.view_fill import Contents
from tidewheel.planner.view_statements import sources

_PART: Final = 32  # of a table's rows; what joins leave fewer of is sooner read whole than found


def put_off(
    circuit: Circuit, contents: Contents, registry: SharedArrangements, sizes: Sizes
) -> None:
    """Leave out the state by which only a change of another table finds its partners.

    Nobody knows whether there will be one. Where one large table changes both sides of a join, or
    operators have to join them, only what is much larger than the other side is left out. How many
    rows the other side has may not be known before operators have computed them: then they ask when
    they have, for what all of them find, and that decides.
    """
    contents.expected = sizes
    tables, text = cache(contents.tables), cache(contents.given)
    asking: set[Node] = set()
    for node in circuit.nodes:
        if node is None or not isinstance(node.op, Arrange) or node in asking:
            continue
        given = node.inputs[0].node
        joins = [(reader, _other(contents, reader, port)) for reader, port, _ in node.readers[0]]
        stored = all(o is not None and tables(o) is not None for _, o in joins)
        if not stored or text(given) is None or tables(given) is None:
            continue
        if isinstance(given.op, Tally) and not contents.of_table(given):  # which is there anyway
            continue
        many = sizes(given)
        if not contents.large(given):
            continue
        rows = max(contents.rows.get(s, 1) for s in sources(given))
        few = many * _PART < rows and _guessed(contents, given)
        known = ((j, o) for j, o in joins if o is not None and not contents.apart(j))
        more = {j: o for j, o in known if sizes(_behind(o)) * shared.FEWER > many}
        wanted = not more or not _guessed(contents, given)
        if wanted and all(_asks(contents, j, o) for j, o in more.items()):
            asking.update(more.values())
            contents.asked.update([node] if more else [])
            key = node.op.arrangement.key.indices
            collect, find = partial(contents.collect, given), partial(contents.find, given, key)
            # whole tables are the same for all views
            own = registry if node.op.shared is not None else contents
            node.op.wait(Later(registry, own, collect, find, many, looks=not few))
    for node in circuit.nodes:
        if node is not None and isinstance(node.op, Tally) and contents.counts_wait(node):
            given = node.inputs[0].node
            many, key = sizes(given), tuple(range(len(node.op.schema)))
            if many >= view_fill.MANY:
                collect = partial(contents.counts, given)
                find = partial(contents.find, given, key)
                node.op.wait(Later(registry, contents, collect, find, many))


def _other(contents: Contents, join: Node, port: int) -> Node | None:
    """The other side of a join; None for other operators, and where but one side may wait."""
    if not isinstance(join.op, Join):
        return None
    other = join.inputs[1 - port].node
    waits = isinstance(other.op, Arrange) and other.op.arrangement.waiting
    return None if waits and not contents.apart(join) else other


def _behind(arranged: Node) -> Node:
    return arranged.inputs[0].node


def _asks(contents: Contents, join: Node, arranged: Node) -> bool:
    """Does a join get the rows of a side from operators, and nobody knows how many they are?"""
    assert isinstance(join.op, Join)
    return not join.op.ranged and contents.kept(join) and _guessed(contents, _behind(arranged))


def _guessed(contents: Contents, node: Node) -> bool:
    """Is it a guess how many rows there are?"""
    return contents.given(node) is None or isinstance(contents.origin(node).op, Join)


class Sizes:
    """About how many rows the operators of a circuit give."""

    def __init__(self, contents: Contents, measures: Measures) -> None:
        self._contents = contents
        self._measures = measures
        self._known: dict[Node, float] = {}

    def __call__(self, node: Node) -> float:
        """Counted where one large table is filtered; of joins, what keys of one side would give."""
        if node not in self._known:
            self._known[node] = self._contents.found.get(node) or self._size(node)
        return self._known[node]

    def _size(self, node: Node) -> float:
        below = [wire.node for wire in node.inputs]
        if not below:
            return self._contents.rows.get(node, 1)
        if isinstance(node.op, Join):
            left, right = (arranged.inputs[0].node for arranged in below)
            if isinstance(node.op, AsofJoin):
                return self(left)
            if isinstance(right.op, Tally):
                # keys that come of the left side itself say little of it
                most = (
                    self(right) if right.op.counts.layout.key.exactly else self._pairs(left, right)
                )
                return min(self(left), most)
            return self._pairs(left, right)
        text = self._contents.text(node)
        measures = self._measures
        if text is not None and (measures.knows(text) or self(below[0]) >= view_fill.MANY):
            return measures.about(text)
        if isinstance(node.op, Accumulate) and not node.op.key:
            return 1
        if isinstance(node.op, Concat):
            less = sum(self(n) for n in below if isinstance(n.op, Negate))
            more = sum(self(n) for n in below if not isinstance(n.op, Negate))
            return max(more - less, more / _PART)
        return max(map(self, below))

    def _pairs(self, left: Node, right: Node) -> float:
        """Each row of the side with more rows finds one of all that the other side could have."""
        most = (max(self._contents.rows.get(s, 1) for s in sources(n)) for n in (left, right))
        return self(left) * self(right) / max(1, min(most))
