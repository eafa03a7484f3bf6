"""Views of entropies, histograms and lists of DISTINCT values, random edits, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tidewheel
from oracle import column_edits
from oracle.column_edits import Edits, Rows
from tidewheel.engine.state import hashing
from tidewheel.planner import view_fill

KINDS = {
    "INTEGER": ["-2147483648", "0", "1", "2", "7"],
    "UBIGINT": ["0", "1", "18446744073709551615"],
    "DOUBLE": ["-1.5", "-0.0", "0.0", "0.1", "'inf'", "'nan'"],
    "DECIMAL(18,3)": ["-0.001", "0", "3.333"],
    "VARCHAR": ["''", "'a'", "'A'", "'b'", "'ä'", "'a longer text than others'"],
    "DATE": ["'2024-01-01'", "'1969-07-20'", "'infinity'"],
    "BOOLEAN": ["true", "false"],
}
QUERIES = {
    "groups": "SELECT k, entropy(x) AS e, histogram(x) AS h, list(DISTINCT x ORDER BY x) AS l, "
    "count(*) AS n, max(i) AS m FROM t GROUP BY k",
    "all": "SELECT entropy(x) AS e, histogram(x) AS h, array_agg(DISTINCT x ORDER BY x DESC) AS l "
    "FROM t",
    "some": "SELECT h, entropy(x) FILTER (i % 3 > 0) AS e, histogram(x) FILTER (i % 2 = 0) AS f, "
    "list(DISTINCT x ORDER BY x) FILTER (i % 5 > 0) AS l FROM t GROUP BY h",
    "texts": "SELECT k, h, string_agg(DISTINCT x::VARCHAR, '-' ORDER BY x::VARCHAR) AS s, "
    "list(DISTINCT y + 1 ORDER BY y + 1 NULLS FIRST) AS l, string_agg(DISTINCT h, ',' ORDER BY h) "
    "AS t FROM t GROUP BY ALL",
    "sets": "SELECT k, h, entropy(y) AS e, histogram(y) AS f FROM t GROUP BY ROLLUP (k, h)",
    "of": "SELECT i, entropy(y) OVER (PARTITION BY k) AS e FROM t",
    "values": "SELECT x, histogram(k) AS h, corr(i, y) IS NULL AS c FROM t GROUP BY x",
}


def same(found: list[tuple[Any, ...]]) -> Counter[str]:
    """Rows to be compared; -0.0 stands at the place of 0.0, so either is right."""

    def one(v: Any) -> Any:
        if isinstance(v, list):
            return [one(item) for item in v]
        if isinstance(v, dict):
            return [(one(key), n) for key, n in v.items()]
        return round(v, 9) + 0.0 if isinstance(v, float) else v

    return Counter(repr([one(v) for v in row]) for row in found)


def alike(found: Rows, wanted: Rows) -> bool:
    """Are these the same rows?"""
    return same(found) == same(wanted)


def check(rng: random.Random, kind: str, start: int, edits: int, threads: int = 1) -> None:
    """Random transactions; all views after each."""
    made = Edits(rng, KINDS[kind], ["1", "2.5", "NULL"])
    column_edits.check(made, kind, QUERIES, alike, start, edits, threads)


@pytest.mark.parametrize(("start", "threads"), [(0, 1), (40, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_random_edits(kind: str, start: int, threads: int) -> None:
    check(random.Random(f"{kind} {start}"), kind, start, 6, threads)


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "VARCHAR"])
def test_filled_by_statements(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_fill, "MANY", 1)
    check(random.Random(f"filled {kind}"), kind, 60, 6)


def test_keys_that_share_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    combine = hashing.combine
    monkeypatch.setattr(hashing, "combine", lambda h, v: combine(h, v) & np.uint64(1))
    check(random.Random("hash"), "VARCHAR", 40, 5)


def test_a_change_reads_counts() -> None:
    """An entropy and a histogram have those of one operator."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i % 7 AS x FROM range(7000) AS r(i)")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT entropy(x) AS e, histogram(x) AS h FROM t"
        )
        assert con.execute("SELECT h[3] FROM v").fetchall() == [(1000,)]
        con.execute("INSERT INTO t VALUES (3)")
        assert con.execute("SELECT h[3] FROM v").fetchall() == [(1001,)]
        plan = str(con.execute("EXPLAIN VIEW v").fetchall())
        assert plan.count("counts of values") == 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_many_random_edits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(view_fill, "MANY", rng.choice([1, 100_000]))
    check(rng, rng.choice(list(KINDS)), rng.choice([0, 20, 200]), 40, 1 + seed % 2)
