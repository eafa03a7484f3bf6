"""Statements that change rows, with the recursions in them run beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.kernels.duckdb import readable
from tidewheel.engine.quoting import quoted

from ..planner.context import Parameters
from . import error_place, errors
from .statements import Statement, mentions_recursion, split

if TYPE_CHECKING:
    from ..planner.logical import Column
    from .session import Session


def typed(
    connection: duckdb.DuckDBPyConnection, rows: pa.Table, columns: Sequence[Column]
) -> object:
    """What to register for `rows`: ENUM comes out of Arrow as VARCHAR, which has another order."""
    if not any("ENUM(" in c.type for c in columns):
        return readable(connection, rows)
    items = (
        f"CAST({quoted(c.name)} AS {c.type})" if "ENUM(" in c.type else quoted(c.name)
        for c in columns
    )
    named = (f"{i} AS {quoted(c.name)}" for i, c in zip(items, columns, strict=True))
    return connection.from_arrow(rows).project(", ".join(named))


@contextmanager
def recursions(
    session: Session, statement: Statement, given: Parameters
) -> Iterator[tuple[Statement, Parameters]]:
    """The statement to run for a block: it reads the rows of its recursions, which are there."""
    if not mentions_recursion(statement.text):
        yield statement, given
        return
    # Imported here, as in `planning`: sqlglot takes long to load.
    from ..planner import execute
    from . import recursion

    with session.guard(statement), session.database.reading:
        session.views.prepare(statement.text)
        describe = recursion.Describer(session.connection, given)
        found = recursion.plan_statement(statement, describe, is_query=False)
    if found is None:
        yield statement, given
        return
    try:
        with session.guard(statement), session.database.reading:
            for name, node in found.sources:
                stream = execute.run(node, session.context(given))
                rows = pa.Table.from_batches(list(stream), stream.schema)
                rows = rows.rename_columns([c.name for c in node.schema])
                session.connection.register(name, typed(session.connection, rows, node.schema))
        yield split(found.text)[0], recursion.numbered(found.text, given)
    except errors.Error as error:
        error_place.carry_back(error, found.text, statement)
        raise
    finally:
        for name, _ in found.sources:
            # A transaction that failed takes no statement; then the name is registered anew.
            with suppress(duckdb.Error):
                session.connection.unregister(name)
