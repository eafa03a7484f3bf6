"""Arrow, pandas and polars objects as tables of a session: registered, or variables found."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb

from . import errors, python_scan
from .statements import NO_STATEMENT

if TYPE_CHECKING:
    from .session import Session


def register(session: Session, name: str, frame: object) -> None:
    """Make an Arrow, pandas or polars object readable as a table."""
    if not isinstance(name, str):
        raise errors.ProgrammingError(
            f"the name of a frame is text (str), not {type(name).__name__}",
            hint="register(name, frame): the name comes first",
        )
    with session.guard(NO_STATEMENT):
        session.check_open()
        if frame is None:
            raise errors.ProgrammingError("a frame is a DataFrame, an Arrow object …, not None")
        session.make_way()
        if name not in session.frames and name.lower() in map(str.lower, session.catalog.names()):
            raise errors.ProgrammingError(
                f"there is a table or view named {name} already",
                hint="register the frame under another name",
            )
        _register(session, name, frame)


def _register(session: Session, name: str, frame: object) -> None:
    session.connection.register(name, python_scan.readable(frame))
    session.frames[name] = frame
    if session.in_transaction:  # whose rollback may take it along
        session.framed_at.pop(name, None)
    else:
        session.framed_at[name] = session.database.catalog_version
    session.catalog.changed()


def scan(session: Session, script: str) -> None:
    """Register the caller's DataFrames that `script` names; `python_scan` is on.

    Tables and registered frames go before variables. What an earlier text needed is let go.
    """
    frames = python_scan.found(script, python_scan.caller())
    if not (frames or session.scanned):
        return
    with session.guard(NO_STATEMENT):
        session.make_way()
        for name in session.scanned:
            # A transaction that failed takes no statement; one rolled back took them along.
            with suppress(duckdb.Error):
                session.connection.unregister(name)
            session.frames.pop(name, None)
        session.scanned.clear()
        session.catalog.changed()
        if not frames:
            return
        taken = {*map(str.lower, session.catalog.names()), *map(str.lower, session.frames)}
        for name in frames:
            if name.lower() not in taken:
                _register(session, name, frames[name])
                session.scanned.add(name)


def unregister(session: Session, name: str) -> None:
    """Forget a registered frame."""
    if not isinstance(name, str):
        raise errors.ProgrammingError(
            f"the name of a frame is text (str), not {type(name).__name__}"
        )
    with session.guard(NO_STATEMENT):
        session.check_open()
        session.make_way()
        session.connection.unregister(name)
        session.frames.pop(name, None)
        session.catalog.changed()
