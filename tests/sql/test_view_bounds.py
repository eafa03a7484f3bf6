"""A maintained recursion that does not end is stopped, and nothing of the change stays."""

import threading
import time
from collections.abc import Iterator

import pytest

import tidewheel
from tidewheel.planner import lower_view_recursion, view_choice

WAYS = """
create materialized view ways as
with recursive r(a, b) as (
    select a, b from edge union all select r.a, e.b from r join edge e on e.a = r.b
)
select a, count(*) as n from r group by a
"""


@pytest.fixture
def connection() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute("create table edge(a integer, b integer)")
        opened.execute("insert into edge values (1, 2), (2, 3)")
        opened.execute(WAYS)
        yield opened


def state(connection: tidewheel.Connection) -> tuple[object, object, object]:
    return (
        connection.execute("from edge order by a").fetchall(),
        connection.execute("from ways order by a").fetchall(),
        connection.execute("verify view ways").fetchall(),
    )


def test_bounded_by_the_setting(connection: tidewheel.Connection) -> None:
    before = state(connection)
    connection.execute("set max_iterations = 50")
    with pytest.raises(tidewheel.OperationalError, match="does not end within max_iterations = 50"):
        connection.execute("insert into edge values (3, 1)")
    assert state(connection) == before
    connection.execute("insert into edge values (3, 4)")
    assert connection.execute("from ways order by a").fetchall() == [(1, 3), (2, 2), (3, 1)]


def test_stopped_from_another_thread(connection: tidewheel.Connection) -> None:
    before = state(connection)
    raised: list[BaseException] = []

    def close_the_circle() -> None:
        try:
            connection.execute("insert into edge values (3, 1)")
        except tidewheel.Error as error:
            raised.append(error)

    thread = threading.Thread(target=close_the_circle)
    thread.start()
    while thread.is_alive():
        connection.interrupt()
        time.sleep(0.05)
    assert isinstance(raised[0], tidewheel.OperationalError)
    assert "interrupted" in str(raised[0]).lower()
    assert state(connection) == before


# -- every bound, in every way in which a recursion is maintained

