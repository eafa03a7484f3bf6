"""Errors of a session's statements: DuckDB's and the engine's, as ours, with their places."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb

from tidewheel.planner.maintain import failed_view

from ..engine.arrow import pa
from ..engine.interruption import Interrupted
from ..engine.operators.budget import RecursionLimitError
from ..engine.state.memory import Excess
from . import diagnose, error_place, errors, hidden, introspection, python_scan, wrong_kind
from . import safe_mode as safe
from .statements import Statement, tokens
from .view_registry import row_name

if TYPE_CHECKING:
    from .session import Session

_NO_TABLE = re.compile(r"Table with name (\w+) does not exist")
_NO_ROWS = re.compile(rf'Table with name "?({row_name("")}.*~\w+)"? does not exist')
# What DuckDB makes of a MemoryError while it reads an object of Python's.
_NOT_EXPORTED = re.compile(r"exporting a stream from the object registered as .* MemoryError")
_TRIGGER_READS = re.compile(
    rf'(Trigger ".*") cannot reference "{row_name("")}(.*)~\w+" from a different catalog'
)


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
    # (also of the transaction that an interrupt has ended, if a statement came after it)
    ended = isinstance(error, duckdb.InterruptException | duckdb.TransactionException)
    if isinstance(error, Interrupted) or (ended and session.interrupted.is_set()):
        return session.interruption()
    if isinstance(error, MemoryError):
        return _full(f"out of memory: {error}" if isinstance(error, Excess) else "out of memory")
    if isinstance(error, pa.ArrowInvalid) and "Recursion level" in str(error):
        return errors.NotSupportedError(
            "a value of the result is nested deeper than Arrow can tell",
            hint="cast it to VARCHAR or JSON",
        )
    report = diagnose.read(error)
    if report is None:
        return None
    if _NOT_EXPORTED.match(report.message) is not None:
        return _full("out of memory")
    # A transaction that failed, the user's or an implicit one, takes no further statement; and
    # where there is none, the database may not even be open.
    stated = bool(statement.text)
    free = not (session.in_transaction or session.implicit())
    if stated and report.position is None and report.kind in ("Binder", "Catalog"):
        report = _located(session, report, statement, free)
    names: tuple[str, ...] = ()
    if stated and report.kind == "Catalog" and free:
        names = (*session.catalog.names(), *(f"{f}()" for f in sorted(introspection.FUNCTIONS)))
    found = diagnose.translate(error, report, statement, names, as_written)
    if (read := _TRIGGER_READS.match(found.message)) is not None:
        return errors.NotSupportedError(
            f"{read[1]} cannot read the maintained view {read[2]}",
            hint="let it read the tables that the view reads",
            text=statement.script,
            position=found.offset_in(statement.script),
            length=found.length,
        )
    if (rows := _NO_ROWS.match(found.message)) and (other := session.views.foreign(rows[1])):
        return other
    if session.safe_mode:
        safe.explain(found)
    elif report.kind == "Catalog" and (name := _NO_TABLE.match(str(found))):
        found.hint = python_scan.hint(name[1]) or found.hint
    elif found.place is not None:
        place = found.offset_in(statement.script) or 0
        at = statement.script[place : place + found.length]
        found.hint = wrong_kind.hint(found.message, at, session.views.named(at)) or found.hint
    return found


def _full(message: str) -> errors.Error:
    return errors.OperationalError(
        message,
        hint="a maintained view, or a recursion, met more rows than fit: joins without an "
        "equality meet all pairs, and a recursion can be bounded by max_recursive_rows",
    )


def _located(
    session: Session, report: diagnose.Report, statement: Statement, free: bool
) -> diagnose.Report:
    """`report` with the place that a relation loses of a binder's error: asking again gives it.

    `free`: the session's own connection can be asked.
    """
    asked = session.connection if free else session.connection.cursor()
    try:
        if not free:
            hidden.execute(asked, "SET errors_as_json = true", None)
        hidden.execute(asked, f"EXPLAIN {statement.text}", session.given)
    except duckdb.Error as again:
        located = diagnose.read(again)
        if located and located.position and located.message == report.message:
            located.position -= len("EXPLAIN ")
            located.own = True
            return located
    finally:
        if not free:
            asked.close()
    return report


def named_view(raised: Exception, found: errors.Error) -> errors.Error:
    """`found`, with the maintained view whose query failed when a change came to it, if one did."""
    failed = failed_view(raised)
    if failed is None or isinstance(found, errors.Interrupted):
        return found
    view = failed.partition(".")[2]
    hint = f"so fails the query of maintained view {view} on the rows that this would leave"
    hint = "; ".join(filter(None, (hint, found.hint)))
    # A place is one of the view's query, which the statement does not show.
    return type(found)(found.message, hint="\n".join(filter(None, (hint, found.place))))
