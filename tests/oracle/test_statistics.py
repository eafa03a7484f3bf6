"""Views of correlations, regressions, moments and their kin, random edits, against DuckDB."""

from __future__ import annotations

import math
import random
from typing import Any

import duckdb
import numpy as np
import pytest

import tidewheel
from oracle import column_edits
from oracle.column_edits import OTHERS, Edits
from tidewheel.engine.operators import finish
from tidewheel.engine.state import hashing
from tidewheel.planner import view_fill

KINDS = {
    "INTEGER": ["-2147483648", "-3", "0", "1", "2", "7", "8", "2147483647"],
    "BIGINT": ["-9223372036854775808", "0", "1", "2", "3", "9223372036854775807"],
    "UTINYINT": ["0", "1", "2", "3", "200", "255"],
    "DOUBLE": ["-1.5", "-0.0", "0.0", "0.1", "3.3", "1e9", "1e9 + 1", "-7e-5"],
    "FLOAT": ["-1.5", "-0.0", "0.0", "0.1", "3.3", "1e9"],
    "DECIMAL(4,1)": ["-999.9", "-0.1", "0", "0.1", "3.3", "7.7"],
    "DECIMAL(18,3)": ["-99999999.999", "-0.001", "0", "0.001", "3.333", "7777777.777"],
}
SPECIAL = ["'nan'", "'inf'", "'-inf'"]
PAIRS = (
    "corr", "covar_pop", "covar_samp", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx",
    "regr_syy", "regr_sxy", "regr_slope", "regr_intercept", "regr_r2",
)  # fmt: skip
SINGLE = ("skewness", "kurtosis", "kurtosis_pop", "sem")


def calls(x: str = "x", y: str = "y", where: str = "", single: bool = True) -> str:
    """All of the functions."""
    found = [f"{f}({y}, {x}){where}" for f in PAIRS if single or f != "regr_intercept"]
    found += [f"{f}({x}){where}" for f in SINGLE if single or f == "sem"]
    return ", ".join(f"{call} AS r{i}" for i, call in enumerate(found))


def queries(single: bool) -> dict[str, str]:
    some = " FILTER (i % 3 > 0)"
    return {
        "groups": f"SELECT k, {calls(single=single)} FROM t GROUP BY k",
        "texts": "SELECT h, corr(x, y) AS c, count(*) AS n, max(y) AS m, regr_slope(x, y) "
        "FILTER (x > 0) AS s, sum(DISTINCT y) AS d FROM t GROUP BY h",
        "all": f"SELECT {calls('y', 'x', single=single)} FROM t",
        "some": f"SELECT k, {calls(where=some, single=single)} FROM t GROUP BY k",
        "of": "SELECT i, corr(y, x) OVER (PARTITION BY k) AS c FROM t",
        "terms": "SELECT h, covar_pop(x::DOUBLE + 1, y * 2) AS c, regr_r2(y, -y) AS r, "
        "sem(DISTINCT x) AS e FROM t GROUP BY h HAVING count(*) > 1",
        "sets": "SELECT k, h, covar_samp(y, x) AS c, sem(x) AS e FROM t "
        "GROUP BY GROUPING SETS ((k), (h), ())",
        "joined": "SELECT u.i, corr(t.y, t.x) AS c FROM t JOIN t u ON t.k = u.k GROUP BY u.i",
    }


def alike(one: Any, other: Any, scale: float) -> bool:
    """Are they the same double, or nearly?

    Covariances with infinities are NaN; DuckDB has infinities where one comes last.
    """
    if not isinstance(one, float) or not isinstance(other, float):
        return bool(one == other)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and (math.isnan(other) or math.isinf(other))
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9 * scale)


