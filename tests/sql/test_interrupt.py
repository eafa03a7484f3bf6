"""A running statement ends when it is told to, and the connection lives on."""

import contextlib
import hashlib
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

import tidewheel
from tidewheel.engine.kernels.duckdb import roll_back
from tidewheel.sql import sigint

FOREVER = "select sum(i % 7) from range(100000000000) r(i)"
STATEMENTS = {
    "query": FOREVER,
    "create": f"create table x as {FOREVER}",
    "insert": f"insert into t {FOREVER}",
    "recursion": "with recursive r(a) as (select 1 union all select a + 1 from r) "
    "select count(*) from r",
}


@pytest.fixture
def connection() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute("create table t(a hugeint)")
        yield opened


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Python's own: a shell may have started us with SIGINT ignored, PySpark sets another."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def soon(action: Callable[[], object]) -> None:
    threading.Timer(0.3, action).start()


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS)
def test_interrupt_from_another_thread(connection: tidewheel.Connection, sql: str) -> None:
    soon(connection.interrupt)
    with pytest.raises(tidewheel.OperationalError, match="interrupt"):
        connection.execute(sql).fetchall()
    assert connection.execute("select count(*) from t").fetchall() == [(0,)]


def test_interrupt_of_a_subscription_that_waits(connection: tidewheel.Connection) -> None:
    connection.execute("create materialized view v as select count(*) as n from t")
    rows = connection.execute("subscribe to v")
    (epoch, *_), mark = rows.fetchmany(2)
    assert mark[1:3] == (None, True)
    soon(connection.interrupt)
    with pytest.raises(tidewheel.OperationalError, match="interrupt"):
        rows.fetchone()
    connection.execute("insert into t values (1)")
    rows = connection.execute(f"subscribe to v as of epoch {epoch}")
    assert sorted(row[1:] for row in rows.fetchmany(2)) == [(-1, False, 0), (1, False, 1)]


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS)
def test_ctrl_c(connection: tidewheel.Connection, sql: str) -> None:
    soon(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        connection.execute(sql).fetchall()
    assert connection.execute("select count(*) from t").fetchall() == [(0,)]


def test_a_call_that_goes_on_is_told_again() -> None:
    """DuckDB forgets an interrupt that comes just before its call."""
    told = 0

    def interrupt() -> None:
        nonlocal told
        told += 1

    soon(lambda: os.kill(os.getpid(), signal.SIGINT))
    # a long call that knows nothing of signals
    with pytest.raises(KeyboardInterrupt), sigint.Watch(interrupt) as watch:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 8_000_000)
    assert watch.fired
    assert told >= 2
    before = told
    with sigint.Watch(interrupt):  # the next one is not meant
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000)
    assert told == before


def test_an_interrupt_of_unknown_origin_is_no_ctrl_c(connection: tidewheel.Connection) -> None:
    """One that was meant for the statement before, say: a program does not end by it."""
    soon(lambda: connection._session.connection.interrupt())
    with pytest.raises(tidewheel.OperationalError, match="interrupt"):
        connection.execute(FOREVER).fetchall()
    assert connection.execute("select count(*) from t").fetchall() == [(0,)]


def test_interrupt_while_a_result_streams(connection: tidewheel.Connection) -> None:
    cursor = connection.execute("select i from range(100000000000) r(i)")
    soon(connection.interrupt)
    with pytest.raises(tidewheel.OperationalError, match="interrupt"):
        for _ in cursor.to_arrow_reader():
            pass
    assert connection.execute("select 1").fetchall() == [(1,)]


def test_interrupting_nothing_does_no_harm(connection: tidewheel.Connection) -> None:
    connection.interrupt()
    assert connection.execute("select 1").fetchall() == [(1,)]


def test_interrupted_transaction_can_be_rolled_back(connection: tidewheel.Connection) -> None:
    connection.execute("begin; insert into t values (1)")
    soon(connection.interrupt)
    with pytest.raises(tidewheel.OperationalError):
        connection.execute(FOREVER).fetchall()
    connection.rollback()
    assert connection.execute("from t").fetchall() == []


def test_handler_of_the_program_is_left_alone(connection: tidewheel.Connection) -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: got.append(number))
    try:
        with sigint.Watch(lambda: got.append(-1)):
            os.kill(os.getpid(), signal.SIGINT)
        assert got == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_wakeup_descriptor_of_an_event_loop_is_put_back(
    connection: tidewheel.Connection,
) -> None:
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = signal.set_wakeup_fd(writing.fileno())
    try:
        connection.execute("select 1").fetchall()
        assert signal.set_wakeup_fd(-1) == writing.fileno()
    finally:
        signal.set_wakeup_fd(before)
        reading.close()
        writing.close()


def test_ctrl_c_waits_for_the_end_of_a_statement_but_not_twice() -> None:
    done = []

    def twice_around(times: int) -> None:
        with sigint.Deferred():
            with sigint.Deferred():
                for _ in range(times):
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(0.01)
                done.append(f"inner {times}")
            done.append(f"outer {times}")

    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            twice_around(times)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    twice_around(0)  # it is not told again
    assert done == ["inner 1", "outer 1", "inner 0", "outer 0"]


