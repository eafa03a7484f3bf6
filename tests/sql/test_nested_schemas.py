"""Schemas in schemas, of which DuckDB's catalog gives the last name alone: views leave them out."""

from __future__ import annotations

import pytest

import tidewheel

SETUP = """
CREATE SCHEMA s; CREATE SCHEMA s.n; CREATE SCHEMA n;
CREATE TABLE s.n.t (i INTEGER); CREATE TABLE n.t (i INTEGER); CREATE TABLE s.t (i INTEGER);
CREATE VIEW s.n.w AS FROM s.t; CREATE TABLE n.w (i INTEGER);
CREATE VIEW through AS FROM s.n.t;
CREATE MACRO total() AS (SELECT sum(i) FROM s.n.t);
INSERT INTO s.n.t VALUES (1); INSERT INTO n.t VALUES (10);
"""


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("SELECT sum(i) AS i FROM s.n.t", "s.n.t"),
        ("SELECT sum(i) AS i FROM memory.s.n.t", "memory.s.n.t"),
        ("SELECT count(*) AS n FROM n.t JOIN S.N.W USING (i)", "S.N.W"),
        ("SELECT i FROM through", "s.n.t"),
        ("SELECT total() AS i", "s.n.t"),
    ],
)
def test_refused(query: str, read: str) -> None:
    with tidewheel.connect() as con:
        con.execute(SETUP)
        with pytest.raises(tidewheel.NotSupportedError, match=f"can't read {read}: a schema in a"):
            con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("CREATE VIEW v AS " + query)
        con.execute("FROM v").fetchall()


def test_a_schema_of_the_same_name() -> None:
    with tidewheel.connect() as con:
        con.execute(SETUP)
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(i) AS i FROM n.t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS c FROM n.w")
        con.execute("INSERT INTO s.n.t VALUES (2)")
        con.execute("UPDATE s.n.t SET i = i + 1")
        assert con.execute("FROM v").fetchall() == [(10,)]
        con.execute("INSERT INTO n.t VALUES (20)")
        con.execute("INSERT INTO n.w VALUES (20), (21)")
        con.execute("INSERT INTO s.t VALUES (20)")
        assert con.execute("FROM v").fetchall() == [(30,)]
        assert con.execute("FROM w").fetchall() == [(2,)]
        assert con.execute("FROM s.n.t ORDER BY i").fetchall() == [(2,), (3,)]


def test_a_view_cannot_come_to_read_one() -> None:
    with tidewheel.connect() as con:
        con.execute(SETUP)
        con.execute("CREATE VIEW plain AS FROM n.t")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(i) AS i FROM plain")
        with pytest.raises(tidewheel.Error):
            con.execute("CREATE OR REPLACE VIEW plain AS FROM s.n.t")
        con.execute("INSERT INTO n.t VALUES (20)")
        assert con.execute("FROM v").fetchall() == [(30,)]
