"""Errors of a session's statements: DuckDB's and the engine's, as ours, with their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from tidewheel.planner.maintain import FAILED_VIEW

from ..engine.operators.budget import RecursionInterrupted, RecursionLimitError
from . import diagnose, error_place, errors, hidden
from . import safe_mode as safe
from .statements import Statement, tokens

if TYPE_CHECKING:
    from .session import Session


def translated(
    session: Session, error: Exception, statement: Statement, as_written: bool
) -> errors.Error | None:
    """The error that is raised for DuckDB's or the engine's own; None if it is neither."""
    if isinstance(error, RecursionLimitError):
        position, length = error_place.table(list(tokens(statement.text)), error.table)
        if position is not None:
            position += statement.start
        return errors.OperationalError(
            str(error), text=statement.script, position=position, length=length
        )
    timed_out = session.timed_out and isinstance(error, duckdb.InterruptException)
    if timed_out or isinstance(error, RecursionInterrupted):
        return session.interruption()
    report = diagnose.read(error)
    if report is None:
        return None
    # A transaction that failed, the user's or an implicit one, takes no further statement.
    free = not (session.in_transaction or session.implicit())
    if report.position is None and report.kind == "Binder" and free:
        # A relation loses the place of a binder's error; asking again gives it.
        try:
            hidden.execute(session.connection, f"EXPLAIN {statement.text}", session.given)
        except duckdb.Error as again:
            located = diagnose.read(again)
            if located and located.position and located.message == report.message:
                located.position -= len("EXPLAIN ")
                report = located
    names = session.catalog.names() if report.kind == "Catalog" and free else ()
    found = diagnose.translate(error, report, statement, names, as_written)
    if session.safe_mode:
        safe.explain(found)
    return found


def named_view(raised: Exception, found: errors.Error) -> errors.Error:
    """`found`, with the maintained view whose query failed when a change came to it, if one did."""
    notes: list[str] = getattr(raised, "__notes__", [])
    failed = [n.removeprefix(FAILED_VIEW) for n in notes if n.startswith(FAILED_VIEW)]
    if not failed or isinstance(found, errors.Interrupted):
        return found
    # a place would be one of the view's query, which the statement does not show
    view = failed[0].partition(".")[2]
    hint = f"so fails the query of maintained view {view} on the rows that this would leave"
    return type(found)(found.message, hint="; ".join(filter(None, (hint, found.hint))))
