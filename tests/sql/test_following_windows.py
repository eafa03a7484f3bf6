"""Window functions that look back: a change reaches the rows behind it, or a few, not all."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tidewheel
from tidewheel.engine.operators import following
from tidewheel.engine.operators.following import Following
from tidewheel.engine.state import hashing
from tidewheel.engine.state.delta import Delta, Int64s

ORDERED = "(PARTITION BY s ORDER BY day, n, id)"
VIEWS = {
    "totals": f"SELECT id, s, sum(n) OVER {ORDERED} AS a, row_number() OVER {ORDERED} AS b, "
    f"min(n) OVER {ORDERED} AS c, bool_and(n > 1) OVER {ORDERED} AS d, "
    f"count(n) FILTER (n > 2) OVER {ORDERED} AS e FROM t",
    "peers": "SELECT id, rank() OVER w AS a, dense_rank() OVER w AS b, sum(m) OVER w AS c, "
    "last_value(day) OVER w AS d, max(s) OVER w AS e FROM t WINDOW w AS (ORDER BY day DESC)",
    "first": f"SELECT id, first_value(n) OVER {ORDERED} AS a, count(*) OVER (PARTITION BY s "
    "ORDER BY day, n, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS b FROM t",
    "near": f"SELECT id, lag(n, 3, -1) OVER {ORDERED} AS a, lead(id) OVER {ORDERED} AS b, "
    "avg(n) OVER (PARTITION BY s ORDER BY day, n, id ROWS BETWEEN 30 PRECEDING AND 2 FOLLOWING) "
    "AS c, first_value(n) OVER (PARTITION BY s ORDER BY day, n, id ROWS 5 PRECEDING) AS d, "
    "max(m, 2) OVER (PARTITION BY s ORDER BY day, n, id ROWS 5 PRECEDING) AS e FROM t",
    "spans": "SELECT id, count(*) OVER (w RANGE BETWEEN 9 PRECEDING AND CURRENT ROW) AS a, "
    "max(m) OVER (w RANGE BETWEEN 3 PRECEDING AND 12 FOLLOWING) AS b, sum(n) OVER w AS c, "
    "avg(n) OVER (w RANGE BETWEEN 30 PRECEDING AND 20 PRECEDING) AS d, "
    "lag(id) OVER w AS e FROM (SELECT *, day * 3 + id % 3 AS d FROM t) "
    "WINDOW w AS (PARTITION BY s ORDER BY d)",
    "days": "SELECT id, count(*) OVER (w RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND INTERVAL 36 "
    "HOUR FOLLOWING) AS a, sum(m) OVER (w RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS b FROM "
    "(SELECT *, DATE '2024-01-01' + day AS d FROM t) "
    "WINDOW w AS (PARTITION BY s ORDER BY d DESC NULLS FIRST)",
    "moments": "SELECT id, min(n) OVER (ORDER BY d RANGE BETWEEN INTERVAL 100 MINUTE PRECEDING "
    "AND INTERVAL 1 HOUR FOLLOWING) AS a FROM "
    "(SELECT *, TIMESTAMPTZ '2024-03-30 22:00:00+00' + to_minutes(day * 7) AS d FROM t)",
    "amounts": "SELECT id, sum(n) OVER (ORDER BY m RANGE BETWEEN 4.251 PRECEDING AND 1 PRECEDING) "
    "AS a FROM t",
    "mixed": "SELECT id, sum(m) OVER (ORDER BY s NULLS FIRST, day, id) AS a, "
    "lag(m) OVER (ORDER BY s NULLS FIRST, day, id) AS b FROM t",
}


@pytest.fixture(autouse=True)
def _small_groups_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "SMALL", 0)
    monkeypatch.setattr(following, "APART", 2)


def row(rng: random.Random, number: int, at: int) -> str:
    name = rng.choice(["NULL", "'left'", "'right'", "'right hand'", "'right handed'"])
    amount = rng.choice(["NULL", "1.25", "-7", "3"])
    when = "NULL" if rng.random() < 0.02 else str(at)
    return f"({number}, {when}, {rng.choice(['NULL', 1, 2, 3])}, {amount}, {name})"


def edit(rng: random.Random, number: int, last: int) -> str:
    kind = rng.random()
    if kind < 0.35:
        return f"INSERT INTO t VALUES {row(rng, number, last + number)}"
    if kind < 0.6:
        return f"INSERT INTO t VALUES {row(rng, number, rng.randrange(last))}"
    some = f"id % 97 = {rng.randrange(97)}" if rng.random() < 0.2 else f"id = {rng.randrange(last)}"
    if kind < 0.8:
        return f"DELETE FROM t WHERE {some}"
    return f"UPDATE t SET n = n + 1, day = day + {rng.choice([0, 0, 40, -3])} WHERE {some}"


def opened(rng: random.Random, rows: int) -> tidewheel.Connection:
    con = tidewheel.connect()
    con.execute("CREATE TABLE t (id INT, day INT, n INT, m DECIMAL(9, 2), s VARCHAR)")
    values = [row(rng, i, rng.randrange(rows)) for i in range(rows)]
    con.execute("INSERT INTO t VALUES " + ", ".join(values or ["(0, 0, 0, 0, '')"]))
    for name, query in VIEWS.items():
        con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        con.execute(f"FROM {name} LIMIT 1")
    return con


def changed(con: tidewheel.Connection, rng: random.Random, rows: int, epochs: int) -> None:
    number = rows
    for epoch in range(epochs):
        many = rng.choice([1, 1, 1, 6])
        con.execute("BEGIN")
        for _ in range(many):
            con.execute(edit(rng, number, max(rows, 10)))
            number += 1
        con.execute("COMMIT")
        if epoch % 5 == 4:
            for name in VIEWS:
                assert con.execute(f"VERIFY VIEW {name}").fetchall() == [], (name, epoch)


@pytest.mark.parametrize("rows", [0, 40, 2000])
def test_views_stay_right(rows: int) -> None:
    rng = random.Random(rows)
    with opened(rng, rows) as con:
        changed(con, rng, rows, 40)


def test_a_change_costs_the_rows_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    rng = random.Random(3)
    with opened(rng, 3000) as con:
        kinds = "SELECT view_name, count(*) FROM tidewheel_vertices() WHERE kind = 'following'"
        found = con.execute(f"{kinds} GROUP BY ALL").fetchall()
        assert sorted(found) == sorted((name, 1) for name in VIEWS)
        values = Following._values

        def counted(op: Following, of: Int64s, pieces: list) -> Delta:  # type: ignore[type-arg]
            if op.input.key.indices:  # of the others the change is at the start, or among equals
                seen.append(sum(len(p.rows) for p in pieces))
            return values(op, of, pieces)

        def never(op: Following, keys: Int64s, rows: Delta) -> Delta:
            raise AssertionError("all rows of a group")

        monkeypatch.setattr(Following, "_values", counted)
        monkeypatch.setattr(Following, "evaluate", never)
        con.execute(
            "INSERT INTO t VALUES (9000, 5000, 2, 1.5, 'right'), (9001, 5001, 1, 2, 'left')"
        )
        con.execute("DELETE FROM t WHERE id = 9001")
        con.execute("UPDATE t SET m = 4 WHERE id = 9000")
        assert len(seen) == 5 * 3 - 2  # two do not read m
        assert sum(seen) < 500
        monkeypatch.undo()
        for name in VIEWS:
            assert con.execute(f"VERIFY VIEW {name}").fetchall() == [], name


@pytest.mark.parametrize("many", [1, 1 << 60])
def test_rows_between_those_that_change_keep_their_values(
    monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    seen: list[int] = []
    values = Following._values

    def counted(op: Following, of: Int64s, pieces: list) -> Delta:  # type: ignore[type-arg]
        seen.append(sum(len(p.rows) for p in pieces))
        return values(op, of, pieces)

    monkeypatch.setattr(Following, "_values", counted)
    monkeypatch.setattr(following, "APART", 100)
    monkeypatch.setattr(following, "MANY", many)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i AS id, i % 7 AS n FROM range(4000) q(i)")
        for name, frame in (("rows", "ROWS"), ("span", "RANGE")):
            con.execute(
                f"CREATE MATERIALIZED VIEW {name} AS SELECT id, n, avg(n) OVER "
                f"(ORDER BY id {frame} BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a FROM t"
            )
        for change in (
            "DELETE FROM t WHERE id IN (5, 2000, 3990)",
            "UPDATE t SET id = id + 2500 WHERE id BETWEEN 700 AND 702",
            "UPDATE t SET n = 9 WHERE id % 1000 < 2",
            "INSERT INTO t SELECT i * 50, 3 FROM range(6) q(i)",
        ):
            con.execute(change)
            for name in ("rows", "span"):
                assert con.execute(f"VERIFY VIEW {name}").fetchall() == [], (name, change)
    assert len(seen) >= 8
    assert max(seen[2:]) < 500


def test_groups_whose_hashes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    good = hashing.combine
    monkeypatch.setattr(hashing, "combine", lambda h, c: good(h, c) & np.uint64(1))
    rng = random.Random(5)
    with opened(rng, 300) as con:
        changed(con, rng, 300, 30)


@pytest.mark.parametrize(
    "call",
    [
        "avg(id::HUGEINT) OVER (ORDER BY id)",
        "median(x) OVER (ORDER BY id)",
        "ntile(3) OVER (ORDER BY id)",
        "max(id, 2) OVER (ORDER BY id)",
        "min(x, 2) FILTER (id > 1) OVER (ORDER BY id)",
        "min(id, 2) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        "first_value(id) OVER (ORDER BY id RANGE BETWEEN 3 PRECEDING AND CURRENT ROW)",
        "sum(id) OVER (ORDER BY x RANGE BETWEEN 3 PRECEDING AND CURRENT ROW)",
        "sum(id) OVER (ORDER BY id RANGE BETWEEN abs(3) PRECEDING AND CURRENT ROW)",
        "sum(id) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING)",
        "sum(id) OVER (ORDER BY id ROWS 2 PRECEDING EXCLUDE TIES)",
        "sum(x) OVER (ORDER BY id ROWS 2 PRECEDING EXCLUDE CURRENT ROW)",
        "lag(id IGNORE NULLS) OVER (ORDER BY id)",
        "count(DISTINCT id) OVER (ORDER BY id)",
        "percent_rank() OVER (ORDER BY id)",
        "row_number() OVER (ORDER BY id) + ntile(3) OVER (ORDER BY x)",
    ],
)
def test_others_see_their_whole_group(call: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (id INT, x DOUBLE); INSERT INTO t VALUES (1, 0.1), (3, 2)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT id, {call} AS r FROM t")
        con.execute("INSERT INTO t VALUES (2, 1e16), (4, -1e16)")
        con.execute("DELETE FROM t WHERE id = 3")
        kinds = {k for (k,) in con.execute("SELECT kind FROM tidewheel_vertices()").fetchall()}
        assert "regroup" in kinds
        assert "following" not in kinds
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize("first", [
    "INSERT INTO p VALUES (7, 1)",  # there is such a row: the table refuses it
    "INSERT INTO p VALUES (5000, 1)",
    "DELETE FROM p WHERE id < 900",
    "BEGIN; DELETE FROM p WHERE id = 3; INSERT INTO p VALUES (3, 2), (6000, NULL); COMMIT",
    "BEGIN; DELETE FROM p; ROLLBACK",
])  # fmt: skip
def test_the_first_change_of_one_group(first: str) -> None:
    """Its rows are read then, with the change or without it."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE p (id INT PRIMARY KEY, x INT)")
        con.execute("INSERT INTO p SELECT i, i * 7 % 100 FROM range(2000) AS r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT id, x - lag(x) OVER (ORDER BY id) AS d, "
                    "sum(x) OVER (ORDER BY id) AS s FROM p")  # fmt: skip
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT id, count(*) OVER (ORDER BY x "
                    "RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS d FROM p")  # fmt: skip
        for change in (first, "INSERT INTO p VALUES (7000, 8)", "DELETE FROM p WHERE id = 1500"):
            try:
                con.execute(change)
            except tidewheel.IntegrityError:
                assert change == "INSERT INTO p VALUES (7, 1)"
            for name in ("v", "w"):
                assert con.execute(f"VERIFY VIEW {name}").fetchall() == []


