"""A forked child has its parent's connections to files, and both would write to one.

Neither would know of what the other one wrote, and either might write over it. So such connections
are of no use in the child, and are never ended there (DuckDB writes to the file at the end of the
last one). A database in memory is the child's own from then on, and what is only read harms nobody.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from . import errors

if TYPE_CHECKING:
    from .session import Session

_writing: Final[WeakSet[Session]] = WeakSet()
_taken: Final[set[str]] = set()
"""Files that the parent had open when this process was made."""


def note(session: Session, path: str) -> None:
    """A session that may write to a file has been made: `path`, resolved."""
    session.file = path
    _writing.add(session)


def check(path: str) -> None:
    """Raise if the parent has the file: DuckDB would give its connection once more."""
    if path in _taken:
        raise error()


def error() -> errors.Error:
    return errors.OperationalError(
        "the database file is open in the process that this one was forked from",
        hint="close it before forking and connect in each process, read-only if there are several; "
        'or start processes otherwise: multiprocessing.set_start_method("spawn")',
    )


def _in_child() -> None:
    import ctypes

    for session in list(_writing):
        if not session.closed:
            session.forked = True
            session.lock = threading.RLock()  # a thread of the parent may have held it
            _taken.add(session.file)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))  # it is never freed


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
