"""ASOF joins of a maintained view: the rows of both sides with a key are one group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.linear import Concat, Map, Rewrite, computing
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import Stream, ViewLowering, lowers, with_columns
from tidewheel.planner.lower_view_join import sides
from tidewheel.planner.text import asof_query, identifier, to_sql
from tidewheel.planner.view_kernels import INPUT, group_kernel


@lowers(L.AsofJoin)
def _asof_join(low: ViewLowering, node: L.AsofJoin) -> Stream:
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
