"""SEARCH and CYCLE as ordinary columns: they are written into anchor and step, as text.

As PostgreSQL defines them. For ``SEARCH DEPTH FIRST BY a SET s`` the column s is the list of the
rows ``(a)`` on the way; for BREADTH it is ``(length of the way, a)``; for ``CYCLE a SET c USING p``
p is the list of the rows ``(a)`` on the way and c tells whether the last one was on it before,
where
the search ends.
"""

from __future__ import annotations

from . import errors
from .recursion_branches import Branch, parts
from .recursion_scan import Cte, Reference, Scan, Span
from .recursion_text import Cutter, Splice, quoted

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
    if not cte.columns:
        raise _wrong(
            scanned,
            cte.name,
            f'SEARCH and CYCLE need the columns of "{label}" to be named',
            f"Write {label}(column, …) AS (…).",
        )
    own = [r for r in scanned.references if cte.body.holds(r.name) and scanned.resolve(r) is cte]
    split = parts(scanned, cte, own)
    if not split.anchors or len(split.steps) != 1 or len(own) != 1:
        raise _wrong(
            scanned,
            cte.name,
            f'SEARCH and CYCLE need "{label}" to be: anchor UNION [ALL] one linear step',
            "Refer to the table once, in the query behind the last UNION.",
        )
    known = {c.lower() for c in cte.columns}
    asked = [*(cte.search.by if cte.search else ()), *(cte.cycle.columns if cte.cycle else ())]
    for name in asked:
        if name.lower() not in known:
            raise _wrong(
                scanned,
                cte.name,
                f'"{name}", named by SEARCH or CYCLE, is no column of "{label}"',
                f"Its columns are: {', '.join(cte.columns)}.",
            )
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
            fields = ", ".join(f"{quoted(c)} := {quoted(c)}" for c in cte.search.by)
            first.append(f"struct_pack(depth := 0, {fields})")
            later.append(f"struct_pack(depth := __tw_n.{name}.depth + 1, {fields})")
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
        if word == "*" and from_at is None and _is_star(scanned, token.start):
            raise _wrong(
                scanned,
                Span(token.start, token.start + 1),
                "* is not allowed in a step with SEARCH or CYCLE",
                "Name the columns.",
            )
    if from_at is None or not (selects and direct and from_at < own.name.start):
        raise _wrong(
            scanned,
            own.name,
            f'"{cte.label}" must stand in the FROM clause of the step itself',
            "Write the step as SELECT … FROM … WHERE.",
        )
    alias = _alias(scanned, own)
    local = Cutter(scanned)
    if not numbered:
        local.splices.clear()
    extra = "".join(f", {alias}.{quoted(c)}" for c in carried)
    if condition or not own.aliased:
        name = quoted(own.label)
        text = f"(SELECT * FROM {name}{condition})" + ("" if own.aliased else f" AS {name}")
        local.splices[own.name] = Splice(own.name, text)
    found = local.part(Span(step.span.start, from_at)).sql.rstrip()
    rest = local.part(Span(from_at, step.span.end)).sql
    return f"{found}{extra} {rest}"


def _alias(scanned: Scan, own: Reference) -> str:
    following = scanned.within(Span(own.name.end, len(scanned.text)))
    if not own.aliased:
        return quoted(own.label)
    skip = following[0].kind == "word" and following[0].text.upper() == "AS"
    return following[1 if skip else 0].text


def _is_star(scanned: Scan, position: int) -> bool:
    """Is the * at `position` all columns, rather than a product?"""
    before = scanned.within(Span(0, position))[-1].text.upper()
    return before in ("SELECT", ",", ".", "ALL")


def _row(names: tuple[str, ...]) -> str:
    return "row(" + ", ".join(quoted(n) for n in names) + ")"


def _wrong(scanned: Scan, span: Span, message: str, hint: str) -> errors.ProgrammingError:
    return errors.ProgrammingError(
        message, hint=hint, text=scanned.text, position=span.start, length=span.end - span.start
    )
