"""SET, RESET and SHOW of Tidewheel's own settings."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from ..planner.context import Parameters, Settings
from .statements import Statement, mistake, tokens

_WORDS = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_NOTHING = {"none", "null", "unlimited", "-1"}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h)?")
_UNITS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}
_BOUNDS = {"statement_timeout", "max_iterations", "max_recursive_rows", "max_recursive_bytes"}
_CHOICES = {"on_limit": ("error", "return")}

NAMES = tuple(f.name for f in dataclasses.fields(Settings))
_DEFAULTS = Settings()


def parse(name: str, value: object) -> Any:
    """The value of a setting from what was written; ValueError says what would be right."""
    text = str(value).strip().lower()
    if isinstance(getattr(_DEFAULTS, name), bool):
        if text not in _WORDS:
            raise ValueError(f"{name} is either on or off")
        return _WORDS[text]
    if name in _CHOICES:
        if text not in _CHOICES[name]:
            raise ValueError(f"{name} is one of {', '.join(_CHOICES[name])}")
        return text
    if name == "statement_timeout" and (found := _TIME.fullmatch(text)):
        milliseconds = round(float(found[1]) * _UNITS[found[2] or "ms"])
        return milliseconds or None
    if name in _BOUNDS and text in _NOTHING:
        return None
    if name == "statement_timeout":
        raise ValueError("statement_timeout is a time, such as 500ms, 2s or 1min, or none")
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} is a whole number, at least 1")
    return int(text)


def assignment(statement: Statement, given: Parameters = None) -> tuple[str, Any]:
    """Name and new value of a SET or RESET statement of one of our settings.

    `given`: the statement's parameters.
    """
    parts = [t for t in tokens(statement.text) if t.text.upper() not in _SCOPES]
    name = parts[1].text.strip('"').lower()
    if parts[0].text.upper() == "RESET":
        return name, getattr(_DEFAULTS, name)
    rest = parts[2:]
    if rest and (rest[0].text == "=" or rest[0].text.upper() == "TO"):
        rest = rest[1:]
    if not rest:
        raise mistake(statement, parts[1], f"no value is given for {name}")
    written = "".join(t.text for t in rest).strip("'\"")
    if given and len(rest) == 1 and rest[0].kind == "parameter":
        (written,) = given.values() if isinstance(given, Mapping) else given
    try:
        return name, parse(name, written)
    except ValueError as error:
        message = f"{written} is no value for {name}"
        raise mistake(statement, rest[0], message, str(error)) from None


_SCOPES = {"SESSION", "GLOBAL", "LOCAL"}


def shown(value: object) -> str:
    """A setting's value as SHOW prints it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)
