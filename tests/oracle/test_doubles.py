"""Sums of doubles by single rows, against the same views filled anew, and against exact sums."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

import tidewheel
from tidewheel.engine.operators import accumulate_rows

SCHEMA = """
CREATE TABLE t (id INTEGER, g INTEGER, h VARCHAR, i BIGINT, d DOUBLE, e DOUBLE, f FLOAT);
CREATE TABLE u (g INTEGER, w DOUBLE);
INSERT INTO u VALUES (0, 0.1), (1, -2.5), (1, 1e10);
"""
VIEWS = {
    "groups": "SELECT g, sum(d) AS s, avg(d) AS a, count(d) AS c, count(*) AS n FROM t GROUP BY g",
    "whole": "SELECT sum(d) AS s, avg(d) AS a, count(*) AS n FROM t",
    "spread": "SELECT g, var_pop(d), stddev_samp(d), sum(i), var_samp(d) FROM t GROUP BY g",
    "both": "SELECT covar_pop(d, e), var_samp(e) FROM t",
    "by_group": "SELECT g, h, covar_samp(d, e), sum(e), sum(d + e) FROM t GROUP BY g, h",
    "skewed": "SELECT g, skewness(id % 9 + 0.5e0), sum(e) FROM t GROUP BY g",
    "floats": "SELECT h, sum(f) AS s, avg(f) AS a FROM t GROUP BY h",
    "some": "SELECT g FROM t GROUP BY g HAVING sum(d) > 1",
    "joined": "SELECT t.g, sum(t.d * u.w) AS s FROM t JOIN u ON t.g = u.g GROUP BY t.g",
}
DOUBLES = ["0.1", "0.2", "1e16", "-1e16", "3.3e-9", "-0.0", "0.0", "NULL", "1e300", "-1e300"]
DOUBLES += ["5e-324", "1.5", "2.5", "1e-310"]
MORE = [pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20)]
NONE = ["'nan'", "'inf'", "'-inf'"]


def answer(con: tidewheel.Connection, sql: str) -> list[str]:
    return sorted(map(repr, con.execute(sql).fetchall()))


@pytest.mark.parametrize(("known", "waiting"), [(4096, 64), (5, 3)])
@pytest.mark.parametrize("seed", [0, 1, *MORE])
def test_few_rows_add_up_as_many_do(
    monkeypatch: pytest.MonkeyPatch, seed: int, known: int, waiting: int
) -> None:
    monkeypatch.setattr(accumulate_rows, "KNOWN", known)
    monkeypatch.setattr(accumulate_rows, "WAITING", waiting)
    rng, number = random.Random(seed), iter(range(1 << 30))
    values = DOUBLES + NONE * (seed % 2)

    def some(count: int) -> str:
        rows = (
            f"({next(number)}, {rng.choice(['0', '1', '2', 'NULL'])}, "
            f"{rng.choice(['NULL', repr('a')])}, {rng.randint(-(2**60), 2**60)}, "
            f"{rng.choice(values)}, {rng.choice(values)}, {rng.choice(['0.1', '-3.25', '1e30'])})"
            for _ in range(count)
        )
        return f"INSERT INTO t VALUES {', '.join(rows)}"

    def edit() -> str:
        return rng.choice(
            [
                *(some(rng.choice([1, 1, 3])) for _ in range(5)),
                f"DELETE FROM t WHERE id % 17 = {rng.randrange(17)}",
                f"DELETE FROM t WHERE id % 17 = {rng.randrange(17)}",
                f"UPDATE t SET d = {rng.choice(values)} WHERE id % 23 = {rng.randrange(23)}",
                f"DELETE FROM t WHERE g = {rng.randrange(3)}",
                f"INSERT INTO u VALUES ({rng.randrange(3)}, {rng.choice(['0.3', '-7'])})",
                some(40),
                "DELETE FROM t",
            ]
        )

    with tidewheel.connect(threads=1 + seed % 2) as con, tidewheel.connect() as anew:
        for at in (con, anew):
            at.execute(SCHEMA)
        filled = some(rng.choice([1, 30, 2000]))
        for at in (con, anew):
            at.execute(filled)
        for name, query in VIEWS.items():
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
            con.execute(f"FROM v_{name}").fetchall()
        for step in range(28):
            statement = edit()
            for at in (con, anew):
                at.execute(statement)
            if step % 4 == 3:
                for name, query in VIEWS.items():
                    anew.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v_{name} AS {query}")
                    assert answer(con, f"FROM v_{name}") == answer(anew, f"FROM v_{name}"), (
                        statement
                    )
        if not seed % 2:
            lists = anew.execute(
                "SELECT g, list(d) FROM t WHERE d IS NOT NULL GROUP BY g"
            ).fetchall()
            exact = {g: sum(map(Fraction, found)) for g, found in lists}
            sums = dict(con.execute("SELECT g, s FROM v_groups WHERE c > 0").fetchall())
            assert sums == {g: float(total) for g, total in exact.items()}
