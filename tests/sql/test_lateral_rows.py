"""LATERAL subqueries over UNNEST and series, UNPIVOT, and rows as values: names and their order.

Each against DuckDB: by operators, and as a maintained view under random edits.
"""

from __future__ import annotations

import random

import pytest

import tidewheel
from oracle.kept_queries import like_duckdb

SETUP = (
    "CREATE TABLE t(id INT, g INT, l INT[], ll INT[][], z INT, k INT, st STRUCT(a INT, b INT[]))",
    "INSERT INTO t VALUES (1, 2, [5, 6], [[1, 2], [3]], 100, 50, {'a': 1, 'b': [1, 2]}), "
    "(3, NULL, NULL, NULL, 101, 51, NULL), (4, 0, [], [[]], 102, 52, {'a': 2, 'b': []}), "
    "(5, 1, [NULL], [[NULL], NULL], 103, 53, {'a': NULL, 'b': NULL}), "
    "(6, 3, [5, 5, 7], [[9]], 104, 54, {'a': 7, 'b': [8, 8]})",
    "CREATE TABLE u(id INT, y INT)",
    "INSERT INTO u VALUES (1, 5), (6, 7), (6, 5), (5, 1)",
)
QUERIES = """
SELECT t.id, q.* FROM t, (SELECT unnest(t.l) AS z, z + 1 AS w) q
SELECT t.id, q.* FROM t, (SELECT unnest(t.l) AS x, x + 1 AS w) q
SELECT t.id, q.* FROM t, (SELECT unnest(t.ll, recursive := true) AS x) q
SELECT t.id, q.* FROM t, (SELECT unnest(t.ll, max_depth := 2) AS x) q
SELECT t.id, q.* FROM t, (SELECT unnest(t.ll) AS x) q
SELECT t.id, q.x, r.y FROM t, (SELECT unnest(t.ll) AS x) q, (SELECT unnest(q.x) AS y) r
SELECT t.id, q.* FROM t, (SELECT unnest(t.l) AS x, t.g, g + 1 AS h, id) q
SELECT t.id, q.* FROM t, (SELECT unnest(t.st.b) AS x) q
SELECT t.id, q.* FROM t, LATERAL (SELECT k, z FROM unnest(t.l) s(k)) q
SELECT t.id, q.* FROM t, LATERAL (SELECT k AS z FROM range(t.g) s(k) WHERE k < z) q
SELECT t.id, q.* FROM t, LATERAL (SELECT s.k + t.k AS z FROM range(t.g) s(k) WHERE s.k < t.g AND t.id > 1) q
SELECT t.id, u.y, q.* FROM t JOIN u USING (id), LATERAL (SELECT x FROM unnest(t.l) s(x) WHERE x = u.y) q
SELECT t.id, u.y, q.* FROM t JOIN u USING (id) JOIN LATERAL (SELECT x FROM unnest([t.g, u.y]) s(x)) q ON q.x < t.id
SELECT t.id, q.* FROM t CROSS JOIN LATERAL (SELECT unnest(t.l) AS x) q(y)
SELECT t.id, y FROM t, LATERAL (SELECT unnest(t.l)) q(y) WHERE y > 5
SELECT t.id, q.id FROM t, LATERAL (SELECT id FROM unnest(t.l) s(id)) q
SELECT t.id, count(*), sum(x) FROM t, (SELECT unnest(l) AS x) q GROUP BY t.id
SELECT x, count(*) FROM t, (SELECT unnest(l) AS x) q GROUP BY x HAVING count(*) > 1
SELECT t.id, q.* FROM t, LATERAL (SELECT DISTINCT x FROM unnest(t.l) s(x)) q
SELECT t.id, e.key, e.value FROM t, LATERAL json_each(to_json(t.st)) e WHERE e.type <> 'ARRAY'
SELECT t.id, e.key, e.value FROM t LEFT JOIN LATERAL json_each(to_json(t.l)) AS e ON true
SELECT t.id, u.y, e.key FROM t JOIN u USING (id), LATERAL json_each(json_array(t.g, u.y)) e
SELECT t.id, x, r.k FROM t CROSS JOIN LATERAL unnest(t.l) s(x) LEFT JOIN LATERAL range(x - 4) r(k) ON true
SELECT t.id, x FROM t, LATERAL range((SELECT count(*) FROM u)) r(x)
SELECT t.id, q.* FROM t, LATERAL (SELECT sum(x) AS sx FROM unnest(t.l) s(x)) q
SELECT t.id, q.* FROM t, LATERAL (SELECT * FROM unnest(t.l) s(x) ORDER BY x) q
SELECT t.id, q.* FROM t, LATERAL (SELECT * EXCLUDE (x), x + 1 AS y FROM unnest(t.l) s(x)) q
SELECT t.id, q.* FROM t, LATERAL (SELECT s.* FROM unnest(t.l) s(x)) q
SELECT t.id, q.* FROM t, LATERAL (SELECT COLUMNS(*) FROM unnest(t.l) s(x)) q
SELECT t.id, q.* FROM t, LATERAL (SELECT 7 AS c, NULL AS d FROM unnest(t.l) s(x)) q
SELECT u.y, q.* FROM u, LATERAL (SELECT u.*, t.g FROM t WHERE t.id = u.id) q
SELECT u.y, q.* FROM u LEFT JOIN LATERAL (SELECT u.* EXCLUDE (id), count(*) AS n FROM t WHERE t.id = u.id) q ON n > 0
SELECT u.y, q.* FROM u LEFT JOIN LATERAL (SELECT u.* RENAME (y AS w), t.g FROM t WHERE t.id = u.id AND t.g < u.y) q ON true
SELECT u.id, (SELECT count(*) FROM (SELECT u.*, t.g FROM t WHERE t.id = u.id) w WHERE w.y > w.g) AS n FROM u
SELECT u.id, q.r FROM u, LATERAL (SELECT u AS r FROM t WHERE t.id = u.id) q
SELECT u.id, (SELECT u) AS r FROM u WHERE EXISTS (SELECT 1 FROM t WHERE {'id': t.id, 'y': t.g} <> u)
SELECT u.id, q.* FROM u, LATERAL (SELECT u.* FROM t AS u WHERE u.g = 1) q
SELECT t.id, q.* FROM t, LATERAL (SELECT x, row_number() OVER () AS n FROM unnest(t.l) s(x)) q
SELECT t.id, q.* FROM t LEFT JOIN LATERAL (SELECT x FROM unnest(t.l) s(x) WHERE x > 5) q ON true
SELECT t.id, q.* FROM t LEFT JOIN (SELECT unnest(t.l) AS x) q ON q.x = t.id + 4
SELECT t.id, x FROM t LEFT JOIN unnest(t.l) q(x) ON x > 5
SELECT t.id, q.x, k FROM t LEFT JOIN LATERAL unnest(l) q(x) ON x > t.id AND g IS NOT NULL
SELECT t.id, i, x FROM t LEFT JOIN range(g) r(i) ON i > 0 LEFT JOIN LATERAL unnest(l) q(x) ON x = i + 5
SELECT t.id, q.* FROM t, LATERAL (SELECT unnest(l) AS x UNION ALL SELECT g) q
SELECT t.id, (SELECT max(x) FROM (SELECT unnest(t.l) AS x)) FROM t
SELECT t.id, (SELECT x FROM unnest(t.l) s(x) LIMIT 1) IS NULL FROM t
SELECT unnest, t.id FROM t, unnest(t.l)
SELECT t.id, q.* FROM t, LATERAL (SELECT x.a FROM (SELECT unnest([t.st]) AS x)) q
SELECT t.id, q.* FROM t, LATERAL (SELECT unnest([{'a': t.g, 'b': t.z}]) AS x) q
SELECT t.id, q.x.a FROM t, LATERAL (SELECT unnest([{'a': t.g, 'b': t.z}]) AS x) q
SELECT t.id, a, b FROM t, LATERAL (SELECT unnest([{'a': t.g, 'b': t.z}], recursive := true)) q
SELECT t.id, q.* FROM t, (SELECT unnest(CASE WHEN t.g > 1 THEN t.l ELSE [0] END) AS x, unnest([1]) AS one) q
SELECT t.id, q.* FROM t, (SELECT generate_series AS x FROM generate_series(1, t.g)) q
SELECT t.id, q.* FROM t, (SELECT d::DATE AS d FROM generate_series(DATE '2024-01-01', DATE '2024-01-01' + t.g, INTERVAL 1 DAY) s(d)) q
SELECT t.id, u.y FROM t JOIN u ON u.id IN (SELECT unnest(t.l))
SELECT DISTINCT x FROM t, (SELECT unnest(l) AS x WHERE t.g > 1) q
UNPIVOT (SELECT id, g, z FROM t) ON g, z
UNPIVOT u ON COLUMNS('y')
UNPIVOT (SELECT * FROM u) ON * INTO NAME a VALUE b
UNPIVOT u ON id, (y + 1) AS y1
SELECT u FROM u
SELECT (u).y, u.y FROM u
SELECT u.* FROM u, (SELECT 1 AS u) x
SELECT u FROM u, (SELECT 1 AS u) x
SELECT t.id, u IS NULL FROM t LEFT JOIN u USING (id)
SELECT count(u) FROM t LEFT JOIN u USING (id)
SELECT max(u) FROM u
SELECT u, row_number() OVER (ORDER BY u) FROM u
SELECT id FROM u WHERE u IN (SELECT x FROM u x WHERE y > 1)
SELECT id FROM u GROUP BY id, u
SELECT x FROM (SELECT id FROM u) AS x
SELECT x.x FROM (SELECT id FROM u) AS x(x)
""".strip().splitlines()  # noqa: E501
PARTS = 6


