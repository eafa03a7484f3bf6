"""Views that arrange a whole table by the same key share one arrangement of it."""

from __future__ import annotations

import random

import pytest

import tidewheel

TABLES = "CREATE TABLE l(k INT, v INT); CREATE TABLE r(k INT, w INT);"
JOINS = (
    "SELECT l.k, v, w FROM l JOIN r ON l.k = r.k",
    "SELECT w, v + l.k AS s FROM r, l WHERE l.k = r.k",
    "SELECT l.k, count(*) AS n, sum(v) AS v, sum(w) AS w FROM l JOIN r USING (k) GROUP BY l.k",
    "SELECT l.k, v, w FROM l LEFT JOIN r ON l.k = r.k",
    "WITH RECURSIVE c(k) AS (SELECT 1 UNION SELECT w FROM c JOIN r ON c.k = r.k) FROM c",
    "SELECT a.w, b.w AS x FROM r a JOIN r b ON a.k = b.k",
)


def shared(con: tidewheel.Connection) -> int:
    maintainer = con._session.database.maintainer
    maintainer.settle()
    return len(maintainer.shared)


def held(con: tidewheel.Connection, view: str) -> set[int]:
    """The arrangements that a view's operators own, by identity."""
    found = next(v for k, v in con._session.database.maintainer.views.items() if k.endswith(view))
    assert found.plan is not None
    assert found.plan.circuit is not None
    nodes = [n for n in found.plan.circuit.nodes if n is not None]
    return {id(a) for n in nodes if hasattr(n.op, "shared") for a in n.op.arrangements()}


def test_the_same_arrangement_until_nobody_needs_it() -> None:
    with tidewheel.connect() as con:
        con.execute(TABLES)
        con.execute("INSERT INTO l VALUES (1, 2), (2, 3); INSERT INTO r VALUES (1, 4), (3, 5)")
        con.execute(f"CREATE MATERIALIZED VIEW a AS {JOINS[0]}")
        assert shared(con) == 2
        con.execute(f"CREATE MATERIALIZED VIEW b AS {JOINS[2]}")
        assert shared(con) == 2
        assert held(con, "a") == held(con, "b")
        con.execute("INSERT INTO l VALUES (3, 9)")
        con.execute("DROP MATERIALIZED VIEW a")
        assert shared(con) == 2
        con.execute("INSERT INTO l VALUES (3, 8)")
        assert con.execute("FROM b ORDER BY k").fetchall() == [(1, 1, 2, 4), (3, 2, 17, 10)]
        con.execute("DROP MATERIALIZED VIEW b")
        assert shared(con) == 0


def test_a_creation_that_was_rolled_back_leaves_nothing_behind() -> None:
    with tidewheel.connect() as con:
        con.execute(TABLES)
        con.execute("INSERT INTO l VALUES (1, 2); INSERT INTO r VALUES (1, 4)")
        con.execute(f"BEGIN; CREATE MATERIALIZED VIEW a AS {JOINS[0]}; FROM a; ROLLBACK")
        con.execute("INSERT INTO l VALUES (1, 3)")
        con.execute(f"CREATE MATERIALIZED VIEW a AS {JOINS[0]}")
        con.execute("INSERT INTO r VALUES (1, 5)")
        assert len(con.execute("FROM a").fetchall()) == 4
        with pytest.raises(tidewheel.Error):
            con.execute("CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT l.k // 0 FROM l, nowhere")
        con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW a AS {JOINS[1]}")
        con.execute("INSERT INTO l VALUES (1, 6)")
        assert len(con.execute("FROM a").fetchall()) == 6


@pytest.mark.parametrize("seed", range(4))
def test_views_come_and_go_while_tables_change(seed: int) -> None:
    rng = random.Random(seed)
    with tidewheel.connect() as con:
        con.execute(TABLES)
        kept: dict[str, str] = {}
        for _ in range(40):
            table = rng.choice("lr")
            what = rng.randrange(8)
            if what < 3:
                rows = [(rng.randrange(5), rng.randrange(5)) for _ in range(rng.randrange(1, 4))]
                con.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
            elif what == 3:
                con.execute(f"DELETE FROM {table} WHERE k = {rng.randrange(5)}")
            elif what == 4:
                con.execute(f"UPDATE {table} SET k = NULL WHERE k = {rng.randrange(5)}")
            elif what == 5:
                con.execute("BEGIN")
                con.execute(f"INSERT INTO {table} SELECT 1, 7")
                con.execute(rng.choice(["COMMIT", "ROLLBACK"]))
            elif what == 6 and kept:
                con.execute(f"DROP MATERIALIZED VIEW {(name := rng.choice(sorted(kept)))}")
                del kept[name]
            else:
                name = f"v{rng.randrange(4)}"
                kept[name] = rng.choice(JOINS)
                con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {kept[name]}")
            for name, query in kept.items():
                got = sorted(con.execute(f"FROM {name}").fetchall(), key=repr)
                assert got == sorted(con.execute(query).fetchall(), key=repr), (name, query)
