"""Views of quantiles under random edits, against DuckDB, which reads and sorts all values."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tidewheel
from oracle import column_edits
from oracle.column_edits import Edits, Rows
from tidewheel.engine.operators import quantiles, shared
from tidewheel.engine.operators.interpolation import fused, rounded
from tidewheel.engine.state import hashing
from tidewheel.planner import quantiles as quantiles_
from tidewheel.planner import view_answers, view_fill

KINDS = {
    "INTEGER": ["-2147483648", "-3", "0", "1", "2", "7", "8", "2147483647"],
    "BIGINT": ["-9223372036854775808", "0", "1", "2", "3", "9223372036854775807"],
    "UTINYINT": ["0", "1", "2", "3", "200", "255"],
    "DOUBLE": ["-1.5", "-0.0", "0.0", "0.1", "3.3", "1e300", "'inf'", "'-inf'", "'nan'"],
    "FLOAT": ["-1.5", "-0.0", "0.0", "0.1", "3.3", "'inf'", "'nan'"],
    "DECIMAL(4,1)": ["-999.9", "-0.1", "0", "0.1", "3.3", "7.7"],
    "DECIMAL(18,3)": ["-99999999.999", "-0.001", "0", "0.001", "3.333", "7777777.777"],
    "DECIMAL(19,0)": ["-9223372036854", "-1", "0", "1", "3", "7", "1000000000001"],
    "DECIMAL(38,6)": ["-123456789012.345678", "-0.000001", "0", "0.333333", "1", "7777777.777"],
    "HUGEINT": ["-9223372036854775807", "0", "1", "2", "3", "9223372036854775806"],
    "DATE": ["'2024-01-01'", "'2024-01-02'", "'2024-01-05'", "'1969-07-20'"],
    "TIMESTAMP": ["'2024-01-01'", "'2024-01-02 00:00:01'", "'1901-02-03 04:05:06.789012'"],
    "TIMESTAMPTZ": ["'2024-01-01'", "'2024-03-31 02:30:00.000001'", "'1999-12-31'"],
    "TIME": ["'00:00:00'", "'12:34:56.789012'", "'23:59:59.999999'"],
    "BOOLEAN": ["true", "false"],
}
DISCRETE = {
    "median": "SELECT k, median(x) AS q FROM t GROUP BY k",
    "all": "SELECT median(x) AS q, quantile_disc(x, 0.3) AS r, count(*) AS n FROM t",
    "lists": "SELECT h, quantile_disc(x, [0.9, 0.1, 0.5]) AS q FROM t GROUP BY h",
    "ends": "SELECT k, quantile_disc(x, 0) AS q, quantile(x, 1) AS r, max(x) AS m FROM t "
    "GROUP BY k",
    "digits": "SELECT h, k, quantile_disc(x, 0.333333333) AS q, quantile_disc(x, 7e-1) AS r FROM t "
    "GROUP BY ALL",
    "some": "SELECT k, median(x) FILTER (i % 3 > 0) AS q, quantile_disc(y, 0.25) AS r FROM t "
    "GROUP BY k",
    "last": "SELECT h, percentile_disc(0.3) WITHIN GROUP (ORDER BY x DESC) AS q FROM t GROUP BY h",
    "above": "SELECT i, x FROM t WHERE y >= (SELECT median(y) FROM t)",
    "of": "SELECT i, median(y) OVER (PARTITION BY k) AS q FROM t",
    "joined": "SELECT u.i, quantile_disc(t.x, 0.5) AS q FROM t JOIN t u ON t.k = u.k GROUP BY u.i",
    "values": "SELECT x, median(y) AS q FROM t GROUP BY x",
}
CONTINUOUS = {
    "between": "SELECT k, quantile_cont(x, 0.3) AS q, quantile_cont(x, 0.95) AS r FROM t "
    "GROUP BY k",
    "places": "SELECT quantile_cont(x, [0.1, 0.5, 0.123456]) AS q FROM t",
    "behind": "SELECT h, percentile_cont(0.3) WITHIN GROUP (ORDER BY x DESC) AS q, "
    "quantile_cont(x, 1) AS r, quantile_cont(x, 0.0) AS s FROM t GROUP BY h",
}


def same(found: list[tuple[Any, ...]]) -> Counter[str]:
    """Rows to be compared; -0.0 stands at the place of 0.0, so either is right."""

    def one(v: Any) -> Any:
        if isinstance(v, list):
            return [one(item) for item in v]
        return v + 0.0 if isinstance(v, float) else v

    return Counter(repr([one(v) for v in row]) for row in found)


def alike(found: Rows, wanted: Rows) -> bool:
    """Are these the same rows?"""
    return same(found) == same(wanted)


def check(
    rng: random.Random, kind: str, start: int, edits: int, threads: int = 1, kept: bool = True
) -> None:
    """Random transactions; all views after each. All are `kept` by operators, or one is not."""
    queries = DISCRETE if kind == "BOOLEAN" else DISCRETE | CONTINUOUS
    column_edits.check(Edits(rng, KINDS[kind]), kind, queries, alike, start, edits, threads, kept)


@pytest.mark.parametrize(("start", "threads"), [(0, 1), (40, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_random_edits(kind: str, start: int, threads: int) -> None:
    check(random.Random(f"{kind} {start}"), kind, start, 6, threads)


@pytest.mark.parametrize("kind", KINDS)
def test_places_that_are_sought(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiles, "_WORTH", 0)
    check(random.Random(kind), kind, 60, 8)


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "DECIMAL(4,1)"])
@pytest.mark.parametrize(("times", "large"), [(0, 1), (5, 1), (5, 1_000_000)])
def test_filled_by_statements(
    kind: str, times: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What begins with answers; values are looked for, or read at once, or tables are asked."""
    monkeypatch.setattr(view_fill, "MANY", 1)
    monkeypatch.setattr(view_answers, "MANY", 1)
    monkeypatch.setattr(shared, "FEWER", 1)
    monkeypatch.setattr(shared, "ROW", 1)
    monkeypatch.setattr(shared, "TIMES", times)
    monkeypatch.setattr(quantiles, "LARGE", large)
    monkeypatch.setattr(quantiles, "ROW", 1e-4)
    check(random.Random(f"{kind} {times}"), kind, 60, 8)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_many_random_edits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(quantiles, "_WORTH", rng.choice([0, 4, 512]))
    check(rng, rng.choice(list(KINDS)), rng.choice([0, 20, 200]), 60, 1 + seed % 2)


