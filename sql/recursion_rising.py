"""Does a better value of a recursive table only make better what a step derives from it?

Each column of each query in the step is told to be *improving* or not, from the tables up: one that
improves in some way (a `min` that falls, a `max` that rises) may be handed on, be put into an
expression that is *rising* in it, and stand in conditions that a better value cannot fail. Used
otherwise (as a key, compared for equality, negated) what was derived from the worse value would
have to be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from .recursion_aggregates import (
    Refusal,
    aggregates,
    bare,
    filtered,
    is_not_negative,
    own_aggregates,
    refusal,
)

Columns = Sequence[tuple[str, str]]
"""Name of a column, and "min", "max", "bool_or" … as it improves, "arg" if it follows one that does
(`arg_min`); empty if it does not. The name * stands for any number of columns that do not."""
How = Callable[[exp.Expr], str]


@dataclass(frozen=True)
class _Scope:
    """The tables in sight, by alias; `asked` gathers the columns that must not be NULL."""

    tables: list[tuple[str, Columns]]
    asked: list[exp.Column]

    def beside(self, more: list[tuple[str, Columns]]) -> _Scope:
        return _Scope([*self.tables, *more], self.asked)


class _Refused(Exception):
    def __init__(self, reason: str, node: exp.Expr) -> None:
        super().__init__(reason)
        self.refusal = refusal(reason, node)


def rising(
    step: exp.Expr, merge: Sequence[str | None], tables: Mapping[str, Columns]
) -> Refusal | list[exp.Column]:
    """Why better rows of the `tables` may spoil the step of a table with `merge`.

    Where they never do: the columns of which that is true only where they are not NULL.
    """
    try:
        if isinstance(step, exp.Select) and any(own_aggregates(e, step) for e in step.expressions):
            return _grouped(step, merge, tables)
        asked: list[exp.Column] = []
        found = _columns(step, tables, _Scope([], asked))
        for i, (name, how) in enumerate(found):
            if how and any(n == "*" for n, _ in found[: i + 1]):
                raise _Refused("its columns are not named (*)", step)
            _fits(how, merge[i] if i < len(merge) else None, name, step)
    except _Refused as error:
        return error.refusal
    return asked


def derived(
    query: exp.Expr, tables: Mapping[str, Columns], names: Sequence[str]
) -> tuple[Columns, list[exp.Column]] | Refusal:
    """The columns of a table that a step reads through; `names` are given to the first of them.

    And the columns that must not be NULL there.
    """
    asked: list[exp.Column] = []
    try:
        return _renamed(_columns(query, tables, _Scope([], asked)), names, query), asked
    except _Refused as error:
        return error.refusal


def _grouped(
    select: exp.Select, merge: Sequence[str | None], tables: Mapping[str, Columns]
) -> list[exp.Column]:
    never_null: list[exp.Column] = []
    scope = _Scope([], never_null)
    how = _read(select, tables, scope)
    for item, name in zip(select.expressions, merge, strict=True):
        inner, condition = filtered(bare(item))
        if condition is not None:
            _condition(condition, how, tables, scope)
        if name is None or name.startswith("arg_"):
            for column in (item if name is None else inner.this).find_all(exp.Column):
                _fits(how(column), name, "", item)
        elif not is_rising(inner.this, name, how):
            text = inner.this.sql(dialect="duckdb")
            raise _Refused(f"{text} may become worse when its input improves", inner.this)
        else:
            never_null += _unknowns(inner.this, name, how)
    having = select.args.get("having")
    if having is not None and not _stays(having.this, select, merge, how):
        raise _Refused(
            "HAVING may drop a group as its value improves, or one that more rows would let stay; "
            "it may compare the one aggregate that is selected, min by < and max by >",
            having.this,
        )
    return never_null


def _unknowns(value: exp.Expr, name: str, how: How) -> list[exp.Column]:
    """The columns whose NULLs would make a rising value fall.

    False AND NULL is false, true AND NULL is NULL, the worst of all; so is false OR NULL where
    `bool_and` looks for a false. And greatest(NULL, 3) is 3, a better `min` than greatest(4, 3).
    """
    found: dict[int, exp.Column] = {}
    passing: type[exp.Expr] | None = {"min": exp.Greatest, "max": exp.Least}.get(name)
    for over in value.find_all(passing) if passing else ():
        for column in over.find_all(exp.Column):
            if how(column):
                found[id(column)] = column
    for node in value.find_all(exp.And if name == "bool_or" else exp.Or):
        sides = list(node.flatten())
        improving = [s for s in sides if _touched(s, how)]
        if name in ("bool_or", "bool_and") and improving:
            asked = sides if len(improving) > 1 else [s for s in sides if s not in improving]
            for column in (c for s in asked for c in s.find_all(exp.Column)):
                found[id(column)] = column
    return [c for c in found.values() if not _is_filled(c)]


def _is_filled(column: exp.Column) -> bool:
    """Does COALESCE with a constant, or IS NULL, take its NULL away?"""
    parent = column.parent
    if isinstance(parent, exp.Coalesce):
        last = (parent.expressions or [parent.this])[-1]
        return isinstance(last, (exp.Boolean, exp.Literal))
    return isinstance(parent, exp.Is)


def _stays(having: exp.Expr, select: exp.Select, merge: Sequence[str | None], how: How) -> bool:
    """Does HAVING, once it holds for a group, hold for each better value of the group?

    It may ask for keys, and for the only aggregate that there is: of another one, the rows that
    make it hold are not those that make the value.
    """
    best = [e for e, m in zip(select.expressions, merge, strict=True) if m is not None]
    if len(best) != 1 or having.find(exp.Query, exp.Window):
        return False
    value, way = bare(best[0]), merge[select.expressions.index(best[0])]
    keys = [bare(e) for e in select.expressions if e is not best[0]]
    mark = exp.column("value", table="__tw_best")
    names = {k.name.lower() for k in keys if isinstance(k, exp.Column)}
    given = best[0].alias.lower()

    def marked(node: exp.Expr) -> exp.Expr:
        named = isinstance(node, exp.Column) and not node.table and node.name.lower() == given
        mine = node == value or (named and given not in names and not how(node))
        return mark.copy() if mine else node

    condition = having.copy().transform(marked)
    if any(aggregates(condition)) or any(
        c not in keys and c != mark for c in condition.find_all(exp.Column)
    ):
        return False
    try:
        _condition(condition, lambda c: str(way) if c == mark else how(c), {}, _Scope([], []))
    except _Refused:
        return False
    return True


def _fits(how: str, wanted: str | None, name: str, at: exp.Expr) -> None:
    """Refuse what improves in another way than its place wants."""
    follows = wanted is not None and wanted.startswith("arg_")
    if how and wanted is None:
        raise _Refused("a value that improves is used as a key", at)
    if how and follows and how != "arg":
        raise _Refused("a value that improves is used as another one's", at)
    if how and not follows and how != wanted:
        raise _Refused(f"{name} may become worse when its input improves", at)


def reads_improving(query: exp.Expr, tables: Mapping[str, Columns]) -> bool:
    """Does it name a table with a column that improves?"""
    return any(_is_improving(t, tables) for t in query.find_all(exp.Table))


def _is_improving(table: exp.Table, tables: Mapping[str, Columns]) -> bool:
    return not table.db and any(how for _, how in tables.get(table.name.lower(), ()))


def _columns(query: exp.Expr, tables: Mapping[str, Columns], outer: _Scope) -> Columns:
    """The columns of a query, as far as they can be told."""
    if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query):
        return _columns(query.this, _local(query, tables, outer), outer)
    if isinstance(query, exp.SetOperation):
        tables = _local(query, tables, outer)
        left = _columns(query.this, tables, outer)
        right = _columns(query.expression, tables, outer)
        return _either(query, left, right)
    if not isinstance(query, exp.Select):
        if reads_improving(query, tables):
            raise _Refused("it cannot be analysed", query)
        return [("*", "")]
    how = _read(query, tables, outer)
    _counted(query, how, outer)
    found: list[tuple[str, str]] = []
    for item in query.expressions:
        if isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        ):
            if any(item.args.get(k) for k in ("except_", "except", "replace", "rename")):
                raise _Refused("its columns are not named (*)", item)
            scope = _scope(query, _local(query, tables, outer), outer)
            named = item.table.lower() if isinstance(item, exp.Column) else ""
            for alias, columns in scope.tables:
                found += columns if alias == named or not named else []
            continue
        value = item.unalias()
        ways = {h for c in value.find_all(exp.Column) if (h := how(c))}
        way = ways.pop() if len(ways) == 1 else ""
        if ways or (way and not is_rising(value, way, how)):
            text = value.sql(dialect="duckdb")
            raise _Refused(f"{text} may become worse when its input improves", value)
        outer.asked.extend(_unknowns(value, way, how))
        found.append((item.alias_or_name.lower(), way))
    return found


def _counted(query: exp.Select, how: How, scope: _Scope) -> None:
    """Groups that stay once HAVING holds for them: it, and their keys, must stay, too."""
    having, group = query.args.get("having"), query.args.get("group")
    if having is None:
        return
    keys = [*query.expressions, *(group.expressions if group else ())]
    # GROUP BY ALL takes what HAVING reads for keys, too
    keys += [c for c in having.find_all(exp.Column) if not c.find_ancestor(exp.AggFunc)]
    for item in keys:
        if _touched(item, how):
            raise _Refused("a value that improves is a key of groups that HAVING chooses", item)
    _condition(having.this, how, {}, scope)


def _either(query: exp.SetOperation, left: Columns, right: Columns) -> Columns:
    if not any(how for _, how in (*left, *right)):
        return left
    plain = isinstance(query, exp.Union) and not query.args.get("by_name")
    if not plain or "*" in {n for n, _ in (*left, *right)} or len(left) != len(right):
        raise _Refused("a value that improves is compared by a set operation", query)
    found = []
    for (name, how), (_, other) in zip(left, right, strict=True):
        if how and other and how != other:
            raise _Refused(f"{name} may become worse when its input improves", query)
        found.append((name, how or other))
    return found


def _local(query: exp.Expr, tables: Mapping[str, Columns], outer: _Scope) -> Mapping[str, Columns]:
    """The tables with those of the query's own WITH clause."""
    with_ = query.args.get("with_") or query.args.get("with")
    if with_ is None:
        return tables
    tables = dict(tables)
    for cte in with_.expressions:
        if with_.args.get("recursive") and reads_improving(cte.this, tables):
            raise _Refused("it is read by another recursion", cte.this)
        names = [c.name for c in cte.args["alias"].columns]
        tables[cte.alias.lower()] = _renamed(_columns(cte.this, tables, outer), names, cte.this)
    return tables


