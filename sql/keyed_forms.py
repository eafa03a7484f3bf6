"""UPDATEs and DELETEs of rows that are named by values of their columns.

    DELETE FROM t WHERE id = 7
    DELETE FROM t WHERE id IN (?, ?, ?)
    UPDATE t SET a = ?, b = 'x' WHERE k = ? AND l = ?
    UPDATE t SET a = a + 1 WHERE id BETWEEN 10 AND 20

Here they are only taken apart, those that come again and again but once. What they mean
`row_by_key` tells, which knows the table; whatever is not surely of these forms is run as written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, lru_cache

from ..planner.context import Parameters
from .repeated import FLAGS, NAME, VALUE, any_reserved, bound, is_text, name_of, names
from .statements import Statement, split

_EQUAL = rf"{NAME}\s*=\s*{VALUE}"
_SET = rf"{NAME}\s*=\s*(?:{NAME}\s*[+-](?!-)\s*)?{VALUE}"
_TABLE = rf"{NAME}(?:\.{NAME})*"
_COPY = re.compile(
    rf"\s*INSERT\s+INTO\s+(?P<table>{_TABLE})\s+(?:SELECT\s*\*\s*)?FROM\s+(?P<frame>{NAME})\s*;?\s*\Z",
    FLAGS,
)
_VALUE = re.compile(VALUE, FLAGS)
_ASSIGNED = re.compile(rf"({NAME})\s*=\s*(?:({NAME})\s*([+-])(?!-)\s*)?({VALUE})", FLAGS)
_PART = re.compile(rf"({NAME})\s*=\s*({VALUE})", FLAGS)
_LONGEST = 4096
_FORMS = 64


@cache
def _pattern() -> re.Pattern[str]:
    """DELETE and UPDATE by a key. (Compiled when it is asked for: 10 ms.)"""
    return re.compile(
        rf"\s*(?P<table>DELETE\s+FROM\s+{_TABLE}|UPDATE\s+{_TABLE})"
        rf"(?:\s+SET\s+(?P<set>{_SET}(?:\s*,\s*{_SET})*))?"
        rf"\s+WHERE\s+(?:(?P<where>{_EQUAL}(?:\s+AND\s+{_EQUAL})*)|"
        rf"(?P<column>{NAME})\s+(?P<how>BETWEEN|IN)\s*"
        rf"(?P<values>{VALUE}\s+AND\s+{VALUE}|\(\s*{VALUE}(?:\s*,\s*{VALUE})*\s*\)))\s*;?\s*\Z",
        FLAGS,
    )


@dataclass(frozen=True, slots=True)
class Form:
    """A statement without its values. Column names are in lower case."""

    statement: Statement
    """Any of the form: for its table."""
    assigned: tuple[str, ...]
    """Empty for a DELETE."""
    signs: tuple[str, ...]
    """For each assigned column "+" or "-", if the value is added to what is there; else empty."""
    key: tuple[str, ...]
    how: str
    """What the key's columns are said to be: "=" the values, "IN" them, or "BETWEEN" them."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """One statement of a form: its text, what was given to it, its values as Python has them."""

    form: Form
    text: str
    given: Parameters
    """A copy: the statement may be run later."""
    assigned: Sequence[object]
    key: Sequence[object]


class KeyedForms:
    """The forms of one connection."""

    def __init__(self) -> None:
        self._forms: dict[object, Form] = {}
        self._texts: dict[str, tuple[Form, Sequence[str]]] = {}
        """Texts that have parameters, which come again, and their values as they are written."""

    def find(self, script: str, given: Parameters) -> Keyed | None:
        """The statement that `script` is; None if it is none of these."""
        found = self._texts.get(script)
        if found is None:
            if len(script) > _LONGEST or script.lstrip()[:6].upper() not in ("UPDATE", "DELETE"):
                return None
            found = self._taken_apart(script)
            if found is None:
                return None
        form, texts = found
        values = bound(texts, given)
        if values is None:
            return None
        width = len(form.assigned)
        return Keyed(form, script, copy(given), values[:width], values[width:])

    def _taken_apart(self, script: str) -> tuple[Form, Sequence[str]] | None:
        cut = _pattern().match(script) if is_text(script) else None
        if cut is None:
            return None
        how = (cut["how"] or "=").upper()
        if how != "=" and (how == "IN") != cut["values"].startswith("("):
            return None
        if (cut["set"] is None) != (cut["table"][:6].upper() == "DELETE"):
            return None
        sets, equal = _ASSIGNED.findall(cut["set"] or ""), _PART.findall(cut["where"] or "")
        keys = _VALUE.findall(cut["values"] or "")
        texts = [text for *_, text in sets + equal] + keys
        written = [n for name, of, *_ in sets for n in (name, of)] + [name for name, _ in equal]
        target = names(cut["table"])[1 if sets else 2 :]
        if any_reserved([*written, *target, cut["column"] or ""]):
            return None
        if len(self._forms) > _FORMS or len(self._texts) > _FORMS:
            self._forms.clear()
            self._texts.clear()
        assigned = tuple([name_of(name) for name, *_ in sets])
        if any(
            of and name_of(of) != name for name, (_, of, *_) in zip(assigned, sets, strict=True)
        ):
            return None
        signs = tuple([sign for _, _, sign, _ in sets])
        named = tuple([name_of(name) for name, _ in equal]) or (name_of(cut["column"]),)
        shape = cut["table"], assigned, signs, named, how
        form = self._forms.get(shape)
        if form is None:
            form = self._forms[shape] = Form(split(script)[0], assigned, signs, named, how)
        if any(text[0] in "?$" for text in texts):
            self._texts[script] = form, texts
        return form, texts


@dataclass(frozen=True, slots=True)
class Copied:
    """INSERT INTO t FROM frame, or SELECT * FROM frame."""

    statement: Statement
    frame: str


@lru_cache(_FORMS)
def copied(script: str) -> Copied | None:
    """The statement that `script` is; None if it is no such one."""
    cut = _COPY.match(script) if len(script) <= _LONGEST and is_text(script) else None
    if cut is None or any_reserved([*names(cut["table"]), cut["frame"]]):
        return None
    return Copied(split(script)[0], name_of(cut["frame"]))