FORMS = {
    # name: (query over edge, what makes it run away)
    "bag": (
        "with recursive r(a, b) as (select a, b from edge union all "
        "select r.a, e.b from r join edge e on e.a = r.b) from r",
        "insert into edge values (3, 1)",
    ),
    "counter": (
        "with recursive r(x, n) as (select a, 0 from edge union "
        "select e.b, n + 1 from r join edge e on e.a = r.x) from r",
        "insert into edge values (3, 1)",
    ),
    "worse and worse": (
        "with recursive r(x, v) as (select 1, 0 union "
        "select e.b, min(r.v - 1) from r join edge e on e.a = r.x group by e.b) from r",
        "insert into edge values (3, 1)",
    ),
    "keyed": (
        "with recursive r(x, n) using key (x) as (select a, 0 from edge union "
        "select e.b, max(n) + 1 from r join edge e on e.a = r.x group by e.b) from r",
        "insert into edge values (3, 1)",
    ),
    "mutual": (
        "with recursive r(x, n) as (select a, 0 from edge union select x, n + 1 from s), "
        "s(x, n) as (select e.b, r.n from r join edge e on e.a = r.x) from s",
        "insert into edge values (3, 1)",
    ),
    "mutually": (
        "with mutually recursive r(x int) as (select a from edge where a > 2 union all "
        "select x + 1 from r) from r",
        "insert into edge values (3, 1)",
    ),
}
BOUNDS = {
    "max_iterations": "60",
    "max_recursive_rows": "60",
    "max_recursive_bytes": "1500",
    "statement_timeout": "'300ms'",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_commit_that_runs_away_is_refused(form: str) -> None:
    query, change = FORMS[form]
    with tidewheel.connect() as con:
        con.execute("create table edge(a integer, b integer); create table log(n integer)")
        con.execute("insert into edge values (1, 2), (2, 3)")
        con.execute(f"create materialized view v as {query}")
        con.execute("create materialized view logged as select count(*) as n from log")
        before = sorted(con.execute("from v").fetchall()), con.execute("from edge").fetchall()
        for number, (bound, value) in enumerate(BOUNDS.items()):
            con.execute(f"set {bound} = {value}")
            for _ in range(3):
                con.execute("begin; insert into log values (1)")
                con.execute(change)
                with pytest.raises(tidewheel.OperationalError) as caught:
                    con.execute("commit")
                said = str(caught.value)
                # (a process that the machine holds up for long is stopped from outside its loop)
                if not said.startswith("the statement took longer than statement_timeout"):
                    break
                con.execute(f"reset {bound}")  # late twice, a view stays as it is under that time
                con.execute("delete from log where n < 0")
                con.execute(f"set {bound} = {value}")
            # (that these rows repeat, up to a counter, is seen before so much time has passed)
            if form in ("bag", "counter") and bound == "statement_timeout":
                assert "never ends: the rows of iteration " in said
            else:
                assert f"does not end within {bound}" in said
                assert "it is at iteration " in said
                assert " rows; the last steps added " in said
                assert f"SET {bound} to more" in said
            con.execute(f"reset {bound}")
            there = sorted(con.execute("from v").fetchall()), con.execute("from edge").fetchall()
            assert there == before
            assert con.execute("from logged").fetchall() == [(number,)]
            con.execute("insert into log values (2)")  # it goes on
            assert con.execute("from logged").fetchall() == [(number + 1,)]
        con.execute("insert into edge values (0, 1)")
        assert con.execute("verify view v").fetchall() == []


def test_what_a_view_holds_is_never_cut_short(connection: tidewheel.Connection) -> None:
    connection.execute("set on_limit = 'return'; set max_iterations = 10")
    with pytest.raises(tidewheel.OperationalError, match="max_iterations = 10"):
        connection.execute("insert into edge select i, i + 1 from range(3, 30) t(i)")
    with pytest.raises(tidewheel.OperationalError, match="max_iterations = 10"):
        connection.execute(
            "create materialized view n as with recursive r(n) as "
            "(select 1 union all select n + 1 from r where n < 99) from r"
        )
    assert state(connection)[1:] == ([(1, 2), (2, 1)], [])


# -- time


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from range(100000000000) t(i) where i % 7 = 3",
        "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r",
        "with recursive r(n, t) as (select 1, 'a' union select n + 1, t || 'b' from r) from r",
        "create table k as select i from range(100000000000) t(i) where i % 7 = 3",
    ],
)
def test_statement_timeout(sql: str) -> None:
    # (a fast machine goes round 100,000 times in that time)
    with tidewheel.connect(statement_timeout="200ms", max_iterations=10**9) as con:
        assert con.execute("show statement_timeout").fetchall() == [("200",)]
        with pytest.raises(tidewheel.OperationalError, match="statement_timeout"):
            con.execute(sql).fetchall()
        assert con.execute("select 1").fetchall() == [(1,)]
        con.execute("set statement_timeout = none")
        assert con.execute("select count(*) from range(1000)").fetchall() == [(1000,)]


@pytest.mark.parametrize(
    ("written", "shown"),
    [("250", "250"), ("'2s'", "2000"), ("'1.5 s'", "1500"), ("'1min'", "60000"), ("0", "none")],
)
def test_times(connection: tidewheel.Connection, written: str, shown: str) -> None:
    connection.execute(f"set statement_timeout = {written}")
    assert connection.execute("show statement_timeout").fetchall() == [(shown,)]


def test_what_is_no_time(connection: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.ProgrammingError, match="soon is no value") as caught:
        connection.execute("set statement_timeout = 'soon'")
    assert "500ms, 2s or 1min" in str(caught.value)


@pytest.mark.parametrize("union", ["UNION", "UNION ALL"])
def test_iterations_that_are_those_of_the_query_end_where_its_do(
    monkeypatch: pytest.MonkeyPatch, union: str
) -> None:
    monkeypatch.setattr(view_choice, "AT_ONCE", 1e9)  # its operators are filled
    monkeypatch.setattr(lower_view_recursion, "DEFAULT_ROUNDS", 50)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE s (k INTEGER)")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE t(k, n) USING KEY (k) AS "
            f"(SELECT 1, 0 {union} SELECT k, n + 1 FROM t WHERE EXISTS (FROM s)) FROM t"
        )
        assert con.execute("FROM v").fetchall() == [(1, 0)]
        with pytest.raises(tidewheel.OperationalError, match="max_iterations = 50"):
            con.execute("INSERT INTO s VALUES (1)")
        assert con.execute("FROM s").fetchall() == []
        assert con.execute("FROM v").fetchall() == [(1, 0)]
