"""Which rows of maintained views the last connection to a file leaves for the next process.

Those of views that took long to compute, which follow from tables of the file alone, and are what
their queries give now: of hot views, and of cold ones that nobody has written behind.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidewheel.engine.operators.unsound import Unsound
from tidewheel.engine.quoting import key_of
from tidewheel.planner.maintain import MaintainedView
from tidewheel.sql.database import file_of
from tidewheel.sql.forked import sessions
from tidewheel.sql.kept_rows import Kept, KeptRows, fingerprint

if TYPE_CHECKING:
    from tidewheel.sql.view_reading import Reading

LEAST = 0.05
"""Seconds that took long."""
_WRITTEN: Final = 200_000_000
"""Bytes that are written in a second, about: to keep rows must not take longer than they took."""
_OUTSIDE: Final = """
SELECT DISTINCT lower(function_name) FROM duckdb_functions()
WHERE macro_definition IS NULL AND (NOT internal OR function_type = 'table')
    AND function_name NOT IN ('range', 'generate_series', 'unnest', 'repeat')
"""
"""Functions whose rows or values may be others in the next process: of files, or made in Python."""


def keep(views: Reading) -> None:
    """Write the rows that are worth it, if the file is what this process takes it for."""
    database, host = views.database, views.host
    kept, writer, state = database.kept, database.writer, database.state
    if kept is None or host.in_transaction or not writer.try_acquire(views):
        return
    try:
        con = host.connection  # (writes what waits)
        fresh = list(_fresh(views, kept, state))
        if not fresh:
            if not kept.any(state):
                kept.forget()
            return
        if writer.undisturbed:
            old = [kept.rows(view, state) for view in views.registry.views.values()]
            con.execute("CHECKPOINT").fetchall()
            now = fingerprint(kept.file)
            if now is not None:
                kept.write(now, [*fresh, *filter(None, old)])
                return
        kept.forget()
    finally:
        writer.release(views)


def _at_exit() -> None:
    """Python ends: connections that nobody has closed are."""
    for session in list(sessions):
        if session.writes and session.views.any and session.lock.acquire(blocking=False):
            session.close()


atexit.register(_at_exit)


def _fresh(views: Reading, kept: KeptRows, state: object) -> Iterator[Kept]:
    """What this process has computed."""
    known: dict[str, bool] = {}
    there = views.host.rows("SELECT database_name, path FROM duckdb_databases()")
    name = next(name for name, path in there if path and file_of(path) == kept.file)
    for view in views.registry.ordered():
        found = None if view.plain or kept.holds(view, state) else _rows(view, state)
        if found is not None and _is_own(view.key, views, f"{key_of(name)}.", known):
            yield found


def _is_own(key: str, views: Reading, prefix: str, known: dict[str, bool]) -> bool:
    """Does a table or view, or what it reads, depend on the file alone?"""
    view = views.registry.views.get(key)
    if view is None:
        return key.startswith(prefix)
    if key not in known:
        below = all(_is_own(read, views, prefix, known) for read in view.reads)
        known[key] = below and views.is_closed(view, _OUTSIDE)
    return known[key]


def _rows(view: MaintainedView, state: object) -> Kept | None:
    """The rows of a view, if they are there, and took long for what they are."""
    seconds = view.fill_seconds if view.hot else view.read_seconds
    if seconds < LEAST:
        return None
    if view.plan is not None:
        try:
            rows = view.plan.rows()
        except Unsound:
            return None
    elif view.read is not None and view.read[0] == state:
        rows = view.read[1]
    else:
        return None
    return Kept(view, rows, seconds) if rows.nbytes <= seconds * _WRITTEN else None
