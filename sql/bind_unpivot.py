"""``FROM t UNPIVOT (value FOR name IN (a, b))``: a row per column, as an UNNEST of two lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import Filter, Named, Node, Unnest
from tidewheel.planner.text import column

from .bind_scope import NotTaken

if TYPE_CHECKING:
    from .bind_from import From, FromBinder


def unpivoted(binder: FromBinder, item: exp.Expr, pivot: exp.Pivot) -> From:
    """The rows of `item`, each as often as it has columns with a value among those of `pivot`."""
    from .bind_from import relation

    plain = item.copy()
    plain.set("pivots", None)
    plain.set("joins", None)
    node, relations = binder.bind(plain, ())
    columns = {
        v.label.lower(): (v.label, v.merged)
        for r in relations
        for v in r.columns
        if v.merged is not None
    }
    fields = pivot.args["fields"]
    (value,) = pivot.expressions if len(pivot.expressions) == 1 else (None,)
    if not isinstance(value, exp.Identifier) or len(fields) != 1:
        raise NotTaken("UNPIVOT into several columns")
    names: list[exp.Expr] = []
    values: list[exp.Expr] = []
    for e in fields[0].expressions:
        known = e.this if isinstance(e, exp.PivotAlias) else e
        found = columns.pop(known.name.lower(), None) if isinstance(known, exp.Column) else None
        if found is None:
            raise NotTaken("UNPIVOT of what is no column")
        label = e.args["alias"].name if isinstance(e, exp.PivotAlias) else found[0]
        names.append(exp.Literal.string(label))
        values.append(column(found[1].name))
    calls = [exp.Explode(this=exp.Array(expressions=part)) for part in (names, values)]
    types = binder.binder.oracle.types(calls, node.schema)
    labels = [fields[0].this.name, value.name]
    fresh = [binder.binder.names.fresh(n, t) for n, t in zip(labels, types, strict=True)]
    rows: Node = Unnest(node, tuple(Named(c, e) for c, e in zip(fresh, calls, strict=True)))
    if not pivot.args.get("include_nulls"):
        none = exp.Is(this=column(fresh[1].name), expression=exp.null())
        rows = Filter(rows, exp.Not(this=none))
    alias = pivot.args.get("alias")
    if alias is not None and alias.columns:
        raise NotTaken("UNPIVOT with names for its columns")
    path = (alias.name,) if alias is not None else ("__unnamed_pivot",)
    kept = list(columns.values())
    labels = [*(label for label, _ in kept), *labels]
    return rows, [relation(path, labels, [*(c for _, c in kept), *fresh], ())]
