"""Walking expressions: names resolved, aggregates and windows found and taken out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from tidewheel.planner.text import conjunction, identifier, paired, to_sql

from .bind_scope import NotTaken, parts_of
from .bind_types import Oracle, function_name, is_volatile

SUBQUERY = "__tw_subquery"
"""Stands for a subquery inside an expression: its number, operands and outer columns."""

_LEFT_ALONE = (exp.Columns, exp.PositionalColumn)
_BY_NAME = {"alias", "struct_pack", "struct_insert", "struct_update"}
_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_NO_VALUES = (exp.Identifier, exp.Ordered)  # they may be written as what they hold is

Lookup = Callable[[list[str], exp.Column], exp.Expr]
Labels = Callable[[list[str]], "str | None"]
OnSubquery = Callable[[exp.Expr, Callable[[exp.Expr], exp.Expr]], exp.Expr]


def is_placeholder(node: exp.Expr) -> bool:
    """Does `node` stand for a subquery?"""
    return isinstance(node, exp.Anonymous) and node.name == SUBQUERY


def waits(expression: exp.Expr) -> bool:
    """Does an expression hold the place of a subquery?"""
    return any(map(is_placeholder, expression.walk()))


def rebuilt(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy of `node` with `change` applied to each child."""
    arguments: dict[str, object] = {}
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            arguments[key] = change(value)
        elif isinstance(value, list):
            arguments[key] = [change(v) if isinstance(v, exp.Expr) else v for v in value]
        else:
            arguments[key] = value
    new = node.__class__(**arguments)
    if node._meta:
        new.meta.update(node.meta)  # the dialect notes there how a JSON path was written
    return new


def is_query(node: object) -> bool:
    """Is it a query in parentheses, or a bare one?"""
    if isinstance(node, (exp.Subquery, exp.Paren)):
        return is_query(node.this)
    return isinstance(node, (exp.Query, exp.Values)) and not isinstance(node, exp.Subquery)


def resolve(
    expression: exp.Expr,
    lookup: Lookup,
    on_subquery: OnSubquery,
    windows: dict[str, exp.Window],
    labels: Labels,
) -> exp.Expr:
    """`expression` with every column looked up, every subquery handed to `on_subquery`, and named
    windows written out. `labels`: the name of the column that a reference means."""

    def walk(node: exp.Expr, hidden: frozenset[str]) -> exp.Expr:
        def inner(child: exp.Expr) -> exp.Expr:
            return walk(child, hidden)

        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise NotTaken("a star inside an expression")
            parts = parts_of(node)
            if parts[0].lower() in hidden:  # as sqlglot has it in a lambda
                names = [part.copy() for part in node.parts]
                return exp.Dot.build(names) if len(names) > 1 else names[0]
            return lookup(parts, node)
        if isinstance(node, exp.Dot) and (call := _as_call(node, hidden, lookup)) is not None:
            return inner(call)
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            raise NotTaken("a star inside an expression")
        if isinstance(node, exp.Lambda):
            return exp.Lambda(
                **{
                    **node.args,
                    "this": walk(node.this, hidden | set(parameters(node))),
                    "expressions": [p.copy() for p in node.expressions],
                }
            )
        if isinstance(node, exp.Comprehension):
            within = hidden | set(parameters(node))
            return exp.Comprehension(
                **{
                    key: walk(child, within if key in ("this", "condition") else hidden)
                    for key, child in node.args.items()
                    if child is not None
                }
            )
        node = _sorted_alike(node)
        called = function_name(node)
        if called == "struct_pack":
            node = _with_names(node, hidden, labels)
        if called in _BY_NAME and not _all_named(node):
            raise NotTaken(f"{called} asks for the names of its arguments")
        if called == "bitstring_agg" and len(node.expressions) == 1:
            raise NotTaken("bitstring_agg without bounds asks for the statistics of a table")
        if isinstance(node, _LEFT_ALONE):
            raise NotTaken(f"{type(node).__name__.upper()} in an expression")
        if (
            isinstance(node, exp.In)
            and len(node.expressions) == 1
            and is_query(node.expressions[0])
        ):
            return on_subquery(exp.In(this=node.this, query=node.expressions[0]), inner)
        if isinstance(node, exp.Array) and any(isinstance(e, exp.Query) for e in node.expressions):
            return on_subquery(node, inner)
        if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
            raise NotTaken("a call over a subquery")
        if isinstance(node, exp.Exists) or is_query(node) or is_query(node.args.get("query")):
            return on_subquery(node, inner)
        if isinstance(node, exp.Binary):
            node = _quantified(node)
            if isinstance(node.expression, (exp.Any, exp.All)) and is_query(node.expression.this):
                return on_subquery(node, inner)
        if isinstance(node, exp.Window) and node.args.get("alias") is not None:
            return inner(_written_out(node, windows))
        return rebuilt(node, inner)

    return walk(expression, frozenset())