def test_a_change_of_many_groups_costs_the_rows_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of few groups: also where several rows of each change, far from each other."""
    monkeypatch.setattr(following, "SMALL", 1000)
    monkeypatch.setattr(following, "APART", 200)
    seen = []
    values = Following._values

    def counted(op: Following, of: Int64s, pieces: list) -> Delta:  # type: ignore[type-arg]
        seen.append((len(pieces), sum(len(p.rows) for p in pieces)))
        return values(op, of, pieces)

    monkeypatch.setattr(Following, "_values", counted)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i AS id, i % 40 AS s, i AS n FROM range(60000) r(i)")
        near = "n - lag(n) OVER w AS a, max(n) OVER (w ROWS 5 PRECEDING) AS b"
        for name, values_of in {"v": near, "totals": "sum(n) OVER w AS a"}.items():
            con.execute(
                f"CREATE MATERIALIZED VIEW {name} AS SELECT id, {values_of} FROM t "
                "WINDOW w AS (PARTITION BY s ORDER BY id)"
            )
        con.execute("DELETE FROM t WHERE id = 7")  # (the first one reads the tables)
        seen.clear()
        con.execute("UPDATE t SET n = n + 100000 WHERE id BETWEEN 40000 AND 40039")
        con.execute("UPDATE t SET n = -n WHERE id // 40 IN (11, 500, 1000, 1400) AND s % 2 = 0")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        assert con.execute("VERIFY VIEW totals").fetchall() == []
    assert sorted(pieces for pieces, _ in seen) == [20, 40, 40, 80], seen
    assert sum(rows for _, rows in seen if rows < 2000) < 2500, seen
