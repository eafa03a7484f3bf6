"""PEP 249, line by line: what the public suite leaves out."""

import copy
import gc
import inspect
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tidewheel


@pytest.fixture
def connection() -> Any:
    with tidewheel.connect() as opened:
        yield opened


# -- exceptions ------------------------------------------------------------------------------------

TREE = {
    "Warning": Exception,
    "Error": Exception,
    "InterfaceError": tidewheel.Error,
    "DatabaseError": tidewheel.Error,
    "DataError": tidewheel.DatabaseError,
    "OperationalError": tidewheel.DatabaseError,
    "IntegrityError": tidewheel.DatabaseError,
    "InternalError": tidewheel.DatabaseError,
    "ProgrammingError": tidewheel.DatabaseError,
    "NotSupportedError": tidewheel.DatabaseError,
}


@pytest.mark.parametrize("name", TREE)
def test_exceptions(connection: tidewheel.Connection, name: str) -> None:
    found = getattr(tidewheel, name)
    assert found.__base__ is TREE[name]
    assert getattr(connection, name) is found


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("selec 1", tidewheel.ProgrammingError),
        ("from nowhere", tidewheel.ProgrammingError),
        ("select nope from range(1)", tidewheel.ProgrammingError),
        ("select 'x'::int", tidewheel.DataError),
        ("select 200::tinyint", tidewheel.DataError),
        ("insert into k values (1)", tidewheel.IntegrityError),
        ("insert into k values (null)", tidewheel.IntegrityError),
        ("from read_csv('/no/such.csv')", tidewheel.OperationalError),
    ],
)
def test_what_is_raised(connection: tidewheel.Connection, sql: str, error: type) -> None:
    connection.execute("create table k(a integer primary key); insert into k values (1)")
    with pytest.raises(error):
        connection.execute(sql).fetchall()


# -- connections -----------------------------------------------------------------------------------


def test_closed_connection_refuses_everything() -> None:
    connection = tidewheel.connect()
    cursor = connection.execute("select 1")
    connection.close()
    calls: list[Callable[[], object]] = [
        connection.cursor,
        connection.commit,
        connection.rollback,
        connection.begin,
        connection.close,
        connection.__enter__,
        lambda: connection.execute("select 1"),
        lambda: connection.register("a", None),
        lambda: connection.subscribe("v"),
        lambda: cursor.execute("select 1"),
        lambda: cursor.executemany("select 1", []),
        cursor.fetchone,
        cursor.fetchmany,
        cursor.fetchall,
        cursor.to_arrow_table,
        lambda: next(cursor),
        lambda: cursor.setinputsizes([1]),
        lambda: cursor.setoutputsize(1),
    ]
    for call in calls:
        with pytest.raises(tidewheel.Error, match="the connection is closed"):
            call()
    connection.interrupt()  # from another thread it may come late
    cursor.close()


