# ruff: noqa: E501
"""Steps that join their table with itself: which are run as linear ones, and that nothing changes."""

from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel
from tidewheel.planner import choice
from tidewheel.sql.recursion_linear import linear
from tidewheel.sql.recursion_scan import scan

HEAD = "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION "
TAIL = ") SELECT * FROM t"
PRODUCTS = [
    "SELECT t.x, u.y FROM t JOIN t u ON u.x = t.y",
    "SELECT l.x, r.y FROM t r, t AS l WHERE r.x = l.y",
    "SELECT l.x, r.y FROM t l JOIN f m ON m.a = l.y JOIN t r ON r.x = m.b",
    "SELECT l.x, r.y FROM t l, f m, t r WHERE l.y = m.a AND m.b = r.x AND m.a = 2",
    "SELECT l.x AS p, r.y AS q FROM t l JOIN t r ON l.y = r.x AND r.x = 3",
]
OTHERS = [
    "SELECT r.y, l.x FROM t l JOIN t r ON r.x = l.y",  # columns change their places
    "SELECT l.x, r.y FROM t l JOIN t r ON r.x = l.y AND l.x = 1",  # reads what is handed on
    "SELECT l.x, r.y FROM t l JOIN t r ON r.x = l.x",
    "SELECT l.x, l.y FROM t l JOIN t r ON r.x = l.y",
    "SELECT l.x, r.y FROM t l JOIN t r ON r.x < l.y",
    "SELECT l.x, r.y + 0 FROM t l JOIN t r ON r.x = l.y",
    "SELECT l.x, r.y FROM t l LEFT JOIN t r ON r.x = l.y WHERE r.y IS NOT NULL",
    "SELECT DISTINCT l.x, r.y FROM t l JOIN t r ON r.x = l.y",
    "SELECT l.x, r.y FROM t l JOIN t r ON r.x = l.y LIMIT 3",
]
ANCHORS = [
    "SELECT 1, random() FROM e",
    "SELECT a, b FROM e LIMIT 2",
    "SELECT a, max(b) FROM e GROUP BY a",
    "SELECT ?, b FROM e",
    "SELECT a, b FROM read_csv('e.csv')",
    "WITH q AS (FROM e) SELECT a, b FROM q",
]


def rewritten(text: str) -> str | None:
    found = linear(scan(text))
    return None if found is None else found.text


@pytest.mark.parametrize("step", PRODUCTS)
def test_products_are_made_linear(step: str) -> None:
    found = rewritten(HEAD + step + TAIL)
    assert found is not None
    assert "__tw_anchor0" in found


@pytest.mark.parametrize("step", OTHERS)
def test_others_stay(step: str) -> None:
    assert rewritten(HEAD + step + TAIL) is None


@pytest.mark.parametrize("anchor", ANCHORS)
def test_an_anchor_that_may_give_other_rows_the_second_time(anchor: str) -> None:
    assert rewritten(f"WITH RECURSIVE t(x, y) AS ({anchor} UNION {PRODUCTS[0]}{TAIL}") is None


@pytest.mark.parametrize("step", [*PRODUCTS, *OTHERS[:6]])
def test_the_answer_is_the_same(step: str) -> None:
    rng = random.Random(step)
    con = tidewheel.connect()
    for _ in range(3):
        for name in "ef":
            con.execute(f"CREATE OR REPLACE TABLE {name}(a INTEGER, b INTEGER)")
            values = [*range(5), "NULL"]
            edges = ", ".join(f"({rng.choice(values)}, {rng.choice(values)})" for _ in range(7))
            con.execute(f"INSERT INTO {name} VALUES {edges}")
        answers = []
        for fusion in ("on", "off"):  # off: as it is written
            con.execute(f"SET fusion = '{fusion}'")
            answers += [sorted(con.execute(HEAD + step + TAIL).fetchall(), key=repr)] * 2
        con.execute("SET fusion = 'on'")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {HEAD}{step}{TAIL}")
        for change in ("INSERT INTO e VALUES (1, 3), (4, 0)", "DELETE FROM e WHERE a = 2"):
            answers.append(sorted(con.execute("FROM v").fetchall(), key=repr))
            assert all(a == answers[0] for a in answers)
            con.execute(change)
            con.execute("SET fusion = 'off'")
            answers = [sorted(con.execute(HEAD + step + TAIL).fetchall(), key=repr)]
            con.execute("SET fusion = 'on'")
        con.execute("DROP MATERIALIZED VIEW v")


def test_an_error_is_told_of_the_text_as_it_is_written() -> None:
    con = tidewheel.connect()
    con.execute("CREATE TABLE e(a INTEGER, b INTEGER)")
    with pytest.raises(tidewheel.ProgrammingError) as caught:
        con.execute(HEAD + "SELECT t.x, u.y FROM t JOIN t u ON u.x = t.y" + ") SELECT z FROM t")
    assert "__tw" not in str(caught.value)
    assert "z" in str(caught.value)


@pytest.mark.parametrize("first", [0, 60])
def test_one_that_reads_the_rows_of_a_query_around_it(monkeypatch, first: int) -> None:
    monkeypatch.setattr(choice, "FIRST", first)
    anchor = "SELECT a, b FROM e WHERE a > z"
    query = (
        "SELECT z, count(*), sum(x * y) FROM range(4) r(z), "
        f"LATERAL (WITH RECURSIVE t(x, y) AS ({anchor} UNION {{}}) SELECT * FROM t) GROUP BY z ORDER BY z"
    )
    plain = "SELECT t.x, m.b FROM t JOIN (SELECT a, b FROM e WHERE a > z) m ON m.a = t.y"
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for each in (con, duck):
            each.execute(
                "CREATE TABLE e AS SELECT * FROM (VALUES (1, 2), (2, 3), (3, 4), (4, 1)) v(a, b)"
            )
        wanted = duck.execute(query.format(plain)).fetchall()
        assert con.execute(query.format(PRODUCTS[0])).fetchall() == wanted
        con.execute(f"CREATE TABLE kept AS {query.format(PRODUCTS[0])}")
        con.execute(f"INSERT INTO kept {query.format(PRODUCTS[0])}")
        assert con.execute("FROM kept").fetchall() == wanted * 2
