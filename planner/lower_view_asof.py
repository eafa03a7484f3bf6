"""ASOF joins of a maintained view.

Where the places of both sides are numbers or times, an operator finds each row's partner. Others,
and those of loops, take the rows of both sides with a key as one group, for a statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.asof import AsofJoin
from tidewheel.engine.operators.linear import Concat, Map, Rewrite, computing
from tidewheel.engine.operators.rank import Order, rankable
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import Stream, ViewLowering, lowers, with_columns
from tidewheel.planner.lower_view_join import sides, wanted_of
from tidewheel.planner.range_joins import compared_as
from tidewheel.planner.text import asof_query, cast_to, identifier, to_sql
from tidewheel.planner.view_kernels import INPUT, group_kernel


@lowers(L.AsofJoin)
def _asof_join(low: ViewLowering, node: L.AsofJoin) -> Stream:
    found = None if low.circuit.depth else _by_place(low, node)
    return _by_group(low, node) if found is None else found


def _by_place(low: ViewLowering, node: L.AsofJoin) -> Stream | None:
    """An operator for what is compared by equality and in one order; None for other conditions."""
    compared = _compared(node)
    if compared is None or any(key.null_safe for key in node.keys):
        return None
    mine, other, sign = compared
    left, right, left_key, right_key, rest = sides(low, node, None)
    types = [low.type_of(mine, left), low.type_of(other, right)]
    kind = compared_as(types)
    if rest is not None or kind is None:
        return None
    places = [
        e if t == kind else cast_to(e.copy(), kind)
        for e, t in zip((mine, other), types, strict=True)
    ]
    left, (at,) = low.columns_for(left, places[:1])
    right, (there,) = low.columns_for(right, places[1:])
    if not rankable(left.arrow.types[at]):
        return None
    later, outer = "<" in sign, node.kind == "left"
    by_left, left_node = low.arrange_points(left, Order(at, later), left_key, outer)
    by_right, right_node = low.arrange_points(right, Order(there, later), right_key)
    schema, columns, found = wanted_of(left, right, low.wanted.get(id(node)) or node.schema)
    op = AsofJoin(by_left, by_right, columns, schema, "=" not in sign, outer)
    placed = low.circuit.add(op, left_node, right_node)
    low.contents.asof(placed)
    return Stream(low.circuit, placed, found)


_SIGNS: Final[dict[type[exp.Expr], tuple[str, str]]] = {
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
}


def _compared(node: L.AsofJoin) -> tuple[exp.Expr, exp.Expr, str] | None:
    """What of a left row stands before (or behind) what of a right row, and the sign between."""
    nearest = node.nearest.unnest()
    signs = _SIGNS.get(type(nearest))
    if signs is None:
        return None
    one, other = nearest.this, nearest.expression
    left, right = ({c.name for c in side.schema} for side in (node.left, node.right))
    reads = L.references(one), L.references(other)
    if not all(reads):
        return None
    if reads[0] <= left and reads[1] <= right:
        return one, other, signs[0]
    return (other, one, signs[1]) if reads[0] <= right and reads[1] <= left else None


def _by_group(low: ViewLowering, node: L.AsofJoin) -> Stream:
    left, right, left_key, right_key, _ = sides(low, node, None)
    keys = [f"__tw_k{i}" for i in range(len(left_key))]
    schema = Schema(
        ("__tw_side", *keys, *left.arrow.names, *right.arrow.names),
        (
            pa.int64(),
            *(left.arrow.types[i] for i in left_key),
            *left.arrow.types,
            *right.arrow.types,
        ),
    )
    width = len(left.schema)
    tagged = [
        low.circuit.add(Map(schema, _tagged(schema, number, key, at), "side"), stream.placed)
        for number, (stream, key, at) in enumerate(((left, left_key, 0), (right, right_key, width)))
    ]
    both = low.circuit.add(Concat(schema, 2, "both sides"), *tagged)

    def rows_of(number: int, stream: Stream) -> exp.Expr:
        items = [f"{k} AS {k}_{number}" for k in keys]
        items += [to_sql(identifier(n)) for n in stream.arrow.names]
        query = f"SELECT {', '.join(items)} FROM {INPUT} WHERE __tw_side = {number}"
        alias = exp.TableAlias(this=identifier(f"__tw_in{number}"))
        return exp.Subquery(this=exp.Var(this=query), alias=alias)

    groups = [exp.Var(this=f"{k}_0 AS {k}") for k in keys]
    query = to_sql(asof_query(node, rows_of(0, left), rows_of(1, right), groups))
    evaluate, out = low.bound(group_kernel, query, schema)
    op = Regroup(
        schema,
        range(1, 1 + len(keys)),
        evaluate,
        out,
        range(len(node.schema), len(out)),
        low.circuit.depth,
        f"asof {node.kind} join",
    )
    columns = (*node.schema, *(L.Column(k, k, "") for k in keys))
    return with_columns(low, Stream(low.circuit, low.circuit.add(op, both), columns), node.schema)


def _tagged(schema: Schema, number: int, key: Sequence[int], at: int) -> Rewrite:
    """The rows of side `number` with their `key` in front, and NULLs for the other side's columns.

    Their first column goes to `at`, counted behind the key.
    """

    def side(cols: Sequence[Col], n: int) -> Col:
        return np.full(n, number, np.int64)

    first = 1 + len(key) + at

    def value(i: int, cols: Sequence[Col], n: int) -> Col:
        return cols[i - first] if 0 <= i - first < len(cols) else schema.kinds[i].nulls(n)

    places = range(1 + len(key), len(schema))
    return computing([side, *key, *(partial(value, i) for i in places)], schema)
