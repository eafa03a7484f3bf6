"""Window functions in one order that look at rows before, or a few around, of maintained views.

`whole` is a statement with all functions over the rows of some groups; `rest` one over the rows
from some place on, where running totals go on from what the row before has. Sums of doubles are
computed from the statement's places (see `window_doubles`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import or_
from typing import Any

from sqlglot import exp

from tidewheel.engine.operators.following import Following
from tidewheel.engine.operators.operator import Operator
from tidewheel.engine.operators.rank import Order
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import Stream, ViewLowering
from tidewheel.planner.text import column, identifier, to_sql
from tidewheel.planner.view_answers import Answer, by_kernel
from tidewheel.planner.view_kernels import group_kernel
from tidewheel.planner.window_arrays import by_values, values_of
from tidewheel.planner.window_doubles import Doubles, summed
from tidewheel.planner.window_reach import RUNNING, Looking, by_rows, combined, looking, name_of
from tidewheel.planner.window_running import gone_on


def following(low: ViewLowering, stream: Stream, same: Sequence[L.Named]) -> Stream | None:
    """Functions of one PARTITION BY that look back, in one order; None if some do not."""
    orders = {to_sql(w.args["order"]) for e in same for w in [e.expr] if w.args.get("order")}
    if len(orders) != 1:
        return None
    stream = low.flush(stream)
    found = _looks(low, stream, same)
    if found is None:
        return None
    window = same[0].expr
    keys = window.args.get("partition_by") or []
    item = window.args["order"].expressions[0]
    sums = [i for i, look in enumerate(found) if look.floating]
    arguments = [summed(same[i].expr) for i in sums]
    placed, positions = low.columns_for(stream, [*keys, item.this, *arguments])
    group, value = positions[: len(keys)], positions[len(keys)]
    source = placed.arrow
    reach = reduce(or_, (look.reach for look in found))
    named, forms = list(same), {i: look.running for i, look in enumerate(found) if look.running}
    doubles = Doubles(source, group)
    for i, argument in zip(sums, positions[len(keys) + 1 :], strict=True):
        doubles.add(i, argument, same[i].expr, len(named) if found[i].reach.total else None)
        if found[i].reach.total:
            named.append(L.Named(L.Column(low.fresh("state"), "state", "BLOB"), same[i].expr))
    numbers: exp.Expr = exp.Window(this=exp.RowNumber(), over="OVER", **_over(window))
    if reach.total:
        forms[len(named)] = RUNNING["row_number"]
        named.append(L.Named(L.Column(low.fresh("number"), "number", "BIGINT"), numbers))
    windows = [e.expr for e in named]
    settled = any(_by_rows(same[i].expr) for i in sums)
    for i, e in enumerate(named):
        near = i < len(found) and (found[i].reach.before or found[i].reach.after)
        if near or (settled and _by_rows(e.expr)):
            named[i] = L.Named(e.column, without_ties(e.expr, source))
    if settled:
        numbers = without_ties(numbers, source)

    columns = [to_sql(identifier(n)) for n in source.names]
    texts, (places, read) = doubles.texts(named), doubles.places(numbers)
    query = f"SELECT {', '.join([*columns, *texts, *places])} FROM {read}"
    evaluate, schema = low.bound(group_kernel, query, source)
    whole, output = doubles.finished(evaluate, schema)
    answer = by_kernel(query, source.names, schema)
    carried = [i for i in range(len(named)) if i in forms or i >= len(found)]
    before = {at: to_sql(identifier(f"__tw_before{i}")) for i, at in enumerate(carried)}
    for at, form in forms.items():
        now, kind = to_sql(named[at].expr), named[at].column.type
        value_ = combined(form, before[at], before[carried[-1]], now, kind)
        texts[at] = f"{value_} AS {to_sql(identifier(named[at].column.name))}"
    width = len(source)
    given = Schema(
        [*source.names, *(f"__tw_before{i}" for i in range(len(carried)))],
        [*source.types, *(output.types[width + at] for at in carried)],
    )
    states = doubles.states(before)
    query = f"SELECT {', '.join([*columns, *texts, *places, *states])} FROM {read}"
    evaluate, same_schema = low.bound(group_kernel, query, given)
    rest, same_output = doubles.finished(evaluate, same_schema)
    if same_output.types != output.types:
        return None
    values = values_of(windows, source, output, reach.total, doubles.by_arrays(output, {}))
    if values is not None:
        whole = by_values(windows, source, group, output, whole, values)
    if not carried:
        rest = whole
    elif values is not None:
        at_ = {at: width + i for i, at in enumerate(carried)}
        states_ = doubles.by_arrays(output, at_)
        values = [states_.get(i) or value for i, value in enumerate(values)]
        names = {at: name_of(e.expr) for at, e in enumerate(named) if at in forms}
        on = gone_on(values, names, output, width, at_, at_[carried[-1]])
        if on is not None:
            rest = by_values(windows, source, group, output, rest, on, in_order=True)
    place, before_ = order_at(value, item), [width + at for at in carried]
    op = Following(source, group, place, reach, output, whole, rest, before_)
    if doubles:
        op.later = doubles.completed
    return with_functions(low, placed, op, named, doubles.answer(answer, schema))


def looks_back(low: ViewLowering, stream: Stream, same: Sequence[L.Named]) -> bool:
    """Do all functions look back?"""
    return _looks(low, low.flush(stream), same) is not None


def _looks(low: ViewLowering, stream: Stream, same: Sequence[L.Named]) -> list[Looking] | None:
    looks = [looking(e, partial(low.type_of, stream=stream)) for e in same]
    found = [look for look in looks if look is not None]
    return found if len(found) == len(looks) else None


def order_at(at: int, item: exp.Expr) -> Order:
    """An item of ORDER BY that is the column at a place."""
    return Order(at, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


def _over(window: exp.Expr) -> dict[str, Any]:
    return {k: v for k in ("partition_by", "order") if (v := window.args.get(k))}


def _by_rows(window: exp.Expr) -> bool:
    """Does its value depend on which of the rows that tie comes first?"""
    return by_rows(window) or isinstance(window.this, exp.RowNumber)


def without_ties(window: exp.Expr, source: Schema) -> exp.Expr:
    """The window, with rows that are alike ordered by all that they have.

    (An answer among those that DuckDB may give: but the same each time, for the same rows.)
    """
    window = window.copy()
    window.args["order"].expressions.extend(
        exp.Ordered(this=column(name), nulls_first=False) for name in source.names
    )
    return window


def with_functions(
    low: ViewLowering, source: Stream, op: Operator, named: Sequence[L.Named], answer: Answer
) -> Stream:
    """`source` with the functions that `op` adds; `answer` is what it gives at first."""
    columns = (*source.schema, *(e.column for e in named))
    placed = low.circuit.add(op, source.placed)
    low.contents.answered(placed, answer, low.shared)
    return Stream(low.circuit, placed, columns)
