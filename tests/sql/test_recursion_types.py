# ruff: noqa: E501
"""Recursions over values of every type: their order, equality and looks are DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import tidewheel

VALUES = {
    "ENUM('z', 'a', 'm')": ["'z'", "'a'", "'m'"],
    "BIT": ["'1'", "'0001'", "'01'", "'111'"],
    "TIMETZ": [
        "'12:00:00+01'",
        "'11:30:00-02'",
        "'13:00:00+05'",
        "'24:00:00+00'",
        "'00:00:00+15:59:59'",
    ],
    "TIMESTAMP_NS": ["'infinity'", "'-infinity'", "'2020-01-01 00:00:00.000000001'"],
    "TIMESTAMP_S": ["'infinity'", "'-infinity'", "'2020-01-01'"],
    "DATE": ["'infinity'", "'-infinity'", "'0044-03-15 (BC)'"],
    "TIME": ["'24:00:00'", "'00:00:00'"],
    "INTERVAL": ["'1 month'", "'29 days'", "'31 days'", "'-1 month'", "'25 hours'"],
    "UUID": [
        "'00000000-0000-0000-0000-000000000001'",
        "'80000000-0000-0000-0000-000000000000'",
        "'f0000000-0000-0000-0000-000000000001'",
    ],
    "BLOB": ["'\\xFF'", "''", "'a'", "'\\x00'"],
    "HUGEINT": ["170141183460469231731687303715884105727", "-1", "0"],
    "UHUGEINT": ["340282366920938463463374607431768211455", "0"],
    "DOUBLE": ["'nan'", "'inf'", "'-inf'", "1.5"],
    "FLOAT": ["'-0.0'"],
    "BOOLEAN": ["true", "false"],
    "VARIANT": ["1", "[1, 2]", "1.5"],
    "UUID[]": ["['f0000000-0000-0000-0000-000000000001']", "[]", "[NULL]"],
    "HUGEINT[]": ["[1]", "[-1]", "[170141183460469231731687303715884105727]"],
    "TIMETZ[]": ["['12:00:00+01']", "['11:30:00-02']"],
    "BOOLEAN[]": ["[true]", "[false]", "[NULL]"],
    "INTERVAL[]": ["['1 month']", "['31 days']", "['25 hours']"],
    "ENUM('z', 'a')[2]": ["['z', 'a']", "['a', 'z']", "['z', NULL]"],
    "STRUCT(a HUGEINT, t TIMESTAMP_NS)": [
        "{a: 1, t: 'infinity'}",
        "{a: -1, t: NULL}",
        "{a: NULL, t: '-infinity'}",
    ],
    "STRUCT(u UUID, d DATE)": [
        "{u: NULL, d: 'infinity'}",
        "{u: 'f0000000-0000-0000-0000-000000000001', d: '2020-01-01'}",
    ],
    "MAP(DATE, INTERVAL)": ["MAP {'infinity': '1 month'}", "MAP {'infinity': '31 days'}"],
    "UNION(i INTEGER, d DATE)": [
        "union_value(i := 1)",
        "union_value(d := 'infinity'::DATE)",
        "union_value(d := '2020-01-01'::DATE)",
    ],
    "UNION(t VARCHAR, l HUGEINT[])": ["union_value(t := 'a')", "union_value(l := [1::HUGEINT])"],
}
GROUPED = {
    "one value": "WITH RECURSIVE r(x, v) AS (SELECT k % 2, v FROM s UNION SELECT (x + 1) % 3, {0}(v) FROM r GROUP BY (x + 1) % 3) SELECT x, v::VARCHAR FROM r",
    "two values": "WITH RECURSIVE r(x, v, n) AS (SELECT k % 2, v, k FROM s UNION SELECT (x + 1) % 3, {0}(v), max(n) FROM r GROUP BY (x + 1) % 3) SELECT x, v::VARCHAR FROM r",
    "of which row": "WITH RECURSIVE r(x, v, k) AS (SELECT k % 2, v, k FROM s UNION SELECT (x + 1) % 3, {0}(v), arg_{0}(k, v) FROM r GROUP BY (x + 1) % 3) SELECT x, s.v::VARCHAR FROM r JOIN s USING (k)",
}
KEYED = {
    "by key": "WITH RECURSIVE r(k, v, n) USING KEY (k) AS (SELECT k, v, 0 FROM s {0} SELECT r.k, e.v, n + 1 FROM r JOIN s e ON e.k = r.k + 1 WHERE n < 3) SELECT k, v::VARCHAR, n FROM r",
    "by value": "WITH RECURSIVE r(v, k, n) USING KEY (v) AS (SELECT v, max(k), 0 FROM s GROUP BY v {0} SELECT r.v, max(e.k), max(n) + 1 FROM r JOIN s e ON e.v IS NOT DISTINCT FROM r.v WHERE n < 3 GROUP BY r.v) SELECT v::VARCHAR, k, n FROM r",
}


@pytest.fixture(params=VALUES)
def tables(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[tidewheel.Connection, duckdb.DuckDBPyConnection]]:
    with tidewheel.connect() as con, duckdb.connect() as duck:
        values = [*VALUES[request.param], "NULL", *reversed(VALUES[request.param])]
        for each in (con, duck):
            each.execute(f"CREATE TABLE s (k INTEGER, v {request.param})")
            for k, value in enumerate(values):
                each.execute(f"INSERT INTO s VALUES ({k}, {value})")
        yield con, duck


def rows(con: tidewheel.Connection | duckdb.DuckDBPyConnection, query: str) -> list[str]:
    return sorted(map(repr, con.execute(query).fetchall()))


@pytest.mark.parametrize("how", ["min", "max"])
@pytest.mark.parametrize("query", GROUPED.values(), ids=GROUPED)
@pytest.mark.parametrize("fusion", ["on", "off"])
def test_the_best_value_is_that_of_duckdb(tables, query: str, how: str, fusion: str) -> None:
    con, duck = tables
    con.execute(f"SET fusion = {fusion}")
    best = f"SELECT x::INTEGER, v::VARCHAR FROM range(3) g(x), (SELECT {how}(v) AS v FROM s)"
    assert rows(con, query.format(how)) == rows(duck, best)


@pytest.mark.parametrize("union", ["UNION", "UNION ALL"])
@pytest.mark.parametrize("query", KEYED.values(), ids=KEYED)
def test_rows_by_key_are_those_of_duckdb(tables, query: str, union: str) -> None:
    con, duck = tables
    assert rows(con, query.format(union)) == rows(duck, query.format(union))


@pytest.mark.parametrize("how", ["min", "max"])
def test_a_view_keeps_the_best_value_that_the_query_finds(tables, how: str) -> None:
    con, _ = tables
    query = GROUPED["one value"].format(how)
    con.execute(f"CREATE MATERIALIZED VIEW best AS {query}")
    for k in range(3):
        assert rows(con, "FROM best") == rows(con, query)
        con.execute(f"DELETE FROM s WHERE k = {k}")
    con.execute("INSERT INTO s SELECT k + 10, v FROM s")
    assert rows(con, "FROM best") == rows(con, query)
    assert con.execute("VERIFY VIEW best").fetchall() == []


@pytest.mark.parametrize("how", ["bit_or", "bit_and"])
@pytest.mark.parametrize("kind", ["BIT", "HUGEINT", "UTINYINT"])
def test_bits_of_any_type(kind: str, how: str) -> None:
    values = {"BIT": "'1010', '0110', '0011'", "HUGEINT": "1180591620717411303424, 5, 12"}.get(
        kind, "9, 5, 12"
    )
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE s AS SELECT unnest([{values}])::{kind} AS v")
        query = f"WITH RECURSIVE r(x, v) AS (SELECT 0, v FROM s UNION SELECT (x + 1) % 3, {how}(v) FROM r GROUP BY (x + 1) % 3) SELECT DISTINCT v::VARCHAR FROM r"
        assert rows(con, query) == rows(con, f"SELECT {how}(v)::VARCHAR FROM s")


@pytest.mark.parametrize("how", ["min", "max"])
@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_minus_zero_stays_what_it_is(kind: str, how: str) -> None:
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE s AS SELECT 0 AS a, 1 AS b, '-0.0'::{kind} AS v")
        query = f"WITH RECURSIVE r(x, v) AS (SELECT a, v FROM s UNION SELECT b, {how}(r.v) FROM r JOIN s ON a = x GROUP BY b) FROM r"
        assert rows(con, query) == ["(0, -0.0)", "(1, -0.0)"]
        con.execute(f"CREATE MATERIALIZED VIEW best AS {query}")
        assert rows(con, "FROM best") == ["(0, -0.0)", "(1, -0.0)"]
        con.execute("INSERT INTO s VALUES (1, 2, '-0.0')")
        assert rows(con, "FROM best") == ["(0, -0.0)", "(1, -0.0)", "(2, -0.0)"]


@pytest.mark.parametrize("how", ["min", "max"])
@pytest.mark.parametrize(
    "kind", ["TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP_S", "TIMESTAMPTZ", "DATE"]
)
def test_infinity_beside_null_in_a_view(kind: str, how: str) -> None:
    """Both were the last place that 64 bits have: the view was refused, or the change."""
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE s (k INTEGER, v {kind}); CREATE TABLE e (a INTEGER, b INTEGER)")
        con.execute("INSERT INTO s VALUES (0, 'infinity'), (1, NULL), (5, NULL)")
        con.execute("INSERT INTO e VALUES (0, 1), (1, 2)")
        query = f"WITH RECURSIVE r(x, v) AS (SELECT k, v FROM s UNION SELECT e.b, {how}(r.v) FROM r JOIN e ON e.a = r.x GROUP BY e.b) SELECT x, v::VARCHAR FROM r"
        con.execute(f"CREATE MATERIALIZED VIEW best AS {query}")
        assert rows(con, "FROM best") == [*(f"({x}, 'infinity')" for x in range(3)), "(5, None)"]
        con.execute("INSERT INTO s VALUES (1, '-infinity')")
        assert rows(con, "FROM best") == rows(con, query)
        con.execute("UPDATE s SET v = NULL WHERE k < 2")
        assert rows(con, "FROM best") == [f"({x}, None)" for x in (0, 1, 2, 5)]
        assert con.execute("VERIFY VIEW best").fetchall() == []


def test_a_union_that_is_null_is_a_value_of_its_own() -> None:
    """Arrow's unions have no NULLs of their own: it was taken for the first value that came."""
    with tidewheel.connect() as con:
        con.execute("SET fusion = 'off'")
        con.execute("CREATE TABLE s AS SELECT unnest([0, NULL])::UNION(a INTEGER, b VARCHAR) AS v")
        query = "WITH RECURSIVE r(v) AS (SELECT v FROM s UNION SELECT s.v FROM r, s) FROM r"
        assert rows(con, query) == ["(0,)", "(None,)"]


