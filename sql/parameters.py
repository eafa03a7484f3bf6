"""Parameters: which statement of a script gets which values, and the errors if they do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..planner.context import Parameters
from . import errors
from .adapt import adapt
from .diagnose import near_miss
from .statements import Statement, is_about_view, tokens


def refuse(statement: Statement) -> None:
    """ProgrammingError if a statement about a view has parameters."""
    if statement.positional or statement.names:
        raise _error(statement, "a view can't have parameters", _OF_VIEWS, 0)


def distribute(statements: Sequence[Statement], given: Parameters) -> list[Parameters]:
    """Each statement's share: positional values in order, named ones to whoever names them."""
    for statement in statements:
        if is_about_view(statement):
            refuse(statement)
    if isinstance(given, Mapping):
        return _by_name(statements, given)
    if given is not None and (not isinstance(given, Sequence) or isinstance(given, (str, bytes))):
        raise errors.ProgrammingError(
            f"parameters are a sequence or a mapping, not {type(given).__name__}",
            hint="give list(values)"
            if isinstance(given, Iterable) and not isinstance(given, (str, bytes))
            else "one value is given as [value]",
        )
    values = [] if given is None else list(given)
    used = 0
    shares: list[Parameters] = []
    for statement in statements:
        if statement.names:
            raise _names_error(statement, ())
        share = values[used : used + statement.positional]
        if len(share) < statement.positional:
            raise _count_error(statement, len(share))
        used += statement.positional
        shares.append([_adapted(value) for value in share] or None)
    if used < len(values) and statements:
        last = statements[-1]
        raise _count_error(last, len(values) - used + last.positional)
    return shares


def _adapted(value: object) -> object:
    try:
        return adapt(value)
    except RecursionError:
        raise errors.DataError("a parameter is nested too deeply, or holds itself") from None


_OF_VIEWS = "write the value into its query, or a condition where the view is read"


def _by_name(statements: Sequence[Statement], given: Mapping[str, Any]) -> list[Parameters]:
    for name in given:
        if not isinstance(name, str):
            raise errors.ProgrammingError(
                f"the name of a parameter is text (str), not {type(name).__name__}: {name!r}",
                hint="a parameter $name has its value under 'name', $1 under '1'",
            )
    shares: list[Parameters] = []
    for statement in statements:
        if statement.positional:
            raise _positional_error(statement)
        if not statement.names <= given.keys():
            raise _names_error(statement, given.keys())
        shares.append({n: _adapted(given[n]) for n in statement.names} or None)
    if statements and given.keys() - {n for s in statements for n in s.names}:
        raise _names_error(statements[-1], given.keys())
    return shares


def _error(
    statement: Statement, message: str, hint: str, wanted: str | int | None = None
) -> errors.Error:
    """`wanted`: the parameter to underline, by name or by its place in the order."""
    places = [t for t in tokens(statement.text) if t.kind == "parameter"]
    if isinstance(wanted, str):
        places = [t for t in places if t.text[1:] == wanted]
    else:
        places = [] if wanted is None else places[wanted:]
    return errors.ProgrammingError(
        message,
        hint=hint,
        text=statement.script,
        position=statement.start + places[0].start if places else None,
        length=len(places[0].text) if places else 1,
    )


_OTHER_STYLE = re.compile(r"%\((\w+)\)s|\{(\w+)\}|(?<![:\w])[:@](\w+)")
"""Other drivers' `%(name)s`, `{name}`, `:name` and `@name`."""


def _foreign(statement: Statement, message: str, at: int, length: int, hint: str) -> errors.Error:
    """A parameter in another driver's style."""
    position = statement.start + at
    return errors.ProgrammingError(
        message, hint=hint, text=statement.script, position=position, length=length
    )


def _count_error(statement: Statement, given: int) -> errors.Error:
    wanted = statement.positional
    if not wanted:
        message = f"the statement has no parameters, {given} given"
        at = next((t for t in tokens(statement.text) if t.text == "%"), None)
        if at is not None and statement.text[at.start + 1 : at.start + 2] in ("s", "("):
            return _foreign(statement, message, at.start, 2, "a parameter is written ? or $name")
        other = _OTHER_STYLE.search(statement.text)
        if other is not None and other[0][1:].isdecimal():
            hint = "a parameter is written ? or $1"
            return _foreign(statement, message, other.start(), len(other[0]), hint)
        return _error(statement, message, "leave the parameters out", 0)
    plural = "" if wanted == 1 else "s"
    message = f"the statement has {wanted} parameter{plural}, {given} given"
    return _error(statement, message, f"give a sequence of {wanted}", min(given, wanted - 1))


def _positional_error(statement: Statement) -> errors.Error:
    message = "the statement has positional parameters, a mapping was given"
    return _error(statement, message, f"give a sequence of {statement.positional}", 0)


def _names_error(statement: Statement, given: Iterable[str]) -> errors.Error:
    missing = sorted(statement.names - set(given))
    surplus = sorted(set(given) - statement.names)
    if missing:
        message = f"no value for parameter ${', $'.join(missing)}"
        close = near_miss(missing[0], surplus)
        hint = f"a value was given for {close}; did you mean {missing[0]}?" if close else None
        names = ", ".join(sorted(statement.names))
        return _error(statement, message, hint or f"give a mapping with {names}", missing[0])
    message = f"the statement has no parameter ${', $'.join(surplus)}"
    other = _OTHER_STYLE.search(statement.text)
    if other is not None and (name := next(filter(None, other.groups()))) in surplus:
        hint = f"a parameter is written ${name}"
        return _foreign(statement, message, other.start(), len(other[0]), hint)
    close = near_miss(surplus[0], statement.names)
    hint = f"did you mean {close}?" if close else "leave it out"
    return _error(statement, message, hint, close)
