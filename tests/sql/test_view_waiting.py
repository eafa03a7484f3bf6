"""State by which only a change of a much smaller table finds its partners waits for one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidewheel
from tidewheel.engine.operators import shared
from tidewheel.planner import view_answers, view_choice, view_fill, view_filling

VIEWS = {
    "one": "SELECT f.id, d.name FROM fact f JOIN dim d ON d.k = f.k",
    "two": "SELECT f.k, count(*) AS n FROM fact f LEFT JOIN dim d USING (k) GROUP BY f.k",
    "three": "SELECT f.id FROM fact f WHERE f.k IN (SELECT k FROM dim)",
    "four": "SELECT f.id, d.name FROM fact f JOIN dim d ON d.k = f.k WHERE f.id % 2 = 0",
}


@pytest.fixture
def con(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tidewheel.Connection]:
    monkeypatch.setattr(view_fill, "MANY", 100)
    monkeypatch.setattr(shared, "ROW", 1)
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
    assert kept(con) < 10  # one key is looked for in the table
    for i in range(shared.TIMES):
        con.execute(f"UPDATE dim SET name = 'other {i}' WHERE k = {i % 5}")
        con.execute(f"INSERT INTO fact VALUES ({2000 + i}, {i % 9})")
        check(con)
    assert kept(con) > 100
    con.execute("INSERT INTO fact VALUES (1003, 7)")
    con.execute("INSERT INTO dim VALUES (7, 'seven')")
    con.execute("DELETE FROM fact WHERE k = 7 AND id % 2 = 0")
    check(con)


@pytest.mark.parametrize("kind", ["VARCHAR", "UUID", "DATE", "DECIMAL(9, 2)", "BOOLEAN", "UBIGINT"])
def test_keys_of_any_type(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "VARCHAR": ["''", "'it''s'", "'é'", "NULL"],
        "UUID": [f"'{'0' * 31}{i}'" for i in range(4)],
        "DATE": ["'2024-01-01'", "'infinity'", "NULL"],
        "DECIMAL(9, 2)": ["1.50", "-3", "0"],
        "BOOLEAN": ["true", "false", "NULL"],
        "UBIGINT": ["18446744073709551615", "0", "7"],
    }[kind]
    monkeypatch.setattr(view_fill, "MANY", 10)
    query = "SELECT f.i, d.n, d.m FROM f JOIN d ON f.k = d.k AND f.j IS NOT DISTINCT FROM d.j"
    single = "SELECT f.i, d.n FROM f JOIN d ON f.k IS NOT DISTINCT FROM d.k"
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE f (i INTEGER, j INTEGER, k {kind})")
        con.execute(f"CREATE TABLE d (k {kind}, j INTEGER, n INTEGER, m VARCHAR)")
        for i in range(60):
            con.execute(f"INSERT INTO f VALUES ({i}, {i % 3}, {values[i % len(values)]})")
        for name, sql in (("v", query), ("w", single)):
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        for i, value in enumerate(values * 2):
            con.execute(f"BEGIN; INSERT INTO f VALUES ({100 + i}, 1, {value}), (1, 2, {value})")
            con.execute(f"INSERT INTO d VALUES ({value}, {i % 3}, {i}, 'x'); COMMIT")
            for name, sql in (("v", query), ("w", single)):
                got = con.execute(f"FROM {name} ORDER BY ALL").fetchall()
                assert got == con.execute(f"{sql} ORDER BY ALL").fetchall()
        con.execute("DELETE FROM d WHERE n % 2 = 0")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        assert con.execute("VERIFY VIEW w").fetchall() == []


def test_many_keys_are_looked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_fill, "MANY", 100)
    monkeypatch.setattr(shared, "ROW", 1)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE dim AS SELECT i AS k, 'd' || i AS name FROM range(99) t(i)")
        con.execute("CREATE TABLE fact AS SELECT i AS id, i % 120 AS k FROM range(2000) t(i)")
        query = "SELECT f.id, d.name FROM fact f JOIN dim d ON d.k = f.k"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        rows = []
        for _ in range(3):
            con.execute("UPDATE dim SET name = name || 'x'")
            con.execute("INSERT INTO fact VALUES (2000, 7)")
            got = con.execute("FROM v ORDER BY ALL").fetchall()
            assert got == con.execute(f"{query} ORDER BY ALL").fetchall()
            rows.append(kept(con))
        assert rows[:2] == [99, 99]
        assert rows[2] > 2000


@pytest.mark.parametrize("order", ["f.k = g.k", "g.k = f.k"])
def test_nobody_asked_when_the_view_was_filled(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    monkeypatch.setattr(view_fill, "MANY", 100)
    groups = "(SELECT k FROM fact GROUP BY k HAVING sum(id) > 100000)"
    for tables in (f"{groups} g, fact f", f"fact f, {groups} g"):
        with tidewheel.connect() as con:
            con.execute("CREATE TABLE fact AS SELECT i AS id, i % 50 AS k FROM range(1000) t(i)")
            query = f"SELECT f.id, g.k FROM {tables} WHERE {order}"
            con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
            for change in ("INSERT INTO fact VALUES (200000, 7)", "DELETE FROM fact WHERE k = 8"):
                con.execute(change)
                got = con.execute("FROM v ORDER BY ALL").fetchall()
                assert got == con.execute(f"{query} ORDER BY ALL").fetchall()
                assert len(got) == 21


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


ITSELF = "SELECT a.id, b.id AS other FROM item a JOIN item b ON a.o = b.o WHERE a.q = 7"
THERE = "SELECT k FROM dim WHERE EXISTS (FROM item WHERE o = k)"
MISSING = "SELECT k FROM dim WHERE NOT EXISTS (FROM item WHERE o = k)"


@pytest.mark.parametrize("query", [ITSELF, THERE, MISSING])
@pytest.mark.parametrize("times", [0, 1, 2, 100])
@pytest.mark.parametrize("over_view", [False, True])
def test_a_refused_row_of_what_waits(
    monkeypatch: pytest.MonkeyPatch, times: int, query: str, over_view: bool
) -> None:
    """The table does not have it when what it meets is looked for, nor when all rows are read."""
    monkeypatch.setattr(view_fill, "MANY", 10)
    monkeypatch.setattr(shared, "ROW", 1)
    monkeypatch.setattr(shared, "TIMES", times)
    insert = "INSERT INTO item VALUES (?, ?, ?)"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, o INTEGER, q INTEGER)")
        con.execute("INSERT INTO item SELECT i, i % 5, i % 50 FROM range(400) t(i)")
        con.execute("CREATE TABLE dim AS SELECT i AS k FROM range(9) t(i)")
        if over_view:  # which does have it, until it is taken back
            con.execute("CREATE MATERIALIZED VIEW items AS FROM item")
            query = re.sub(r"\bitem\b", "items", query)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for o in (2, 7, 2, 7):
            with pytest.raises(tidewheel.IntegrityError):
                con.execute(insert, (5, o, 7))
            assert bag(con, "FROM v") == bag(con, query)
        con.execute(insert, (1000, 7, 7))
        assert bag(con, "FROM v") == bag(con, query)
        con.execute("DELETE FROM item WHERE o = 7 OR id % 3 = 0")
        assert bag(con, "FROM v") == bag(con, query)


def test_few_pairs_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What joins leave of two large tables, to be found by a change of a third one."""
    monkeypatch.setattr(view_fill, "MANY", 100)
    monkeypatch.setattr(shared, "ROW", 1)
    query = (
        "SELECT item.id, name, n.v FROM item JOIN kind USING (k) JOIN name n ON n.o = item.o "
        "WHERE kind.chosen AND n.v <> 'v7'"
    )
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE item AS SELECT i AS id, i % 5000 AS k, i % 50 AS o FROM range(20000) t(i)"
        )
        con.execute(
            "CREATE TABLE kind AS SELECT i AS k, i % 50 = 1 AS chosen, 'k' || i AS name "
            "FROM range(5000) t(i)"
        )
        con.execute("CREATE TABLE name AS SELECT i AS o, 'v' || i AS v FROM range(50) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO item SELECT id + 100000, k, o FROM item WHERE id < 60")
        con.execute("DELETE FROM item WHERE id % 500 = 1")
        assert bag(con, "FROM v") == bag(con, query)
        assert kept(con) < 200
        con.execute("UPDATE name SET v = 'one' WHERE o = 1")
        assert bag(con, "FROM v") == bag(con, query)
        assert kept(con) > 300
        con.execute("UPDATE kind SET chosen = NOT chosen WHERE k % 100 = 1")
        con.execute("DELETE FROM name WHERE o % 10 = 1")
        assert bag(con, "FROM v") == bag(con, query)


