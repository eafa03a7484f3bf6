"""tidewheel_views(), tidewheel_vertices() and tidewheel_iterations(), read as any table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel
from tidewheel.planner import iterations

SETUP = """
CREATE TABLE e (s BIGINT, d BIGINT);
INSERT INTO e VALUES (1, 2), (2, 3), (3, 4);
CREATE MATERIALIZED VIEW n AS SELECT s, count(*) AS n FROM e GROUP BY s;
CREATE MATERIALIZED VIEW walk AS
    WITH RECURSIVE w (n, k) AS (
        SELECT 1::BIGINT, 0 UNION ALL SELECT e.d, k + 1 FROM w JOIN e ON w.n = e.s WHERE k < 9)
    FROM w;
CREATE MATERIALIZED VIEW half AS FROM e ORDER BY s, d LIMIT 50%;
"""


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as connection:
        connection.execute(SETUP)
        yield connection


def test_names_are_those_of_the_catalog(con: tidewheel.Connection) -> None:
    con.execute(
        'CREATE SCHEMA "Raw"; CREATE MATERIALIZED VIEW "Raw"."Per S" AS '
        "SELECT s, count(*) AS n FROM e GROUP BY s"
    )
    named = "SELECT DISTINCT schema_name, view_name FROM {} WHERE view_name ILIKE 'per s'"
    for function in ("duckdb_views()", "tidewheel_views()", "tidewheel_vertices()"):
        assert con.execute(named.format(function)).fetchall() == [("Raw", "Per S")]


def test_views(con: tidewheel.Connection) -> None:
    con.execute("INSERT INTO e VALUES (4, 5), (4, 6)")
    assert con.execute(
        "SELECT database_name, schema_name, view_name, reads, filled, maintenance, epochs, "
        "changed_rows, last_epoch, seconds >= last_seconds AND last_seconds > 0, fill_seconds > 0 "
        "FROM tidewheel_views() WHERE maintenance = 'incremental' ORDER BY view_name"
    ).fetchall() == [
        ("memory", "main", "n", ["memory.main.e"], True, "incremental", 1, 1, 1, True, True),
        ("memory", "main", "walk", ["memory.main.e"], True, "incremental", 1, 2, 1, True, True),
    ]
    reason = "SELECT reason FROM TideWheel_Views() WHERE maintenance = 'recompute'"
    assert con.execute(reason).fetchall() == [("LIMIT in percent, or WITH TIES",)]
    con.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW half AS WITH RECURSIVE w (n) AS (SELECT 1 UNION "
        "SELECT d FROM e JOIN w ON s = n) "
        "SELECT n, (SELECT approx_quantile(n, 0.5) FROM w o WHERE o.n < w.n) FROM w"
    )
    assert con.execute(reason).fetchall() == [
        ("approx_quantile without ORDER BY depends on the order of the rows",)
    ]
    con.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW keyed AS WITH RECURSIVE w (n, d) "
        "USING KEY (n, min(d)) AS (SELECT 1, 0 UNION "
        "SELECT e.d, w.d + 1 FROM e JOIN w ON s = n) FROM w"
    )
    assert ("USING KEY with aggregates, which DuckDB runs",) in con.execute(reason).fetchall()
    con.execute("DROP MATERIALIZED VIEW keyed")
    explained = con.execute("EXPLAIN VIEW half").fetchall()[0][1]
    assert explained.endswith(": approx_quantile without ORDER BY depends on the order of the rows")
    con.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW half AS WITH RECURSIVE w (n, k, via) AS "
        "(SELECT 1, 0, 0 UNION SELECT d, min(k + 1), arg_min(n, k + 1) "
        "FROM e JOIN w ON s = n GROUP BY d) FROM w"
    )
    assert con.execute(reason).fetchall() == [
        ("arg_min or arg_max in a recursive step: of equal ones it takes the first",)
    ]
    con.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW half AS "
        "SELECT s, (SELECT count(*) FROM e AS f WHERE EXISTS (SELECT 1 FROM e AS g "
        "WHERE g.s = f.d AND g.d < max(e.d))) + 2 AS total FROM e GROUP BY s"
    )
    assert con.execute(reason).fetchall() == [
        ("an aggregate of a SELECT further out, in a subquery",)
    ]
    con.execute("INSERT INTO e VALUES (4, 7)")
    assert con.execute("VERIFY VIEW half").fetchall() == []
    con.execute("DELETE FROM e WHERE d = 7")
    con.execute("DROP MATERIALIZED VIEW half; DROP MATERIALIZED VIEW walk")
    con.execute(
        "CREATE VIEW kept_by_us AS WITH RECURSIVE a (n) AS (SELECT 0 UNION SELECT n + 1 FROM b "
        "WHERE n < 9), b (n) AS (SELECT 1 UNION SELECT n + 1 FROM a WHERE n < 9) FROM a"
    )
    assert con.execute("SELECT view_name, sql FROM tidewheel_views()").fetchall() == [
        ("n", "SELECT s, count(*) AS n FROM e GROUP BY s")
    ]


def test_a_view_that_nobody_has_read_is_not_filled(tmp_path: object) -> None:
    path = f"{tmp_path}/a.db"
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS FROM t")
    query = "SELECT filled, maintenance, epochs FROM tidewheel_views()"
    with tidewheel.connect(path) as con:
        assert con.execute(query).fetchall() == [(False, None, 0)]
        assert con.execute("FROM tidewheel_vertices()").fetchall() == []
        con.execute("FROM v").fetchall()
        assert con.execute(query).fetchall() == [(False, None, 0)]
        con.execute("INSERT INTO t VALUES (1)")
        assert con.execute("FROM v").fetchall() == [(1,)]
        assert con.execute(query).fetchall() == [(True, "incremental", 0)]
    with tidewheel.connect(path, read_only=True) as con:
        assert con.execute(query).fetchall() == [(False, None, 0)]


def test_vertices(con: tidewheel.Connection) -> None:
    query = (
        "SELECT view_name, kind, rows_in, rows_out, steps, o.state_rows, "
        "o.state_bytes > 0, o.seconds > 0 "
        "FROM tidewheel_vertices() AS o JOIN tidewheel_views() USING (view_name) "
        "WHERE view_name = 'n' AND kind IN ('source', 'accumulate', 'sink') ORDER BY vertex_id"
    )
    assert con.execute(query).fetchall() == [
        ("n", "source", 0, 0, 0, 0, False, False),  # DuckDB computed the groups' sums
        ("n", "accumulate", 3, 3, 1, 3, True, True),
        ("n", "sink", 3, 0, 1, 3, True, True),
    ]
    con.execute("INSERT INTO e VALUES (1, 9)")
    con.execute("FROM n").fetchall()  # until then the sink holds its changes apart
    con.execute("SET fusion = 'off'")
    assert con.execute(query).fetchall() == [
        ("n", "source", 1, 1, 1, 0, False, True),
        ("n", "accumulate", 4, 5, 2, 4, True, True),
        # the old row goes, the new one comes
        ("n", "sink", 5, 0, 2, 3, True, True),
    ]


def test_iterations(con: tidewheel.Connection) -> None:
    query = (
        "SELECT epoch, counters, changes FROM tidewheel_iterations() "
        "WHERE view_name = 'walk' AND epoch >= $1 ORDER BY ALL"
    )
    counted = [(0, [c], 1) for c in range(4)]
    assert con.execute(query, [0]).fetchall() == counted
    con.execute("INSERT INTO e VALUES (4, 5), (4, 6), (6, 7)")
    assert con.execute(query, [1]).fetchall() == [(1, [4], 2), (1, [5], 1)]
    con.execute("DELETE FROM e WHERE s = 2")
    gone = con.execute(query, [2]).fetchall()
    assert gone == [(2, [2], 1), (2, [3], 1), (2, [4], 2), (2, [5], 1)]


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT d FROM r JOIN e ON n = s) FROM r",
        "WITH RECURSIVE r (n, k) AS (SELECT 1::BIGINT, 0 UNION "
        "SELECT d, min(k + 1) FROM r JOIN e ON n = s GROUP BY d) FROM r",
        "WITH RECURSIVE r (n) AS (SELECT 1::BIGINT UNION SELECT a.n + 1 FROM r a JOIN r b "
        "ON a.n = b.n JOIN e ON a.n = s) FROM r",
    ],
)
def test_iterations_of_every_kind_of_loop(con: tidewheel.Connection, query: str) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW r AS {query}")
    con.execute("INSERT INTO e VALUES (4, 5), (5, 6)")
    con.execute("DELETE FROM e WHERE s = 3")
    rounds = con.execute(
        "SELECT epoch, sum(changes) FROM tidewheel_iterations() WHERE view_name = 'r' "
        "GROUP BY epoch ORDER BY epoch"
    ).fetchall()
    assert rounds == [(0, 4), (1, 2), (2, 3)]


def test_the_history_of_iterations_is_bounded(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    con.execute("DROP MATERIALIZED VIEW walk")
    monkeypatch.setattr(iterations, "KEPT", 5)
    con.execute(
        "CREATE MATERIALIZED VIEW walk AS WITH RECURSIVE w (n) AS "
        "(SELECT 1 UNION ALL SELECT n + 1 FROM w, (SELECT max(d) AS d FROM e) WHERE n < d) FROM w"
    )
    for i in range(10, 14):
        con.execute(f"INSERT INTO e VALUES (1, {i})")
    query = "SELECT count(*), max(epoch) FROM tidewheel_iterations()"
    assert con.execute(query).fetchall() == [(5, 5)]  # DROP was one


def test_through_plain_views_and_in_transactions(con: tidewheel.Connection) -> None:
    con.execute("CREATE VIEW busy AS SELECT max(epochs) AS epochs FROM tidewheel_views()")
    assert con.execute("FROM busy").fetchall() == [(0,)]
    con.execute("INSERT INTO e VALUES (7, 8)")
    assert con.execute("FROM busy").fetchall() == [(1,)]
    con.execute("BEGIN; FROM tidewheel_iterations()")
    con.execute("ROLLBACK")
    con.execute("FROM tidewheel_iterations()")
    con.execute("CREATE TABLE kept AS FROM tidewheel_views()")
    assert con.execute("SELECT count(*) FROM kept").fetchall() == [(3,)]


@pytest.mark.parametrize(
    "listing",
    [
        "SHOW TABLES",
        "SHOW TABLES FROM main -- all",
        "DESCRIBE TABLES",
        "PRAGMA show_tables;",
        "SHOW ALL TABLES",
        "SHOW",
        "DESCRIBE",
        "PRAGMA show_tables_expanded",
    ],
)
def test_lists_of_tables_show_what_the_user_made(con: tidewheel.Connection, listing: str) -> None:
    con.execute("FROM tidewheel_views()")
    con.execute("FROM walk")
    listed = con.execute(listing)
    at = [column[0] for column in listed.description].index("name")
    assert sorted(row[at] for row in listed.fetchall()) == sorted(
        row[0]
        for row in con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' UNION ALL "
            "SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary"
        ).fetchall()
    )


def test_a_query_is_shown_as_it_was_written(con: tidewheel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW named(x, y) AS\nSELECT s,  d -- so\nFROM e")
    con.execute("CREATE MATERIALIZED VIEW twice AS SELECT * FROM e JOIN e f ON e.s = f.d")
    shown = con.execute("SELECT sql FROM tidewheel_views() WHERE view_name IN ('named', 'twice')")
    assert sorted(shown.fetchall()) == [
        ("SELECT * FROM e JOIN e f ON e.s = f.d",),
        ("SELECT s,  d -- so\nFROM e",),
    ]


def test_a_maintained_view_cannot_read_them(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.NotSupportedError, match=r"can't read tidewheel_views\(\)"):
        con.execute("CREATE MATERIALIZED VIEW x AS FROM tidewheel_views()")


@pytest.mark.parametrize(
    "statement",
    [
        "DESCRIBE SELECT * FROM tidewheel_vertices()",
        "SUMMARIZE SELECT * FROM tidewheel_views()",
        "CREATE TABLE t AS SELECT * FROM tidewheel_iterations()",
        "CREATE VIEW p AS SELECT * FROM tidewheel_views()",
        "PREPARE p AS SELECT * FROM tidewheel_views()",
    ],
)
def test_every_statement_may_name_them_where_there_is_no_view(statement: str) -> None:
    with tidewheel.connect() as con:
        con.execute(statement)


def test_without_views_and_in_safe_mode() -> None:
    with tidewheel.connect(safe_mode=True) as con:
        for what in ("views", "vertices", "iterations"):
            assert con.execute(f"FROM tidewheel_{what}()").fetchall() == []


@pytest.mark.parametrize(
    ("named", "hint"),
    [("tidewheel_views", "tidewheel_views()"), ("tidewheel_view()", "tidewheel_views")],
)
def test_the_error_for_a_near_miss_shows_what_can_be_called(named: str, hint: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS FROM t")
        con.execute("FROM tidewheel_views()")
        with pytest.raises(tidewheel.ProgrammingError) as raised:
            con.execute(f"FROM {named}")
        assert raised.value.hint == f"did you mean {hint}?"


def test_a_plain_view_over_them_once_the_last_view_is_dropped() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t(a INT); CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM t")
        con.execute("CREATE VIEW names AS SELECT view_name FROM tidewheel_views()")
        assert con.execute("FROM names").fetchall() == [("v",)]
        con.execute("DROP MATERIALIZED VIEW v")
        assert con.execute("FROM names").fetchall() == []
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT a FROM t")
        assert con.execute("FROM names").fetchall() == [("w",)]
