"""Calls behind a dot, `x.f(y)`, in views: kept by their changes as `f(x, y)` is."""

from __future__ import annotations

import duckdb
import pytest

import tidewheel
from oracle.shape_checks import rows

BEGIN = """
CREATE TABLE t (v VARCHAR, n INTEGER, xs INTEGER[], s STRUCT(a VARCHAR, b INTEGER));
INSERT INTO t VALUES ('Ab', 1, [1, 2, 3], {'a': 'Qq', 'b': 2}), ('cD', 2, [4], {'a': NULL, 'b': 3}),
    (NULL, 3, NULL, NULL), ('Ab', 4, [], {'a': 'x', 'b': 4});
CREATE SCHEMA n; CREATE MACRO n.twice(x) AS x * 2;
"""
CHANGES = """
BEGIN; INSERT INTO t VALUES ('zZ', 7, [9], {'a': 'W', 'b': 1}), ('ab', 7, NULL, NULL);
UPDATE t SET v = 'Mm', xs = [-5] WHERE n = 1; DELETE FROM t WHERE n = 2; COMMIT
"""
KEPT = [
    "SELECT v.lower() FROM t",
    "SELECT t.v.lower().upper() AS u, n FROM t",
    "SELECT main.lower(v) FROM t",
    "SELECT xs.list_transform(LAMBDA x: x + n) AS l FROM t",
    "SELECT list_transform(xs, LAMBDA x: x.abs() + n) AS l FROM t",
    "SELECT s.a.lower() AS q FROM t",
    "SELECT v[1:n].lower() AS f FROM t",
    "SELECT ('x' || v).upper(), (n + 1)::VARCHAR.length() FROM t",
    "SELECT v.lower() AS k, n.sum() AS s, count(*) AS c FROM t GROUP BY ALL",
    "SELECT v.lower().length() + n.abs() AS z FROM t WHERE v.starts_with('A')",
    "SELECT v, n FROM t ORDER BY v.lower() DESC NULLS LAST, n LIMIT 2",
    "SELECT v.string_agg(',' ORDER BY n) FROM t",
    "SELECT n, (SELECT max(u.v.lower()) FROM t AS u WHERE u.n <= t.n) AS m FROM t",
]
RIGHT = ["SELECT n.twice(n) AS d FROM t", "SELECT v, n.twice(3) AS d FROM t"]
"""A function of a schema that is called as a column is."""


@pytest.mark.parametrize("query", [*KEPT, *RIGHT])
def test_calls_behind_a_dot(query: str) -> None:
    with tidewheel.connect() as con, duckdb.connect() as oracle:
        con.execute(BEGIN)
        oracle.execute(BEGIN)
        con.execute(f"CREATE MATERIALIZED VIEW w AS {query}")
        ((how,),) = con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()
        assert how == "incremental" or query in RIGHT
        for statements in ("", CHANGES):
            con.execute(statements or "SELECT 1")
            oracle.execute(statements or "SELECT 1")
            wanted = oracle.execute(query).fetchall()
            assert rows(con.execute("FROM w").fetchall()) == rows(wanted)
            for fusion in ("on", "off"):
                con.execute(f"SET fusion = '{fusion}'")
                found = con.execute(query)
                assert found.description[0][0] == oracle.execute(query).description[0][0]
                assert rows(found.fetchall()) == rows(wanted)
