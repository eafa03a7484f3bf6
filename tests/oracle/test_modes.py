"""mode() under random edits, against the same query: of values that tie DuckDB takes one."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

import tidewheel

QUERIES = (
    "SELECT k, mode(x) AS m FROM t GROUP BY k",
    "SELECT mode(s) AS m, count(*) AS n FROM t",
    "SELECT k, mode(x) AS m, mode(s) AS n, sum(x) AS o, mode(d) AS p, mode(l) AS q FROM t "
    "GROUP BY k",
    "SELECT k, mode(x) FILTER (id % 2 = 0) AS m, max(x) AS h FROM t WHERE id % 7 <> 1 GROUP BY k",
    "SELECT k, mode(x + id % 2) AS m, histogram(x) AS h FROM t GROUP BY k",
    "SELECT k FROM t GROUP BY k HAVING mode(x) > 1",
    "SELECT k, mode(x ORDER BY id) AS m FROM t GROUP BY k",
)  # fmt: skip
ELSEWHERE = (
    "SELECT n, mode(x) AS m FROM t JOIN d USING (k) GROUP BY n",
    "SELECT k, mode(DISTINCT x) AS m FROM t GROUP BY k",
)
"""Over rows that are no table's, or not as they stand there."""


def check(seed: int, edits: int) -> None:
    rng = random.Random(seed)
    ids = itertools.count()

    def some(n: int) -> str:
        rows = (
            f"({next(ids)}, {rng.choice(['NULL', 0, 1, 2])}, {rng.choice(['NULL', 1, 2, 3])}, "
            f"{rng.choice(['NULL', repr('a'), repr('b')])}, {rng.choice(['NULL', -0.0, 0.0, 1])}, "
            f"[{rng.randrange(2)}])"
            for _ in range(n)
        )
        return f"INSERT INTO t VALUES {', '.join(rows)}"

    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE t (id INT, k INT, x INT, s VARCHAR, d DOUBLE, l INT[])")
        con.execute("CREATE TABLE d AS SELECT i AS k, 'n' || i % 2 AS n FROM range(3) AS r(i)")
        con.execute(some(20))
        for i, query in enumerate((*QUERIES, *ELSEWHERE)):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        for _ in range(edits):
            edit = rng.choice(
                [
                    some(1),
                    some(4),
                    f"DELETE FROM t WHERE id % 6 = {rng.randrange(6)}",
                    f"UPDATE t SET x = x % 3 + 1 WHERE id % 5 = {rng.randrange(5)}",  # rows move
                    f"UPDATE t SET k = {rng.randrange(3)} WHERE id % 9 = 2",
                    "DELETE FROM t WHERE k = 1",
                ]
            )
            con.execute(edit)
            for i, query in enumerate((*QUERIES, *ELSEWHERE)):
                got = Counter(map(repr, con.execute(f"FROM v{i}").fetchall()))
                assert got == Counter(map(repr, con.execute(query).fetchall())), (query, edit)
                if rng.randrange(8) == 0:
                    assert con.execute(f"VERIFY VIEW v{i}").fetchall() == [], query
        kept = [
            how for (how,) in con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()
        ]
        assert kept.count("incremental") == len(QUERIES)


@pytest.mark.parametrize("seed", range(2))
def test_random_edits(seed: int) -> None:
    check(seed, 20)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 14))
def test_many_random_edits(seed: int) -> None:
    check(seed, 60)


def test_verify_knows_values_that_tie() -> None:
    """Which of them it is depends on how DuckDB divides many rows."""
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT i AS id, hash(i) % 300 AS k, hash(i + 1) % 40 AS x, "
            "'v' || hash(i + 3) % 90 AS u FROM range(400000) AS r(i)"
        )
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, mode(x), mode(u) FROM t GROUP BY k")
        for i in range(2):
            con.execute("INSERT INTO t VALUES (?, ?, ?, 'v1')", [i, i, i])
            assert con.execute("VERIFY VIEW v").fetchall() == []