def _renamed(columns: Columns, names: Sequence[str], at: exp.Expr) -> Columns:
    if not names or not any(how for _, how in columns):
        return columns
    if any(n == "*" for n, _ in columns[: len(names)]):
        raise _Refused("its columns are not named (*)", at)
    given = [n.lower() for n in names]
    return [(n, h) for n, (_, h) in zip(given, columns, strict=False)] + list(columns[len(given) :])


def _scope(query: exp.Select, tables: Mapping[str, Columns], outer: _Scope) -> _Scope:
    """What a SELECT reads, by alias."""
    found: list[tuple[str, Columns]] = []
    first = query.args.get("from_") or query.args.get("from")
    todo = [first.this] if first is not None else []
    todo += [j.this for j in query.args.get("joins") or ()]
    todo += query.args.get("laterals") or []
    while todo:
        source = todo.pop(0)
        todo += [j.this for j in source.args.get("joins") or ()]
        alias = source.args.get("alias")
        names = [c.name for c in alias.columns] if alias is not None else []
        if isinstance(source, exp.Subquery) and not isinstance(source.this, exp.Query):
            todo.append(source.this)  # joins in parentheses
        elif isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
            known = () if source.db else tables.get(source.name.lower(), ())
            columns = _renamed(known or [("*", "")], names, source)
            found.append((source.alias_or_name.lower(), columns))
        elif isinstance(source, exp.Subquery):
            columns = _columns(source, tables, outer.beside(found))
            found.append((source.alias_or_name.lower(), _renamed(columns, names, source)))
        else:
            how = _how(outer.beside(found))
            if reads_improving(source, tables) or _touched(source, how):
                raise _Refused("a value that improves is used by a table function", source)
            found.append((source.alias_or_name.lower(), [("*", "")]))
    return _Scope(found, outer.asked)


