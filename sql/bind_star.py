"""``*`` and its relatives in a SELECT list: ``COLUMNS(…)``, the fields of a STRUCT."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from sqlglot import exp

from tidewheel.planner.logical import Column
from tidewheel.planner.text import alias_of, column, identifier, to_sql, typed_nulls

from .bind_scope import NotTaken, Relation, Scope, Visible, parts_of
from .bind_types import Oracle

Starred = list[tuple[str, exp.Expr]]

# An expression of a subquery without a name has one of DuckDB's, which is not known there.
PLAIN = re.compile(r"\w+")


def expanded(
    expression: exp.Expr,
    scope: Scope,
    clause: Callable[[exp.Expr], exp.Expr],
    kind: Callable[[exp.Expr], str],
    oracle: Oracle,
) -> Starred | None:
    """The columns that a star stands for, as label and bound expression; None for what is none.

    `clause` binds expressions. `kind` tells the type of one, '' where it is not known yet.
    """
    columns: Starred
    test = None
    if (filtered := _filtered(expression)) is not None:
        expression, test = filtered
    if isinstance(expression, exp.Star):
        if expression.args.get("ilike"):
            test = exp.Star(ilike=expression.args["ilike"].copy())
            expression = expression.copy()
            expression.set("ilike", None)
        merged = [(v.label, v.merged) for v in scope.visible() if v.merged is not None]
        columns = [(label, column(c.name)) for label, c in merged]
        star = expression
    elif isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star):
        qualifier = [p.name for p in expression.parts[:-1]]
        found = scope.items(qualifier)
        if not found and _struct(qualifier, scope) is None:
            found = scope.items_around(qualifier)
        if not found and test is None:
            return _modified(expression.this, _fields(qualifier, scope), scope, clause)
        if len(found) != 1:
            raise NotTaken(f"{'.'.join(qualifier)}.* is not one FROM item")
        visible: list[Visible] = found[0].columns
        columns = [(v.label, column(v.column.name)) for v in visible]
        star = expression.this
    elif isinstance(expression, exp.Explode) and type(expression.this) is exp.Column:
        parts = parts_of(expression.this)
        return _fields(parts, scope) if _struct(parts, scope) is not None else None
    elif isinstance(expression, exp.Explode) and _is_made(expression.this):
        # of aggregates, say, whose types are not known before there are groups
        fields = expression.this.expressions
        return [(e.name, exp.Paren(this=clause(e.expression))) for e in fields]
    elif isinstance(expression, exp.Explode) and not expression.find(exp.Query):
        value = clause(expression.this)
        return _fields_of(value, kind(value))
    else:
        return None
    if test is not None:
        columns = _chosen(test, columns, oracle)
    return _modified(star, columns, scope, clause)


def _is_made(value: exp.Expr) -> bool:
    """Is it ``{'a': …, 'b': …}``?"""
    return isinstance(value, exp.Struct) and all(
        isinstance(e, exp.PropertyEQ) for e in value.expressions
    )


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
    """The items of a SELECT list, one with COLUMNS(…) once for each column that it names.

    An expression over COLUMNS is called as the column is.
    """
    found: list[exp.Expr] = []
    for item in items:
        if (one := _as_star(item)) is not None:
            found.append(one)
            continue
        item = unpacked(item, scope, oracle)
        columns = _columns_in(item)
        if columns is None:
            found.append(item)
            continue
        labels = _labels(columns, scope, oracle)
        names = labels
        if isinstance(item, exp.Alias):  # '\\1' in it is a part of the column's name
            names = _labels(columns, scope, oracle, identifier(item.alias))
            item = item.this
        for label, name in zip(labels, names, strict=True):
            one = _replaced(item, _column(columns, label))
            found.append(one if one == _column(columns, name) else alias_of(one, name))
    return found


def by_number(item: exp.Expr, scope: Scope) -> exp.Expr:
    """``#2``, in the SELECT list the second column of the FROM items, by its name."""
    if not any(isinstance(n, exp.PositionalColumn) for n in _own(item)):
        return item
    if isinstance(item, exp.PositionalColumn):
        return _numbered(item, scope)
    if not isinstance(item, exp.Alias) or item.find(exp.Query):
        raise NotTaken("a column by its number in an expression")  # DuckDB's name has the number
    return item.transform(
        lambda n: _numbered(n, scope) if isinstance(n, exp.PositionalColumn) else n
    )


