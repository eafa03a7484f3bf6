"""UPDATEs and DELETEs of one row, named by values of its columns.

    DELETE FROM t WHERE id = 7
    UPDATE t SET a = ?, b = 'x' WHERE k = ? AND l = ?

Here they are only taken apart, those that come again and again but once. What they mean
`row_by_key` tells, which knows the table; whatever is not surely of these forms is run as written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..planner.context import Parameters
from .repeated import NAME, VALUE, is_text, python
from .statements import Statement, split

_EQUAL = rf"{NAME}\s*=\s*{VALUE}"
_TABLE = rf"{NAME}(?:\.{NAME})*"
_PATTERN = re.compile(
    rf"\s*(?:DELETE\s+FROM\s+{_TABLE}|"
    rf"UPDATE\s+{_TABLE}\s+SET\s+(?P<set>{_EQUAL}(?:\s*,\s*{_EQUAL})*))"
    rf"\s+WHERE\s+(?P<where>{_EQUAL}(?:\s+AND\s+{_EQUAL})*)\s*;?\s*\Z",
    re.IGNORECASE,
)
_PART = re.compile(rf"({NAME})\s*=\s*({VALUE})", re.IGNORECASE)
_LONGEST = 4096
_FORMS = 64
_NONE = object()


@dataclass(frozen=True, slots=True)
class Form:
    """A statement without its values. Column names are in lower case."""

    statement: Statement
    """Any of the form: for its table."""
    assigned: tuple[str, ...]
    """Empty for a DELETE."""
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keyed:
    """One statement of a form: its text, what was given to it, its values as Python has them."""

    form: Form
    text: str
    given: Parameters
    assigned: Sequence[object]
    key: Sequence[object]


class KeyedForms:
    """The forms of one connection."""

    def __init__(self) -> None:
        self._forms: dict[str, Form] = {}
        """By the text without its values."""
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
        if not (given is None or isinstance(given, (list, tuple))):
            return None
        left = iter(given or ())
        values = [next(left, _NONE) if text == "?" else python(text) for text in texts]
        if _NONE in values or next(left, _NONE) is not _NONE:
            return None
        width = len(form.assigned)
        return Keyed(form, script, given, values[:width], values[width:])

    def _taken_apart(self, script: str) -> tuple[Form, Sequence[str]] | None:
        cut = _PATTERN.match(script) if is_text(script) else None
        if cut is None:
            return None
        sets = _PART.findall(cut["set"] or "")
        parts = sets + _PART.findall(cut["where"])
        texts = [text for _, text in parts]
        if len(self._forms) > _FORMS or len(self._texts) > _FORMS:
            self._forms.clear()
            self._texts.clear()
        shape = _PART.sub(r"\1", script)
        form = self._forms.get(shape)
        if form is None:
            names = [_name(name) for name, _ in parts]
            form = Form(split(script)[0], tuple(names[: len(sets)]), tuple(names[len(sets) :]))
            self._forms[shape] = form
        if "?" in texts:
            self._texts[script] = form, texts
        return form, texts


def _name(text: str) -> str:
    """The name that an identifier stands for, in lower case."""
    return (text[1:-1].replace('""', '"') if text[0] == '"' else text).lower()
