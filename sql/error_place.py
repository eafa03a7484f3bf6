"""Where in a statement's text an error arose, when DuckDB names no position.

The message is all there is: it quotes a name, a file or a value, or prints the expression that
failed. A place is given only where the text has just one that fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from . import error_words
from .errors import Error
from .statements import Statement, Token
from .statements import tokens as _tokens
from .wrong_kind import BEFORE_NAME

_QUOTED = re.compile(r'"((?:[^"]|"")+)"')
_SINGLE = re.compile(r"'((?:[^']|'')+)'")
_PLAIN = re.compile(r"\b[Nn]ame (\S+) does not exist|\bcolumn (\S+) not found")
_CALL = re.compile(r"in expression (\w+)\(|[Oo]verflow on (\w+)\(")
_DIVISION = re.compile(r"Division by zero in expression \((?P<expression>.*)\)\.")
_OVERFLOW = re.compile(r"Overflow in (addition|subtraction|multiplication) of")
_COPY = re.compile(r'Copy Function with name "?(\w+)')
_NO_INDEX_NAME = "Please provide an index name"
_BEFORE_TABLES = {"FROM", "JOIN", "INTO", "UPDATE", "TABLE"}
_OPERATORS = {"addition": "+", "subtraction": "-", "multiplication": "*"}


def search(parts: list[Token], message: str, name: str | None = None) -> tuple[int | None, int]:
    """Start and length, in characters, of what `message` speaks of; (None, 1) if that is not clear.

    `parts`: the statement's tokens. `name`: what DuckDB says is missing, where it does.
    """
    if message.startswith(NO_LIST):
        return _first([at for at in range(len(parts)) if _lacks_list(parts, at)], parts)
    if message.startswith(_NO_INDEX_NAME):
        return _first([i for i, t in enumerate(parts) if t.text.upper() == "ON"], parts)
    if (words := error_words.place(parts, message)) is not None:
        return words
    for start, word in BEFORE_NAME.items():
        if message.startswith(start):
            return _view(parts, word)
    for wanted in _names(message, name):
        last = wanted.rpartition(".")[2] or wanted
        found = [i for i, t in enumerate(parts) if _spells(t, wanted) or _spells(t, last)]
        if len(found) > 1 and message.startswith("Table with name"):
            found = [i for i in found if i and parts[i - 1].text.upper() in _BEFORE_TABLES][:1]
        if len(found) == 1:
            return parts[found[0]].start, len(parts[found[0]].text)
    if file := _COPY.match(message):  # COPY … TO 'a.xlsx': the name ends with the format
        ending = f".{file[1]}".lower()
        named = [i for i, t in enumerate(parts) if t.text[:-1].lower().endswith(ending)]
        return _first(named, parts)
    return _operation(parts, message)


def table(parts: list[Token], name: str) -> tuple[int | None, int]:
    """Where a name is written first."""
    found = next((t for t in parts if _spells(t, name)), None)
    return (None, 1) if found is None else (found.start, len(found.text))


def set_text(error: BaseException, text: str) -> None:
    """Note the text that DuckDB got, made of a statement's: it is that which has the places."""
    error.__dict__["tidewheel_text"] = text


def text_of(error: BaseException, written: str) -> str:
    """The text that DuckDB got: `written` unless something else was noted."""
    return str(error.__dict__.get("tidewheel_text", written))


def moved(position: int, length: int, text: str, own: str) -> tuple[int, int] | None:
    """A place in `text`, which was made of `own`, as one there; None if that is not clear.

    What is written before it, or behind it, is the same in both, but for names of parameters.
    """
    there, here = list(_tokens(text)), list(_tokens(own))
    first = next((i for i, t in enumerate(there) if position < t.start + len(t.text)), None)
    if first is None or position < there[first].start:
        return None
    last = max(i for i, t in enumerate(there) if i == first or t.start < position + length)
    if _alike(there[: last + 1], here[: last + 1]):
        shift = 0
    elif _alike(there[first:], here[max(0, first + len(here) - len(there)) :]):
        shift = len(here) - len(there)
    else:
        return None
    begin, end = here[first + shift], here[last + shift]
    start = begin.start + position - there[first].start
    if begin.kind == "parameter":
        start = begin.start
    if begin is end and begin.kind != "parameter":
        return start, length
    return start, end.start + len(end.text) - start


def _alike(some: list[Token], others: list[Token]) -> bool:
    return len(some) == len(others) and all(
        a.text == b.text or a.kind == b.kind == "parameter"
        for a, b in zip(some, others, strict=True)
    )


