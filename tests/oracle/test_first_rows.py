"""Top-k views under changes of single rows, which first rows in Python answer, against DuckDB."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

import tidewheel
from tidewheel.engine.operators.topk import Ordered
from tidewheel.planner import view_fill

TYPES = {
    "INTEGER": ["-3", "0", "1", "2", "7", "NULL"],
    "VARCHAR": ["''", "'a'", "'ab'", "'abcdefgh1'", "'abcdefgh2'", "'é'", "'Z'", "NULL"],
    "DOUBLE": ["0", "'-0.0'", "1.5", "'nan'", "'inf'", "'-inf'", "NULL"],
    "DECIMAL(30,2)": ["-1.25", "0", "12345678901234567890.5", "3", "NULL"],
    "HUGEINT": ["-170141183460469231731687303715884105727", "0", "5", "NULL"],
    "BOOLEAN": ["true", "false", "NULL"],
    "DATE": ["'2020-01-01'", "'1960-05-05'", "'infinity'", "NULL"],
    "BLOB": ["'\\x00'::BLOB", "''::BLOB", "'\\xff'::BLOB", "'ab'::BLOB", "NULL"],
    "TIMESTAMP": ["'2020-01-01 00:00:01'", "'1960-05-05'", "NULL"],
    "UBIGINT": ["0", "18446744073709551615", "9223372036854775808", "NULL"],
}
QUERIES = [
    "SELECT * FROM t ORDER BY x DESC, g, i LIMIT {n}",
    "SELECT * FROM t ORDER BY x NULLS FIRST, g DESC, i LIMIT {n}",
    "SELECT x, g FROM t ORDER BY g, x DESC NULLS LAST LIMIT {n}",
    "SELECT g, count(*) AS c, max(x) AS m FROM t GROUP BY g ORDER BY c DESC, g LIMIT {n}",
    "SELECT x, count(*) AS c FROM t GROUP BY x ORDER BY c, x DESC LIMIT {n}",
    "SELECT DISTINCT ON (g) g, x, i FROM t ORDER BY g, x DESC, i",
    "FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x DESC, i) <= {n}",
]


def shown(rows: list[tuple[Any, ...]]) -> list[str]:
    # (0.0 and -0.0 tie, as do the rows that differ in nothing else: either may be there)
    return sorted(repr([0.0 if v == 0 and type(v) is float else v for v in row]) for row in rows)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("most", [2, 100_000])
def test_single_rows_come_and_go(kind: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_fill, "MANY", most)
    rng = random.Random(kind)
    counts = [rng.choice([1, 2, 5, 30]) for _ in QUERIES]
    queries = [q.format(n=n) for q, n in zip(QUERIES, counts, strict=True)]
    with tidewheel.connect() as con, duckdb.connect() as oracle:

        def both(sql: str) -> None:
            con.execute(sql)
            oracle.execute(sql)

        def row(i: int) -> str:
            return f"({i}, {rng.randrange(3)}, {rng.choice(TYPES[kind])})"

        both(f"CREATE TABLE t (i INTEGER, g INTEGER, x {kind})")
        both(f"INSERT INTO t VALUES {', '.join(row(i) for i in range(12))}")
        for at, query in enumerate(queries):
            con.execute(f"CREATE MATERIALIZED VIEW v{at} AS {query}")
        for at in range(60):
            move = rng.random()
            if move < 0.45:
                both(f"INSERT INTO t VALUES {row(100 + at)}")
            elif move < 0.7:
                both(f"DELETE FROM t WHERE i = (SELECT min(i) FROM t WHERE i >= {at % 17})")
            elif move < 0.8:
                value = rng.choice(TYPES[kind])
                both(f"UPDATE t SET x = {value} WHERE i = (SELECT max(i) FROM t)")
            elif move < 0.9:
                both(f"INSERT INTO t VALUES {', '.join(row(1000 + at) for _ in range(3))}")
            elif move < 0.95:
                both(f"DELETE FROM t WHERE g = {rng.randrange(3)} AND i % 2 = 0")
            else:
                con.execute("BEGIN")
                con.execute(f"INSERT INTO t VALUES {row(5000)}, {row(5001)}")
                con.execute("ROLLBACK")
            for v, query in enumerate(queries):
                found = con.execute(f"FROM v{v}").fetchall()
                wanted = oracle.execute(query).fetchall()
                assert shown(found) == shown(wanted), (query, at)


def test_a_row_that_comes_looks_at_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that goes, as long as those behind it are known."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i, i * 7 % 1000 AS x FROM range(1000) AS r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t ORDER BY x DESC LIMIT 10")
        con.execute("INSERT INTO t VALUES (-1, 5000)")

        def never(*_: Any) -> None:
            raise AssertionError("rows are read")

        monkeypatch.setattr(Ordered, "evaluate", never)
        for i in range(20):
            con.execute(f"INSERT INTO t VALUES ({2000 + i}, {990 + i})")
            con.execute(f"DELETE FROM t WHERE i = {i}")
        con.execute("DELETE FROM t WHERE i = 2019")
        con.execute("UPDATE t SET x = 6000 WHERE i = 2003")
        monkeypatch.undo()
        assert con.execute("FROM v ORDER BY x DESC LIMIT 2").fetchall() == [
            (2003, 6000),
            (-1, 5000),
        ]
        assert con.execute("VERIFY VIEW v").fetchall() == []