@pytest.mark.parametrize("kind", ["INTEGER", "TIMESTAMP"])
def test_keys_that_share_a_hash(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that meets two is recomputed from then on; so some have a reason."""
    combine = hashing.combine
    monkeypatch.setattr(hashing, "combine", lambda h, v: combine(h, v) & np.uint64(1))
    check(random.Random(kind), kind, 40, 5, kept=False)


def test_values_too_far_from_zero_are_recomputed() -> None:
    """What DuckDB makes of them is not known to the last digit."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (x DECIMAL(18,2), d DATE)")
        con.execute("INSERT INTO t VALUES (1, '2024-01-01'), (NULL, '2024-01-04')")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT median(x) AS x, median(d) AS d FROM t")
        for row in ["(9999999999999999.99, NULL)", "(2, 'infinity')", "(NULL, '2024-01-08')"]:
            con.execute(f"INSERT INTO t VALUES {row}")
            assert con.execute("VERIFY VIEW v").fetchall() == []
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [
            ("a quantile lies between values that are too far from zero",)
        ]


@pytest.mark.parametrize("kind", ["HUGEINT", "DECIMAL(38,2)"])
def test_values_of_more_than_64_bits(kind: str) -> None:
    """They have their places at the ends; the view is computed anew once a quantile is one."""
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE t (k INTEGER, x {kind})")
        con.execute("INSERT INTO t VALUES (1, 1), (1, 2), (1, 4), (1, 1e30), (1, -1e30), (2, NULL)")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT k, median(x) AS m, quantile_disc(x, 0.6) AS q, "
            "quantile_disc(x, [0.5, 0.3]) AS l FROM t GROUP BY k"
        )
        for kept, row in [
            (True, "(1, 7)"),
            (True, "(2, 3)"),
            (True, "(1, 3)"),
            (False, "(3, 1e30)"),
        ]:
            con.execute(f"INSERT INTO t VALUES {row}")
            assert con.execute("VERIFY VIEW v").fetchall() == []
            (reason,) = con.execute("SELECT reason FROM tidewheel_views()").fetchone() or ()
            assert reason == (None if kept else "a quantile is a value of more than 64 bits")


def test_what_lies_between_is_rounded_once_or_twice() -> None:
    """Fused, no digit of the product is lost before the sum."""
    a, b, c = (np.array([v]) for v in (1 + 2.0**-30, 1 - 2.0**-30, -1.0))
    assert rounded(a, b, c).tolist() == [0.0]
    assert fused(a, b, c).tolist() == [-(2.0**-60)]
    assert quantiles_.rounding() in (fused, rounded)


def test_a_change_of_a_large_group_reads_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> None:
        raise AssertionError("a group was read")

    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT (i * 7919) % 30011 AS x FROM range(30011) r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT median(x) AS m FROM t")
        assert con.execute("FROM v").fetchall() == [(15005.0,)]
        monkeypatch.setattr(quantiles.Quantiles, "_read", read)
        for i in range(100):
            con.execute(f"INSERT INTO t VALUES ({100_000 + i})")
        assert con.execute("FROM v").fetchall() == [(15055.0,)]
        con.execute("DELETE FROM t WHERE x >= 100000")
        assert con.execute("FROM v").fetchall() == [(15005.0,)]
        assert con.execute("VERIFY VIEW v").fetchall() == []


def test_an_approximate_one_is_not_the_exact_one() -> None:
    with tidewheel.connect(threads=1) as con:
        con.execute(
            "CREATE TABLE t AS SELECT i % 3 AS g, hash(i) % 99999 / 7.0 AS x FROM range(9999) r(i)"
        )
        query = "SELECT g, approx_quantile(x, 0.37) AS q FROM t GROUP BY g"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO t VALUES (1, 5.5)")
        assert sorted(con.execute("FROM v").fetchall()) == sorted(con.execute(query).fetchall())
        assert con.execute("VERIFY VIEW v").fetchall() == []
