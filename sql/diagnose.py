"""What DuckDB or sqlglot raised, as one of our errors: place, plain message, hint.

DuckDB runs with ``errors_as_json``, which gives the kind of error and the position in bytes. A
statement that is bound through a relation loses the position; then it is looked for in the text,
by the name that the message quotes.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import duckdb

from . import csv_errors, error_place, error_words, errors, other_systems, syntax_errors
from .cures import cure
from .statements import Statement, mentions_recursion, tokens

_KINDS: dict[str, type[errors.Error]] = {
    "Parser": errors.ProgrammingError,
    "Syntax": errors.ProgrammingError,
    "Binder": errors.ProgrammingError,
    "Catalog": errors.ProgrammingError,
    "Invalid Input": errors.ProgrammingError,
    "Invalid Type": errors.ProgrammingError,
    "Parameter Not Allowed": errors.ProgrammingError,
    "Parameter Not Resolved": errors.ProgrammingError,
    "Permission": errors.ProgrammingError,
    "Conversion": errors.DataError,
    "Out of Range": errors.DataError,
    "Mismatch Type": errors.DataError,
    "Decimal": errors.DataError,
    "Divide by Zero": errors.DataError,
    "Constraint": errors.IntegrityError,
    "Not implemented": errors.NotSupportedError,
    "INTERNAL": errors.InternalError,
    "FATAL": errors.OperationalError,
    "INTERRUPT": errors.Interrupted,
}
_DATA = re.compile(r"Division by zero|Malformed JSON|Overflow|out of range|Could not parse string")
_IF = ("IF", "EXISTS")
_FILE = re.compile(r"No magic bytes|not a valid|too small to be a Parquet|Failed to read|footer")
_PREFIX = re.compile(r"^([A-Za-z][A-Za-z ]*?) Error: ", re.MULTILINE)
_QUOTED = re.compile(r'"((?:[^"]|"")+)"')


@dataclass
class Report:
    """DuckDB's error taken apart. `position` and `length` are in bytes of the statement."""

    kind: str
    message: str
    position: int | None = None
    length: int = 1
    candidates: tuple[str, ...] = ()
    name: str | None = None
    subtype: str = ""
    own: bool = False
    """Is the position in the statement's own text, whatever DuckDB got?"""


def read(error: BaseException) -> Report | None:
    """Take DuckDB's error apart; None if it is no error of DuckDB's.

    Errors that arise while Arrow batches are read come as `OSError` and the like, with DuckDB's
    message inside.
    """
    text = str(error)
    prefix = _PREFIX.search(text)
    if prefix is None and not isinstance(error, duckdb.Error):
        return None
    kind = prefix[1] if prefix else "INTERRUPT" if "nterrupt" in text else ""
    rest = text[prefix.end() :] if prefix else text
    brace = rest.find("{")
    if brace == 0:
        try:
            # Bytes of the user's data may be in it as they are.
            found = json.JSONDecoder(strict=False).raw_decode(rest)[0]
        except ValueError:
            found = {}
        if "exception_message" in found:
            return _from_json(kind, found)
    return Report(kind, rest.partition("\n\nLINE ")[0].strip())


def _from_json(kind: str, found: dict[str, str]) -> Report:
    report = Report(
        found.get("exception_type", kind),
        found["exception_message"].strip(),
        name=found.get("name"),
        subtype=found.get("error_subtype", ""),
        candidates=tuple(c for c in found.get("candidates", "").split(",") if c),
    )
    span = re.fullmatch(r"\[(\d+),(\d+)\]", found.get("location", ""))
    if span:
        report.position, report.length = int(span[1]), max(1, int(span[2]))
    elif found.get("position", "").isdecimal():
        report.position = int(found["position"])
    return report


