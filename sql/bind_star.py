"""``*`` and its relatives in a SELECT list: ``COLUMNS(…)``, the fields of a STRUCT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sqlglot import exp

from tidewheel.planner.logical import Column
from tidewheel.planner.text import column, identifier, to_sql, typed_nulls

from .bind_scope import NotTaken, Scope, Visible, parts_of
from .bind_types import Oracle

Starred = list[tuple[str, exp.Expr]]


def expanded(
    expression: exp.Expr,
    scope: Scope,
    clause: Callable[[exp.Expr], exp.Expr],
    kind: Callable[[exp.Expr], str],
) -> Starred | None:
    """The columns that a star stands for, as label and bound expression; None for what is none.

    `clause` binds expressions. `kind` tells the type of one, '' where it is not known yet.
    """
    columns: Starred
    if isinstance(expression, exp.Star):
        merged = [(v.label, v.merged) for v in scope.visible() if v.merged is not None]
        columns = [(label, column(c.name)) for label, c in merged]
        star = expression
    elif isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star):
        qualifier = [p.name for p in expression.parts[:-1]]
        found = [r for r in scope.relations if r.answers_to(qualifier)]
        if not found:
            return _modified(expression.this, _fields(qualifier, scope), scope, clause)
        if len(found) > 1:
            raise NotTaken(f"{'.'.join(qualifier)}.* is not one FROM item")
        visible: list[Visible] = found[0].columns
        columns = [(v.label, column(v.column.name)) for v in visible]
        star = expression.this
    elif isinstance(expression, exp.Explode) and type(expression.this) is exp.Column:
        parts = parts_of(expression.this)
        return _fields(parts, scope) if _struct(parts, scope) is not None else None
    elif isinstance(expression, exp.Explode) and not expression.find(exp.Query):
        value = clause(expression.this)
        return _fields_of(value, kind(value))
    else:
        return None
    return _modified(star, columns, scope, clause)


def _struct(parts: Sequence[str], scope: Scope) -> Column | None:
    """The column of a STRUCT that a name means."""
    found = scope.find(parts)
    known = (c for v in scope.visible() for c in (v.column, v.merged) if c is not None)
    for c in known if isinstance(found, exp.Column) else ():
        if (
            found is not None
            and c.name == found.name
            and c.type.upper().startswith("STRUCT(")
            and c.type.endswith(")")
        ):
            return c
    return None


def _fields(parts: Sequence[str], scope: Scope) -> Starred:
    """The fields of a STRUCT."""
    struct = _struct(parts, scope)
    if struct is None:
        raise NotTaken(f"{'.'.join(parts)}.* is not one FROM item")
    found = _fields_of(column(struct.name), struct.type)
    if found is None:
        raise NotTaken(f"{'.'.join(parts)}.*, whose fields have no names")
    return found


def _fields_of(value: exp.Expr, kind: str) -> Starred | None:
    """The fields of a value; None where it is no STRUCT, or one without names."""
    if not kind.upper().startswith("STRUCT(") or not kind.endswith(")"):
        return None
    fields = exp.DataType.build(kind, dialect="duckdb").expressions
    if not all(isinstance(f, exp.ColumnDef) for f in fields):
        return None
    of = value if isinstance(value, exp.Column) else exp.Paren(this=value)
    return [(f.name, exp.Dot(this=of.copy(), expression=identifier(f.name))) for f in fields]


def by_columns(items: Sequence[exp.Expr], scope: Scope, oracle: Oracle) -> list[exp.Expr]:
    """The items of a SELECT list, one with COLUMNS(…) once for each column that it names."""
    found: list[exp.Expr] = []
    for item in items:
        named = list(item.find_all(exp.Columns))
        if not named:
            found.append(item)
            continue
        if _is_star(item):
            found.append(item.this)
            continue
        texts = {to_sql(c) for c in named}
        if len(texts) > 1 or any(c.args.get("unpack") or c.find(exp.Query) for c in named):
            raise NotTaken("COLUMNS in an expression, of several kinds")
        stars = [star for c in named for star in c.find_all(exp.Star)]
        if any(star.args.get("replace") or star.args.get("rename") for star in stars):
            raise NotTaken("COLUMNS of other values, or under other names")
        if any(c.parent_select is not item.parent_select for c in named):
            raise NotTaken("COLUMNS in a subquery of an expression")
        for label in _labels(texts.pop(), scope, oracle):
            one = exp.column(label, quoted=True)
            found.append(_replaced(item, one))
    return found


def _labels(columns: str, scope: Scope, oracle: Oracle) -> list[str]:
    """The columns that COLUMNS(…) names, told by DuckDB."""
    visible = [(v.label, v.merged.type) for v in scope.visible() if v.merged is not None]
    often = Counter(label.lower() for label, _ in visible)
    given = typed_nulls([Column(label, label, kind) for label, kind in visible])
    labels = [label for label, _ in oracle.describe(f"SELECT {columns} FROM ({given})")]
    if any(often[label.lower()] != 1 for label in labels):
        raise NotTaken("COLUMNS of columns with one name, or with new ones")
    return labels


def _replaced(item: exp.Expr, one: exp.Expr) -> exp.Expr:
    return item.transform(lambda e: one.copy() if isinstance(e, exp.Columns) else e)


def _is_star(item: exp.Expr) -> bool:
    """Is ``COLUMNS(* EXCLUDE (…))`` all of an item, and so the star?"""
    star = item.this if isinstance(item, exp.Columns) and not item.args.get("unpack") else None
    if isinstance(star, exp.Column):
        star = star.this
    return isinstance(star, exp.Star) and any(star.args.values())


def _modified(
    star: exp.Star, columns: Starred, scope: Scope, clause: Callable[[exp.Expr], exp.Expr]
) -> Starred:
    for key, value in star.args.items():
        if value and key not in ("except_", "replace", "rename"):
            raise NotTaken(f"* {key.strip('_').upper()}")
    excluded = {_named(e, scope) for e in star.args.get("except_") or ()}
    replaced = {e.alias.lower(): e for e in star.args.get("replace") or ()}
    renamed = {_named(e.this, scope): e.alias for e in star.args.get("rename") or ()}
    result: Starred = []
    done: set[str] = set()
    for label, value in columns:
        key = label.lower()
        keys = [key, (value.name,)] if isinstance(value, exp.Column) else [key]
        if not excluded.isdisjoint(keys):
            continue
        if key in replaced:  # the first of those with one name; DuckDB leaves the others out
            if key not in done:
                result.append((replaced[key].alias, clause(replaced[key].this)))
            done.add(key)
        else:
            other = next((renamed[k] for k in keys if k in renamed), label)
            result.append((other, value))
    return result


def _named(item: exp.Expr, scope: Scope) -> str | tuple[str]:
    """What an item of EXCLUDE or RENAME means: all columns of a name, or one column of the plan."""
    if isinstance(item, exp.Identifier):
        return item.name.lower()
    if not isinstance(item, exp.Column):
        raise NotTaken("an expression behind a star")
    parts = parts_of(item)
    if len(parts) == 1:
        return item.name.lower()
    found = scope.find(parts)
    if not isinstance(found, exp.Column) or any(
        v.merged is not v.column and v.called(item.name.lower()) for v in scope.visible()
    ):
        raise NotTaken("a qualified column of USING behind a star")
    return (found.name,)
