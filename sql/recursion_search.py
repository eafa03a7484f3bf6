"""SEARCH and CYCLE as ordinary columns: they are written into anchor and step, as text.

As PostgreSQL defines them. For ``SEARCH DEPTH FIRST BY a SET s`` the column s is the list of the
rows ``(a)`` on the way; for BREADTH it is ``(length of the way, a)``; for ``CYCLE a SET c USING p``
p is the list of the rows ``(a)`` on the way and c tells whether the last one was on it before,
where
the search ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from tidewheel.engine.quoting import quoted
from tidewheel.planner.dialect import Plain

from . import errors
from .recursion_branches import Branch, parts
from .recursion_tables import Cte, Reference, Scan, Span
from .recursion_text import Cutter, Splice

_FORBIDDEN = ("GROUP", "HAVING", "DISTINCT", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "UNION")


def desugar(scanned: Scan) -> str:
    """The statement without SEARCH and CYCLE clauses."""
    cutter = Cutter(scanned)
    cutter.splices.clear()
    for with_ in scanned.withs:
        for cte in with_.ctes:
            if cte.search or cte.cycle:
                _rewrite(scanned, cutter, cte)
    return cutter.part(Span(0, len(scanned.text))).sql


def _rewrite(scanned: Scan, cutter: Cutter, cte: Cte) -> None:
    label = cte.label
    own = [r for r in scanned.references if cte.body.holds(r.name) and scanned.resolve(r) is cte]
    split = parts(scanned, cte, own)
    if not split.anchors or len(split.steps) != 1 or len(own) != 1:
        raise _wrong(
            scanned,
            cte.name,
            f'SEARCH and CYCLE need "{label}" to be: anchor UNION [ALL] one linear step',
            "Refer to the table once, in the query behind the last UNION.",
        )
    cte.columns = cte.columns or _labels(scanned, split.anchors[0].span)
    if not cte.columns:
        raise _wrong(
            scanned,
            cte.name,
            f'SEARCH and CYCLE need the columns of "{label}" to be named',
            f"Write {label}(column, …) AS (…).",
        )
    _check_names(scanned, cte)
    columns = [quoted(c) for c in cte.columns]
    first: list[str] = []
    later: list[str] = []
    carried: list[str] = []
    condition = ""
    if cte.search:
        name, by = quoted(cte.search.column), _row(cte.search.by)
        columns.append(name)
        carried.append(cte.search.column)
        if cte.search.order == "depth":
            first.append(f"[{by}]")
            later.append(f"list_append(__tw_n.{name}, {by})")
        else:
            fields = ", ".join(f"{quoted(c)}: {quoted(c)}" for c in cte.search.by)
            first.append(f"{{depth: 0, {fields}}}")
            later.append(f"{{depth: __tw_n.{name}.depth + 1, {fields}}}")
    if cte.cycle:
        cycle, by = cte.cycle, _row(cte.cycle.columns)
        mark, path = quoted(cycle.mark), quoted(cycle.path)
        columns += [mark, path]
        carried += [cycle.mark, cycle.path]
        first += [cycle.default, f"[{by}]"]
        later += [
            f"CASE WHEN list_contains(__tw_n.{path}, {by}) "
            f"THEN {cycle.value} ELSE {cycle.default} END",
            f"list_append(__tw_n.{path}, {by})",
        ]
        condition = f" WHERE {mark} IS DISTINCT FROM {cycle.value}"
    inner = ", ".join(quoted(c) for c in cte.columns)
    anchor = split.anchor
    assert anchor is not None
    assert split.operator is not None
    operator = "UNION ALL" if split.operator == "union_all" else "UNION"
    replaced = Cutter(scanned)
    replaced.splices.clear()
    before = scanned.text[cte.body.start : anchor.start]
    anchor_text = replaced.part(anchor).sql
    step = carry(scanned, split.steps[0], own[0], cte, carried, condition)
    hidden = ", ".join(f"__tw_c{i}" for i in range(len(carried)))
    lifted = ", ".join(f"__tw_c{i} AS {quoted(c)}" for i, c in enumerate(carried))
    body = (
        f"{before}SELECT {inner}, {', '.join(first)} FROM (\n{anchor_text}\n) AS __tw_a({inner})\n"
        f"{operator}\nSELECT {inner}, {', '.join(later)} FROM (SELECT {inner}, {lifted} FROM (\n"
        f"{step}\n) AS __tw_m({inner}, {hidden})) AS __tw_n"
    )
    text = f"{quoted(label)}({', '.join(columns)}) AS ({body})"
    cutter.splices[cte.definition] = Splice(cte.definition, text)


def _labels(scanned: Scan, anchor: Span) -> tuple[str, ...]:
    """The names that an anchor gives its columns; none where they are not all written."""
    try:
        query = parse_one(scanned.text[anchor.start : anchor.end], dialect=Plain)
    except SqlglotError:
        return ()
    if not isinstance(query, exp.Select) or any(e.find(exp.Star) for e in query.expressions):
        return ()
    names = tuple(e.alias_or_name for e in query.expressions)
    return names if all(names) else ()


def _check_names(scanned: Scan, cte: Cte) -> None:
    """The columns that the clauses read are there, each once; those that they add are new."""
    known = {c.lower() for c in cte.columns}
    lists = [("SEARCH", cte.search.by)] if cte.search else []
    added = [cte.search.column] if cte.search else []
    if cte.cycle:
        lists.append(("CYCLE", cte.cycle.columns))
        added += [cte.cycle.mark, cte.cycle.path]
    for clause, names in lists:
        for i, name in enumerate(names):
            if name.lower() not in known:
                hint = f"Its columns are: {', '.join(cte.columns)}."
                message = f'"{name}", named by {clause}, is no column of "{cte.label}"'
                raise _wrong(scanned, _clause(scanned, cte, name), message, hint)
            if name.lower() in (n.lower() for n in names[:i]):
                place = _clause(scanned, cte, name)
                raise _wrong(scanned, place, f'{clause} names "{name}" twice', "Name it once.")
    for i, name in enumerate(added):
        if name.lower() in known or name.lower() in (n.lower() for n in added[:i]):
            message = f'"{cte.label}" has a column "{name}" already'
            hint = "Give the column that the clause adds another name."
            raise _wrong(scanned, _clause(scanned, cte, name, last=True), message, hint)


def _clause(scanned: Scan, cte: Cte, name: str, last: bool = False) -> Span:
    """Where a SEARCH or CYCLE clause has a name."""
    found = [
        Span(t.start, t.start + len(t.text))
        for t in scanned.within(Span(cte.body.end, cte.definition.end))
        if t.word == name.lower()
    ]
    return found[-1 if last else 0] if found else cte.name


def carry(
    scanned: Scan,
    step: Branch,
    own: Reference,
    cte: Cte,
    carried: list[str],
    condition: str,
    numbered: bool = False,
) -> str:
    """The step with the carried columns of the row that it extends added to its SELECT list."""
    alias = _alias(scanned, own)
    local = Cutter(scanned)
    if not numbered:
        local.splices.clear()
    hidden = [f"__tw_k{i}" for i in range(len(carried))]
    depth = 0
    selects = direct = False
    from_at: int | None = None
    for token in scanned.within(step.span):
        word = token.text.upper() if token.kind in ("word", "punctuation") else ""
        depth += (word == "(") - (word == ")")
        if depth:
            continue
        if word in _FORBIDDEN:
            raise _wrong(
                scanned,
                Span(token.start, token.start + len(word)),
                f"{word} is not allowed in a step with SEARCH or CYCLE",
                "The step must be a plain SELECT … FROM … WHERE.",
            )
        if word == "SELECT" and from_at is None:
            selects = True
        if word == "FROM" and from_at is None:
            from_at = token.start
        if token.start == own.name.start:
            direct = True
        if word == "*" and from_at is None and _is_star(scanned, token.start, alias):
            star = Span(token.start, token.start + 1)
            following = scanned.within(Span(star.end, step.span.end))[0].text.upper()
            if following in ("EXCLUDE", "REPLACE", "RENAME", "LIKE", "ILIKE", "SIMILAR"):
                raise _wrong(
                    scanned,
                    star,
                    f"* {following} is not allowed in a step with SEARCH or CYCLE",
                    "Name the columns.",
                )
            local.splices[star] = Splice(star, f"* EXCLUDE ({', '.join(hidden)})")
    if from_at is None or not (selects and direct and from_at < own.name.start):
        raise _wrong(
            scanned,
            own.name,
            f'"{cte.label}" must stand in the FROM clause of the step itself',
            "Write the step as SELECT … FROM … WHERE.",
        )
    extra = "".join(f", {alias}.{name}" for name in hidden)
    # Under other names: a star must not give them, nor be mistaken for what other tables have.
    renames = ", ".join(f"{quoted(c)} AS {h}" for c, h in zip(carried, hidden, strict=True))
    name = quoted(own.label)
    text = f"(SELECT * RENAME ({renames}) FROM {name}{condition})"
    local.splices[own.name] = Splice(own.name, text + ("" if own.aliased else f" AS {name}"))
    for span, i in _named(scanned, step.span, own, alias, carried):
        local.splices[span] = Splice(span, hidden[i])
    found = local.part(Span(step.span.start, from_at)).sql.rstrip()
    rest = local.part(Span(from_at, step.span.end)).sql
    return f"{found}{extra} {rest}"


def _named(
    scanned: Scan, step: Span, own: Reference, alias: str, carried: list[str]
) -> Iterator[tuple[Span, int]]:
    """Where a step names carried columns, and which: with its table, or without if it is alone."""
    known = {name.lower(): i for i, name in enumerate(carried)}
    tokens = list(scanned.within(step))
    words = [(t.start, "" if t.kind == "name" else t.text.upper()) for t in tokens]
    before_own = [word for start, word in words if start < own.name.start]
    behind = [word for start, word in words if start > own.name.start]
    items = takewhile(lambda word: word != "WHERE", behind)
    alone = before_own[-1] == "FROM" and not any(word in (",", "JOIN") for word in items)
    table = alias.strip('"').lower()
    for before, dot, token in zip([None, None, *tokens], [None, *tokens], tokens, strict=False):
        which = known.get(token.word)
        if which is None or not (token.kind in ("word", "name") or token.text.startswith('"')):
            continue
        if dot is not None and dot.text == ".":
            mine = before is not None and before.word == table
        else:
            mine = alone and (dot is None or dot.text.upper() != "AS")
        if mine:
            yield Span(token.start, token.start + len(token.text)), which


def _alias(scanned: Scan, own: Reference) -> str:
    following = scanned.within(Span(own.name.end, len(scanned.text)))
    if not own.aliased:
        return quoted(own.label)
    skip = following[0].kind == "word" and following[0].text.upper() == "AS"
    return following[1 if skip else 0].text


def _is_star(scanned: Scan, position: int, alias: str) -> bool:
    """Does the * at `position` give all columns of the recursive table, as `alias` or with all?"""
    before = scanned.within(Span(0, position))
    if before[-1].text == ".":
        return before[-2].word == alias.strip('"').lower()
    return before[-1].text.upper() in ("SELECT", ",", "ALL")


def _row(names: tuple[str, ...]) -> str:
    return "row(" + ", ".join(quoted(n) for n in names) + ")"


def _wrong(scanned: Scan, span: Span, message: str, hint: str) -> errors.ProgrammingError:
    return errors.ProgrammingError(
        message, hint=hint, text=scanned.text, position=span.start, length=span.end - span.start
    )