def _how(scope: _Scope) -> How:
    """How the column of a SELECT improves that a name means."""

    def how(column: exp.Expr) -> str:
        if not isinstance(column, exp.Column):
            return ""
        name, table = column.name.lower(), column.table.lower()
        for alias, columns in reversed(scope.tables):
            if not table or alias == table:
                found = next((h for n, h in columns if n == name and h), "")
                if found or table:
                    return found
        return ""

    return how


def _read(query: exp.Select, tables: Mapping[str, Columns], outer: _Scope) -> How:
    """How the columns that a SELECT reads improve; its conditions hold for better ones, too."""
    tables = _local(query, tables, outer)
    scope = outer.beside(_scope(query, tables, outer).tables)
    how = _how(scope)
    conditions = [j.args.get("on") for j in query.find_all(exp.Join) if _is_of(j, query)]
    where = query.args.get("where")
    conditions.append(where.this if where else None)
    for condition in conditions:
        if condition is not None:
            _condition(condition, how, tables, scope)
    for join in query.args.get("joins") or ():
        for name in join.args.get("using") or ():
            if any(n == name.name.lower() and h for _, columns in scope.tables for n, h in columns):
                raise _Refused("a value that improves is compared for equality", name)
    return how


def _is_of(join: exp.Join, query: exp.Select) -> bool:
    return join.find_ancestor(exp.Query, exp.Lateral) in (query, None) or (
        isinstance(join.parent, exp.Table) and join.parent.find_ancestor(exp.Select) is query
    )


