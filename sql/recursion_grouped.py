"""WITH MUTUALLY RECURSIVE that keeps the best value of each key, as anchor UNION step.

    t AS (SELECT x, min(d) FROM (anchor UNION ALL step) GROUP BY x)

means what `t AS (SELECT x, min(d) FROM (anchor) GROUP BY x UNION step)` does, with the step grouped
likewise, if better values of `t` only make what is derived better. Whether that is so the check of
grouped steps decides (`recursion_aggregates`). Only the places between the parts are written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidewheel.engine.quoting import quoted

from . import errors
from . import recursion_check as check
from .bind_types import is_volatile
from .recursion_aggregates import improving
from .recursion_branches import Branch, outside, split
from .recursion_scan import scan
from .recursion_tables import Cte, Scan, Span

_NO_VALUE = (
    exp.AggFunc,
    exp.Window,
    exp.Explode,
    exp.Unnest,
    exp.Query,
    exp.Anonymous,
    exp.Columns,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)
"""What may make more or less of a row than one, cannot be grouped by, or has a FROM of its own."""


def grouped(scanned: Scan) -> Scan | None:
    """The statement with such tables taken apart; None if there are none."""
    edits: list[tuple[int, Span, str]] = []
    for i, with_ in enumerate(scanned.withs):
        if with_.mutually and with_.limit is None and len(with_.ctes) == 1:
            written = _written(scanned, with_.ctes[0])
            if written is not None:
                edits.append((i, with_.ctes[0].body, written))
    if not edits or any(a.holds(b) for _, a, _ in edits for _, b, _ in edits if a is not b):
        return None
    text = scanned.text
    for _, span, written in reversed(edits):
        text = f"{text[: span.start]}\n{written}\n{text[span.end :]}"
    found = scan(text)
    for more, (i, _, _) in enumerate(edits):  # (the anchor of each one has a WITH of its own)
        found.withs[i + more].improving = True
    return found


@dataclass(frozen=True)
class _Item:
    """A column of the outer SELECT: an aggregate's name, or "" for a key, of a column inside."""

    function: str
    column: str

    def over(self, value: str) -> str:
        return f"{self.function}({value})" if self.function else value


def _written(scanned: Scan, cte: Cte) -> str | None:
    query = check.parsed(scanned, cte.body)
    if not isinstance(query, exp.Select) or is_volatile(query):
        return None
    items = _items(query)
    inner = _inner(scanned, cte)
    if items is None or inner is None or any(cte.body.holds(w.head) for w in scanned.withs):
        return None
    try:
        branches = split(scanned, replace(cte, body=inner))
    except errors.Error:
        return None
    back = [r.name for r in scanned.references if scanned.resolve(r) is cte and inner.holds(r.name)]
    steps = [b for b in branches if any(b.span.holds(place) for place in back)]
    anchors = [b for b in branches if b not in steps]
    first = check.parsed(scanned, branches[0].span)
    if not steps or not anchors or not isinstance(first, exp.Select):
        return None
    names = [name.lower() for name in first.named_selects]
    if len(set(names)) < len(names) or any(i.column not in names for i in items):
        return None
    parts = [_anchor(scanned, anchors, names, items)]
    for branch in steps:
        step = _step(scanned, branch, names, items)
        if step is None:
            return None
        parts.append(step)
    return "\nUNION\n".join(parts)


def _items(query: exp.Select) -> list[_Item] | None:
    """The columns of ``SELECT key, …, min(value), … FROM (…) GROUP BY key, …``."""
    given = {key for key, value in query.args.items() if value}
    if not given <= {"expressions", "from_", "from", "group", "kind"} or "group" not in given:
        return None
    found = []
    for item in query.expressions:
        value = item.unalias()
        function = improving(value)
        if function:
            value = value.this
        if not isinstance(value, exp.Column):
            return None
        found.append(_Item(function, value.name.lower()))
    keys = {i.column for i in found if not i.function}
    group = query.args["group"]
    if any(value and key not in ("expressions", "all") for key, value in group.args.items()):
        return None
    by = set()
    for key in group.expressions:
        if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.this) <= len(found):
            item = found[int(key.this) - 1]
            by.add(item.column if not item.function else "")
        elif isinstance(key, exp.Column):
            by.add(key.name.lower())
        else:
            return None
    every = group.args.get("all") is True
    return found if keys and (every or by == keys) else None


