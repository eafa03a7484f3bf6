"""Aggregates of maintained views: running sums, ends of groups, distinct arguments, or anything.

Aggregate ─┬─ sums, counts, averages … ─▶ Accumulate ──────────────┐
           ├─ one per DISTINCT argument ─▶ distinct ─▶ Accumulate ─┤─▶ Collate
           ├─ one per min, max, arg_min, first … ─▶ Ordered ────────┤
           ├─ one per argument of quantiles ─▶ Quantiles ──────────┤
           ├─ of values, their counts or lists: `lower_view_counts` ┘
           ├─ with any other aggregate: Regroup, all of them in one statement
           └─ with one that follows the order of the rows: see `lower_view_asked`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from sqlglot import exp

from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.asked import Ask
from tidewheel.engine.operators.best import Best
from tidewheel.engine.operators.collate import Collate, Part
from tidewheel.engine.operators.linear import Concat
from tidewheel.engine.operators.quantiles import Quantiles
from tidewheel.engine.operators.rank import Order, has_places, rankable
from tidewheel.engine.operators.regroup import Evaluate, Regroup
from tidewheel.engine.operators.running_sums import BITS, Aggregate, supports
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.operators.ties import Settling
from tidewheel.engine.operators.topk import Ordered, extreme
from tidewheel.engine.state.delta import KeySpec, Schema
from tidewheel.planner import logical as L
from tidewheel.planner.aggregate_parts import (
    COUNTED,
    ENDS,
    LISTED,
    AggregatePart,
    by_argument,
    part_of,
)
from tidewheel.planner.derived_aggregates import derived
from tidewheel.planner.first_rows import a_sort_key, as_sort_keys, chosen_as_it_is
from tidewheel.planner.lower_view import (
    NoDeltaRule,
    Stream,
    ViewLowering,
    extended,
    lowers,
)
from tidewheel.planner.lower_view_asked import asked, settled, settled_in_place
from tidewheel.planner.lower_view_counts import counted, listed
from tidewheel.planner.order_of_rows import by_place, by_ties, goes_by
from tidewheel.planner.text import cast_to, column, identifier, null_of, to_sql, unchanged
from tidewheel.planner.view_answers import Together, by_kernel, by_tables
from tidewheel.planner.view_kernels import INPUT, group_kernel, statements
from tidewheel.planner.view_sums import groups_alike

_VALUE = L.Column("__tw_value", "__tw_value", "")


@lowers(L.Aggregate)
def _aggregate(low: ViewLowering, node: L.Aggregate) -> Stream:
    if node.sets is not None:
        return _grouping_sets(low, node)
    simpler = derived(node, low.fresh)
    if simpler is not None:
        kept, exprs = simpler
        found = _in_parts(low, kept)
        return _regroup(low, node) if found is None else extended(found, exprs)
    return _in_parts(low, node) or _regroup(low, node)


def _in_parts(low: ViewLowering, node: L.Aggregate) -> Stream | None:
    """Each aggregate by an operator that keeps what it needs; None where one has none."""
    parts = [part_of(a) for a in node.aggregates]
    if any(p is None for p in parts):
        return None
    taken = [p for p in parts if p is not None]
    source = low(node.input)
    ends = [p for p in taken if p.function in ENDS]
    counts = [p for p in taken if p.function in COUNTED]
    lists = [p for p in taken if p.function == LISTED]
    apart = (*ENDS, *COUNTED, LISTED)
    sums = [p for p in taken if p.function not in apart and p.quantile is None]
    bits = [p for p in sums if p.function in BITS]
    plain = [p for p in sums if not p.distinct and p.function not in BITS]
    distinct = by_argument([p for p in sums if p.distinct])
    quantiles = by_argument([p for p in taken if p.quantile is not None])
    # (in loops there is no Collate)
    alone = bool(plain) + len(distinct) == 1 and not (counts or lists or bits)
    if low.circuit.depth and (ends or quantiles or (taken and not alone)):
        return _best(low, source, node, taken)
    names, begun = [c.name for c in source.columns], len(low.circuit.nodes)

    def text(exprs: Sequence[L.Named]) -> str | None:
        return low.contents.after(source.placed, names, extended(source, exprs).steps)

    def rows(exprs: Sequence[L.Named]) -> str | None:
        return low.contents.placed(source.placed, names, extended(source, exprs).steps)

    together = Together(node.keys, text, rows)
    streams: list[Stream | None] = []
    if plain or not taken:
        streams.append(_accumulate(low, source, together, plain, distinct=False))
    for group in (*([bits] if bits else []), *distinct.values()):
        others = Together(node.keys, text, rows)
        streams.append(_accumulate(low, source, others, group, distinct=group is not bits))
    streams.extend(_end(low, source, node, p, together) for p in ends)
    streams.extend(_quantiles(low, source, group, together) for group in quantiles.values())
    for make, of in ((counted, counts), (listed, lists)):
        for group in by_argument(of).values():
            value = L.Named(_VALUE, cast(exp.Expr, group[0].argument))
            streams.extend(make(low, _keyed(low, source, node.keys, [value]), group))
    made = [s for s in streams if s is not None]
    if len(made) < len(streams):
        for added in reversed(low.circuit.nodes[begun:]):
            assert added is not None
            low.circuit.remove(added)
        return None
    return _beside(low, made, node)


def _best(
    low: ViewLowering, source: Stream, node: L.Aggregate, parts: Sequence[AggregatePart]
) -> Stream | None:
    """One min or max by key in a loop."""
    one, keys = parts[0], len(node.keys)
    if len(parts) > 1 or one.function not in ("min", "max") or one.count > 1 or not keys:
        return None
    value = L.Named(_VALUE, cast(exp.Expr, one.argument))
    stream = _keyed(low, source, node.keys, [value])
    schema = stream.arrow
    if not rankable(schema.types[-1]):
        return None
    columns = (*(k.column for k in node.keys), one.named.column)
    descending = one.function == "max"
    op = Best(schema, range(keys), keys, descending, low.circuit.depth, one.function)
    placed = low.circuit.add(op, stream.placed)
    return Stream(low.circuit, placed, columns)


def _keyed(
    low: ViewLowering, source: Stream, keys: Sequence[L.Named], arguments: Sequence[L.Named]
) -> Stream:
    """The input as key columns, then the arguments."""
    exprs = [*keys, *arguments]
    if not exprs:
        exprs = [L.Named(L.Column("__tw_one", "", "INTEGER"), exp.Literal.number(1))]
        if source.schema:
            exprs = [*unchanged(source.schema[:1])]
    return low.flush(extended(source, exprs))


def _result_types(
    low: ViewLowering, source: Schema, parts: Sequence[AggregatePart], names: Sequence[str]
) -> list[Any]:
    """Of aggregates, whose arguments have names in `source`."""
    if not parts:
        return []
    calls = []
    for part, name in zip(parts, names, strict=True):
        call = "count(*)" if part.argument is None else part.result or f"{part.function}({{}})"
        if part.other is not None:
            call = f"{part.function}({{0}}, {{0}})"
        calls.append(call.format(to_sql(identifier(name))))
    _, schema = low.bound(group_kernel, f"SELECT {', '.join(calls)} FROM {INPUT}", source)
    return list(schema.types)  # (of the kernel itself nobody has need)


def _accumulate(
    low: ViewLowering,
    source: Stream,
    together: Together,
    parts: Sequence[AggregatePart],
    distinct: bool,
) -> Stream | None:
    keys = together.keys
    given = [a for p in parts for a in (p.argument, p.other) if a is not None]
    arguments = {to_sql(a): a for a in given}
    named = {text: together.argument(a) for text, a in arguments.items()}
    at = {text: argument.column.name for text, argument in named.items()}
    stream = _keyed(low, source, keys, list(named.values()))
    schema = stream.arrow
    if distinct:
        op = Tally(schema, depth=low.circuit.depth, name="distinct arguments")
        placed = low.circuit.add(op, stream.placed)
        if KeySpec(schema, range(len(schema))).integer:  # to count them here takes no time
            low.contents.counted(placed, stream.placed)
        else:
            low.contents.distinct(placed, stream.placed)
        stream = Stream(low.circuit, placed, stream.schema)
    names = ["" if p.argument is None else at[to_sql(p.argument)] for p in parts]
    places = [schema.index(name) if name else None for name in names]
    others = [None if p.other is None else schema.index(at[to_sql(p.other)]) for p in parts]
    for p, place in zip(parts, places, strict=True):
        if not supports(p.function, None if place is None else schema.types[place]):
            return None
    types = _result_types(low, schema, parts, names)
    aggregates = [
        Aggregate(p.function, place, kind, other)  # type: ignore[arg-type]
        for p, place, kind, other in zip(parts, places, types, others, strict=True)
    ]
    key = list(range(len(keys)))
    columns = (*(k.column for k in keys), *(p.named.column for p in parts))
    out = Schema((c.name for c in columns), (*schema.types[: len(keys)], *types))
    op_ = Accumulate(schema, key, aggregates, out, low.circuit.depth)
    placed = low.circuit.add(op_, stream.placed)
    low.contents.sums(placed, stream.placed, schema.names, None if distinct else together)
    return Stream(low.circuit, placed, columns)


def _end(
    low: ViewLowering, source: Stream, node: L.Aggregate, part: AggregatePart, together: Together
) -> Stream | None:
    keys, chosen = node.keys, part.taken
    by = None if chosen is None else chosen.by
    arguments = [together.argument(e) for e in (part.argument, by) if e is not None]
    stream = _keyed(low, source, keys, list({a.column.name: a for a in arguments}.values()))
    schema = stream.arrow
    names = [a.column.name for a in arguments]
    given, value = schema.index(names[0]), schema.index(names[-1])
    key = list(range(len(keys)))
    columns = (*(k.column for k in keys), part.named.column)
    out = Schema((c.name for c in columns), (*schema.types[: len(keys)], schema.types[given]))
    order = Order(value, part.function == "max")
    if chosen is not None:
        order = Order(value, chosen.descending, chosen.nulls_first)
    call = part.call(*(to_sql(identifier(n)) for n in names))
    alone = replace(node, aggregates=(part.named,))
    one = part.count == 1 and rankable(schema.types[value])
    evaluate: Evaluate
    if one:
        ask = settled_in_place(low, alone, source, out)
        settle = ask and (lambda keys: op.settled(keys, cast(Ask, ask)))
        evaluate = extreme(schema, key, value, out, given, settle, order.nulls_first)
        sort_key = a_sort_key(out.types[-1], schema.types[value])
        if chosen is not None and not chosen.in_order and sort_key:
            evaluate = as_sort_keys(evaluate)
    elif chosen is not None and part.count == 1 and not has_places(schema.types[value]):
        return None
    else:
        group = [to_sql(identifier(n)) for n in schema.names[: len(key)]]
        grouped = f" GROUP BY {', '.join(group)}" if group else ""
        query = f"SELECT {', '.join([*group, call])} FROM {INPUT}{grouped}"
        evaluate, found = low.bound(group_kernel, query, schema)
        out = Schema(out.names, found.types)
        ask = settled_in_place(low, alone, source, out)
        if ask is not None:
            evaluate = Settling(evaluate, ask, len(key), [[*key, value]], part.count > 1)
    plain = chosen is None and part.count == 1 and out.types == schema.types
    op: Ordered = Ordered(schema, key, order, part.count, evaluate, out, key, part.function, plain)
    op.settles, op.looks = one and ask is not None, not one and ask is not None
    placed = low.circuit.add(op, stream.placed)
    low.contents.first(placed, stream.placed, schema.names, low.shared, together.query, later=True)
    if chosen is None or ask is None:
        answer = together.answer([call], out, placed)
    elif isinstance(evaluate, Settling):
        answer = by_tables(evaluate.all)
    elif chosen.in_order and not chosen_as_it_is(out.types[-1]):
        answer = by_tables(ask)
    else:
        answer = together.first(chosen, names[0], names[-1], schema.types[value], out, placed)
    low.contents.answered(placed, answer, low.shared)
    return Stream(low.circuit, placed, columns)


def _quantiles(
    low: ViewLowering, source: Stream, parts: Sequence[AggregatePart], together: Together
) -> Stream | None:
    keys, first = together.keys, parts[0].argument
    assert first is not None
    argument = together.argument(first)
    stream = _keyed(low, source, keys, [argument])
    schema, name = stream.arrow, to_sql(identifier(argument.column.name))
    wanted = [p.quantile for p in parts if p.quantile is not None]
    calls = [quantile.text(name) for quantile in wanted]
    _, results = low.bound(group_kernel, f"SELECT {', '.join(calls)} FROM {INPUT}", schema)
    kinds = zip(wanted, results.types, strict=True)
    found = [quantile.column(schema.types[-1], kind) for quantile, kind in kinds]
    quantiles = [column for column in found if column is not None]
    if len(quantiles) < len(parts):
        return None
    columns = (*(k.column for k in keys), *(p.named.column for p in parts))
    out = Schema((c.name for c in columns), (*schema.types[: len(keys)], *results.types))
    placed = low.circuit.add(Quantiles(schema, quantiles, out), stream.placed)
    low.contents.answered(placed, together.answer(calls, out, placed), low.shared)
    if all(map(groups_alike, out.types[: len(keys)])):
        group = [to_sql(identifier(n)) for n in schema.names[:-1]]
        by = f" GROUP BY {', '.join(group)}" if group else ""
        query = f"SELECT {', '.join([*group, *calls])} FROM {INPUT}{by}"
        low.contents.asked_again(placed, query, schema.names, range(len(keys)))
    return Stream(low.circuit, placed, columns)


def _beside(low: ViewLowering, streams: Sequence[Stream], node: L.Aggregate) -> Stream:
    """The parts side by side: each has one row for each group that there is."""
    if len(streams) == 1:
        (whole,) = streams
    else:
        keys = len(node.keys)
        parts = [cast(Part, s.placed.op) for s in streams]
        op = Collate(parts, keys, "aggregates side by side")
        columns = (*streams[0].schema, *(c for s in streams[1:] for c in s.schema[keys:]))
        placed = low.circuit.add(op, *(s.placed for s in streams))
        low.contents.beside(placed)
        whole = Stream(low.circuit, placed, columns)
    if tuple(c.name for c in whole.schema) == tuple(c.name for c in node.schema):
        return whole
    return extended(whole, unchanged(node.schema))


def _regroup(low: ViewLowering, node: L.Aggregate) -> Stream:
    """All aggregates in one statement over the rows of the touched groups."""
    if any(by_place(a.expr) for a in node.aggregates):
        return asked(low, node)
    stream = low(node.input)
    placed, key = low.columns_for(stream, [k.expr for k in node.keys])
    schema = placed.arrow
    groups = [to_sql(identifier(schema.names[i])) for i in key]
    items = [
        *(
            f"{g} AS {to_sql(identifier(k.column.name))}"
            for g, k in zip(groups, node.keys, strict=True)
        ),
        *(f"{to_sql(a.expr)} AS {to_sql(identifier(a.column.name))}" for a in node.aggregates),
    ]
    by = f" GROUP BY {', '.join(groups)}" if groups else ""
    query = f"SELECT {', '.join(items)} FROM {INPUT}{by}"
    evaluate, out = low.bound(group_kernel, query, schema)
    answer = by_kernel(query, schema.names, out)
    ask = settled_in_place(low, node, stream, out)
    if ask is not None:
        settling = Settling(evaluate, ask, len(key), _orders(node, schema, key))
        evaluate, answer = settling, by_tables(settling.all)
    op = Regroup(schema, key, evaluate, out, list(range(len(key))), low.circuit.depth)
    op.looks = ask is not None
    added = low.circuit.add(op, placed.placed)
    low.contents.answered(added, answer, low.shared)
    if ask is None and all(map(groups_alike, out.types[: len(key)])):
        low.contents.asked_again(added, query, schema.names, key)
    return Stream(low.circuit, added, node.schema)


def _orders(node: L.Aggregate, schema: Schema, key: Sequence[int]) -> list[list[int]] | None:
    """Per aggregate whose rows may tie, where the group is and what it goes by; see `Settling`."""
    orders: list[list[int]] = []
    for named in node.aggregates:
        if by_ties(named.expr):
            by = goes_by(named.expr)
            if by is None:
                return None
            # (of what is no column, rows are taken to tie)
            columns = [e.name for e in by if isinstance(e, exp.Column)]
            orders.append([*key, *(schema.index(n) for n in columns)])
    return orders


def _grouping_sets(low: ViewLowering, node: L.Aggregate) -> Stream:
    """One aggregate per grouping set, over one input; keys that are not in the set are NULL."""
    assert node.sets is not None
    if len(node.sets) > 1:
        settled([a.expr for a in node.aggregates])
    parts: list[Stream] = []
    plain = [a for a in node.aggregates if not _is_grouping(a.expr)]
    for chosen in node.sets:
        keys = tuple(node.keys[i] for i in chosen)
        if not keys:
            _has_row_for_no_rows()
        one = replace(node, keys=keys, aggregates=tuple(plain), sets=None)
        stream = _aggregate(low, one)
        have = {k.column.name for k in keys}
        exprs: list[L.Named] = []
        for c in node.schema:
            named = next((a for a in node.aggregates if a.column.name == c.name), None)
            if named is not None and _is_grouping(named.expr):
                exprs.append(L.Named(c, _grouping_value(named.expr, node, chosen, c.type)))
            elif c.name in have or named is not None:
                exprs.append(L.Named(c, column(c.name)))
            else:
                exprs.append(L.Named(c, null_of(c.type)))
        parts.append(low.flush(extended(stream, exprs)))
    first = parts[0].arrow
    if any(p.arrow.types != first.types for p in parts):
        raise NoDeltaRule("grouping sets whose keys Arrow types differently")
    if len(parts) == 1:
        return parts[0]
    op = Concat(first, len(parts), "grouping sets")
    return Stream(low.circuit, low.circuit.add(op, *(p.placed for p in parts)), node.schema)


def _has_row_for_no_rows() -> None:
    """The empty grouping set has one row also for an empty input, in DuckDB as here."""
    query = f"SELECT count(*) FROM {INPUT} GROUP BY GROUPING SETS (())"
    schema = Schema(["a"], [statements().run("SELECT 1 AS a", _NOTHING).schema[0].type])
    evaluate, _ = group_kernel(query, schema)
    from tidewheel.engine.state.delta import Delta

    if len(evaluate(Delta.empty(schema))) != 1:
        raise NoDeltaRule("an empty grouping set")


import pyarrow as pa  # noqa: E402

_NOTHING = pa.table({"a": pa.nulls(0, pa.int32())})  # (pa.array of a list imports pandas)


def _is_grouping(expression: exp.Expr) -> bool:
    name = expression.name.lower() if isinstance(expression, exp.Anonymous) else expression.key
    return name in ("grouping", "grouping_id", "groupingid")


def _grouping_value(
    expression: exp.Expr, node: L.Aggregate, chosen: Sequence[int], kind: str
) -> exp.Expr:
    keys = [to_sql(k.expr) for k in node.keys]
    value = 0
    for argument in expression.expressions:
        text = to_sql(argument)
        if text not in keys:
            raise NoDeltaRule("GROUPING of something that is no key")
        value = value * 2 + (keys.index(text) not in chosen)
    return cast_to(exp.Literal.number(value), kind)
