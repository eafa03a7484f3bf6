"""``FROM t UNPIVOT (value FOR name IN (a, b))``: a row per column, as an UNNEST of two lists.

The statement ``UNPIVOT t ON a, b INTO NAME name VALUE value`` is the same.
``UNPIVOT ((x, y) FOR name IN ((a, b), (c, d)))`` makes a row per list of columns. An expression
over a column (``a::VARCHAR``, ``COLUMNS('x.') + 1``) goes by the column's name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import Filter, Named, Node, Unnest
from tidewheel.planner.text import column, identifier

from .bind_items import relation
from .bind_scope import NotTaken, Scope, told
from .bind_star import each_of_columns

if TYPE_CHECKING:
    from .bind_from_item import From, Items


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


def unpivoted(binder: Items, item: exp.Expr, pivot: exp.Pivot, statement: bool = False) -> From:
    """The rows of `item`, each as often as it has columns with a value among those of `pivot`."""
    plain = item.copy()
    plain.set("pivots", None)
    plain.set("joins", None)
    node, relations = binder.bind(plain, ())
    scope = Scope(relations)
    columns = {
        v.label.lower(): (v.label, v.merged) for v in scope.visible() if v.merged is not None
    }
    fields = pivot.args["fields"]
    given = [name for v in pivot.expressions for name in _parts(v)]
    if not all(isinstance(v, exp.Identifier) for v in given) or len(fields) != 1:
        raise NotTaken("UNPIVOT into other than names")
    texts: list[exp.Expr] = []
    values: list[list[exp.Expr]] = [[] for _ in given]
    used: set[str] = set()
    for e in _chosen(fields[0].expressions, columns.keys()):
        name = e.args["alias"].name if isinstance(e, exp.PivotAlias | exp.Alias) else None
        whole = e.this if name is not None else e
        for each in each_of_columns(whole, scope, binder.binder.oracle):
            parts = _parts(each)
            read = [_one_column(part) for part in parts]
            if not columns.keys() >= {*read} or len(parts) != len(given):
                raise NotTaken("UNPIVOT of what is no column")
            if name is None and not all(told(columns[key][0]) for key in read):
                raise NotTaken("UNPIVOT of columns whose names are expressions")
            text = "_".join(columns[key][0] for key in read) if name is None else name
            texts.append(exp.Literal.string(text))
            for of, part, key in zip(values, parts, read, strict=True):
                plain_column = isinstance(part, exp.Column)
                made = column(columns[key][1].name) if plain_column else _bound(binder, part, scope)
                of.append(made)
            used.update(read)
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
    if renamed and not statement and len(renamed) < len(labels):
        # DuckDB gives them before it leaves NULLs out, and again after
        raise NotTaken("UNPIVOT with names for some of its columns")
    path = (alias.name,) if alias is not None else ("__unnamed_pivot",)
    return rows, [relation(path, labels, [*(c for _, c in kept), *fresh], renamed)]


def _parts(written: exp.Expr) -> list[exp.Expr]:
    """What stands in parentheses, or the one thing that stands without."""
    return list(written.expressions) if isinstance(written, exp.Tuple) else [written]


def _one_column(written: exp.Expr) -> str:
    """The one column that an expression is of; DuckDB refuses others."""
    found = {c.name.lower() for c in written.find_all(exp.Column) if not c.table}
    if len(found) != 1 or written.find(exp.Query):
        raise NotTaken("UNPIVOT of what is no column")
    return found.pop()


def _bound(binder: Items, written: exp.Expr, scope: Scope) -> exp.Expr:
    return exp.Paren(this=binder.select.resolve_in(scope, written, pure=True))
