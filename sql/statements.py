"""Text into statements: split at semicolons, classified by their first words, parameters found.

DuckDB's own splitter refuses a text with statements that only Tidewheel has, so this reads the
token level itself (DuckDB 2.0's rules: nested comments, dollar quotes, E'' strings) and nothing
more. The text of a statement is never changed, but that odd spaces become plain ones, and
backticks around names double quotes.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from tidewheel.engine.quoting import quoted

from ..planner.context import Settings
from . import errors

_ODD = "\xa0\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff"
"""What DuckDB takes for spaces besides ASCII's; a word processor leaves them in what is pasted."""
_LETTER = rf"[^\0-@\[-^`{{-\x7f{_ODD}]"
"""What a name may begin with: all but ASCII's signs and digits, so accents and emoji, too."""
_PART = rf"[^\0-/:-@\[-^`{{-\x7f{_ODD}]"
_TOKEN = re.compile(
    rf"""
      (?P<space>[ \t\n\r\f\v{_ODD}]+|--[^\n\r]*)
    | (?P<comment>/\*)
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*'? | '(?:[^']|'')*'? | "(?:[^"]|"")*"?
                  | `(?:[^`]|``)*`?)
    | (?P<dollar>\$(?P<tag>{_LETTER}{_PART}*)?\$(?:.*?\$(?(tag)(?P=tag))\$|.*))
    | (?P<parameter>\${_PART}+|\?[0-9]*)
    | (?P<word>{_LETTER}(?:{_PART}+|\$)*)
    | (?P<number>[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?(?:[eE][+-]?[0-9]+)?)
    | (?P<end>;)
    | (?P<punctuation>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ODD_SPACES = re.compile(f"[{_ODD}]")
_RECURSIVE = re.compile(r"\bRECURSIVE\b", re.IGNORECASE)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


class Kind(Enum):
    """What is done with a statement."""

    QUERY = "query"
    """Gives rows and changes nothing: the planner's."""
    EXPLAIN = "explain"
    SETTING = "setting"
    """SET, RESET or SHOW of a setting of Tidewheel's own."""
    OURS = "ours"
    """Only Tidewheel has it: parsed by our dialect."""
    TRANSACTION = "transaction"
    CHANGE = "change"
    """INSERT, UPDATE, DELETE, MERGE, COPY: rows change, the catalog does not."""
    OTHER = "other"
    """Everything else goes to DuckDB as written, and may change the catalog."""


class Token(NamedTuple):
    """A piece of text that is neither space nor comment. `start` counts characters."""

    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """In lower case, and what is in double quotes without them."""
        text = self.text
        return (text[1:-1].replace('""', '"') if text[0] == '"' else text).lower()


@dataclass(frozen=True)
class Statement:
    """One statement: `text` stands at character `start` of the whole `script`."""

    text: str
    start: int
    script: str
    kind: Kind
    words: tuple[str, ...]
    """The first words, upper case (symbols included), for a closer look."""
    positional: int
    """How many values a sequence of parameters must have."""
    names: frozenset[str]
    """The parameters that are given by name."""
    rows: bool
    """Whether DuckDB's answer to it is rows, not a count."""


_SHORT = 4096
NO_STATEMENT = Statement("", 0, "", Kind.OTHER, (), 0, frozenset(), False)
"""What runs while something is done for the user that has no text."""


def tokens(text: str) -> Iterator[Token]:
    """The tokens of `text`; unterminated strings and comments reach to its end, as tokens.

    A short text's are kept for a while, a long one's while its statement runs: several parts of the
    engine look at the same statement.
    """
    if len(text) <= _SHORT:
        return iter(_kept(text))
    running, found = _long
    return iter(found) if text == running else _scan(text)


_long: tuple[str, list[Token]] = ("", [])
"""The long statement that was split last, until it has run, and its tokens."""


def release() -> None:
    """Keep no tokens of a long statement: they take fifty times its text's memory."""
    global _long
    _long = ("", [])


def words_in(text: str) -> set[str]:
    """Every name and keyword in `text`, in lower case and without quotes."""
    return {token.word for token in tokens(text)}


@lru_cache(maxsize=256)
def _kept(text: str) -> tuple[Token, ...]:
    return tuple(_scan(text))


def _scan(text: str) -> Iterator[Token]:
    position = 0
    while position >= 0:
        for match in _TOKEN.finditer(text, position):
            kind = match.lastgroup or "punctuation"
            if kind == "space":
                continue
            if kind == "comment":
                begun = match.start()
                position = _comment_end(text, begun)
                if position < 0:
                    yield Token("punctuation", text[begun:], begun)
                break
            yield Token("dollar" if kind == "tag" else kind, match.group(), match.start())
        else:
            return


def _plain(text: str) -> str:
    """`text` with plain spaces between its tokens, and double quotes around names."""
    if "`" not in text and (text.isascii() or not _ODD_SPACES.search(text)):
        return text
    parts: list[str] = []
    end = 0
    for token in tokens(text):
        parts.append(_ODD_SPACES.sub(" ", text[end : token.start]))
        ended = token.text[0] == "`" and token.text.count("`") % 2 == 0
        name = token.text[1:-1].replace("``", "`")
        parts.append(quoted(name) if ended else token.text)
        end = token.start + len(token.text)
    return "".join(parts) + _ODD_SPACES.sub(" ", text[end:])


def _comment_end(text: str, start: int) -> int:
    depth, position = 0, start
    while edge := _COMMENT_EDGE.search(text, position):
        depth += 1 if edge.group() == "/*" else -1
        position = edge.end()
        if depth == 0:
            return position
    return -1


def respelled(text: str, spell: Callable[[str], str]) -> str:
    """`text` with ``spell(name)`` in place of each parameter; ``?`` is called by the next number
    behind the greatest one before it, as by DuckDB."""
    pieces: list[str] = []
    at = count = 0
    for token in tokens(text):
        if token.kind != "parameter":
            continue
        name = token.text[1:]
        if not name:
            count += 1
            name = str(count)
        elif name.isdecimal():
            count = max(count, int(name))
        pieces += [text[at : token.start], spell(name)]
        at = token.start + len(token.text)
    pieces.append(text[at:])
    return "".join(pieces)


def split(script: str) -> tuple[Statement, ...]:
    """The statements of a script, in order; empty ones are left out."""
    return _kept_split(script) if len(script) <= _SHORT else _split(script)


@lru_cache(maxsize=512)
def _kept_split(script: str) -> tuple[Statement, ...]:
    return _split(script)


def _split(script: str) -> tuple[Statement, ...]:
    found: list[Statement] = []
    current: list[Token] = []
    for token in tokens(script):
        if token.kind == "end":
            if current:
                found.append(_statement(script, current, token.start))
            current = []
        else:
            current.append(token)
    if current:
        found.append(_statement(script, current, len(script)))
    return tuple(found)


def _statement(script: str, parts: list[Token], end: int) -> Statement:
    start = parts[0].start
    written = script[start:end].rstrip()
    text = _plain(written)
    if text != written:
        parts = list(tokens(text))
    if len(text) > _SHORT:
        global _long
        first = parts[0].start
        _long = (text, [Token(t.kind, t.text, t.start - first) for t in parts] if first else parts)
    names: set[str] = set()
    highest = 0
    # What PREPARE leaves open is for its EXECUTE to give.
    prepared = parts[0].text.upper() == "PREPARE"
    for token in parts:
        if token.kind != "parameter" or prepared:
            continue
        name = token.text[1:]
        if not name:
            highest += 1  # behind the greatest so far
        elif name.isdecimal():
            highest = max(highest, int(name))
        else:
            names.add(name)
    words = tuple(t.text.upper() for t in parts[:8])
    kind = _kind(parts, words)
    return Statement(
        text=text.rstrip(),
        start=start,
        script=script,
        kind=kind,
        words=words,
        positional=highest,
        names=frozenset(names),
        rows=words[0] in _READS
        or any(t.text.upper() in _RETURNS for t in parts)
        or (kind is Kind.CHANGE and words[0] == "WITH" and _after_ctes(parts) in _QUERY),
    )


OWN_SETTINGS = frozenset(f.name.upper() for f in dataclasses.fields(Settings))

_QUERY = {"SELECT", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT"}
_QUERY |= {"PIVOT_WIDER", "PIVOT_LONGER"}
_CHANGE = {"INSERT", "UPDATE", "DELETE", "MERGE", "COPY", "TRUNCATE"}
_TRANSACTION = {"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"}
_READS = {"DESCRIBE", "DESC", "SUMMARIZE", "SHOW", "CALL", "PRAGMA", "EXECUTE", "EXPLAIN"}
_EXPLAINED = _READS | {"VIEW", "MATERIALIZED", "ROW"}
_RETURNS = {"RETURNING", "RETURN_FILES", "RETURN_STATS"}


def kind_of(parts: list[Token]) -> Kind:
    """What is done with a statement of these tokens."""
    return _kind(parts, tuple(t.text.upper() for t in parts[:8]))


def _kind(parts: list[Token], words: tuple[str, ...]) -> Kind:
    first = words[0]
    if first == "(":
        first = next((t.text.upper() for t in parts if t.text != "("), "")
    if first == "WITH":
        first = _after_ctes(parts)
    if first in _QUERY:
        return Kind.QUERY if writing_cte(parts) is None else Kind.CHANGE
    if first in _CHANGE:
        return Kind.CHANGE
    if first in _TRANSACTION:
        return Kind.TRANSACTION
    if first == "EXPLAIN":
        return _kind_explained(analyzed(parts))
    if first in {"SET", "RESET", "SHOW"} and _setting(words) in OWN_SETTINGS:
        return Kind.SETTING
    made = next((w for w in words[1:] if w not in BEFORE_KIND), "")
    if first in {"SUBSCRIBE", "VERIFY"} or (first in {"CREATE", "DROP"} and made == "MATERIALIZED"):
        return Kind.OURS
    return Kind.OTHER


def analyzed(parts: list[Token]) -> list[Token]:
    """What EXPLAIN ANALYZE runs and explains; nothing for any other EXPLAIN."""
    depth, at, analyzes = 0, 1, False
    while at < len(parts) and (depth or parts[at].text.upper() in ("ANALYZE", "(")):
        text = parts[at].text.upper()
        depth += {"(": 1, ")": -1}.get(text, 0)
        analyzes = analyzes or text == "ANALYZE"
        at += 1
    return parts[at:] if analyzes else []


def _kind_explained(inner: list[Token]) -> Kind:
    if not inner:
        return Kind.EXPLAIN
    verb = inner[0].text.upper()
    kind = kind_of(inner)
    if verb == "EXECUTE" or kind is Kind.CHANGE:
        return Kind.CHANGE
    other = kind in (Kind.OTHER, Kind.TRANSACTION) and verb not in _EXPLAINED
    return Kind.OTHER if other else Kind.EXPLAIN


def _setting(words: tuple[str, ...]) -> str:
    scopes = {"SESSION", "GLOBAL", "LOCAL"}
    rest = [w for w in words[1:] if w not in scopes]
    return rest[0].strip('"').upper() if rest else ""


def _after_ctes(parts: list[Token]) -> str:
    """The verb of WITH …: the first one outside parentheses that follows a CTE's body."""
    found = verb_after_ctes(parts)
    return "SELECT" if found is None else found.text.upper()


def verb_after_ctes(parts: list[Token]) -> Token | None:
    """The verb of WITH …, whose tokens these are; None if there is none."""
    depth, closed = 0, False
    for before, token in itertools.pairwise(parts):
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
            closed = depth == 0
        elif depth == 0 and closed and token.kind == "word" and before.text != ",":
            word = token.text.upper()  # behind a comma it is the name of a CTE
            if word in _QUERY or word in _CHANGE:
                return token
    return None


def writing_cte(parts: list[Token]) -> Token | None:
    """The verb of the first data-modifying CTE, as in ``WITH x AS (DELETE FROM t RETURNING *) …``.

    A query with one is no query: it must run exactly once, and what it changes is captured.
    """
    before = ("", "")
    for i, token in enumerate(parts):
        word = token.text.upper()
        if before[1] == "(" and before[0] in ("AS", "MATERIALIZED"):
            verb = verb_after_ctes(parts[i:]) if word == "WITH" else token
            if verb is not None and verb.text.upper() in _CHANGE:
                return verb
        before = (before[1], word)
    return None


def is_about_view(statement: Statement) -> bool:
    """CREATE, DROP or ALTER VIEW, of any kind?"""
    words = statement.words
    rest = [w for w in words[1:] if w not in BEFORE_KIND]
    made = rest[1:2] if rest[:1] == ["MATERIALIZED"] else rest[:1]
    return words[0] in ("CREATE", "DROP", "ALTER") and made == ["VIEW"]


def makes_temporary(statement: Statement) -> bool:
    """CREATE TEMP …?"""
    before = itertools.takewhile(BEFORE_KIND.__contains__, statement.words[1:])
    return statement.words[0] == "CREATE" and not {"TEMP", "TEMPORARY"}.isdisjoint(before)


BEFORE_KIND = frozenset(
    ["OR", "REPLACE", "TEMP", "TEMPORARY", "LOCAL", "GLOBAL", "UNLOGGED", "RECURSIVE"]
)
"""Words between CREATE and what is made."""


@lru_cache(maxsize=256)
def mentions_recursion(text: str) -> bool:
    """May `text` have a recursion? Cheap, and never wrongly no."""
    return _RECURSIVE.search(text) is not None


def mistake(
    statement: Statement,
    at: Token,
    message: str,
    hint: str | None = None,
    kind: type[errors.Error] = errors.ProgrammingError,
) -> errors.Error:
    """An error whose place is a token of the statement."""
    return kind(
        message,
        hint=hint,
        text=statement.script,
        position=statement.start + at.start,
        length=len(at.text),
    )


def explained(statement: Statement) -> Statement:
    """EXPLAIN of a query; any other statement as it is. Places of errors stay right."""
    if statement.kind is not Kind.QUERY:
        return statement
    verb = "EXPLAIN "
    return dataclasses.replace(
        statement,
        text=verb + statement.text,
        start=statement.start - len(verb),
        kind=Kind.EXPLAIN,
        words=("EXPLAIN", *statement.words),
        rows=True,
    )
