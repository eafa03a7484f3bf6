"""A program that uses all of the public API; `test_typing.py` runs it and checks its types."""

import asyncio
from pathlib import Path
from typing import Any

import tidewheel
from tidewheel import Connection, Cursor


def fill(connection: Connection) -> int:
    connection.execute("CREATE TABLE t(a INTEGER, b VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), (2, "y")])
    cursor: Cursor = connection.execute("UPDATE t SET b = $b", {"b": "z"})
    return cursor.rowcount


def read(connection: Connection) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    first: tuple[Any, ...] | None = cursor.execute("FROM t").fetchone()
    assert first is not None
    for row in cursor:
        print(row[0])
    names: list[str] = [column[0] for column in cursor.description or ()]
    print(names, cursor.arraysize, cursor.rownumber, cursor.lastrowid)
    return connection.execute("FROM t").fetchall()


async def follow(connection: Connection) -> int:
    async with await connection.subscribe("v") as subscription:
        async for update in subscription:
            rows: list[tuple[Any, ...]] = update.rows()
            return update.epoch + len(rows)
    return 0


def main(path: Path) -> None:
    try:
        with tidewheel.connect(path, autocommit=False, threads=2, fusion=True) as connection:
            fill(connection)
            connection.commit()
            connection.autocommit = True
            in_transaction: bool = connection.in_transaction
            connection.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
            print(read(connection), asyncio.run(follow(connection)), in_transaction)
            connection.execute("FROM t").to_arrow_reader().read_all()
            connection.execute("FROM t").df()
            connection.execute("FROM t").pl()
            connection.interrupt()
    except tidewheel.Error as error:
        message: str = error.message
        place: tuple[int | None, int | None] = (error.line, error.column)
        print(message, place, error.hint)


if __name__ == "__main__":
    main(Path(":memory:"))