def translate(
    error: BaseException,
    report: Report,
    statement: Statement,
    names: Iterable[str] = (),
    as_written: bool = True,
) -> errors.Error:
    """Our error for one of DuckDB's.

    `names` are further candidates for a near miss (tables of the catalog). `as_written`: DuckDB ran
    the statement's own text, so that its positions hold, or one of which `error_place` knows.
    """
    message, hint = _plain(report, names)
    position, length = None, 1
    if as_written and report.position is not None:
        position, length = _place(statement.text, error, report)
    elif report.kind != "INTERRUPT":
        parts = list(tokens(statement.text))
        position, length = error_place.search(parts, report.message, report.name)
    if report.kind == "Parser" and "syntax error" in message:
        message, position, length, hint = syntax_errors.told(
            statement, message, position, length, hint
        )
    step = None
    if report.kind == "Conversion" and position is None and mentions_recursion(statement.text):
        from .step_types import misfit  # it is rare

        step = misfit(statement.text, str(error))
    if step is not None:
        position, length, cast_it = step
        hint = hint or cast_it
    elif (known := cure(message)) is not None:
        hint = known.hint
        words = [t for t in islice(tokens(statement.text), 8) if t.text.upper() not in _IF]
        if position is None and known.word is not None and known.word < len(words):
            position, length = words[known.word].start, len(words[known.word].text)
    if report.kind in ("Parser", "Catalog"):
        hint = (
            other_systems.elsewhere([t.text.upper() for t in islice(tokens(statement.text), 5)])
            or hint
        )
    return _class(report, error)(
        message,
        hint=hint,
        text=statement.script,
        position=None if position is None else statement.start + position,
        length=length,
    )


def _class(report: Report, error: BaseException) -> type[errors.Error]:
    if report.kind == "Invalid Input":
        if _DATA.search(report.message):
            return errors.DataError
        if _FILE.search(report.message):
            return errors.OperationalError
    if report.kind in _KINDS:
        return _KINDS[report.kind]
    if isinstance(error, duckdb.OperationalError) or not isinstance(error, duckdb.Error):
        return errors.OperationalError
    for name in ("DataError", "IntegrityError", "NotSupportedError", "ProgrammingError"):
        if isinstance(error, getattr(duckdb, name)):
            found: type[errors.Error] = getattr(errors, name)
            return found
    return errors.OperationalError


def _place(own: str, error: BaseException, report: Report) -> tuple[int | None, int]:
    """Where in a statement's text the position is that DuckDB names."""
    text = own if report.own else error_place.text_of(error, own)
    position, length = _characters(text, report.position or 0, report.length)
    if position is None:
        return None, length
    if text == own:  # DuckDB names the second letter of `SHOW name`
        inside = (
            t for t in tokens(own) if t.kind == "word" and 0 < position - t.start < len(t.text)
        )
        word = next(inside, None)
        return (position, length) if word is None else (word.start, len(word.text))
    found = error_place.moved(position, length, text, own)
    return found or error_place.search(list(tokens(own)), report.message, report.name)


def _characters(text: str, position: int, length: int) -> tuple[int | None, int]:
    raw = text.encode()
    if position > len(raw):
        return None, 1
    start = len(raw[:position].decode(errors="ignore"))
    return start, max(1, len(raw[position : position + length].decode(errors="ignore")))


# -- the message and the hint ----------------------------------------------------------------------

_CANDIDATES = re.compile(
    r"\n+(?:Candidate \w+:|Did you mean:?|Candidate Entries:)[ :]*(?P<list>.*)", re.DOTALL
)
_EXTENSION = re.compile(r"exists in the (\w+) extension")
_NO_COMMON_TYPE = re.compile(
    r"Failed to cast value: Unimplemented type for cast \((.*)\)$", re.DOTALL
)
_FROM_NULL = re.compile(r'Unimplemented type for cast \((.*) -> "NULL"\)$', re.DOTALL)