def _as_call(node: exp.Dot, hidden: frozenset[str], lookup: Lookup) -> exp.Expr | None:
    """``x.f(y)`` is ``f(x, y)``, but where no column is called x, which may be a schema."""
    method, of = node.expression, _with_columns(node.this, hidden)
    if not isinstance(method, exp.Anonymous) or isinstance(of, exp.Identifier):
        return None
    if isinstance(of, exp.Column):
        try:
            lookup(parts_of(of), of)
        except NotTaken:
            return None
    return exp.Anonymous(this=method.this, expressions=[of, *method.expressions])


def _with_columns(node: exp.Expr, hidden: frozenset[str]) -> exp.Expr:
    """What stands before ``.f()``: sqlglot has left identifiers of its columns."""
    names = _identifiers(node)
    if names is not None and len(names) <= 4 and names[0].name.lower() not in hidden:
        return exp.column(*(n.copy() for n in reversed(names)))
    if names is not None or isinstance(node, (exp.Column, exp.DataType, exp.Lambda, exp.Query)):
        return node
    return rebuilt(node, lambda child: _with_columns(child, hidden))


def _identifiers(node: exp.Expr) -> list[exp.Identifier] | None:
    """A dotted name, outermost first; None for anything else."""
    if isinstance(node, exp.Identifier):
        return [node]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = _identifiers(node.this)
        return None if before is None else [*before, node.expression]
    return None


def parameters(node: exp.Expression) -> list[str]:
    """The names, in lower case, that a lambda or a comprehension gives to an element of a list."""
    if isinstance(node, exp.Lambda):
        return [p.name.lower() for p in node.expressions]
    both = node.args.get("expression"), node.args.get("position")
    return [p.name.lower() for p in both if p is not None]


def _all_named(node: exp.Expr) -> bool:
    """Has each field that a call makes a name of its own, not that of its value?"""
    if not isinstance(node, exp.Anonymous) or function_name(node) == "alias":
        return False
    fields = node.expressions[node.name.lower() != "struct_pack" :]
    return all(isinstance(f, exp.PropertyEQ) for f in fields)


def _sorted_alike(node: exp.Expr) -> exp.Expr:
    """``list_sort(list(x))`` as of ``list(x ORDER BY x)``: it does not follow the order of rows."""
    call = _listing(node)
    if call is None or isinstance(call.this, exp.Order):
        return node
    values = call.this.expressions if isinstance(call.this, exp.Distinct) else [call.this]
    if len(values) != 1:
        return node
    node = node.copy()
    if (call := _listing(node)) is not None:
        order = [exp.Ordered(this=values[0].copy())]
        call.set("this", exp.Order(this=call.this, expressions=order))
    return node


def _listing(node: exp.Expr) -> exp.ArrayAgg | None:
    """The call of list() whose list a call sorts, in whatever order."""
    if isinstance(node, exp.ArraySort):
        found = node.this
    elif isinstance(node, exp.Anonymous) and node.name.lower() in _SORTS and node.expressions:
        found = node.expressions[0]
    else:
        return None
    call = found.this if isinstance(found, exp.Filter) else found
    return call if isinstance(call, exp.ArrayAgg) else None


_SORTS = {"list_sort", "array_sort", "list_reverse_sort", "array_reverse_sort"}


def _quantified(node: exp.Binary) -> exp.Binary:
    """``x > ALL ((SELECT …) UNION …)``, which sqlglot takes for a call of a function ALL."""
    call = node.expression
    kind = _QUANTIFIERS.get(call.name.upper()) if isinstance(call, exp.Anonymous) else None
    if kind is None or len(call.expressions) != 1 or not is_query(call.expressions[0]):
        return node
    return type(node)(this=node.this, expression=kind(this=call.expressions[0]))


_QUANTIFIERS = {"ALL": exp.All, "ANY": exp.Any, "SOME": exp.Any}


def _with_names(node: exp.Expr, hidden: frozenset[str], labels: Labels) -> exp.Expr:
    """``struct_pack(a, t.b)`` with the names that it takes from its columns: a and b.

    Not of aliases, nor of names in other letters: whose letters DuckDB takes depends on GROUP BY.
    """

    def field(value: exp.Expr) -> exp.Expr:
        bare = value
        while isinstance(bare, exp.Paren):
            bare = bare.this
        if isinstance(bare, exp.Identifier):  # of a lambda
            return exp.PropertyEQ(this=bare.copy(), expression=bare)
        if not isinstance(bare, exp.Column) or isinstance(bare.this, exp.Star):
            return value
        parts = parts_of(bare)
        if parts[0].lower() not in hidden and labels(parts) != parts[-1]:
            raise NotTaken("struct_pack names a field after an alias, or in other letters")
        return exp.PropertyEQ(this=identifier(parts[-1]), expression=bare)

    return exp.Anonymous(this="struct_pack", expressions=[field(f) for f in node.expressions])