def carry_back(error: Error, text: str, statement: Statement) -> None:
    """A place in `text`, which was made of a statement's, becomes the statement's own."""
    offset, own = error.offset_in(text), statement.text
    if offset is None:
        return
    position: int | None
    position, length = moved(offset, error.length, text, own) or search(
        list(_tokens(own)), error.message
    )
    error.replace(
        statement.script, None if position is None else statement.start + position, length
    )


def _names(message: str, name: str | None) -> Iterator[str]:
    if name:
        yield name
    for quoted in reversed(_QUOTED.findall(message)):
        yield quoted.replace('""', '"')
    if plain := _PLAIN.search(message):
        yield plain[1] or plain[2]
    for quoted in reversed(_SINGLE.findall(message)):
        yield quoted.replace("''", "'")
    if call := _CALL.search(message):
        yield call[1] or call[2]


def _spells(token: Token, name: str) -> bool:
    if token.kind == "word":
        return token.text.lower() == name.lower()
    if token.kind == "string" and token.text[-1] == token.text[0]:
        return token.text[1:-1].lower() == name.lower()
    return False


NO_LIST = "SELECT clause without selection list"
_NO_ITEM = {")", ";", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "QUALIFY"}
_NO_ITEM |= {"WINDOW", "UNION", "EXCEPT", "INTERSECT"}


def _lacks_list(parts: list[Token], at: int) -> bool:
    if parts[at].text.upper() != "SELECT":
        return False
    behind = [t.text.upper() for t in parts[at + 1 : at + 3]]
    if behind[:1] in (["ALL"], ["DISTINCT"]):
        del behind[0]
    return not behind or behind[0] in _NO_ITEM


def _first(places: list[int], parts: list[Token]) -> tuple[int | None, int]:
    return (parts[places[0]].start, len(parts[places[0]].text)) if places else (None, 1)


def _view(parts: list[Token], word: str) -> tuple[int | None, int]:
    """The last part of the name behind `word`, or behind the verb."""
    at = next((i for i, t in enumerate(parts) if t.text.upper() == word), 0) + 1
    while at + 2 < len(parts) and parts[at + 1].text == ".":
        at += 2
    return _first([at] if at < len(parts) else [], parts)


def _operation(parts: list[Token], message: str) -> tuple[int | None, int]:
    """The operator of a division by zero or an overflow."""
    if division := _DIVISION.search(message):
        expression = division["expression"]
        for operator in ("//", "/", "%"):
            if f" {operator} " not in expression:
                continue
            places = list(_operators(parts, operator))
            if len(places) > 1:
                divisor = expression.rpartition(f" {operator} ")[2].strip("()").split(" ")[0]
                places = [at for at in places if divisor in _following(parts, at, operator)]
            return _only((parts[at].start for at in places), len(operator))
    elif overflow := _OVERFLOW.search(message):
        operator = _OPERATORS[overflow[1]]
        return _only((parts[at].start for at in _operators(parts, operator)), 1)
    return None, 1


def _only(places: Iterable[int], length: int) -> tuple[int | None, int]:
    found = list(places)
    return (found[0], length) if len(found) == 1 else (None, 1)


def _operators(parts: list[Token], operator: str) -> Iterator[int]:
    """The places among the tokens at which an operator stands between two operands."""
    at = 0
    while at < len(parts):
        run = at
        while run < len(parts) and parts[run].text in "+-*/%" and _joined(parts, at, run):
            run += 1
        if run > at:
            text = "".join(t.text for t in parts[at:run])
            before = parts[at - 1] if at else None
            operand = before is not None and (
                before.kind in ("number", "string")
                or before.text in ")]}"
                or (before.kind == "word" and before.text.upper() not in _NO_OPERAND)
            )
            if operand and (text == operator or (text[0] == operator and text[1:] == "-")):
                yield at
            at = run
        else:
            at += 1


_NO_OPERAND = {"SELECT", "DISTINCT", "BY", "WHERE", "AND", "OR", "NOT", "ON", "WHEN", "THEN"}
_NO_OPERAND |= {"ELSE", "CASE", "IN", "LIKE", "BETWEEN", "HAVING", "RETURNING", "VALUES", "SET"}


def _joined(parts: list[Token], first: int, at: int) -> bool:
    """Do the tokens from `first` up to `at` stand without a gap, all of them punctuation?"""
    if parts[at].kind != "punctuation":
        return False
    return at == first or parts[at - 1].start + len(parts[at - 1].text) == parts[at].start


def _following(parts: list[Token], at: int, operator: str) -> set[str]:
    """The first word or number after an operator, and the last of a qualified name."""
    found: set[str] = set()
    for token in parts[at + len(operator) :]:
        if token.kind in ("word", "number", "string"):
            found.add(token.text.strip("\"'"))
        elif token.text not in "(.-" or (found and token.text != "."):
            break
    return found