@pytest.mark.parametrize("small", [1000, 10_000])
def test_sides_with_a_small_table_in_common_wait(
    monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """A change of it asks both at the same time."""
    monkeypatch.setattr(view_fill, "MANY", 100)
    monkeypatch.setattr(view_fill, "_SMALL", small)
    monkeypatch.setattr(shared, "ROW", 1)
    query = (
        "SELECT a.id, b.id AS other, a.x + b.x AS x, n.name FROM item a JOIN item b ON a.o = b.p "
        "JOIN nation n ON n.k = b.k"
    )
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE item AS SELECT i AS id, i % 700 AS o, i % 601 AS p, i % 7 AS k, "
            "i % 11 AS x FROM range(3000) t(i)"
        )
        con.execute("CREATE TABLE nation AS SELECT i AS k, 'n' || i AS name FROM range(7) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert (kept(con) < 100) == (small > 3000)
        for change in (
            "UPDATE nation SET name = 'n9' WHERE k = 2",
            "INSERT INTO item VALUES (9000, 3, 3, 2, 5), (9001, 900, 3, 1, 5)",
            "DELETE FROM item WHERE o = 3 OR p = 4",
            "BEGIN; UPDATE nation SET k = 8 WHERE k = 1; UPDATE item SET p = o WHERE k = 4;"
            "INSERT INTO item VALUES (9002, 6, 6, 8, 1); COMMIT",
            "DELETE FROM nation WHERE k = 2",
            "INSERT INTO nation VALUES (2, 'n2'), (2, 'again')",
        ):
            con.execute(change)
            assert bag(con, "FROM v") == bag(con, query), change


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "FULL JOIN"])
def test_both_sides_of_one_table_wait(monkeypatch: pytest.MonkeyPatch, join: str) -> None:
    """Each change of it asks both: rows that meet themselves, that meet rows of the same change."""
    monkeypatch.setattr(view_fill, "MANY", 100)
    monkeypatch.setattr(shared, "ROW", 1)
    query = f"SELECT a.id, b.id AS other, a.x, b.x AS y, b.p FROM item a {join} item b ON a.o = b.p"
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE item AS SELECT i AS id, i % 700 AS o, nullif(i % 601, 7) AS p, "
            "i % 11 AS x FROM range(3000) t(i)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert (kept(con) < 100) == (join == "JOIN")
        for change in (
            "UPDATE item SET x = x + 1 WHERE id % 500 = 3",
            "INSERT INTO item VALUES (9000, 800, 800, 5), (9001, NULL, 800, 5), (9002, 7, NULL, 1)",
            "BEGIN; UPDATE item SET p = o WHERE id < 20; UPDATE item SET o = 5 WHERE id < 9;"
            "DELETE FROM item WHERE id = 5; INSERT INTO item VALUES (9003, 5, 5, 1); COMMIT",
            "BEGIN; DELETE FROM item WHERE o = 5; ROLLBACK",
            "UPDATE item SET o = NULL, p = 3 WHERE id % 100 = 1",
        ):
            con.execute(change)
            same = con.execute(f"FROM ({query}) ORDER BY ALL").fetchall()
            assert con.execute("FROM v ORDER BY ALL").fetchall() == same, change


