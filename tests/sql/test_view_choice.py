"""Changes that are larger than what they leave: views are computed anew, and say so."""

from __future__ import annotations

import pytest

import tidewheel
from tidewheel.planner import view_choice

VIEWS = {
    "sums": "SELECT g, count(*) AS n, sum(i) AS total FROM t GROUP BY g",
    "over": "SELECT count(*) AS groups FROM sums",
    "reach": "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT t.i + 0 FROM r JOIN t ON t.p = r.n) "
    "SELECT n FROM r",
    "other": "SELECT count(*) AS n FROM u",
    "both": "SELECT t.i FROM t JOIN u ON u.i = t.i",
}


@pytest.fixture
def con(monkeypatch: pytest.MonkeyPatch) -> tidewheel.Connection:
    monkeypatch.setattr(view_choice, "LARGE", 100)
    con = tidewheel.connect()
    con.execute("CREATE TABLE t AS SELECT i, i // 2 AS p, i % 7 AS g FROM range(1, 301) r(i)")
    con.execute("CREATE TABLE u AS SELECT i FROM range(100) r(i)")
    for name, query in VIEWS.items():
        con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return con


def choice(con: tidewheel.Connection, view: str) -> str:
    text = "\n".join(str(row[-1]) for row in con.execute(f"EXPLAIN VIEW {view}").fetchall())
    return text.partition("computed anew in the last epoch: ")[2].partition(")")[0]


def check(con: tidewheel.Connection) -> None:
    for name in VIEWS:
        assert con.execute(f"VERIFY VIEW {name}").fetchall() == [], name


def test_more_changes_than_rows_left(con: tidewheel.Connection) -> None:
    follow = con.subscribe("over")
    next(follow)
    con.execute("DELETE FROM t WHERE i > 5")
    check(con)
    assert choice(con, "sums") == "295 rows changed, 5 are left"
    assert choice(con, "over") == "295 rows changed, 5 are left"
    assert choice(con, "other") == ""
    assert con.execute("SELECT groups FROM over").fetchall() == [(5,)]
    con.execute("INSERT INTO t VALUES (6, 3, 6)")
    check(con)
    assert choice(con, "sums") == ""
    con.execute("BEGIN")
    con.execute("DELETE FROM u")
    con.execute("UPDATE t SET g = g + 1")
    con.execute("INSERT INTO t SELECT i, 0, 0 FROM range(100, 400) r(i)")
    con.execute("DELETE FROM t WHERE i > 150")
    con.execute("COMMIT")
    check(con)
    assert choice(con, "both") == "661 rows changed, 57 are left"
    con.execute("INSERT INTO u VALUES (3)")
    con.execute("INSERT INTO t VALUES (151, 150, 1)")
    check(con)
    con.close()


def test_most_stays(con: tidewheel.Connection) -> None:
    con.execute("UPDATE t SET g = g + 1 WHERE i <= 120")
    check(con)
    assert choice(con, "sums") == ""
    con.execute("UPDATE t SET g = g + 1 WHERE i <= 160")
    check(con)
    assert choice(con, "sums") == "320 rows changed, 300 are left"
    con.close()


@pytest.mark.parametrize("filling", [0.0, 100.0])
def test_what_takes_less_time(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch, filling: float
) -> None:
    monkeypatch.setattr(view_choice, "_filling", lambda view: filling)
    follow = con.subscribe("over")
    next(follow)
    for change in (
        "UPDATE t SET g = g + 1 WHERE i <= 120",
        "DELETE FROM t WHERE i % 3 = 0",
        "INSERT INTO t SELECT i, i // 3, i % 9 FROM range(300, 420) r(i)",
    ):
        con.execute(change)
        check(con)
        chosen = choice(con, "reach")
        assert (" anew" in chosen) == (filling == 0), chosen
    follow.close()
    con.close()


def test_a_failure_is_undone(con: tidewheel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW inverse AS SELECT 1 // (min(i) - 299) AS x FROM t")
    with pytest.raises(tidewheel.Error):
        con.execute("DELETE FROM t WHERE i < 299")
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(300,)]
    check(con)
    con.close()
