"""`--param name=value`: values typed as they look."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..sql.errors import Error

_WORDS = {"null": None, "true": True, "false": False}
_NAME = re.compile(r"\$?([A-Za-z_]\w*)=(.*)", re.DOTALL)


def typed(text: str) -> Any:
    """The value that a text looks like: NULL, boolean, number, date, timestamp, else the text.

    A text in single quotes is that text, whatever it looks like.
    """
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)", text):
        return decimal.Decimal(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+", text):
        return float(text)
    if re.match(r"\d{4}-\d{2}-\d{2}", text):
        try:
            return datetime.date.fromisoformat(text)
        except ValueError:
            pass
        try:
            return datetime.datetime.fromisoformat(text)
        except ValueError:
            pass
    return text


def collect(given: tuple[str, ...]) -> list[Any] | dict[str, Any] | None:
    """The parameters of a command line: all named, or all positional."""
    if not given:
        return None
    named = [m for text in given if (m := _NAME.fullmatch(text))]
    if len(named) == len(given):
        return {m[1]: typed(m[2]) for m in named}
    if named:
        raise click.BadParameter(
            "give either all values by name (name=value) or all by position",
            param_hint="--param",
        )
    return [typed(text) for text in given]


_MISSING = re.compile(
    r"no value for parameter \$(\w+)|the statement has (?:\d+|positional) parameter"
)


def hint(error: Error, shell: bool = False) -> None:
    """Say of a value that is missing how it is given here, not in Python."""
    missing = _MISSING.match(error.message)
    if missing is None or not (error.hint or "").startswith("give "):
        return
    name = missing[1] or "x"
    if shell:
        error.hint = f"SET VARIABLE {name} = …, and write getvariable('{name}') in its place"
    else:
        error.hint = f"--param {name}=VALUE" if missing[1] else "--param VALUE for each, in order"
