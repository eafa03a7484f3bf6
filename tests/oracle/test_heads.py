"""First rows of groups that are not kept whole, under random edits, against DuckDB."""

# ruff: noqa: E501
from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel
from oracle.shape_checks import rows
from tidewheel.engine.operators import shared
from tidewheel.engine.operators.following import Following
from tidewheel.engine.operators.topk import Ordered
from tidewheel.engine.state import heads as state
from tidewheel.planner import view_answers, view_fill, view_heads

SCHEMA = """
CREATE TABLE t (id INTEGER, g INTEGER, s VARCHAR, x INTEGER, d DOUBLE, b BIGINT, u UBIGINT,
    m DECIMAL(18, 2), e DATE);
CREATE TABLE dim (g INTEGER, name VARCHAR);
INSERT INTO dim VALUES (0, 'a'), (1, 'b'), (2, 'a'), (NULL, 'none');
"""
SHAPES = {
    "min_max": "SELECT g, min(x) AS l, max(x) AS h, min(d) AS ld, max(d) AS hd FROM t GROUP BY g",
    "ends": "SELECT s, min(b) AS l, max(b) AS h, max(m) AS hm, min(e) AS le FROM t GROUP BY s",
    "texts": "SELECT g, min(s || (id * 7) % 50) AS l, max(s || 'ö' || id) AS h FROM t GROUP BY g",
    "tied": "SELECT g, min(s || x) AS l, max(s || x || 'x') AS h FROM t GROUP BY g",
    "text_of_all": "SELECT max(s || id || ' and more') AS h, min('the same beginning' || x) AS l FROM t",
    "top_text": "SELECT id, s || id AS k FROM t ORDER BY s || id DESC NULLS LAST, id, g, x, d, b, u, m, e LIMIT 2",
    "first_text": "SELECT g, id, s || x AS k FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY s || x NULLS FIRST, id, d, b, u, m, e) <= 2",
    "unsigned": "SELECT g, min(u) AS l, max(u) AS h FROM t GROUP BY g",
    "of_all": "SELECT min(x) AS l, max(d) AS h, count(*) AS n FROM t",
    "two_keys": "SELECT g, s, max(x + 1) AS h FROM t WHERE x <> 3 GROUP BY g, s",
    "filtered": "SELECT g, min(x) FILTER (WHERE s = 'a') AS l, max(DISTINCT x) AS h FROM t GROUP BY g",
    "joined": "SELECT name, max(d) AS h, min(x) AS l FROM t JOIN dim USING (g) GROUP BY name",
    "ranged": "SELECT name, max(x) AS h FROM t JOIN dim ON t.g < dim.g GROUP BY name",
    "semi": "SELECT s, min(x) AS l FROM t WHERE g IN (SELECT g FROM dim) GROUP BY s",
    "chosen": "SELECT g, arg_min(id, x * 1000 + id) AS a, count(*) AS n, arg_max(s, (id * 7) % 100003) FILTER (WHERE x > 3) AS b FROM t GROUP BY g",
    "chosen_of_all": "SELECT arg_max(e, id) AS a, arg_min(d, id) AS b, max(x) AS h FROM t",
    "top": "SELECT * FROM t ORDER BY x DESC NULLS LAST, id, g, s, d, b, u, m, e LIMIT 3",
    "nulls_first": "SELECT id, x FROM t ORDER BY x NULLS FIRST, id, g, s, d, b, u, m, e LIMIT 2 OFFSET 1",
    "top_double": "SELECT id, d FROM t ORDER BY d DESC NULLS FIRST, id, g, s, x, b, u, m, e LIMIT 2",
    "top_long": "SELECT id, b FROM t ORDER BY b DESC, id, g, s, x, d, u, m, e LIMIT 2",
    "top_joined": "SELECT id, name FROM t JOIN dim USING (g) ORDER BY e, id, name, x LIMIT 3",
    "first_of_group": "SELECT g, id, x FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x, id, s, d, b, u, m, e) <= 2",
    "latest": "SELECT DISTINCT ON (s) s, id, e FROM t ORDER BY s, e DESC NULLS LAST, id, g, x, d, b, u, m",
    "ranked": "SELECT g, s, id, r FROM (SELECT *, rank() OVER (PARTITION BY g, s ORDER BY d DESC NULLS FIRST) AS r FROM t WHERE b IS NOT NULL) WHERE r < 3 AND id > 5",
    "ranked_join": "SELECT name, id, x, m, rank() OVER (PARTITION BY name ORDER BY m DESC) AS r FROM t JOIN dim USING (g) QUALIFY r BETWEEN 1 AND 2",
    "second": "SELECT id FROM (SELECT id, rank() OVER (ORDER BY b DESC NULLS LAST, id) AS r FROM t) WHERE 2 = r",
    "dense": "SELECT g, s, id, d, r FROM (SELECT *, dense_rank() OVER (PARTITION BY g, s ORDER BY d DESC NULLS FIRST) AS r FROM t WHERE b IS NOT NULL) WHERE r < 3",
    "dense_second": "SELECT id, x, dense_rank() OVER (PARTITION BY id % 3, g ORDER BY x NULLS LAST, e DESC) AS r FROM t QUALIFY r = 2",
    "dense_of_all": "SELECT name, id, r FROM (SELECT name, id, m, dense_rank() OVER (ORDER BY m * 2 DESC NULLS LAST) AS r FROM t LEFT JOIN dim USING (g)) WHERE r BETWEEN 1 AND 2 AND name <> 'c'",
    "of_view": "SELECT max(h) AS h FROM v_two_keys",
    "none": "SELECT id FROM t ORDER BY x LIMIT 0",
}  # fmt: skip
HEADS = {
    "min_max": 4,
    "ends": 4,
    "of_all": 2,
    "joined": 2,
    "ranged": 1,
    "top": 1,
    "top_joined": 1,
    "first_of_group": 1,
    "latest": 1,
}
HEADS |= {"texts": 2, "text_of_all": 1, "top_text": 1}
HEADS |= {"chosen": 2, "ranked": 1, "ranked_join": 1, "second": 1}
LATER = ["min_max", "top", "texts", "of_all", "top_joined", "chosen"]
"""What has no heads, or rows, until a change asks for them."""
LONGS = ["9223372036854775807", "-9223372036854775808", "0", "1", "NULL"]
DOUBLES = ["'nan'", "'inf'", "'-inf'", "0.0", "-0.0", "1.5", "-2", "NULL"]


