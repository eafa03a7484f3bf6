"""The refresh functions of the specification (2.5 to 2.7), each in one transaction.

RF1 inserts new orders with their lineitems, RF2 deletes old ones with theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..sql.dbapi import Connection
from .schema import BY_NAME


def rf1_rows(folder: Path, epoch: int) -> tuple[pa.Table, pa.Table]:
    """(orders, lineitem): what RF1 inserts in `epoch`, from 1. `folder` is a data folder."""
    orders, lineitem = (_read(folder, name, epoch) for name in ("orders", "lineitem"))
    return (
        orders.select(list(BY_NAME["orders"].column_names)),
        lineitem.select(list(BY_NAME["lineitem"].column_names)),
    )


def rf2_rows(folder: Path, epoch: int) -> pa.Table:
    """The keys of the orders that RF2 deletes in `epoch`: one column, ``o_orderkey``."""
    return _read(folder, "delete", epoch).select(["o_orderkey"])


def _read(folder: Path, name: str, epoch: int) -> pa.Table:
    path = folder / "refresh" / name / f"epoch={epoch}"
    if not path.is_dir():
        raise ValueError(f"{folder} has no refresh set for epoch {epoch}")
    return pq.ParquetDataset(path, partitioning=None).read()


def apply_rf1(connection: Connection, folder: Path, epoch: int) -> int:
    """Inserts the new orders of `epoch` and their lineitems; returns the number of rows."""
    orders, lineitem = rf1_rows(folder, epoch)
    with _frames(connection, __tw_rf_orders=orders, __tw_rf_lineitem=lineitem):
        connection.execute("INSERT INTO orders SELECT * FROM __tw_rf_orders")
        connection.execute("INSERT INTO lineitem SELECT * FROM __tw_rf_lineitem")
    return int(orders.num_rows + lineitem.num_rows)


def apply_rf2(connection: Connection, folder: Path, epoch: int) -> int:
    """Deletes the old orders of `epoch` and their lineitems; returns how many orders there were."""
    keys = rf2_rows(folder, epoch)
    with _frames(connection, __tw_rf_delete=keys):
        chosen = "(SELECT o_orderkey FROM __tw_rf_delete)"
        connection.execute(f"DELETE FROM lineitem WHERE l_orderkey IN {chosen}")
        connection.execute(f"DELETE FROM orders WHERE o_orderkey IN {chosen}")
    return int(keys.num_rows)


def apply_epoch(connection: Connection, folder: Path, epoch: int) -> None:
    """RF1, then RF2: two transactions, as the specification has them."""
    apply_rf1(connection, folder, epoch)
    apply_rf2(connection, folder, epoch)


@contextmanager
def _frames(connection: Connection, **frames: pa.Table) -> Iterator[None]:
    """One transaction in which the frames are readable by name; rolled back on an error."""
    for name, frame in frames.items():
        connection.register(name, frame)
    try:
        connection.begin()
        try:
            yield
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
    finally:
        for name in frames:
            connection.unregister(name)
