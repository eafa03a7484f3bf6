"""What DuckDB's catalog does not tell, or of schemas in schemas the last name alone: no views."""

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
        with pytest.raises(tidewheel.NotSupportedError, match=f"can't read {read}: its changes"):
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


def test_hidden_databases() -> None:
    with tidewheel.connect() as con:
        con.execute("ATTACH ':memory:' AS h (HIDDEN); CREATE TABLE h.t (i INTEGER)")
        con.execute("CREATE TABLE t (i INTEGER)")
        for query in ("SELECT sum(i) AS i FROM h.t", "SELECT h.i FROM t, h.main.t AS h"):
            with pytest.raises(tidewheel.NotSupportedError, match=r"can't read h(.main)?.t: its"):
                con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("USE h")
        with pytest.raises(tidewheel.NotSupportedError, match="can't read t: its changes"):
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(i) AS i FROM t")


@pytest.mark.parametrize(
    "query",
    [
        "WITH u AS (SELECT i FROM t) SELECT i FROM u",
        "SELECT i FROM t, range(3) AS r(n)",
        "SELECT i FROM main.f() JOIN memory.main.t USING (i)",
        "SELECT m AS i FROM (SELECT main.g(i) AS m FROM t)",
        "WITH RECURSIVE r(i) USING KEY (i) AS (FROM t UNION "
        "SELECT i + 1 FROM recurring.r WHERE i < 3) FROM r",
    ],
)
def test_what_is_no_table(query: str) -> None:
    with tidewheel.connect() as con:
        con.execute(SETUP)
        con.execute("CREATE TABLE t (i INTEGER)")
        con.execute("CREATE MACRO f() AS TABLE SELECT 1 AS i; CREATE MACRO g(x) AS x + 1")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO t VALUES (1)")
        con.execute("FROM v").fetchall()
