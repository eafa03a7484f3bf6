"""`executemany`: a statement run for many sets of parameters, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ..planner.context import Parameters
from . import bulk, errors
from .keyed_forms import copied
from .statements import NO_STATEMENT, Statement, split
from .view_text import target

if TYPE_CHECKING:
    from .session import Session


def execute_many(session: Session, script: str, sets: Iterable[Parameters]) -> int:
    """Run `script` once per set of parameters, in a transaction; the rows changed, or -1.

    Inside a transaction of the user's a failure leaves that one aborted, as DuckDB does.
    """
    with session.lock:
        if isinstance(sets, Mapping) or not isinstance(sets, Iterable):
            raise errors.ProgrammingError(
                f"sets of parameters are a sequence, not {type(sets).__name__}",
                hint="one set is given as [set]",
            )
        if hasattr(sets, "__arrow_c_stream__") or hasattr(sets, "__array_interface__"):
            raise errors.ProgrammingError(
                f"sets of parameters are a sequence, not {type(sets).__name__}",
                hint="append(table, data) takes frames and Arrow objects; an array has tolist()",
            )
        given = sets if isinstance(sets, (list, tuple)) else list(sets)
        statements = split(script) if isinstance(script, str) else ()
        rows = None
        if len(statements) == 1:
            rows = bulk.insert(statements[0], given)
        if rows is not None and _has_own_parent(session, statements[0]):
            rows = None
        if not session.autocommit or session.in_transaction:
            return _many(session, script, given, rows)
        if rows is not None and (into := copied(rows[0])) is not None:
            known = session.known_rows.insert(into, rows[1])
            if known is not None:
                return known
        try:
            with session.as_one():
                return _many(session, script, given, rows)
        except errors.OperationalError:
            raise  # an interrupt, the time limit, a disk: nothing about a row
        except errors.DatabaseError:
            if rows is None:
                raise
        # The long way finds the row that fails, and says what is wrong with it.
        with session.as_one():
            return _many(session, script, given, None)


def _has_own_parent(session: Session, statement: Statement) -> bool:
    """May a row of an INSERT refer to another one? DuckDB knows those of statements before it."""
    _, parts, _ = target(statement)
    return not parts or session.catalog.has_own_parent(parts[-1])


def _many(
    session: Session, script: str, sets: Sequence[Parameters], rows: tuple[str, pa.Table] | None
) -> int:
    """Run `script` for each set, or once over all of them as a table."""
    if rows is not None:
        text, table = rows
        with session.lent(bulk.NAME, table, NO_STATEMENT):
            return session.execute(text, None)[1]
    total = 0
    for number, given in enumerate(sets):
        try:
            result, count = session.execute(script, given)
        except errors.DatabaseError as error:
            if len(sets) > 1 and not isinstance(error, errors.Interrupted):
                which = f"it is set {number + 1:,} of {len(sets):,}, counted from 1"
                error.hint = "; ".join(filter(None, (error.hint, which)))
            raise
        if result is not None:
            result.close()
        total = total + count if count >= 0 <= total else -1
    return total
