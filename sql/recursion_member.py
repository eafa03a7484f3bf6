"""One table of a recursive group while it is planned: its columns, its texts, its forms.

A text is cut out of the statement and reads, in the place of the recursive tables, inputs (see
recursion_text). The forms are other ways to run the same step: without SQL, or by DuckDB alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb

from tidewheel.engine.quoting import quoted

from ..planner.logical import Block, Column, RecPart, Structural
from . import diagnose, errors
from . import recursion_check as check
from .recursion_branches import Parts, other_set_operation
from .recursion_least import NotLeast, widens
from .recursion_native import COUNTER, counted, ends
from .recursion_structure import structure
from .recursion_tables import Cte, Reference, Scan, Span
from .recursion_text import Cutter, Input, Splice, Text, renamed
from .statements import Kind, Token, split, tokens

Describe = Callable[[str], Sequence[tuple[str, str]]]
"""Names and types of a query's columns, from DuckDB's binder; raises duckdb.Error."""


def _heads(text: Text) -> str:
    """The tables of a WITH clause that stand for what a text reads."""
    return ", ".join(f"{quoted(i.alias)} AS ({i.empty})" for i in text.inputs)


_OWN_ROWS = re.compile(
    r"\(SELECT \* EXCLUDE \(.*?\) FROM .*? AS __tw_x WHERE .*?\){2} AS (\S+?)(?=[)\s])"
)


class Native(Exception):
    """DuckDB runs it, or refuses it, itself: it is not well formed."""


class Correlated(Exception):
    """A part names what only a query around the recursion can have, if any has it.

    `error` says so, `missing` that nothing has that name.
    """

    def __init__(self, error: errors.Error, missing: errors.Error) -> None:
        super().__init__(error.message)
        self.error = error
        self.missing = missing


@dataclass
class Member:
    """One table of a group while it is planned."""

    cte: Cte
    parts: Parts
    variable: str
    columns: tuple[Column, ...] = ()

    @property
    def is_typed(self) -> bool:
        """Is it taken apart though its types are declared?"""
        return self.cte.with_.mutually and self.parts.operator is not None


class Texts:
    """Cuts the texts of recursive tables out of a statement; `cutter` knows what is replaced."""

    def __init__(self, scanned: Scan, describe: Describe, cutter: Cutter) -> None:
        self.scan = scanned
        self.describe = describe
        self.cutter = cutter
        self.written = scanned.text

    def named(self, member: Member, described: Sequence[tuple[str, str]]) -> tuple[Column, ...]:
        """The columns of a member: the names that are given, then those of its query (names
        beyond its columns name nothing, as in DuckDB).
        """
        given = member.cte.columns[: len(described)]
        labels = [*given, *(label for label, _ in described[len(given) :])]
        return tuple(
            Column(f"{member.variable}_{i}", label, t)
            for i, (label, (_, t)) in enumerate(zip(labels, described, strict=True))
        )

    def columns(self, text: Text, span: Span) -> Sequence[tuple[str, str]]:
        """Names and types of the columns of `text`, which was cut from `span`."""
        heads = _heads(text)
        lead = f"WITH {heads}\n" if heads else ""
        try:
            return self.describe(f"{lead}SELECT * FROM (\n{text.sql}\n)")
        except duckdb.Error as error:
            raise self.refused(error, span) from None

    def answered(self, text: Text, span: Span) -> Sequence[tuple[str, str]]:
        """`columns` of what remains of a whole query: there a name may stand twice, and one that
        DuckDB makes of an expression's text may show what that reads.
        """
        found = self.columns(text, span)
        labels = [label for label, _ in found]
        if text.inputs and any(re.search(r"_\d+$", label) for label in labels):
            words = list(tokens(text.sql))
            if words[0].text.upper() == "WITH":
                at = words[2 if words[1].text.upper() == "RECURSIVE" else 1].start
                sql = f"{text.sql[:at]}{_heads(text)}, {text.sql[at:]}"
            else:
                sql = f"WITH {_heads(text)}\n{text.sql}"
            labels = self.labels(sql) or labels
        if any(i.alias in label for i in text.inputs for label in labels):
            shown = [re.sub(r"SELECT [^()]* FROM __tw_\w+", "…", label) for label in labels]
            shown = [_OWN_ROWS.sub(r"\1", label) for label in shown]
            mutual = any(w.mutually for w in self.scan.withs)  # to ask would end a transaction
            labels = ([] if mutual else self.labels(self.written)) or shown
        return [(label, t) for label, (_, t) in zip(labels, found, strict=True)]

    def labels(self, sql: str) -> list[str]:
        """The names of a query's columns; none where DuckDB refuses it."""
        try:
            return [label for label, _ in self.describe(sql)]
        except duckdb.Error:
            return []

    def refused(self, error: duckdb.Error, span: Span) -> Exception:
        """What to raise when DuckDB's binder refuses a part: its own words, at the right place."""
        statement = split(self.scan.text)[0]
        report = diagnose.read(error)
        if report is None:
            return error
        found = diagnose.translate(error, report, statement, as_written=False)
        start, length = self.named_in(found.message, span)
        text = self.scan.text
        correlated = errors.NotSupportedError(
            f"{text[start : start + length]} is of a query around this recursion, "
            "which can't read the rows of one",
            hint="Give the recursive table one more column for the value, let the anchor start "
            "from all values, and compare the column outside.",
            text=text,
            position=start,
            length=length,
        )
        missing = type(found)(
            found.message, hint=found.hint, text=text, position=start, length=length
        )
        if self.is_around(found.message, span) or self.reason() is None:
            return Correlated(correlated, missing)
        return missing

    def reason(self) -> str | None:
        """Why DuckDB refuses the statement as it is written; None if it does not."""
        statement = split(self.scan.text)[0]
        if any(w.mutually for w in self.scan.withs):
            return "WITH MUTUALLY RECURSIVE"  # to ask would end a transaction
        asked = statement.kind is Kind.QUERY or statement.words[0] in ("DESCRIBE", "SUMMARIZE")
        try:
            # (what changes rows must not do so now)
            self.describe(self.scan.text if asked else f"EXPLAIN {self.scan.text}")
        except duckdb.Error as error:
            return str(error)
        return None

    def told(self, refusal: Correlated) -> errors.Error | None:
        """What to raise for a recursion that reads the rows of a query around it; None if DuckDB
        runs it.
        """
        reason = self.reason()
        if reason is None:
            return None
        return refusal.missing if refusal.missing.message in reason else refusal.error

    def is_around(self, message: str, span: Span) -> bool:
        """Does a message miss a name that a query around the recursion may have?"""
        heads = [w.head for w in self.scan.withs if any(c.body.holds(span) for c in w.ctes)]
        start = max((h.start for h in heads), default=0)
        before = [t for t in self.scan.tokens if t.start < start]
        depth = sum((t.text == "(") - (t.text == ")") for t in before if t.kind == "punctuation")
        if depth <= 0:
            return False
        table = re.search(r'Referenced table "(.*?)" not found', message)
        if table is None:
            return "not found" in message and "FROM" in message
        return any(
            t.word == table[1].lower()
            for t in self.scan.tokens
            if not any(
                c.body.start <= t.start < c.body.end for w in self.scan.withs for c in w.ctes
            )
        )

    def named_in(self, message: str, span: Span) -> tuple[int, int]:
        """Where a part has the first name that a message quotes and the part has; else its
        start. What is behind its WITH is looked through first: the tables were bound before.
        """
        every = list(self.scan.within(span))
        lists = [(w.head.start, w.ctes[-1].body.end) for w in self.scan.withs if w.ctes]
        lists = [(start, end) for start, end in lists if span.start <= start and end < span.end]
        own = [t for t in every if not any(start <= t.start < end for start, end in lists)]
        if message.startswith("Ambiguous"):
            own = _unqualified(own)
        for name in re.findall(r'"([^"]+)"|name (\w+)', message):
            wanted = (name[0] or name[1]).lower()
            for token in (*own, *every):
                if token.word == wanted:
                    return token.start, len(token.text)
        return _first(self.scan, span), 1

    def no_anchor(self, member: Member) -> errors.ProgrammingError:
        """The error for a table that only follows from itself."""
        label = member.cte.label
        other = other_set_operation(self.scan, member.cte)
        if other is not None:
            return errors.ProgrammingError(
                f"{other.text.upper()} can't join anchor and step of recursive table "
                f'"{label}": only UNION and UNION ALL can',
                hint="Write UNION, or WITH MUTUALLY RECURSIVE, which repeats any query.",
                text=self.scan.text,
                position=other.start,
                length=len(other.text),
            )
        return errors.ProgrammingError(
            f'recursive table "{label}" has no anchor',
            hint=f'Write: anchor UNION [ALL] step, where the anchor does not refer to "{label}".',
            text=self.scan.text,
            position=member.cte.name.start,
            length=member.cte.name.end - member.cte.name.start,
        )

    def column_types(self, cte: Cte) -> list[str]:
        """The types of a typed column list, as DuckDB names them."""
        items = ", ".join(f"CAST(NULL AS {t})" for t in cte.types)
        try:
            return [t for _, t in self.describe(f"SELECT {items}")]
        except duckdb.Error as error:
            report = diagnose.read(error)
            raise errors.ProgrammingError(
                report.message if report is not None else str(error),
                text=self.scan.text,
                position=cte.name.start,
                length=len(cte.label),
            ) from None

    def define(self, members: list[Member], part: RecPart) -> None:
        """Let the text read the members' rows where it defined them."""
        for member in members:
            wanted = Input(member.variable, part, member.columns)
            span = member.cte.definition
            text = f"{quoted(member.cte.label)} AS ({wanted.select})"
            self.cutter.splices[span] = Splice(span, text, (wanted,))
            head = member.cte.with_.head
            if member.cte.with_.mutually:
                self.cutter.splices[head] = Splice(head, "WITH")

    def anchor_text(self, member: Member, casts: tuple[bool, ...] = ()) -> Text:
        """All anchors as one query."""
        anchor = member.parts.anchor
        assert anchor is not None
        local: dict[Span, Splice] = {}
        for step in member.parts.steps:
            if anchor.holds(step.span):  # anchors on both sides of it
                joint = step.operator_span if step.operator else step.span
                drop = Span(joint.start, step.span.end)
                local[drop] = Splice(drop, " ")
        text = self.cutter.query(anchor, member.columns, casts, local)
        return text

    def step_text(self, member: Member, local: dict[Span, Splice], span: Span) -> Text:
        """A step, cast to the types of the anchor."""
        casts = self.casts(member, self.cutter.query(span, local=local), span)
        return self.cutter.query(span, member.columns, casts, local)

    def casts(self, member: Member, text: Text, span: Span) -> tuple[bool, ...]:
        """Which columns of `text`, cut from `span`, have another type than the member's."""
        described = self.columns(text, span)
        if len(described) != len(member.columns):
            have = len(described)
            columns = "column" if have == 1 else "columns"
            what = "its anchor has"
            hint = "Anchor and step must give the same columns in the same order."
            if member.cte.with_.mutually:
                what, hint = "its list of columns has", "Write a name and a type for each column."
            raise errors.ProgrammingError(
                f'the step of recursive table "{member.cte.label}" has {have} {columns}, '
                f"{what} {len(member.columns)}",
                hint=hint,
                text=self.scan.text,
                position=_first(self.scan, span),
                length=6,
            )
        pairs = [(have, c.type) for (_, have), c in zip(described, member.columns, strict=True)]
        if member.is_typed and not all(widens(have, want) for have, want in pairs):
            raise NotLeast("a cast may make one row of two")
        return tuple(have != want for have, want in pairs)

    def block(self, text: Text, columns: tuple[Column, ...], reason: str) -> Block:
        """A text as a node of the plan."""
        return Block(
            text.sql,
            tuple(i.node for i in text.inputs),
            tuple(i.alias for i in text.inputs),
            columns,
            reason,
        )

    def terms(
        self, span: Span, members: list[Member], group: list[Cte], style: check.Style
    ) -> list[dict[Span, Splice]]:
        """Per term of the step, what its references read (see docs/recursion.md, "Non-linear").

        With references r1 … rk the new rows are those of k terms: in term i, ri reads the last
        step's rows, those before it all rows, those behind it all but the last step's.
        """
        by_cte = {id(m.cte): m for m in members}
        direct: list[tuple[Reference, Member]] = []
        fixed: dict[Span, Splice] = {}
        for reference in self.scan.references:
            if not span.holds(reference.name):
                continue
            target = self.scan.resolve(reference)
            found = by_cte.get(id(target))
            if found is None:
                continue
            if reference.recurring:
                fixed[reference.name] = _read(reference, found, "all")
            else:
                direct.append((reference, found))
        if not style.terms or len(direct) < 2:
            return [fixed]
        result = []
        for i in range(len(direct)):
            local = dict(fixed)
            for j, (reference, found) in enumerate(direct):
                part: RecPart = "delta" if j == i else "all" if j < i else "old"
                local[reference.name] = _read(reference, found, part)
            result.append(local)
        return result

    def structural(
        self,
        member: Member,
        members: list[Member],
        spans: list[Span],
        style: check.Style,
        bounded: bool,
    ) -> Structural | None:
        """The step as a program without SQL, where it is one.

        `bounded`: only if the values of UNION's columns are known to end somewhere.
        """
        if len(members) > 1 or len(spans) > 1 or len(member.parts.steps) > 1 or style.reads_all:
            return None
        if (
            style.kind not in ("union", "union_all", "improve")
            or style.terms
            or not member.parts.anchors
        ):
            return None
        if style.merge and [m for m in style.merge if m] not in (["min"], ["max"]):
            return None
        tables = [c for c in self.cutter.needed(spans[0]) if c is not member.cte]

        def describe(sql: str) -> Sequence[tuple[str, str]]:
            return self.columns(self.cutter.within(Text(sql), tables), spans[0])

        step = check.parsed(self.scan, spans[0])
        try:
            label, columns = member.cte.label, member.columns
            every = style.kind == "union_all"
            found = structure(step, label, columns, describe, style.merge, every)
            if found is None and style.kind == "union" and not bounded:
                found = structure(step, label, columns, describe, every=True, alone=True)
        except (Native, Correlated, errors.Error):
            return None
        if found is None:
            return None
        relations = []
        for n, sql in enumerate(found.relations):
            width = found.program.widths[n] + 1
            columns = tuple(
                Column(f"{member.variable}_k{n}_{i}", f"c{i}", "BIGINT") for i in range(width)
            )
            text = self.cutter.within(renamed(Text(sql), columns), tables)
            relations.append(self.block(text, columns, "joined in a loop"))
        return Structural(
            found.program, tuple(relations), found.sources, found.bounds, found.carried
        )

    def is_own(self, reference: Reference, cte: Cte) -> bool:
        """Is it a reference of a table to itself?"""
        return cte.body.holds(reference.name) and self.scan.resolve(reference) is cte

    def native(self, member: Member, members: list[Member], style: check.Style) -> Block | None:
        """The relation as DuckDB's own recursion: its meaning is the same, and it ends.

        For UNION ALL the iteration is one more column.
        """
        cte, split = member.cte, member.parts
        if len(members) > 1 or not style.native or style.kind == "using_key":
            return None
        if style.kind == "union_all" and style.together:
            return None  # rows of none have no iteration
        own = [r for r in self.scan.references if self.is_own(r, cte)]
        columns = member.columns
        if style.kind == "union_all":
            definition = counted(self.scan, cte, split, own, [c.label for c in columns])
            nested = any(w.recursive and cte.body.holds(w.head) for w in self.scan.withs)
            if definition is None or nested:
                return None
            columns = (*columns, Column(f"{member.variable}_n", COUNTER, "INTEGER"))
        elif not ends(check.parsed(self.scan, split.step), cte.label):
            return None
        else:
            definition = ""
        kept = self.cutter.splices.pop(cte.definition)
        if definition:
            self.cutter.splices[cte.definition] = Splice(cte.definition, definition)
        try:
            body = Text(f"SELECT * FROM {quoted(cte.label)}")
            tables = [cte, *(c for c in self.cutter.needed(cte.body) if c is not cte)]
            text = self.cutter.within(renamed(body, columns), tables)
        finally:
            self.cutter.splices[cte.definition] = kept
        if text.inputs:
            return None
        try:
            self.describe(text.sql)
        except duckdb.Error:
            return None  # the iteration cannot be handed through: an aggregate, for instance
        return self.block(text, columns, "DuckDB's own recursion")


def _read(reference: Reference, member: Member, part: RecPart) -> Splice:
    wanted = Input(member.variable, part, member.columns)
    alias = "" if reference.aliased else f" AS {quoted(reference.label)}"
    return Splice(reference.name, f"({wanted.select}){alias}", (wanted,))


def _first(scanned: Scan, span: Span) -> int:
    tokens = scanned.within(span)
    return tokens[0].start if tokens else span.start


def _unqualified(some: Sequence[Token]) -> list[Token]:
    """Without names that have a dot before or behind them."""
    around = [None, *some, None]
    return [
        t
        for before, t, after in zip(around, some, around[2:], strict=False)
        if "." not in (before and before.text, after and after.text)
    ]
