"""Aggregates that follow the order of the rows, over rows of one table: in the table's order.

    SELECT k, string_agg(name, ', ') FROM t WHERE … GROUP BY k

Engine collections have no order, but the table has one, which is that of `rowid`. A change tells
which groups it touched, rows that only moved included; a statement over the table as the epoch
leaves it gives them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.asked import Ask, Asked
from tidewheel.engine.operators.shared import KEYS, Read
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner import logical as L
from tidewheel.planner.first_rows import END, of_first_rows, taken, unordered
from tidewheel.planner.lower_view import NoDeltaRule, Stream, ViewLowering, extended
from tidewheel.planner.order_of_rows import (
    DRAWN,
    by_place,
    by_ties,
    call_of,
    depends,
    name,
    ordered_by,
)
from tidewheel.planner.text import OWN, column, identifier, to_sql
from tidewheel.planner.view_kernels import INPUT, group_kernel
from tidewheel.planner.view_statements import as_delta
from tidewheel.planner.view_sums import groups_alike
from tidewheel.planner.view_texts import PLACE

_KEY: Final = "__tw_k"
_ENDS: Final = "__tw_ends"
_FEW_GROUPS: Final = 100_000  # of more a join with the groups takes as long as sorting all rows


def asked(low: ViewLowering, node: L.Aggregate) -> Stream:
    """The groups of a table, their rows in its order."""
    calls = [a.expr for a in node.aggregates]
    source = low(node.input)
    lost = any(_drawn(c) or _distinct(c) for c in calls)
    found = None if lost else in_place(low, node, source)
    if found is None:
        raise NoDeltaRule(depends(calls))
    first = L.Named(source.schema[0], column(source.schema[0].name))
    touched = low.flush(extended(source, node.keys or [first]))
    keys = touched.arrow if node.keys else Schema([], [])
    if found.schema.types[: len(node.keys)] != keys.types:
        raise NoDeltaRule(depends(calls))
    op = Asked(keys, found.ask, found.schema, "groups of a table")
    op.detail = found.text
    placed = low.circuit.add(op, touched.placed)
    low.contents.asked_for(placed)
    return Stream(low.circuit, placed, node.schema)


@dataclass(frozen=True)
class InPlace:
    """Groups of rows in the order of their table. `ask` gives them, `text` says all of them."""

    ask: Ask
    schema: Schema
    text: str


def in_place(low: ViewLowering, node: L.Aggregate, source: Stream) -> InPlace | None:
    """A statement for the groups of `source`; None if its rows are not those of one table."""
    given = _by_place(low, node.input, source)
    if given is None:
        return None
    keys = [to_sql(k.expr) for k in node.keys]
    calls = [_in_order(a.expr) for a in node.aggregates]
    by = _by(keys)
    types = low.run.arrow([c.type for c in source.schema])
    rows = Schema((*(c.name for c in source.schema), PLACE), (*types, pa.int64()))
    _, schema = low.bound(group_kernel, f"{_select(node, calls)}{INPUT}{by}", rows)
    if not all(map(groups_alike, schema.types[: len(keys)])):
        return None
    for i, (a, kind) in enumerate(zip(node.aggregates, schema.types[len(keys) :], strict=True)):
        calls[i] = unordered(a.expr, kind) or calls[i]
    query = _select(node, calls)
    all_ = _first_of_ties(low, node, given, rows, calls) or f"{query}({given}){by}"
    ask = _asks(low, schema, keys, lambda _: all_, lambda on: f"{query}({given}) {on}{by}")
    return InPlace(ask, schema, all_)


def _asks(
    low: ViewLowering,
    schema: Schema,
    groups: Sequence[str],
    every: Callable[[Read], str],
    some: Callable[[str], str],
) -> Ask:
    """Asks for `every` group, or, with what joins them, for `some` by their keys."""
    same = " AND ".join(_alike(groups))

    def ask(sought: Delta | None) -> Delta:
        now = low.contents.now
        assert now is not None
        if sought is None:
            return as_delta(now(every(now)), schema)
        table = sought.to_arrow(None).rename_columns([f"{_KEY}{i}" for i in range(len(groups))])
        return as_delta(now(some(f"SEMI JOIN {KEYS} ON {same}"), table), schema)

    return ask


def _alike(groups: Sequence[str]) -> list[str]:
    """Conditions that groups have the keys of a row beside them."""
    return [f"({g}) IS NOT DISTINCT FROM {_KEY}{i}" for i, g in enumerate(groups)]


def _select(node: L.Aggregate, calls: Sequence[str]) -> str:
    texts = [*(to_sql(k.expr) for k in node.keys), *calls]
    names = [to_sql(identifier(n.column.name)) for n in (*node.keys, *node.aggregates)]
    listed = (f"{text} AS {name}" for text, name in zip(texts, names, strict=True))
    return f"SELECT {', '.join(listed)} FROM "


def _by(keys: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""


def _in_order(expression: exp.Expr) -> str:
    """An aggregate as SQL over rows with their place."""
    follows = by_place(expression) or by_ties(expression)
    return ordered_by(expression, PLACE) if follows else to_sql(expression)


def _first_of_ties(
    low: ViewLowering, node: L.Aggregate, given: str, rows: Schema, others: Sequence[str]
) -> str | None:
    """All groups, if arg_min or arg_max is among their aggregates; `others` as they are."""
    found = [taken(a.expr) for a in node.aggregates]
    bys = [to_sql(t.by) for t in found if t is not None]
    if not bys:
        return None
    _, compared = low.bound(group_kernel, f"SELECT {', '.join(bys)} FROM {INPUT}", rows)
    kinds = iter(compared.types)
    keys, ends = [to_sql(k.expr) for k in node.keys], []
    calls, listed = [], []
    for i, (a, t) in enumerate(zip(node.aggregates, found, strict=True)):
        at, name = len(keys) + i, to_sql(identifier(a.column.name))
        if t is None:
            ends.append(others[i])
            listed.append(f"e.{END}{at} AS {name}")
        else:
            by = to_sql(t.by)
            ends.append(t.end(by))
            calls.append(f"{t.first(to_sql(t.value), by, at, next(kinds))} AS {name}")
            listed.append(name)
    groups = [f"{END}{i}" for i in range(len(keys))]
    named = ", ".join(f"{text} AS {END}{i}" for i, text in enumerate([*keys, *ends]))
    at_ends = [t.at(to_sql(t.by), i) for i, t in enumerate(found, len(keys)) if t is not None]
    first = of_first_rows(calls, keys, _ENDS, f"({given})", at_ends)
    same = " AND ".join(f"e.{g} IS NOT DISTINCT FROM f.{g}" for g in groups) or "true"
    return (
        f"WITH {_ENDS} AS MATERIALIZED (SELECT {named} FROM ({given}){_by(keys)}) "
        f"SELECT {', '.join([*(f'e.{g}' for g in groups), *listed])} "
        f"FROM {_ENDS} AS e JOIN ({first}) AS f ON {same}"
    )


def first_in_place(
    low: ViewLowering, node: L.Window, source: Stream, keys: Sequence[int], out: Schema
) -> Ask | None:
    """What settles which row of a group is the first: of those that tie, the table's first."""
    given = _by_place(low, node.input, source)
    if given is None:
        return None
    (named,) = node.exprs
    window = named.expr.copy()
    window.args["order"].append("expressions", exp.Ordered(this=column(PLACE), nulls_first=False))
    columns_ = [to_sql(identifier(n)) for n in source.arrow.names]
    number = to_sql(identifier(named.column.name))
    query = f"SELECT {', '.join(columns_)}, {to_sql(window)} AS {number} FROM "
    first = f" QUALIFY {number} = 1"
    rows = Schema((*source.arrow.names, PLACE), (*source.arrow.types, pa.int64()))
    _, schema = low.bound(group_kernel, f"{query}{INPUT}{first}", rows)
    kinds = [source.arrow.types[i] for i in keys]
    if schema.types != out.types or not all(map(groups_alike, kinds)):
        return None
    groups = [columns_[i] for i in keys]
    fewer = _at_ends(source.arrow, named.expr.args["order"].expressions[0], groups, given)

    def every(now: Read) -> str:
        few = fewer is not None and _few_groups(now, given, groups)
        return f"{query}{fewer if few else f'({given})'}{first}"

    return _asks(low, schema, groups, every, lambda on: f"{query}({given}) {on}{first}")


