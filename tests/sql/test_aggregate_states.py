"""States of aggregates, as EXPORT_STATE gives them, and rows without columns: no type is told by
their names alone. Read, kept in tables, below views."""

import duckdb
import pytest

import tidewheel

STATES = [
    "sum(i)",
    "max(i::UHUGEINT)",
    "max(true)",
    "max('c0ffee00-0000-4000-8000-000000000000'::UUID)",
    "bit_xor('101'::BIT)",
    "avg(i)",
    "first(row(i, 'b') ORDER BY i)",
    "count(*)",
    "max('a'::ENUM ('a', 'b''c'))",
    "max(1.5::DECIMAL(9, 1))",
]


@pytest.mark.parametrize("aggregate", STATES)
@pytest.mark.parametrize("form", ["{}", "[{}]", "{{'a': {}}}"])
def test_a_state_is_read(aggregate, form):
    """DuckDB makes Arrow of some states, and ends the process for others."""
    state = form.format(f"{aggregate} EXPORT_STATE")
    if ("UUID" in aggregate or "BIT" in aggregate) and form != "{}":
        pytest.skip("DuckDB casts no such state inside of another value")
    sql = f"SELECT {state} AS s, 1 AS s FROM range(3) AS t(i)"
    expected = duckdb.sql(sql).fetchall()
    con = tidewheel.connect(":memory:")
    con.execute(f"PREPARE p AS {sql}")
    for text in (sql, "EXECUTE p", "EXECUTE p", sql):
        assert con.execute(text).fetchall() == expected
    assert con.execute(sql).to_arrow_table().num_rows == 1


@pytest.mark.parametrize("aggregate", ["sum", "avg", "count", "max", "list"])
def test_views_over_states_in_a_table(aggregate):
    con, plain = tidewheel.connect(":memory:"), duckdb.connect(":memory:")
    made = [
        "CREATE TABLE x AS SELECT range % 3 AS g, range AS i FROM range(9)",
        f"CREATE TABLE st AS SELECT g, {aggregate}(i) EXPORT_STATE AS s FROM x GROUP BY g",
    ]
    for sql in made:
        con.execute(sql)
        plain.execute(sql)
    queries = {
        "finals": "SELECT g, finalize(s) AS f FROM st",
        "combined": "SELECT g % 2 AS h, count(finalize(s)) AS n FROM st GROUP BY ALL",
        "joined": "SELECT x.i, finalize(s) AS f FROM x JOIN st USING (g)",
        "known": "SELECT g FROM st WHERE s IS NOT NULL",
        "counted": "SELECT count(*), sum(g) FROM st",
        "stated": f"SELECT g, finalize({aggregate}(i) EXPORT_STATE) AS f FROM x GROUP BY g",
    }
    for view, query in queries.items():
        con.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}")
        con.execute(f"FROM {view}").fetchall()
    changes = [
        f"INSERT INTO st SELECT g + 3, {aggregate}(i) EXPORT_STATE FROM x GROUP BY g",
        "INSERT INTO x VALUES (1, 30), (4, 8)",
        "UPDATE st SET g = 7 WHERE g = 1",
        "UPDATE st SET s = NULL WHERE g = 2",
        "DELETE FROM st WHERE g = 3",
        "BEGIN; INSERT INTO st VALUES (8, NULL); DELETE FROM st WHERE g = 0; COMMIT",
        "INSERT INTO st FROM st",
        "DELETE FROM st",
    ]
    for sql in changes:
        con.execute(sql)
        plain.execute(sql)
        for view, query in queries.items():
            found = map(repr, con.execute(f"FROM {view}").fetchall())
            assert sorted(found) == sorted(map(repr, plain.execute(query).fetchall())), (view, sql)


def test_views_over_rows_without_columns():
    con, plain = tidewheel.connect(":memory:"), duckdb.connect(":memory:")
    queries = {
        "counted": "SELECT count(r) AS n, sum(len(l)) AS m FROM t",
        "known": "SELECT k FROM t WHERE r IS NOT NULL",
        "others": "SELECT k % 2 AS h, sum(k) AS s FROM t GROUP BY ALL",
        "texts": "SELECT r::VARCHAR AS text, count(*) AS n FROM t GROUP BY ALL",
    }
    columns = "i AS k, row() AS r, [row(), NULL] AS l, struct_pack() AS e"
    made = f"CREATE TABLE t AS SELECT {columns} FROM range(5) AS x(i)"
    con.execute(made)
    plain.execute(made)
    for view, query in queries.items():
        con.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}")
        con.execute(f"FROM {view}").fetchall()
    for sql in (
        "INSERT INTO t VALUES (7, row(), NULL, NULL), (8, NULL, [], struct_pack())",
        "UPDATE t SET r = NULL, k = k + 1 WHERE k > 6",
        "UPDATE t SET l = [row()] WHERE k = 2",
        "DELETE FROM t WHERE k = 3",
    ):
        con.execute(sql)
        plain.execute(sql)
        for view, query in queries.items():
            found = map(repr, con.execute(f"FROM {view}").fetchall())
            assert sorted(found) == sorted(map(repr, plain.execute(query).fetchall())), (view, sql)
    with pytest.raises(tidewheel.NotSupportedError, match="keep r, which is a row without columns"):
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, r FROM t")


def test_returning_gives_a_state():
    con = tidewheel.connect(":memory:")
    con.execute("CREATE TABLE st AS SELECT 1 AS g, sum(i) EXPORT_STATE AS s FROM range(3) AS t(i)")
    assert con.execute("INSERT INTO st FROM st RETURNING s, g AS s").fetchall() == [(3, 1)]
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM st")
    con.execute("FROM v").fetchall()
    assert con.execute("DELETE FROM st RETURNING s").fetchall() == [(3,), (3,)]
    assert con.execute("FROM v").fetchall() == [(0,)]


@pytest.mark.parametrize("query", ["FROM st", "SELECT [s] AS s FROM st", "SELECT s FROM shown"])
def test_a_view_keeps_no_states(query):
    con = tidewheel.connect(":memory:")
    con.execute("CREATE TABLE st AS SELECT count(*) EXPORT_STATE AS s FROM range(3)")
    con.execute("CREATE VIEW shown AS SELECT avg(i) EXPORT_STATE AS s FROM range(3) AS t(i)")
    with pytest.raises(tidewheel.NotSupportedError, match=r"keep s, which is an AGGREGATE_STATE"):
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
