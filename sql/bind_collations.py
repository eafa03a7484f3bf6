"""Queries of tables whose columns have a collation.

One that leaves such a column out, or hands it on as it is, can be taken apart: the plan has it
without its collation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

_UNSEEN = (exp.Columns, exp.Pivot, exp.PositionalColumn)
"""What names no column and may mean any."""


def bare(value: exp.Expr) -> exp.Expr:
    """A column without its collation."""
    return exp.Collate(this=value, expression=exp.to_identifier("binary", quoted=True))


def handed_on(tree: exp.Query, collated: Collection[str]) -> bool:
    """Does a query leave out columns of such names, in lower case, or give them as they are?

    By names alone, so the answer may be no where it is yes.
    """
    if tree.find(*_UNSEEN):
        return False
    tables = {table.alias_or_name.lower() for table in tree.find_all(exp.Table, exp.Subquery)}
    shown = [item for item in _shown(tree) if _column(item).name.lower() not in tables]
    seen = {id(part) for item in shown for part in item.walk()}
    again = (item for item in shown if _column(item).name.lower() in collated)
    names = {*collated, *(item.alias_or_name.lower() for item in again)}
    for node in tree.walk():
        if id(node) in seen:
            continue
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return False
        if isinstance(node, exp.Identifier) and node.name.lower() in names:
            return False
        if isinstance(node, exp.TableAlias) and node.columns and isinstance(node.parent, exp.Table):
            return False
        if isinstance(node, exp.Join) and node.method == "NATURAL":
            return False
        if isinstance(node, exp.Column) and node.name.lower() in tables:
            return False  # it may be a whole row
    return True


def _shown(tree: exp.Query) -> Iterator[exp.Expr]:
    """What a query's rows are made of, where that is all that happens to it."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return
    order = tree.args.get("order")
    if order is not None and any(not isinstance(o.this, exp.Column) for o in order.expressions):
        return  # ORDER BY 1, ORDER BY ALL
    for item in tree.expressions:
        value = _column(item)
        if isinstance(value, exp.Column) or (
            isinstance(value, exp.Star) and not any(value.args.values())
        ):
            yield item


def _column(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item
