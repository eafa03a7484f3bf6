"""Groups whose sums wait until a change asks for them, under random edits, against DuckDB."""

# ruff: noqa: E501
from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

import tidewheel
from oracle.shape_checks import rows
from oracle.transactions import failed
from oracle.waiting_groups import SCHEMA, SHAPES, edit, value
from tidewheel.engine.operators import shared
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.planner import view_answers, view_fill, view_filling

WAIT = {
    "twice",
    "sums",
    "several",
    "truth",
    "filtered",
    "times",
    "zones",
    "none",
    "top",
    "of_counts",
    "in",
    "joined",
}


def waits(con: tidewheel.Connection, view: str) -> bool:
    """Do groups of a view wait?"""
    (found,) = (v for k, v in con._session.database.maintainer.views.items() if k.endswith(view))
    assert found.plan is not None
    assert found.plan.circuit is not None
    ops = [n.op for n in found.plan.circuit.nodes if n is not None]
    return any(isinstance(op, Accumulate) and op.sums.waiting for op in ops)


@pytest.mark.parametrize(
    ("seed", "times"),
    [
        (0, 0),
        (1, 1000),
        (2, 3),
        *(pytest.param(s, s, marks=pytest.mark.long) for s in range(4, 12)),
    ],
)
@pytest.mark.parametrize(("threads", "stored"), [(1, True), (2, False)])
def test_groups_are_found_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    seed: int,
    times: int,
    threads: int,
    stored: bool,
) -> None:
    """In one transaction or one after the other, refused, rolled back, by whichever connection."""
    monkeypatch.setattr(view_fill, "MANY", 10)
    monkeypatch.setattr(view_answers, "MANY", 10)
    monkeypatch.setattr(view_filling, "GROUPS", 0)
    monkeypatch.setattr(shared, "FEWER", 1)
    monkeypatch.setattr(shared, "TIMES", times)
    monkeypatch.setattr(view_filling, "_GROUPED", 1)
    rng = random.Random(seed)
    begun = [
        SCHEMA,
        f"INSERT INTO item VALUES {', '.join(f'({i}, {value(rng)})' for i in range(150))}",
        "INSERT INTO ord SELECT i, i % 3 FROM range(6) t(i)",
    ]
    oracle = duckdb.connect()
    with tidewheel.connect(tmp_path / "t.db" if stored else ":memory:", threads=threads) as con:
        for at in (con, oracle):
            at.execute(";".join(begun))
        for name, query in SHAPES.items():
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
            oracle.execute(f"CREATE VIEW v_{name} AS {query}")
        assert {name for name in WAIT if waits(con, f"v_{name}")} == WAIT
        for turn in range(18):
            count = rng.choice([1, 1, 1, 3])
            edits = [edit(rng, 200 + 10 * (4 * turn + i)) for i in range(count)]
            if not failed(con, edits, rng.random() < 0.1):
                for statement in edits:
                    oracle.execute(statement)
            if turn % 6 == 5:
                name = rng.choice([n for n in SHAPES if n != "twice"])
                con.execute(f"DROP MATERIALIZED VIEW v_{name}")
                con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {SHAPES[name]}")
            for name in SHAPES:
                got = rows(con.execute(f"FROM v_{name}").fetchall())
                assert got == rows(oracle.execute(f"FROM v_{name}").fetchall()), (name, edits)
        if not times:
            assert not waits(con, "v_sums")


@pytest.mark.parametrize(
    ("keys", "many"),
    [
        ("i", True),
        ("i % 50", False),
        ("i // 10", True),
        ("i // 1000", False),  # each in one block of rows
        ("hash(i) % 1000", False),
        ("hash(i) % 40000", True),
        ("lower('Name ' || s)", True),
        ("left(s, 2)", False),
        ("date_trunc('minute', t), k", True),
        ("t::DATE, k", False),
        ("date_trunc('month', t), hash(i) % 30000", True),
        ("CASE WHEN i % 7 = 0 THEN NULL ELSE k END", False),
    ],
)
def test_groups_by_terms_wait_where_two_samples_say_that_they_are_many(
    monkeypatch: pytest.MonkeyPatch, keys: str, many: bool
) -> None:
    monkeypatch.setattr(view_fill, "SOON", 1 << 60)
    query = f"SELECT {keys}, count(*) AS n, sum(k) AS s FROM fact WHERE i % 17 <> 0 GROUP BY ALL"
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE fact AS SELECT i, (i % 10)::INTEGER AS k, (i * 7919 % 300000)::VARCHAR AS s, "
            "TIMESTAMP '2026-01-01' + INTERVAL (i * 10) SECOND AS t FROM range(300000) AS r(i)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert waits(con, "v") == many
        con.execute("UPDATE fact SET k = k + 1 WHERE i IN (1, 7, 200000, 299999)")
        con.execute("DELETE FROM fact WHERE i % 1000 = 5")
        for more, less in (("FROM v", query), (query, "FROM v")):
            assert con.execute(f"({more}) EXCEPT ALL ({less}) LIMIT 3").fetchall() == []
