"""Lists of maintained views: in the order of a table's rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tidewheel


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (k INTEGER, s VARCHAR)")
        con.execute("INSERT INTO t VALUES (1, 'c'), (2, 'x'), (1, 'a'), (1, 'b')")
        yield con


def _listed(con: tidewheel.Connection, view: str = "v") -> object:
    assert con.execute(f"VERIFY VIEW {view}").fetchall() == []
    reasons = con.execute("SELECT DISTINCT reason FROM tidewheel_views()").fetchall()
    assert reasons == [(None,)]
    return con.execute(f"SELECT l FROM {view} WHERE k = 1").fetchone()


def test_rows_that_move_without_a_change(con: tidewheel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, string_agg(s, '') AS l FROM t GROUP BY k")
    assert _listed(con) == ("cab",)
    con.execute("BEGIN; DELETE FROM t WHERE s = 'c'; INSERT INTO t VALUES (1, 'c'); COMMIT")
    assert _listed(con) == ("abc",)
    con.execute("CREATE INDEX by_text ON t (s)")
    con.execute("UPDATE t SET s = s WHERE s = 'a'")
    assert _listed(con) == ("bca",)
    # an UPDATE that is found by comparing the table with a copy
    con.execute("UPDATE t SET s = s WHERE s = 'b' AND random() >= 0")
    assert _listed(con) == ("cab",)
    con.execute("BEGIN; DELETE FROM t; ROLLBACK; INSERT INTO t VALUES (1, 'd')")
    assert _listed(con) == ("cabd",)
    con.execute("DELETE FROM t WHERE k = 2; CHECKPOINT; INSERT INTO t VALUES (1, 'e')")
    assert _listed(con) == ("cabde",)


def test_a_row_that_is_refused(con: tidewheel.Connection) -> None:
    con.execute("CREATE TABLE u (k INTEGER, s VARCHAR CHECK (s <> 'no'))")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, list(s) AS l FROM u GROUP BY k")
    for _ in range(3):
        con.execute("INSERT INTO u VALUES (?, ?)", [1, "yes"])
    with pytest.raises(tidewheel.Error, match="CHECK"):
        con.execute("INSERT INTO u VALUES (?, ?)", [1, "no"])
    assert _listed(con) == (["yes"] * 3,)


def test_a_table_with_a_column_rowid_is_computed_anew(con: tidewheel.Connection) -> None:
    con.execute("CREATE TABLE u (k INTEGER, rowid INTEGER)")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, list(rowid) AS l FROM u GROUP BY k")
    con.execute("INSERT INTO u VALUES (1, 3), (1, 2)")
    assert con.execute("FROM v").fetchall() == [(1, [3, 2])]
    assert con.execute("SELECT maintenance FROM tidewheel_views()").fetchall() == [("recompute",)]


def test_rows_that_a_query_sorts_keep_its_order(con: tidewheel.Connection) -> None:
    con.execute(
        "CREATE MATERIALIZED VIEW v AS "
        "SELECT k, list(s) AS l FROM (SELECT * FROM t ORDER BY s DESC) GROUP BY k"
    )
    con.execute("INSERT INTO t VALUES (1, 'bb')")
    assert con.execute("SELECT l FROM v WHERE k = 1").fetchall() == [(["c", "bb", "b", "a"],)]


@pytest.mark.parametrize(
    "call", ["list(DISTINCT s)", "first(DISTINCT s)", "list(DISTINCT s) FILTER (k > 0)"]
)
def test_distinct_values_have_no_place(con: tidewheel.Connection, call: str) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT k, {call} AS l FROM t GROUP BY k")
    ((how, why),) = con.execute("SELECT maintenance, reason FROM tidewheel_views()").fetchall()
    assert how == "recompute"
    assert "without ORDER BY depends on the order of the rows" in why


@pytest.mark.parametrize(
    "call",
    [
        "list_sort(list(DISTINCT s))",
        "list_sort(list(DISTINCT s), 'DESC')",
        "list_reverse_sort(list(v) FILTER (v > 1))",
        "array_reverse_sort(list(v) FILTER (v > 1), 'NULLS LAST')[1:2]",
        "array_sort(list(s), 'DESC', 'NULLS FIRST')",
    ],
)
def test_sorted_lists_do_not_follow_it(con: tidewheel.Connection, call: str) -> None:
    con.execute("CREATE TABLE n (k INTEGER, v INTEGER)")
    con.execute("INSERT INTO n VALUES (1, 2), (1, 1), (2, 3), (1, NULL)")
    query = f"SELECT k, {call} AS l FROM t JOIN n USING (k) GROUP BY k"
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert con.execute("SELECT maintenance FROM tidewheel_views()").fetchall() == [("incremental",)]
    for change in (
        "INSERT INTO t VALUES (1, 'aa'), (2, NULL), (1, 'aa'), (2, 'z')",
        "DELETE FROM n WHERE v = 1",
        "UPDATE t SET s = 'q' WHERE k = 1",
    ):
        con.execute(change)
        assert sorted(con.execute("FROM v").fetchall()) == sorted(con.execute(query).fetchall())


def test_lists_over_a_join_are_computed_anew(con: tidewheel.Connection) -> None:
    """SQL gives their rows no order: they have the one that DuckDB gives them."""
    con.execute("CREATE TABLE n (k INTEGER, name VARCHAR)")
    con.execute("INSERT INTO n VALUES (1, 'one'), (2, 'two')")
    query = "SELECT k, any_value(name) AS n, list(s) AS l FROM t JOIN n USING (k) GROUP BY k"
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    con.execute("INSERT INTO t VALUES (1, 'aa'), (2, 'c')")
    ((how, why),) = con.execute("SELECT maintenance, reason FROM tidewheel_views()").fetchall()
    assert how == "recompute"
    assert "without ORDER BY depends on the order of the rows" in why
    assert sorted(con.execute("FROM v").fetchall()) == sorted(con.execute(query).fetchall())


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("string_agg(s)", "string_agg without ORDER BY"),
        ("json_group_array(s)", "json_group_array"),
        ("json_group_object(name, s)", "json_group_object"),
        ("json_group_structure(s)", "json_group_structure"),
        ("whole(s)", "whole"),
        ("whole(s, json_group_array(s))", "whole"),
        ("any_value(json_group_array)", "any_value without ORDER BY"),
    ],
)
def test_what_follows_the_order_is_told_as_written(
    con: tidewheel.Connection, call: str, told: str
) -> None:
    """A macro stands for another aggregate, of which its caller knows nothing."""
    con.execute("CREATE TABLE n (k INTEGER, name VARCHAR, json_group_array VARCHAR)")
    con.execute("CREATE MACRO whole(x) AS list(x)::VARCHAR, (x, y) AS json_group_array(x) || y")
    con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {call} AS l FROM t JOIN n USING (k)")
    (why,) = con.execute("SELECT reason FROM tidewheel_views()").fetchone() or ()
    assert why == f"{told} depends on the order of the rows"


def test_columns_without_names_keep_theirs(tmp_path: Path) -> None:
    """They are called by the text that was written."""
    query = "SELECT k, list(v), string_agg(s, ',' ORDER BY s), first(v) FROM t GROUP BY k"
    with tidewheel.connect(tmp_path / "names.db") as con:
        con.execute("CREATE TABLE t (k INTEGER, v INTEGER, s VARCHAR)")
        con.execute("INSERT INTO t VALUES (1, 3, 'b'), (1, 2, 'a'), (2, 5, 'c')")
        wanted = con.execute(f"{query} ORDER BY k")
        names, rows = [c[0] for c in wanted.description or ()], wanted.fetchall()
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        found = con.execute("SELECT * FROM v ORDER BY k")
        assert [c[0] for c in found.description or ()] == names
        assert found.fetchall() == rows
    with tidewheel.connect(tmp_path / "names.db") as con:
        con.execute("INSERT INTO t VALUES (2, 4, 'b')")
        found = con.execute("SELECT * FROM v ORDER BY k")
        assert [c[0] for c in found.description or ()] == names
        assert found.fetchall() == con.execute(f"{query} ORDER BY k").fetchall()
        assert con.execute("VERIFY VIEW v").fetchall() == []


def test_lists_of_several_row_groups_are_right_whatever_order_threads_give() -> None:
    with tidewheel.connect(threads=2) as con:
        con.execute("CREATE TABLE t AS SELECT i % 7 AS k, i AS x FROM range(400000) r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, list(x) AS l FROM t GROUP BY k")
        for change in ("UPDATE t SET x = x + 1 WHERE k < 3", "DELETE FROM t WHERE x % 5 = 2") * 2:
            con.execute(change)
            assert con.execute("VERIFY VIEW v").fetchall() == []
        assert con.execute("SELECT current_setting('threads')").fetchone() == (2,)
