"""Statements that may be refused."""

from __future__ import annotations

import tidewheel


def failed(con: tidewheel.Connection, edits: list[str], back: bool) -> bool:
    """One statement, or one transaction of several; True if it failed or was rolled back."""
    try:
        if len(edits) > 1:
            con.execute("BEGIN")
        for statement in edits:
            con.execute(statement)
        if len(edits) > 1:
            con.execute("ROLLBACK" if back else "COMMIT")
        return back and len(edits) > 1
    except tidewheel.IntegrityError:
        if len(edits) > 1:
            con.execute("ROLLBACK")
        return True
