"""The refresh functions of the specification (2.5 to 2.7).

RF1 inserts new orders with their lineitems, RF2 deletes old ones with theirs.
"""

from __future__ import annotations

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
    return connection.append("orders", orders) + connection.append("lineitem", lineitem)


def apply_rf2(connection: Connection, folder: Path, epoch: int) -> int:
    """Deletes the old orders of `epoch` and their lineitems; returns the number of rows."""
    name = "__tw_rf_delete"
    connection.register(name, rf2_rows(folder, epoch))
    try:
        return sum(
            connection.execute(
                f"DELETE FROM {table} WHERE {key} IN (SELECT o_orderkey FROM {name})"
            ).rowcount
            for table, key in (("lineitem", "l_orderkey"), ("orders", "o_orderkey"))
        )
    finally:
        connection.unregister(name)


def apply_epoch(connection: Connection, folder: Path, epoch: int) -> int:
    """RF1 and RF2 in one transaction, which is one epoch; returns the number of rows changed."""
    connection.begin()
    try:
        changed = apply_rf1(connection, folder, epoch) + apply_rf2(connection, folder, epoch)
    except BaseException:
        connection.rollback()
        raise
    connection.commit()
    return changed
