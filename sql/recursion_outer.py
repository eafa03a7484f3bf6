"""What a recursion in a subquery reads of the queries around it, and the values that these have.

A query around it counts by its FROM clause; of a subquery in FROM, by what stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import duckdb
from sqlglot import exp

from tidewheel.engine.quoting import quoted

from . import recursion_check as check
from .bind_types import is_volatile
from .recursion_describe import Describer
from .recursion_tables import Cte, Scan, Span, With
from .recursion_text import Cutter, Text
from .statements import Token

_SETS = ("UNION", "INTERSECT", "EXCEPT")
_ENDS = (
    *("WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "SELECT"),
    *("RETURNING", "SET"),
)
_JOINS = ("LATERAL", "JOIN", "LEFT", "INNER", "OUTER", "CROSS", ",")
_ALL_COLUMNS = {"INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER"}
"""Joins that have all columns of both sides, unless there is USING."""
_NAMES: dict[type[exp.Expr], str] = {
    exp.Limit: "a LIMIT",
    exp.Offset: "an OFFSET",
    exp.Fetch: "a FETCH",
    exp.TableSample: "a sample",
    exp.Window: "a window function",
}
_UNSURE = tuple(_NAMES)
"""Read a second time, they may give other rows."""


class Unclear(Exception):
    """It is not sure what a name means, or which values it has; its text, if any, is a hint."""


@dataclass(frozen=True)
class Outer:
    """A column of a query around the recursion; `start` … `end` is where a text names it."""

    level: int
    alias: str
    name: str
    start: int = -1
    end: int = -1

    @property
    def key(self) -> tuple[int, str, str]:
        """What tells it from other columns."""
        return self.level, self.alias, self.name.lower()

    @property
    def sql(self) -> str:
        """Its whole name."""
        return f"{quoted(self.alias)}.{quoted(self.name)}"


class Level:
    """The FROM clause of a query around the recursion, and conditions that its rows satisfy."""

    def __init__(
        self,
        scanned: Scan,
        describe: Describer,
        clause: str,
        span: Span,
        where: list[str],
        place: Span,
    ) -> None:
        """`clause` is written at `span`, the recursion at `place`."""
        self.clause = clause
        self._place = place
        self._scan = scanned
        self._describe = describe
        self._span = span
        self._where = where

    @cached_property
    def _query(self) -> exp.Select:
        found = check.parsed_text(f"SELECT * {self.clause}")
        if not isinstance(found, exp.Select):
            raise Unclear
        return found

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """The columns by the names of the tables, in lower case."""
        found: dict[str, list[str]] = {}
        for source in sources(self._query):
            alias = source.alias_or_name or _alias(source)
            if not alias:
                continue
            if alias.lower() in found:
                raise Unclear  # two subqueries without a name, of which the second has a number
            try:
                described = self.described(f"SELECT {quoted(alias)}.* {self.clause}")
            except duckdb.Error:
                continue  # it reads a query further out, or cannot be seen
            found[alias.lower()] = [label for label, _ in described]
        return found

    def described(self, sql: str) -> Sequence[tuple[str, str]]:
        """Names and types of the columns of a query that has this FROM clause."""
        cutter = Cutter(self._scan)
        return self._describe(cutter.within(Text(sql), cutter.needed(self._span)).sql)

    def alias_of(self, name: str) -> str | None:
        """Which table an unqualified name is a column of."""
        having = [a for a, names in self.columns.items() if name in map(str.lower, names)]
        if len(having) > 1 and (
            not any(j.args.get("using") or j.args.get("method") for j in self._query.args["joins"])
            or any((j.side or "").upper() in ("RIGHT", "FULL") for j in self._query.args["joins"])
        ):
            raise Unclear
        return having[0] if having else None

    def values(self, columns: Sequence[Outer], names: Sequence[str]) -> str:
        """A query for the distinct values that columns have, or could have, under `names`."""
        query = self._query
        again = next(query.find_all(*_UNSURE), None)
        if again is not None or is_volatile(query):
            what = "calls what is random" if again is None else f"has {_NAMES[type(again)]}"
            raise Unclear(
                f"The FROM of the query around {what}, so that it may have other rows when it is "
                "read a second time: give it a name in a WITH clause in front, and read that."
            )
        if self._is_hidden():
            raise Unclear
        items = ", ".join(f"{c.sql} AS {quoted(n)}" for c, n in zip(columns, names, strict=True))
        kept = [c for c in self._where if self._is_own(c)]
        where = "\nWHERE (" + "\n) AND (".join(kept) + "\n)" if kept else ""
        return f"SELECT DISTINCT {items} {self.clause}{where}\n"

    def _is_own(self, condition: str) -> bool:
        """Does a condition surely concern this clause's rows alone?"""
        found = check.parsed_text(f"SELECT 1 WHERE {condition}")
        if found is None or is_volatile(found) or len(list(found.find_all(exp.Query))) > 1:
            return False
        return all(
            c.table.lower() in self.columns and len(c.parts) == 2
            for c in found.find_all(exp.Column)
        )

    def _is_hidden(self) -> bool:
        """Would the clause mean something else inside of the recursion?"""
        names = {t.name.lower() for t in self._query.find_all(exp.Table)}
        inner = [w for w in self._scan.withs if w.scope.holds(self._place)]
        return any(c.key in names for w in inner if not w.scope.holds(self._span) for c in w.ctes)


