"""Tables of a recursive group that keep the best value of each key, or count what a group has.

A grouped step under UNION says how the columns of its table are merged (`recursion_aggregates`),
or which keys there are (HAVING count(*) > n). All steps that read such a table, grouped or not,
must be rising in it (`recursion_rising`): then the group has a least fixpoint, in which each key
has its best value, however often the steps refer to the tables and in whatever order they run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from . import errors
from .recursion_aggregates import Merge, Refusal, extent, merges, threshold
from .recursion_branches import Branch, Parts, parsed, parts, prelude
from .recursion_monotone import is_distinct
from .recursion_rising import Columns, derived, rising
from .recursion_tables import Cte, Scan, Span


@dataclass
class Merges:
    """By table (its id): how its columns are merged; and tables of counted groups."""

    by_table: dict[int, tuple[str | None, ...]] = field(default_factory=dict)
    counted: set[int] = field(default_factory=set)
    group: Sequence[Cte] = ()

    @property
    def least(self) -> bool:
        """Is the group the least fixpoint of grouped steps?"""
        return bool(self.by_table or self.counted)

    def takes(self, cte: Cte) -> bool:
        """May the steps of a table be grouped?"""
        return id(cte) in self.by_table or id(cte) in self.counted

    def check(
        self, scanned: Scan, cte: Cte, split: Parts, labels: Mapping[int, Sequence[str]]
    ) -> tuple[Span, ...]:
        """Raise ProgrammingError where a better value may spoil what a step of `cte` derives.

        The columns that must not be NULL, or it may.
        """
        if not self.by_table:
            return ()
        tables: dict[str, Columns] = {}
        for other in self.group:
            merge = self.by_table.get(id(other), ())
            names = [n.lower() for n in labels.get(id(other)) or _labels(scanned, other)]
            ways = ["arg" if (m or "").startswith("arg_") else m or "" for m in merge]
            tables[other.key] = list(zip(names, ways, strict=False))
        never_null: list[Span] = []
        lead = prelude(scanned, cte.body)
        for inner in (c for w in scanned.withs for c in w.ctes if lead.holds(c.definition)):
            query = parsed(scanned, inner.body)
            if query is not None:
                found = derived(query, tables, inner.columns)
                if isinstance(found, Refusal):
                    raise refused(scanned, cte, inner.body.start, found)
                tables[inner.key], asked = found
                never_null += _spans(asked, inner.body.start)
        own = self.by_table.get(id(cte), ())
        for branch in split.steps:
            query = parsed(scanned, branch.span)
            unless = [] if query is None else rising(query, own, tables)
            if isinstance(unless, Refusal):
                raise refused(scanned, cte, branch.span.start, unless)
            never_null += _spans(unless, branch.span.start)
        return tuple(never_null)


def _spans(found: Sequence[exp.Column], start: int) -> list[Span]:
    """Where columns stand, of a part that begins at `start`."""
    return [Span(start + first, start + end) for first, end in map(extent, found)]


def group_merges(scanned: Scan, group: Sequence[Cte]) -> Merges:
    """What the grouped steps of a group keep. Raises ProgrammingError for what none can keep."""
    found = Merges(group=group)
    for cte in group:
        back = [
            r for r in scanned.references if cte.body.holds(r.name) and scanned.resolve(r) in group
        ]
        split = parts(scanned, cte, back)
        if split.operator == "union_all" or cte.using_key is not None:
            continue
        for branch in split.steps:
            query = parsed(scanned, branch.span)
            if not is_grouped(scanned, branch) or not isinstance(query, exp.Select):
                continue
            if is_distinct(query):
                continue
            if threshold(query):
                found.counted.add(id(cte))
                continue
            merge = merges(query)
            if isinstance(merge, Merge) and found.by_table.get(id(cte), merge.columns) != (
                merge.columns
            ):
                merge = Refusal("its steps keep different values")
            if isinstance(merge, Refusal):
                raise refused(scanned, cte, branch.span.start, merge)
            found.by_table[id(cte)] = merge.columns
        if id(cte) in found.by_table and id(cte) in found.counted:
            reason = Refusal("one step keeps the best values, another one compares in HAVING")
            raise refused(scanned, cte, split.steps[0].span.start, reason)
    return found


def _labels(scanned: Scan, cte: Cte) -> Sequence[str]:
    """The columns of a table as far as its text names them."""
    back = [r for r in scanned.references if cte.body.holds(r.name)]
    own = [r for r in back if scanned.resolve(r) is cte]
    anchors = parts(scanned, cte, own).anchors
    query = parsed(scanned, anchors[0].span) if anchors else None
    named = query.named_selects if isinstance(query, exp.Query) else []
    return [*cte.columns, *named[len(cte.columns) :]]


def is_grouped(scanned: Scan, branch: Branch) -> bool:
    """Does the branch itself have a GROUP BY?"""
    depth = 0
    for token in scanned.within(branch.span):
        word = token.text.upper() if token.kind in ("word", "punctuation") else ""
        depth += (word == "(") - (word == ")")
        if depth == 0 and word == "GROUP":
            return True
    return False


def refused(scanned: Scan, cte: Cte, start: int, refusal: Refusal) -> errors.ProgrammingError:
    """The error for a grouped step; `start`: where its text begins."""
    return errors.ProgrammingError(
        f'the step of recursive table "{cte.label}" is not monotone: {refusal.reason}',
        hint="A grouped step under UNION may use min, max, bool_or, bool_and, bit_or, bit_and "
        "and arg_min or arg_max beside them, so that a new value can only improve the old. "
        "For SQL's working table write UNION ALL; for any query, WITH MUTUALLY RECURSIVE.",
        text=scanned.text,
        position=start + (refusal.offset or 0),
        length=refusal.length,
    )