def made(rng: random.Random, i: int) -> str:
    """One row of `t`."""
    x = rng.choice(["NULL", *map(str, range(12))])
    values = [
        str(i),
        rng.choice(["NULL", "0", "1", "2"]),
        rng.choice(["NULL", "'a'", "'bb'"]),
        x,
        rng.choice(DOUBLES),
        rng.choice(LONGS),
        rng.choice(["18446744073709551615", "18446744073709551614", "0", "1", "NULL"]),
        "NULL" if x == "NULL" else f"{x}.25",
        rng.choice(["NULL", *(f"DATE '2024-01-0{n}'" for n in range(1, 9))]),
    ]
    return f"({', '.join(values)})"


def edit(rng: random.Random, i: int) -> str:
    """Mostly deletes, and mostly of what comes first."""
    inserted = ", ".join(made(rng, i + n) for n in range(rng.randint(1, 4)))
    end, of = rng.choice(["min", "max"]), rng.choice(["x", "d", "b", "u", "m", "e"])
    return rng.choice(
        [
            f"INSERT INTO t VALUES {inserted}",
            f"DELETE FROM t WHERE {of} = (SELECT {end}({of}) FROM t)",
            f"DELETE FROM t WHERE (g, {of}) IN (SELECT (g, {end}({of})) FROM t GROUP BY g)",
            f"DELETE FROM t WHERE id = (SELECT id FROM t ORDER BY {of}, id LIMIT 1)",
            f"DELETE FROM t WHERE id % 7 = {rng.randint(0, 6)} AND {of} IS NOT NULL",
            f"DELETE FROM t WHERE g = {rng.randint(0, 2)} AND id % 3 > 0",
            f"UPDATE t SET x = x + 1 WHERE x <= {rng.randint(0, 3)}",
            f"UPDATE t SET g = {rng.randint(0, 2)} WHERE id % 5 = {rng.randint(0, 4)}",
            "DELETE FROM dim WHERE name = 'a'",
            "INSERT INTO dim VALUES (1, 'c'), (2, 'a')",
        ]
    )


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of few rows, of small tables too."""
    monkeypatch.setattr(view_fill, "MANY", 0)
    monkeypatch.setattr(view_heads, "LEAST", 3)
    monkeypatch.setattr(view_heads, "PART", 0)
    monkeypatch.setattr(view_answers, "MANY", 1 << 60)


def heads(con: tidewheel.Connection, view: str) -> int:
    """How many `Ordered` of a view have heads alone?"""
    return sum(not op.whole for op in ordered(con, view))


def waiting(con: tidewheel.Connection, view: str) -> int:
    """How many `Ordered` of a view have no rows yet?"""
    return sum(op.input.waiting for op in ordered(con, view))


def ordered(con: tidewheel.Connection, view: str) -> list[Ordered]:
    plan = con._session.database.maintainer.views[f"memory.main.v_{view}"].plan
    assert plan is not None
    assert plan.circuit is not None
    ops = [n.op for n in plan.circuit.nodes if n is not None]
    return [op for op in ops if isinstance(op, Ordered)]


@pytest.mark.parametrize(
    ("seed", "most", "nulls", "later"),
    [
        (0, 20, True, False),
        (1, 50, False, False),
        (2, 1 << 16, True, True),
        (3, 20, True, True),
        (4, 1 << 16, False, False),
        *(pytest.param(s, m, n, not n, marks=pytest.mark.long)
          for s in range(5, 9) for m in (20, 50, 1 << 16) for n in (True, False)),
    ],
)  # fmt: skip
def test_heads_run_out(
    monkeypatch: pytest.MonkeyPatch, seed: int, most: int, nulls: bool, later: bool
) -> None:
    """Whatever goes and comes, what comes first is right, whether it is kept or has to be read."""
    monkeypatch.setattr(state, "WHOLE", most)
    if later:
        monkeypatch.setattr(view_answers, "MANY", 1)
    rng = random.Random(seed)
    filled = f"INSERT INTO t VALUES {', '.join(made(rng, i) for i in range(120))}"
    if not nulls:
        filled = filled.replace("NULL)", "'2024-01-01')").replace("NULL", "2")
    oracle = duckdb.connect()
    with tidewheel.connect() as con:
        for at in (con, oracle):
            for statement in SCHEMA.split(";"):
                at.execute(statement)
            at.execute(filled)
        for name, query in SHAPES.items():
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
            oracle.execute(f"CREATE VIEW v_{name} AS {query}")
        if later:
            assert all(waiting(con, name) for name in LATER)
        else:
            assert {name: heads(con, name) for name in HEADS} == HEADS
        for turn in range(25):
            edits = [edit(rng, 200 + 10 * (4 * turn + i)) for i in range(rng.choice([1, 1, 3]))]
            failed = rng.random() < 0.1
            con.execute("BEGIN")
            for statement in edits:
                con.execute(statement)
                if not failed:
                    oracle.execute(statement)
            con.execute("ROLLBACK" if failed else "COMMIT")
            for name in SHAPES:
                got = rows(con.execute(f"FROM v_{name}").fetchall())
                assert got == rows(oracle.execute(f"FROM v_{name}").fetchall()), (name, edits)
        if most > 50:
            assert all(heads(con, name) for name in ("min_max", "top", "of_all"))


@pytest.mark.parametrize("seed", range(4))
def test_what_only_comes_asks_for_nothing(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Rows behind the first ones may go, too; and then what is first goes."""
    monkeypatch.setattr(view_answers, "MANY", 1)
    rng = random.Random(seed)
    filled = f"INSERT INTO t VALUES {', '.join(made(rng, i) for i in range(60))}"
    oracle = duckdb.connect()
    shapes = {
        "ends": "SELECT g, min(x) AS a, max(x) AS b, max(b) AS c, min(d) AS e FROM t GROUP BY g",
        "texts": "SELECT g, max(s) AS s, min(s) AS t FROM t GROUP BY g",
        "all": "SELECT min(m) AS a, max(d) AS b FROM t",
        "top": "SELECT id, x FROM t ORDER BY x DESC NULLS LAST, id LIMIT 5",
    }
    with tidewheel.connect() as con:
        for at in (con, oracle):
            for statement in SCHEMA.split(";"):
                at.execute(statement)
            at.execute(filled)
        for name, query in shapes.items():
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
            oracle.execute(f"CREATE VIEW v_{name} AS {query}")

        def same() -> None:
            for name in shapes:
                got = rows(con.execute(f"FROM v_{name}").fetchall())
                assert got == rows(oracle.execute(f"FROM v_{name}").fetchall()), name

        for turn in range(20):
            come = ", ".join(made(rng, 100 + 4 * turn + n) for n in range(rng.randint(1, 4)))
            statement = f"INSERT INTO t VALUES {come}"
            if rng.random() < 0.2:
                con.execute("BEGIN")
                con.execute(statement)
                con.execute("ROLLBACK")
                continue
            for at in (con, oracle):
                at.execute(statement)
            same()
        assert all(op.input.waiting for name in shapes for op in ordered(con, name))
        for at in (con, oracle):
            at.execute("DELETE FROM t WHERE x = (SELECT max(x) FROM t)")
        same()
        assert not all(op.input.waiting for name in shapes for op in ordered(con, name))


