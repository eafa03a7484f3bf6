"""State that waits for somebody to ask, over filters and joins, under random edits, against DuckDB."""

# ruff: noqa: E501
from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

import tidewheel
from oracle.shape_checks import rows
from oracle.transactions import failed
from oracle.waiting_joins import SCHEMA, SHAPES, edit, item
from tidewheel.engine.operators import shared
from tidewheel.engine.operators.join import Arrange
from tidewheel.engine.operators.tally import Tally
from tidewheel.planner import view_fill

WAITING = {
    "filtered",
    "joined",
    "chain",
    "semi",
    "anti",
    "outer",
    "calculated",
    "by_day",
    "highest",
    "large",
    "others",
    "alone",
    "exists",
    "none",
    "both",
    "pairs",
    "before",
    "between",
    "mean",
    "above",
}
COUNTED = {"exists", "none", "both", "before"}
"""What is asked of many rows is whether some are there."""


def waiting(con: tidewheel.Connection, view: str) -> bool:
    """Is there state of a view that waits?"""
    plan = con._session.database.maintainer.views[f"t.main.v_{view}"].plan
    assert plan is not None
    assert plan.circuit is not None
    ops = [n.op for n in plan.circuit.nodes if n is not None]
    counted = any(isinstance(op, Tally) and op.counts.waiting for op in ops)
    assert counted == (view in COUNTED), view
    return any(isinstance(op, Arrange) and op.arrangement.waiting for op in ops)


@pytest.mark.parametrize(("seed", "times"), [(0, 0), (1, 1000), (2, 3)])
@pytest.mark.parametrize(
    "settings", ["", "SET TimeZone = 'Asia/Tokyo'; SET integer_division = true"]
)
def test_what_waits_is_found_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, times: int, settings: str
) -> None:
    """Whoever changes whatever, in one transaction or one after the other, refused or rolled back."""
    monkeypatch.setattr(view_fill, "MANY", 10)
    monkeypatch.setattr(shared, "FEWER", 2)
    monkeypatch.setattr(shared, "TIMES", times)
    monkeypatch.setattr(shared, "ROW", 1)
    rng = random.Random(seed)
    filled = [
        f"INSERT INTO item VALUES {', '.join(item(rng, i) for i in range(150))}",
        "INSERT INTO ord SELECT i, i % 3, DATE '2024-01-01' + i::INTEGER, 'ax' FROM range(6) t(i)",
        "INSERT INTO cust VALUES (0, 0, 'a'), (1, 1, 'B'), (2, 1, NULL); INSERT INTO nation VALUES (1, 'A')",
    ]
    begun = ";".join([SCHEMA, "SET TimeZone = 'UTC'", *filled, settings])
    oracle = duckdb.connect()
    path = tmp_path / "t.db"
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        for at in (con, oracle):
            at.execute(begun)
        for name, query in SHAPES.items():
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
            oracle.execute(f"CREATE VIEW v_{name} AS {query}")
        assert {name for name in WAITING if waiting(con, name)} == WAITING
        for turn in range(20):
            edits = [edit(rng, 200 + 10 * (4 * turn + i)) for i in range(rng.choice([1, 1, 1, 3]))]
            who = rng.choice([con, other])
            if not failed(who, edits, len(edits) > 1 and rng.random() < 0.1):
                for statement in edits:
                    oracle.execute(statement)
            if turn % 10 == 9:
                name = rng.choice([n for n in SHAPES if n != "chain"])
                con.execute(f"DROP MATERIALIZED VIEW v_{name}")
                con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {SHAPES[name]}")
            for name in SHAPES:
                got = rows(con.execute(f"FROM v_{name}").fetchall())
                assert got == rows(oracle.execute(f"FROM v_{name}").fetchall()), (name, edits)
