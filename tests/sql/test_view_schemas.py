"""Views of a warehouse whose tables, plain views and maintained ones have their own schemas."""

import duckdb
import pytest

import tidewheel

SETUP = """
CREATE SCHEMA raw;
CREATE SCHEMA stg;
CREATE SCHEMA mart;
CREATE TYPE raw.status AS ENUM ('new', 'paid');
CREATE TABLE raw.orders (id INTEGER, who VARCHAR, status raw.status, cents INTEGER);
CREATE MACRO raw.clean(s) AS nullif(trim(s), '');
CREATE MACRO stg.clean(s) AS 'other ' || s;
CREATE MACRO raw.of(n) AS TABLE SELECT id, cents FROM raw.orders WHERE cents > n;
INSERT INTO raw.orders VALUES (1, ' ada', 'new', 3), (2, '', 'paid', 4), (3, 'bob ', 'paid', 5);
CREATE VIEW stg.orders AS SELECT id, raw.clean(who) AS who, status, cents FROM raw.orders;
"""
FIRST = "SELECT who, status, sum(cents)::BIGINT AS cents FROM stg.orders GROUP BY ALL"
VIEWS = {
    "over a view of another schema": "SELECT who, cents + 1 AS c FROM mart.per_who WHERE cents > 3",
    "the word for a type is a column": "SELECT status, count(*) AS n FROM stg.orders"
    " GROUP BY status",
    "macros of several schemas": "SELECT raw.clean(who) AS a, memory.stg.clean(who) AS b,"
    " count(*) AS n FROM raw.orders GROUP BY ALL",
    "a macro whose schema is a column": "SELECT raw.clean(who) AS a, raw FROM"
    " (SELECT who, cents AS raw FROM raw.orders)",
    "a table macro": "SELECT o.id, w.who FROM raw.of(3) AS o JOIN stg.orders AS w USING (id)",
    "pivot of qualified columns": "PIVOT (SELECT a.who, a.status::VARCHAR AS status, b.cents"
    " FROM stg.orders a JOIN raw.orders b USING (id)) ON status IN ('new', 'paid')"
    " USING coalesce(sum(cents), 0) AS c, round(avg(cents), 1) AS n GROUP BY who",
}
CHANGES = [
    "INSERT INTO raw.orders VALUES (4, 'ada', 'paid', 9)",
    "UPDATE raw.orders SET who = 'cyd ', status = 'paid' WHERE id = 1",
    "DELETE FROM raw.orders WHERE id = 2",
]


@pytest.mark.parametrize("name", VIEWS)
def test_kept_by_changes(name: str) -> None:
    plain = duckdb.connect()
    with tidewheel.connect() as con:
        for c, kind in ((con, "MATERIALIZED VIEW"), (plain, "VIEW")):
            c.execute(SETUP)
            c.execute(f"CREATE {kind} mart.per_who AS {FIRST}")
            c.execute(f"CREATE {kind} mart.v AS {VIEWS[name]}")
        kept = con.execute("SELECT DISTINCT maintenance, reason FROM tidewheel_views()").fetchall()
        assert kept == [("incremental", None)]
        for change in CHANGES:
            for c in (con, plain):
                c.execute(change)
            wanted = sorted(plain.execute("FROM mart.v").fetchall(), key=repr)
            assert sorted(con.execute("FROM mart.v").fetchall(), key=repr) == wanted


def test_a_type_of_two_schemas() -> None:
    """In the query of a plain view the type of the view's own schema is meant."""
    setup = """
    CREATE SCHEMA s;
    CREATE TYPE s.kind AS ENUM ('b', 'a');
    CREATE TYPE main.kind AS ENUM ('a', 'b');
    CREATE TABLE t (x VARCHAR);
    CREATE VIEW s.v AS SELECT x::s.kind AS k FROM main.t;
    INSERT INTO t VALUES ('a'), ('b');
    """
    query = "SELECT max(k)::VARCHAR AS k FROM s.v"
    plain = duckdb.connect()
    with tidewheel.connect() as con:
        for c in (con, plain):
            c.execute(setup)
        con.execute(f"CREATE MATERIALIZED VIEW m AS {query}")
        assert con.execute("FROM m").fetchall() == plain.execute(query).fetchall() == [("a",)]
