"""Queries for the rows of a maintained view that have some values: an index of ours tells which.

    SELECT role, n FROM allowed WHERE user = ? AND thing = 7
    FROM allowed WHERE user = 'ann'
    SELECT 1 FROM allowed WHERE user = ? LIMIT 1      SELECT count(*) FROM allowed WHERE user = ?
    SELECT EXISTS (FROM allowed WHERE user = ?) AS known

To send such a query through DuckDB takes ten times as long, and it looks at all rows of the view.
Whatever is not surely of this form, or of columns that are no integers, texts or dates, is
DuckDB's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.planner.context import Parameters
from tidewheel.sql import errors
from tidewheel.sql.functions import BARE
from tidewheel.sql.repeated import (
    FLAGS,
    NAME,
    VALUE,
    any_reserved,
    bound,
    is_text,
    name_of,
    names,
    plain,
)
from tidewheel.sql.row_rules import names_rows

if TYPE_CHECKING:
    from tidewheel.engine.state.columns import ColumnType
    from tidewheel.engine.state.rowwise import Row
    from tidewheel.sql.view_reading import Reading

_EQUAL = rf"{NAME}\s*=\s*{VALUE}"
_ITEMS = rf"\*|(?P<items>{NAME}(?:\s*,\s*{NAME})*)"
_ONE = r"1|TRUE"
_FROM = (
    rf"FROM\s+(?P<view>{NAME}(?:\.{NAME}){{0,2}})\s+"
    rf"WHERE\s+(?P<where>{_EQUAL}(?:\s+AND\s+{_EQUAL})*)(?P<limit>\s+LIMIT\s+1)?\s*"
)
_AS = rf"(?:\s+AS\s+{NAME})?"
_PART = re.compile(rf"({NAME})\s*=\s*({VALUE})", FLAGS)
_LONGEST = 2048
_KEPT = 256


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Of rows, or one for each of them, or their number; of whether there are any.

    (They take 2 ms to compile, and who has no views needs none.)
    """
    counted = rf"count\s*\(\s*\*\s*\){_AS}"
    rows = rf"\s*(?:SELECT\s+(?:(?P<one>(?:{_ONE}){_AS})|(?P<count>{counted})|{_ITEMS})\s+)?{_FROM}"
    exists = (  # (without a name it is called as it is written)
        rf"\s*SELECT\s+EXISTS\s*\(\s*(?:SELECT\s+(?:(?P<one>{_ONE})|{_ITEMS})\s+)?{_FROM}\)"
        rf"\s+AS\s+(?P<name>{NAME})\s*"
    )
    return re.compile(rows, FLAGS), re.compile(exists, FLAGS)


@dataclass(frozen=True)
class _Form:
    """A query without its values."""

    view: tuple[str, ...]
    items: tuple[str, ...]
    """As they are written; empty for all columns."""
    columns: tuple[str, ...]
    """In lower case."""
    told: str = ""
    """Of the rows, in place of their columns: `one`, `count` or `exists`."""
    written: str = ""
    """What is selected then, of which the answer's column has its name."""
    first: bool = False
    """Is it the first one alone?"""


@dataclass
class _Known:
    """What a form means in a version of the catalog and the settings."""

    version: object
    key: str = ""
    """Of the view; empty if DuckDB is to be asked."""
    items: list[int] = field(default_factory=list)
    columns: tuple[int, ...] = ()
    """Positions in the view, of what is selected and of what is compared."""
    kinds: list[ColumnType] = field(default_factory=list)
    """Types of what is compared."""
    schema: pa.Schema | None = None
    """Of DuckDB's answer."""
    told: list[ColumnType] = field(default_factory=list)
    """The type of what is told of the rows."""