def _plain(report: Report, names: Iterable[str]) -> tuple[str, str | None]:
    """The message without DuckDB's appendices, and a hint made of them."""
    message = report.message.partition(" when casting from source column")[0]
    if report.kind == "INTERRUPT":
        return "the statement was interrupted", None
    functions = message.find("\n\tCandidate functions:")
    if functions >= 0:
        return _no_function(message[:functions], message[functions:])
    if csv := csv_errors.told(message):
        return csv
    hint = None
    candidates = list(report.candidates)
    appendix = _CANDIDATES.search(message)
    if appendix:
        message = message[: appendix.start()].rstrip()
        candidates += _QUOTED.findall(appendix["list"])
    elif "\n" in message:
        message, _, hint = message.partition("\n")
        hint = hint.strip() or None
    candidates = [c for c in candidates if "__tw_" not in c and not c.startswith("__tidewheel.")]
    wanted = report.name or _last_quoted(message)
    if wanted and (candidates or report.subtype == "MISSING_ENTRY" or "does not exist" in message):
        if report.kind == "Catalog" and message.startswith(("Table with name", "Table Function")):
            candidates += names
        close = near_miss(wanted, candidates)
        if close:
            hint = f"did you mean {close}?"
        elif candidates and report.kind == "Binder":
            # DuckDB names but a few of all there are
            hint = f"nearest: {', '.join(dict.fromkeys(candidates))}"
            if report.subtype == "COLUMN_NOT_FOUND":
                hint += f"; text is written in single quotes: '{wanted}'"
    known = next((k for begin, k in _CURES.items() if begin in message), {})
    if wanted and (cure_of := known.get(wanted.lower())):
        hint = cure_of
    elif message == error_place.NO_LIST:
        hint = "write what to select behind it: columns, or * for all"
    elif message.startswith("Please provide an index name"):
        message, hint = "the index has no name", "CREATE INDEX name ON table (column)"
    elif extension := _EXTENSION.search(message):
        hint = f"INSTALL {extension[1]}; LOAD {extension[1]}"
    hint = error_words.cure(message) or hint
    if "found that match the pattern" in message:
        hint = _file_hint(_last_quoted(message)) or hint
    if "No magic bytes" in message or "too small to be a Parquet" in message:
        hint = "the file is not a Parquet file; read_csv or read_json may read it"
    if untyped := _FROM_NULL.match(message):
        hint = f"give the NULL of the first rows a type: NULL::{untyped[1]}"
    mixed = _NO_COMMON_TYPE.match(message)
    if mixed:
        kinds = mixed[1].replace(" -> ", ", ")
        message = f"the values of a list among the parameters have no common type: {kinds}"
        hint = "for JSON pass text: json.dumps(value)"
    return message, hint


_CURES: dict[str, dict[str, str]] = {
    "Function with name": other_systems.CALLS,
    "Table with name": other_systems.TABLES,
    "Type with name": other_systems.TYPES,
    "Referenced column": other_systems.COLUMNS,
}
"""By what DuckDB says of a name: the names that other systems have."""


def _no_function(message: str, listing: str) -> tuple[str, str]:
    head = message.split("\n")[0]
    call = re.search(r"[\"'](.+?\(.*\))[\"']\.", head)
    what = call[1] if call else ""
    forms = [line.strip() for line in listing.split("\n")[2:] if line.strip()]
    if what and not what[0].isalnum() and what[0] not in '_"':
        operator, _, types = what.partition("(")
        message = f"operator {operator} cannot be applied to ({types}"
        wanted = "VARCHAR" if "~" in operator else "INTEGER"
        return message, f"cast one side, for example CAST(… AS {wanted})"
    message = f"no function matches {what}" if what else head
    shown = "; ".join(forms[:4]) + (f"; and {len(forms) - 4} more" if len(forms) > 4 else "")
    return message, f"forms that exist: {shown}"


def _last_quoted(message: str) -> str | None:
    found = _QUOTED.findall(message)
    if found:
        return str(found[-1]).replace('""', '"')
    plain = re.search(r"\b[Nn]ame (\S+) does not exist", message)
    return plain[1] if plain else None


def near_miss(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was probably meant to be, or None if none is near."""
    own = name.lower().rpartition(".")[2]
    by_lower: dict[str, str] = {}
    for candidate in candidates:
        for one in candidate.split(" or "):
            one = one.strip().strip('"')
            by_lower.setdefault(one.lower().rpartition(".")[2], one)
    close = difflib.get_close_matches(own, by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def _file_hint(pattern: str | None) -> str | None:
    if not pattern or "://" in pattern:
        return None
    folder, name = os.path.split(pattern)
    try:
        present = os.listdir(folder or ".")
    except OSError:
        return f"there is no folder {folder}"
    close = difflib.get_close_matches(name, present, n=1, cutoff=0.6)
    return f"did you mean {os.path.join(folder, close[0])}?" if close else None