def _inner(scanned: Scan, cte: Cte) -> Span | None:
    """What stands in the parentheses behind FROM; None if anything else is read."""
    tokens = scanned.within(cte.body)
    words = [t.text.upper() if t.kind in ("word", "punctuation") else "" for t in tokens]
    if "FROM" not in words:
        return None
    opening = words.index("FROM") + 1
    if words[opening : opening + 1] != ["("]:
        return None
    depth = 0
    for i in range(opening, len(tokens)):
        depth += (words[i] == "(") - (words[i] == ")")
        if depth == 0:
            alias = words[i + 1 : words.index("GROUP", i) if "GROUP" in words[i:] else i + 1]
            if "(" in alias or "," in alias or "JOIN" in alias:
                return None
            return Span(tokens[opening].start + 1, tokens[i].start)
    return None


def _anchor(
    scanned: Scan, anchors: Sequence[Branch], names: Sequence[str], items: Sequence[_Item]
) -> str:
    text = "\nUNION ALL\n".join(scanned.text[b.span.start : b.span.end] for b in anchors)
    columns = ", ".join(map(quoted, names))
    keys = ", ".join(quoted(i.column) for i in items if not i.function)
    chosen = ", ".join(i.over(quoted(i.column)) for i in items)
    return (
        f"SELECT {chosen} FROM (WITH __tw_all({columns}) AS (\n{text}\n) FROM __tw_all) "
        f"GROUP BY {keys}"
    )


def _step(
    scanned: Scan, branch: Branch, names: Sequence[str], items: Sequence[_Item]
) -> str | None:
    """A step with the outer columns in the place of its own."""
    query = check.parsed(scanned, branch.span)
    allowed = {"expressions", "from_", "from", "joins", "where", "kind"}
    if not isinstance(query, exp.Select) or len(query.expressions) != len(names):
        return None
    if any(value and key not in allowed for key, value in query.args.items()):
        return None
    if any(item.find(*_NO_VALUE) for item in query.expressions) or _names_itself(query):
        return None
    tokens = scanned.within(branch.span)
    commas = [tokens.index(t) for t in outside(scanned, branch.span, (",", "FROM"))]
    ends = commas[: len(names)]
    if len(ends) < len(names) or tokens[ends[-1]].text.upper() != "FROM":
        return None
    values: dict[str, str] = {}
    begin = 1
    for name, item, end in zip(names, query.expressions, ends, strict=True):
        last = end
        if isinstance(item, exp.Alias):
            last -= 2 if tokens[end - 2].text.upper() == "AS" else 1
        if isinstance(item.unalias(), (exp.Literal, exp.Star)) or last <= begin:
            return None
        final = tokens[last - 1]
        values[name] = scanned.text[tokens[begin].start : final.start + len(final.text)]
        begin = end + 1
    chosen = ", ".join(i.over(values[i.column]) for i in items)
    keys = ", ".join(values[i.column] for i in items if not i.function)
    rest = scanned.text[tokens[ends[-1]].start : branch.span.end]
    return f"SELECT {chosen} {rest.rstrip()}\nGROUP BY {keys}"


def _names_itself(query: exp.Select) -> bool:
    """Does it use a name that it gives to one of its columns?"""
    given = {item.alias.lower() for item in query.expressions if isinstance(item, exp.Alias)}
    return any(not c.table and c.name.lower() in given for c in query.find_all(exp.Column))