def test_what_exists_is_not_counted_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_fill, "MANY", 10)
    monkeypatch.setattr(shared, "ROW", 1)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE item AS SELECT i AS id, i % 70 AS o FROM range(400) t(i)")
        con.execute("CREATE TABLE dim AS SELECT 60 + i AS k FROM range(20) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {THERE}")
        held = "SELECT max(state_rows) FROM tidewheel_vertices() WHERE kind = 'tally'"
        for row in (69, 70):
            con.execute("INSERT INTO dim VALUES (?)", (row,))
            con.execute("INSERT INTO item VALUES (?, ?)", (1000 + row, row + 5))
            con.execute(f"DELETE FROM item WHERE o = {row - 5}")
            assert bag(con, "FROM v") == bag(con, THERE)
            assert con.execute(held).fetchall()[0][0] < 10
        con.execute("UPDATE item SET o = 2 * o")
        assert bag(con, "FROM v") == bag(con, THERE)
        assert con.execute(held).fetchall()[0][0] > 60


def bag(con: tidewheel.Connection, query: str) -> list[tuple[object, ...]]:
    return sorted(con.execute(query).fetchall())


@pytest.mark.parametrize(
    "query",
    [
        "SELECT f.k, d.name FROM fact f JOIN dim d USING (k) GROUP BY ALL ORDER BY k LIMIT 1",
        "SELECT f.k, count(*) AS n FROM fact f JOIN dim d USING (k) GROUP BY f.k HAVING n > 1",
        "SELECT n, count(*) AS m FROM "
        "(SELECT f.k, count(*) AS n FROM fact f JOIN dim d USING (k) GROUP BY f.k) GROUP BY n",
    ],
)
def test_groups_wait_behind_a_join_of_few(monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    """Operators would join few rows, for groups that have begun with DuckDB's answer."""
    monkeypatch.setattr(view_answers, "MANY", 1)
    monkeypatch.setattr(view_filling, "GROUPS", 0)
    monkeypatch.setattr(shared, "FEWER", 1)
    monkeypatch.setattr(shared, "TIMES", 2)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE dim AS SELECT i AS k, 'd' || i AS name FROM range(1, 3) t(i)")
        con.execute("CREATE TABLE fact AS SELECT i AS id, i % 4 AS k FROM range(1, 5) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in ("INSERT INTO fact VALUES (9, 1)", "DELETE FROM dim WHERE k = 1"):
            con.execute(change)
            assert bag(con, "FROM v") == bag(con, query)
            assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize("groups_wait", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT x.i, y.i AS k, (SELECT sum(i) * x.i FROM t) AS a, "
        "(SELECT sum(i) * y.i FROM t) AS b FROM t x, t y",
        "SELECT x.i, (SELECT sum(i) * x.i FROM t) AS a, (SELECT sum(i) * x.j FROM t) AS b FROM t x",
    ],
)
def test_joins_by_statement_and_by_operators_of_one_arrangement(
    monkeypatch: pytest.MonkeyPatch, query: str, groups_wait: bool
) -> None:
    """What waits below it got no rows where it was asked by one, and twice where groups wait."""
    if groups_wait:
        monkeypatch.setattr(view_choice, "LARGE", 1)
        monkeypatch.setattr(view_answers, "MANY", 1)
        monkeypatch.setattr(view_filling, "GROUPS", 0)
    else:
        monkeypatch.setattr(view_fill, "MANY", 1)
        monkeypatch.setattr(shared, "FEWER", 1)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (i INTEGER, j INTEGER)")
        con.execute("INSERT INTO t VALUES (1, 2), (2, 3), (3, NULL), (NULL, 1), (2, 2)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        for change in (
            "INSERT INTO t VALUES (NULL, -1)",
            "INSERT INTO t VALUES (4, -1)",
            "DELETE FROM t WHERE i IS NULL",
        ):
            con.execute(change)
            assert con.execute("VERIFY VIEW v").fetchall() == []
