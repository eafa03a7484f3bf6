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
from tidewheel.engine.operators import shared
from tidewheel.engine.operators.join import Arrange
from tidewheel.engine.operators.tally import Tally
from tidewheel.planner import view_fill

SCHEMA = """
CREATE TABLE item (id INTEGER, o INTEGER, p VARCHAR, q INTEGER, x DOUBLE, t TIMESTAMPTZ);
CREATE TABLE ord (o INTEGER PRIMARY KEY, c INTEGER, d DATE, note VARCHAR NOT NULL);
CREATE TABLE cust (c INTEGER, n INTEGER, name VARCHAR);
CREATE TABLE nation (n INTEGER, name VARCHAR)
"""
ORD = "o.d < DATE '2024-01-04'"
SHAPES = {
    "filtered": f"SELECT i.id, o.d FROM item i JOIN ord o USING (o) WHERE i.q > 2 AND {ORD}",
    "joined": "SELECT i.id, o.note, c.name FROM item i, ord o, cust c WHERE i.o = o.o AND o.c = c.c AND c.n = 1",
    "chain": f"SELECT n.n, sum(i.q) AS s, count(*) AS k FROM item i, ord o, cust c, nation n WHERE i.o = o.o AND o.c = c.c AND c.n = n.n AND {ORD} GROUP BY n.n",
    "semi": f"SELECT id, x FROM item WHERE o IN (SELECT o FROM ord o WHERE {ORD}) AND q <> 3",
    "anti": "SELECT id, x FROM item i WHERE q < 5 AND NOT EXISTS (FROM ord o WHERE o.o = i.o AND o.c = 1)",
    "outer": "SELECT o.o, c.n, i.id FROM item i LEFT JOIN ord o ON i.o = o.o AND o.c > 0 LEFT JOIN cust c ON c.c = o.c",
    "calculated": "SELECT i.id, o.o FROM item i JOIN ord o ON i.o / 2 = o.c AND i.p || 'x' = o.note",
    "by_day": "SELECT i.id, o.o FROM item i JOIN ord o ON i.t::DATE = o.d",
    "highest": "SELECT o.c, max(i.q) AS h, min(i.x) AS l FROM item i JOIN ord o USING (o) WHERE i.q <> 4 GROUP BY o.c",
    "itself": "SELECT a.id, b.id AS other FROM item a JOIN item b ON a.o = b.q JOIN ord o ON o.o = a.o",
    "named": "SELECT c.c, n.n FROM cust c JOIN nation n ON c.name = n.name",
    "folded": "SELECT i.id, c.c FROM item i JOIN cust c ON i.p = c.name",
    "large": "SELECT o.o, i.id, i.q FROM ord o, item i WHERE o.o = i.o AND o.o IN (SELECT o FROM item GROUP BY o HAVING sum(q) > 80)",
    "others": f"SELECT i.id FROM item i JOIN ord o USING (o) WHERE {ORD} AND i.q > 4 AND EXISTS (FROM item j WHERE j.o = i.o AND j.q <> i.q)",
    "alone": "SELECT i.id FROM item i JOIN ord o USING (o) WHERE o.c = 1 AND NOT EXISTS (FROM item j WHERE j.o = i.o AND j.q > i.q)",
    "exists": "SELECT o.o, o.c FROM ord o WHERE EXISTS (FROM item i WHERE i.o = o.o AND i.q > 2)",
    "none": "SELECT o.o, o.c FROM ord o WHERE NOT EXISTS (FROM item i WHERE i.o = o.o AND i.q < 2)",
    "both": "SELECT o.o, o.c FROM ord o WHERE (o.c, substr(o.note, 1, 1)) IN (SELECT o, p FROM item i)",
    "apart": "SELECT i.id, i.x, o.note, o.c FROM item i JOIN ord o USING (o)",
    "far": "SELECT i.q, count(*) AS n, max(o.d) AS d FROM item i, ord o, cust c WHERE i.o = o.o AND o.c = c.c AND i.p <> c.name GROUP BY i.q",
    "branches": "SELECT i.id, o.c, o.note FROM item i JOIN ord o USING (o) UNION ALL SELECT i.id, l.s, i.p FROM item i JOIN (SELECT c AS o, max(n) AS s FROM cust GROUP BY c HAVING max(n) > 0) l USING (o)",
    "twice": "SELECT a.name AS one, b.name AS other, count(*) AS k FROM item i JOIN nation a ON a.n = i.q JOIN ord o USING (o) JOIN nation b ON b.n = o.c GROUP BY ALL",
    "mean": "SELECT i.id, i.q FROM item i WHERE i.q / 7 > (SELECT avg(q / 7) FROM item WHERE q > 0) AND NOT EXISTS (FROM ord o WHERE o.o = i.o)",
    "above": "SELECT o.c, count(*) AS n FROM ord o JOIN item i USING (o) WHERE i.q * 1.0 >= (SELECT sum(n) / 10 FROM cust) GROUP BY o.c",
    "of_view": "SELECT v.s, o.o FROM v_chain v JOIN ord o ON o.c = v.n JOIN item i ON i.o = o.o",
}  # fmt: skip
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
    "mean",
    "above",
}
COUNTED = {"exists", "none", "both"}
"""What is asked of many rows is whether some are there."""


def item(rng: random.Random, i: int) -> str:
    """One row of `item`."""
    value = [
        rng.choice(["NULL", "0", "1", "2", "3", "4"]),
        rng.choice(["NULL", "'a'", "'A'", "'b'", "''"]),
        rng.choice(["NULL", *map(str, range(7))]),
        rng.choice(["'nan'", "0.0", "-0.0", "1.5", "NULL"]),
        rng.choice(["NULL", "'2024-01-02 23:30:00+00'", "'2024-01-03 04:00:00+00'"]),
    ]
    return f"({i}, {', '.join(value)})"


def edit(rng: random.Random, i: int) -> str:
    """Mostly of the small tables, as they ask."""
    o, c, n = rng.randint(0, 6), rng.choice(["NULL", "0", "1", "2"]), rng.randint(0, 2)
    day, name = f"DATE '2024-01-0{rng.randint(1, 6)}'", rng.choice(["'ax'", "'x'", "'Ax'"])
    return rng.choice(
        [
            f"INSERT INTO item VALUES {item(rng, i)}, {item(rng, i + 1)}",
            f"DELETE FROM item WHERE id % 11 = {o}",
            f"UPDATE item SET o = {o} WHERE id % 13 = {n}",
            f"INSERT INTO ord VALUES ({o}, {c}, {day}, {name})",
            f"INSERT OR IGNORE INTO ord VALUES ({o}, {c}, {day}, {name}), ({o + 7}, {c}, {day}, 'bx')",
            f"DELETE FROM ord WHERE o = {o}",
            f"UPDATE ord SET c = {c}, d = {day} WHERE o % 3 = {n}",
            f"INSERT INTO ord VALUES ({o}, {c}, {day}, NULL)",
            f"INSERT INTO cust VALUES ({c}, {n}, {rng.choice(['NULL', chr(39) + 'A' + chr(39), chr(39) + 'b' + chr(39)])})",
            f"DELETE FROM cust WHERE c = {o}",
            f"UPDATE cust SET n = {n} WHERE c = 1",
            f"INSERT INTO nation VALUES ({n}, 'a')",
            f"DELETE FROM nation WHERE n = {n}",
        ]
    )


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
