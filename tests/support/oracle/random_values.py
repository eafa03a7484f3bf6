"""Values of many types, and small tables of them, for random queries.

Doubles are quarters, so that sums in any order are exact; intervals are hours, as DuckDB takes a
month for equal to 30 days, and shows either.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

Columns = list[tuple[str, str]]
"""Names and types."""

TABLES: Final[dict[str, Columns]] = {
    "r": [("a", "int"), ("b", "int"), ("s", "text"), ("x", "double")],
    "t": [("a", "int"), ("c", "int"), ("s", "text"), ("m", "decimal")],
    "u": [("k", "int"), ("d", "date"), ("f", "bool"), ("b", "int")],
    "w": [("a", "int"), ("l", "list"), ("p", "row"), ("h", "huge"), ("e", "enum")],
    "z": [
        ("z", "zoned"),
        ("i", "span"),
        ("o", "map"),
        ("g", "uuid"),
        ("s", "text"),
        ("q", "float"),
    ],
}
TYPES: Final = {
    "int": "INTEGER",
    "text": "VARCHAR",
    "double": "DOUBLE",
    "decimal": "DECIMAL(9, 2)",
    "date": "DATE",
    "bool": "BOOLEAN",
    "list": "INTEGER[]",
    "row": "STRUCT(p INTEGER, q VARCHAR)",
    "huge": "HUGEINT",
    "enum": "ENUM('x', 'c', 'b', 'a', 'é')",
    "zoned": "TIMESTAMPTZ",
    "span": "INTERVAL",
    "map": "MAP(VARCHAR, INTEGER)",
    "uuid": "UUID",
    "float": "FLOAT",
}
_PLAIN = ("int", "text", "double", "decimal", "date", "bool")
_RARE = tuple(k for k in TYPES if k not in _PLAIN)
KINDS: Final = _PLAIN * 2 + _RARE
"""Types of columns, the usual ones more often."""
COMPARED: Final = _PLAIN[:5] * 2 + tuple(k for k in _RARE if k != "map")
"""Types with an order, the same."""


def value(rng: random.Random, kind: str, null: float = 0.15, most: int = 6) -> str:
    """A literal, one of `most` + 1 of its type (of some types of fewer), or NULL."""
    if rng.random() < null:
        return "NULL"
    n = rng.randrange(-1, most)
    lists = ["[]", "[1]", "[1, NULL]", "[NULL, 2]", "[2, 1]", "[3]"]
    return {
        "int": str(n),
        "text": f"'{'abcAB é'[(n + 1) % 7]}{'' if n % 2 else 'b'}{n // 7 if n > 6 else ''}'",
        "double": f"{n / 4}::DOUBLE",
        "decimal": f"{n / 4}",
        "date": f"DATE '2024-02-26' + {n}",
        "bool": "true" if n % 2 else "false",
        "list": f"{lists[n % 6]}::INTEGER[]",
        "row": f"{{'p': {'NULL' if n % 3 == 0 else n % 4}, 'q': '{'ab'[n % 2]}'}}::{TYPES['row']}",
        "huge": f"{(n - 2) * 10**25}::HUGEINT",
        "enum": f"'{'xcbaé'[n % 5]}'::{TYPES['enum']}",
        # (the hour that a time zone of Europe leaves out is among them)
        "zoned": f"TIMESTAMPTZ '2024-03-31 00:30:00+00' + INTERVAL ({n} * 1800) SECOND",
        "span": f"INTERVAL ({n * 7}) HOUR",
        "map": f"MAP {{'a': {n % 3}}}" if n % 2 else "MAP {'b': 0, 'a': NULL}",
        "uuid": f"'00000000-0000-0000-8000-{n + 1:012}'::UUID",
        "float": f"{n / 4}::FLOAT",
    }[kind]


def made_of(kind: str, e: Callable[[str], str]) -> list[tuple[float, Callable[[], str]]]:
    """Ways to make a value of one of the rarer types, with weights; `e` makes one of a type."""
    return {
        "list": [
            (1.0, lambda: f"list_append({e('list')}, {e('int')})"),
            (1.0, lambda: f"[{e('int')}, {e('int')}]"),
            (0.5, lambda: f"list_sort({e('list')})"),
            (0.5, lambda: f"list_transform({e('list')}, lambda x: x + 1)"),
        ],
        "row": [(1.0, lambda: f"{{'p': {e('int')}, 'q': {e('text')}}}")],
        "huge": [(1.0, lambda: f"({e('int')})::HUGEINT"), (0.5, lambda: f"(-({e('huge')}))")],
        "zoned": [(1.0, lambda: f"({e('zoned')} + {e('span')})")],
        "span": [(0.5, lambda: f"to_hours({e('int')})")],
        "map": [(1.0, lambda: f"MAP {{'k': {e('int')}}}")],
        "float": [(1.0, lambda: f"({e('int')})::FLOAT")],
    }.get(kind, [])
