"""A running statement ends when it is told to, and the connection lives on."""

import hashlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

import tidewheel
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
