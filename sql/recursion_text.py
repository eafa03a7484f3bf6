"""Cut parts out of a statement as they were written, with a few places replaced.

A part that stands inside WITH clauses is given those of their tables that it needs as a prelude;
a recursive table is replaced, where it is defined, by the name of an input. So the references to
it, and everything else, stay as the user wrote them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tidewheel.engine.quoting import quoted

from ..planner.logical import Column, RecPart, RecRef
from .recursion_tables import Cte, Scan, Span, With
from .recursion_ties import open_orders


@dataclass(frozen=True)
class Input:
    """What a text reads besides the catalog: `part` of a recursive variable."""

    variable: str
    part: RecPart
    columns: tuple[Column, ...]

    @property
    def alias(self) -> str:
        """The name by which the text reads it."""
        return f"__tw_{self.variable}" + ("" if self.part == "delta" else f"_{self.part}")

    @property
    def node(self) -> RecRef:
        """The input as a plan."""
        return RecRef(self.variable, self.columns, self.part)

    @property
    def select(self) -> str:
        """SQL that gives the rows under the names that the user knows."""
        items = ", ".join(f"{quoted(c.name)} AS {quoted(c.label)}" for c in self.columns)
        return f"SELECT {items} FROM {quoted(self.alias)}"

    @property
    def empty(self) -> str:
        """SQL that gives no rows of the input's columns."""
        items = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in self.columns)
        return f"SELECT {items} WHERE false"


@dataclass(frozen=True)
class Splice:
    """A replacement of `span` by `text`, which reads `inputs`."""

    span: Span
    text: str
    inputs: tuple[Input, ...] = ()


@dataclass
class Text:
    """SQL put together from pieces of the statement, and what it reads."""

    sql: str = ""
    inputs: list[Input] = field(default_factory=list)

    def add(self, sql: str, inputs: tuple[Input, ...] | list[Input] = ()) -> None:
        """Append `sql`."""
        self.sql += sql
        self.inputs.extend(i for i in inputs if i not in self.inputs)


class Cutter:
    """Cuts spans out of a scanned statement. `splices` holds the lasting replacements."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.splices: dict[Span, Splice] = {}
        self._number_parameters()
        for end, text in open_orders(scan):
            self.splices[Span(end, end)] = Splice(Span(end, end), text)

    def _number_parameters(self) -> None:
        """Write each ``?`` as ``$n``, for a part has some of a statement's parameters only."""
        marks = [t for t in self.scan.tokens if t.kind == "parameter" and t.text == "?"]
        for n, token in enumerate(marks, 1):
            span = Span(token.start, token.start + 1)
            self.splices[span] = Splice(span, f"${n}")

    def ask_not_null(self, columns: tuple[Span, ...], label: str) -> None:
        """Let a NULL in one of the `columns` of the step of table `label` be an error."""
        for span in columns:
            name = self.scan.text[span.start : span.end]
            reason = (
                f'the step of recursive table "{label}" is not monotone where {name} is NULL: '
                "give it a value, or leave those rows out"
            ).replace("'", "''")
            check = f"coalesce({name}, error('{reason}'))"
            self.splices[span] = Splice(span, check)

    def inside(self, outer: Span, span: Span) -> bool:
        """Does `span` lie within something that was replaced in `outer`?"""
        return any(outer.holds(s) and s.holds(span) for s in self.splices)

    def part(self, span: Span, local: dict[Span, Splice] | None = None) -> Text:
        """The text of `span`; `local` are replacements for this call alone."""
        found = Text()
        position = span.start
        every = {**self.splices, **(local or {})}
        for splice in sorted(every.values(), key=lambda s: (s.span.start, -s.span.end)):
            if splice.span.start < position or splice.span.end > span.end:
                continue
            found.add(self.scan.text[position : splice.span.start])
            found.add(splice.text, splice.inputs)
            position = splice.span.end
        found.add(self.scan.text[position : span.end])
        return found

    def needed(self, span: Span, local: Collection[Span] = ()) -> list[Cte]:
        """The tables of WITH clauses around `span` that it reads, directly or through others.

        References in places of `local` do not count: they are to be replaced.
        """
        found: list[Cte] = []
        todo = [span]
        while todo:
            part = todo.pop()
            for reference in self.scan.references:
                if not part.holds(reference.name) or self.inside(part, reference.name):
                    continue
                if any(place.holds(reference.name) for place in local):
                    continue
                cte = self.scan.resolve(reference)
                if cte is None or cte in found or span.holds(cte.definition):
                    continue
                found.append(cte)
                if cte.definition not in self.splices:
                    todo.append(cte.body)
        return found

    def query(
        self,
        span: Span,
        columns: tuple[Column, ...] = (),
        casts: tuple[bool, ...] = (),
        local: dict[Span, Splice] | None = None,
    ) -> Text:
        """The query at `span` as a statement of its own, its columns renamed to `columns`.

        `casts[i]`: column i is cast to its type.
        """
        body = self.part(span, local)
        if columns:
            body = renamed(body, columns, casts)
        return self.within(body, self.needed(span, local or ()))

    def within(self, body: Text, tables: list[Cte]) -> Text:
        """`body` behind the definitions of `tables`, one WITH clause per clause of theirs."""
        clauses: list[With] = []
        for cte in tables:
            if cte.with_ not in clauses:
                clauses.append(cte.with_)
        for clause in sorted(clauses, key=lambda w: w.head.start, reverse=True):
            outer = Text()
            outer.add("WITH RECURSIVE " if clause.recursive else "WITH ")
            own = sorted((c for c in tables if c.with_ is clause), key=lambda c: c.name.start)
            for i, cte in enumerate(own):
                definition = self.part(cte.definition)
                outer.add((", " if i else "") + definition.sql, definition.inputs)
            # of one WITH behind another DuckDB forgets the second, also where that has parentheses
            wrap = body.sql.lstrip("( \n")[:4].upper() == "WITH"
            outer.add("\nSELECT * FROM (\n" if wrap else "\n")
            outer.add(body.sql, body.inputs)
            outer.add("\n)" if wrap else "")
            body = outer
        return body


def renamed(text: Text, columns: tuple[Column, ...], casts: tuple[bool, ...] = ()) -> Text:
    """A query with its columns renamed to `columns`, and cast to their types where asked."""
    names = [f"c{i}" for i in range(len(columns))]
    items = ", ".join(
        f"CAST({n} AS {c.type}) AS {quoted(c.name)}" if cast else f"{n} AS {quoted(c.name)}"
        for n, c, cast in zip(names, columns, casts or (False,) * len(names), strict=True)
    )
    found = Text()
    found.add(f"SELECT {items} FROM (\n")
    found.add(text.sql, text.inputs)
    found.add(f"\n) AS __tw_s({', '.join(names)})")
    return found
