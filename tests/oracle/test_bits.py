"""Views of bit_and, bit_or and bit_xor under random edits, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest

import tidewheel
from tidewheel.planner import view_fill

KINDS = {
    "TINYINT": (-128, 127),
    "SMALLINT": (-(1 << 15), (1 << 15) - 1),
    "INTEGER": (-(1 << 31), (1 << 31) - 1),
    "BIGINT": (-(1 << 63), (1 << 63) - 1),
    "UTINYINT": (0, 255),
    "UINTEGER": (0, (1 << 32) - 1),
    "UBIGINT": (0, (1 << 64) - 1),
    "HUGEINT": (-(1 << 100), 1 << 100),
}
QUERIES = {
    "groups": "SELECT k, bit_and(x) AS a, bit_or(x) AS o, bit_xor(x) AS x, sum(x) AS s, "
    "count(*) AS n, min(i) AS m FROM t GROUP BY k",
    "all": "SELECT bit_and(x) AS a, bit_or(x) AS o, bit_xor(x) AS x FROM t",
    "some": "SELECT k, bit_xor(x) FILTER (i % 3 > 0) AS f, bit_or(DISTINCT x) AS d FROM t "
    "GROUP BY k",
    "both": "SELECT k, bit_xor(x) FILTER (i % 3 > 0) AS f, bit_and(i) AS a FROM t GROUP BY k",
    "of": "SELECT i, bit_or(x) OVER (PARTITION BY k) AS o FROM t",
}


def check(rng: random.Random, kind: str, start: int, edits: int, threads: int = 1) -> None:
    """Random transactions; all views after each."""
    low, high = KINDS[kind]
    ids = iter(range(1 << 30))

    def value() -> str:
        some = [low, high, 0, 1, 2, 3, 6, rng.randint(low, high), max(low, -1)]
        return str(rng.choice([*some, "NULL"]))

    def rows(n: int) -> str:
        found = (f"({next(ids)}, {rng.choice(['NULL', 1, 2, 3])}, {value()})" for _ in range(n))
        return f"INSERT INTO t VALUES {', '.join(found)}"

    def edit() -> str:
        where = f"WHERE i % {rng.randrange(2, 7)} = 1"
        edits = [f"DELETE FROM t {where}", f"UPDATE t SET x = {value()} {where}"]
        return rng.choice([rows(1), rows(4), *edits, f"UPDATE t SET k = k % 3 + 1 {where}"])

    with tidewheel.connect(threads=threads) as con, duckdb.connect() as oracle:
        for at in (con, oracle):
            at.execute(f"CREATE TABLE t (i INTEGER, k INTEGER, x {kind})")
        if start:
            for statement in [rows(start)]:
                con.execute(statement)
                oracle.execute(statement)
        for name, query in QUERIES.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name}_ AS {query}")
        for _ in range(edits):
            batch = [edit() for _ in range(rng.choice([1, 1, 3]))]
            for statement in batch if len(batch) == 1 else ["BEGIN", *batch, "COMMIT"]:
                con.execute(statement)
                oracle.execute(statement)
            for name, query in QUERIES.items():
                got = Counter(con.execute(f"FROM {name}_").fetchall())
                assert got == Counter(oracle.execute(query).fetchall()), (name, batch)
        reasons = con.execute("SELECT DISTINCT reason FROM tidewheel_views()").fetchall()
        assert reasons == [(None,)]


@pytest.mark.parametrize(("start", "threads"), [(0, 1), (30, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_random_edits(kind: str, start: int, threads: int) -> None:
    check(random.Random(f"{kind} {start}"), kind, start, 8, threads)


@pytest.mark.parametrize("kind", ["TINYINT", "INTEGER", "BIGINT", "UBIGINT"])
def test_filled_by_statements(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_fill, "MANY", 1)
    check(random.Random(f"filled {kind}"), kind, 60, 6)


def test_bits_that_no_value_has_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What DuckDB keeps of a column says so; they may come later."""
    monkeypatch.setattr(view_fill, "MANY", 1)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i % 3 AS k, i AS x FROM range(100) AS r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, bit_or(x) AS o FROM t GROUP BY k")
        assert con.execute("FROM v ORDER BY k").fetchall() == [(0, 127), (1, 127), (2, 127)]
        con.execute("INSERT INTO t VALUES (1, 1024), (2, -1)")
        assert con.execute("FROM v ORDER BY k").fetchall() == [(0, 127), (1, 1151), (2, -1)]
        con.execute("DELETE FROM t WHERE x NOT BETWEEN 0 AND 7")
        assert con.execute("FROM v ORDER BY k").fetchall() == [(0, 7), (1, 7), (2, 7)]
