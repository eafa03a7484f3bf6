"""The parts of a view's text that a proof asks about: its rules, with every table of a WITH clause
named so that SQL can be put in its place.

A query is written with the marks ``"__tw_src_n"`` where it reads a table of a WITH clause, and
parsed; `Reading.sql` puts what each stands for into the text again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from tidewheel.engine.quoting import quoted

from ..planner.dialect import Tidewheel
from . import recursion, view_text
from .parse_trees import same_query
from .recursion_branches import prelude
from .recursion_tables import Cte, Span
from .recursion_text import Cutter, Splice

MARK = "__tw_src_"
_MARK = re.compile(rf'"{MARK}(\d+)"')


class Opaque(Exception):
    """A part of a query that a proof does not take apart; the message says why."""


@dataclass(frozen=True)
class Mark:
    """What a mark stands for: a table of a WITH clause, or all rows so far of a recursive one."""

    cte: Cte
    recurring: bool


@dataclass(eq=False)
class Reading:
    """One query's text, planned, and its rules as trees."""

    text: str
    opened: recursion.Opened
    marks: list[Mark] = field(default_factory=list)
    _trees: dict[Span, exp.Query] = field(default_factory=dict)

    @cached_property
    def body(self) -> Span:
        """The view's own query, without the names that its columns got."""
        text, start = view_text.as_written(self.opened.scan.text)
        return Span(start, start + len(text))

    def tree(self, span: Span) -> exp.Query:
        """The query at `span`. Raises Opaque where sqlglot would not write it as it is."""
        found = self._trees.get(span)
        if found is None:
            found = self._trees[span] = self._parsed(span)
        return found

    def _parsed(self, span: Span) -> exp.Query:
        scan = self.opened.scan
        cutter = Cutter(scan)
        for with_ in scan.withs:
            if span.holds(with_.head):
                whole = Span(with_.head.start, with_.ctes[-1].definition.end)
                cutter.splices[whole] = Splice(whole, " ")
        for reference in scan.references:
            cte = scan.resolve(reference)
            if cte is None or not span.holds(reference.name):
                continue
            alias = "" if reference.aliased else f" AS {quoted(reference.label)}"
            text = f'"{MARK}{self._mark(Mark(cte, reference.recurring))}"{alias}'
            cutter.splices[reference.name] = Splice(reference.name, text)
        text = cutter.part(span).sql.strip()
        try:
            tree = parse_one(text, dialect=Tidewheel)
        except (SqlglotError, RecursionError):
            raise Opaque("the text is not understood well enough") from None
        if not isinstance(tree, exp.Query) or not same_query(text, tree.sql(dialect=Tidewheel)):
            raise Opaque("the text is not understood well enough")
        return tree

    def _mark(self, mark: Mark) -> int:
        if mark not in self.marks:
            self.marks.append(mark)
        return self.marks.index(mark)

    def mark_of(self, table: exp.Table) -> Mark | None:
        """What a table of a tree stands for; None: it is the catalog's."""
        found = _MARK.fullmatch(f'"{table.name}"')
        return self.marks[int(found[1])] if found else None

    def sql(self, tree: exp.Expr, stands_for: Callable[[Mark], str]) -> str:
        """A tree as text that DuckDB can run."""
        text = tree.sql(dialect=Tidewheel)
        return _MARK.sub(lambda m: f"({stands_for(self.marks[int(m[1])])})", text)

    def marks_in(self, tree: exp.Expr) -> list[Mark]:
        """What a tree reads of the WITH clauses, in subqueries too."""
        found = (self.mark_of(t) for t in tree.find_all(exp.Table))
        return [m for m in found if m is not None]

    def shown(self, span: Span, width: int = 160) -> str:
        """A rule as it was written, on one line; a WITH clause before it is left out."""
        scan = self.opened.scan
        text = " ".join(scan.text[self._behind(span) : span.end].split())
        return text if len(text) <= width else text[: width - 1] + "…"

    def line(self, span: Span) -> int | None:
        """The line of a rule in its text, from 1; None if there is one line only, or it was not
        written so.
        """
        if self.opened.scan.text != self.text:
            return None
        text = self.opened.scan.text[self.body.start : self.body.end]
        tokens = self.opened.scan.within(Span(self._behind(span), span.end))
        start = tokens[0].start if tokens else span.start
        if "\n" not in text.strip():
            return None
        return text.count("\n", 0, start - self.body.start) + 1

    def _behind(self, span: Span) -> int:
        end = prelude(self.opened.scan, span).end
        return end if end > span.start else span.start
