"""``FROM t UNPIVOT (value FOR name IN (a, b))``: a row per column, as an UNNEST of two lists.

The statement ``UNPIVOT t ON a, b INTO NAME name VALUE value`` is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import Filter, Named, Node, Unnest
from tidewheel.planner.text import column, identifier

from .bind_items import relation
from .bind_scope import NotTaken

if TYPE_CHECKING:
    from .bind_from import From, FromBinder


def as_item(item: exp.Subquery) -> tuple[exp.Expr, exp.Pivot]:
    """A FROM item that holds the statement, as one with the clause."""
    written = item.this
    into = written.args.get("into")
    name = into.this.this if into is not None else identifier("name")
    given = [e.this for e in into.expressions] if into is not None else [identifier("value")]
    columns: list[exp.Expr] = []
    for e in written.expressions:
        if isinstance(e, exp.Alias):
            e = exp.PivotAlias(this=e.this, alias=e.args["alias"])
        columns.append(e)
    clause = exp.Pivot(
        unpivot=True, expressions=given, fields=[exp.In(this=name, expressions=columns)]
    )
    clause.set("alias", item.args.get("alias"))
    plain = written.this.copy()
    plain.set("pivots", [clause])
    return plain, clause


def _chosen(fields: Sequence[exp.Expr], labels: Collection[str]) -> list[exp.Expr]:
    """The columns to be made rows, a star among them spelt out."""
    found: list[exp.Expr] = []
    for e in fields:
        star = e.this if isinstance(e, exp.Columns) else e
        if not isinstance(star, exp.Star):
            found.append(e)
            continue
        if star.args.get("replace") or star.args.get("rename"):
            raise NotTaken("UNPIVOT of changed columns")
        less = {c.name.lower() for c in star.args.get("except_") or ()}
        found += [exp.Column(this=identifier(c)) for c in labels if c not in less]
    return found


def unpivoted(binder: FromBinder, item: exp.Expr, pivot: exp.Pivot) -> From:
    """The rows of `item`, each as often as it has columns with a value among those of `pivot`."""
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
    for e in _chosen(fields[0].expressions, columns.keys()):
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
