"""A forked child has its parent's connections to files, and both would write to one.

A file is the database that was opened, or one that was attached to it.

Neither would know of what the other one wrote, and either might write over it. So such connections
are of no use in the child, and are never ended there (DuckDB writes to the file at the end of the
last one; and see `engine/inherited.py`). A database in memory is the child's own from then on, and
what is only read harms nobody.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from . import errors
from .database import file_of

if TYPE_CHECKING:
    from .session import Session

sessions: Final[WeakSet[Session]] = WeakSet()
"""Those of this process."""
_taken: Final[set[str]] = set()
"""What the parent had when this process was made: files, and memories that they are attached to."""


def attached(session: Session) -> None:
    """After ATTACH and DETACH: which files the database may write to beside its own."""
    found = session.rows("SELECT path FROM duckdb_databases() WHERE NOT (readonly OR internal)")
    session.database.attached = {file_of(path) for (path,) in found if path} - {session.file}


def check(name: str) -> None:
    """Raise if the parent has what `connect` names: DuckDB would give its connection once more."""
    if name in _taken:
        raise error()


def error() -> errors.Error:
    return errors.OperationalError(
        "the database file is open in the process that this one was forked from",
        hint="close it before forking and connect in each process, read-only if there are several; "
        'or start processes otherwise: multiprocessing.set_start_method("spawn")',
    )


def _in_child() -> None:
    for session in list(sessions):
        if not session.closed and (session.writes or session.database.attached):
            session.forked = True
            session.lock = threading.RLock()  # a thread of the parent may have held it
            _taken.update({session.file, *session.database.attached} - {""})


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