def _at_ends(rows: Schema, item: exp.Ordered, keys: Sequence[str], given: str) -> str | None:
    """The rows of each group that are first by the first item of an ORDER BY, to be joined.

    They are soon found and few are left to be put in order. None for types of which min() and
    max() might see an order of their own, as of texts with a collation.
    """
    if not isinstance(item.this, exp.Column):
        return None
    kind = rows.types[rows.index(item.this.name)]
    t = pa.types
    if not (t.is_integer(kind) or t.is_decimal128(kind) or t.is_temporal(kind)):
        return None
    value = to_sql(item.this)
    end = f"{OWN}{'max' if item.args.get('desc') else 'min'}({value})"
    if item.args.get("nulls_first"):
        end = f"CASE WHEN {OWN}bool_or({value} IS NULL) THEN NULL ELSE {end} END"
    listed = [f"{key} AS {_KEY}{i}" for i, key in enumerate(keys)]
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    ends = f"SELECT {', '.join([*listed, f'{end} AS {_ENDS}'])} FROM ({given}){by}"
    on = " AND ".join([*_alike(keys), f"{value} IS NOT DISTINCT FROM {_ENDS}"])
    return f"({given}) JOIN ({ends}) ON {on}"


def _few_groups(run: Read, given: str, keys: Sequence[str]) -> bool:
    """Are there few groups, by what DuckDB keeps of the table?"""
    if not keys:
        return True
    product = " * ".join(f"({OWN}stats({key}).approx_unique::BIGINT)::DOUBLE" for key in keys)
    found = run(f"SELECT {product} AS n FROM ({given}) LIMIT 1").column(0).to_pylist()
    return bool(found) and found[0] is not None and found[0] <= _FEW_GROUPS


