# ruff: noqa: E501
"""Views of recursions over dates, under random edits, against DuckDB's own run of the query."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest

import tidewheel

ANCHOR = "WITH RECURSIVE c(k, d, u) AS (SELECT k, a, b FROM g UNION ALL "
VIEWS = {
    "days": f"{ANCHOR} SELECT k, (d + INTERVAL 1 DAY)::DATE, u FROM c WHERE d < u) SELECT k, d FROM c",
    "implicit": f"{ANCHOR} SELECT k, d + INTERVAL 9 DAYS, u FROM c WHERE d < u) FROM c",
    "integers": f"{ANCHOR} SELECT k, d + 1, u FROM c WHERE d + 1 <= u) SELECT d, count(*) FROM c GROUP BY d",
    "backwards": f"{ANCHOR} SELECT k, d - k, u FROM c WHERE k > 0 AND d - u > -40) FROM c",
    "months": f"{ANCHOR} SELECT k, (d + INTERVAL 1 MONTH)::DATE, u FROM c WHERE d + INTERVAL 1 MONTH < u) FROM c",
    "two_steps": f"{ANCHOR} (SELECT k, (d + INTERVAL 7 DAY)::DATE, u FROM c WHERE d < u UNION ALL "
    "SELECT k, (date_add(d, INTERVAL 14 DAY))::DATE, u FROM c WHERE d < u)) SELECT k, d FROM c",
    "constant": "WITH RECURSIVE c(m) AS (SELECT DATE '2020-01-31' UNION ALL SELECT (m + INTERVAL 1 MONTH)::DATE "
    "FROM c WHERE m < DATE '2022-06-01') SELECT m, count(k) FROM c LEFT JOIN g ON a < m AND b >= m GROUP BY m",
    "set": "WITH RECURSIVE c(d) AS (SELECT a FROM g UNION SELECT d + 1 FROM c WHERE d < DATE '2020-05-01') FROM c",
    "counted": "WITH RECURSIVE c(k, t, n) AS (SELECT k, a::TIMESTAMP, 0 FROM g UNION ALL "
    "SELECT k, t + INTERVAL '90 minutes', n + 1 FROM c WHERE n < k AND t IS NOT NULL) FROM c",
    "joined": "WITH RECURSIVE c(k, d) AS (SELECT k, a FROM g UNION ALL "
    "SELECT c.k, (d + INTERVAL 1 DAY)::DATE FROM c JOIN (SELECT k, max(b) AS u FROM g GROUP BY k) h ON h.k = c.k WHERE d < u AND u < DATE '2021-01-01') FROM c",
    "of_each_day": "WITH RECURSIVE c(d, n) AS (SELECT b, 1 FROM g WHERE k = 1 UNION "
    "SELECT g.b, c.n + 1 FROM c JOIN g ON g.a = c.d + 1 WHERE n < 5) FROM c",
}  # fmt: skip
STARTS = ["2020-01-31", "2020-02-28", "2020-03-15"]
FAR = [*STARTS, "1969-12-30", "0001-01-01", "0005-12-31 (BC)"]


def dates(rng: random.Random, starts: list[str]) -> tuple[str, str]:
    """A day and one that is not much later."""
    day, later = f"DATE '{rng.choice(starts)}' + {rng.randrange(9)}", rng.randrange(-3, 60)
    return rng.choice([(day, f"{day} + {later}")] * 9 + [("NULL", day), (day, "NULL")])


def edits(rng: random.Random, starts: list[str]) -> list[str]:
    where = rng.choice(["k = 1", "k > 1", "a < DATE '2020-02-15'", "a IS NULL", "b > a + 30"])
    a, b = dates(rng, starts)
    rows = ", ".join("({}, {}, {})".format(rng.randrange(4), *dates(rng, starts)) for _ in range(3))
    return [
        f"INSERT INTO g VALUES (2, {a}, {b})",
        f"INSERT INTO g VALUES {rows}",
        f"UPDATE g SET b = b + {rng.randrange(-5, 6)} WHERE {where}",
        f"UPDATE g SET a = {a}, b = {b} WHERE {where}",
        f"DELETE FROM g WHERE {where}",
    ]


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("seed", range(3))
def test_random_edits(name: str, seed: int) -> None:
    rng, query = random.Random(f"{name} {seed}"), VIEWS[name]
    with tidewheel.connect() as con, duckdb.connect() as peer:
        for c in (con, peer):
            c.execute("CREATE TABLE g (k INTEGER, a DATE, b DATE)")
            c.execute("INSERT INTO g VALUES (1, '2020-01-30', '2020-03-01')")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert "recompute" not in str(con.execute("EXPLAIN VIEW v").fetchall())
        for _ in range(12):
            edit = rng.choice(edits(rng, STARTS if name in ("set", "joined") else FAR))
            for c in (con, peer):
                c.execute(edit)
            found = con.execute("SELECT * FROM v").fetchall()
            assert Counter(found) == Counter(peer.execute(query).fetchall()), edit
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize(
    ("start", "step", "until"),
    [
        ("9999-12-25", "d + 1", "10000-01-05"),
        ("9999-11-30", "(d + INTERVAL 1 MONTH)::DATE", "10002-01-05"),
        ("0003-01-05 (BC)", "(d + INTERVAL 1 DAY)::DATE", "0001-01-05"),
        ("5881580-07-05", "d + 1", "infinity"),
        ("290000-01-01", "d + INTERVAL 1000 YEARS", "infinity"),
    ],
)
def test_what_numpy_does_not_know_is_duckdbs(start: str, step: str, until: str) -> None:
    query = (
        f"WITH RECURSIVE c(d) AS (SELECT d FROM g UNION ALL "
        f"SELECT {step} FROM c WHERE d < DATE '{until}') SELECT d::VARCHAR FROM c"
    )
    with tidewheel.connect() as con, duckdb.connect() as peer:
        for c in (con, peer):
            c.execute("CREATE TABLE g (d DATE)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        errors = []
        for c in (con, peer):
            try:
                c.execute(f"INSERT INTO g VALUES ('{start}')")
                c.execute(query if c is peer else "SELECT * FROM v").fetchall()
                errors.append("")
            except (tidewheel.Error, duckdb.Error) as error:
                errors.append(str(error))
        assert bool(errors[0]) == bool(errors[1]), errors
        if not errors[0]:
            found = con.execute("SELECT * FROM v").fetchall()
            assert Counter(found) == Counter(peer.execute(query).fetchall())
        else:
            assert "out of" in errors[0].lower() or "range" in errors[0].lower()


@pytest.mark.parametrize(
    "value",
    [
        *("union_value(a := 1)", "['infinity'::DATE]", "[TIMESTAMP '-infinity']", "MAP {'a': 1}"),
        *("'infinity'::DATE", "1.5::DECIMAL(38, 10)", "'nan'::DOUBLE", "'10101'::BIT", "NULL"),
    ],
)
def test_any_value_goes_round(value: str) -> None:
    query = (
        "WITH RECURSIVE c(n, x, d) AS (SELECT n, x, d FROM g UNION ALL "
        "SELECT n + 1, x, d + 1 FROM c WHERE n < 3) SELECT n, d, x::VARCHAR, typeof(x) FROM c"
    )
    with tidewheel.connect() as con, duckdb.connect() as peer:
        for c in (con, peer):
            c.execute(f"CREATE TABLE g AS SELECT 1 AS n, {value} AS x, DATE '2020-01-01' AS d")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for c in (con, peer):
            c.execute(f"INSERT INTO g VALUES (2, {value}, NULL)")
            c.execute("INSERT INTO g VALUES (1, NULL, '2020-01-02')")
        found = con.execute("SELECT * FROM v").fetchall()
        assert Counter(found) == Counter(peer.execute(query).fetchall())