def _written_out(node: exp.Window, windows: dict[str, exp.Window]) -> exp.Window:
    """A window call without the name of a window that it is over, or refines."""
    clauses: dict[str, Any] = {}
    at: exp.Window | None = node
    while at is not None:
        clauses = {k: at.args[k] for k in _WINDOW if at.args.get(k)} | clauses
        name = at.args.get("alias")
        if name is None:
            return exp.Window(this=node.this.copy(), over="OVER", **clauses)
        at = windows.get(name.name.lower())
    raise NotTaken("a window with a name that is not there")


_WINDOW = ("partition_by", "order", "spec", "exclude")


def conjuncts(expression: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a condition that are joined by AND, or would be: (a AND b) OR (a AND c)."""
    if expression is None:
        return
    work = [expression]
    while work:
        node = work.pop()
        if isinstance(node, exp.Paren) and not isinstance(node.this, exp.Subquery):
            work.append(node.this)
        elif isinstance(node, exp.And):
            work += [node.expression, node.this]
        elif isinstance(node, exp.Or):
            yield from _factored(node)
        else:
            yield node


def _factored(condition: exp.Or) -> Iterator[exp.Expr]:
    """What all branches of an OR ask for, and the OR of the rest."""
    branches = []
    common: list[exp.Expr] | None = None
    for branch in condition.flatten():
        parts = list(conjuncts(branch))
        branches.append(parts)
        common = [c for c in (parts if common is None else common) if c in parts]
        if not common:
            yield condition
            return
    common = [c for c in common or () if not is_volatile(c)]
    rest = [[p for p in parts if p not in common] for parts in branches]
    yield from common
    if not common:
        yield condition
    elif all(rest):
        yield paired(exp.Or, (exp.Paren(this=conjunction(parts)) for parts in rest))


_COLUMN = re.compile(r'"[^"]*"')


class Aggregates:
    """Tells aggregate calls from others, by DuckDB's own list of functions."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def is_unit(self, node: exp.Expr) -> bool:
        """Is it an aggregate call, with its FILTER and the like?"""
        if isinstance(node, _WRAPPERS):
            return self.is_unit(node.this)
        name = function_name(node)
        if not name or is_placeholder(node):
            return False
        if name in self._oracle.macros():
            raise NotTaken(f"the macro {name} may hide an aggregate")
        return name in self._oracle.aggregates() or name in ("grouping", "grouping_id")

    def found_in(self, expression: exp.Expr) -> bool:
        """Is there an aggregate in it (a window function's own call is none)?"""
        return any(True for _ in self.calls(expression))

    def calls(self, expression: exp.Expr) -> Iterator[exp.Expr]:
        """The aggregates in it that stand in no other one."""
        work = [expression]
        while work:
            node = work.pop()
            if isinstance(node, exp.Window):
                function = node.this
                while isinstance(function, _WRAPPERS):
                    work += [v for v in (function.args.get("expression"),) if v is not None]
                    function = function.this
                work += list(function.iter_expressions())
                work += [c for c in node.iter_expressions() if c is not node.this]
            elif self.is_unit(node):
                yield node
            else:
                work += list(node.iter_expressions())

    def taken_out(
        self,
        expression: exp.Expr,
        keys: dict[str, exp.Expr],
        register: Callable[[exp.Expr], exp.Expr],
        on_subquery: Callable[[exp.Expr], exp.Expr],
    ) -> exp.Expr:
        """`expression` over the output of an aggregation: parts equal to a key (by text),
        aggregate calls, and what stands for subqueries are replaced."""
        plain = all(_COLUMN.fullmatch(key) for key in keys)

        def walk(node: exp.Expr) -> exp.Expr:
            key = None
            if isinstance(node, exp.Column) or not (plain or isinstance(node, _NO_VALUES)):
                key = keys.get(to_sql(node))
            if key is not None:
                return key.copy()
            if isinstance(node, exp.Window):
                return rebuilt(node, lambda c: called(c) if c is node.this else walk(c))
            if self.is_unit(node):
                return register(node)
            return rebuilt(on_subquery(node) if is_placeholder(node) else node, walk)

        def called(node: exp.Expr) -> exp.Expr:
            if isinstance(node, _WRAPPERS):
                return rebuilt(node, lambda c: called(c) if c is node.this else walk(c))
            return rebuilt(node, walk)

        return walk(expression)


def windows_taken_out(expression: exp.Expr, register: Callable[[exp.Window], exp.Expr]) -> exp.Expr:
    """`expression` with each window call replaced by what `register` gives."""

    def walk(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            return register(node)
        return rebuilt(node, walk)

    return walk(expression)
