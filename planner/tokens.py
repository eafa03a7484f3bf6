"""The tokens of a query as sqlglot's parser has to see them to read what DuckDB reads.

Part of the dialect (`dialect.py`): sqlglot's compiled parser cannot be subclassed, so that words
which it would take for others are replaced before it sees them.
"""

from __future__ import annotations

import re

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import Token, TokenType

KEPT = "__tw_kept_"
ARRAY = "__tw_array"
PLAIN_NAME = re.compile(r"[A-Za-z_][\w.]*")

# sqlglot turns calls of these into other calls: log2(x) into log(2, x), struct_pack(*COLUMNS(…))
# into a struct of one field, today() into CURRENT_DATE, which a column may be called. It takes
# apply(…) for a join, and reduce(…) with three arguments only.
_KEPT_CALLS = {"APPLY", "LOG2", "LOG10", "REDUCE", "STRUCT_PACK", "TODAY", "GET_CURRENT_TIME"}

# Of several arguments: list_sort(l, 'DESC') into list_reverse_sort(l), the same by other settings.
_KEPT_OF_SEVERAL = {"LIST_SORT", "ARRAY_SORT", "LIST_REVERSE_SORT", "ARRAY_REVERSE_SORT"}

# Types that a string may follow, as in DATE '2024-01-01'.
_LITERAL_TYPES = DuckDB.Parser.TYPE_TOKENS - {TokenType.INTERVAL}

# Words of other dialects, and of statements that are no query: in a query names for DuckDB.
_NAMES = {
    TokenType.ALTER,
    TokenType.CUBE,
    TokenType.DROP,
    TokenType.FORCE,
    TokenType.GRANT,
    TokenType.INSTALL,
    TokenType.LOCK,
    TokenType.MAP,
    TokenType.PARTITION_BY,
    TokenType.REVOKE,
    TokenType.RLIKE,
    TokenType.ROLLBACK,
    TokenType.ROLLUP,
    TokenType.STRAIGHT_JOIN,
    TokenType.UNCACHE,
    TokenType.VALUES,
    TokenType.XOR,
}
# BETWEEN and IF are names where a value or a FROM item begins.
_BEGINS = {
    TokenType.ALIAS,
    TokenType.AND,
    TokenType.COMMA,
    TokenType.DISTINCT,
    TokenType.DOT,
    TokenType.FROM,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.JOIN,
    TokenType.L_PAREN,
    TokenType.ON,
    TokenType.OR,
    TokenType.ORDER_BY,
    TokenType.PARTITION_BY,
    TokenType.SELECT,
    TokenType.WHERE,
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.DPIPE),
    *(TokenType.EQ, TokenType.NEQ, TokenType.GT, TokenType.GTE, TokenType.LT, TokenType.LTE),
}
_GO_ON = {
    *(TokenType.ALIAS, TokenType.COMMA, TokenType.DOT, TokenType.FROM),
    *(TokenType.JOIN, TokenType.ON, TokenType.R_PAREN, TokenType.WHERE),
}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_QUERY = {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.L_PAREN}

# What may follow a value and changes its meaning: a cast, a subscript, a field or method.
_POSTFIX = {TokenType.DCOLON, TokenType.L_BRACKET, TokenType.DOT}

# Types that have others inside: sqlglot reads STRUCT<a INT> and, as if it were one, ROW(a) <.
_NESTED = DuckDB.Parser.NESTED_TYPE_TOKENS - {TokenType.UNION}
_ROWS = DuckDB.Parser.STRUCT_TYPE_TOKENS - {TokenType.UNION}


def mended(tokens: list[Token]) -> list[Token]:
    """`tokens` with those replaced that sqlglot's parser would take for others."""
    tokens = _in_lists(_arrays(_values(_group_by_star(_compared(_names(tokens))))))
    return _null_orders(_kept_calls(_typed_literals(tokens)))


def _like(token: Token, kind: TokenType, text: str) -> Token:
    """A token in the place of `token`, so that errors still name the place."""
    return Token(kind, text, token.line, token.col, token.start, token.end, [])


