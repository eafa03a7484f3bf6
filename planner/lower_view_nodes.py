"""Rules for the nodes of a maintained view that need few lines each.

Scans and constants, linear steps, DISTINCT, set operations, LIMIT.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from tidewheel.engine.kernels.duckdb_types import unnamed
from tidewheel.engine.operators import tally
from tidewheel.engine.operators.linear import Concat
from tidewheel.engine.operators.operator import Source
from tidewheel.engine.operators.rank import Order, rankable
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.operators.topk import Ordered
from tidewheel.engine.quoting import key_of
from tidewheel.engine.state.change import Taken
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import (
    NoDeltaRule,
    Stream,
    TableInput,
    ViewLowering,
    filtered,
    lowers,
    with_columns,
)
from tidewheel.planner.text import OWN, column, identifier, ordered, to_sql
from tidewheel.planner.view_answers import Answer, by_kernel
from tidewheel.planner.view_kernels import INPUT, group_kernel
from tidewheel.planner.view_reuse import Reusing


def _parts(table: str) -> list[str]:
    return [p.replace('""', '"') for p in re.findall(r'"((?:[^"]|"")*)"', table)]


def source_key(table: str, rows_prefix: str) -> str | None:
    """The key of a table, or of a view's rows by their prefix; None if its place is not certain."""
    parts = _parts(table)
    if parts and parts[-1].startswith(rows_prefix):
        return parts[-1][len(rows_prefix) :]
    return key_of(*parts) if len(parts) == 3 else None


@lowers(L.Scan)
def _scan(low: ViewLowering, node: L.Scan) -> Stream:
    parts, key = _parts(node.table), source_key(node.table, low.rows_prefix)
    if key is None:
        raise NoDeltaRule(f"a table whose place is not certain: {node.table}")
    for c in node.columns:
        if odd := unnamed(c.type):
            raise NoDeltaRule(f"{c.label} is {odd}, or has one in it")
    types = low.run.arrow([c.type for c in node.columns])
    schema = Schema((c.name for c in node.columns), types)
    for known in low.inputs:
        if known.key == key and known.taken.names == node.source_columns:
            placed = known.node
            break
    else:
        placed = low.circuit.add(Source(schema, f"source {parts[-1] if parts else node.table}"))
        low.inputs.append(TableInput(key, node.table, Taken(node.source_columns, schema), placed))
        kept = parts[-1].startswith(low.rows_prefix)  # another view's
        stored = kept or parts[0] != "temp"
        low.contents.table(placed, node.source_columns, node.table, stored, stored and not kept)
    return Stream(low.circuit, placed, node.columns)


@lowers(L.Block)
def _block(low: ViewLowering, node: L.Block) -> Stream:
    if not node.constant:
        raise NoDeltaRule(node.reason or "SQL that is kept whole")
    types = low.run.arrow([c.type for c in node.columns])
    schema = Schema((c.name for c in node.columns), types)
    placed = low.circuit.add(Source(schema, "constant"))
    low.constants.append((placed, node.sql))
    low.contents.constant(placed, node.sql)
    return Stream(low.circuit, placed, node.columns)


@lowers(L.Project, L.Unnest)
def linear(low: ViewLowering, node: L.Filter | L.Project | L.Unnest) -> Stream:
    """One more linear step."""
    source = low(node.input)
    shared = low._placed.get((id(node.input), id(low.circuit)))
    if shared is not None:
        source = shared
    if isinstance(node, L.Filter):
        return filtered(source, node.predicate)  # (a join below it may give less than its schema)
    return Stream(source.circuit, source.placed, source.columns, [*source.steps, node])


@lowers(L.Distinct)
def _distinct(low: ViewLowering, node: L.Distinct) -> Stream:
    source = low.place(node.input)
    placed = low.circuit.add(Tally(source.arrow, depth=low.circuit.depth), source.placed)
    low.contents.distinct(placed, source.placed)
    return Stream(low.circuit, placed, node.schema)


_COUNTS = {
    ("except", True): tally.except_all,
    ("except", False): tally.except_distinct,
    ("intersect", True): tally.intersect_all,
    ("intersect", False): tally.intersect_distinct,
}


