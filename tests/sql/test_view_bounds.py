"""A maintained recursion that does not end is stopped, and nothing of the change stays."""

import threading
import time
from collections.abc import Iterator

import pytest

import tidewheel

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
