"""What of maintained views the last connection to a file leaves for the next process.

What each reads, and the rows of some: those that took long to compute, depend on tables of the file
alone, and are what the query gives now: of hot views, and of cold ones that nobody has written
behind.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from tidewheel.engine.operators.unsound import Unsound
from tidewheel.engine.quoting import key_of, quoted
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
    """Write what is worth it, if the file is what this process takes it for."""
    database, host = views.database, views.host
    kept, writer, state = database.kept, database.writer, database.state
    if kept is None or host.in_transaction or not writer.try_acquire(views):
        return
    try:
        if not views.any:
            kept.forget()
            return
        con = host.connection  # (writes what waits)
        there = host.rows("SELECT database_name, path FROM duckdb_databases()")
        name = next(name for name, path in there if path and file_of(path) == kept.file)
        own = list(_own(views, name))
        fresh = list(_fresh(own, views, kept, state))
        if kept.any(state) and not fresh:
            return
        if own and writer.undisturbed:
            found = {each.view.key: each for each in fresh}
            some = [found.get(v.key) or kept.rows(v, state) or Kept(v) for v in own]
            con.execute(f"CHECKPOINT {quoted(name)}").fetchall()
            now = fingerprint(kept.file)
            if now is not None:
                kept.write(now, some)
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


def _own(views: Reading, name: str) -> Iterator[MaintainedView]:
    """The views of a database that read nothing but tables and views of it, in order."""
    registry, keys = views.registry, set[str]()
    for view in registry.ordered():
        tables = view.reads - registry.views.keys()
        below = view.reads <= keys | tables
        if below and view.whole and all(_is_in(name, key) for key in {view.key, *tables}):
            keys.add(view.key)
            yield view


def _is_in(database: str, key: str) -> bool:
    return key.startswith(f"{key_of(database)}.")


def _fresh(
    own: Sequence[MaintainedView], views: Reading, kept: KeptRows, state: object
) -> Iterator[Kept]:
    """The rows that this process has computed, of views that depend on tables alone."""
    by_key = {view.key: view for view in own}
    outside = cache(lambda: {word for (word,) in views.host.rows(_OUTSIDE)})

    @cache
    def is_closed(key: str) -> bool:
        view = by_key[key]
        below = view.reads & by_key.keys()
        return views.calls(view).isdisjoint(outside()) and all(map(is_closed, below))

    for view in own:
        found = None if view.plain or kept.holds(view, state) else _rows(view, state)
        if found is not None and is_closed(view.key):
            yield found


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
