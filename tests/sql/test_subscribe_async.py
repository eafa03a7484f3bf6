"""Subscriptions in an event loop, and across threads."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import tidewheel
from tidewheel.sql.database import History


@pytest.fixture
def connection() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute("create table t(a integer)")
        opened.execute("create materialized view v as select count(*) as n, sum(a) as s from t")
        yield opened


def insert(connection: tidewheel.Connection, *values: int) -> None:
    for value in values:
        connection.execute("insert into t values (?)", [value])


def test_await_and_async_for(connection: tidewheel.Connection) -> None:
    async def follow() -> list[list[tuple[object, ...]]]:
        seen = []
        async with await connection.subscribe("v") as subscription:
            async for update in subscription:
                seen.append(update.rows())
                if len(seen) == 1:
                    assert update.snapshot
                    await asyncio.to_thread(insert, connection, 1, 2, 3)
                if len(seen) == 4:
                    break
        return seen

    seen = asyncio.run(follow())
    assert [row[1:] for row in seen[0]] == [(1, 0, None)]
    assert sorted(row[1:] for row in seen[3]) == [(-1, 2, 3), (1, 3, 6)]


def test_many_followers_need_no_threads(connection: tidewheel.Connection) -> None:
    """More of them than any pool has threads, all woken by one commit."""

    async def follow(seen: list[int]) -> None:
        subscription = await connection.subscribe("v")
        async for update in subscription:
            if not update.snapshot:
                seen.append(update.epoch)
                return

    async def run() -> tuple[list[int], int]:
        seen: list[int] = []
        tasks = [asyncio.create_task(follow(seen)) for _ in range(100)]
        await asyncio.sleep(0.05)
        before = threading.active_count()
        await asyncio.to_thread(insert, connection, 1)
        await asyncio.wait_for(asyncio.gather(*tasks), 20)
        return seen, before

    seen, threads = asyncio.run(run())
    assert len(seen) == 100
    assert len(set(seen)) == 1
    assert threads < 20


def test_closing_ends_the_iteration(connection: tidewheel.Connection) -> None:
    async def run() -> int:
        subscription = await connection.subscribe("v")
        asyncio.get_running_loop().call_later(0.05, subscription.close)
        return len([update async for update in subscription])

    assert asyncio.run(run()) == 1


def test_cancelling_leaves_nothing_behind(connection: tidewheel.Connection) -> None:
    subscription = connection.subscribe("v")

    async def run() -> None:
        async for _ in subscription:
            pass

    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run(), 0.2)

    asyncio.run(cancelled())
    insert(connection, 5)
    update = subscription.read(5)
    assert update is not None
    assert update.delta.num_rows == 2
    assert not connection._session.database.history.waiting


@pytest.mark.parametrize("turns", range(6))
def test_cancelling_as_a_commit_wakes_it(connection: tidewheel.Connection, turns: int) -> None:
    """Whatever the event loop has done of the wake by then, the task ends."""
    subscription = connection.subscribe("v")

    async def run() -> None:
        async for _ in subscription:
            pass

    async def cancelled() -> bool:
        task = asyncio.create_task(run())
        await asyncio.sleep(0.02)
        insert(connection, 1)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=0.5)
        subscription.close()
        return task.cancelled()

    assert asyncio.run(cancelled())


def test_a_thread_follows_while_others_write(connection: tidewheel.Connection) -> None:
    subscription = connection.subscribe("v")
    last: list[tuple[object, ...]] = []

    def follow() -> None:
        for update in subscription:
            last[:] = [row[2:] for row in update.rows() if row[1] == 1] or last
            if last and last[0][0] == 20:
                return

    follower = threading.Thread(target=follow)
    follower.start()
    writers = [threading.Thread(target=insert, args=(connection, *range(5))) for _ in range(4)]
    for thread in writers:
        thread.start()
    for thread in [*writers, follower]:
        thread.join(60)
    assert not follower.is_alive()
    assert last == [(20, 40)]


def test_a_closed_connection_is_no_end_of_the_changes() -> None:
    """Reading on is an error, whichever way; closing the subscription itself is an end."""
    con = tidewheel.connect()
    con.execute("create table t(a integer); create materialized view v as from t")
    waiting, ended = con.subscribe("v"), con.subscribe("v")
    waiting.read()
    caught: list[Exception] = []

    def wait() -> None:
        try:
            waiting.read()
        except tidewheel.ProgrammingError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    con.close()
    thread.join(10)
    assert "the connection is closed" in str(caught[0])

    async def follow() -> None:
        async for _ in waiting:
            pass

    for read in (
        lambda: waiting.read(timeout=0),
        lambda: next(waiting),
        lambda: asyncio.run(follow()),
        ended.read,
    ):
        with pytest.raises(tidewheel.ProgrammingError, match="the connection is closed"):
            read()
    waiting.close()
    assert list(waiting) == []


def test_what_nobody_follows_is_kept_for_a_short_while(connection: tidewheel.Connection) -> None:
    """Views computed anew put all their rows into the history: it may not grow for nobody."""
    connection.execute("insert into t from range(50000)")
    connection.execute(
        "create materialized view w as select a, mode(a % 7) over (partition by a % 3) as m from t"
    )
    history = connection._session.database.history
    for value in range(40):
        insert(connection, value)
    alone = history._bytes
    assert alone <= history.unread_bytes
    resumed = connection.subscribe("w", history._epochs[0].number)
    for value in range(40):
        insert(connection, value)
    assert 2 * alone < history._bytes <= history.max_bytes
    assert resumed.read(1) is not None  # none of what it has not read is gone
    history.max_bytes = alone
    insert(connection, 1)
    with pytest.raises(tidewheel.OperationalError, match="fell behind"):
        resumed.read(1)
    resumed.close()
    insert(connection, 2)
    assert history._bytes <= history.unread_bytes


def test_the_history_counts_the_texts_of_single_rows(connection: tidewheel.Connection) -> None:
    connection.execute("create table doc (id integer primary key, text varchar)")
    connection.execute("insert into doc values (1, '')")
    connection.execute("create materialized view docs as from doc")
    history = connection._session.database.history
    history.unread_bytes = 1 << 20
    for at in range(30):
        connection.execute("update doc set text = ? where id = 1", [str(at % 10) * 100_000])
    assert 1 <= len(history._epochs) < 10  # of two texts each


def test_the_next_epoch_behind_a_number() -> None:
    history = History(max_epochs=3)
    assert history.next(0) is None
    for number in (2, 3, 5, 6):
        history.append(number, {})
    found = [history.next(number) for number in range(7)]
    assert [epoch and epoch.number for epoch in found] == [3, 3, 3, 5, 5, 6, None]


def test_an_interrupt_is_for_statements(connection: tidewheel.Connection) -> None:
    subscription = connection.subscribe("v")
    assert subscription.read(0) is not None
    seen: list[Any] = []
    reader = threading.Thread(target=lambda: seen.append(subscription.read()))
    reader.start()
    connection.interrupt()
    insert(connection, 1)
    reader.join(60)
    assert not seen[0].snapshot


def test_the_epoch_to_resume_from(connection: tidewheel.Connection) -> None:
    insert(connection, 1)
    subscription = connection.subscribe("v")
    assert subscription.epoch is None  # the snapshot is not read: begin with one
    update = subscription.read(0)
    assert update is not None
    assert subscription.epoch == update.epoch
    insert(connection, 2)
    again = connection.subscribe("v", subscription.epoch).read(0)
    assert again is not None
    assert again.epoch == update.epoch + 1


def test_a_closed_subscription_has_no_snapshot(connection: tidewheel.Connection) -> None:
    subscription = connection.subscribe("v")
    subscription.close()
    assert subscription.read(0) is None


def test_what_is_no_timeout_and_no_epoch(connection: tidewheel.Connection) -> None:
    subscription = connection.subscribe("v")
    assert subscription.read(0) is not None
    assert subscription.read(-1) is None
    with pytest.raises(tidewheel.ProgrammingError, match="number of seconds, not nan"):
        subscription.read(float("nan"))
    with pytest.raises(tidewheel.ProgrammingError, match="number of seconds, not '1'"):
        subscription.read("1")  # type: ignore[arg-type]
    with pytest.raises(tidewheel.ProgrammingError, match="whole number, not True"):
        connection.subscribe("v", True)


@pytest.mark.parametrize("epoch", ["", " as of epoch 1"])
def test_an_error_has_its_place(connection: tidewheel.Connection, epoch: str) -> None:
    connection.execute("begin; create materialized view cold as from t")
    with pytest.raises(tidewheel.OperationalError, match="not filled yet") as caught:
        connection.execute(f"subscribe to cold{epoch}")
    assert (caught.value.column, caught.value.length) == (14, 4)
    connection.rollback()
    with pytest.raises(tidewheel.ProgrammingError, match="no maintained view cold") as missing:
        connection.execute(f"subscribe to cold{epoch}")
    assert (missing.value.column, missing.value.length) == (14, 4)