def _by_place(low: ViewLowering, node: L.Node, source: Stream) -> str | None:
    """The rows of `source`, each with its place; None if they are not those of one table."""
    if low.circuit.depth or not _keeps_order(node):
        return None
    names = [c.name for c in source.columns]
    given = low.contents.placed(source.placed, names, source.steps)
    return None if given is None or _hides_place(low, source) else given


def settled_in_place(
    low: ViewLowering, node: L.Aggregate, source: Stream, out: Schema
) -> Ask | None:
    """What settles ties of `node`'s aggregates, if their rows are a table's and it can tell."""
    if not any(by_ties(a.expr) for a in node.aggregates):
        return None
    found = in_place(low, node, source)
    return found.ask if found is not None and found.schema.types == out.types else None


def settled(calls: Sequence[exp.Expr]) -> None:
    """Refuse aggregates that follow the order of rows that have none."""
    if any(map(by_place, calls)):
        raise NoDeltaRule(depends(calls))


def _drawn(expression: exp.Expr) -> bool:
    return by_place(expression) and name(call_of(expression)) in DRAWN


def _distinct(expression: exp.Expr) -> bool:
    """Is it of DISTINCT values, which cannot be put in the order of rows?"""
    return by_place(expression) and isinstance(call_of(expression).this, exp.Distinct)


def _keeps_order(node: L.Node) -> bool:
    """Are the rows those of one scan, in its order? (A sort takes no operator, so ask the plan.)"""
    while isinstance(node, L.Filter | L.Project):
        node = node.input
    return isinstance(node, L.Scan)


def _hides_place(low: ViewLowering, source: Stream) -> bool:
    """Has the table a column that is called like the place of its rows?"""
    at = source.placed
    while at.inputs:
        at = at.inputs[0].node
    table = next(i.table for i in low.inputs if i.node is at)
    names = low.run(f"SELECT * FROM {table} LIMIT 0").schema.names
    return "rowid" in map(str.lower, names)
