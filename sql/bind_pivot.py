"""PIVOT with a given list of values: aggregates of the rows that have each of them.

FROM t PIVOT (sum(x) FOR g IN ('a', 'b') GROUP BY s)
SELECT s, sum(x) FILTER (g = 'a') AS a, sum(x) FILTER (g = 'b') AS b FROM t GROUP BY s
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from tidewheel.planner.text import cast_to, identifier, to_sql

from .bind_items import relation
from .bind_names import Aggregates
from .bind_scope import NotTaken, Relation

if TYPE_CHECKING:
    from .bind_from_item import From, Items

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_CONSTANT = (exp.Literal, exp.Boolean, exp.Neg, exp.Cast, exp.DataType, exp.DataTypeParam)


def pivoted(binder: Items, item: exp.Expr, pivot: exp.Pivot) -> From:
    """The rows of `item`, a group of them in one row. `pivot` may be a statement's."""
    source = (pivot.this or item).copy()
    source.set("pivots", None)
    source.set("joins", None)
    fields = pivot.args.get("fields") or pivot.expressions
    calls = (pivot.args.get("using") if pivot.this else pivot.expressions) or [
        exp.Count(this=exp.Star())
    ]
    _, relations = binder.bind(source.copy(), ())
    calls = [call.unalias() for call in calls]
    aggregates = Aggregates(binder.binder.oracle)
    choices = [_conditions(_listed(field, binder), relations) for field in fields]
    group = pivot.args.get("group")
    if group is not None:
        keys = [e.copy() for e in group.expressions]
    else:
        read = {c.name.lower() for part in (*calls, *fields) for c in part.find_all(exp.Column)}
        keys = [
            exp.Column(this=identifier(v.label))
            for r in relations
            for v in r.columns
            if v.merged is not None and v.label.lower() not in read
        ]
    if not all(isinstance(k, exp.Column) for k in keys):
        raise NotTaken("PIVOT by more than columns")
    values = [
        _of_those(call, exp.Where(this=exp.and_(*conditions)), aggregates)
        for conditions in product(*choices)
        for call in calls
    ]
    select = exp.select(*(k.copy() for k in keys), *values).from_(source)
    if keys:
        select.set("group", exp.Group(expressions=keys))
    query = binder.binder.query(select)
    plain = item.copy()
    plain.set("joins", None)
    known = binder.binder.block(exp.select("*").from_(plain), "PIVOT").columns
    if [c.type for c in known] != [c.type for c in query.columns]:
        raise NotTaken("PIVOT")
    alias = item.args.get("alias") if pivot.this else pivot.args.get("alias")
    renamed = () if alias is None else tuple(c.name for c in alias.columns)
    path = (alias.name,) if alias is not None and alias.name else ("__unnamed_pivot",)
    return query.node, [relation(path, [c.label for c in known], query.columns, renamed)]


def _of_those(call: exp.Expr, where: exp.Where, aggregates: Aggregates) -> exp.Expr:
    """`call`, an aggregate or an expression over one, of the rows that a condition holds for."""
    over = exp.Paren(this=call.copy())
    found = list(aggregates.calls(over))
    if len(found) != 1 or isinstance(found[0], exp.WithinGroup):
        raise NotTaken("PIVOT with more than aggregates")
    call = found[0].copy()
    if isinstance(call, exp.Filter):
        where = exp.Where(this=exp.and_(where.this, call.expression.this))
        call = call.this
    found[0].replace(exp.Filter(this=call, expression=where))
    filtered: exp.Expr = over.this
    return filtered


def _listed(field: exp.Expr, binder: Items) -> exp.Expr:
    """``IN mood``: the values of an ENUM type."""
    kind = field.args.get("field") if isinstance(field, exp.In) else None
    if not isinstance(kind, exp.Column | exp.Identifier) or (
        isinstance(kind, exp.Column) and kind.table
    ):
        return field
    name = to_sql(kind)
    try:
        values = binder.binder.oracle.rows(f"SELECT unnest(enum_range(CAST(NULL AS {name})))")
    except duckdb.Error:
        return field
    return exp.In(this=field.this, expressions=[exp.Literal.string(v) for (v,) in values])


def _conditions(field: exp.Expr, relations: list[Relation]) -> list[exp.Expr]:
    """Per value of a list, that a column has it."""
    if isinstance(field.this, exp.Binary | exp.Unary) and not isinstance(field.this, exp.Paren):
        raise NotTaken("PIVOT on a condition")  # ``ON a + 1 IN (2)``: the IN is part of it
    on = field.this.unnest() if isinstance(field, exp.In) else None  # DuckDB's views have it in ()
    if on is None or on.find(exp.Query, exp.Tuple) or any(c.table for c in on.find_all(exp.Column)):
        raise NotTaken("PIVOT on more than a column")
    name = on.name.lower() if isinstance(on, exp.Column) else None
    kinds = {
        v.merged.type
        for r in relations
        for v in r.columns
        if v.merged is not None and v.label.lower() == name
    }
    found: list[exp.Expr] = []
    for e in field.expressions:
        value = e.this if isinstance(e, exp.PivotAlias) else e
        # DuckDB compares as text; what is written as its type shows it may be compared as it is
        texts = kinds == {"VARCHAR"} or bool(kinds and all(k.startswith("ENUM(") for k in kinds))
        fits = isinstance(value, exp.Literal) and (
            texts if value.is_string else value.is_int and bool(kinds) and kinds <= {*_WHOLE}
        )
        here: exp.Expr = on.copy()
        if not fits and not isinstance(value, exp.Null):
            if not all(isinstance(part, _CONSTANT) for part in value.walk()):
                raise NotTaken("PIVOT on values that are no constants")
            here, value = cast_to(here, "VARCHAR"), cast_to(value.copy(), "VARCHAR")
        found.append(exp.NullSafeEQ(this=here, expression=value.copy()))
    if not found or field.args.get("query"):
        raise NotTaken("PIVOT on values of a query")
    return found
