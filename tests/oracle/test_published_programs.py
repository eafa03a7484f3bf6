"""Recursive programs with published answers: textbooks, manuals, puzzles; once, and as views.

Each view lives through changes of its tables and must have the published answer again when they
are undone; in between it must be what the query, and VERIFY VIEW, find anew.
"""

from __future__ import annotations

from collections import Counter

import pytest

import tidewheel
from oracle.published_programs import PROGRAMS
from oracle.published_puzzles import PUZZLES

ALL = PROGRAMS | PUZZLES


def rows(con: tidewheel.Connection, query: str) -> Counter[str]:
    return Counter(map(repr, con.execute(query).fetchall()))


@pytest.mark.parametrize("name", ALL)
def test_program(name: str) -> None:
    program = ALL[name]
    answer = Counter(map(repr, program.answer))
    with tidewheel.connect(threads=2) as con:
        con.execute(program.tables)
        tables = [t for (t,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        assert rows(con, program.query) == answer
        con.execute("SET fusion = 'off'")
        assert rows(con, program.query) == answer
        con.execute("RESET fusion")
        for table in tables:
            con.execute(f"CREATE TABLE kept_{table} AS FROM {table}")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {program.query}")
        assert rows(con, "FROM v") == answer
        for together in (False, True):
            if together:
                con.execute("BEGIN")
            for change in program.changes:
                con.execute(change)
                assert rows(con, "FROM v") == rows(con, program.query), change
                if change == program.changes[0]:
                    assert con.execute("VERIFY VIEW v").fetchall() == []
            for table in tables:
                con.execute(f"DELETE FROM {table}; INSERT INTO {table} FROM kept_{table}")
            if together:
                con.execute("COMMIT")
            assert rows(con, "FROM v") == answer
