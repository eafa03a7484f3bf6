"""The plan of a scanned statement's recursions: which loops there are, and where they stand.

A group is planned once what it reads is. It stands as far out as it can: in the innermost loop
whose variables it reads, else around the statement (see recursion, docs/recursion.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from tidewheel.engine.quoting import quoted

from ..planner.logical import Binding, Block, Column, LetRec, Node, RecKind
from . import errors
from . import recursion_check as check
from .recursion_branches import Parts, parts
from .recursion_describe import Describer
from .recursion_groups import groups
from .recursion_least import NotLeast, taken_apart
from .recursion_member import Correlated, Member, Native, Texts
from .recursion_nodes import afterwards, around, finite, free, means_same, reads_more
from .recursion_once import read_again
from .recursion_tables import Cte, Scan, Span
from .recursion_text import Cutter, Input, Splice, Text
from .recursion_whole import is_back, mentions, whole_text

Correlation = Literal["all", "ours", "none"]


@dataclass(frozen=True)
class Plan:
    """A statement with its recursions taken out.

    `node`: the whole statement, if it is a query. For a statement that changes rows `text` is what
    remains of it, to be run with the rows of `sources` at hand under their names. The texts name
    the statement's ``?`` parameters ``$1``, ``$2`` …
    """

    node: Node
    text: str
    sources: tuple[tuple[str, Node], ...]


@dataclass(frozen=True)
class RecursiveTable:
    """A recursive table of a query that was planned: its branches, and how its loop runs.

    `group`: the variables of the tables that it and that refer to each other, in their order.
    `exact`: a step reads the rows of the step before it alone.
    """

    cte: Cte
    parts: Parts
    binding: Binding
    group: tuple[str, ...]
    exact: bool


@dataclass
class _Frame:
    """A loop around the part that is being planned; `lets` are to stand around that part."""

    variables: frozenset[str]
    lets: list[LetRec] = field(default_factory=list)
    spliced: list[Span] = field(default_factory=list)


class Planner:
    """Plans the recursions of one statement: each group of tables becomes a `LetRec`."""

    def __init__(
        self,
        scanned: Scan,
        describe: Describer,
        correlated: Correlation = "ours",
        rewrite: bool = True,
    ) -> None:
        """`correlated`: which recursions over the rows of a query around them are refused, as
        `Correlated`: all, those that DuckDB cannot run, or none (they stay in the text). `rewrite`:
        WITH MUTUALLY RECURSIVE may be run as what means the same (see `least`).
        """
        self.scan = scanned
        self.correlated = correlated
        self.rewrite = rewrite
        self.inlined = False
        """Does the statement read the results where it refers to them? DuckDB 2.0 gives some rows
        several times where a subquery of a subquery, with a WITH clause, reads what is around both.
        """
        self.left: Correlated | None = None  # one that DuckDB cannot run
        self.describe = describe
        self.cutter = Cutter(scanned)
        self.texts = Texts(scanned, describe, self.cutter)
        self.frames = [_Frame(frozenset())]
        self.groups = groups(scanned)
        self.tables: dict[Span, RecursiveTable] = {}
        self.settled: set[int] = set()  # tables that are planned, or left to DuckDB
        self.count = 0

    def statement(self, is_query: bool, always: bool = False) -> Plan | None:
        """The plan of the statement; None if no loop is ours, and it is not `always` wanted."""
        whole = Span(0, len(self.scan.text))
        self.prepare(whole)
        lets = self.frames[0].lets
        if not lets and not always:
            return None
        rest = self.cutter.part(whole, self.inputs() if self.inlined else None)
        if len(lets) == 1 and [b.kind for b in lets[0].bindings] in (["union"], ["union_all"]):
            # What has been found stays, so it may be enough before the recursion's end.
            variable = lets[0].bindings[0].variable
            found = [t.cte for t in self.tables.values() if t.binding.variable == variable]
            if found:
                lets = [replace(lets[0], enough=check.enough(self.scan, found[0]))]
        if not is_query:
            sources = tuple((i.alias, around(lets, i.node)) for i in rest.inputs)
            return Plan(Block(rest.sql, (), (), (), "a statement"), rest.sql, sources)
        described = self.texts.answered(rest, whole)
        columns = tuple(Column(f"r_{i}", label, t) for i, (label, t) in enumerate(described))
        node = around(lets, self.texts.block(rest, columns, "reads a recursion"))
        if isinstance(node, LetRec) and all(map(means_same, lets)):
            node = replace(
                node, whole=whole_text(self.scan), ends=finite(lets), limited=self.limited(lets)
            )
        return Plan(node, rest.sql, ())

    def inputs(self) -> dict[Span, Splice]:
        """Inputs in the places of the references to recursive tables."""
        found = {}
        for reference in self.scan.references:
            target = self.scan.resolve(reference)
            table = None if target is None else self.tables.get(target.definition)
            if table is not None:
                wanted = Input(table.binding.variable, "delta", table.binding.columns)
                alias = "" if reference.aliased else f" AS {quoted(reference.label)}"
                text = f"({wanted.select}){alias}"
                found[reference.name] = Splice(reference.name, text, (wanted,))
        return found

    def limited(self, lets: list[LetRec]) -> bool:
        """May a recursion go on for ever, but for a LIMIT?"""
        return not finite(lets) and mentions(self.scan, "LIMIT")

    def prepare(self, span: Span) -> None:
        """Plan the recursions that `span` defines or reads."""
        for cte in self.cutter.needed(span):
            self.prepare_cte(cte)
        for with_ in self.scan.withs:
            if span.holds(with_.head) and not self.cutter.inside(span, with_.head):
                for cte in with_.ctes:
                    self.prepare_cte(cte)

    def prepare_cte(self, cte: Cte) -> None:
        if id(cte) in self.settled:
            return
        self.settled.add(id(cte))
        group = self.groups.get(id(cte))
        if group is None:
            self.prepare(cte.body)
            if self.groups and read_again(self.scan, self.describe, self.groups, cte):
                self.once(cte)
            return
        self.settled.update(id(c) for c in group)
        if any(check.is_aggregated(c) for c in group) or (group[0].using_key and self.collates()):
            return
        before = dict(self.cutter.splices)
        try:
            self.group(group)
        except Native:
            self.cutter.splices = before
        except Correlated as refusal:
            ours = len(group) > 1 or group[0].with_.mutually or self.is_ours(group)
            if self.correlated == "all" or (ours and self.correlated == "ours"):
                raise
            if ours:
                self.left = refusal
            elif (error := self.texts.told(refusal)) is not None:
                if error is refusal.error:
                    raise
                raise error from None
            self.cutter.splices = before

    def once(self, cte: Cte) -> None:
        """Let a table that is no recursive one be evaluated before all that reads it."""
        self.count += 1
        name = re.sub(r"\W", "_", cte.label)
        member = Member(cte, Parts((), (), None), f"{name}_{self.count}")
        try:
            found = self.texts.columns(self.cutter.query(cte.body), cte.body)
        except (Correlated, errors.Error):
            return  # it reads a query around it, or DuckDB tells what is wrong with it
        member.columns = self.texts.named(member, found)
        anchor = self.texts.block(
            self.cutter.query(cte.body, member.columns), member.columns, "once"
        )
        empty = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in member.columns)
        step = self.texts.block(Text(f"SELECT {empty} WHERE false"), member.columns, "no step")
        binding = Binding(member.variable, member.columns, anchor, (step,), "union_all", same=True)
        self.texts.define([member], "delta")
        self.place(LetRec((binding,), step))

    def collates(self) -> bool:
        """May text be compared by a collation? The loops and what they hand on know of none."""
        return mentions(self.scan, "COLLATE") or self.describe.collated

    def is_ours(self, group: list[Cte]) -> bool:
        """Has a recursion that DuckDB would run, too, another meaning here?"""
        cte = group[0]
        back = [r for r in self.scan.references if is_back(self.scan, r, cte, group)]
        return check.judge(self.scan, cte, parts(self.scan, cte, back), group).ours

    def group(self, group: list[Cte]) -> None:
        with_ = group[0].with_
        members = []
        for cte in group:
            if cte.types and not with_.mutually:
                raise errors.ProgrammingError(
                    f'the column list of "{cte.label}" has types',
                    hint="WITH RECURSIVE takes them from the anchor: cast there. Only WITH "
                    "MUTUALLY RECURSIVE has them in the list.",
                    text=self.scan.text,
                    position=cte.name.start,
                    length=cte.name.end - cte.name.start,
                )
            back = [r for r in self.scan.references if is_back(self.scan, r, cte, group)]
            self.count += 1
            name = re.sub(r"\W", "_", cte.label)
            split = Parts((), (), None) if with_.mutually else parts(self.scan, cte, back)
            members.append(Member(cte, split, f"{name}_{self.count}"))
        for member in members:
            for span in self.outside(member):
                self.prepare_outside(span, group)
        if with_.mutually:
            self.declared(members)
            bindings = self.least(members, group) or self.mutual(members)
        else:
            self.type_members(members, group)
            bindings = tuple(self.bind(m, members, group) for m in members)
        self.texts.define(members, "delta")
        for member, binding in zip(members, bindings, strict=True):
            exact = len(members) == 1 and not reads_more(binding)
            variables = tuple(m.variable for m in members)
            self.tables[member.cte.definition] = RecursiveTable(
                member.cte, member.parts, binding, variables, exact
            )
        limit = (with_.limit.action, with_.limit.iterations) if with_.limit else None
        self.place(LetRec(bindings, bindings[0].steps[0], limit))

    def outside(self, member: Member) -> list[Span]:
        anchor = member.parts.anchor
        return [member.cte.body] if anchor is None else [anchor, member.cte.body]

    def prepare_outside(self, span: Span, group: list[Cte]) -> None:
        """Plan what the group reads, and what its anchors define, before the group itself."""
        for cte in self.cutter.needed(span):
            if any(c.body.holds(cte.definition) for c in group):
                continue  # found through a reference to its table; planned with that table's body
            if cte not in group:
                self.prepare_cte(cte)

    def place(self, let: LetRec) -> None:
        """Let a finished group stand in the innermost loop that it depends on."""
        needs = free(let)
        bound = {b.variable for b in let.bindings}
        frame = next(
            (f for f in reversed(self.frames) if f.variables & (needs - bound)), self.frames[0]
        )
        # A group may read another one that stands in a loop: then it has to stand there, too.
        for inner in reversed(self.frames):
            if any({b.variable for b in x.bindings} & needs for x in inner.lets):
                if self.frames.index(inner) > self.frames.index(frame):
                    frame = inner
                break
        frame.lets.append(let)

    def type_members(self, members: list[Member], group: list[Cte]) -> None:
        """Columns of every member: an anchor's, or those of branches that read typed companions."""
        todo = list(members)
        for member in members:
            if member.parts.anchor is not None:
                self.prepare(member.parts.anchor)
                text = self.texts.anchor_text(member)
                found = self.texts.columns(text, member.parts.anchor)
                member.columns = self.texts.named(member, found)
                todo.remove(member)
        while todo:
            typed = [m for m in members if m.columns]
            self.texts.define(typed, "delta")
            ready = next(((m, p) for m in todo if (p := self.typing(m, typed, group))), None)
            if ready is None:
                raise self.texts.no_anchor(todo[0])
            member, parts_ = ready
            assert parts_.anchor is not None
            self.with_frame(members, member.cte.body)
            text = self.texts.anchor_text(replace(member, parts=parts_))
            self.undo()
            member.columns = self.texts.named(member, self.texts.columns(text, parts_.anchor))
            todo.remove(member)

    def typing(self, member: Member, typed: list[Member], group: list[Cte]) -> Parts | None:
        """A member without an anchor, with its branches that read typed members only as anchors."""
        known = {id(m.cte) for m in typed}
        unknown = [
            r
            for r in self.scan.references
            if is_back(self.scan, r, member.cte, group) and id(self.scan.resolve(r)) not in known
        ]
        later = [b for b in member.parts.steps if any(b.span.holds(r.name) for r in unknown)]
        if len(later) == len(member.parts.steps):
            return None
        now = [b for b in member.parts.steps if b not in later]
        return Parts(tuple(now), tuple(later), member.parts.operator)

    def with_frame(self, members: list[Member], span: Span) -> list[LetRec]:
        """Plan what a part inside the loop of `members` needs; the loops that stand inside."""
        frame = _Frame(frozenset(m.variable for m in members))
        before = set(self.cutter.splices)
        settled = set(self.settled)
        self.frames.append(frame)
        try:
            self.prepare(span)
        finally:
            self.frames.pop()
            if frame.lets:
                # The same text may be planned again for another step, with other inputs.
                self._undo = set(self.cutter.splices) - before, settled
            else:
                self._undo = set(), self.settled
        return frame.lets

    _undo: tuple[set[Span], set[int]]

    def undo(self) -> None:
        """Forget the loops that were planned inside the last frame."""
        spans, self.settled = self._undo
        for span in spans:
            del self.cutter.splices[span]

    def bind(self, member: Member, members: list[Member], group: list[Cte]) -> Binding:
        """Anchor, step and kind of one member."""
        cte, found = member.cte, member.parts
        if cte.using_key == () or len({n.lower() for n in cte.columns}) < len(cte.columns):
            raise Native  # no key, or one name of two columns
        named = {id(m.cte): [c.label for c in m.columns] for m in members}
        style = check.judge(self.scan, cte, found, group, named)
        if cte.with_.composed and style.merge:
            best = [c for c, m in zip(member.columns, style.merge, strict=True) if m is not None]
            if any(c.type in ("FLOAT", "DOUBLE") for c in best):
                raise NotLeast("sums of floating-point numbers are not associative")
        self.cutter.ask_not_null(style.never_null, cte.label)
        labels = {c.label.lower() for c in member.columns}
        if not labels >= {k.strip('"').lower() for k in style.keys}:
            raise Native  # DuckDB says that there is no such column
        alone = len(members) == 1 and not member.is_typed
        same = alone and style.native
        if same and any("VARCHAR" in c.type for c in member.columns) and self.collates():
            raise Native
        anchor: Node | None = None
        if found.anchor is not None:
            text = self.texts.anchor_text(member)
            if member.is_typed:
                casts = self.texts.casts(member, text, found.anchor)
                text = self.texts.anchor_text(member, casts)
            anchor = self.texts.block(text, member.columns, "anchor")
        spans = _step_spans(found, cte)
        blocks: list[Node] = []
        lets: list[LetRec] = []
        for span in spans:
            self.texts.define(members, "all" if style.reads_all else "delta")
            inner = self.with_frame(members, span)
            lets.extend(inner)
            texts = [
                self.texts.step_text(member, local, span)
                for local in self.texts.terms(span, members, group, style)
            ]
            text = Text()
            for i, term in enumerate(texts):
                text.add("\nUNION ALL\n" if i else "")
                text.add(f"({term.sql})" if len(texts) > 1 else term.sql, term.inputs)
            blocks.append(around(inner, self.texts.block(text, member.columns, "step")))
            self.undo()
        kind: RecKind = style.kind
        native = None if member.is_typed else self.texts.native(member, members, style)
        bounded = native is not None
        return Binding(
            member.variable,
            member.columns,
            anchor,
            tuple(blocks),
            kind,
            key=style.key(member.columns),
            merge=style.merge,
            native=native,
            structural=self.texts.structural(member, members, spans, style, bounded),
            same=same,
            together=style.together,
            of_none=check.of_none(self.scan, found, group),
            by_turns=check.by_turns(self.scan, found, group),
            every=style.kind == "using_key" and found.operator == "union_all",
        )

    def declared(self, members: list[Member]) -> None:
        """The columns of WITH MUTUALLY RECURSIVE."""
        for member in members:
            cte = member.cte
            if not cte.types:
                raise errors.ProgrammingError(
                    f'table "{cte.label}" of WITH MUTUALLY RECURSIVE needs typed columns',
                    hint=f"Write {cte.label} (name type, …) AS (…).",
                    text=self.scan.text,
                    position=cte.name.start,
                    length=cte.name.end - cte.name.start,
                )
            types = self.texts.column_types(cte)
            member.columns = tuple(
                Column(f"{member.variable}_{i}", label, t)
                for i, (label, t) in enumerate(zip(cte.columns, types, strict=True))
            )

    def least(self, members: list[Member], group: list[Cte]) -> tuple[Binding, ...] | None:
        """Bindings of a WITH MUTUALLY RECURSIVE that means what SQL's own recursion does."""
        found = taken_apart(self.scan, group) if self.rewrite else None
        if found is None:
            return None
        before = dict(self.cutter.splices), set(self.settled)
        for member, split in zip(members, found, strict=True):
            member.parts = split
        improving = members[0].cte.with_.improving
        try:
            bindings = tuple(self.bind(m, members, group) for m in members)
            if improving and bindings[0].kind != "improve":
                raise NotLeast("no value improves")
            return bindings
        except (NotLeast, Native, Correlated, errors.Error):
            if improving:
                raise
            self.cutter.splices, self.settled = before
            for member in members:
                member.parts = Parts((), (), None)
            return None

    def mutual(self, members: list[Member]) -> tuple[Binding, ...]:
        """Bindings that start empty and are evaluated again, in order, until nothing changes."""
        bindings = []
        self.texts.define(members, "all")
        for member in members:
            body = member.cte.body
            lets = self.with_frame(members, body)
            text = self.texts.step_text(member, {}, body)
            step = around(lets, self.texts.block(text, member.columns, "binding"))
            self.undo()
            bindings.append(Binding(member.variable, member.columns, None, (step,), "mutual"))
        late = afterwards(bindings)
        return tuple(replace(b, afterwards=b.variable in late) for b in bindings)


def _step_spans(split: Parts, cte: Cte) -> list[Span]:
    """The steps as one text where nothing stands between them; the query if it has no UNION."""
    if split.operator is None:
        return [cte.body]
    whole = split.step
    if any(whole.holds(a.span) for a in split.anchors):
        return [s.span for s in split.steps]
    return [whole]
