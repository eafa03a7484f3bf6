"""Names in HAVING that are both a column and an alias of the SELECT list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.text import to_sql

from .bind_group import Grouping, bare

if TYPE_CHECKING:
    from .bind_select import SelectBinder


class HavingNames:
    """DuckDB's order: the argument of an aggregate is the column, and so is a key of GROUP BY, or a
    part of one that is written as there; anything else is the alias."""

    def __init__(self, select: SelectBinder, group: exp.Group | None) -> None:
        self._select = select
        self._group = group
        self._known: set[str] | None = None

    def is_alias(self, node: exp.Column) -> bool:
        """Is the alias meant by a name that stands in HAVING?"""
        for part in parts_around(node):
            if part is not node and self._select.aggregates.is_unit(part):
                return False
            if to_sql(bare(self._select.clause(part))) in self._keys():
                return False
        return True

    def _keys(self) -> set[str]:
        if self._known is None:
            select, group = self._select, self._group
            items, aggregates = select.items(), select.aggregates
            if group is None:
                found = []
            elif group.args.get("all"):
                found = [bare(i.expr) for i in items if not aggregates.found_in(i.expr)]
            else:
                sets = Grouping(select, aggregates, group, ()).sets(items)
                found = [key for one in sets for key in one]
            self._known = {to_sql(key) for key in found}
        return self._known


def parts_around(node: exp.Expr) -> Iterator[exp.Expr]:
    """A node and the expressions around it, as far as HAVING goes."""
    at: exp.Expr | None = node
    while at is not None and not isinstance(at, (exp.Having, exp.Query)):
        yield at
        at = at.parent
