"""Names and texts in SQL."""

from __future__ import annotations

from functools import lru_cache


def quoted(name: str) -> str:
    """A name as an identifier in double quotes, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL, in single quotes."""
    return "'" + text.replace("'", "''") + "'"


_DOT = "\N{ONE DOT LEADER}"


@lru_cache(maxsize=8192)  # of each relation of a catalog, several times for each view made
def key_of(*parts: str) -> str:
    """One text for a qualified name, whatever its case; a dot in a part becomes another sign."""
    return ".".join(part.lower().replace(".", _DOT) for part in parts)


def parts_of_key(key: str) -> tuple[str, ...]:
    """The parts of such a name, in lower case."""
    return tuple(part.replace(_DOT, ".") for part in key.split("."))
