"""``FROM t UNPIVOT (value FOR name IN (a, b))``: a row per column, as an UNNEST of two lists.

The statement ``UNPIVOT t ON a, b INTO NAME name VALUE value`` is the same.
``UNPIVOT ((x, y) FOR name IN ((a, b), (c, d)))`` makes a row per list of columns.
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


def unpivoted(
    binder: FromBinder, item: exp.Expr, pivot: exp.Pivot, statement: bool = False
) -> From:
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
    given = [name for v in pivot.expressions for name in _parts(v)]
    if not all(isinstance(v, exp.Identifier) for v in given) or len(fields) != 1:
        raise NotTaken("UNPIVOT into other than names")
    texts: list[exp.Expr] = []
    values: list[list[exp.Expr]] = [[] for _ in given]
    used: set[str] = set()
    for e in _chosen(fields[0].expressions, columns.keys()):
        parts = _parts(e.this if isinstance(e, exp.PivotAlias) else e)
        keys = [part.name.lower() for part in parts if isinstance(part, exp.Column)]
        found = [columns[key] for key in keys if key in columns]
        if len(found) != len(parts) or len(parts) != len(given):
            raise NotTaken("UNPIVOT of what is no column")
        text = "_".join(label for label, _ in found)
        texts.append(
            exp.Literal.string(e.args["alias"].name if isinstance(e, exp.PivotAlias) else text)
        )
        for of, (_, known) in zip(values, found, strict=True):
            of.append(column(known.name))
        used.update(keys)
    calls = [exp.Explode(this=exp.Array(expressions=part)) for part in (texts, *values)]
    types = binder.binder.oracle.types(calls, node.schema)
    labels = [fields[0].this.name, *(v.name for v in given)]
    fresh = [binder.binder.names.fresh(n, t) for n, t in zip(labels, types, strict=True)]
    rows: Node = Unnest(node, tuple(Named(c, e) for c, e in zip(fresh, calls, strict=True)))
    if not pivot.args.get("include_nulls"):
        for c in fresh[1:]:
            none = exp.Is(this=column(c.name), expression=exp.null())
            rows = Filter(rows, exp.Not(this=none))
    kept = [known for key, known in columns.items() if key not in used]
    labels = [*(label for label, _ in kept), *labels]
    alias = pivot.args.get("alias")
    renamed = () if alias is None else tuple(c.name for c in alias.columns)
    if renamed and not statement:  # DuckDB gives them before it leaves NULLs out, and again after
        raise NotTaken("UNPIVOT with names for its columns")
    path = (alias.name,) if alias is not None else ("__unnamed_pivot",)
    return rows, [relation(path, labels, [*(c for _, c in kept), *fresh], renamed)]


def _parts(written: exp.Expr) -> list[exp.Expr]:
    """What stands in parentheses, or the one thing that stands without."""
    return list(written.expressions) if isinstance(written, exp.Tuple) else [written]
