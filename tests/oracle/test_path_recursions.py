"""Recursive views that carry their way along, as a list, a text and a HUGEINT, against DuckDB."""

from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel

QUERIES = [
    """WITH RECURSIVE r AS (SELECT a, b, [a, b] AS path, 1::HUGEINT * q AS q FROM e WHERE a < 3
        UNION ALL SELECT r.a, e.b, list_append(r.path, e.b), r.q * e.q FROM r JOIN e ON e.a = r.b
        WHERE NOT list_contains(r.path, e.b) AND len(r.path) < 5) FROM r""",
    """WITH RECURSIVE r AS (SELECT b, [n] AS path, n || '' AS t FROM e WHERE a < 3
        UNION SELECT e.b, r.path || [e.n], r.t || '/' || coalesce(e.n, '?')
        FROM r JOIN e ON e.a = r.b WHERE length(r.t) < 8 AND NOT contains(r.t, e.n)) FROM r""",
    """WITH RECURSIVE r AS (SELECT b, [b::BIGINT] AS p, q::HUGEINT s FROM e WHERE a = 0
        UNION SELECT e.b, list_prepend(e.b::BIGINT, r.p), r.s + e.q * r.s
        FROM r JOIN e ON e.a = r.b AND NOT list_contains(r.p, e.b::BIGINT))
        SELECT b, max(len(p)), sum(s), min(p) FROM r GROUP BY b""",
]


@pytest.mark.parametrize("seed", range(3))
def test_ways_are_kept(seed: int) -> None:
    rng = random.Random(seed)
    with tidewheel.connect() as ours, duckdb.connect() as theirs:
        table = "CREATE TABLE e (id INTEGER, a INTEGER, b INTEGER, n VARCHAR, q BIGINT)"
        for con in (ours, theirs):
            con.execute(table)
            con.execute(
                "INSERT INTO e SELECT i, i % 4, (i * 7) % 7, 'n' || i, 2 FROM range(8) t(i)"
            )
        for i, query in enumerate(QUERIES):
            ours.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        for step in range(15):
            kind = rng.choice(["insert", "insert", "delete", "update"])
            rows = ", ".join(
                f"({100 * step + i}, {rng.randrange(7)}, {rng.randrange(7)}, "
                f"{rng.choice(['NULL', chr(39) * 2, repr('é'), repr('x')])}, "
                f"{rng.choice([1, 1000, -77, 10**6])})"
                for i in range(rng.choice([1, 1, 2, 5]))
            )
            edit = {
                "insert": f"INSERT INTO e VALUES {rows}",
                "delete": f"DELETE FROM e WHERE hash(id + {step}) % 5 = 0",
                "update": f"UPDATE e SET n = n || 'z', q = q + 1 WHERE hash(id + {step}) % 4 = 0",
            }[kind]
            for con in (ours, theirs):
                con.execute(edit)
            for i, query in enumerate(QUERIES):
                found = ours.execute(f"FROM v{i}").fetchall()
                assert sorted(map(repr, found)) == sorted(map(repr, theirs.sql(query).fetchall()))
