"""Views of all shapes under edits, against DuckDB's own run of their queries."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import duckdb
from hypothesis import HealthCheck, Phase, settings

import tidewheel
from oracle.shapes import SCHEMA, SHAPES

Rows = Counter[tuple[Any, ...]]


def rows(found: list[tuple[Any, ...]]) -> Rows:
    return Counter(tuple(repr(v) for v in row) for row in found)


def opened(threads: int, names: list[str], before: list[str]) -> tidewheel.Connection:
    con = tidewheel.connect(threads=threads)
    con.execute(SCHEMA)
    for edit in before:
        con.execute(edit)
    for name in names:
        con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {SHAPES[name]}")
    return con


def compare(con: tidewheel.Connection, oracle: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    for name in names:
        got = rows(con.execute(f"FROM v_{name}").fetchall())
        # ON CONFLICT moves the rows that it updates, where views read the table, behind the others.
        asked = con if name.startswith("table_order") else oracle
        want = rows(asked.execute(SHAPES[name]).fetchall())
        assert got == want, name


def check_shapes(
    edits: list[str], names: list[str], threads: int, batch: int, before: list[str] | None = None
) -> None:
    """Run edits in transactions of `batch` statements on both sides; all views agree after each.

    `before`: edits that come before the views are made.
    """
    oracle = duckdb.connect()
    oracle.execute(SCHEMA)
    for edit in before or ():
        oracle.execute(edit)
    with opened(threads, names, before or []) as con:
        compare(con, oracle, names)
        for start in range(0, len(edits), batch):
            con.execute("BEGIN")
            for edit in edits[start : start + batch]:
                con.execute(edit)
                oracle.execute(edit)
            con.execute("COMMIT")
            compare(con, oracle, names)


# Shrinking a failure would run for minutes; the edits are few as they are.
FEW: Final = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
