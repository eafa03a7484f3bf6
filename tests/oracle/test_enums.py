"""Views over ENUM columns, whose order is that of their values, beside DuckDB."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidewheel

LEVELS = ["none", "low", "it''s mid", "high"]
SCHEMA = f"""
CREATE TYPE level AS ENUM ({", ".join(f"'{v}'" for v in LEVELS)});
CREATE TYPE few AS ENUM ('high', 'low');
CREATE TABLE t (k INTEGER, m level, f few, x INTEGER);
CREATE TABLE u (m level, k INTEGER, s VARCHAR);
"""
VIEWS = [
    "SELECT * FROM (PIVOT t ON m IN ('low', 'high') USING count(*) GROUP BY k)",
    "SELECT * FROM t",
    "SELECT k, m FROM t WHERE m > 'low' OR m IS NULL",
    "SELECT k FROM t WHERE m IN ('low', 'high') AND m <> 'none'",
    "SELECT k, m >= 'low'::level AS a, m < 'nothing' AS b, f = m AS c FROM t",
    "SELECT k, m BETWEEN 'low' AND 'high' AS a, m IS DISTINCT FROM 'low' AS b FROM t",
    "SELECT k FROM t WHERE m NOT IN ('none'::level, 'high') OR m LIKE '%i%'",
    "SELECT k, CASE WHEN m = 'low' THEN m ELSE 'high'::level END AS c, coalesce(m, 'low') AS d "
    "FROM t",
    "SELECT k, m::VARCHAR AS t, m || '!' AS e, enum_code(m) AS o, length(m::TEXT) AS l FROM t",
    "SELECT m, count(*) AS n, sum(x) AS s FROM t GROUP BY m",
    "SELECT coalesce(m, 'none'::level) AS c, count(*) AS n FROM t GROUP BY 1 HAVING count(*) > 1",
    "SELECT k, min(m) AS a, max(m) AS b, count(m) AS c, count(DISTINCT m) AS d FROM t GROUP BY k",
    "SELECT max(m) FILTER (WHERE x > 1) AS a, min(f) AS b, "
    "max(CASE WHEN x > 0 THEN m END) AS c FROM t",
    "SELECT k, arg_max(x, m) AS a, arg_min(m, x) AS b FROM t GROUP BY k",
    "SELECT k, string_agg(m, ',' ORDER BY m, x) AS s, first(x ORDER BY m DESC, x) AS f "
    "FROM t GROUP BY k",
    "SELECT m, f, count(*) AS n, grouping(m) AS g FROM t GROUP BY CUBE (m, f)",
    "SELECT m, f, count(*) AS n, grouping_id(f, m) AS g FROM t GROUP BY CUBE (m, f)",
    "SELECT DISTINCT m, f FROM t",
    "SELECT k, m, x FROM t ORDER BY m DESC NULLS LAST, k, x, f LIMIT 3",
    "SELECT k, x, rank() OVER (PARTITION BY k ORDER BY m) AS r FROM t",
    "SELECT k, x, lag(m) OVER w AS a, max(m) OVER w AS b, count(m) OVER w AS c FROM t "
    "WINDOW w AS (PARTITION BY k ORDER BY x, m, f)",
    "SELECT k, lag(m, 1, 'low') OVER w AS a, lead(m, 1, m) OVER w AS b, "
    "lead(m, 2, NULL) OVER w AS c, lag(x, 1, CASE WHEN m > 'low' THEN 1 END) OVER w AS d, "
    "lag(f, 1, 'low'::few) OVER w AS e, lag(m, 1, f) OVER w AS g, "
    "lag(m, 1, f::VARCHAR) OVER w AS h FROM t WINDOW w AS (PARTITION BY k ORDER BY x, m, f)",
    "SELECT k, m FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY m DESC, x) = 1",
    "SELECT * FROM t JOIN u ON t.m = u.m",
    "SELECT t.k, u.k AS o FROM t JOIN u ON t.f = u.m",
    "SELECT t.k, u.k AS o FROM t LEFT JOIN u ON t.m = u.s",
    "SELECT t.k, t.m, u.m AS o FROM t LEFT JOIN u ON t.k = u.k AND t.m < u.m",
    "SELECT t.k, u.k AS o FROM t FULL JOIN u USING (m)",
    "SELECT k FROM t WHERE m IN (SELECT m FROM u)",
    "SELECT k FROM t WHERE NOT EXISTS (FROM u WHERE u.m > t.m)",
    "SELECT k, (SELECT max(m) FROM u WHERE u.k = t.k) AS best FROM t",
    "SELECT k FROM t WHERE m = (SELECT max(m) FROM t)",
    "SELECT m FROM t UNION SELECT m FROM u",
    "SELECT m, k FROM t EXCEPT ALL SELECT m, k FROM u",
    "SELECT m FROM t UNION ALL SELECT f FROM t",
    "SELECT k, x FROM t UNION BY NAME SELECT k, m FROM u",
    "SELECT NULL AS m, x FROM t UNION ALL SELECT m, k FROM u EXCEPT SELECT NULL, 1",
    "SELECT v.m, t.k FROM (VALUES ('low'::level), ('high'::level)) v (m) LEFT JOIN t USING (m)",
    "WITH c AS (SELECT m, count(*) AS n FROM t GROUP BY m) "
    "SELECT a.m, b.m AS o FROM c a JOIN c b ON a.n = b.n AND a.m < b.m",
    "WITH RECURSIVE r AS (SELECT k, m FROM t WHERE k = 0 UNION SELECT u.k, r.m FROM r "
    "JOIN u ON u.m = r.m OR u.k = r.k + 1 WHERE u.m <> 'none') FROM r",
    "WITH RECURSIVE r AS (SELECT 0 AS k UNION SELECT t.x FROM r JOIN t ON t.k = r.k "
    "WHERE t.m > 'none') FROM r",
    "SELECT level, n FROM (SELECT m AS level, k AS n FROM u WHERE s = m)",
]
RECOMPUTED = [
    "SELECT k, list(m ORDER BY m, x) AS l FROM t GROUP BY k",
    "SELECT k, [m] AS l FROM t",
]


class Sides:
    """A database of ours and one of DuckDB's."""

    def __init__(self, seed: int, path: Path | None, threads: int) -> None:
        self.rng = random.Random(seed)
        self.con = tidewheel.connect(path or ":memory:", threads=threads)
        self.duck = duckdb.connect()
        self.both(SCHEMA)
        for _ in range(6):
            self.change()

    def both(self, sql: str, given: Any = None) -> None:
        self.con.execute(sql, given)
        self.duck.execute(sql, given)

    def change(self) -> None:
        rng = self.rng
        m = rng.choice([None, *(v.replace("''", "'") for v in LEVELS)])
        f, k, x = rng.choice([None, "high", "low"]), rng.randrange(3), rng.randrange(4)
        kind = rng.randrange(7)
        if kind < 2:
            self.both("INSERT INTO t VALUES (?, ?, ?, ?)", [k, m, f, x])
        elif kind == 2:
            self.both("INSERT INTO u VALUES (?, ?, ?)", [m, k, f])
        elif kind == 3:
            self.both("UPDATE t SET m = ?, x = x + 1 WHERE k = ? AND x = ?", [m, k, x])
        elif kind == 4:
            self.both("UPDATE u SET m = ? WHERE k = ?", [m, k])
        elif kind == 5:
            self.both("INSERT INTO t SELECT k, m, s::few, k FROM u WHERE k = ?", [k])
        else:
            self.both("DELETE FROM t WHERE m = ? AND k = ?", [m, k])

    def compare(self, queries: list[str]) -> None:
        for i, query in enumerate(queries):
            got = sorted(map(repr, self.con.execute(f"FROM v{i}").fetchall()))
            assert got == sorted(map(repr, self.duck.execute(query).fetchall())), query