def _numbered(number: exp.PositionalColumn, scope: Scope) -> exp.Column:
    known = [(r, v) for r in scope.relations for v in r.columns]
    if not number.name.isdigit() or not 1 <= int(number.name) <= len(known):
        raise NotTaken("the number of no column")
    of, meant = known[int(number.name) - 1]
    for path in ((), of.path[-1:]):
        names = [identifier(p) for p in (*path, meant.label)]
        found = exp.Column(**dict(zip(("this", "table"), names[::-1], strict=False)))
        with suppress(NotTaken):
            if scope.find(parts_of(found)) == column(meant.column.name):
                return found
    raise NotTaken("the number of a column that has no name of its own")


def each_of_columns(condition: exp.Expr | None, scope: Scope, oracle: Oracle) -> list[exp.Expr]:
    """A WHERE; with COLUMNS(…) it holds where it holds of each column that is named.

    Keys of ORDER BY are made many in the same way.
    """
    if condition is None:
        return []
    condition = unpacked(condition, scope, oracle)
    columns = _columns_in(condition)
    if columns is None:
        return [condition]
    labels = _labels(columns, scope, oracle)
    return [_replaced(condition, _column(columns, label)) for label in labels]


def unpacked(item: exp.Expr, scope: Scope, oracle: Oracle) -> exp.Expr:
    """``greatest(*COLUMNS('x.'))``: a call with each of the columns as an argument."""
    if not any(map(_unpacks, _own(item))):
        return item
    item = item.copy()
    for node in [n for n in _own(item) if _unpacks(n)]:
        columns = node if isinstance(node, exp.Columns) else node.expressions[0]
        bare = exp.Columns(this=columns.this.copy())
        many = [_column(bare, label) for label in _labels(bare, scope, oracle)]
        call, key = node.parent, node.arg_key
        if call is None or key is None or not many:
            raise NotTaken("*COLUMNS outside of a call")
        if isinstance(call.args[key], list):
            at = node.index or 0
            call.set(key, [*call.args[key][:at], *many, *call.args[key][at + 1 :]])
        elif key == "this" and isinstance(call, exp.Coalesce | exp.Greatest | exp.Least):
            call.set("expressions", [*many[1:], *call.expressions])
            call.set("this", many[0])
        else:
            raise NotTaken("*COLUMNS as another than a call's argument")
    return item


def _unpacks(node: exp.Expr) -> bool:
    if isinstance(node, exp.Columns):
        return bool(node.args.get("unpack"))
    return (
        isinstance(node, exp.Anonymous)
        and node.name.lower() == "unpack"
        and len(node.expressions) == 1
        and isinstance(node.expressions[0], exp.Columns)
    )


def _columns_in(item: exp.Expr) -> exp.Columns | None:
    """The COLUMNS(…) of an expression, which DuckDB allows one kind of; None without any."""
    named = [n for n in _own(item) if isinstance(n, exp.Columns)]
    if not named:
        return None
    if len({to_sql(c) for c in named}) > 1 or any(c.find(exp.Query) for c in named):
        raise NotTaken("COLUMNS in an expression, of several kinds")
    stars = [star for c in named for star in c.find_all(exp.Star)]
    if any(star.args.get("replace") or star.args.get("rename") for star in stars):
        raise NotTaken("COLUMNS of other values, or under other names")
    if len(list(item.find_all(exp.Columns))) > len(named):
        raise NotTaken("COLUMNS in an expression and in its subquery")
    return named[0]