def same(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> bool:
    """The same rows, but for what doubles are rounded to."""

    def key(row: tuple[Any, ...]) -> str:
        return repr([v if not isinstance(v, float) else "double" for v in row])

    def values(row: tuple[Any, ...]) -> list[float]:
        return [0.0 if not isinstance(v, float) or math.isnan(v) else v for v in row]

    if len(found) != len(wanted):
        return False
    pairs = zip(
        sorted(found, key=lambda r: (key(r), values(r))),
        sorted(wanted, key=lambda r: (key(r), values(r))),
        strict=True,
    )
    for one, other in pairs:
        finite = [abs(v) for v in other if isinstance(v, float) and math.isfinite(v)]
        scale = max(1.0, *finite, 1.0)
        if not all(alike(a, b, scale) for a, b in zip(one, other, strict=True)):
            return False
    return True


def check(
    rng: random.Random,
    kind: str,
    start: int,
    edits: int,
    threads: int = 1,
    special: bool = False,
    kept: bool = True,
) -> None:
    """Random transactions; all views after each. All are `kept` by operators, or one is not."""
    values = [*KINDS[kind], *(SPECIAL if special else ())]
    others = [*OTHERS, *(SPECIAL[:1] if special else ())]
    made, views = Edits(rng, values, others), queries(single=not special)
    column_edits.check(made, kind, views, same, start, edits, threads, kept)


@pytest.mark.parametrize(("start", "threads"), [(0, 1), (40, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_random_edits(kind: str, start: int, threads: int) -> None:
    check(random.Random(f"{kind} {start}"), kind, start, 6, threads)


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_what_is_no_number(kind: str) -> None:
    check(random.Random(kind), kind, 20, 10, special=True)


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "DECIMAL(4,1)"])
def test_filled_by_statements(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_fill, "MANY", 1)
    monkeypatch.setattr(finish, "MANY", 2)
    check(random.Random(f"filled {kind}"), kind, 60, 6)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_many_random_edits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(view_fill, "MANY", rng.choice([1, 100_000]))
    monkeypatch.setattr(finish, "MANY", rng.choice([2, 192]))
    check(rng, rng.choice(list(KINDS)), rng.choice([0, 20, 200]), 60, 1 + seed % 2)


def test_keys_that_share_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that has a max meets two, and is recomputed from then on."""
    combine = hashing.combine
    monkeypatch.setattr(hashing, "combine", lambda h, v: combine(h, v) & np.uint64(1))
    check(random.Random("hash"), "DOUBLE", 40, 5, kept=False)


@pytest.mark.parametrize("many", [1, 192])
@pytest.mark.parametrize("kept", [1, 100_000])
def test_what_goes_leaves_no_trace(many: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows have the same bits, whatever there was in between."""
    monkeypatch.setattr(view_fill, "MANY", kept)
    monkeypatch.setattr(finish, "MANY", many)
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT i, i % 3 AS k, sin(i) * 10 ** (i % 7) AS x, "
            "cos(i) / 10 ** (i % 5) AS y FROM range(90) AS r(i)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT k, {calls()} FROM t GROUP BY k")
        before = sorted(con.execute("FROM v").fetchall())
        con.execute("INSERT INTO t SELECT -1 - i, i % 4, 1e70 / (i + 1), 1e-70 FROM range(9) r(i)")
        assert sorted(con.execute("FROM v").fetchall()) != before
        con.execute("DELETE FROM t WHERE i < 0")
        assert sorted(con.execute("FROM v").fetchall()) == before


@pytest.mark.parametrize("offset", [0, 10**4, 10**6, 10**8, 10**12])
def test_values_far_from_zero(offset: int) -> None:
    """They are as far from each other wherever they lie, to the last digits."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (x DOUBLE, y DOUBLE)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {calls()} FROM t")
        con.execute(
            f"CREATE MATERIALIZED VIEW w AS SELECT {calls('x + o', 'y - o')} "
            f"FROM (SELECT x, y, {offset} AS o FROM t)"
        )
        for x, y in [(1, 2), (2, 9), (4, 3.5), (9, -1), (10.5, 0.25)]:
            con.execute(f"INSERT INTO t VALUES ({x}, {y})")
        near, far = con.execute("FROM v").fetchone(), con.execute("FROM w").fetchone()
        assert near is not None
        assert far is not None
        moved = {PAIRS.index(f) for f in ("regr_avgx", "regr_avgy", "regr_intercept")}
        for i, (one, other) in enumerate(zip(near, far, strict=True)):
            if i not in moved:
                assert math.isclose(one, other, rel_tol=1e-13), i


@pytest.mark.parametrize("function", ["skewness", "kurtosis", "kurtosis_pop"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e200"])
def test_what_is_out_of_range(function: str, value: str) -> None:
    """It is DuckDB's error, in a change and when a view is made, and leaves all as it was."""
    rows = f"INSERT INTO t VALUES (1), (2), ('{value}'), (4)"
    query = f"SELECT {function}(x) AS r FROM t"
    with tidewheel.connect() as con, duckdb.connect() as oracle:
        for at in (con, oracle):
            at.execute("CREATE TABLE t (x DOUBLE)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO t VALUES (7), (8), (1), (3)")
        before = con.execute("FROM v").fetchall()
        with pytest.raises(tidewheel.DataError) as found:
            con.execute(rows)
        assert same(con.execute("FROM v").fetchall(), before)
        con.execute("INSERT INTO t VALUES (5)")
        con.execute("DELETE FROM t WHERE x = 5")
        assert same(con.execute("FROM v").fetchall(), before)
        oracle.execute(rows)
        with pytest.raises(duckdb.OutOfRangeException) as wanted:
            oracle.execute(query).fetchall()
        assert str(wanted.value).removeprefix("Out of Range Error: ") in str(found.value)
        con.execute("DROP MATERIALIZED VIEW v")
        con.execute(rows)
        with pytest.raises(tidewheel.DataError, match="out of range"):
            con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