class PointReads:
    """The forms of one connection."""

    def __init__(self) -> None:
        self._known: dict[_Form, _Known] = {}

    def find(self, text: str, given: Parameters, views: Reading) -> pa.Table | None:
        """The rows that a text asks for; None: ask DuckDB. Hold `database.reading`."""
        cut = _cut(text) if len(text) <= _LONGEST else None
        if cut is None:
            return None
        form, texts = cut
        values = bound(texts, plain(given))
        if values is None:
            return None
        version = views.host.version, views.host.catalog.settings_version
        known = self._known.get(form)
        if known is None or known.version != version:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[form] = _learned(form, version, views)
        if not known.key or known.schema is None:
            return None
        row = _held(values, known.kinds)
        found = None if row is None else views.found(known.key, known.columns, row)
        if found is None:
            return None
        if form.told:
            (kind,) = known.told
            column = kind.dump(kind.of(_told(form, found.num_rows)))
            return pa.Table.from_arrays([column], schema=known.schema)
        rows = found.select(known.items).rename_columns(known.schema.names)
        return rows if known.schema.equals(rows.schema, True) else None


def _told(form: _Form, rows: int) -> list[int | bool]:
    """What is said of so many rows."""
    if form.told == "count":
        return [rows]
    if form.told == "exists":
        return [rows > 0]
    one = 1 if form.written[0] == "1" else True
    return [one] * (min(rows, 1) if form.first else rows)


@lru_cache(_KEPT)
def _cut(text: str) -> tuple[_Form, tuple[str, ...]] | None:
    """The form of a text, and its values as they are written; None if it has another one."""
    if not is_text(text):
        return None
    of_rows, of_any = _patterns()
    cut, told, written = of_rows.fullmatch(text), "", ""
    if cut is not None:
        told = next((what for what in ("one", "count") if cut[what]), "")
        written = cut[told] if told else ""
        if cut["limit"] and not told:
            return None  # which row, DuckDB tells
    else:
        cut = of_any.fullmatch(text)
        if cut is None:
            return None
        told, written = "exists", cut["name"]
    items, view = names(cut["items"] or ""), names(cut["view"])
    parts = _PART.findall(cut["where"])
    columns = [name for name, _ in parts]
    if any_reserved([*items, *view, *columns]):
        return None
    named = tuple(map(name_of, columns))
    if len(set(named)) < len(named) or BARE & {*named, *map(name_of, items)}:
        return None
    first = cut["limit"] is not None
    form = _Form(tuple(view), tuple(items), named, told, written, first)
    return form, tuple(value for _, value in parts)


def _learned(form: _Form, version: object, views: Reading) -> _Known:
    """What a form means; DuckDB says what it answers, and what is wrong."""
    from tidewheel.engine.state.columns import column_type

    known = _Known(version)
    view = views.maintained(list(map(name_of, form.view)))
    if view is None:
        return known
    try:
        whole = views.host.table(f"FROM {view.quoted} LIMIT 0").schema
        if form.told == "exists":
            query = f"SELECT true AS {form.written}"
        else:
            selected = form.written or ", ".join(form.items) or "*"
            query = f"SELECT {selected} FROM {view.quoted} LIMIT 0"
        schema = views.host.table(query).schema
        (collation,) = views.host.table("SELECT current_setting('default_collation')")[0]
        collated = collation.as_py() or views.collations(view)
    except (errors.Error, duckdb.Error):
        return known
    place = {name.lower(): i for i, name in enumerate(whole.names)}
    items = list(map(name_of, form.items))
    wanted = {*items, *form.columns}
    if len(place) < len(whole.names) or not wanted <= place.keys() or collated:
        return known
    known.columns = tuple(place[name] for name in form.columns)
    if not all(names_rows(whole.types[i]) for i in known.columns):
        return known
    known.kinds = [column_type(whole.types[i]) for i in known.columns]
    known.items = [place[name] for name in items] or list(range(len(place)))
    known.told = [column_type(schema.types[0])] if form.told else []
    known.schema, known.key = schema, view.key
    return known


def _held(values: Sequence[object], kinds: Sequence[ColumnType]) -> Row | None:
    """Values as columns that may be a key hold them; None where only DuckDB can tell."""
    # Imported here: it takes long to load, and not everybody has views.
    from tidewheel.sql.row_insert import held

    for value, kind in zip(values, kinds, strict=True):
        if value is None or (type(value) is str and not (is_text(value) and _is_text(kind))):
            return None  # a text that says a number or a day is compared as DuckDB likes
    try:
        return tuple([held(value, kind) for value, kind in zip(values, kinds, strict=True)])
    except (ValueError, TypeError, ArithmeticError):
        return None


def _is_text(kind: ColumnType) -> bool:
    return bool(pa.types.is_string(kind.arrow))
