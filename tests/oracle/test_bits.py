"""Views of bit_and, bit_or and bit_xor under random edits, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import tidewheel
from oracle import column_edits
from oracle.column_edits import Edits, Rows
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
    values = [low, high, 0, 1, 2, 3, 6, max(low, -1), *(rng.randint(low, high) for _ in range(9))]
    made = Edits(rng, [str(v) for v in values])
    column_edits.check(made, kind, QUERIES, alike, start, edits, threads)


def alike(found: Rows, wanted: Rows) -> bool:
    """Are these the same rows?"""
    return Counter(found) == Counter(wanted)


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
