"""Semi, anti and outer joins, wired from inner joins and distinct.

    semi(L, R)  =  L ⋈ distinct(keys(R))
    anti(L, R)  =  L − semi(L, R)
    L ⟕ R       =  (L ⋈ R) ⊎ anti(L, R) padded with NULLs

With a residual predicate "keys(R)" come from (L ⋈ R) after the predicate: what of a row of L the
whole condition looks at. Rows that look the same there share their fate. All parts are linear,
bilinear or counts, so no group is ever evaluated again as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.engine.operators.circuit import Circuit, Node
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.linear import Concat, Map, Negate, selecting
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.state.delta import Delta, Schema


def semi(
    circuit: Circuit,
    left: Node,
    right: Node,
    left_key: Sequence[int],
    right_key: Sequence[int],
    null_safe: bool = False,
    name: str = "semi join",
    exactly: bool = False,
) -> Node:
    """Rows of `left` whose key stands in `right`, `exactly` as it is or an equal one."""
    schema = left.op.schema
    depth = circuit.depth
    keys = left.op.schema.select(left_key)
    chosen = circuit.add(Map(keys, selecting(right_key, keys), name=f"{name} keys"), right)
    tally = Tally(keys, depth=depth, name=f"{name} distinct", exactly=exactly)
    once = circuit.add(tally, chosen)
    by_key = Arrange(keys, range(len(keys)), depth, null_safe, f"{name} keys", exactly=exactly)
    by_left = Arrange(schema, left_key, depth, null_safe, f"{name} left", exactly=exactly)
    left_node = circuit.add(by_left, left)
    right_node = circuit.add(by_key, once)
    columns = [(0, i) for i in range(len(schema))]
    join = Join(by_left.arrangement, by_key.arrangement, columns, schema, name)
    return circuit.add(join, left_node, right_node)


def minus(circuit: Circuit, whole: Node, part: Node, name: str = "anti join") -> Node:
    """`whole` − `part`, for a part of the whole."""
    schema = whole.op.schema
    return circuit.add(
        Concat(schema, 2, name, net=True),
        whole,
        circuit.add(Negate(schema, f"{name} matched"), part),
    )


def matched(
    circuit: Circuit, rows: Node, pairs: Node, asked: Sequence[int], at: int, name: str = "matched"
) -> Node:
    """Rows that take part in `pairs`, whose condition looks at their columns `asked`.

    The first column of a row is column `at` of a pair. A condition may tell values apart that are
    equal, as texts of them do.
    """
    columns = [at + i for i in asked]
    return semi(circuit, rows, pairs, asked, columns, True, name, exactly=True)


def padded(circuit: Circuit, rows: Node, schema: Schema, at: int) -> Node:
    """`rows` with NULLs before or after to fill `schema`; their first column goes to `at`."""
    width = len(rows.op.schema)
    kinds = schema.kinds

    def pad(delta: Delta) -> Delta:
        n = len(delta)
        cols = [
            delta.cols[i - at] if at <= i < at + width else kinds[i].nulls(n)
            for i in range(len(schema))
        ]
        return Delta(schema, cols, delta.weights)

    return circuit.add(Map(schema, pad, "pad"), rows)
