"""What DuckDB's types are called, and which values it can't make Arrow of.

`kind` is a type as a connection tells it: of a relation's column, or in `description`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tidewheel.engine.quoting import literal, quoted

STATE = "AGGREGATE_STATE"
"""The type of what EXPORT_STATE gives."""
_EMPTY = re.compile(r"\bTUPLE\b(?=$|[,)\[])")
_NESTED = ("struct", "list", "array", "map", "union")
_ENDS = ("hugeint", "uhugeint", "boolean", "uuid", "bit", "time with time zone", "bignum")
"""DuckDB 2.0.1 ends the process when it makes lossless Arrow of states that are kept as these."""


def unnamed(kind: str) -> str | None:
    """What a type has in it of which no type can be told by its name alone."""
    if STATE in kind:
        return f"an {STATE}"
    return "a row without columns" if _EMPTY.search(kind) else None


def has_state(types: Iterable[Any]) -> bool:
    """Are there states of aggregates that DuckDB can't make Arrow of?"""
    return STATE in str(types) and any(
        kind.id in _ENDS if str(kind) == STATE else has_state([t for _, t in _inner(kind)])
        for kind in types
    )


def kept_as(sql: str, kind: Any) -> str:
    """What a state is kept as."""
    value = f"CAST({sql} AS VARCHAR)" if kind.id in ("uuid", "bit") else sql
    return f"CAST({value} AS {legible_name(kind)})"


def legible_name(kind: Any) -> str:
    """DuckDB's name of a type that came from Arrow: a row's without the names that it got there."""
    inner = [(name, legible_name(t)) for name, t in _inner(kind)]
    if not inner:
        return _of_state(kind) if str(kind) == STATE else str(kind)
    kinds = [t for _, t in inner]
    if kind.id == "list":
        return f"{kinds[0]}[]"
    if kind.id == "array":
        return f"{kinds[0]}[{dict(kind.children)['size']}]"
    if kind.id == "map":
        return f"MAP({', '.join(kinds)})"
    if [name for name, _ in inner] == [f"element{i}" for i in range(1, len(inner) + 1)]:
        return f"TUPLE({', '.join(kinds)})"
    named = inner[1:] if kind.id == "union" else inner  # the first of a UNION is the tag
    return f"{kind.id.upper()}({', '.join(f'{quoted(name)} {t}' for name, t in named)})"


def _inner(kind: Any) -> list[tuple[str, Any]]:
    """The types in a nested one, by name."""
    pairs = kind.children if kind.id in _NESTED else []
    return [(name, t) for name, t in pairs if isinstance(t, type(kind))]


def _of_state(kind: Any) -> str:
    """DuckDB's name of the type of one value that is a state."""
    if kind.id == "decimal":
        return f"DECIMAL({', '.join(str(n) for _, n in kind.children)})"
    if kind.id == "enum":
        return f"ENUM({', '.join(map(literal, kind.children[0][1]))})"
    return str(kind.id).upper()