@pytest.mark.parametrize("n", [33, 64, 65, 130])
def test_rows_of_many_columns(n: int) -> None:
    with tidewheel.connect() as con:
        con.execute("SET fusion = 'off'")
        zeros = ", ".join("0" for _ in range(n - 1))
        names = ", ".join(f"c{i}" for i in range(n))
        query = f"WITH RECURSIVE r({names}) AS (SELECT {zeros}, 0 UNION SELECT {zeros}, NULL FROM r UNION SELECT NULL, {zeros} FROM r) SELECT count(*) FROM r"
        assert con.execute(query).fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("query", "item"),
    [
        ("WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT [n] FROM r) FROM r", "[n]"),
        ("WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n || 'x' FROM r) FROM r", "n || 'x'"),
        (
            "WITH RECURSIVE r (n, m) AS (SELECT 1, [1] UNION ALL SELECT n + 1, (n) FROM r "
            "WHERE n < 5) SELECT m FROM r",
            "(n)",
        ),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT DISTINCT [x.n] FROM r x) FROM r",
            "[x.n]",
        ),
    ],
)
def test_a_step_that_does_not_fit_its_first_rows_has_a_place(query: str, item: str) -> None:
    with tidewheel.connect() as con:
        with pytest.raises(tidewheel.DataError) as caught:
            con.execute(query).fetchall()
        assert "first rows of r" in str(caught.value.hint)
        column, length = caught.value.column, caught.value.length
        assert column is not None
        assert query[column - 1 : column - 1 + length] == item
