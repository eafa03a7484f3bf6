"""What names mean: relations in scope, their columns, CTEs, aliases.

DuckDB's rules: names compare without regard to case; a USING column is one column to those who do
not qualify it; `x.y` is column y of table x, else field y of column x.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sqlglot import exp

from tidewheel.planner.logical import Column, Node
from tidewheel.planner.text import column, identifier

FURTHER_OUT = "further_out"
"""In a column's meta: which scopes around do not count for its name, as it comes by a macro's
argument: from which one on, the nearest being 0, and how many."""


class NotTaken(Exception):
    """A construct that the binder leaves to DuckDB; the message is the reason EXPLAIN prints."""


_FIELD = re.compile(r"(?!(?:true|false)\Z)[a-z_]\w*")
_AGAIN = re.compile(r"_\d+\Z")
_CALL = re.compile(r"(?:count_star|count|max|min|sum)\(\w*\)")  # no other call is written so


class Told(str):
    """A name that a table's column has, or that a query gives. What DuckDB calls an expression may
    be another name than that of the expression as sqlglot writes it: ``CAST(x AS VARCHAR)``."""

    __slots__ = ()


def told(label: str) -> bool:
    """Is it certainly what DuckDB calls the column, to the letter?"""
    if isinstance(label, Told) or _CALL.fullmatch(label):
        return True
    return _FIELD.fullmatch(label.lower()) is not None


@dataclass(slots=True)
class Visible:
    """A column as FROM shows it. `merged` is what it is to those who do not qualify it: itself, a
    USING column's merged value, or nothing (the other side of USING). `also`: another name of it,
    the function's of ``FROM range(3) r``, where the column is called r."""

    label: str
    column: Column
    merged: Column | None
    also: str = ""
    _lower: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._lower = self.label.lower()

    def called(self, name: str) -> bool:
        """Does a name, in lower case, mean this column?"""
        return name == self._lower or name == self.also


@dataclass(slots=True)
class Relation:
    """A FROM item: the name parts by which it can be qualified, and its columns."""

    path: tuple[str, ...]
    columns: list[Visible]

    def answers_to(self, qualifier: Sequence[str]) -> bool:
        """Can columns be qualified by `qualifier` (one or more name parts)?"""
        if not qualifier or len(qualifier) > len(self.path):
            return False
        tail = self.path[-len(qualifier) :]
        return all(a.lower() == b.lower() for a, b in zip(tail, qualifier, strict=True))