def test_ctrl_c_between_two_watches_ends_the_second() -> None:
    def watched() -> None:
        with sigint.Deferred():
            os.kill(os.getpid(), signal.SIGINT)
            with sigint.Watch(lambda: None):
                pytest.fail("nothing would have ended this")

    with pytest.raises(KeyboardInterrupt):
        watched()


def test_ctrl_c_ends_what_python_computes(connection: tidewheel.Connection) -> None:
    """After a second, as nothing there asks whether it should end."""
    started = time.monotonic()

    def compute() -> None:
        with sigint.Watch(lambda: None):
            while time.monotonic() - started < 60:
                sum(range(100))  # (Python 3.13.0 leaves an empty loop past the end of its `with`)

    soon(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        compute()
    assert time.monotonic() - started < 30
    assert connection.execute("select 1").fetchall() == [(1,)]


def test_what_finishes_is_not_interrupted(connection: tidewheel.Connection) -> None:
    """Neither by a call, nor by two Ctrl-C; a thread of its own has nothing to wait for."""
    sql = "select count(*) from range(300000000) r(i) where i % 7 = 3"
    for action in (connection.interrupt, lambda: os.kill(os.getpid(), signal.SIGINT)):
        done = []

        def finish(action=action, done=done) -> None:  # type: ignore[no-untyped-def]
            with sigint.Deferred(), connection._session.finishing():
                for wait in (0.1, 0.2):
                    threading.Timer(wait, action).start()
                time.sleep(0.15)
                connection._session.connection.execute(sql).fetchall()
                time.sleep(0.3)
                done.append(1)

        with contextlib.suppress(KeyboardInterrupt):
            finish()
        assert done
    soon(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        connection.execute(FOREVER).fetchall()


def test_a_thread_gets_no_ctrl_c_of_the_main_one() -> None:
    raised: list[BaseException] = []

    def work() -> None:
        try:
            with sigint.Deferred(), sigint.Watch(lambda: None):
                pass
        except BaseException as error:
            raised.append(error)

    def interrupted() -> None:
        with sigint.Deferred():
            os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not raised


def test_a_rollback_is_not_what_an_interrupt_is_meant_for() -> None:
    class Interrupted:
        left = 2
        rolled_back = False

        def rollback(self) -> None:
            self.left -= 1
            if self.left >= 0:
                raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")
            self.rolled_back = True

    connection: Any = Interrupted()
    roll_back(connection)
    assert connection.rolled_back


def test_no_ctrl_c_leaves_a_transaction_or_a_result_behind() -> None:
    """At whatever moment of a statement it comes, the next one runs, and the views are right."""
    rng = random.Random(8)
    with tidewheel.connect() as con:
        con.execute("create table t(a int); create table e(x int, y int)")
        con.execute("create materialized view s as select sum(a) as s, count(*) as n from t")
        con.execute(
            "create materialized view r as with recursive r(n) as (select 0 union "
            "select y from r join e on x = n) from r"
        )
        statements = [
            "insert into t select range from range(50)",
            "update t set a = a + 1 where a % 3 = 0",
            "delete from t where a % 7 = 1",
            "insert into e select i, i + 1 from range(20) g(i)",
            "delete from e where x % 3 = 0",
            "create or replace materialized view c as select a from t where a > 3",
            "from range(5000)",
        ]
        for _ in range(120):
            shot = threading.Timer(rng.uniform(0, 0.02), os.kill, (os.getpid(), signal.SIGINT))
            try:
                shot.start()
                con.execute(rng.choice(statements))
                shot.join()
                time.sleep(0.01)
            except KeyboardInterrupt:
                shot.join()
            assert not con.in_transaction
            [(total, n)] = con.execute("select sum(a), count(*) from t").fetchall()
            assert con.execute("from s").fetchall() == [(total, n)]
        for view in ("s", "r"):
            assert con.execute(f"verify view {view}").fetchall() == []


@pytest.mark.parametrize("view", [False, True])
def test_an_interrupt_between_two_statements_of_one_transaction_is_told(
    connection: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch, view: bool
) -> None:
    """It ends DuckDB's transaction, of which a COMMIT then leaves nothing."""
    session = connection._session
    if view:
        connection.execute("create materialized view v as select sum(a) as s from t")
        connection.execute("from v")
    lent, times = session.lent, []

    @contextlib.contextmanager
    def interrupted(*given: Any) -> Iterator[None]:
        with lent(*given):
            yield
            times.append(1)
            session.interrupt()
            with contextlib.suppress(duckdb.Error):
                session.connection.execute("select error('as DuckDB does')").fetchall()

    monkeypatch.setattr(session, "lent", interrupted)
    with pytest.raises(tidewheel.OperationalError, match="interrupted"):
        connection.executemany("insert into t values (?)", [[i] for i in range(10)])
    assert len(times) == 1  # it is no reason to begin again
    assert connection.execute("select count(*) from t").fetchall() == [(0,)]
    connection.execute("insert into t values (1)")
    assert not view or connection.execute("from v").fetchall() == [(1,)]
