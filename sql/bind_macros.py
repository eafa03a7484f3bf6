"""Calls of macros, replaced by what they stand for: DuckDB's catalog has it as text.

A macro's parameters are columns there, or qualify the names of their fields, and its other names
mean what they mean where it is called; so to replace the call in the tree is what DuckDB does, too.
What cannot be replaced (a default, which the catalog does not show, or a macro over a window) is
`NotTaken`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from tidewheel.planner.order_of_rows import OF_MACROS, WRITTEN
from tidewheel.planner.text import identifier, to_sql

from . import functions, introspection
from .bind_names import parameters
from .bind_scope import FURTHER_OUT, NotTaken, parts_of
from .bind_types import Oracle, with_types_spelled_out
from .functions import Macro
from .view_text import bare_lambdas

Parse = Callable[[str], "exp.Query | str"]

_MANY = 1000
_OVER_A_CALL = (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, exp.Dot)


def written_out(tree: exp.Query, oracle: Oracle, parse: Parse) -> exp.Query:
    """`tree` without calls of macros, and names of types, that somebody made."""
    return with_types_spelled_out(expanded(tree, oracle, parse), oracle)


def expanded(tree: exp.Query, oracle: Oracle, parse: Parse) -> exp.Query:
    """`tree` without calls of macros that somebody made, and of those over aggregates.

    `parse` gives the tree of a query, or why there is none.
    """
    made = 0
    work = _calls(tree)
    if not (work or oracle.made()):
        return tree
    known = oracle.bodies()
    while work:
        call = work.pop()
        macro = _meant(call, known.get(call.name.lower(), ()), oracle)
        if macro is None:
            continue
        made += 1
        if made > _MANY:
            raise NotTaken("macros that call more than a thousand others")
        new = _table(call, macro, parse) if macro.table else _value(call, macro, parse)
        work += _calls(new)
    _refuse_others(tree, known, oracle)
    return tree


def _refuse_others(tree: exp.Query, known: Mapping[str, tuple[Macro, ...]], oracle: Oracle) -> None:
    """NotTaken if a macro that somebody made is still called: operators know DuckDB's own only."""
    own = oracle.made() - introspection.FUNCTIONS
    if not own:
        return
    places = _places(oracle)
    text = to_sql(tree)
    for token, word in functions.calls(text):
        if word not in own:
            continue
        if text[token.start - 1] == "." or any(m.place in places for m in known[word]):
            raise NotTaken(f"it calls the macro {word}")


def _places(oracle: Oracle) -> tuple[tuple[str, str], ...]:
    """Where a macro is looked for that is called without a qualifier, before DuckDB's own."""
    return (("temp", "main"), *oracle.names.path)


def _calls(tree: exp.Expr) -> list[exp.Anonymous]:
    return [
        call
        for call in tree.find_all(exp.Anonymous)
        if not isinstance(_written(call).parent, _OVER_A_CALL)
        and not _of_a_set(call)
        and call.name.lower() not in introspection.FUNCTIONS
    ]


def _written(call: exp.Anonymous) -> exp.Expr:
    """A call with the schema before it, if that is written: ``s.f(x)``."""
    around = call.parent
    return around if isinstance(around, exp.Dot) and _qualifiers(call) else call


def _qualifiers(call: exp.Anonymous) -> tuple[str, ...]:
    """The names before a call; in front of a value they may be a column, whose method it is."""
    around = call.parent
    if isinstance(around, exp.Table):
        return tuple(p.name for p in (around.args.get("catalog"), around.args.get("db")) if p)
    if not isinstance(around, exp.Dot) or call.arg_key != "expression":
        return ()
    names = [around.this]
    while isinstance(names[0], exp.Dot):
        names[:1] = names[0].this, names[0].expression
    return tuple(n.name for n in names) if all(isinstance(n, exp.Identifier) for n in names) else ()


def _of_a_set(call: exp.Anonymous) -> bool:
    """Is it called as an aggregate is, ``f(DISTINCT x)``?"""
    return any(isinstance(e, exp.Distinct | exp.Order) for e in call.expressions)


def _meant(call: exp.Anonymous, macros: tuple[Macro, ...], oracle: Oracle) -> Macro | None:
    """The macro that DuckDB takes; None where that is not certain."""
    table = isinstance(call.parent, exp.Table)
    qualifiers = _qualifiers(call)
    if qualifiers:
        places = oracle.names.places((*qualifiers, call.name))
    else:
        places = [*_places(oracle), ("system", "main")]
    for place in places:
        here = [m for m in macros if m.place == place and m.table == table]
        if not here:
            continue
        given = len(call.expressions)
        # DuckDB refuses a call that two may be meant by: where one has these parameters, it is it
        fit = [m for m in here if len(m.parameters) == given]
        typed = len(here) > 1 and any(t for m in here for t in m.types)
        return fit[0] if len(fit) == 1 and not typed else None
    return None


