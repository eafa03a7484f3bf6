"""The branches of a recursive table's query: which are its anchor, which its step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from tidewheel.planner.dialect import Plain

from . import errors
from .recursion_scan import scan as rescan
from .recursion_tables import Cte, Reference, Scan, Span
from .statements import Token

Operator = Literal["union", "union_all"]


@dataclass(frozen=True)
class Branch:
    """A query between two UNIONs. `operator` stands before it, None for the first."""

    span: Span
    operator: Operator | None
    operator_span: Span


@dataclass(frozen=True)
class Parts:
    """A recursive table taken apart.

    `operator` None: a query without UNION (it can only be part of a mutual recursion).
    """

    anchors: tuple[Branch, ...]
    steps: tuple[Branch, ...]
    operator: Operator | None

    @property
    def anchor(self) -> Span | None:
        """From the first to the last anchor."""
        if not self.anchors:
            return None
        return Span(self.anchors[0].span.start, self.anchors[-1].span.end)

    @property
    def step(self) -> Span:
        """From the first to the last step."""
        return Span(self.steps[0].span.start, self.steps[-1].span.end)


def prelude(scan: Scan, body: Span) -> Span:
    """The WITH clause that stands before a query at its own level; empty if there is none."""
    for with_ in scan.withs:
        if body.holds(with_.head) and not scan.text[body.start : with_.head.start].strip("( \n\t"):
            if "(" in scan.text[body.start : with_.head.start]:
                continue
            return Span(with_.head.start, with_.ctes[-1].definition.end)
    return Span(body.start, body.start)


def opened(scan: Scan) -> Scan:
    """`scan` with blanks for the parentheses around whole bodies of recursive tables.

    And around their branches, where these are a SELECT and nothing more: it means the same.
    """
    text = scan.text
    for with_ in scan.withs:
        for cte in with_.ctes if with_.recursive else ():
            lead = prelude(scan, cte.body)
            inner: Sequence[Token] = scan.within(Span(lead.end, cte.body.end))
            while _enclosed(inner) and not (lead.end > lead.start and _is(inner[1], "WITH")):
                text, inner = _blanked(text, inner)
            branches = list(_between(inner))
            for branch in branches if len(branches) > 1 else ():
                core = branch
                while _enclosed(core):
                    core = core[1:-1]
                while core is not branch and _is_select(core) and _enclosed(branch):
                    text, branch = _blanked(text, branch)
    return scan if text == scan.text else opened(rescan(text))


def _blanked(text: str, tokens: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    """`text` without the first and the last of the tokens, and the others."""
    for token in (tokens[0], tokens[-1]):
        text = f"{text[: token.start]} {text[token.start + 1 :]}"
    return text, tokens[1:-1]


def _between(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """What stands between the UNIONs outside of parentheses."""
    begin = depth = 0
    for i, token in enumerate(tokens):
        depth += any(_is(token, t) for t in "([{") - any(_is(token, t) for t in ")]}")
        if not depth and _is(token, "UNION"):
            yield tokens[begin:i]
            begin = i + 1
        elif i == begin and (_is(token, "ALL") or _is(token, "DISTINCT")):
            begin = i + 1
    yield tokens[begin:]


def _is_select(tokens: Sequence[Token]) -> bool:
    """Is it one SELECT, with nothing behind it that would apply to the others, too?"""
    depth = 0
    for token in tokens:
        depth += any(_is(token, t) for t in "([{") - any(_is(token, t) for t in ")]}")
        if not depth and any(_is(token, word) for word in _OF_ALL):
            return False
    return bool(tokens) and _is(tokens[0], "SELECT")


_OF_ALL = ("UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH")


def _enclosed(tokens: Sequence[Token]) -> bool:
    """Do the first and the last token enclose the others?"""
    depth = 0
    for i, token in enumerate(tokens):
        depth += _is(token, "(") - _is(token, ")")
        if depth == 0:
            return i > 1 and i == len(tokens) - 1
    return False


def _is(token: Token, word: str) -> bool:
    return token.kind in ("word", "punctuation") and token.text.upper() == word


def split(scan: Scan, cte: Cte) -> list[Branch]:
    """The branches of a body, left to right; INTERSECT and EXCEPT stay within a branch.

    INTERSECT binds its neighbours before UNION does. EXCEPT is as strong as UNION, and applies to
    all before it: `parts` refuses it where that is the recursion.
    """
    body = cte.body
    start = prelude(scan, body).end
    depth = 0
    branches: list[Branch] = []
    operator: Operator | None = None
    operator_span = Span(start, start)
    begin = start
    tokens = scan.within(Span(start, body.end))
    for i, token in enumerate(tokens):
        if token.kind not in ("word", "punctuation"):
            continue
        word = token.text.upper()
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if depth or word != "UNION":
            continue
        following = [t.text.upper() for t in tokens[i + 1 : i + 4]]
        count = 1 if following[:1] in (["ALL"], ["DISTINCT"]) else 0
        last = tokens[i + count]
        end = last.start + len(last.text)
        if following[count : count + 2] == ["BY", "NAME"]:
            raise errors.NotSupportedError(
                "UNION BY NAME is not allowed in a recursive query",
                hint="Write UNION, with the columns of the anchor in their order.",
                text=scan.text,
                position=token.start,
                length=5,
            )
        branches.append(Branch(Span(begin, token.start), operator, operator_span))
        operator = "union_all" if following[:1] == ["ALL"] else "union"
        operator_span = Span(token.start, end)
        begin = end
    branches.append(Branch(Span(begin, body.end), operator, operator_span))
    return branches


def parts(scan: Scan, cte: Cte, recursive: list[Reference]) -> Parts:
    """Take `cte` apart; `recursive` are its references to itself and its companions.

    The anchor is what does not refer to them. Several steps need one operator throughout, since
    the meaning would depend on the order of evaluation otherwise.
    """
    branches = split(scan, cte)
    own = [any(b.span.holds(r.name) for r in recursive) for b in branches]
    lead = prelude(scan, cte.body)
    if not any(own) and any(lead.holds(r.name) for r in recursive):
        # Only a table of the query's own WITH refers back: whoever reads it is a step.
        own = _reads_back(scan, lead, branches, recursive)
    if len(branches) == 1:
        return Parts((), tuple(branches), None)
    for i, branch in enumerate(branches):
        words = ["ORDER", "LIMIT", "OFFSET"] if branch is branches[-1] else []
        words += ["EXCEPT"] if i and any(own[: i + 1]) else []
        _no_trailing_clause(scan, cte, branch, tuple(words))
    first = own.index(True) if True in own else len(own) - 1
    steps = [b for b, o in zip(branches, own, strict=True) if o]
    operators = {b.operator for b in branches[max(first, 1) :]}
    if first == 0 or not all(own[first:]):
        operators = {b.operator for b in branches[1:]}
    if len(operators) > 1:
        wrong = next(b for b in branches[1:] if b.operator != branches[-1].operator)
        raise errors.ProgrammingError(
            f'the steps of recursive table "{cte.label}" are joined by both UNION and UNION ALL',
            hint="Use one of them throughout, or put parentheses around what belongs together.",
            text=scan.text,
            position=wrong.operator_span.start,
            length=wrong.operator_span.end - wrong.operator_span.start,
        )
    anchors = [b for b, o in zip(branches, own, strict=True) if not o]
    return Parts(tuple(anchors), tuple(steps), branches[-1].operator)


def _reads_back(
    scan: Scan, lead: Span, branches: list[Branch], recursive: list[Reference]
) -> list[bool]:
    """Which branches read, through tables of the leading WITH, the recursive ones."""
    back = {
        id(c)
        for w in scan.withs
        for c in w.ctes
        if lead.holds(c.definition) and any(c.body.holds(r.name) for r in recursive)
    }
    while True:
        more = {
            id(c)
            for w in scan.withs
            for c in w.ctes
            if lead.holds(c.definition)
            and any(c.body.holds(r.name) and id(scan.resolve(r)) in back for r in scan.references)
        }
        if more <= back:
            break
        back |= more
    return [
        any(b.span.holds(r.name) and id(scan.resolve(r)) in back for r in scan.references)
        for b in branches
    ]


def other_set_operation(scan: Scan, cte: Cte) -> Token | None:
    """The INTERSECT or EXCEPT between the branches of a query, if one is there."""
    return next(outside(scan, cte.body, ("INTERSECT", "EXCEPT")), None)


def outside(scan: Scan, span: Span, words: tuple[str, ...]) -> Iterator[Token]:
    """Those of `words` in `span` that stand outside of parentheses."""
    depth = 0
    for token in scan.within(span):
        if token.kind not in ("word", "punctuation"):
            continue
        word = token.text.upper()
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if depth == 0 and word in words:
            yield token


def _no_trailing_clause(scan: Scan, cte: Cte, branch: Branch, words: tuple[str, ...]) -> None:
    for token in outside(scan, branch.span, words):
        word = token.text.upper()
        if word == "EXCEPT":
            hint = "A recursive query is: anchor UNION [ALL] step. Put the step in parentheses."
        else:
            hint = "Put it into the query that reads the table, or the step in parentheses."
        # begun as DuckDB says it
        said = {"ORDER": "ORDER BY", "EXCEPT": "EXCEPT"}.get(word, "LIMIT or OFFSET")
        raise errors.ProgrammingError(
            f"{said} in a recursive query is not allowed: it applies to the whole of recursive "
            f'table "{cte.label}"',
            hint=hint,
            text=scan.text,
            position=token.start,
            length=len(token.text),
        )


@lru_cache(maxsize=256)
def parsed_text(text: str) -> exp.Expr | None:
    """A query's syntax tree; None where sqlglot cannot read it."""
    try:
        found = parse_one(text, dialect=Plain)
    except (SqlglotError, RecursionError):
        return None
    return found if isinstance(found, exp.Expr) else None


def parsed(scanned: Scan, span: Span) -> exp.Expr | None:
    """A part's syntax tree; None where sqlglot cannot read it."""
    return parsed_text(scanned.text[span.start : span.end])