def _condition(part: exp.Expr, how: How, tables: Mapping[str, Columns], scope: _Scope) -> None:
    if isinstance(part, exp.Paren):
        _condition(part.this, how, tables, scope)
    elif isinstance(part, exp.And | exp.Or):
        for side in part.flatten():
            _condition(side, how, tables, scope)
    elif isinstance(part, exp.Exists) and isinstance(part.this, exp.Query):
        _columns(part.this, tables, scope)
    elif isinstance(part, exp.In) and part.args.get("query") and not _touched(part.this, how):
        for name, way in _columns(part.args["query"], tables, scope):
            if way:
                raise _Refused(f"an improved {name} is compared for equality", part)
    elif (_touched(part, how) and not _kept(part, how)) or reads_improving(part, tables):
        text = part.sql(dialect="duckdb")
        raise _Refused(f"an improved value may fail the condition {text}", part)


def _touched(node: exp.Expr | None, how: How) -> bool:
    return node is not None and any(how(c) for c in node.find_all(exp.Column))


def is_rising(node: exp.Expr, name: str, how: How) -> bool:
    """Is `node` rising in the improving columns in it, all of which improve in `name`'s way?"""
    if not _touched(node, how):
        return True
    if isinstance(node, exp.Column):
        return how(node) == name
    if isinstance(node, (exp.Paren, exp.Cast, exp.Min, exp.Max)):
        return is_rising(node.this, name, how)
    if isinstance(node, (exp.Case, exp.If)):
        cases = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        asked = [c.this for c in cases] + ([node.this] if isinstance(node, exp.Case) else [])
        given = [c.args["true"] for c in cases]
        given.append(node.args.get("default") or node.args.get("false"))
        return not any(_touched(a, how) or (a and a.find(exp.Query)) for a in asked) and all(
            is_rising(g, name, how) for g in given if g is not None
        )
    if isinstance(node, (exp.Add, exp.Least, exp.Greatest, exp.And, exp.Or)):
        if isinstance(node, (exp.And, exp.Or)) and name not in ("bool_or", "bool_and"):
            return False
        if isinstance(node, exp.Add) and name not in ("min", "max"):
            return False
        parts = [node.this, *([node.expression] if node.args.get("expression") else [])]
        parts += node.expressions
        return all(is_rising(p, name, how) for p in parts if p is not None)
    if isinstance(node, exp.Sub) and name in ("min", "max"):
        return is_rising(node.this, name, how) and not _touched(node.expression, how)
    if isinstance(node, exp.Mul) and name in ("min", "max"):
        factors = (node.this, node.expression)
        others = [f for f in factors if not _touched(f, how)]
        return all(is_rising(f, name, how) for f in factors) and (
            all(map(is_not_negative, others))
            if others
            else all(is_not_negative(f) for f in factors)
        )
    if isinstance(node, (exp.BitwiseOr, exp.BitwiseAnd)) and name in ("bit_or", "bit_and"):
        return is_rising(node.this, name, how) and is_rising(node.expression, name, how)
    return False


def _kept(part: exp.Expr, how: How) -> bool:
    """Can a condition that holds not fail when an improving column in it improves?"""
    if isinstance(part, exp.Column):
        return how(part) == "bool_or"
    if isinstance(part, exp.LogicalOr):
        return is_rising(part.this, "bool_or", how)
    if isinstance(part, exp.Not) and isinstance(part.this, exp.Is):  # NULL is the worst value
        value = part.this.this
        ways = {how(c) for c in value.find_all(exp.Column)} - {"", "arg"}
        is_null = isinstance(part.this.expression, exp.Null)
        if not is_null or len(ways) != 1 or value.find(exp.And, exp.Or):  # (false AND NULL)
            return False
        return is_rising(value, ways.pop(), how)
    if isinstance(part, (exp.LT, exp.LTE, exp.GT, exp.GTE)):
        less = isinstance(part, (exp.LT, exp.LTE))
        small, large = (part.this, part.expression) if less else (part.expression, part.this)
        if _unknowns(small, "min", how) or _unknowns(large, "max", how):
            return False  # greatest(NULL, 3) < 5 holds
        return is_rising(small, "min", how) and is_rising(large, "max", how)
    return False