def test_with_closes_and_rolls_back(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as one:
        one.execute("create table t(a int)")
        one.begin()
        one.execute("insert into t values (1)")
    with pytest.raises(tidewheel.ProgrammingError):
        one.cursor()
    with tidewheel.connect(path) as two:
        assert two.execute("from t").fetchall() == []
        two.close()  # the block may have done so itself


def test_a_connection_that_is_forgotten_rolls_back(tmp_path: Path) -> None:
    """It kept others from writing for good."""
    with tidewheel.connect(tmp_path / "a.db") as con:
        con.execute("create table t(a int)")
        con.execute("create materialized view v as select count(*)::int as n from t")
        forgotten = tidewheel.connect(tmp_path / "a.db")
        forgotten.begin()
        cursor = forgotten.execute("insert into t values (1)")
        rows = forgotten.execute("from range(100000)").to_arrow_reader()
        del forgotten
        gc.collect()
        with pytest.raises(tidewheel.OperationalError, match="open transaction"):
            con.execute("insert into t values (2)")
        del cursor
        gc.collect()
        con.execute("insert into t values (3)")
        assert con.execute("select a, n from t, v").fetchall() == [(3, 1)]
        assert rows.read_all().num_rows == 100_000


def test_a_cursor_keeps_its_connection() -> None:
    cursor = tidewheel.connect().execute("from range(3)")
    gc.collect()
    assert cursor.fetchall() == [(0,), (1,), (2,)]
    assert isinstance(cursor.connection, tidewheel.Connection)


# -- autocommit ------------------------------------------------------------------------------------


def test_autocommit(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as one, tidewheel.connect(path, autocommit=False) as two:
        assert (one.autocommit, two.autocommit) == (True, False)
        one.execute("create table t(a int)")
        assert not one.in_transaction
        two.execute("insert into t values (1)")
        assert two.in_transaction
        assert one.execute("from t").fetchall() == []
        two.rollback()
        two.execute("insert into t values (2)")
        assert two.execute("from t").fetchall() == [(2,)]
        two.commit()
        assert not two.in_transaction
        assert one.execute("from t").fetchall() == [(2,)]

        two.executemany("insert into t values (?)", [[3], [4]])
        assert one.execute("select count(*) from t").fetchall() == [(1,)]
        two.autocommit = True  # commits
        assert not two.in_transaction
        assert one.execute("select count(*) from t").fetchall() == [(3,)]
        two.execute("insert into t values (5)")
        assert one.execute("select count(*) from t").fetchall() == [(4,)]


def test_without_autocommit_a_failed_transaction_asks_for_rollback() -> None:
    with tidewheel.connect(autocommit=False) as connection:
        connection.execute("create table t(a integer primary key)")
        connection.commit()
        connection.execute("insert into t values (1)")
        with pytest.raises(tidewheel.IntegrityError):
            connection.execute("insert into t values (1)")
        with pytest.raises(tidewheel.Error, match=r"ROLLBACK|rollback"):
            connection.execute("from t")
        connection.rollback()
        assert connection.execute("from t").fetchall() == []


def test_without_autocommit_a_view_moves_with_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as one, tidewheel.connect(path, autocommit=False) as two:
        one.execute("create table t(a int)")
        one.execute("create materialized view v as select count(*) as n from t")
        for i in range(3):
            two.execute("insert into t values (?)", [i])
            assert two.execute("from v").fetchall() == [(i + 1,)]
        assert one.execute("from v").fetchall() == [(0,)]
        two.commit()
        assert one.execute("from v").fetchall() == [(3,)]


# -- cursors ---------------------------------------------------------------------------------------


def test_attributes_of_a_cursor(connection: tidewheel.Connection) -> None:
    cursor = connection.cursor()
    assert (cursor.rowcount, cursor.description, cursor.lastrowid) == (-1, None, None)
    assert (cursor.arraysize, cursor.rownumber) == (1, None)
    assert cursor.connection is connection
    assert not hasattr(cursor, "nextset")
    assert inspect.signature(cursor.callproc).parameters.keys() == {"name", "parameters"}


def test_rownumber_counts_rows(connection: tidewheel.Connection) -> None:
    cursor = connection.execute("from range(10)")
    assert cursor.rownumber == 0
    cursor.fetchone()
    cursor.fetchmany(3)
    assert cursor.rownumber == 4
    assert next(cursor) == (4,)
    assert len(cursor.fetchall()) == 5
    assert cursor.rownumber == 10
    assert cursor.fetchone() is None
    assert cursor.rownumber == 10
    assert cursor.execute("select 1").rownumber == 0


def test_cursors_iterate(connection: tidewheel.Connection) -> None:
    cursor = connection.execute("from range(4)")
    assert iter(cursor) is cursor
    assert next(cursor) == (0,)
    assert [row for row, _ in zip(cursor, range(2), strict=False)] == [(1,), (2,)]
    assert list(cursor) == []
    with pytest.raises(StopIteration):
        next(cursor)
    with pytest.raises(tidewheel.ProgrammingError, match="no rows"):
        next(connection.cursor())


@pytest.mark.parametrize("fetch", ["fetchone", "fetchmany", "fetchall", "__next__", "df", "pl"])
@pytest.mark.parametrize(
    "sql",
    [
        None,
        "create table n(a int)",
        "insert into kept values (1)",
        "set threads = 1",
        "begin; commit",
        "drop table kept",
    ],
)
def test_fetching_without_rows_is_an_error(
    connection: tidewheel.Connection, fetch: str, sql: str | None
) -> None:
    connection.execute("create table kept(a int)")
    cursor = connection.cursor()
    if sql is not None:
        cursor.execute("select 1")
        cursor.execute(sql)
    assert cursor.description is None
    with pytest.raises(tidewheel.ProgrammingError, match="no rows"):
        getattr(cursor, fetch)()


def test_a_failed_statement_leaves_no_old_rows(connection: tidewheel.Connection) -> None:
    cursor = connection.execute("select 1")
    with pytest.raises(tidewheel.ProgrammingError):
        cursor.execute("from nowhere")
    assert cursor.description is None
    with pytest.raises(tidewheel.ProgrammingError, match="no rows"):
        cursor.fetchall()


def test_closed_cursor_refuses(connection: tidewheel.Connection) -> None:
    cursor = connection.execute("select 1")
    cursor.close()
    cursor.close()
    for call in (cursor.fetchone, lambda: cursor.execute("select 1"), lambda: next(cursor)):
        with pytest.raises(tidewheel.ProgrammingError, match="the cursor is closed"):
            call()
    assert connection.execute("select 1").fetchone() == (1,)


def test_executemany(connection: tidewheel.Connection) -> None:
    connection.execute("create table t(a int, b varchar)")
    cursor = connection.cursor()
    cursor.executemany("insert into t values (?, ?)", ((i, str(i)) for i in range(3)))
    assert cursor.rowcount == 3
    cursor.executemany("insert into t values ($a, $b)", [{"a": 7, "b": "x"}, {"b": "y", "a": 8}])
    assert cursor.rowcount == 2
    cursor.executemany("update t set b = b || '!' where a >= ?", [[1], [7]])
    assert cursor.rowcount == 4 + 2
    cursor.executemany("insert into t values (?, ?)", [])
    assert connection.execute("select count(*) from t").fetchone() == (5,)
    with pytest.raises(tidewheel.ProgrammingError, match="2 parameters, 1 given"):
        cursor.executemany("insert into t values (?, ?)", [(1, "a"), (2,)])
    assert connection.execute("select count(*) from t").fetchone() == (5,)
    with pytest.raises(tidewheel.Error):
        cursor.fetchall()


def test_named_parameters(connection: tidewheel.Connection) -> None:
    given = {"low": 2, "high": 4}
    sql = "select list(range) from range(10) where range between $low and $high"
    assert connection.execute(sql, given).fetchone() == ([2, 3, 4],)
    with pytest.raises(tidewheel.ProgrammingError, match="no value for parameter \\$high"):
        connection.execute(sql, {"low": 1})
    with pytest.raises(tidewheel.ProgrammingError, match="no parameter \\$hihg"):
        connection.execute(sql, {**given, "hihg": 1})
    with pytest.raises(tidewheel.ProgrammingError):
        connection.execute(sql, [1, 2])


def test_text_is_never_taken_for_a_parameter(connection: tidewheel.Connection) -> None:
    sql = "select '?', '$a', \"?\", $$ ? $$, ? /* ? */ -- ?\n from (select 1 as \"?\")"
    assert connection.execute(sql, [5]).fetchall() == [("?", "$a", 1, " ? ", 5)]


# -- threads (threadsafety 2) ----------------------------------------------------------------------


def run_all(*work: Callable[[], object]) -> list[BaseException]:
    """Run functions in threads at once; what they raised."""
    raised: list[BaseException] = []
    start = threading.Barrier(len(work))

    def call(function: Callable[[], object]) -> None:
        start.wait()
        try:
            function()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=call, args=(function,)) for function in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def test_threads_share_the_module(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as connection:
        connection.execute("create table t(a int)")

    def work() -> None:
        for i in range(5):
            with tidewheel.connect(path) as own:
                own.execute("insert into t values (?)", [i])

    assert run_all(*[work] * 4) == []
    with tidewheel.connect(path) as connection:
        assert connection.execute("select count(*), sum(a) from t").fetchall() == [(20, 40)]


def test_threads_share_a_connection(connection: tidewheel.Connection) -> None:
    connection.execute("create table t(a int)")
    connection.execute("create materialized view v as select count(*) as n, sum(a) as s from t")

    def write() -> None:
        for _ in range(15):
            connection.execute("insert into t values (1)")

    def read() -> None:
        for _ in range(15):
            cursor = connection.execute("select range as a from range(5000)")
            first = cursor.fetchmany(10)
            count, total = connection.execute("from v").fetchall()[0]
            assert count == (total or 0)
            assert first + cursor.fetchall() == [(i,) for i in range(5000)]

    def many() -> None:
        for _ in range(5):
            connection.executemany("insert into t values (?)", [[1], [1], [1]])

    assert run_all(write, read, read, many) == []
    assert connection.execute("from v").fetchall() == [(30, 30)]


def test_interrupt_from_another_thread(connection: tidewheel.Connection) -> None:
    endless = "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r"
    long = "select count(*) from range(100000000) a, range(100000) b"
    for sql in (long, endless):
        cursor = connection.cursor()
        raised: list[BaseException] = []

        def run(cursor: tidewheel.Cursor, sql: str, raised: list[BaseException]) -> None:
            try:
                cursor.execute(sql).fetchall()
            except tidewheel.Error as error:
                raised.append(error)

        thread = threading.Thread(target=run, args=(cursor, sql, raised))
        thread.start()
        while thread.is_alive():
            connection.interrupt()
            time.sleep(0.02)
        assert isinstance(raised[0], tidewheel.OperationalError)
        assert connection.execute("select 1").fetchall() == [(1,)]


def test_closing_while_another_thread_reads(connection: tidewheel.Connection) -> None:
    opened = tidewheel.connect()
    cursor = opened.execute("select range, repeat('x', 50) from range(2000000)")
    assert cursor.fetchone() is not None

    def read() -> None:
        while cursor.fetchmany(1000):
            pass

    raised = run_all(read, opened.close)
    assert all(isinstance(error, tidewheel.Error) for error in raised)
    with pytest.raises(tidewheel.Error, match="closed"):
        cursor.fetchone()


# -- what strangers try ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.execute(None), "SQL is text"),
        (lambda c: c.execute(b"select 1"), "SQL is text .str., not bytes"),
        (lambda c: c.executemany(b"select 1", [[1]]), "SQL is text"),
        (lambda c: c.executemany("select ?", None), "not NoneType\nHint: one set is given as"),
        (lambda c: c.executemany("select $a", {"a": 1}), "one set is given as"),
        (lambda c: c.execute("select ?", 5), r"not int\nHint: one value is given as \[value\]"),
        (lambda c: c.execute("select ?", "abc"), "not str"),
        (lambda c: c.execute("select $1", {1: 5}), r"not int: 1\nHint: .* \$1 under '1'"),
        (lambda c: c.execute("select :a, b", {"a": 1}), r"\^\^\nHint: a parameter is written \$a"),
        (lambda c: c.execute("select %s", [1]), r"\^\^\nHint: a parameter is written \? or \$name"),
        (lambda c: c.execute("select %(a)s", [1]), r"a parameter is written \? or \$name"),
        (lambda c: c.execute("select %(a)s", {"a": 1}), r"\^{5}\nHint: a parameter is written \$a"),
        (lambda c: c.execute("select 1, @a", {"a": 1}), r"\^\^\nHint: a parameter is written \$a"),
        (lambda c: c.execute("select {a}", {"a": 1}), r"\^\^\^\nHint: a parameter is written \$a"),
        (lambda c: c.execute("select :1", [1]), r"\^\^\nHint: a parameter is written \? or \$1"),
        (lambda c: c.executemany("select ?", pd.DataFrame({"a": [1]})), "append.table, data."),
        (lambda c: c.execute("begin immediate"), r"\^\nHint: leave it out: a transaction sees"),
        (lambda c: c.execute("select 1 where 1 in (?)", [[1]]), "Hint: .* without parentheses"),
        (lambda c: c.register("q", None), "not None"),
        (lambda c: c.unregister(None), "the name of a frame is text .str., not NoneType"),
        (lambda c: setattr(c, "autocommit", None), "autocommit is True or False, not None"),
        (lambda c: tidewheel.connect(autocommit="no"), "autocommit is True or False, not 'no'"),  # type: ignore[arg-type]
        (lambda c: c.execute("refresh materialized view v"), "there is no REFRESH"),
        (lambda c: c.subscribe("nope"), "there is no maintained view nope"),
    ],
)
def test_mistakes_have_a_cure(
    connection: tidewheel.Connection, call: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(tidewheel.DatabaseError, match=message):
        call(connection)
    assert connection.execute("select 1").fetchall() == [(1,)]


def test_nothing_is_pickled_or_copied(connection: tidewheel.Connection) -> None:
    """What two copies would share, or a process would not have."""
    connection.execute("create materialized view v as select 1 as a")
    for kept in connection, connection.cursor(), connection.subscribe("v"):
        for how in pickle.dumps, copy.copy, copy.deepcopy:
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                how(kept)  # type: ignore[operator]


def test_no_hidden_name_is_suggested(connection: tidewheel.Connection) -> None:
    connection.execute("create materialized view v as select 1 as a; drop materialized view v")
    with pytest.raises(tidewheel.ProgrammingError) as raised:
        connection.execute("from v")
    assert "__tw" not in str(raised.value)
