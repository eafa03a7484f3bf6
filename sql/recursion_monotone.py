"""How a query depends on one table in it: the way from the reference up to the query's root.

A reference is *linear* if new rows of the table add the query's rows over them alone:
q(old ∪ new) = q(old) ∪ q(new). It is *monotone* if more rows never take away a row of the query.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from .recursion_aggregates import aggregate_name, aggregates, threshold


@dataclass(frozen=True)
class Use:
    """How a query depends on one reference. `why` and `place` are of what is not monotone.

    `counted`: what it gives for some rows and for others adds up to what it gives for both, each
    row as often; where that is not so it may be linear as far as sets go.
    """

    linear: bool
    monotone: bool = True
    why: str = ""
    place: int | None = None
    counted: bool = True


def climb(table: exp.Expr, root: exp.Expr, offset: int, top_aggregates: bool) -> Use:
    """Follow a reference up to the query's root; what it passes decides."""
    linear, counted, anti = True, True, ""
    place = _position(table, offset)
    node: exp.Expr = table
    while node is not root and node.parent is not None:
        parent = node.parent
        key = node.arg_key
        if isinstance(parent, exp.Join):
            problem = _join_problem(parent, is_right=key == "this")
            if key == "on":
                linear = False
            counted = counted and parent.kind != "SEMI"
            if problem:
                return Use(False, False, problem, place)
        elif isinstance(parent, exp.Select):
            top = parent is root
            counted = counted and not (parent.args.get("distinct") or parent.args.get("group"))
            problem = _select_problem(parent, node, key or "", top and top_aggregates)
            if problem:
                return Use(False, False, problem, place)
            if parent.args.get("having") and not parent.args.get("group") and key != "having":
                if not threshold(parent):
                    return Use(False, False, "it passes a HAVING without GROUP BY", place)
                linear = False
            if parent.args.get("limit") or parent.args.get("offset"):
                return Use(False, False, "it passes a LIMIT", place)
        elif isinstance(parent, exp.Except):
            if key == "expression":
                return Use(False, False, "it is on the right of EXCEPT", place)
            linear, counted = linear and bool(parent.args.get("distinct")), False
        elif isinstance(parent, exp.SetOperation):
            counted = False
            if isinstance(parent, exp.Intersect) and not parent.args.get("distinct"):
                linear = False
        elif isinstance(parent, (exp.Exists, exp.In)):
            if isinstance(parent, exp.In) and key == "this":
                return Use(False, False, "its rows are used as a value", place)
            anti = _polarity(parent, root)
            if anti:
                return Use(False, False, anti, place)
            counted = False
            # From here on the predicate counts, not the reference: go on from its WHERE or ON.
            while not isinstance(parent, (exp.Where, exp.Join, exp.Having)):
                parent = parent.parent  # type: ignore[assignment]
        elif isinstance(parent, exp.Subquery) and _is_scalar(parent):
            return Use(False, False, "it is in a scalar subquery", place)
        elif isinstance(parent, exp.CTE):
            linear = False
        elif isinstance(parent, (exp.Pivot, exp.TableSample)) or parent.args.get("sample"):
            return Use(False, False, f"it passes a {type(parent).__name__.upper()}", place)
        elif isinstance(parent, (exp.Any, exp.All)):
            return Use(False, False, "it is compared with ANY or ALL", place)
        node = parent
    return Use(linear, counted=counted)


def _is_scalar(subquery: exp.Subquery) -> bool:
    """Is a parenthesised query used as a value, not as a table or as a part of a set operation?"""
    parent = subquery.parent
    return not (
        parent is None
        or isinstance(
            parent,
            (
                exp.From,
                exp.Join,
                exp.SetOperation,
                exp.Subquery,
                exp.CTE,
                exp.Lateral,
                exp.In,
                exp.Exists,
            ),
        )
        or (
            isinstance(parent, exp.Select)
            and subquery.arg_key in ("from_", "from", "joins", "laterals")
        )
    )


def _join_problem(join: exp.Join, is_right: bool) -> str:
    side = (join.side or "").upper()
    kind = (join.kind or "").upper()
    method = (join.method or "").upper()
    if side == "FULL":
        return "it is in a FULL JOIN"
    if side == "LEFT" and is_right and kind not in ("SEMI",):
        return "it is on the nullable side of a LEFT JOIN"
    if kind == "ANTI" and is_right:
        return "it is on the right of an ANTI JOIN"
    if method in ("ASOF", "POSITIONAL") or kind in ("ASOF", "POSITIONAL"):
        return f"it is in {'an ASOF' if 'ASOF' in (method, kind) else 'a POSITIONAL'} JOIN"
    return ""


