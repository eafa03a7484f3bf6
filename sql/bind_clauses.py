"""What a SELECT computes of the rows of its FROM items, as it goes from clause to clause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from tidewheel.planner.logical import SortKey


@dataclass(slots=True)
class Item:
    """One column of the SELECT list: its label and its bound expression."""

    label: str
    expr: exp.Expr
    aliased: bool


@dataclass(slots=True)
class Clauses:
    """Bound expressions that are still to be computed; a clause that is done with is empty.

    `where`: only conditions whose subqueries read columns of the SELECTs around.
    """

    items: list[Item]
    where: list[exp.Expr] = field(default_factory=list)
    having: list[exp.Expr] = field(default_factory=list)
    qualify: list[exp.Expr] = field(default_factory=list)
    order: list[SortKey] = field(default_factory=list)

    def exprs(self) -> list[exp.Expr]:
        """All of them, clause by clause."""
        keys = (k.expr for k in self.order)
        return [*(i.expr for i in self.items), *self.where, *self.having, *self.qualify, *keys]

    def change(self, to: Callable[[exp.Expr], exp.Expr]) -> None:
        """Put `to(e)` for each expression, in the order of `exprs`."""
        for item in self.items:
            item.expr = to(item.expr)
        self.where = [to(e) for e in self.where]
        self.having = [to(e) for e in self.having]
        self.qualify = [to(e) for e in self.qualify]
        self.order = [SortKey(to(k.expr), k.descending, k.nulls_first) for k in self.order]
