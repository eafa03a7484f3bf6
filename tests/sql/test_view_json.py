"""Views over JSON columns: they are kept by their changes, and are right."""

from __future__ import annotations

import pytest

import tidewheel

QUERIES = (
    "SELECT k, json_array_length(j -> 'l') AS n FROM t",
    "SELECT j -> 'o' ->> 'x' AS x, count(*) AS n FROM t GROUP BY x",
    "SELECT k, unnest(from_json(j -> 'l', '[\"VARCHAR\"]')) AS v FROM t",
    "SELECT v, count(*) AS n FROM (SELECT unnest(j -> '$.l[*]') AS v FROM t) GROUP BY v",
    "SELECT k, coalesce(j -> 'o' -> 'l' ->> 0, j -> 'l' ->> 1) AS v FROM t",
    "SELECT k, list_transform([1, 2], lambda j: 'a') AS l FROM t",
    "SELECT t.j.o.x, j.l AS l, s.j.o.x AS y FROM (SELECT *, {'j': j} AS s FROM t) t",
    'SELECT j.o.x::VARCHAR AS x, count(*) AS n FROM t WHERE j."no such" IS NULL GROUP BY j.o.x',
    "SELECT a.k, b.k AS other FROM t a JOIN t b ON a.j.o = b.j.o",
)


@pytest.mark.parametrize("query", QUERIES)
def test_parts_of_json(query: str) -> None:
    rows = """(1, '{"l": [1, "b"], "o": {"x": 1, "l": [7]}}'), (2, '{"l": [2, 3]}'), (3, NULL)"""
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE t (k INTEGER, j JSON); INSERT INTO t VALUES {rows}")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]
        for change in (
            """INSERT INTO t VALUES (4, '{"o": {"x": "y"}}'), (5, '{"l": ["b"]}')""",
            """UPDATE t SET j = '{"l": [1], "o": null}' WHERE k = 1""",
            "DELETE FROM t WHERE k IN (2, 3)",
        ):
            con.execute(change)
            assert con.execute("VERIFY VIEW v").fetchall() == []
            found, sought = (con.execute(q).fetchall() for q in ("FROM v", query))
            assert sorted(map(repr, found)) == sorted(map(repr, sought))