def _select_problem(select: exp.Select, child: exp.Expr, key: str, may_group: bool) -> str:
    """What a SELECT does to the rows of its FROM that is not linear."""
    if key in ("from_", "from"):
        for join in select.args.get("joins") or ():
            side, kind = (join.side or "").upper(), (join.kind or "").upper()
            if side in ("RIGHT", "FULL"):
                return f"it is on the nullable side of a {side} JOIN"
            if (join.method or "").upper() in ("ASOF", "POSITIONAL") or kind == "POSITIONAL":
                return f"it is in a {(join.method or kind).upper()} JOIN"
    if key == "joins":
        joins = select.args.get("joins") or []
        later = joins[joins.index(child) + 1 :] if child in joins else []
        if any((j.side or "").upper() in ("RIGHT", "FULL") for j in later):
            return "it is on the nullable side of a RIGHT JOIN"
    if key == "expressions":
        return "it is in a subquery of the SELECT list"
    if select.args.get("group") and not may_group and not is_distinct(select):
        return "it passes a GROUP BY"
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        return "it passes a DISTINCT ON"
    if select.args.get("qualify"):
        return "it passes a QUALIFY"
    for item in select.expressions:
        for found in (*aggregates(item), *item.find_all(exp.Window)):
            if found.find_ancestor(exp.Select) is not select:
                continue
            if isinstance(found, exp.Window):
                return "it passes a window function"
            if not may_group and found.find_ancestor(exp.Window) is None:
                return f"it passes an aggregate ({aggregate_name(found)})"
    return ""


def is_distinct(select: exp.Select) -> bool:
    """Does a SELECT group rows only to have each once? (GROUPING SETS have rows of none.)"""
    group = select.args.get("group")
    read = [*select.expressions, select.args.get("having"), select.args.get("qualify")]
    return (
        group is not None
        and (bool(group.expressions) or bool(group.args.get("all")))
        and not any(v for k, v in group.args.items() if k not in ("expressions", "all"))
        and not any(isinstance(e, _SETS) or not e.args.get("this") for e in group.expressions)
        and not any(list(aggregates(e)) or e.find(exp.Window) for e in read if e is not None)
    )


_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)


def gives_of_none(query: exp.Expr | None, names: Collection[str]) -> bool:
    """May a query have rows where the tables `names` (in lower case) have none?"""
    if isinstance(query, exp.Subquery | exp.Table):
        joins = query.args.get("joins") or []
        if any(map(_keeps_its_own, joins)):
            return True
        if isinstance(query, exp.Subquery):
            gives = gives_of_none(query.this, names)
        else:
            gives = bool(query.db) or query.name.lower() not in names
        return gives and all(gives_of_none(j.this, names) for j in joins if _needs_its_own(j))
    if not isinstance(query, exp.Query):
        return True
    with_ = query.args.get("with_")
    for cte in with_.expressions if with_ is not None else ():
        if not gives_of_none(cte.this, names):
            names = {*names, cte.alias.lower()}
    if isinstance(query, exp.SetOperation):
        sides = [gives_of_none(s, names) for s in (query.this, query.expression)]
        if isinstance(query, exp.Except):
            return sides[0]
        return all(sides) if isinstance(query, exp.Intersect) else any(sides)
    if not isinstance(query, exp.Select):
        return True
    if not is_distinct(query) and any(list(aggregates(e)) for e in query.expressions):
        group = query.args.get("group")
        if group is None or not group.expressions or group.find(*_SETS):
            return True
    source = query.args.get("from_") or query.args.get("from")
    joins = query.args.get("joins") or []
    if source is None or any(map(_keeps_its_own, joins)):
        return True
    inner = [source.this, *(j.this for j in joins if _needs_its_own(j))]
    where = query.args.get("where")
    condition = where.this if where is not None else None
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        if isinstance(part, exp.Exists):
            inner.append(part.this)
        elif isinstance(part, exp.In) and part.args.get("query"):
            inner.append(part.args["query"])
    return all(gives_of_none(i, names) for i in inner)


def _keeps_its_own(join: exp.Join) -> bool:
    """Has it rows where what it is joined to has none?"""
    return (join.side or "").upper() in ("RIGHT", "FULL") or join.method == "POSITIONAL"


def _needs_its_own(join: exp.Join) -> bool:
    """Has it no rows where what is joined has none?"""
    return not (join.side or "ANTI" in (join.kind or "").upper() or join.method)


def _polarity(predicate: exp.Expr, root: exp.Expr) -> str:
    """Empty if a predicate that turns true can only add rows; else why not."""
    node = predicate
    while node.parent is not None and node is not root:
        parent = node.parent
        if isinstance(parent, (exp.Where, exp.Having)):
            return ""
        if isinstance(parent, exp.Join):
            return "" if not parent.side else f"it is in the condition of a {parent.side} JOIN"
        if isinstance(parent, exp.Not):
            what = "NOT EXISTS" if isinstance(predicate, exp.Exists) else "NOT IN"
            return f"it is negated ({what})"
        if not isinstance(parent, (exp.And, exp.Or, exp.Paren)):
            return "it is in a subquery whose truth is used as a value"
        node = parent
    return "it is in a subquery whose truth is used as a value"


def _position(table: exp.Expr, offset: int) -> int | None:
    start = table.this.meta.get("start") if table.this is not None else None
    return None if start is None else offset + start