@lowers(L.SetOp)
def _set_op(low: ViewLowering, node: L.SetOp) -> Stream:
    left, right = low.place(node.left), low.place(node.right)
    one, other = left.arrow, right.arrow
    if one.types != other.types:
        raise NoDeltaRule(f"both sides of {node.op.upper()} differ in how Arrow types them")
    schema = Schema((c.name for c in node.columns), one.types)
    depth = low.circuit.depth
    if node.op == "union":
        placed = low.circuit.add(Concat(schema, 2, "union all"), left.placed, right.placed)
        low.contents.union(placed)
        if not node.all:
            every = placed
            placed = low.circuit.add(Tally(schema, depth=depth, name="union"), every)
            low.contents.distinct(placed, every)
    else:
        count = _COUNTS[node.op, node.all]
        name = f"{node.op}{' all' if node.all else ''}"
        op = Tally(schema, count, 2, depth, name)
        placed = low.circuit.add(op, left.placed, right.placed)
        low.contents.tallied(placed)
    return Stream(low.circuit, placed, node.columns)


@lowers(L.TopK)
def _top_k(low: ViewLowering, node: L.TopK) -> Stream:
    if node.limit is None and node.offset is None:
        return low(node.input)  # a collection has no order
    if not node.keys and not _one_row(node.input):
        raise NoDeltaRule("LIMIT without ORDER BY depends on the order of the rows")
    keys = [k.expr for k in node.keys]
    source, positions = low.columns_for(low(node.input), keys)
    names = [source.schema[i].name for i in positions]
    by: dict[str, L.SortKey] = {}  # (of keys that come twice the first one counts)
    for name, key in zip(names, node.keys, strict=True):
        by.setdefault(name, L.SortKey(column(name), key.descending, key.nulls_first))
    # Ties are cut by the whole row, so that the answer does not depend on the order of arrival.
    for c in source.schema:
        by.setdefault(c.name, L.SortKey(column(c.name), False, False))
    items = [to_sql(ordered(key)) for key in by.values()]
    order = f" ORDER BY {', '.join(items)}"
    counts = []
    for word, expression in (("LIMIT", node.limit), ("OFFSET", node.offset)):
        if expression is not None:
            order += f" {word} {to_sql(expression)}"
            counts.append(int(expression.this) if _whole_number(expression) else None)
    query = f"SELECT * FROM {INPUT}{order}"
    schema = source.arrow
    evaluate, out = low.bound(group_kernel, query, schema)
    answer = by_kernel(query, schema.names, out)
    looped = low.circuit.depth > 0
    if node.limit is not None and None not in counts and node.keys and not looped:
        at = {c.name: i for i, c in enumerate(source.schema)}
        place, *further = (Order(at[n], k.descending, k.nulls_first) for n, k in by.items())
        wanted = sum(c or 0 for c in counts)
        plain = node.offset is None
        table = not low.contents.origin(source.placed).inputs
        if plain and table and len(items) > 1 and rankable(schema.types[place.column]):
            answer = _cut(query, schema, place, wanted, out)
        op: Any = Ordered(
            schema, [], place, wanted, evaluate, out, [], plain=plain, further=further
        )
        placed = low.circuit.add(op, source.placed)
        low.contents.first(placed, source.placed, schema.names, low.shared, later=True)
    else:
        op = Regroup(schema, [], evaluate, out, [], low.circuit.depth, "limit")
        placed = low.circuit.add(op, source.placed)
    low.contents.answered(placed, answer, low.shared)
    return with_columns(low, Stream(low.circuit, placed, source.schema), node.schema)


def _cut(query: str, schema: Schema, place: Order, rows: int, out: Schema) -> Answer:
    """The answer of a query for the first rows of all: of those up to the last place alone.

    To put rows of several columns in order takes DuckDB longer than to look at one of them twice.
    """
    value = to_sql(identifier(schema.names[place.column]))
    end, before, way = ("min", ">=", "DESC") if place.descending else ("max", "<=", "ASC")
    by = f"ORDER BY __tw_c {way} NULLS LAST LIMIT {rows}"
    last = f"SELECT {OWN}{end}(__tw_c) FROM (SELECT {value} AS __tw_c FROM {INPUT} {by})"
    surely = by_kernel(query, schema.names, out)
    if place.nulls_first:
        return surely
    within = query.replace(INPUT, f"{INPUT} WHERE {value} {before} ({last})", 1)
    soon = by_kernel(within, schema.names, out)

    def answer(run: Reusing, given: str) -> Delta:
        found = soon(run, given)  # without NULLs
        return found if len(found) == rows else surely(run, given)

    return answer


def _one_row(node: L.Node) -> bool:
    """Is there no other row that could be the first?"""
    while isinstance(node, L.Project | L.Filter | L.TopK | L.Distinct):
        node = node.input
    if isinstance(node, L.Join):
        one_sided = node.kind in ("semi", "anti")
        each = _one_row(node.left) and (one_sided or _one_row(node.right))
        return each and node.kind != "full"
    return isinstance(node, L.Aggregate) and not node.keys and not node.sets


def _whole_number(expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Literal) and expression.is_int