def edit(drawn: random.Random) -> str:
    a, b = drawn.randint(1, 7), drawn.randint(0, 4)
    row = f"{a}, {b}, [{b}, NULL, {a}], [[{a}], [{b}, 5]], {a * 10}, {b}, {{'a': {a}, 'b': [{b}]}}"
    return drawn.choice(
        [
            f"INSERT INTO t VALUES ({row})",
            f"DELETE FROM t WHERE id = {a}",
            f"UPDATE t SET g = {b}, l = list_append(l, {a}) WHERE id = {a}",
            f"INSERT INTO u VALUES ({a}, {b})",
            f"DELETE FROM u WHERE y = {b}",
            f"UPDATE u SET y = NULL WHERE id = {a}",
        ]
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_like_duckdb(part: int) -> None:
    drawn = random.Random(part)
    like_duckdb(SETUP, QUERIES[part::PARTS], edit, drawn, 20)


def test_a_value_of_two_selects_further_out_is_told_by_name() -> None:
    """What no operator takes apart has a reason that its author can read."""
    with tidewheel.connect(threads=1) as con:
        for statement in SETUP:
            con.execute(statement)
        con.execute(
            "CREATE MATERIALIZED VIEW v AS "
            "SELECT t.id, q.* FROM t, LATERAL (SELECT * FROM u, LATERAL (SELECT g + y AS s) r) q"
        )
        (reason,) = con.execute("SELECT reason FROM tidewheel_views()").fetchone() or ()
        assert reason == "a lateral subquery that refers further out"
        con.execute("INSERT INTO u VALUES (2, 2); UPDATE t SET g = 4 WHERE id = 3")
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT q.* FROM u, LATERAL (SELECT u.*, t.g FROM t WHERE t.id = u.id) q",
        "SELECT q.* FROM u, LATERAL (SELECT u AS r, t.g FROM t WHERE t.id = u.id) q",
        "SELECT (SELECT u) AS r FROM u",
    ],
)
def test_all_of_an_item_around_is_kept_by_changes(query: str) -> None:
    with tidewheel.connect(threads=1) as con:
        for statement in SETUP:
            con.execute(statement)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        kept = con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()
        assert kept == [("incremental",)]