def levels(scanned: Scan, describe: Describer, with_: With) -> list[Level]:
    """The queries around a WITH clause, the innermost first."""
    found = []
    tokens = scanned.tokens
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.start >= with_.head.start:
            break
        if _word(token) == "(":
            opened.append(i)
        elif _word(token) == ")":
            opened.pop()
    bodies = {c.body.start for w in scanned.withs for c in w.ctes}
    for depth in range(len(opened) - 1, -1, -1):
        at = opened[depth]
        if tokens[at].start + 1 in bodies:
            continue  # a table of a WITH clause does not see the FROM of its query
        first = opened[depth - 1] + 1 if depth else 0
        level = _level(scanned, describe, list(_flat(tokens, first)), at, with_.head)
        if level is not None:
            found.append(level)
    return found


def _word(token: Token) -> str:
    return token.text.upper() if token.kind in ("word", "punctuation") else ""


def _flat(tokens: Sequence[Token], first: int) -> Iterator[tuple[int, Token]]:
    """The tokens from `first` to the end of their parenthesis, without what stands in further
    ones.
    """
    depth = 0
    for i in range(first, len(tokens)):
        word = _word(tokens[i])
        if word == ")":
            depth -= 1
            if depth < 0:
                return
        if depth == 0:
            yield i, tokens[i]
        if word == "(":
            depth += 1


