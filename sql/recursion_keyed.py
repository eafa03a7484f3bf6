"""A recursion that reads the rows of queries around it, made one for all of their values at once.

    SELECT p.id, (WITH RECURSIVE r(n) AS (SELECT p.id UNION SELECT b FROM r, e WHERE a = n)
                  SELECT count(*) FROM r) FROM p

is the dependent join of `p` with the recursion. The values of `p` that it reads become columns
(keys) of every table that depends on them; who reads such a table asks for the rows of its own:

    SELECT p.id, (WITH RECURSIVE r(k, n) AS (
        SELECT d.k, q.* FROM (SELECT DISTINCT p.id AS k FROM p) d, LATERAL (SELECT d.k) q
        UNION SELECT r.k, b FROM r, e WHERE a = n)
      SELECT count(*) FROM (SELECT * EXCLUDE (k) FROM r x WHERE x.k IS NOT DISTINCT FROM p.id) r)
    FROM p

A branch that is joins of such a table hands the keys on; any other is a LATERAL one over the
values. Rows of different keys never meet, so the least fixpoint is the union of those for each of
them; so are the working tables of a linear step that gives nothing over none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
from sqlglot import exp

from tidewheel.engine.quoting import quoted

from . import errors
from . import recursion_check as check
from .bind_types import is_volatile
from .recursion_aggregates import aggregates
from .recursion_branches import outside, parts, prelude, split
from .recursion_describe import Describer
from .recursion_groups import groups
from .recursion_outer import Level, Names, Outer, Unclear, is_named, levels, sources
from .recursion_scan import scan
from .recursion_tables import Cte, Reference, Scan, Span, With
from .recursion_text import Cutter
from .recursion_whole import is_back, mentions
from .statements import Token

_PLAIN = {"expressions", "from_", "from", "joins", "where", "group", "having", "kind", "distinct"}


def keyed(scanned: Scan, describe: Describer) -> tuple[Scan | None, str]:
    """The statement with its correlated recursions made such ones; None if none can be.

    And what would make it possible, where that is known.
    """
    hint = ""
    flags = [(w.improving, w.composed) for w in scanned.withs]
    found = scan(Cutter(scanned).part(Span(0, len(scanned.text))).sql)  # parameters are numbered
    changed = False
    for i in range(len(found.withs)):
        for with_, flag in zip(found.withs, flags, strict=True):
            with_.improving, with_.composed = flag
        if not found.withs[i].recursive:
            continue
        try:
            text = _Rewriter(found, describe, found.withs[i], i).text()
        except Unclear as unclear:
            hint = hint or str(unclear)
            continue
        except (errors.Error, duckdb.Error):
            continue
        if text is not None:
            found, changed = scan(text), True
    for with_, flag in zip(found.withs, flags, strict=True):
        with_.improving, with_.composed = flag
    return (found if changed else None), hint


@dataclass
class _Edits:
    """What is put in the places of spans of a text, in the order given where they are one."""

    text: str
    found: list[tuple[Span, str]] = field(default_factory=list)

    def put(self, position: int, text: str) -> None:
        self.found.append((Span(position, position), text))

    def replace(self, start: int, end: int, text: str) -> None:
        self.found.append((Span(start, end), text))

    def done(self) -> str:
        result, position = "", 0
        for span, text in sorted(self.found, key=lambda e: (e[0].start, e[0].end)):
            result += self.text[position : span.start] + text
            position = span.end
        return result + self.text[position:]


class _Rewriter:
    """Rewrites one WITH clause; `number` tells its names from those of others."""

    def __init__(self, scanned: Scan, describe: Describer, with_: With, number: int) -> None:
        self.scan = scanned
        self.describe = describe
        self.with_ = with_
        self.number = number
        self.levels: list[Level] = []
        self.names: Names
        self.outer: dict[int, list[Outer]] = {}
        self.keys: list[Outer] = []
        self.tables: list[Cte] = []
        self.edits = _Edits(scanned.text)

    def text(self) -> str | None:
        """The statement's new text; None if there is nothing to do."""
        own = groups(self.scan)
        recursive = [c for c in self.with_.ctes if id(c) in own]
        if not recursive:
            return None
        self.levels = levels(self.scan, self.describe, self.with_)
        if not self.levels:
            return None
        self.names = Names(self.scan, self.describe, self.levels)
        self.outer = {id(c): self.mentioned(c) for c in self.with_.ctes}
        dependent = self.closed({id(c) for c in self.with_.ctes if self.outer[id(c)]}, True)
        wanted = self.closed({id(c) for c in recursive}, False)
        self.tables = [c for c in self.with_.ctes if id(c) in dependent & wanted]
        if not any(id(c) in own for c in self.tables):
            return None
        keys = {o.key: o for c in self.tables for o in self.outer[id(c)]}
        self.keys = sorted(keys.values(), key=lambda k: k.level)
        values, types = self.values()
        if any("VARCHAR" in t for t in types) and (
            mentions(self.scan, "COLLATE") or self.describe.collated
        ):
            raise Unclear  # texts that are equal may be different ones
        for cte in self.tables:
            self.columns(cte, types)
            self.body(cte, values, own.get(id(cte), []))
        self.readers()
        return self.edits.done()

    def values(self) -> tuple[str, list[str]]:
        """A query for the values that the keys can have together, and their types."""
        queries: list[str] = []
        types: list[str] = []
        for number in sorted({k.level for k in self.keys}):
            level = self.levels[number]
            pairs = zip(self.keys, self.key_names, strict=True)
            columns, names = zip(*((k, n) for k, n in pairs if k.level == number), strict=True)
            queries.append(level.values(columns, names))
            types += [t for _, t in level.described(queries[-1])]
        if len(queries) == 1:
            return queries[0], types
        # Each of them is a query of its own: they do not depend on each other.
        return "SELECT * FROM " + ", ".join(f"(\n{q})" for q in queries) + "\n", types

    @property
    def key_names(self) -> list[str]:
        return [f"__tw_k{self.number}_{i}" for i in range(len(self.keys))]

    @property
    def domain(self) -> str:
        return f"__tw_d{self.number}"

    def mentioned(self, cte: Cte) -> list[Outer]:
        query = check.parsed(self.scan, cte.body)
        if query is None or is_volatile(query) or query.find(exp.TableSample):
            raise Unclear
        return self.names.outer(query, cte.body.start)

    def reads(self, cte: Cte) -> set[int]:
        """The tables of the clause that a table reads."""
        return {
            id(target)
            for r in self.scan.references
            if cte.body.holds(r.name) and (target := self.scan.resolve(r)) in self.with_.ctes
        }

    def closed(self, found: set[int], up: bool) -> set[int]:
        """`found` and the tables that read them (`up`), or that they read."""
        reads = {id(c): self.reads(c) for c in self.with_.ctes}
        while True:
            if up:
                more = {k for k, v in reads.items() if v & found}
            else:
                more = {v for k in found for v in reads[k]}
            if more <= found:
                return found
            found = found | more

    def columns(self, cte: Cte, types: Sequence[str]) -> None:
        """Put the keys before the columns of a table."""
        if cte.using_key is not None or cte.search or cte.cycle:
            raise Unclear
        if not cte.columns:
            return
        first = next(t for t in self.scan.within(cte.definition) if t.text == "(")
        items = [
            f"{quoted(n)} {t}" if cte.types else quoted(n)
            for n, t in zip(self.key_names, types, strict=True)
        ]
        self.edits.put(first.start + 1, ", ".join(items) + ", ")

    def body(self, cte: Cte, values: str, group: list[Cte]) -> None:
        """Give every branch of a table the keys."""
        lead = prelude(self.scan, cte.body)
        one = lead.end > lead.start or any(
            outside(self.scan, cte.body, ("EXCEPT", "ORDER", "LIMIT", "OFFSET"))
        )
        back = [r for r in self.scan.references if is_back(self.scan, r, cte, group)]
        if any(r.recurring for r in back):
            raise Unclear
        grouped = False
        if back and not cte.with_.mutually:
            found = parts(self.scan, cte, back)
            style = check.judge(self.scan, cte, found, group)
            if one or style.together:
                raise Unclear  # a step that gives rows of none would never be through
            grouped = style.kind == "improve" or style.reads_all
        spans = [cte.body] if one else [b.span for b in split(self.scan, cte)]
        steps = [s for s in spans if any(s.holds(r.name) for r in back)]
        for span in spans:
            joined = self.joined(cte, span)
            if joined is None:
                if span in steps and (grouped or cte.with_.improving):
                    raise Unclear
                self.lateral(cte, span, values)
            else:
                self.hand_on(cte, span, *joined)

    def inside(self, cte: Cte, span: Span) -> list[Outer]:
        return [o for o in self.outer[id(cte)] if span.start <= o.start < span.end]

    def read(self, span: Span) -> list[Reference]:
        """Where a part reads tables with keys."""
        return [
            r
            for r in self.scan.references
            if span.holds(r.name) and self.scan.resolve(r) in self.tables
        ]

    def lateral(self, cte: Cte, span: Span, values: str) -> None:
        """A branch for each of the values."""
        keys = [f"{self.domain}.{quoted(n)}" for n in self.key_names]
        items = ", ".join(keys)
        self.edits.put(
            span.start,
            f" SELECT {items}, __tw_q.* FROM (\n{values}) AS {self.domain}, LATERAL (",
        )
        self.replace_outer(cte, span, keys)
        for reference in self.read(span):
            alias = "" if reference.aliased else f" AS {quoted(reference.label)}"
            text = self.own_rows(reference, keys) + alias
            self.edits.replace(reference.name.start, reference.name.end, text)
        self.edits.put(span.end, "\n) AS __tw_q ")

    def replace_outer(self, cte: Cte, span: Span, keys: Sequence[str]) -> None:
        query = check.parsed(self.scan, cte.body)
        assert query is not None
        selected = {
            cte.body.start + e.parts[0].meta["start"]
            for s in query.find_all(exp.Select)
            for e in s.expressions
            if isinstance(e, exp.Column) and "start" in e.parts[0].meta
        }
        places = {k.key: i for i, k in enumerate(self.keys)}
        for outer in self.inside(cte, span):
            text = keys[places[outer.key]]
            if outer.start in selected:
                text += f" AS {quoted(outer.name)}"
            self.edits.replace(outer.start, outer.end, text)

    def own_rows(self, reference: Reference, keys: Sequence[str]) -> str:
        """The rows of a table that have the given keys."""
        names = self.key_names
        same = " AND ".join(
            f"__tw_x.{quoted(n)} IS NOT DISTINCT FROM {k}" for n, k in zip(names, keys, strict=True)
        )
        return (
            f"(SELECT * EXCLUDE ({', '.join(map(quoted, names))}) FROM {quoted(reference.label)} "
            f"AS __tw_x WHERE {same})"
        )

    def joined(self, cte: Cte, span: Span) -> tuple[exp.Select, list[str]] | None:
        """The branch and its names for tables with keys, if it is a join of such and of others."""
        query = check.parsed(self.scan, span)
        if not isinstance(query, exp.Select) or any(
            v and k not in _PLAIN for k, v in query.args.items()
        ):
            return None
        tokens = self.scan.within(span)
        if not tokens or tokens[0].text.upper() != "SELECT" or query.find(exp.Window, exp.Columns):
            return None
        distinct, group = query.args.get("distinct"), query.args.get("group")
        if distinct is not None and distinct.args.get("on"):
            return None
        if group is None and (query.args.get("having") or any(map(_aggregates, query.expressions))):
            return None
        if group is not None and any(
            v and k not in ("expressions", "all") for k, v in group.args.items()
        ):
            return None
        if any(e.is_star for e in query.expressions) or any(t.text[0] == "#" for t in tokens):
            return None  # the keys would be among them, or count
        at = {r.name.start - span.start: r for r in self.read(span)}
        names = []
        joins = query.args.get("joins") or []
        for i, source in enumerate(sources(query)):
            kind = {} if not i else joins[i - 1].args if i <= len(joins) else {"side": "?"}
            sort = " ".join(str(kind.get(k) or "") for k in ("side", "kind", "method")).split()
            start = source.this.meta.get("start") if isinstance(source, exp.Table) else None
            if start in at:
                if sort not in ([], ["INNER"], ["CROSS"]) or source.alias_column_names:
                    return None
                at.pop(start)
                names.append(source.alias_or_name)
            elif not set(sort) <= {"INNER", "CROSS", "LEFT", "OUTER"}:
                return None
        rows = {n.lower() for n in names}
        if any(not c.table and c.name.lower() in rows for c in query.find_all(exp.Column)):
            return None
        return (query, names) if names and not at else None

    def hand_on(self, cte: Cte, span: Span, query: exp.Select, names: list[str]) -> None:
        """A branch that joins tables with keys: the keys of the first are those of the others."""
        own = [f"{quoted(names[0])}.{quoted(n)}" for n in self.key_names]
        self.replace_outer(cte, span, own)
        items = ", ".join(own) + ", "
        flat = {t.text.upper(): t for t in reversed(list(outside(self.scan, span, _CLAUSES)))}
        tokens = self.scan.within(span)
        behind = 1 + (len(tokens) > 1 and tokens[1].text.upper() in ("DISTINCT", "ALL"))
        first = tokens[behind - 1]
        self.edits.put(first.start + len(first.text), f" {items}")
        same = [
            f"{quoted(other)}.{quoted(n)} IS NOT DISTINCT FROM {o}"
            for other in names[1:]
            for n, o in zip(self.key_names, own, strict=True)
        ]
        end = min((flat[c].start for c in ("GROUP", "HAVING") if c in flat), default=span.end)
        if same and "WHERE" in flat:
            self.edits.put(flat["WHERE"].start + 5, " (")
            self.edits.put(end, "\n) AND " + " AND ".join(same) + " ")
        elif same:
            self.edits.put(end, "\nWHERE " + " AND ".join(same) + " ")
        group = query.args.get("group")
        if group is not None and not group.args.get("all"):
            by = tokens[tokens.index(flat["GROUP"]) + 1]
            self.edits.put(by.start + 2, f" {items}")
            self.shift(tokens[tokens.index(by) + 1 :], len(own))

    def shift(self, tokens: Sequence[Token], count: int) -> None:
        """Let the positions in a GROUP BY, whose tokens these are, count what stands before."""
        depth, between = 0, True
        for i, token in enumerate(tokens):
            if depth == 0 and token.text.upper() == "HAVING":
                return
            alone = i + 1 == len(tokens) or tokens[i + 1].text.upper() in (",", "HAVING")
            if depth == 0 and between and alone and token.text.isdecimal():
                place = str(int(token.text) + count)
                self.edits.replace(token.start, token.start + len(token.text), place)
            depth += (token.text == "(") - (token.text == ")")
            between = token.text == ","

    def readers(self) -> None:
        """Whoever else reads a table with keys asks for the rows of the values around it."""
        bodies = [c.body for c in self.tables]
        last = self.with_.ctes[-1].definition.end
        spans = [c.body for c in self.with_.ctes if c not in self.tables]
        spans.append(Span(last, self.with_.scope.end))
        keys = [k.sql for k in self.keys]
        further = any(k.level for k in self.keys)
        for span in spans:
            found = self.read(span)
            if further and len(found) < sum(span.holds(r.name) for r in self.own_references()):
                raise Unclear  # see `Planner.inlined`
            query = check.parsed(self.scan, span) if found else None
            for reference in found:
                if any(b.holds(reference.name) for b in bodies):
                    continue
                place = _table_at(query, reference.name.start - span.start)
                if query is None or place is None:
                    raise Unclear
                alias = "" if reference.aliased else f" AS {quoted(reference.label)}"
                text = self.own_rows(reference, keys)
                if any(is_named(place, query, k.alias) for k in self.keys):
                    text = self.beside(reference, text)
                self.edits.replace(reference.name.start, reference.name.end, text + alias)

    def own_references(self) -> list[Reference]:
        return [r for r in self.scan.references if self.scan.resolve(r) in self.with_.ctes]

    def beside(self, reference: Reference, text: str) -> str:
        """A table of the clause for rows that are read where the outer name means another."""
        if self.with_.mutually or any(k.level for k in self.keys):
            raise Unclear
        name = quoted(f"__tw_own{self.number}_{reference.label}")
        definition = f", {name} AS {text}"
        end = self.with_.ctes[-1].definition.end
        if (Span(end, end), definition) not in self.edits.found:
            self.edits.put(end, definition)
        return name


_CLAUSES = ("WHERE", "GROUP", "HAVING")


def _aggregates(item: exp.Expr) -> bool:
    return any(a.find_ancestor(exp.Select) is item.parent_select for a in aggregates(item))


def _table_at(query: exp.Expr | None, start: int) -> exp.Table | None:
    for table in [] if query is None else query.find_all(exp.Table):
        if table.this is not None and table.this.meta.get("start") == start:
            return table
    return None
