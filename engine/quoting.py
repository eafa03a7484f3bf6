"""Names in SQL's text."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A name as an identifier in double quotes, whatever it is."""
    return '"' + name.replace('"', '""') + '"'
