"""What ORDER BY and DISTINCT ON of a SELECT go by: its columns, their places, other expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import SortKey

from .bind_clauses import Item
from .bind_limit import is_all
from .bind_scope import NotTaken, parts_of
from .bind_star import each_of_columns

if TYPE_CHECKING:
    from .bind_select import SelectBinder


class Ordering:
    """Binds these clauses of one SELECT, when its columns are bound."""

    def __init__(self, rows: SelectBinder, aliases: dict[str, Item]) -> None:
        """`aliases`: the columns that have a name of their own, by that in lower case."""
        self._rows = rows
        self._aliases = aliases
        self._items = rows.items()

    def keys(self, select: exp.Select) -> list[SortKey]:
        """Those of ORDER BY."""
        order = select.args.get("order")
        if order is None:
            return []
        keys: list[SortKey] = []
        for item in order.expressions:
            expression = item.this
            descending = bool(item.args.get("desc"))
            nulls_first = bool(item.args.get("nulls_first"))
            if item.args.get("with_fill"):
                raise NotTaken("ORDER BY WITH FILL")
            if is_all(expression, order.expressions):
                expression = exp.Var(this="ALL")
            for each in self._each(expression):
                keys += [SortKey(e, descending, nulls_first) for e in self._order_by(each)]
        return keys

    def distinct_on(self, select: exp.Select) -> list[SortKey]:
        """What DISTINCT ON groups by; nothing without it."""
        distinct = select.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return []
        items = on.expressions if isinstance(on, exp.Tuple) else [on]
        each = [e for i in items for e in self._each(i)]
        keys = [SortKey(e, False, False) for i in each for e in self._order_by(i)]
        if not keys:
            raise NotTaken("DISTINCT ON a constant")
        return keys

    def _each(self, expression: exp.Expr) -> list[exp.Expr]:
        return each_of_columns(expression, self._rows.scope, self._rows.binder.oracle)

    def _order_by(self, expression: exp.Expr) -> list[exp.Expr]:
        if isinstance(expression, exp.PositionalColumn):  # here #1 is the first that is selected
            expression = expression.this
        if isinstance(expression, exp.Literal):
            if expression.is_string:
                return []  # a constant orders nothing
            return [self._items[_position(expression, len(self._items))].expr.copy()]
        name = expression.name.lower() if isinstance(expression, (exp.Column, exp.Var)) else ""
        plain = not isinstance(expression, exp.Column) or not expression.table
        if name == "all" and plain and self._rows.scope.find([name]) is None:
            return [i.expr.copy() for i in self._items]
        of_alias = isinstance(expression, exp.Column) and parts_of(expression)[:-1] == ["alias"]
        if name in self._aliases and (plain or of_alias):
            return [self._aliases[name].expr.copy()]
        # a column that is selected once is meant, though the FROM items have more of the name
        selected = [i.expr for i in self._items if _is_named(i, name)] if plain else []
        if len(selected) == 1:
            return [selected[0].copy()]
        if isinstance(expression, exp.Collate):
            raise NotTaken("ORDER BY … COLLATE")
        return [self._rows.clause(expression)]


def _is_named(item: Item, name: str) -> bool:
    """Is it a column of the FROM items that is selected as it is, under its name?"""
    return isinstance(item.expr, exp.Column) and item.label.lower() == name


def _position(literal: exp.Expr, width: int) -> int:
    if not literal.name.isdigit() or not 1 <= int(literal.name) <= width:
        raise NotTaken(f"position {literal.name} of {width} columns")
    return int(literal.name) - 1