def _names(tokens: list[Token]) -> list[Token]:
    """``FROM student_teacher map``, ``sum(xor)``: sqlglot expects what its dialects have there.

    ``PARTITION BY`` is one token, of two words; ``MAP {…}`` and calls, as of ``xor(a, b)``, are
    what they are.
    """
    if not tokens or tokens[0].token_type not in _QUERY:
        return tokens
    return [
        _like(token, TokenType.IDENTIFIER, token.text)
        if _is_name(before, token, after) and PLAIN_NAME.fullmatch(token.text)
        else token
        for before, token, after in zip(
            tokens[:1] + tokens[:-1], tokens, [*tokens[1:], tokens[-1]], strict=True
        )
    ]


def _is_name(before: Token, token: Token, after: Token) -> bool:
    kind = token.token_type
    if after.token_type in (TokenType.L_PAREN, TokenType.L_BRACE):
        return False
    if kind == TokenType.BETWEEN:
        return before.token_type in _BEGINS or after is token or after.token_type in _GO_ON
    if kind == TokenType.INSERT:  # (a statement may stand in WITH)
        return after.token_type not in (TokenType.INTO, TokenType.OR)
    if kind == TokenType.VAR and token.text.upper() == "IF":  # (of [x for x in l if x > 2], too)
        return before.token_type in _BEGINS
    return kind in _NAMES


def _compared(tokens: list[Token]) -> list[Token]:
    """``range < 5``, ``row(a, b) < row(1, 2)``: no type of DuckDB has a ``<``, so a column or call.

    (A cast, ``x::MAP(INT, INT) < y``, stays what it is.)
    """
    found = list(tokens)
    for at, token in enumerate(tokens):
        if token.token_type not in _NESTED or (
            at > 0 and tokens[at - 1].token_type == TokenType.DCOLON
        ):
            continue
        called = tokens[at + 1 : at + 2] and tokens[at + 1].token_type == TokenType.L_PAREN
        end = _closing(tokens, at + 1) if called else at
        if end is None or end + 1 >= len(tokens) or tokens[end + 1].token_type != TokenType.LT:
            continue
        if called and token.token_type not in _ROWS:
            continue
        found[at] = _like(token, TokenType.VAR if called else TokenType.IDENTIFIER, token.text)
    return found


def _group_by_star(tokens: list[Token]) -> list[Token]:
    """``GROUP BY *`` is ``GROUP BY ALL``; sqlglot would group by a star."""
    return [
        _like(token, TokenType.ALL, "ALL")
        if token.token_type == TokenType.STAR and before.token_type == TokenType.GROUP_BY
        else token
        for before, token in zip([*tokens[:1], *tokens], tokens, strict=False)
    ]


def _in_lists(tokens: list[Token]) -> list[Token]:
    """``x IN [1, NULL]`` asks a list and is FALSE where ``x IN (1, NULL)`` is NULL."""
    found = list(tokens)
    for at in range(len(found) - 1):
        if found[at].token_type != TokenType.IN or found[at + 1].token_type != TokenType.L_BRACKET:
            continue
        if (end := _closing(found, at + 1)) is None or _is_comprehension(found, at + 1, end):
            continue
        first, last = found[at + 1], found[end]
        found[at + 1 : at + 2] = [
            _like(first, TokenType.IDENTIFIER, "list_value"),
            _like(first, TokenType.L_PAREN, "("),
        ]
        found[end + 1] = _like(last, TokenType.R_PAREN, ")")
    return found


def _values(tokens: list[Token]) -> list[Token]:
    """``FROM (VALUES (1) UNION SELECT …)``: sqlglot wants nothing behind the rows.

    They become ``SELECT * FROM (VALUES (1)) AS _values``, as sqlglot has them elsewhere.
    """
    found: list[Token] = []
    ends: set[int] = set()  # of rows that have been given a parenthesis
    for at, token in enumerate(tokens):
        found.append(token)
        if at in ends:
            tail = {")": TokenType.R_PAREN, "AS": TokenType.ALIAS, "_values": TokenType.VAR}
            found += [_like(token, kind, text) for text, kind in tail.items()]
        if (
            token.token_type != TokenType.VALUES
            or not at
            or tokens[at - 1].token_type != TokenType.L_PAREN
        ):
            continue
        end = at
        while tokens[end + 1 : end + 2] and tokens[end + 1].token_type == TokenType.L_PAREN:
            if (closing := _closing(tokens, end + 1)) is None:
                break
            end = closing
            if not tokens[end + 1 : end + 2] or tokens[end + 1].token_type != TokenType.COMMA:
                break
            end += 1
        if tokens[end].token_type != TokenType.R_PAREN or not tokens[end + 1 : end + 2]:
            continue
        if tokens[end + 1].token_type != TokenType.R_PAREN:
            words = {"SELECT": TokenType.SELECT, "*": TokenType.STAR, "FROM": TokenType.FROM}
            lead = [_like(token, kind, text) for text, kind in words.items()]
            found[-1:] = [*lead, _like(token, TokenType.L_PAREN, "("), token]
            ends.add(end)
    return found