def test_a_window_goes_on_to_wait_after_many_rows_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that came are among its rows by now: fewer of them do not make the others known."""
    monkeypatch.setattr(view_answers, "MANY", 1)
    monkeypatch.setattr(shared, "FEWER", 1)
    monkeypatch.setattr(shared, "ROW", 1)
    monkeypatch.setattr(shared, "TIMES", 9)
    query = "SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS r FROM t"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i AS id, i % 40 AS g FROM range(400) r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert len(con.execute("FROM v").fetchall()) == 400
        for rows_ in (9, 1, 2):
            con.execute(f"INSERT INTO t SELECT -i, i FROM range({rows_}) r(i)")
            assert con.execute("VERIFY VIEW v").fetchall() == []
        plan = con._session.database.maintainer.views["memory.main.v"].plan
        assert plan is not None
        assert plan.circuit is not None
        (op,) = [n.op for n in plan.circuit.nodes if n is not None and isinstance(n.op, Following)]
        assert op.input.waiting


@pytest.mark.parametrize("kind", ["INTEGER", "BOOLEAN", "HUGEINT", "UUID"])
def test_there_are_no_groups_yet(kind: str) -> None:
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE t (g INTEGER, x {kind})")
        con.execute("CREATE TABLE d AS SELECT i AS g FROM range(9) r(i)")
        query = "SELECT g, max(x) AS h, min(x) AS l FROM t LEFT JOIN d USING (g) GROUP BY g"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("FROM v").fetchall() == []
        con.execute("INSERT INTO t VALUES (1, NULL)")
        assert con.execute("FROM v").fetchall() == [(1, None, None)]


def test_many_groups_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where their rows lie in several runs, as they do after any change."""
    alone: list[int] = []
    known = Ordered._end
    monkeypatch.setattr(Ordered, "_end", lambda op, key: alone.append(key) or known(op, key))
    query = "SELECT g, min(x) AS l, max(s) AS h FROM t GROUP BY g"
    with tidewheel.connect() as con:
        made = "SELECT i AS id, i % 200 AS g, i * 7 % 90 AS x, 's' || i AS s FROM range(900) r(i)"
        con.execute(f"CREATE TABLE t AS {made}")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("FROM v")
        for change in (
            "INSERT INTO t VALUES (900, 7, -1, 'z')",
            "DELETE FROM t WHERE id % 3 = 1",
            "UPDATE t SET g = g + 40 WHERE x < 20",
            "DELETE FROM t WHERE g < 190",
        ):
            alone.clear()
            con.execute(change)
            assert rows(con.execute("FROM v").fetchall()) == rows(con.execute(query).fetchall())
            assert len(alone) < 10, change