def _level(
    scanned: Scan, describe: Describer, flat: list[tuple[int, Token]], at: int, place: Span
) -> Level | None:
    """The query that holds, in the parenthesis at token `at`, the recursion."""
    words = [_word(t) for _, t in flat]
    here = next(n for n, (i, _) in enumerate(flat) if i == at)
    begin = max((n + 1 for n in range(here) if words[n] in _SETS), default=0)
    end = min((n for n in range(here, len(flat)) if words[n] in _SETS), default=len(flat))

    def upto(n: int, stops: tuple[str, ...]) -> int:
        return next((k for k in range(n, end) if words[k] in stops), end)

    def text(a: int, b: int) -> str:
        last = flat[b][1].start if b < len(flat) else _closing(scanned, flat[-1][0])
        return scanned.text[flat[a][1].start : last]

    start = next(
        (n for n in range(begin, end) if words[n] == "FROM" and words[n - 1] != "DISTINCT"), None
    )
    target = ""
    if words[begin] == "UPDATE":
        target = text(begin + 1, upto(begin + 1, ("SET",))).strip()
        target = f"FROM {target}" if start is None else f"FROM {target}, "
    if start is None:
        if not target:
            return None
        stop = begin
        clause = target
    else:
        stop = upto(start + 1, _ENDS)
        until = stop
        if start < here < stop:
            until = max(n for n in range(start, here) if words[n] in (*_JOINS, "FROM", "ON"))
            if words[until] == "ON":
                raise Unclear
            while words[until] in _JOINS:
                until -= 1
            until += 1
            if until == start + 1:
                return None  # nothing stands before it
        clause = target + text(start + 1, until) if target else text(start, until)
    condition = upto(stop, ("WHERE",))
    where: list[str] = []
    if condition < end:
        last = upto(condition + 1, _ENDS[1:])
        cuts = [condition, *(n for n in range(condition, last) if words[n] == "AND"), last]
        if any(w in ("OR", "BETWEEN", "CASE") for w in words[condition:last]):
            cuts = [condition, last]
        where = [text(a + 1, b) for a, b in pairwise(cuts)]
    first = flat[start if start is not None else begin][1]
    span = Span(first.start, first.start + len(first.text))
    if start is not None:
        span = Span(first.start, first.start + len(text(start, until)))
    return Level(scanned, describe, clause.strip(), span, where, place)


def _closing(scanned: Scan, last: int) -> int:
    """Where the parenthesis ends whose last token outside of others is `last`."""
    depth = 0
    for token in scanned.tokens[last + (_word(scanned.tokens[last]) == ")") :]:
        word = _word(token)
        if word == ")":
            depth -= 1
            if depth < 0:
                return token.start
        depth += word == "("
    return len(scanned.text)


def sources(select: exp.Expr) -> list[exp.Expr]:
    """The items of a FROM clause."""
    source = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or []
    laterals = select.args.get("laterals") or []
    return [*([source.this] if source else []), *(j.this for j in joins), *laterals]


