"""The queries: the 22 of the specification and the recursive ones, as files beside this module."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files

_FRACTION = "0.0001000000"


@dataclass(frozen=True)
class Query:
    """A query by `name` (``q01`` … ``q22``, or a recursive one's); `sql` holds for one scale."""

    name: str
    sql: str
    recursive: bool

    @property
    def fingerprint(self) -> str:
        """Changes with the text."""
        return hashlib.sha256(self.sql.encode()).hexdigest()[:16]


@cache
def _texts() -> dict[str, tuple[str, bool]]:
    found: dict[str, tuple[str, bool]] = {}
    for folder, recursive in (("queries", False), ("recursive", True)):
        for file in sorted((files(__package__) / folder).iterdir(), key=lambda f: f.name):
            if file.name.endswith(".sql"):
                text = file.read_text(encoding="utf-8").strip()
                found[file.name.removesuffix(".sql")] = text, recursive
    return found


def names() -> list[str]:
    """All queries' names, the specification's first."""
    return list(_texts())


def load(scale: float, wanted: Iterable[str] = ()) -> list[Query]:
    """The queries for a scale factor, all or those that are `wanted`.

    A wanted one is a name, a number (``6``), or ``tpch`` or ``recursive`` for a whole group.
    Raises ValueError, with the nearest name, for one that does not exist.
    """
    chosen: list[str] = []
    for item in wanted:
        chosen += [name for name in _expand(item.strip().lower()) if name not in chosen]
    return [_query(name, scale) for name in chosen or names()]


def _query(name: str, scale: float) -> Query:
    text, recursive = _texts()[name]
    if name == "q11":
        fraction = Decimal(_FRACTION) / Decimal(repr(scale))
        text = text.replace(_FRACTION, f"{fraction:.10f}")
    return Query(name, text, recursive)


def _expand(item: str) -> list[str]:
    known = _texts()
    if item in ("tpch", "recursive"):
        return [
            name for name, (_, recursive) in known.items() if recursive == (item == "recursive")
        ]
    number = item.removeprefix("q")
    if number.isdigit():
        item = f"q{int(number):02d}"
    if item in known:
        return [item]
    near = difflib.get_close_matches(item, [*known, "tpch", "recursive"], n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    raise ValueError(f"there is no query {item!r}; {hint}")
