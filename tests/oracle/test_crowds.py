"""First rows where many rows share the place of the first column, under random edits."""

# ruff: noqa: E501
from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel
from oracle.shape_checks import rows
from tidewheel.engine.operators import topk
from tidewheel.engine.operators.topk import Ordered
from tidewheel.planner import view_answers, view_fill, view_heads

SCHEMA = "CREATE TABLE t (id INTEGER, g INTEGER, status VARCHAR, made TIMESTAMP, url VARCHAR, n HUGEINT, x DOUBLE, u UUID, i INTERVAL)"
SHAPES = {
    "newest": "SELECT id, status, made FROM t ORDER BY status, made DESC, id LIMIT 3",
    "urls": "SELECT * FROM t ORDER BY url, id LIMIT 4",
    "urls_back": "SELECT url, g FROM t ORDER BY url DESC NULLS FIRST, id LIMIT 3 OFFSET 1",
    "numbers": "SELECT g, n, id FROM t ORDER BY g NULLS FIRST, n DESC, x, id LIMIT 2",
    "sums": "SELECT url, sum(g) AS s FROM t GROUP BY url ORDER BY s DESC NULLS LAST, url LIMIT 2",
    "of_join": "SELECT a.id, b.url FROM t a JOIN t b ON a.g = b.id ORDER BY b.status DESC, b.url, a.id, b.id LIMIT 3",
    "each": "SELECT id, g, status FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY g % 2, id % 2, url, id) AS r FROM t) WHERE r <= 2",
    "ranks": "SELECT id, g, r FROM (SELECT id, g, rank() OVER (PARTITION BY status ORDER BY g DESC, made) AS r FROM t) WHERE r <= 2",
    "most": "SELECT g, max(url) AS u, min(n) AS n, min(status) AS s FROM t GROUP BY g",
    "others": "SELECT id, u, i FROM t ORDER BY i, u DESC, id LIMIT 3",
    "again": "SELECT id, x FROM t ORDER BY x, x DESC, status, x, id LIMIT 3",
}  # fmt: skip


def made(rng: random.Random, i: int, wide: bool) -> str:
    """A row; `wide`: of values that the first rows do not have."""
    value = [
        rng.choice(["NULL", *map(str, range(3 + 3 * wide))]),
        rng.choice(["NULL", "'open'", "'done'", "'delivered'", *(["'x'", "'a' || chr(0)"] * wide)]),
        f"TIMESTAMP '2024-01-01' + INTERVAL ({rng.randint(0, 9 + 9999 * wide)}) SECOND",
        rng.choice(
            [
                f"'https://example.org/{rng.randint(0, 99)}'",
                *([f"'http://{i}'", "''", "NULL"] * wide),
            ]
        ),
        rng.choice(["NULL", "5", *map(str, range(5)), *(["-170141183460469231731687303715884105727"] * wide)]),
        rng.choice(["NULL", "0.0", "-0.0", "'nan'", "1.5", *(["'inf'", "-1e300"] * wide)]),
        f"('00000000-0000-0000-0000-00000000000{rng.randint(0, 9)}')::UUID",
        rng.choice(["NULL", "INTERVAL 1 MONTH", "INTERVAL 30 DAYS", *(["INTERVAL 1000000 YEARS"] * wide)]),
    ]  # fmt: skip
    return f"({i}, {', '.join(value)})"


def edit(rng: random.Random, i: int) -> str:
    """Mostly of the first rows."""
    by = rng.choice(["status, made DESC", "url", "g NULLS FIRST, n DESC", "x", "i, u DESC"])
    return rng.choice(
        [
            f"INSERT INTO t VALUES {made(rng, i, True)}",
            f"INSERT INTO t VALUES {made(rng, i, False)}, {made(rng, i + 1, True)}",
            f"DELETE FROM t WHERE id = (SELECT id FROM t ORDER BY {by}, id LIMIT 1)",
            f"DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY {by}, id LIMIT 5)",
            f"DELETE FROM t WHERE id % 9 = {rng.randint(0, 8)}",
            f"UPDATE t SET made = made + INTERVAL 1 DAY WHERE id % 5 = {rng.randint(0, 4)}",
            f"UPDATE t SET status = 'delivered', g = g + 1 WHERE id % 7 = {rng.randint(0, 6)}",
        ]
    )


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(s, marks=pytest.mark.long) for s in range(2, 10))])  # fmt: skip
@pytest.mark.parametrize("begun", ["heads", "answers", "rows"])
def test_crowds(monkeypatch: pytest.MonkeyPatch, seed: int, begun: str) -> None:
    """Whether the first rows are kept, or all of them, or none at first: they have finer places."""
    monkeypatch.setattr(topk, "_CROWD", 2)
    monkeypatch.setattr(topk, "_PER_ROW", 1)
    monkeypatch.setattr(view_fill, "MANY", 1 << 60 if begun == "rows" else 0)
    monkeypatch.setattr(view_answers, "MANY", 1 if begun == "answers" else 1 << 60)
    monkeypatch.setattr(view_heads, "LEAST", 3)
    monkeypatch.setattr(view_heads, "PART", 0)
    rng = random.Random(seed)
    filled = f"INSERT INTO t VALUES {', '.join(made(rng, i, False) for i in range(80))}"
    oracle = duckdb.connect()
    with tidewheel.connect() as con:
        for at in (con, oracle):
            at.execute(SCHEMA)
            at.execute(filled)
        for name, query in SHAPES.items():
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
            oracle.execute(f"CREATE VIEW v_{name} AS {query}")
        for turn in range(20):
            edits = [edit(rng, 200 + 10 * (4 * turn + i)) for i in range(rng.choice([1, 1, 3]))]
            for at in (con, oracle):
                at.execute(f"BEGIN; {'; '.join(edits)}; COMMIT")
            for name in SHAPES:
                got = rows(con.execute(f"FROM v_{name}").fetchall())
                assert got == rows(oracle.execute(f"FROM v_{name}").fetchall()), (name, edits)
        finer = {name for name in SHAPES if any(op.ranking.finer for op in ordered(con, name))}
        assert {"newest", "urls", "numbers", "of_join", "others"} <= finer


def ordered(con: tidewheel.Connection, view: str) -> list[Ordered]:
    plan = con._session.database.maintainer.views[f"memory.main.v_{view}"].plan
    assert plan is not None
    assert plan.circuit is not None
    return [n.op for n in plan.circuit.nodes if n is not None and isinstance(n.op, Ordered)]


def test_a_change_looks_at_few_rows_of_many_alike() -> None:
    """However many begin alike, or have one status, and though times go on and on."""
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT i AS id, ['open', 'delivered'][i % 2 + 1] AS status, "
            "TIMESTAMP '2024-01-01' + INTERVAL (i) SECOND AS made, 'https://example.org/' || i AS "
            "url FROM range(20000) AS r(i)"
        )
        for name, by in (("u", "url"), ("s", "status, made DESC")):
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS FROM t ORDER BY {by} LIMIT 10")
        for i in range(20):
            con.execute("DELETE FROM t WHERE id = (SELECT id FROM v_s ORDER BY made LIMIT 1)")
            con.execute(
                f"INSERT INTO t SELECT {i} - j, 'delivered', (SELECT max(made) FROM t) + INTERVAL (j) HOUR, 'https://example.com/' || j FROM range(300) AS r(j)"
            )
        for name in "us":
            (op,) = ordered(con, name)
            assert op.ranking.finer is not None
            found = op._firsts(op.input.key.keys([], 1))
            assert len(found) < 2000
            assert not con.execute(f"VERIFY VIEW v_{name}").fetchall()
