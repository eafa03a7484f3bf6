"""Plain views whose recursion DuckDB would refuse, or give another meaning.

Such a view is kept in the registry of maintained views, as one that is not maintained: its query is
run when a statement names it. All other plain views are DuckDB's own.
"""

from __future__ import annotations

import dataclasses
from itertools import count
from typing import TYPE_CHECKING

from tidewheel.engine.arrow import empty, pa

from . import errors, foreign_views, view_text
from .reads import Names
from .search_path import lowered
from .statements import Statement, makes_temporary, mentions_recursion, split

if TYPE_CHECKING:
    from tidewheel.planner.plans import Home

    from ..planner import logical as L
    from .views import Views


def handled(statement: Statement, views: Views) -> bool:
    """Run a statement about a view that is ours; False if it is DuckDB's."""
    verb = statement.words[0]
    if verb == "CREATE":
        return _create(statement, views)
    maintained = statement.words[:2] == ("ALTER", "MATERIALIZED")
    if not (views.any or verb == "ALTER"):
        return False
    if verb == "DROP":
        parsed = view_text.parse_drop(statement, plain=True)
    else:
        parsed = view_text.parse_altered(statement)
    known = views.registered(parsed.parts)
    if known is None and verb == "ALTER":
        there = Names(views.host.connection).find(list(parsed.parts))
        foreign_views.refuse(views, there, statement, parsed.name_at)
    if known is None and maintained:
        if parsed.if_exists:
            return True
        raise errors.ProgrammingError(
            f"there is no maintained view {parsed.parts[-1]}",
            text=statement.script,
            position=parsed.name_at,
            length=parsed.name_length,
        )
    if known is None:
        return False
    if verb == "ALTER" and len(parsed.rest) == 1:
        views.rename(statement, parsed, known)
        return True
    if verb == "ALTER":
        raise errors.NotSupportedError(
            f"{parsed.parts[-1]} can be altered by RENAME TO only",
            hint="drop it and create it again",
            text=statement.script,
            position=parsed.name_at,
            length=parsed.name_length,
        )
    if not known.plain:
        raise _maintained(statement, parsed)
    views.drop(statement, plain=True)
    return True


def _create(statement: Statement, views: Views) -> bool:
    mentions = mentions_recursion(statement.text)
    if not (mentions or views.any):
        return False
    parsed = view_text.parse_create(statement, plain=True)
    known = views.registered(parsed.parts, made=True)
    if known is not None and not known.plain and not parsed.if_not_exists:
        raise _maintained(statement, parsed)
    temporary = makes_temporary(statement)
    columns = None
    if mentions:
        with views.at(_home(views, parsed)):
            columns = _columns(statement, parsed, views, temporary)
    if columns is None:
        if known is None or not (parsed.replace and known.plain):
            return False
        # DuckDB's view takes its place; its query must be right before the old one goes.
        views.host.connection.sql(parsed.query)
        views.forget_plain(parsed, statement)
        return False
    if temporary:
        raise errors.NotSupportedError(
            "a temporary view can't hold this recursion, which DuckDB does not run",
            hint="leave TEMP out",
            text=statement.script,
            position=statement.start,
            length=len("CREATE"),
        )
    with views.at(_home(views, parsed)):
        views.create(statement, columns)
    return True


def _home(views: Views, parsed: view_text.CreateView) -> Home:
    """Where the query of a plain view looks for names: its own schema comes first."""
    home = views.home()
    if len(parsed.parts) < 2:
        return home
    names = Names(views.host.connection, home.path)
    own = names.target(parsed.parts)
    return dataclasses.replace(home, path=lowered((own, *names.path)))


def _columns(
    statement: Statement, parsed: view_text.CreateView, views: Views, temporary: bool
) -> list[L.Column] | None:
    """The columns of a query that is ours to run; None where DuckDB gives it the same meaning.

    `temporary`: DuckDB gets the text in the words that it knows (see recursion.for_duckdb).
    """
    # Imported here: sqlglot takes long to load.
    from . import recursion
    from .recursion_order import early
    from .recursion_scan import scan

    inner = split(parsed.query)[0]
    inner = dataclasses.replace(inner, script=statement.script, start=parsed.query_at)
    describe = recursion.Describer(views.host.connection)
    plan = recursion.plan_statement(inner, describe, rewrite=False)
    if plan is None:
        return None
    scanned = scan(parsed.query)
    forms = [c for w in scanned.withs for c in w.ctes]
    ours = any(c.with_.mutually for c in forms)
    if not temporary:
        ours = ours or bool(early(scanned)) or any(c.search or c.cycle for c in forms)
    if not ours and same(plan.node):
        return None
    columns = list(plan.node.schema)
    for i, column in enumerate(columns):  # as DuckDB names those of its views
        before = [c.label.lower() for c in columns[:i]]
        if column.label.lower() in before:
            n = next(n for n in count(1) if f"{column.label}_{n}".lower() not in before)
            columns[i] = dataclasses.replace(column, label=f"{column.label}_{n}")
    return columns


def same(node: L.Node) -> bool:
    """Do all recursions of a plan mean the same to DuckDB?"""
    from ..planner import logical as L
    from .recursion_nodes import reads_more

    if isinstance(node, L.LetRec):
        if len(node.bindings) > 1:
            return False
        b = node.bindings[0]
        if b.kind not in ("union", "union_all", "using_key"):
            return False
        if b.kind != "using_key" and reads_more(b):
            return False
    return all(same(c) for c in node.children)


def no_rows(columns: list[L.Column], types: list[pa.DataType]) -> pa.Table:
    """A table of these columns, whose types these are in Arrow."""
    return empty(pa.schema(zip((c.label for c in columns), types, strict=True)))


def _maintained(
    statement: Statement, parsed: view_text.CreateView | view_text.ViewName
) -> errors.Error:
    name = parsed.parts[-1]
    return errors.ProgrammingError(
        f"{name} is a maintained view",
        hint=f"DROP MATERIALIZED VIEW {name}",
        text=statement.script,
        position=parsed.name_at,
        length=parsed.name_length,
    )
