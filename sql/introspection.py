"""What the engine knows of its maintained views, as table functions that any SELECT may read.

    tidewheel_views()       a row per maintained view
    tidewheel_vertices()    a row per operator of a view that is filled, and per index of a table
    tidewheel_iterations()  a row per epoch, recursive table and loop counters: what changed there

They are made when a statement names one: macros of the connection over Arrow tables of what is
known at that moment. Whoever does not ask pays for a few counters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.quoting import parts_of_key

from ..planner.maintain import MaintainedView, Maintainer
from .view_text import as_written

_NAMED = re.compile(r"\btidewheel_(?:views|vertices|iterations)\b", re.IGNORECASE)

_NAME = [("database_name", "string"), ("schema_name", "string"), ("view_name", "string")]
_STATE = [("state_rows", "int64"), ("state_bytes", "int64")]
_VIEWS = [
    *_NAME,
    ("sql", "string"),
    ("reads", "string[]"),
    ("settings", "string"),
    ("filled", "bool_"),
    ("maintenance", "string"),
    ("reason", "string"),
    *_STATE,
    ("epochs", "int64"),
    ("changed_rows", "int64"),
    ("seconds", "float64"),
    ("fill_seconds", "float64"),
    ("last_epoch", "int64"),
    ("last_seconds", "float64"),
]
_VERTICES = [
    *_NAME,
    ("vertex_id", "int32"),
    ("vertex", "string"),
    ("kind", "string"),
    ("detail", "string"),
    *_STATE,
    ("rows_in", "int64"),
    ("rows_out", "int64"),
    ("steps", "int64"),
    ("seconds", "float64"),
]
_ITERATIONS = [
    *_NAME,
    ("epoch", "int64"),
    ("recursive_table", "string"),
    ("counters", "int64[]"),
    ("changes", "int64"),
]

Columns = list[tuple[str, str]]
"""Names, and Arrow's names of the types."""
Rows = Iterable[tuple[Any, ...]]


def named(text: str) -> list[str]:
    """The functions of this module that `text` names."""
    return sorted({m.lower() for m in _NAMED.findall(text)}) if "idewheel_" in text.lower() else []


def provide(connection: duckdb.DuckDBPyConnection, what: str, maintainer: Maintainer) -> None:
    """Make the function `what` readable on a connection, as of now."""
    columns_of, rows = _TABLES[what]
    schema = pa.schema([(name, _type(kind)) for name, kind in columns_of])
    maintained = [view for view in maintainer.ordered() if not view.plain]
    found = [row for view in maintained for row in rows(view)]
    written = _as_made(connection)
    found = [(*written.get(row[:3], row[:3]), *row[3:]) for row in found]
    if what == "tidewheel_vertices":
        found += _indexes(maintainer)
    columns = list(zip(*found, strict=True)) if found else [()] * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    source = f"__tw_{what}"
    connection.register(source, pa.Table.from_arrays(arrays, schema=schema))
    macro = f"CREATE OR REPLACE TEMP MACRO {what}() AS TABLE FROM {source}"
    connection.execute(macro).fetchall()


def _type(name: str) -> pa.DataType:
    if name.endswith("[]"):
        return pa.list_(_type(name[:-2]))
    return getattr(pa, name)()


def _as_made(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The names of views as they were written, by those in lower case."""
    rows = connection.execute(
        "SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal"
    ).fetchall()
    return {tuple(part.lower() for part in row): row for row in rows}


def _names(view: MaintainedView) -> tuple[str, ...]:
    return parts_of_key(view.key)


def _views(view: MaintainedView) -> Rows:
    plan = view.plan
    vertices = plan.statistics() if plan is not None else []
    yield (
        *_names(view),
        as_written(view.sql)[0],
        sorted(".".join(parts_of_key(key)) for key in view.reads),
        ", ".join(f"{name} = '{value}'" for name, value in view.home.meaning) or None,
        plan is not None,
        None if plan is None else "recompute" if plan.reason else "incremental",
        None if plan is None else plan.reason or None,
        sum(v["rows"] for v in vertices),
        sum(v["bytes"] for v in vertices),
        view.epochs,
        view.changed_rows,
        view.seconds,
        view.fill_seconds,
        view.last_epoch,
        view.last_seconds if view.last_epoch is not None else None,
    )


def _vertices(view: MaintainedView) -> Rows:
    for i, v in enumerate(view.plan.statistics() if view.plan is not None else []):
        values = ("rows", "bytes", "rows_in", "rows_out", "steps", "seconds")
        measured = (v[name] for name in values)
        yield (*_names(view), i, v["vertex"], v["kind"], v["detail"] or None, *measured)


def _indexes(maintainer: Maintainer) -> Rows:
    """The indexes of tables, which are no view's."""
    for key, index in maintainer.indexes.items():
        database, schema, table = parts_of_key(key)
        name = f"index of {table}"
        held = len(index), index.nbytes
        yield (database, schema, None, None, name, "index", index.detail, *held, *[None] * 4)


def _iterations(view: MaintainedView) -> Rows:
    for found in view.iterations:
        yield (*_names(view), *found)


_TABLES: dict[str, tuple[Columns, Callable[[MaintainedView], Rows]]] = {
    "tidewheel_views": (_VIEWS, _views),
    "tidewheel_vertices": (_VERTICES, _vertices),
    "tidewheel_iterations": (_ITERATIONS, _iterations),
}
FUNCTIONS = frozenset(_TABLES)