@dataclass(slots=True, eq=False)
class Cte:
    """A WITH table: its query, the scope it was written in, and its plan once it is bound."""

    query: exp.Expr
    labels: tuple[str, ...]
    ctes: dict[str, Cte]
    outer: Scope | None = None
    """What is around the query that has the WITH."""
    bound: tuple[Node, tuple[Column, ...]] | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """The FROM items of one SELECT, and the SELECT around it if this is a subquery."""

    relations: list[Relation] = field(default_factory=list)
    parent: Scope | None = None
    before: bool = False
    """Are these the FROM items before one that is bound as if it did not read them?"""
    aggregates: dict[str, tuple[Column, exp.Expr]] = field(default_factory=dict)
    """Aggregates of this SELECT's rows that subqueries read, as columns of it, by their text."""
    alias: Callable[[str], exp.Expr | None] = field(default=lambda _: None)
    """What a name means that the SELECT list so far gives: subqueries may read it, too."""

    def check(self, node: exp.Column, parts: Sequence[str]) -> None:
        """NotTaken if the argument of a macro means another column here than at the call.

        (In SELECT DuckDB takes that at the call, in WHERE that of the macro's subquery.)
        """
        skipped = node.meta.get(FURTHER_OUT, ()) if node._meta else ()
        place, at = -1, self if skipped else None
        while at is not None:
            place += not at.before
            if at.find(parts) is not None:
                if any(first <= place < first + n for first, n in skipped):
                    raise NotTaken(f"{'.'.join(parts)} has two meanings in the subquery of a macro")
                return
            at = at.parent

    def visible(self) -> Iterator[Visible]:
        """All columns, left to right."""
        return itertools.chain.from_iterable(r.columns for r in self.relations)

    def find(self, parts: Sequence[str]) -> exp.Expr | None:
        """What a column reference means here, None if nothing. Parts are as written."""
        lower = [p.lower() for p in parts]
        for take in range(len(parts) - 1, 0, -1):
            found = self._one(
                [
                    v.column
                    for r in self.relations
                    if r.answers_to(parts[:take])
                    for v in r.columns
                    if v.called(lower[take])
                ],
                parts,
            )
            if found is not None:
                return _fields(found, parts[take + 1 :])
        found = self._one(
            [v.merged for v in self.visible() if v.merged is not None and v.called(lower[0])],
            parts,
        )
        if found is None or (len(parts) > 1 and not _has_fields(found)):
            return None  # a table further out may have the name
        return _fields(found, parts[1:])

    def label(self, parts: Sequence[str]) -> str:
        """What a reference to a column is called in a SELECT list: as the column is, whose name may
        be written in other letters. A field, or a column from around, is called as it is written.
        """
        written = parts[-1]
        others = [v for v in self.visible() if v.called(written.lower()) and v.label != written]
        found = self.find(parts) if others else None
        return next((v.label for v in others if column(v.column.name) == found), written)

    def label_around(self, parts: list[str]) -> str | None:
        """The name of the column here, or in a SELECT around, that a reference means, if one."""
        scope: Scope | None = self
        while scope is not None:
            if scope.find(parts) is not None:
                return scope.label(parts)
            scope = scope.parent
        return None

    def row(self, parts: Sequence[str]) -> exp.Expr | None:
        """A FROM item's row as a STRUCT: what its name means where no column is called so.

        None, too, where DuckDB may call a field something else: ``(id + 1)``, the second ``id``.
        """
        found = [r for r in self.relations if r.answers_to(parts)] if len(parts) == 1 else []
        labels = {v.label.lower() for r in found for v in r.columns}
        if len(found) != 1 or len(labels) < len(found[0].columns):
            return None
        if not all(told(v.label) for v in found[0].columns):
            return None
        if any(_AGAIN.sub("", n) in labels - {n} for n in labels):
            return None
        fields = (
            exp.PropertyEQ(this=identifier(v.label), expression=column(v.column.name))
            for v in found[0].columns
        )
        return exp.Struct(expressions=list(fields))

    def find_around(self, parts: Sequence[str]) -> exp.Expr | None:
        """What it means here, or in the nearest SELECT around where it means something.

        NotTaken if that is a FROM item before this one: it is nearer than any SELECT around.
        """
        scope: Scope | None = self
        while scope is not None:
            found = scope.find(parts) or scope.row(parts)
            if found is not None and scope.before:
                raise NotTaken(f"{'.'.join(parts)} is of a FROM item before this one")
            if found is not None:
                return found
            if len(parts) == 1 and (value := scope.alias(parts[0])) is not None:
                if scope.parent is not None and scope.parent.find_around(parts) is not None:
                    raise NotTaken(f"{parts[0]} is an alias and a column around")
                return value
            scope = scope.parent
        return None

    def items(self, qualifier: Sequence[str]) -> list[Relation]:
        """The FROM items here that `qualifier` names."""
        return [r for r in self.relations if r.answers_to(qualifier)]

    def items_around(self, qualifier: Sequence[str]) -> list[Relation]:
        """Those of the nearest SELECT around that has any; NotTaken as `find_around`."""
        scope = self.parent
        while scope is not None:
            if (found := scope.items(qualifier)) and scope.before:
                raise NotTaken(f"{'.'.join(qualifier)}.* is of a FROM item before this one")
            if found:
                return found
            scope = scope.parent
        return []

    def columns_around(self) -> tuple[Column, ...]:
        """The columns here and of the SELECTs around, each once."""
        found: dict[str, Column] = {}
        scope: Scope | None = self
        while scope is not None:
            for v in () if scope.before else scope.visible():
                found.update((c.name, c) for c in (v.column, v.merged) if c is not None)
            found.update((c.name, c) for c, _ in scope.aggregates.values())
            scope = scope.parent
        return tuple(found.values())

    @staticmethod
    def _one(found: list[Column], parts: Sequence[str]) -> Column | None:
        if len({c.name for c in found}) > 1:
            raise NotTaken(f"the name {'.'.join(parts)} is ambiguous")
        return found[0] if found else None


def _has_fields(of: Column) -> bool:
    return of.type == "JSON" or of.type.upper().startswith("STRUCT")


def _fields(of: Column, names: Sequence[str]) -> exp.Expr:
    value: exp.Expr = column(of.name)
    for name in names:
        if not _has_fields(of):
            raise NotTaken(f"{of.label}.{name} is not a field of a STRUCT or JSON column")
        value = exp.Dot(this=value, expression=identifier(name))
    return value


def parts_of(reference: exp.Column) -> list[str]:
    """The dotted name, outermost first."""
    return [p.name for p in reference.parts]


class Names:
    """Gives columns their plan-unique names, readable in generated SQL."""

    def __init__(self) -> None:
        self._next = itertools.count(1)

    def fresh(self, label: str, type_: str) -> Column:
        """A new column."""
        return Column(f"{_stem(label)}_{next(self._next)}", label, type_)


@lru_cache(maxsize=1000)
def _stem(label: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in label.lower())[:24] or "c"


def deduplicated(labels: Sequence[str]) -> list[str]:
    """The names of a subquery's columns: a repeated one gets _1, _2 … as in DuckDB."""
    seen: dict[str, int] = {}
    taken = {label.lower() for label in labels}
    result = []
    for label in labels:
        key = label.lower()
        if key not in seen:
            seen[key] = 0
            result.append(label)
            continue
        while True:
            seen[key] += 1
            other = f"{label}_{seen[key]}"
            if other.lower() not in taken:
                break
        taken.add(other.lower())
        result.append(other)
    return result
