"""Tidewheel: an embedded SQL engine whose answers stay current.

A module of Python's database interface (PEP 249):

>>> import tidewheel
>>> with tidewheel.connect() as connection:
...     connection.execute("SELECT 6 * ? AS answer", [7]).fetchall()
[(42,)]
"""

from .sql.cursor import Cursor
from .sql.dbapi import Connection, connect
from .sql.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from .sql.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

__version__ = "0.1.0"

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections, not cursors."""
paramstyle = "qmark"
"""``?``; ``$name`` with a mapping works as well."""

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
