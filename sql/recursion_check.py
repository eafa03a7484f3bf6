"""What a recursion means, and whether it means anything: linear, monotone, stratified.

A reference to a recursive table is *linear* in its query if new rows of the table add the query's
rows over them alone: q(old ∪ new) = q(old) ∪ q(new). It is *monotone* if more rows of the table
never take away a row of the query. A least fixpoint exists where every reference is monotone; where
all are linear it is found from the new rows of each step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..planner.logical import Column, RecKind
from . import errors
from .recursion_aggregates import aggregates
from .recursion_branches import Branch, Parts, parts
from .recursion_branches import parsed as parsed
from .recursion_branches import parsed_text as parsed_text
from .recursion_merges import Merges, group_merges, is_grouped
from .recursion_monotone import Use, climb, gives_of_none
from .recursion_tables import Cte, Reference, Scan, Span

_COLUMN = re.compile(r'[^\W\d][\w$]*|"(?:[^"]|"")*"')


@dataclass(frozen=True)
class Style:
    """How a table's loop is run.

    `reads_all`: the step reads all rows so far instead of the last step's. `terms`: a step with
    several references is split into one term per reference. `native`: DuckDB's own recursion means
    the same. `together`: a step of UNION gives other rows for the last step's rows than for each of
    them (it counts them, negates them); of UNION ALL, it may give rows of none. `merge`: per column
    the aggregate that improves it, None for a key (kind "improve"); `never_null`: columns in the
    text which that needs to be so.
    """

    kind: RecKind
    reads_all: bool = False
    terms: bool = False
    native: bool = False
    together: bool = False
    merge: tuple[str | None, ...] = ()
    never_null: tuple[Span, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def ours(self) -> bool:
        """Has a table that DuckDB would run, too, another meaning here?"""
        return self.kind in ("improve", "mutual") or self.reads_all or self.terms

    def key(self, columns: tuple[Column, ...]) -> tuple[int, ...]:
        """The positions of the key columns."""
        if self.kind == "using_key":
            labels = [c.label.lower() for c in columns]
            return tuple(labels.index(k.strip('"').lower()) for k in self.keys)
        return tuple(i for i, m in enumerate(self.merge) if m is None)


def judge(
    scanned: Scan,
    cte: Cte,
    split: Parts,
    group: list[Cte],
    labels: Mapping[int, Sequence[str]] | None = None,
) -> Style:
    """The meaning of one table of a recursive group; `labels`: its tables' columns, by id.

    Raises ProgrammingError where there is none: the clause, the reason, and what would be right.
    """
    branches = list(split.steps)
    if cte.using_key is not None:
        return _using_key(scanned, cte, split, group)
    counts = [_count(scanned, b.span, cte, group) for b in branches]
    alone = len(group) == 1 and (cte.with_.improving or not cte.with_.mutually)
    if alone and split.operator == "union_all":
        return _linear(scanned, cte, split, group)
    found = Merges() if cte.with_.mutually and not alone else group_merges(scanned, group)
    if alone and max(counts) <= 1 and not found.least:
        return _linear(scanned, cte, split, group)
    uses = {
        id(b): _uses(scanned, b, cte, group, found.takes(cte) and is_grouped(scanned, b))
        for b in branches
    }
    for branch in branches:
        for use in uses[id(branch)]:
            if use.monotone:
                continue
            if alone and not found.least and _is_written_once(scanned, cte, branches):
                return _linear(scanned, cte, split, group)
            raise _not_monotone(scanned, cte, group, use)
    never_null = found.check(scanned, cte, split, labels or {})
    nonlinear = max(counts) > 1
    linear = all(u.linear for b in branches for u in uses[id(b)])
    merge = found.by_table.get(id(cte))
    if merge is not None:
        delta = linear or (alone and not nonlinear)
        terms = linear and nonlinear
        return Style("improve", not delta, terms, merge=merge, never_null=never_null)
    if split.operator == "union":
        linear = linear and id(cte) not in found.counted
        return Style("union", reads_all=not linear, terms=linear and nonlinear)
    if split.operator == "union_all" and (nonlinear or not linear or found.least):
        place = _back(scanned, branches[0].span, cte, group)[-1]
        what = (
            "is part of a recursion that keeps the best values, which has"
            if found.least
            else "is not linear: its step refers to the recursion more than once, which has"
        )
        raise errors.ProgrammingError(
            f'recursive table "{cte.label}" {what} no meaning with UNION ALL in a mutual recursion',
            hint="Write UNION for the least set of rows that satisfies the query.",
            text=scanned.text,
            position=place.name.start,
            length=place.name.end - place.name.start,
        )
    if not linear or found.least or _is_recounted(scanned, group):
        return Style("mutual", reads_all=True)
    return Style("union_all", terms=nonlinear)


def _is_recounted(scanned: Scan, group: list[Cte]) -> bool:
    """Is what a table without UNION has of new rows not all that it has more, in any of the group?

    Where a table has UNION ALL they see the last step's rows, and give what they have of those.
    """
    tables = [(cte, parts(scanned, cte, _back(scanned, cte.body, cte, group))) for cte in group]
    if any(split.operator == "union_all" for _, split in tables):
        return False
    return any(
        not (use.linear and use.counted)
        for cte, split in tables
        if split.operator is None
        for branch in split.steps
        for use in _uses(scanned, branch, cte, group)
    )


def is_monotone(scanned: Scan, cte: Cte, split: Parts, group: list[Cte]) -> bool:
    """Do more rows of the group never take one of the table's away?"""
    return all(u.monotone for b in split.steps for u in _uses(scanned, b, cte, group))


