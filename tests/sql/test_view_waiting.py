"""State by which only a change of a much smaller table finds its partners waits for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tidewheel
from tidewheel.planner import view_fill

VIEWS = {
    "one": "SELECT f.id, d.name FROM fact f JOIN dim d ON d.k = f.k",
    "two": "SELECT f.k, count(*) AS n FROM fact f LEFT JOIN dim d USING (k) GROUP BY f.k",
    "three": "SELECT f.id FROM fact f WHERE f.k IN (SELECT k FROM dim)",
    "four": "SELECT f.id, d.name FROM fact f JOIN dim d ON d.k = f.k WHERE f.id % 2 = 0",
}


@pytest.fixture
def con(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tidewheel.Connection]:
    monkeypatch.setattr(view_fill, "MANY", 100)
    with tidewheel.connect(tmp_path / "t.db") as con:
        con.execute("CREATE TABLE dim (k INTEGER PRIMARY KEY, name VARCHAR)")
        con.execute("CREATE TABLE fact (id INTEGER, k INTEGER)")
        con.execute("INSERT INTO dim SELECT i, 'd' || i FROM range(5) t(i)")
        con.execute(
            "INSERT INTO fact SELECT i, CASE WHEN i % 9 > 0 THEN i % 9 END FROM range(200) t(i)"
        )
        for name, query in VIEWS.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield con


def check(con: tidewheel.Connection) -> None:
    for name, query in VIEWS.items():
        got = con.execute(f"FROM {name} ORDER BY ALL").fetchall()
        assert got == con.execute(f"{query} ORDER BY ALL").fetchall(), name


def kept(con: tidewheel.Connection) -> int:
    found = con.execute(
        "SELECT max(state_rows) FROM tidewheel_vertices() WHERE kind = 'arrange'"
    ).fetchone()
    return int(found[0])


def test_facts_are_not_kept_until_a_dimension_changes(con: tidewheel.Connection) -> None:
    check(con)
    con.execute("INSERT INTO fact VALUES (1000, 3), (1001, 7), (1002, NULL)")
    con.execute("DELETE FROM fact WHERE id = 12")
    check(con)
    assert kept(con) < 10
    con.execute("UPDATE dim SET name = 'other' WHERE k = 3")
    check(con)
    assert kept(con) > 100
    con.execute("INSERT INTO fact VALUES (1003, 7)")
    con.execute("INSERT INTO dim VALUES (7, 'seven')")
    con.execute("DELETE FROM fact WHERE k = 7 AND id % 2 = 0")
    check(con)


def test_one_row_of_a_dimension(con: tidewheel.Connection) -> None:
    for k in (5, 6):
        con.execute("INSERT INTO dim VALUES (?, ?)", [k, "new"])
        check(con)


def test_facts_and_dimensions_in_one_transaction(con: tidewheel.Connection) -> None:
    con.execute("BEGIN")
    con.execute("INSERT INTO fact VALUES (1000, 7), (1001, 3)")
    con.execute("DELETE FROM fact WHERE id < 20")
    con.execute("INSERT INTO dim VALUES (7, 'seven')")
    con.execute("DELETE FROM dim WHERE k = 2")
    con.execute("COMMIT")
    check(con)


def test_a_transaction_that_began_before_others_committed(
    con: tidewheel.Connection, tmp_path: Path
) -> None:
    with tidewheel.connect(tmp_path / "t.db") as other:
        con.execute("BEGIN")
        con.execute("SELECT count(*) FROM fact").fetchall()
        other.execute("INSERT INTO fact VALUES (1000, 7), (1001, 3)")
        con.execute("INSERT INTO dim VALUES (7, 'seven')")
        con.execute("COMMIT")
        check(con)
        check(other)


def test_a_refused_row(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.IntegrityError):
        con.execute("INSERT INTO dim VALUES (?, ?)", [3, "again"])
    check(con)
    con.execute("BEGIN")
    con.execute("INSERT INTO dim VALUES (8, 'eight')")
    con.execute("ROLLBACK")
    check(con)
    con.execute("INSERT INTO dim VALUES (7, 'seven')")
    check(con)


def test_an_epoch_that_fails_behind_a_join(con: tidewheel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW last AS SELECT name::INTEGER AS n FROM dim WHERE k > 6")
    with pytest.raises(tidewheel.DataError):
        con.execute("INSERT INTO dim VALUES (7, 'seven')")
    check(con)
    con.execute("INSERT INTO fact VALUES (1000, 7)")
    con.execute("INSERT INTO dim VALUES (7, '7')")
    check(con)


def test_a_view_that_comes_later_and_one_that_goes(con: tidewheel.Connection) -> None:
    con.execute("INSERT INTO fact VALUES (1000, 7)")
    con.execute("DROP MATERIALIZED VIEW one")
    con.execute(f"CREATE MATERIALIZED VIEW one AS {VIEWS['one']}")
    con.execute("INSERT INTO dim VALUES (7, 'seven')")
    con.execute("DROP MATERIALIZED VIEW two")
    con.execute(f"CREATE MATERIALIZED VIEW two AS {VIEWS['two']}")
    con.execute("DELETE FROM dim WHERE k = 3")
    check(con)