def _own(item: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression, those of subqueries left out."""
    return item.walk(prune=lambda n: isinstance(n, exp.Query))


def _labels(
    columns: exp.Columns, scope: Scope, oracle: Oracle, name: exp.Identifier | None = None
) -> list[str]:
    """The columns that COLUMNS(…) names, told by DuckDB; called by `name` if there is one."""
    star = columns.this
    if isinstance(star, exp.Column) and isinstance(star.this, exp.Star):
        visible = [(v.label, v.column.type) for v in _of(star, scope).columns]
        columns = exp.Columns(this=star.this.copy())
    else:
        visible = [(v.label, v.merged.type) for v in scope.visible() if v.merged is not None]
    often = Counter(label.lower() for label, _ in visible)
    if not all(PLAIN.fullmatch(label) for label, _ in visible):
        raise NotTaken("COLUMNS of columns whose names are expressions")
    given = typed_nulls([Column(label, label, kind) for label, kind in visible])
    item = to_sql(columns if name is None else exp.Alias(this=columns.copy(), alias=name))
    labels = [label for label, _ in oracle.describe(f"SELECT {item} FROM ({given})")]
    if name is None and any(often[label.lower()] != 1 for label in labels):
        raise NotTaken("COLUMNS of columns with one name, or with new ones")
    return labels


def _of(star: exp.Column, scope: Scope) -> Relation:
    """The one FROM item that is meant by ``t.*``."""
    qualifier = [p.name for p in star.parts[:-1]]
    found = [r for r in scope.relations if r.answers_to(qualifier)]
    if len(found) != 1:
        raise NotTaken(f"{'.'.join(qualifier)}.* is not one FROM item")
    return found[0]


def _column(columns: exp.Columns, label: str) -> exp.Column:
    """A column of those that COLUMNS(…) names."""
    parts = columns.this.parts[:-1] if isinstance(columns.this, exp.Column) else ()
    names = (identifier(p.name) for p in reversed(parts))
    around = dict(zip(("table", "db", "catalog"), names, strict=False))
    return exp.Column(this=identifier(label), **around)


def _replaced(item: exp.Expr, one: exp.Expr) -> exp.Expr:
    return item.transform(lambda e: one.copy() if isinstance(e, exp.Columns) else e)


def _as_star(item: exp.Expr) -> exp.Expr | None:
    """``COLUMNS(* EXCLUDE (…))``, if it is all of an item: the star."""
    star = item.this if isinstance(item, exp.Columns) and not item.args.get("unpack") else None
    bare = star.this if isinstance(star, exp.Column) else star
    return star if isinstance(bare, exp.Star) and any(bare.args.values()) else None


def _filtered(item: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """``* LIKE 'x%'`` and the like: the star, and the same of no FROM item in particular."""
    bare = item.copy()
    test = bare.this if isinstance(bare, exp.Not) else bare
    if not isinstance(test, exp.Like | exp.ILike | exp.Glob | exp.SimilarTo):
        return None
    star = test.this
    if isinstance(star, exp.Column) and isinstance(star.this, exp.Star):
        plain = star.this.copy()
    elif isinstance(star, exp.Star):
        plain = star.copy()
    else:
        return None
    plain.set("except_", None)  # comes after the choice, and may name what is not there
    test.set("this", plain)
    return star, bare


def _chosen(test: exp.Expr, columns: Starred, oracle: Oracle) -> Starred:
    """Those of the columns whose names pass; DuckDB tells which."""
    names = {label.lower(): label for label, _ in columns}
    if not all(map(PLAIN.fullmatch, names)):
        raise NotTaken("a choice of columns whose names are expressions")
    given = typed_nulls([Column(label, label, "INTEGER") for label in names.values()])
    kept = {c.lower() for c, _ in oracle.describe(f"SELECT {to_sql(test)} FROM ({given})")}
    return [(label, value) for label, value in columns if label.lower() in kept]


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