def _arguments(call: exp.Anonymous, macro: Macro) -> dict[str, exp.Expr]:
    """What the parameters stand for, by their names in lower case."""
    named = {
        e.name.lower(): e.expression for e in call.expressions if isinstance(e, exp.PropertyEQ)
    }
    rest = [e for e in call.expressions if not isinstance(e, exp.PropertyEQ)]
    free = iter(rest)
    found: dict[str, exp.Expr] = {}
    for name, type_ in zip(macro.parameters, macro.types, strict=True):
        value = named.pop(name.lower(), None)
        if value is None:
            value = next(free, None)
        if value is None:
            raise NotTaken(f"it calls the macro {macro.name}")
        if type_:
            value = exp.Cast(this=exp.Paren(this=value.copy()), to=exp.Var(this=type_))
        found[name.lower()] = value
    if named:
        raise NotTaken(f"it calls the macro {macro.name}")
    return found


def _value(call: exp.Anonymous, macro: Macro, parse: Parse) -> exp.Expr:
    select = _body(f"SELECT {macro.text}", macro, parse)
    if len(select.expressions) != 1 or select.expressions[0].find(exp.Columns, exp.Alias):
        raise NotTaken(f"it calls the macro {macro.name}, which is no plain expression")
    called = call._meta[WRITTEN] if call._meta and WRITTEN in call._meta else macro.name
    for aggregate in select.find_all(*OF_MACROS, exp.Anonymous):
        aggregate.meta[WRITTEN] = called
    select = _filled(select, _arguments(call, macro), macro)
    new: exp.Expr = exp.Paren(this=select.expressions[0])
    # the name of a column that is nothing but a call is the call's text
    old = _written(call)
    if isinstance(old.parent, exp.Select) and old.arg_key == "expressions":
        new = exp.Alias(this=new, alias=identifier(to_sql(old)))
    old.replace(new)
    return new


def _table(call: exp.Anonymous, macro: Macro, parse: Parse) -> exp.Expr:
    item = call.parent
    assert isinstance(item, exp.Table)
    if any(v for k, v in item.args.items() if k not in _OF_A_TABLE):
        raise NotTaken(f"it calls the macro {macro.name}")
    query = _filled(_body(macro.text, macro, parse), _arguments(call, macro), macro)
    new = exp.Subquery(this=query, alias=item.args.get("alias"), joins=item.args.get("joins"))
    item.replace(new)
    return query


_OF_A_TABLE = ("this", "db", "catalog", "alias", "joins")


def _body(text: str, macro: Macro, parse: Parse) -> exp.Query:
    tree = parse(bare_lambdas(text))
    if isinstance(tree, str):
        raise NotTaken(f"it calls the macro {macro.name}: {tree}")
    return tree


def _filled(query: exp.Query, values: dict[str, exp.Expr], macro: Macro) -> exp.Query:
    """`query` with the parameters replaced, in subqueries as well."""
    for node in list(query.find_all(exp.Column)):
        parts = parts_of(node)
        value = values.get(parts[0].lower())
        if value is None or _hidden(node, parts[0].lower()):
            continue
        if len(parts) > 1 and query.find(exp.From):  # which may have an item of that name
            raise NotTaken(f"it calls the macro {macro.name}, which reads fields of {parts[0]}")
        value = value.copy()
        _further_out(value, _depth(node, query) - (not macro.table))
        if len(parts) > 1 or not isinstance(value, _ATOMS):
            value = exp.Paren(this=value)
        for part in node.parts[1:]:
            value = exp.Dot(this=value, expression=part.copy())
        node.replace(value)
    return query


def _further_out(value: exp.Expr, depth: int) -> None:
    """Note that an argument's columns are those of the call, not of the `depth` SELECTs between.

    A subquery in the argument may have SELECTs of its own before these, and others to skip.
    """
    for c in list(value.find_all(exp.Column)) if depth else ():
        own = _depth(c, value)
        skipped = [(at + depth if at >= own else at, n) for at, n in c.meta.get(FURTHER_OUT, ())]
        c.meta[FURTHER_OUT] = (*skipped, (own, depth))


def _depth(node: exp.Expr, query: exp.Expr) -> int:
    """How many scopes lie around `node`, up to that of the call: one in FROM is beside its own."""
    depth, item, beside, at = 0, False, False, node
    while at is not query and at.parent is not None:
        beside = beside or (item and at.arg_key == "this" and _is_from(at.parent))
        at = at.parent
        if isinstance(at, exp.Select):
            depth += not beside
            item, beside = True, False
    return depth


def _is_from(node: exp.Expr) -> bool:
    return isinstance(node, exp.From | exp.Join)


_ATOMS = (exp.Column, exp.Literal, exp.Null, exp.Boolean, exp.Paren)


def _hidden(node: exp.Expr, name: str) -> bool:
    """Is a name that of an element of a list, in a lambda or a comprehension around?"""
    around = node.find_ancestor(exp.Lambda, exp.Comprehension)
    while around is not None:
        if name in parameters(around):
            return True
        around = around.find_ancestor(exp.Lambda, exp.Comprehension)
    return False
