"""State that waits over rows of other views, which change in the same epoch, against DuckDB."""

from __future__ import annotations

import random
import re
from pathlib import Path

import duckdb
import pytest

import tidewheel
from oracle import waiting_groups, waiting_joins
from oracle.shape_checks import rows
from oracle.transactions import failed
from tidewheel.engine.operators import shared, topk
from tidewheel.engine.operators.join import Arrange
from tidewheel.planner import view_answers, view_fill, view_filling

MORE = {
    "ends": "SELECT o, min(q) AS l, max(x) AS h, max(p) AS t FROM item GROUP BY o",
    "whole": "SELECT count(*) AS n, min(x) AS l, max(id) AS h, sum(q) AS s FROM item",
    "medians": "SELECT o, median(q) AS m FROM item GROUP BY o",
    "newest": "SELECT * FROM item ORDER BY q DESC NULLS LAST, id LIMIT 7",
    "firsts": "SELECT * FROM item QUALIFY row_number() OVER (PARTITION BY o ORDER BY q, id) < 3",
    "largest": "SELECT p, arg_max(id, q * 1000 + id) AS i FROM item GROUP BY p",
    "listed": "SELECT o, string_agg(p, ',' ORDER BY id) AS s FROM item GROUP BY o",
    "moving": "SELECT id, sum(q) OVER (PARTITION BY o ORDER BY id ROWS 2 PRECEDING) AS s FROM item",
    "parts": "SELECT id, count(*) OVER (PARTITION BY o) AS n FROM item",
    "values": "SELECT DISTINCT o, p FROM item",
    "without": "SELECT o FROM item EXCEPT SELECT o FROM ord",
    "two_levels": "SELECT o, max(n) AS n FROM (FROM item_n) GROUP BY o",
}
BETWEEN = {
    "as they are": "SELECT * FROM {0}",
    "some": "SELECT * FROM {0} WHERE o IS DISTINCT FROM 3",
    "computed anew": "FROM {0} LIMIT (SELECT count(*) FROM {0})",
}


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize(("module", "seed", "times"), [
    (waiting_joins, 0, 0),
    (waiting_joins, 1, 1000),
    (waiting_groups, 2, 3),
    (waiting_groups, 3, 1000),
    *(pytest.param(m, s, s % 5, marks=pytest.mark.long)
      for m in (waiting_joins, waiting_groups) for s in range(4, 20)),
])  # fmt: skip
def test_views_over_views_that_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: object, seed: int, times: int,
    between: str,
) -> None:  # fmt: skip
    """In one transaction or one after the other, refused, rolled back, by whichever connection."""
    for place, name, value in (
        (view_fill, "MANY", 10),
        (view_answers, "MANY", 10),
        (view_filling, "GROUPS", 0),
        (view_filling, "_GROUPED", 1),
        (shared, "FEWER", 1),
        (shared, "TIMES", times),
        (shared, "ROW", 1),
        (topk, "_CROWD", 2),
    ):
        monkeypatch.setattr(place, name, value)
    rng = random.Random(seed)
    oracle = duckdb.connect()
    path = tmp_path / "t.db"
    groups = module is waiting_groups
    shapes = {**(waiting_groups if groups else waiting_joins).SHAPES, **(MORE if groups else {})}
    shapes = {name: re.sub(r"\b(item|ord)\b", r"\1_v", query) for name, query in shapes.items()}
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        for at in (con, oracle):
            at.execute(begun(rng if at is con else random.Random(seed), groups))
        made = {f"{t}_v": BETWEEN[between].format(t) for t in ("item", "ord")}
        made["item_n"] = "SELECT o, p, count(*) AS n FROM item_v GROUP BY o, p"
        made |= {f"v_{name}": query for name, query in shapes.items()}
        for name, query in made.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            oracle.execute(f"CREATE VIEW {name} AS {query}")
        assert any(waits(con, name) for name in made)
        for turn in range(12):
            edit = (waiting_groups if groups else waiting_joins).edit
            count = rng.choice([1, 1, 1, 3])
            edits = [edit(rng, 200 + 10 * (4 * turn + i)) for i in range(count)]
            who = rng.choice([con, other])
            if not failed(who, edits, len(edits) > 1 and rng.random() < 0.1):
                for statement in edits:
                    oracle.execute(statement)
            if turn % 6 == 5:
                name = rng.choice([n for n in shapes if n not in ("chain", "twice")])
                con.execute(f"DROP MATERIALIZED VIEW v_{name}")
                con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {shapes[name]}")
            for name in made:
                got = rows(con.execute(f"FROM {name}").fetchall())
                assert got == rows(oracle.execute(f"FROM {name}").fetchall()), (name, edits)


def begun(rng: random.Random, groups: bool) -> str:
    """The tables, and rows in them."""
    if groups:
        items = (f"({i}, {waiting_groups.value(rng)})" for i in range(150))
        schema, orders = waiting_groups.SCHEMA, "SELECT i, i % 3 FROM range(6) t(i)"
    else:
        items = (waiting_joins.item(rng, i) for i in range(150))
        schema = f"{waiting_joins.SCHEMA}; SET TimeZone = 'UTC'"
        orders = "SELECT i, i % 3, DATE '2024-01-01' + i::INTEGER, 'ax' FROM range(6) t(i)"
    filled = f"INSERT INTO item VALUES {', '.join(items)}; INSERT INTO ord {orders}"
    rest = "" if groups else "INSERT INTO cust VALUES (0, 0, 'a'), (1, 1, 'B'), (2, 1, NULL)"
    return f"{schema}; {filled}; {rest}"


def waits(con: tidewheel.Connection, name: str) -> bool:
    """Is there state of a view that waits?"""
    (found,) = (v for k, v in con._session.database.maintainer.views.items() if k.endswith(name))
    if found.plan is None or found.plan.circuit is None:
        return False
    ops = [n.op for n in found.plan.circuit.nodes if n is not None]
    return any(a.waiting for op in ops if isinstance(op, Arrange) for a in op.arrangements())
