"""Columns of maintained views have the types of their queries, also those that Arrow lacks."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

import tidewheel

TABLE = """
CREATE TYPE mood AS ENUM ('low', 'mid', 'high');
CREATE TABLE t (k INT, m mood, l mood[], v VARIANT, d DATE, g GEOMETRY);
INSERT INTO t VALUES (1, 'high', ['low'], 7, 'infinity', 'POINT(1 2)'),
    (2, 'low', [], 'x', NULL, NULL),
    (3, 'mid', NULL, [1], '-infinity', 'POINT(0 0)'), (4, NULL, NULL, NULL, '2026-01-01', NULL)
"""
QUERIES = [
    "SELECT k, m, l FROM t",
    "SELECT m, count(*) AS n FROM t GROUP BY m",
    "SELECT k, rank() OVER (ORDER BY m) AS r FROM t",
    "SELECT k, m[1] AS letter, l[1][-1] AS last FROM t",
    "SELECT k, (SELECT max(m) FROM t o WHERE o.k <= t.k) AS best FROM t",
    "SELECT max(m) AS best, list(m ORDER BY m) AS every FROM t",
    "SELECT {'inner': m} AS s, k FROM t ORDER BY m LIMIT 2",
    "SELECT k, g FROM t",
    "SELECT (k, m::VARCHAR) AS pair FROM t",
    "SELECT k, v::VARCHAR AS text FROM t",
    "SELECT a.k, b.k AS other FROM t a JOIN t b ON a.v::VARCHAR < b.v::VARCHAR",
    "SELECT list(d ORDER BY d) AS days, {'d': max(d)} AS latest FROM t",
    "SELECT DISTINCT [d, d] AS twice FROM t",
    "SELECT pair[1] AS k, pair::VARCHAR AS text, n FROM "
    "(SELECT row(k, d) AS pair, count(*) AS n FROM t GROUP BY ALL)",
    "SELECT [row(k)] AS l, {'p': row(d, row(k))} AS s FROM t",
    "SELECT p, k, count(*) AS n FROM (SELECT row(d, k) AS p, k FROM t) "
    "GROUP BY GROUPING SETS ((p), (k))",
    "SELECT count(*) AS n FROM "
    "(SELECT DISTINCT [to_days(k % 2 * 30), to_hours(k % 3 * 720)] FROM t)",
    "SELECT count(*) AS n FROM t a JOIN t b ON [to_days(a.k * 30)] = [to_hours(b.k * 720)]",
    "SELECT a.k, b.k AS other FROM t a JOIN t b ON [a.d] = [b.d]",
    "SELECT a.k, b.k AS other FROM (SELECT k, NULL::INTERVAL AS i FROM t) a "
    "LEFT JOIN t b ON a.i = to_days(b.k)",
]
CHANGES = [
    "INSERT INTO t VALUES (5, 'mid', [], 'y', 'infinity', 'POINT(5 5)')",
    "INSERT INTO t SELECT k + 10, m, l, v, d, g FROM t WHERE k < 4",
    "UPDATE t SET m = 'high', d = NULL WHERE k = 2",
    "DELETE FROM t WHERE k IN (1, 12)",
]


def answer(con: tidewheel.Connection | duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    return sorted(map(repr, con.execute(sql).fetchall()))


@pytest.mark.parametrize("query", QUERIES)
def test_types_and_rows_are_those_of_the_query(query: str, tmp_path: Path) -> None:
    duck = duckdb.connect()
    duck.execute(TABLE)
    described = [row[:2] for row in duck.execute(f"DESCRIBE {query}").fetchall()]
    con = tidewheel.connect(tmp_path / "types.db")
    con.execute(f"{TABLE}; CREATE MATERIALIZED VIEW v AS {query}")
    con.execute("BEGIN; CREATE MATERIALIZED VIEW w AS FROM v; COMMIT")
    for change in ["SELECT 1", *CHANGES]:
        con.execute(change)
        duck.execute(change)
        for view in ("v", "w"):
            assert answer(con, f"FROM {view}") == answer(duck, query)
            assert con.execute(f"VERIFY VIEW {view}").fetchall() == []
            assert [row[:2] for row in con.execute(f"DESCRIBE {view}").fetchall()] == described
    con.close()
    with tidewheel.connect(tmp_path / "types.db") as con:
        assert answer(con, "FROM w") == answer(duck, query)
        assert [row[:2] for row in con.execute("DESCRIBE v").fetchall()] == described


def test_an_enum_of_a_view_has_its_order() -> None:
    with tidewheel.connect() as con:
        con.execute(f"{TABLE}; CREATE MATERIALIZED VIEW v AS SELECT k, m FROM t WHERE k < 4")
        assert con.execute("SELECT m FROM v ORDER BY m").fetchall() == [
            ("low",),
            ("mid",),
            ("high",),
        ]
        assert con.execute("SELECT max(m) FROM v").fetchone() == ("high",)


@pytest.mark.parametrize("query", ["SELECT v FROM t", "SELECT k, [v] AS variants FROM t"])
@pytest.mark.parametrize("begin", ["", "BEGIN;"])
def test_a_variant_is_refused(query: str, begin: str) -> None:
    with tidewheel.connect() as con:
        con.execute(TABLE)
        with pytest.raises(tidewheel.NotSupportedError, match="which is a VARIANT") as caught:
            con.execute(f"{begin} CREATE MATERIALIZED VIEW w AS {query}")
        assert "cast it" in (caught.value.hint or "")


def test_lists_of_decimals_beside_a_collation() -> None:
    """A view that is recomputed, for it: its few rows come from DuckDB as values."""
    query = "SELECT list(w ORDER BY w) AS l FROM t"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t(x VARCHAR COLLATE NOCASE, w DECIMAL(18, 3))")
        con.execute("INSERT INTO t VALUES ('a', 1)")
        for _ in range(3):  # what is asked again has its columns known
            assert con.execute(query).fetchall() == [([Decimal(1)],)]
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO t VALUES ('A', 2.5)")
        assert con.execute("FROM v").fetchall() == [([Decimal(1), Decimal("2.5")],)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(u) AS n, count(DISTINCT u) AS d FROM uu GROUP BY k",
        "SELECT u, count(*) AS n FROM uu GROUP BY u",
        "SELECT DISTINCT u, k FROM uu",
        "SELECT k FROM uu WHERE u IS NOT NULL",
        "SELECT a.k, b.k AS other FROM uu a JOIN uu b ON a.u IS NOT DISTINCT FROM b.u",
        "SELECT count(x) AS n FROM (SELECT union_value(k := k) AS x FROM uu)",
        "SELECT u FROM uu UNION SELECT u FROM uu",
        "SELECT * FROM uu UNION ALL BY NAME SELECT 5 AS k",
        "SELECT k, u, NULL::UNION(n INTEGER, s VARCHAR)[] AS l FROM uu",
    ],
)
def test_a_union_of_null_is_not_null(query: str) -> None:
    """Arrow brings NULL for both."""
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for at in (con, duck):
            at.execute("CREATE TABLE uu (k INTEGER, u UNION(n INTEGER, s VARCHAR))")
            at.execute("INSERT INTO uu VALUES (1, 1), (1, NULL), (2, union_value(s := NULL))")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in (
            "INSERT INTO uu VALUES (NULL, union_value(n := NULL)), (1, 'x'), (2, NULL)",
            "INSERT INTO uu VALUES (2, union_value(s := NULL))",
            "UPDATE uu SET u = union_value(s := NULL) WHERE k = 1",
        ):
            for at in (con, duck):
                at.execute(change)
            assert answer(con, "FROM v") == answer(duck, query)
            assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.u FROM uu a JOIN uu b USING (k)",
        "SELECT max(union_tag(union_value(k := k))) AS tag FROM uu",
    ],
)
def test_a_union_that_is_handed_on_or_made_is_maintained(query: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE uu (k INTEGER, u UNION(n INTEGER, s VARCHAR))")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO uu VALUES (1, 2), (1, 'x')")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        assert con.execute("SELECT maintenance FROM tidewheel_views()").fetchone() == (
            "incremental",
        )


@pytest.mark.parametrize("begin", ["", "BEGIN;"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT m, unnest(l, recursive := false) AS x FROM t",
        "WITH RECURSIVE r(m, n) USING KEY (m) AS (SELECT m, 1 FROM t UNION SELECT m, n + 1 FROM r"
        " WHERE n < 3) SELECT m FROM r WHERE m > 'low'",
    ],
)
def test_an_enum_beside_the_word_recursive(query: str, begin: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TABLE t (m mood, l INT[])")
        wanted = con.execute(f"DESCRIBE {query}").fetchall()
        con.execute(f"{begin} CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("DESCRIBE v").fetchall() == wanted


@pytest.mark.parametrize(
    "query", ["FROM t", "SELECT s, count(*) FROM t GROUP BY s", "SELECT u.x FROM t"]
)
def test_a_struct_of_no_fields(query: str) -> None:
    """Arrow has the same type for it as for a row of no values."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (i INTEGER, s STRUCT, u STRUCT(x STRUCT, y INTEGER))")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO t VALUES (1, struct_pack(), {'x': struct_pack(), 'y': 1})")
        con.execute("INSERT INTO t VALUES (2, NULL, NULL); DELETE FROM t WHERE i = 2")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        assert con.execute("DESCRIBE v").fetchall() == con.execute(f"DESCRIBE {query}").fetchall()
        assert con.execute("SELECT maintenance FROM tidewheel_views()").fetchone() == (
            "incremental",
        )
        cursor = con.execute("SELECT s, u FROM t")
        assert cursor.fetchall() == [({}, {"x": {}, "y": 1})]
        assert [str(c[1]) for c in cursor.description or ()] == [
            "STRUCT",
            "STRUCT(x STRUCT, y INTEGER)",
        ]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM u WHERE s::mood > 'low'",
        "SELECT s::mood::VARCHAR AS m, sum(k::money) AS n FROM u GROUP BY ALL",
        "SELECT k, rank() OVER (PARTITION BY row(k, s)::pair ORDER BY s::z.mood) AS r FROM u",
        "SELECT a.k, b.s::mood AS m FROM u a LEFT JOIN u b ON a.s::mood < b.s::mood",
        "SELECT k, as_money(k) AS m, [k]::money[] AS l FROM u",
        "FROM plain WHERE m > 'low'",
    ],
)
def test_casts_to_types_that_somebody_made(query: str, tmp_path: Path) -> None:
    path = tmp_path / "types.db"
    with tidewheel.connect(path) as con:
        con.execute(
            "CREATE TYPE mood AS ENUM ('low', 'mid', 'high'); CREATE TYPE money AS DECIMAL(7, 1);"
            "CREATE TYPE pair AS STRUCT(a INT, b VARCHAR); CREATE SCHEMA z;"
            "CREATE TYPE z.mood AS ENUM ('high', 'low', 'mid'); CREATE TABLE u (k INT, s VARCHAR);"
            "CREATE VIEW plain AS SELECT s::mood AS m, k FROM u;"
            "CREATE MACRO as_money(x) AS x::money; INSERT INTO u VALUES (1, 'low'), (2, 'high')"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]
        con.execute("INSERT INTO u VALUES (3, 'mid'), (2, NULL); DELETE FROM u WHERE k = 1")
        types = [con.execute(f"DESCRIBE {q}").fetchall() for q in ("FROM v", query)]
        assert types[0] == types[1]
        for _ in range(2):
            given = [sorted(con.execute(q).fetchall(), key=repr) for q in ("FROM v", query)]
            assert given[0] == given[1]
            con.execute("CREATE OR REPLACE TYPE mood AS ENUM ('mid', 'high', 'low')")
    with tidewheel.connect(path) as con:
        con.execute("UPDATE u SET s = 'low' WHERE k = 3")
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize("key", ["", "USING KEY (x)"])
def test_an_enum_beside_a_recursion_that_is_read_whole(key: str) -> None:
    """sqlglot does not read `<=>` as DuckDB does, a distance, so DuckDB gets the SELECT."""
    with tidewheel.connect() as con:
        con.execute("CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TABLE t (k INT, m mood)")
        con.execute(
            f"CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(x) {key} AS"
            " (SELECT k FROM t UNION SELECT x - 1 FROM r WHERE x > 0)"
            " SELECT x, 'low'::mood AS m, [x, 0.5] <=> [0, 0.5] AS l FROM r"
        )
        reason = con.execute("SELECT reason FROM tidewheel_views()").fetchone()
        assert reason == ("sqlglot would change what it says",)
        con.execute("INSERT INTO t VALUES (1, 'high')")
        assert sorted(con.execute("FROM v").fetchall()) == [
            (0, "low", 0.0),
            (1, "low", pytest.approx(1 - 0.2**0.5)),
        ]