class Names:
    """Resolves the names in a part of a recursion."""

    def __init__(self, scanned: Scan, describe: Describer, around: Sequence[Level]) -> None:
        self._scan = scanned
        self._describe = describe
        self._levels = around
        self._known: dict[str, list[str] | None] = {}
        self._open: set[int] = set()  # tables whose columns are being looked for

    def outer(self, query: exp.Expr, offset: int) -> list[Outer]:
        """The columns of queries around that `query` names, which stands at `offset`."""
        found = []
        for node in query.find_all(exp.Column):
            outer = self._outer(node, query, offset)
            if outer is not None:
                start = offset + node.parts[0].meta["start"]
                end = offset + node.parts[-1].meta["end"] + 1
                found.append(Outer(*outer, start, end))
        return found

    def _outer(self, node: exp.Column, root: exp.Expr, offset: int) -> tuple[int, str, str] | None:
        first, name = node.parts[0].name.lower(), node.name
        around = list(_selects(node, root))
        if not node.table:
            return self._unqualified(node, around, offset)
        if any(first in map(_alias, sources(s)) for s in around):
            return None
        for i, level in enumerate(self._levels):
            if first in level.columns:
                names = level.columns[first]
                if len(node.parts) > 2 or name.lower() not in map(str.lower, names):
                    raise Unclear
                return i, first, name
        return None

    def _unqualified(
        self, node: exp.Column, around: list[exp.Expr], offset: int
    ) -> tuple[int, str, str] | None:
        name = node.name
        low = name.lower()
        place = None
        for i, level in enumerate(self._levels):
            alias = level.alias_of(low)
            if alias is not None:
                place = i, alias, name
                break
            if low in level.columns:
                raise Unclear  # the whole row
        if place is None:
            return None
        for select in around:
            items = [s for s in sources(select) if not any(n is s for n in _ancestors(node))]
            own = [self._columns(s, offset) for s in items]
            if any(low in names for names in own if names is not None):
                return None
            given = {e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias)}
            if None in own or low in given:
                raise Unclear
        return place

    def _columns(self, source: exp.Expr, offset: int) -> list[str] | None:
        """The columns of an item of FROM, in lower case; None if they are not known."""
        alias = source.args.get("alias")
        given = alias.columns if isinstance(alias, exp.TableAlias) else []
        named = self._own_columns(source, offset)
        if named is None and not given:
            return None
        return [*(c.name.lower() for c in given), *(named or [])[len(given) :]]

    def _own_columns(self, source: exp.Expr, offset: int) -> list[str] | None:
        """What `_columns` are without those that an alias gives."""
        if isinstance(source, exp.Subquery):
            return self._labels(source.this, offset)
        if isinstance(source, exp.Values):
            return [f"col{i}" for i in range(len(source.expressions[0].expressions))]
        if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
            return None
        start = offset + source.this.meta["start"]
        reference = next((r for r in self._scan.references if r.name.start == start), None)
        cte = None if reference is None else self._scan.resolve(reference)
        if cte is not None:
            return self.labels(cte)
        name = ".".join(quoted(p.name) for p in source.parts)
        if name not in self._known:
            try:
                self._known[name] = [n.lower() for n, _ in self._describe(f"FROM {name}")]
            except duckdb.Error:
                self._known[name] = None
        return self._known[name]

    def labels(self, cte: Cte) -> list[str] | None:
        """The columns of a table of a WITH clause, in lower case; None if they are not known."""
        given = [c.lower() for c in cte.columns]
        if cte.types:
            return given  # WITH MUTUALLY RECURSIVE names all
        if id(cte) in self._open:
            return None
        self._open.add(id(cte))
        query = check.parsed(self._scan, cte.body)
        named = None if query is None else self._labels(query, cte.body.start)
        self._open.remove(id(cte))
        return None if named is None else [*given, *named[len(given) :]]

    def _labels(self, query: exp.Expr, offset: int) -> list[str] | None:
        """The columns of a query, in lower case; None if they are not known."""
        while isinstance(query, (exp.SetOperation, exp.Subquery)):
            query = query.this
        if not isinstance(query, exp.Select):
            return None
        if not any(e.is_star for e in query.expressions):
            return [n.lower() for n in query.named_selects]
        star = query.expressions[0]
        joins = query.args.get("joins") or []
        if (
            len(query.expressions) > 1
            or not isinstance(star, exp.Star)
            or any(star.args.values())
            or any(j.args.get("using") or set(_sort(j)) - _ALL_COLUMNS for j in joins)
        ):
            return None
        found = [self._columns(s, offset) for s in sources(query)]
        return None if None in found else [n for names in found for n in names or ()]


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    """A node and those around it."""
    step: exp.Expr | None = node
    while step is not None:
        yield step
        step = step.parent


def _selects(node: exp.Expr, root: exp.Expr) -> Iterator[exp.Expr]:
    """The SELECTs around a node, up to `root`."""
    for step in _ancestors(node):
        if isinstance(step, exp.Select):
            yield step
        if step is root:
            return


def _sort(join: exp.Join) -> list[str]:
    """The words before JOIN."""
    return " ".join(str(join.args.get(k) or "") for k in ("method", "side", "kind")).upper().split()


def _alias(source: exp.Expr) -> str:
    """The name of an item of FROM, in lower case: DuckDB gives one to a subquery without."""
    nameless = isinstance(source, (exp.Subquery, exp.Values)) and not source.alias
    return "unnamed_subquery" if nameless else source.alias_or_name.lower()


def is_named(place: exp.Expr, root: exp.Expr, alias: str) -> bool:
    """Does a SELECT around `place` give a name to something of its own?"""
    return any(alias in map(_alias, sources(s)) for s in _selects(place, root))