def _arrays(tokens: list[Token]) -> list[Token]:
    """``ARRAY[1]`` is another expression for DuckDB than ``[1]``, and names its column so.

    A mark becomes its first value, unless it is the end of a type: ``x::INTEGER ARRAY[3]``.
    """
    found: list[Token] = []
    for at, token in enumerate(tokens):
        found.append(token)
        if (
            token.token_type == TokenType.L_BRACKET
            and at > 0
            and tokens[at - 1].token_type == TokenType.ARRAY
            and (at == 1 or not _ends_value(tokens[at - 2]))
        ):
            found.append(_like(token, TokenType.VAR, ARRAY))
            if tokens[at + 1 : at + 2] and tokens[at + 1].token_type != TokenType.R_BRACKET:
                found.append(_like(token, TokenType.COMMA, ","))
    return found


def _ends_value(token: Token) -> bool:
    ends = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.DOT, TokenType.VAR}
    return token.token_type in ends | {TokenType.IDENTIFIER} | _LITERAL_TYPES


def _closing(tokens: list[Token], start: int) -> int | None:
    depth = 0
    for at in range(start, len(tokens)):
        kind = tokens[at].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0:
            return at
    return None


def _is_comprehension(tokens: list[Token], start: int, end: int) -> bool:
    """``[x FOR x IN l]``, and the l of ``FOR x IN [1, 2]``: no list literal of its own."""
    before = tokens[max(0, start - 3) : start]
    return any(t.token_type == TokenType.FOR for t in (*before, *tokens[start:end]))


def _typed_literals(tokens: list[Token]) -> list[Token]:
    """``DATE '…'::TIMESTAMP`` casts the date; sqlglot casts the string, and then to DATE."""
    found: list[Token] = []
    for at, token in enumerate(tokens):
        previous = found[-1] if found else None
        follows = tokens[at + 1].token_type if at + 1 < len(tokens) else None
        if (
            token.token_type == TokenType.STRING
            and previous is not None
            and previous.token_type in _LITERAL_TYPES
            and follows in _POSTFIX
        ):
            found[-1:] = [_like(previous, TokenType.L_PAREN, "("), previous, token]
            found.append(_like(token, TokenType.R_PAREN, ")"))
        else:
            found.append(token)
    return found


def _kept_calls(tokens: list[Token]) -> list[Token]:
    """Calls of functions that sqlglot would write as another one get a name it does not know."""
    found = list(tokens)
    for at in range(len(found) - 1):
        token = found[at]
        if (
            found[at + 1].token_type == TokenType.L_PAREN
            and (
                token.text.upper() in _KEPT_CALLS
                or (token.text.upper() in _KEPT_OF_SEVERAL and _are_several(found, at + 2))
            )
            and token.token_type != TokenType.STRING
            and (at == 0 or found[at - 1].token_type != TokenType.DOT)
        ):
            found[at] = _like(token, TokenType.VAR, KEPT + token.text)
    return found


def _are_several(tokens: list[Token], at: int) -> bool:
    """Has a call whose first argument begins there more than one?"""
    depth = 0
    for token in tokens[at:]:
        if depth == 0 and token.token_type == TokenType.COMMA:
            return True
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth < 0:
            break
    return False


def _null_orders(tokens: list[Token]) -> list[Token]:
    """NULLS FIRST and NULLS LAST leave a mark, which sqlglot parses as ClickHouse's WITH FILL."""
    found: list[Token] = []
    for at, token in enumerate(tokens):
        found.append(token)
        if (
            at > 1
            and token.text.upper() in ("FIRST", "LAST")
            and tokens[at - 1].text.upper() == "NULLS"
            and token.token_type != TokenType.IDENTIFIER
        ):
            found += [_like(token, TokenType.WITH, "WITH"), _like(token, TokenType.VAR, "FILL")]
    return found