def is_aggregated(cte: Cte) -> bool:
    """Has USING KEY more than columns? Its aggregates are DuckDB's."""
    return any(not _COLUMN.fullmatch(k) for k in cte.using_key or ())


def _using_key(scanned: Scan, cte: Cte, split: Parts, group: list[Cte]) -> Style:
    keys = cte.using_key or ()
    if len(group) > 1:
        raise errors.ProgrammingError(
            f'table "{cte.label}" with USING KEY is part of a mutual recursion',
            hint="Use WITH MUTUALLY RECURSIVE.",
            text=scanned.text,
            position=cte.name.start,
            length=cte.name.end - cte.name.start,
        )
    return Style("using_key", native=True, keys=keys)


def _linear(scanned: Scan, cte: Cte, split: Parts, group: list[Cte]) -> Style:
    """SQL's own recursion: the step sees the last step's rows, whatever it does with them.

    Under UNION ALL this is so however often it refers to them: no set of rows is the least there.
    """
    native = len(split.steps) == 1 and all(
        b.span.end <= split.steps[0].span.start for b in split.anchors
    )
    if split.operator == "union_all":
        return Style("union_all", native=native, together=of_none(scanned, split, group))
    return Style("union", native=native, together=not is_monotone(scanned, cte, split, group))


def of_none(scanned: Scan, split: Parts, group: Sequence[Cte]) -> bool:
    """May a step have rows where the tables of the group have none?"""
    names = {c.key for c in group}
    return any(gives_of_none(parsed(scanned, b.span), names) for b in split.steps)


def by_turns(scanned: Scan, split: Parts, group: list[Cte]) -> bool:
    """Does a step read all rows so far, and may it count in which iteration they were found?

    It does not where a step under UNION reads nothing else of the group, and more rows of it never
    take a row of the step away: then the answer is the least fixpoint.
    """
    return any(_by_turns(scanned, step, split.operator, group) for step in split.steps)


def _by_turns(scanned: Scan, step: Branch, operator: str | None, group: list[Cte]) -> bool:
    inside = [
        r for r in scanned.references if step.span.holds(r.name) and scanned.resolve(r) in group
    ]
    if not any(r.recurring for r in inside):
        return False
    if operator != "union" or not all(r.recurring for r in inside):
        return True
    tables = [c for w in scanned.withs for c in w.ctes if step.span.holds(c.definition)]
    if any(c.body.holds(r.name) for c in tables for r in inside):
        return True
    return not all(u.monotone for u in _climbed(scanned, step.span, inside, False))


def enough(scanned: Scan, cte: Cte) -> int | None:
    """How many rows of a recursive table a query can look at; None: perhaps all.

    It is known if every reference to the table is a plain ``SELECT … FROM table LIMIT n``.
    """
    with_ = cte.with_
    if any(c.body.holds(with_.head) for w in scanned.withs if w.recursive for c in w.ctes):
        return None
    spans = [c.body for c in with_.ctes if c is not cte]
    spans.append(Span(with_.ctes[-1].definition.end, with_.scope.end))
    found = [
        table
        for span in spans
        if (query := parsed(scanned, span)) is not None
        for table in query.find_all(exp.Table)
        if table.name.lower() == cte.key and not table.db
    ]
    readers = [
        r for r in scanned.references if scanned.resolve(r) is cte and not cte.body.holds(r.name)
    ]
    counts = [_looked_at(table) for table in found]
    if not counts or len(readers) != len(found):
        return None
    return None if None in counts else max(c for c in counts if c is not None)


def _looked_at(table: exp.Table) -> int | None:
    """The sum of LIMIT and OFFSET of the plain SELECT that reads a table."""
    select = table.find_ancestor(exp.Select)
    if select is None:
        return None
    given = {key for key, value in select.args.items() if value}
    if not given <= {"expressions", "from_", "from", "limit", "offset"} or "limit" not in given:
        return None
    if (select.args.get("from_") or select.args["from"]).this is not table:
        return None
    if table.args.get("joins") or any(aggregates(select)):
        return None
    if list(select.find_all(exp.Window, exp.Subquery, exp.Exists)):
        return None
    total = 0
    for name in ("limit", "offset"):
        clause = select.args.get(name)
        if clause is None:
            continue
        number = clause.expression
        if not isinstance(number, exp.Literal) or number.is_string or not number.this.isdecimal():
            return None
        total += int(number.this)
    return total


