"""FROM items and joins as they are written: their names, their sides."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidewheel.planner.logical import Column, JoinKind

from .bind_scope import NotTaken, Relation, Visible, deduplicated
from .bind_types import function_name


def to_their_items(joins: Sequence[exp.Join]) -> list[exp.Join]:
    """``FROM a, b RIGHT JOIN c`` joins c to b alone; sqlglot has all joins of a FROM in one list.

    Where it makes no difference they are left so: a LATERAL may then read what is before a comma.
    """
    found: list[exp.Join] = []
    start = 0
    while start < len(joins):
        end = start + 1
        while end < len(joins) and not _is_comma(joins[end]):
            end += 1
        first, rest = joins[start], joins[start + 1 : end]
        if _is_comma(first) and any(map(_tells_sides, rest)):
            item = first.this.copy()
            item.set("joins", [*(item.args.get("joins") or ()), *(j.copy() for j in rest)])
            found.append(exp.Join(this=item))
        else:
            found += joins[start:end]
        start = end
    return found


def holds_joins(item: exp.Subquery) -> bool:
    """Are there FROM items in the parentheses, and no query?"""
    inner = item.this
    if isinstance(inner, exp.Subquery):
        return bool(inner.alias or inner.args.get("joins")) or holds_joins(inner)
    return isinstance(inner, exp.Table)


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(k) for k in ("kind", "side", "method", "on", "using"))


def _tells_sides(join: exp.Join) -> bool:
    """Does it matter which items are on the left of a join?"""
    sided = (join.args.get("side") or "").upper() in ("RIGHT", "FULL")
    return sided or bool(join.args.get("method") or join.args.get("using"))


def alias_of_item(item: exp.Expr) -> tuple[str, tuple[str, ...]]:
    alias = item.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        return "", ()
    return alias.name, tuple(c.name for c in alias.columns)


def rows_of_item(item: exp.Expr, labels: Sequence[str], columns: Sequence[Column]) -> Relation:
    """An UNNEST, table function or subquery in FROM, by the names that its query gives."""
    alias, renamed = alias_of_item(item)
    inner = item.this if isinstance(item, exp.Lateral) else item
    function = function_name(inner.this if isinstance(inner, exp.Table) else inner)
    made = relation(
        (alias or function,), deduplicated(labels), columns, () if function else renamed
    )
    if function and list(labels) == [alias]:
        made.columns[0].also = function
    return made


def relation(
    path: tuple[str, ...],
    labels: Sequence[str],
    columns: Sequence[Column],
    renamed: Sequence[str],
) -> Relation:
    if len(renamed) > len(columns):
        raise NotTaken("more column aliases than columns")
    names = [*renamed, *labels[len(renamed) :]]
    return Relation(path, [Visible(name, c, c) for name, c in zip(names, columns, strict=True)])


def join_kind_of(side: str, kind: str) -> JoinKind:
    kinds: dict[tuple[str, str], JoinKind] = {
        ("", ""): "inner",
        ("", "INNER"): "inner",
        ("", "CROSS"): "cross",
        ("LEFT", ""): "left",
        ("LEFT", "OUTER"): "left",
        ("RIGHT", ""): "right",
        ("RIGHT", "OUTER"): "right",
        ("FULL", ""): "full",
        ("FULL", "OUTER"): "full",
        ("", "SEMI"): "semi",
        ("", "ANTI"): "anti",
    }
    try:
        return kinds[side, kind]
    except KeyError:
        raise NotTaken(f"{side} {kind} JOIN".strip()) from None


def without_lateral(tree: exp.Expr) -> None:
    """Take LATERAL from before table functions, which may read the items before them anyway."""
    for item in list(tree.find_all(exp.Lateral)):
        call = item.this
        if not isinstance(call, exp.Func) or any(item.args.get(k) for k in _OF_OTHERS):
            continue
        call = call if isinstance(call, exp.Unnest) else exp.Table(this=call)
        call.set("alias", item.args.get("alias"))
        item.replace(call)


_OF_OTHERS = ("view", "outer", "ordinality", "joins", "sample")
