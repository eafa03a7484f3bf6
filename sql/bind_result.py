"""The rows that a SELECT gives: its columns, DISTINCT, their order, LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import (
    Column,
    Distinct,
    Filter,
    Named,
    Node,
    Project,
    SortKey,
    names_of,
    references,
)
from tidewheel.planner.text import column, to_sql, unchanged

from .bind_clauses import Clauses
from .bind_correlated import Correlation
from .bind_limit import first_rows, limited, limits, row_numbers
from .bind_scope import NotTaken

if TYPE_CHECKING:
    from .binder import Binder


class Result:
    """Puts these parts of one SELECT over the rows that its clauses leave."""

    def __init__(
        self, binder: Binder, clauses: Clauses, correlation: Correlation, late: bool
    ) -> None:
        """`late`: columns of the SELECT around may stand in the SELECT list (`BoundQuery.late`)."""
        self._binder = binder
        self._clauses = clauses
        self._correlation = correlation
        self._late = late
        self.put_off: list[Named] = []
        """Columns that read the SELECT around: they are computed there."""

    def of(
        self, rows: Node, select: exp.Select, first_of: int, carried: Sequence[Column]
    ) -> tuple[Node, tuple[Column, ...]]:
        """The rows and their columns.

        `first_of`: so many of the keys in `Clauses.order` are DISTINCT ON's. `carried`: columns
        that the SELECT around asks for besides.
        """
        distinct = select.args.get("distinct")
        exprs, columns = self._selected(rows, distinct is not None, carried)
        by_text = {to_sql(e.expr): e.column for e in reversed(exprs)}
        keys: list[SortKey] = []
        hidden: list[Named] = []
        for key in self._clauses.order:
            text = to_sql(key.expr)
            if text not in by_text:
                if distinct is not None and not first_of:
                    raise NotTaken("DISTINCT ordered by what is not selected")
                type_ = self._binder.oracle.types([key.expr], rows.schema)[0]
                by_text[text] = self._binder.names.fresh("sort", type_)
                hidden.append(Named(by_text[text], key.expr))
            keys.append(SortKey(column(by_text[text].name), key.descending, key.nulls_first))
        node: Node = Project(rows, (*exprs, *hidden))
        if first_of:
            node = self._first_rows(node, keys[:first_of], keys[first_of:])
        elif distinct is not None:
            node = Distinct(node)
        each = self._correlation.split("LIMIT") if limits(select) else []
        node = limited(node, select, keys[first_of:], each, self._binder.names)
        if hidden:
            node = Project(node, unchanged(e.column for e in exprs))
        return node, tuple(columns)

    def _selected(
        self, rows: Node, distinct: bool, carried: Sequence[Column]
    ) -> tuple[list[Named], list[Column]]:
        """What is computed of the rows, and the columns of the SELECT list, late ones too."""
        items, visible = self._clauses.items, names_of(rows)
        late = [bool(references(i.expr) - visible) for i in items]
        if any(references(k.expr) - visible for k in self._clauses.order) or (
            any(late) and (not self._late or distinct)
        ):
            raise NotTaken("a column of the SELECT around, outside WHERE")
        around = self._correlation.around() if any(late) else ()
        types = self._binder.oracle.types([i.expr for i in items], (*rows.schema, *around))
        exprs: list[Named] = []
        used: set[str] = {c.name for c in carried}
        columns: list[Column] = []
        for item, type_, later in zip(items, types, late, strict=True):
            if later:
                columns.append(self._binder.names.fresh(item.label, type_))
                self.put_off.append(Named(columns[-1], item.expr))
                continue
            bare = isinstance(item.expr, exp.Column) and item.expr.name not in used
            name = item.expr.name if bare else self._binder.names.fresh(item.label, type_).name
            used.add(name)
            columns.append(Column(name, item.label, type_))
            exprs.append(Named(columns[-1], item.expr))
        exprs += unchanged(carried)
        read = set().union(*(references(e.expr) for e in self.put_off))
        have = {e.column.name for e in exprs}
        exprs += unchanged(c for c in rows.schema if c.name in read - have)
        return exprs or [*unchanged(rows.schema[:1])], columns

    def _first_rows(self, rows: Node, on: Sequence[SortKey], order: Sequence[SortKey]) -> Node:
        """DISTINCT ON: of each group the first row in the order."""
        each = self._correlation.split("DISTINCT ON")
        if not order and each:
            raise NotTaken("DISTINCT ON without ORDER BY in a correlated subquery")
        groups = [*each, *(k.expr for k in on)]
        if not order:
            return first_rows(rows, groups, self._binder.names)
        place, numbered = row_numbers(rows, groups, order, self._binder.names)
        return Filter(numbered, exp.EQ(this=place, expression=exp.Literal.number(1)))
