"""The WITH clauses of a text, their tables, and the references to them; by position."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal

from .statements import Token


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` … `end` (exclusive) of the text."""

    start: int
    end: int

    def holds(self, other: Span) -> bool:
        """Does `other` lie within this?"""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Limit:
    """``(RETURN | ERROR AT RECURSION LIMIT n)`` of WITH MUTUALLY RECURSIVE."""

    action: Literal["return", "error"]
    iterations: int


@dataclass(frozen=True, slots=True)
class Search:
    """``SEARCH DEPTH | BREADTH FIRST BY by SET column``."""

    order: Literal["depth", "breadth"]
    by: tuple[str, ...]
    column: str


@dataclass(frozen=True, slots=True)
class Cycle:
    """``CYCLE columns SET mark [TO value DEFAULT other] USING path``; values as SQL text."""

    columns: tuple[str, ...]
    mark: str
    value: str
    default: str
    path: str


@dataclass(eq=False, slots=True)
class Cte:
    """One table of a WITH clause. `label` is its name unquoted, `key` what names compare by."""

    with_: With
    label: str
    name: Span
    columns: tuple[str, ...]
    """The column list: names, unquoted."""
    types: tuple[str, ...]
    """The types of a typed column list (WITH MUTUALLY RECURSIVE), else empty."""
    using_key: tuple[str, ...] | None
    body: Span
    """The query, without its parentheses."""
    definition: Span
    """Name to closing parenthesis, with a SEARCH or CYCLE clause."""
    search: Search | None = None
    cycle: Cycle | None = None

    @property
    def key(self) -> str:
        """What its name is compared by."""
        return self.label.lower()


@dataclass(eq=False, slots=True)
class With:
    """A WITH clause. `scope` is where its tables can be seen, `head` WITH … up to the tables."""

    recursive: bool
    mutually: bool
    limit: Limit | None
    head: Span
    scope: Span = field(default_factory=lambda: Span(0, 0))
    ctes: list[Cte] = field(default_factory=list)
    improving: bool = False
    """Was it taken apart into anchor and grouped step? See recursion_grouped."""
    composed: bool = False
    """Was a step that reads its table twice made linear? See recursion_linear."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in a FROM clause. `recurring`: written ``recurring.name``."""

    label: str
    name: Span
    recurring: bool
    aliased: bool
    """Does an alias follow?"""

    @property
    def key(self) -> str:
        """What its name is compared by."""
        return self.label.lower()


@dataclass(slots=True)
class Scan:
    """All that a text says about WITH. Spans are positions in `text`."""

    text: str
    tokens: list[Token]
    withs: list[With] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    qualified: dict[Span, tuple[str, ...]] = field(default_factory=dict)
    """Names in FROM clauses that are no tables of WITH: ``schema.name``, by their parts."""
    written_out: bool = False
    """Had the statement SEARCH and CYCLE clauses, which `text` has not? DuckDB knows none."""

    def within(self, span: Span) -> list[Token]:
        """The tokens of a span."""
        first = bisect_left(self.tokens, span.start, key=lambda t: t.start)
        last = bisect_left(self.tokens, span.end, key=lambda t: t.start)
        return self.tokens[first:last]

    def resolve(self, reference: Reference) -> Cte | None:
        """The table of a WITH clause that a reference means; None: one of the catalog."""
        best: Cte | None = None
        for with_ in self.withs:
            if not with_.scope.holds(reference.name):
                continue
            for cte in with_.ctes:
                if cte.key != reference.key or not _sees(cte, reference):
                    continue
                if best is None or best.with_.scope.holds(with_.scope):
                    best = cte
        return best


def _sees(cte: Cte, reference: Reference) -> bool:
    """In a plain WITH a table is visible behind its definition, in a recursive one everywhere."""
    return cte.with_.recursive or reference.name.start >= cte.definition.end
