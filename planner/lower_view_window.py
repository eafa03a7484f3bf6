"""Window functions of maintained views.

Window ─┬─ row_number() or rank(), and a filter that wants the first of each group ─▶ Ordered
        ├─ functions in one order that look at rows before, or some around: Following
        └─ any other function: Regroup, one statement for those with one PARTITION BY
"""

from __future__ import annotations

from sqlglot import exp

from tidewheel.engine.operators.rank import Ranking
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.operators.ties import settling_first
from tidewheel.engine.operators.topk import Ordered
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import (
    NoDeltaRule,
    Stream,
    ViewLowering,
    lowers,
    with_columns,
)
from tidewheel.planner.lower_view_asked import first_in_place
from tidewheel.planner.lower_view_following import (
    following,
    looks_back,
    order_at,
    with_functions,
    without_ties,
)
from tidewheel.planner.lower_view_nodes import linear
from tidewheel.planner.order_of_rows import open_order, window_by_place
from tidewheel.planner.rewrites.dense_ranks import at_most
from tidewheel.planner.text import OWN, identifier, to_sql, written
from tidewheel.planner.view_answers import by_kernel, by_tables
from tidewheel.planner.view_kernels import INPUT, group_kernel
from tidewheel.planner.window_arrays import in_arrays
from tidewheel.planner.window_reach import by_rows, current_rows, mirrored


@lowers(L.Window)
def _window(low: ViewLowering, node: L.Window) -> Stream:
    for open_ in (w for e in node.exprs for w in e.expr.find_all(exp.Window)):
        if window_by_place(open_):
            raise NoDeltaRule(open_order(open_))
    stream = low(node.input)
    waiting = [current_rows(e) for e in node.exprs]
    if not low.circuit.depth:
        waiting = [mirrored(e) for e in waiting]
    while waiting:
        first = _partition(waiting[0])
        same = [e for e in waiting if _partition(e) == first]
        if not low.circuit.depth:
            same = _in_one_order(low, stream, same)
        waiting = [e for e in waiting if not any(e is other for other in same)]
        window = next(e for e in same[0].expr.find_all(exp.Window))
        nearby = None if low.circuit.depth else following(low, stream, same)
        if nearby is not None:
            shown = (*stream.schema, *(e.column for e in same))
            stream = with_columns(low, nearby, shown) if waiting else nearby
            continue
        placed, positions = low.columns_for(stream, window.args.get("partition_by") or [])
        source = placed.arrow
        settled = [_settled(e, source) for e in same] if low.circuit.depth else same
        query = f"SELECT *, {', '.join(written(e) for e in settled)} FROM {INPUT}"
        evaluate, schema = low.bound(group_kernel, query, source)
        evaluate = in_arrays([e.expr for e in same], source, positions, schema, evaluate)
        op = Regroup(source, positions, evaluate, schema, positions, low.circuit.depth, "window")
        stream = with_functions(low, placed, op, same, by_kernel(query, source.names, schema))
    return with_columns(low, stream, node.schema)


def _in_one_order(low: ViewLowering, stream: Stream, same: list[L.Named]) -> list[L.Named]:
    """Those in the first one's order, if all others look back as well, in theirs; or all."""
    found: dict[str, list[L.Named]] = {}
    for e in same:
        window = next(e.expr.find_all(exp.Window))
        found.setdefault(to_sql(window.args.get("order") or exp.Order()), []).append(e)
    if len(found) > 1 and all(looks_back(low, stream, some) for some in found.values()):
        return next(iter(found.values()))
    return same


_PLACES = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)


def _settled(named: L.Named, source: Schema) -> L.Named:
    """What a loop asks for again and again: where rows tie, it has to get the same each time."""
    expression = named.expr.copy()
    for window in list(expression.find_all(exp.Window)):
        call = window.this
        if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
            call = call.this
        if window.args.get("order") and (by_rows(window) or isinstance(call, _PLACES)):
            window.set("order", without_ties(window, source).args["order"])
    return L.Named(named.column, expression)


@lowers(L.Filter)
def _filter(low: ViewLowering, node: L.Filter) -> Stream:
    window = node.input
    if isinstance(window, L.Window) and not low.circuit.depth and not low.lowered(window):
        wanted = at_most(node.predicate, window.exprs[0].column.name)
        found = None if wanted is None else _first_rows(low, window, wanted)
        if found is not None:
            return Stream(found.circuit, found.placed, found.columns, [*found.steps, node])
    return linear(low, node)


def _first_rows(low: ViewLowering, node: L.Window, wanted: int) -> Stream | None:
    """The rows of the first places in their groups, where the window has nothing but places."""
    named = node.exprs[0]
    window = named.expr
    if len(node.exprs) > 1 or not isinstance(window, exp.Window) or window.args.get("spec"):
        return None
    order = window.args.get("order")
    if to_sql(window.this).lower() not in ("row_number()", "rank()") or order is None:
        return None
    keys = window.args.get("partition_by") or []
    same = [to_sql(key) for key in keys]
    items = [i for i in order.expressions if to_sql(i.this) not in same]
    if not items:
        return None
    placed, positions = low.columns_for(low(node.input), [*keys, *(i.this for i in items)])
    source = placed.arrow
    group, by = positions[: len(keys)], positions[len(keys) :]
    place, *further = map(order_at, by, items)
    number = to_sql(identifier(named.column.name))
    if any(kind.loose for kind in source.kinds):
        # DuckDB would put rows into arg_min, which gives 0.0 for -0.0; this it does not see through
        number = f"{OWN}least({number}, {wanted + 1})"
    query = f"SELECT * FROM (SELECT *, {written(named)} FROM {INPUT}) WHERE {number} <= {wanted}"
    evaluate, schema = low.bound(group_kernel, query, source)
    answer = by_kernel(query, source.names, schema)
    settles = False
    if wanted == 1 and isinstance(window.this, exp.RowNumber):
        ask = first_in_place(low, node, placed, group, schema)
        if ask is not None:
            answer, settles = by_tables(ask), True
            ranking = Ranking(source, place)
            evaluate = settling_first(evaluate, lambda k: op.settled(k, ask), ranking, group, by)
    name = "first of each group"
    op = Ordered(source, group, place, wanted, evaluate, schema, group, name, further=further)
    op.settles = settles
    stream = with_functions(low, placed, op, [named], answer)
    low.contents.first(stream.placed, placed.placed, source.names, low.shared)
    return with_columns(low, stream, node.schema)


def _partition(named: L.Named) -> str:
    windows = list(named.expr.find_all(exp.Window))
    if len(windows) != 1:
        raise NoDeltaRule("an expression of several window functions")
    return repr([to_sql(e) for e in windows[0].args.get("partition_by") or []])