@pytest.mark.parametrize(("seed", "threads"), [(1, 1), (2, 2), (3, 1)])
def test_views_are_those_of_duckdb(seed: int, threads: int) -> None:
    sides = Sides(seed, None, threads)
    queries = VIEWS + RECOMPUTED
    for i, query in enumerate(queries):
        sides.con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        if i % 4 == seed:
            sides.con.execute(f"CREATE MATERIALIZED VIEW w{i} AS SELECT * FROM v{i}")
    reasons = dict(sides.con.execute("SELECT view_name, reason FROM tidewheel_views()").fetchall())
    for i, query in enumerate(queries):
        assert bool(reasons[f"v{i}"]) == (query in RECOMPUTED), (query, reasons[f"v{i}"])
        own = sides.con.execute(f"DESCRIBE v{i}").fetchall()
        theirs = sides.duck.execute(f"DESCRIBE {query}").fetchall()
        assert [r[1] for r in own] == [r[1] for r in theirs], query
    for _ in range(8):
        sides.con.execute("BEGIN")
        for _ in range(sides.rng.randrange(1, 4)):
            sides.change()
        sides.con.execute("COMMIT")
        sides.change()
        sides.compare(queries)
    for i, query in enumerate(queries):
        assert sides.con.execute(f"VERIFY VIEW v{i}").fetchall() == [], query
        if i % 4 == seed:
            w = sorted(map(repr, sides.con.execute(f"FROM w{i}").fetchall()))
            assert w == sorted(map(repr, sides.con.execute(f"FROM v{i}").fetchall())), query
    sides.con.close()


def test_a_type_and_its_views_may_be_made_anew(tmp_path: Path) -> None:
    query = "SELECT m, count(*) AS n FROM t WHERE m > 'none' GROUP BY m ORDER BY m LIMIT 2"
    sides = Sides(5, tmp_path / "enums.db", 1)
    sides.con.execute(f"CREATE MATERIALIZED VIEW v0 AS {query}")
    sides.both("ALTER TABLE t ALTER m TYPE ENUM ('high', 'it''s mid', 'low', 'none')")
    sides.compare([query])
    sides.con.close()
    sides.con = tidewheel.connect(tmp_path / "enums.db")
    for _ in range(8):
        sides.change()
        sides.compare([query])
    assert sides.con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]
    sides.con.close()