# -- references


def _back(scanned: Scan, span: Span, cte: Cte, group: list[Cte]) -> list[Reference]:
    return [
        r
        for r in scanned.references
        if span.holds(r.name) and not r.recurring and scanned.resolve(r) in group
    ]


def _count(
    scanned: Scan, span: Span, cte: Cte, group: list[Cte], seen: tuple[Cte, ...] = ()
) -> int:
    """How often a query reads the group, through its local tables, too."""
    total = 0
    for reference in scanned.references:
        if not span.holds(reference.name) or reference.recurring:
            continue
        if any(
            span.holds(c.definition) and c.body.holds(reference.name)
            for w in scanned.withs
            for c in w.ctes
        ):
            continue  # counted where that local table is read
        target = scanned.resolve(reference)
        if target in group:
            total += 1
        elif target is not None and target not in seen and cte.body.holds(target.definition):
            total += _count(scanned, target.body, cte, group, (*seen, target))
    return total


def _is_written_once(scanned: Scan, cte: Cte, branches: Sequence[Branch]) -> bool:
    """Does no step name its table twice? (It may read a local table over it several times.)"""
    return all(len(_back(scanned, b.span, cte, [cte])) <= 1 for b in branches)


def _uses(
    scanned: Scan,
    branch: Branch,
    cte: Cte,
    group: list[Cte],
    top_aggregates: bool = False,
    seen: tuple[Cte, ...] = (),
) -> list[Use]:
    """How the branch depends on each of its references to the group."""
    span = branch.span
    query = parsed(scanned, span)
    references = _back(scanned, span, cte, group)
    indirect = _count(scanned, span, cte, group) > len(references)
    found = _climbed(scanned, span, references, top_aggregates)
    if query is not None and (not references or indirect):
        # The group is read through tables of the query's own WITH clause.
        found.extend(_through_local(scanned, span, cte, group, query, top_aggregates, seen))
    return found


def _climbed(
    scanned: Scan, span: Span, references: Sequence[Reference], top_aggregates: bool
) -> list[Use]:
    """How a query depends on these references in it."""
    query = parsed(scanned, span)
    if query is None:
        return [Use(False, False, "it cannot be analysed", span.start)]
    by_start = {}
    for table in query.find_all(exp.Table):
        first = table.args.get("db") or table.this  # recurring.name, or name
        start = first.meta.get("start") if first is not None else None
        if start is not None:
            by_start[span.start + start] = table
    found = []
    for reference in references:
        node = by_start.get(reference.name.start)
        if node is None:
            found.append(Use(False, False, "it cannot be analysed", reference.name.start))
        else:
            found.append(climb(node, query, span.start, top_aggregates))
    return found


def _through_local(
    scanned: Scan,
    span: Span,
    cte: Cte,
    group: list[Cte],
    query: exp.Expr,
    top_aggregates: bool,
    seen: tuple[Cte, ...],
) -> list[Use]:
    found: list[Use] = []
    for reference in scanned.references:
        target = scanned.resolve(reference)
        if (
            span.holds(reference.name)
            and target is not None
            and target not in group
            and target not in seen
            and cte.body.holds(target.definition)
            and _count(scanned, target.body, cte, group)
        ):
            for table in query.find_all(exp.Table):
                start = table.this.meta.get("start") if table.this is not None else None
                if start is not None and span.start + start == reference.name.start:
                    use = climb(table, query, span.start, top_aggregates)
                    found.append(Use(False, use.monotone, use.why, use.place))
            inner = Branch(target.body, None, target.body)
            found.extend(
                Use(False, u.monotone, u.why, u.place)
                for u in _uses(scanned, inner, cte, group, seen=(*seen, target))
            )
    return found


def _not_monotone(scanned: Scan, cte: Cte, group: list[Cte], use: Use) -> errors.ProgrammingError:
    cycle = " → ".join([*(c.label for c in group), group[0].label])
    target = next(
        (r for r in scanned.references if use.place is not None and r.name.start == use.place), None
    )
    what = f'the reference to "{target.label}"' if target else "a reference"
    return errors.ProgrammingError(
        f"recursion without a least fixpoint: in the cycle {cycle}, {what} is not monotone: "
        f"{use.why}",
        hint="Rows that are found later could take back what follows from it. Move it out of the "
        "cycle, or write WITH MUTUALLY RECURSIVE, which evaluates any query until nothing changes.",
        text=scanned.text,
        position=use.place,
        length=len(target.label) if target else 1,
    )
