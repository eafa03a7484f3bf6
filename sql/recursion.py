"""WITH RECURSIVE and its kin: from a statement's text to the plan of its loops.

Every group of tables that refer to each other becomes a `LetRec`, placed so that it can read what
it needs; where it was defined, the text then reads an input instead. All else stays as written
(see recursion_text).

    WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT x + 1 FROM t WHERE x < 9) SELECT sum(x) FROM t
                            ── anchor ──       ─────── step ──────────────  ────── body ──────

The meaning of each form is written in docs/recursion.md.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import duckdb

from ..planner.logical import Block, Node
from . import errors
from . import recursion_check as check
from .recursion_branches import opened as opened_bodies
from .recursion_branches import outside, parts, prelude
from .recursion_describe import Describer, numbered
from .recursion_grouped import grouped
from .recursion_groups import groups
from .recursion_keyed import keyed
from .recursion_linear import linear
from .recursion_member import Correlated, Texts
from .recursion_order import arranged, early
from .recursion_plan import Correlation, Plan, Planner, RecursiveTable
from .recursion_scan import scan
from .recursion_search import desugar
from .recursion_tables import Cte, Scan, Span
from .recursion_text import Cutter
from .recursion_whole import is_back
from .recursion_whole import whole as whole_query
from .statements import Statement, mentions_recursion


def plan(
    text: str,
    describe: Describer,
    is_query: bool = True,
    rewrite: bool = True,
    keys: bool = False,
) -> Plan | None:
    """Plan a statement; None if DuckDB should run it as it is written.

    `rewrite`: other steps may stand for those that are written, if they mean the same. `keys`: so
    may, for recursions that DuckDB would decorrelate, those with keys (see recursion_keyed).

    Raises ProgrammingError or NotSupportedError, with the place, for a recursion without meaning
    and for what DuckDB's binder refuses in it.
    """
    scanned = _scanned(text)
    if scanned is None:
        return None
    if not early(scanned):
        return _planned(scanned, describe, is_query, rewrite, keys, always=scanned.written_out)
    refusals: list[errors.Error] = []
    for again in (False, True):  # tables that read each other: a recursion, if they can be one
        ordered = arranged(scanned, describe.table, recursions=again)
        try:
            moved = ordered is not None or scanned.written_out
            return _planned(ordered or scanned, describe, is_query, rewrite, keys, always=moved)
        except errors.Error as error:
            refusals.append(error if ordered is None else _placed(error, scanned, describe))
    raise refusals[0]


def _placed(error: errors.Error, scanned: Scan, describe: Describer) -> errors.Error:
    """An error about an ordered text, at a place in the one that was written."""
    texts = Texts(scanned, describe, Cutter(scanned))
    position, length = texts.named_in(error.message, Span(0, len(scanned.text)))
    return type(error)(
        error.message, hint=error.hint, text=scanned.text, position=position, length=length
    )


def _planned(
    scanned: Scan,
    describe: Describer,
    is_query: bool,
    rewrite: bool,
    keys: bool,
    always: bool = False,
) -> Plan | None:
    again = _rewritten(scanned) if rewrite else None
    if again is not None:
        with suppress(errors.Error, duckdb.Error):  # told of the text as it is written
            theirs = whole_query(again) is not None  # DuckDB decorrelates it
            found = _decorrelated(again, describe, is_query, keys, theirs, rewrite)
            if found is not None:
                return found
    return _decorrelated(scanned, describe, is_query, keys, always, rewrite)


def _decorrelated(
    scanned: Scan, describe: Describer, is_query: bool, keys: bool, always: bool, rewrite: bool
) -> Plan | None:
    """The plan; what reads the rows of a query around it is given keys if DuckDB cannot run it, or
    if `keys` are wanted.
    """
    wanted: Correlation = "all" if keys else "ours"
    planner = Planner(scanned, describe, wanted, rewrite)
    try:
        return planner.statement(is_query, always)
    except Correlated as refusal:
        again, hint = keyed(scanned, describe)
        if again is not None:
            with suppress(errors.Error, duckdb.Error, Correlated):  # told of the text as written
                other = Planner(again, describe, wanted, rewrite)
                other.texts.written, other.inlined = scanned.text, True
                return other.statement(is_query, always=True)
        if not keys:
            refusal.error.hint = hint or refusal.error.hint
            raise planner.texts.told(refusal) or refusal.error from None
    return _decorrelated(scanned, describe, is_query, False, always, rewrite)


def whole(text: str) -> tuple[Block, bool] | None:
    """A query as DuckDB can run it, if its text alone tells that it means the same there.

    Also: does it surely come to an end? None where that is not so, where `plan` has more to say
    (what is wrong, where a LIMIT ends a recursion), or where there is no recursion.
    """
    try:
        scanned = _scanned(text)
        if scanned is None or early(scanned):
            return None
        return whole_query(_rewritten(scanned) or scanned)
    except errors.Error:
        return None


def for_duckdb(text: str, describe: Describer) -> str:
    """PREPARE, CREATE MACRO or a temporary view with a recursion: DuckDB keeps and runs the text.

    SEARCH and CYCLE are written out for that, and its tables put in order. Raises
    NotSupportedError for what only Tidewheel can run.
    """
    scanned = _scanned(text)
    if scanned is None:
        return text
    ordered = arranged(scanned, describe.table)
    if early(ordered or scanned):  # DuckDB takes the catalog's tables, where there are any
        ordered = arranged(scanned, describe.table, recursions=True)
    found = shown = ordered or scanned
    wrong = next((w.head for w in found.withs if w.mutually), None)
    backwards = early(found)
    if wrong is None and not backwards:
        least = _least(found)
        if least is None:
            return found.text if ordered or scanned.written_out else text
        again = _rewritten(found)
        if again is not None and _least(again) is None:
            return again.text
        wrong, what = least.name, f'least fixpoint, as that of "{least.label}" is'
    elif wrong is None:
        shown = scanned
        wrong = next(r.name for r in scanned.references if r.key == backwards[0][0].key)
        what = f'tables that read each other ("{backwards[0][0].label}")'
    else:
        what = "WITH MUTUALLY RECURSIVE"
    raise errors.NotSupportedError(
        f"what is prepared, and a macro or temporary view, is run by DuckDB, which knows no {what}",
        hint="Execute the query itself, with parameters: its plan is kept with its text. Or make a "
        "view of it.",
        text=shown.text,
        position=wrong.start,
        length=wrong.end - wrong.start,
    )


def _least(scanned: Scan) -> Cte | None:
    """A recursive table that DuckDB would give another meaning."""
    for group in groups(scanned).values():
        for cte in group:
            back = [r for r in scanned.references if is_back(scanned, r, cte, group)]
            if check.judge(scanned, cte, parts(scanned, cte, back), group).ours:
                return cte
    return None


def _rewritten(scanned: Scan) -> Scan | None:
    """A statement that means the same, where its steps can be simpler."""
    return linear(scanned) or grouped(scanned)


def _scanned(text: str) -> Scan | None:
    """What a text says about WITH RECURSIVE, without SEARCH and CYCLE; None if nothing."""
    if not mentions_recursion(text):
        return None
    scanned = scan(text)
    if not any(w.recursive for w in scanned.withs):
        return None
    scanned = opened_bodies(scanned)
    if _is_hidden(scanned):
        return None
    if any(c.search or c.cycle for w in scanned.withs for c in w.ctes):
        scanned = scan(desugar(scanned))
        scanned.written_out = True
    return scanned


def _is_hidden(scanned: Scan) -> bool:
    """Does a recursive table's query begin with a WITH that defines the name that its step reads?

    DuckDB has the step read the recursive table all the same: the text is DuckDB's.
    """
    for cte in (c for w in scanned.withs if w.recursive and not w.mutually for c in w.ctes):
        lead = prelude(scanned, cte.body)
        inner = [c for w in scanned.withs if w.head.start == lead.start for c in w.ctes]
        if lead.start < lead.end and any(c.key == cte.key for c in inner):
            first = next(outside(scanned, Span(lead.end, cte.body.end), ("UNION",)), None)
            if first and any(
                r.key == cte.key and first.start < r.name.start < cte.body.end
                for r in scanned.references
            ):
                return True
    return False


@dataclass(frozen=True)
class Opened:
    """A query's text as it was planned; `tables` by definition. `node` is None without recursion.

    `scan` is of the text without SEARCH and CYCLE clauses.
    """

    scan: Scan
    node: Node | None
    tables: dict[Span, RecursiveTable]


def opened(text: str, describe: Describer) -> Opened:
    """Plan a query and tell where its recursive tables stand. Raises as `plan` does."""
    scanned = opened_bodies(scan(text))
    if any(c.search or c.cycle for w in scanned.withs for c in w.ctes):
        scanned = scan(desugar(scanned))
    refusals: list[errors.Error] = []
    for again in (False, True) if early(scanned) else (False,):  # as in `plan`
        ordered = arranged(scanned, describe.table, recursions=again) or scanned
        planner = Planner(ordered, describe, "none")
        try:
            recursive = any(w.recursive for w in ordered.withs)
            found = planner.statement(True) if recursive else None
        except errors.Error as error:
            refusals.append(error if planner.left is None else planner.left.error)
        else:
            return Opened(ordered, None if found is None else found.node, planner.tables)
    raise refusals[0]


def plan_statement(
    statement: Statement,
    describe: Describer,
    is_query: bool = True,
    rewrite: bool = True,
    keys: bool = False,
) -> Plan | None:
    """`plan` for a statement of a script: places are given in the script."""
    try:
        return plan(statement.text, describe, is_query, rewrite, keys)
    except errors.Error as error:
        if error.line is None or error.column is None:
            raise
        lines = statement.text.split("\n")
        position = sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1
        raise type(error)(
            error.message,
            hint=error.hint,
            text=statement.script,
            position=statement.start + position,
            length=error.length,
        ) from None


__all__ = [
    "Describer",
    "Opened",
    "Plan",
    "RecursiveTable",
    "for_duckdb",
    "numbered",
    "opened",
    "plan",
    "plan_statement",
    "whole",
]
