"""A collation makes views over its own table computed anew, not those over other tables."""

from __future__ import annotations

import pytest

import tidewheel

MAINTAINED = [
    "SELECT a, count(*) AS n FROM plain GROUP BY a",
    "WITH named AS (SELECT a FROM plain) SELECT DISTINCT a FROM named",
    "SELECT a, count(*) AS n FROM elsewhere.named GROUP BY a",
]
RECOMPUTED = [
    "SELECT a, count(*) AS n FROM named GROUP BY a",
    "WITH plain AS (SELECT a FROM named) SELECT DISTINCT a FROM plain",
    "SELECT DISTINCT a FROM over_named",
    "SELECT DISTINCT a FROM named_rows()",
    "SELECT a FROM plain EXCEPT SELECT a FROM copied",
    "SELECT DISTINCT folded(a) AS a FROM plain",
]


@pytest.mark.parametrize("query", MAINTAINED + RECOMPUTED)
def test_only_what_reads_a_collation_is_recomputed(query: str) -> None:
    con = tidewheel.connect()
    con.execute("""
        CREATE TABLE plain (a VARCHAR);
        CREATE TABLE named (a VARCHAR COLLATE nocase);
        CREATE SCHEMA elsewhere;
        CREATE TABLE elsewhere.named (a VARCHAR);
        INSERT INTO plain VALUES ('x'), ('X'), ('y');
        INSERT INTO named VALUES ('x'), ('Z');
        INSERT INTO elsewhere.named VALUES ('q'), ('Q');
        CREATE TABLE copied AS SELECT * FROM named;
        CREATE VIEW over_named AS SELECT * FROM named;
        CREATE MACRO named_rows() AS TABLE SELECT * FROM named;
        CREATE MACRO folded(t) AS CAST(t AS VARCHAR) COLLATE nocase;
    """)
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    for change in (
        "INSERT INTO plain VALUES ('X'), ('Y'), (NULL)",
        "INSERT INTO named VALUES ('X'), ('z'), (NULL)",
        "INSERT INTO elsewhere.named VALUES ('Q')",
        "DELETE FROM plain WHERE a = 'x'",
        "UPDATE named SET a = 'zz' WHERE a = 'x'",
    ):
        con.execute(change)
        found = con.execute("SELECT a IS NULL, lower(a) FROM v ORDER BY ALL").fetchall()
        asked = con.execute(f"SELECT a IS NULL, lower(a) FROM ({query}) ORDER BY ALL").fetchall()
        assert found == asked
        assert con.execute("VERIFY VIEW v").fetchall() == []
    kept = con.execute("SELECT maintenance FROM tidewheel_views()").fetchone()
    assert kept == ("recompute" if query in RECOMPUTED else "incremental",)
