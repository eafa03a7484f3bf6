"""The sqlglot dialect: DuckDB's, with what its round trip changes in silence mended.

``parse_one(text, dialect=Tidewheel).sql(dialect=Tidewheel)`` has to be the same query for DuckDB.
`tests/sql/test_round_trip.py` compares DuckDB's own parse trees of both; each mend below says what
was lost. sqlglot's compiled parser and generator cannot be subclassed, so the mends work on the
tokens before parsing and on the tree before writing. The file is the planner's because the planner
writes SQL; the front end, which reads it, may import from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import DialectType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

_WRITTEN = "written"
_KEPT = "__tw_kept_"
_ARRAY = "__tw_array"
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.]*")

# sqlglot turns calls of these into other calls: log2(x) into log(2, x), struct_pack(*COLUMNS(…))
# into a struct of one field, today() into CURRENT_DATE, which a column may be called. It takes
# apply(…) for a join, and reduce(…) with three arguments only.
_KEPT_CALLS = {"APPLY", "LOG2", "LOG10", "REDUCE", "STRUCT_PACK", "TODAY", "GET_CURRENT_TIME"}

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
_QUERY = {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.L_PAREN}

# What may follow a value and changes its meaning: a cast, a subscript, a field or method.
_POSTFIX = {TokenType.DCOLON, TokenType.L_BRACKET, TokenType.DOT}


class Plain(DuckDB):
    """sqlglot's reading as it is; what it can't read is a ParseError, and never another one."""

    def parse(self, sql: str, **opts: Any) -> list[exp.Expr | None]:
        """The statements of `sql`."""
        try:
            return super().parse(sql, **opts)
        except (AttributeError, TypeError) as error:  # over some malformed texts: ``{: 1}``
            raise ParseError(f"malformed: {error}") from error


class Tidewheel(Plain):
    """Registered with sqlglot as ``tidewheel``."""

    INDEX_OFFSET = 0
    """Subscripts stay as written. sqlglot takes 1 from those of what may be a list, and adds it
    again if it still may: not where a text has taken the place of a column."""

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """The tokens of `sql`, those replaced that sqlglot's parser would take for others."""
        tokens = super().tokenize(sql, dialect)
        tokens = _in_lists(_arrays(_values(_group_by_star(_names(tokens)))))
        return _null_orders(_kept_calls(_typed_literals(tokens)))

    def parse(self, sql: str, **opts: Any) -> list[exp.Expr | None]:
        """The statements of `sql`; where no null order is written, `nulls_first` is None."""
        return [_extracting(_unmarked(tree), sql, self) for tree in super().parse(sql, **opts)]

    def parse_into(self, expression_type: Any, sql: str, **opts: Any) -> list[exp.Expr | None]:
        """As `parse`, for a part of a statement."""
        found = super().parse_into(expression_type, sql, **opts)
        return [_extracting(_unmarked(tree), sql, self) for tree in found]

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """A path as sqlglot understands it, together with how it was written.

        ``j -> 'a.b'`` names one key; sqlglot reads the path ``$.a.b`` and would write that.
        """
        found = super().to_json_path(path)
        if found is not path and found is not None and path is not None:
            found.meta[_WRITTEN] = path
        return found

    def generate(self, expression: exp.Expr, copy: bool = True, **opts: Any) -> str:
        """`expression` as text, with the spelling of every node in `_SPELLING` our own.

        sqlglot's warnings would reach the user's stderr; what it changes is found by comparing
        parse trees.
        """
        opts.setdefault("unsupported_level", ErrorLevel.IGNORE)
        if any(_is_spelled(node) for node in expression.walk()):
            expression, copy = _spelled(expression.copy(), self, opts), False
        return super().generate(expression, copy=copy, **opts)


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
        if _is_name(before, token, after) and _PLAIN_NAME.fullmatch(token.text)
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
            found.append(_like(token, TokenType.VAR, _ARRAY))
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
        depth += kind in (TokenType.L_BRACKET, TokenType.L_PAREN, TokenType.L_BRACE)
        depth -= kind in (TokenType.R_BRACKET, TokenType.R_PAREN, TokenType.R_BRACE)
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
            and token.text.upper() in _KEPT_CALLS
            and token.token_type != TokenType.STRING
            and (at == 0 or found[at - 1].token_type != TokenType.DOT)
        ):
            found[at] = _like(token, TokenType.VAR, _KEPT + token.text)
    return found


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


def _unmarked(tree: exp.Expr | None) -> exp.Expr | None:
    """The tree with the marks that the tokens left turned into what they say."""
    if tree is None:
        return None
    for node in list(tree.find_all(exp.Ordered, exp.Anonymous, exp.Array, exp.AnyValue)):
        if isinstance(node, exp.AnyValue):
            _own_nulls(node)
        elif isinstance(node, exp.Array):
            if node.expressions and node.expressions[0].name == _ARRAY:
                node.set("expressions", node.expressions[1:])
                node.meta[_WRITTEN] = "ARRAY"
        elif isinstance(node, exp.Anonymous):
            if isinstance(node.this, str) and node.this.startswith(_KEPT):
                node.set("this", node.this.removeprefix(_KEPT))
        elif node.args.get("with_fill") is None:
            node.set("nulls_first", None)
        else:
            node.set("with_fill", None)
    return tree


def _own_nulls(call: exp.AnyValue) -> None:
    """``sum(any_value(x)) OVER ()``: sqlglot moves the IGNORE NULLS of any_value to sum."""
    if isinstance(call.parent, exp.IgnoreNulls):
        return
    moved = call.find_ancestor(exp.IgnoreNulls, exp.Query)
    if isinstance(moved, exp.IgnoreNulls):
        moved.replace(moved.this)


def _extracting(tree: exp.Expr | None, sql: str, dialect: DuckDB) -> exp.Expr | None:
    """``f(j -> 'a')`` passes a part of j; sqlglot takes the argument for a function of j.

    (Which ``lambda j: 'a'`` is; both have one tree.)
    """
    if tree is None or "lambda" in sql.lower():
        return tree
    found = list(tree.find_all(exp.Lambda))
    for node in found:
        first = node.this  # of j -> 'a' -> 'b': sqlglot has 'a' -> 'b' as the body
        while isinstance(first, exp.JSONExtract | exp.JSONExtractScalar):
            first = first.this
        name = node.expressions[0] if len(node.expressions) == 1 else None
        if isinstance(first, exp.Literal) and isinstance(name, exp.Identifier):
            path = dialect.to_json_path(first.copy())
            part = exp.JSONExtract(this=exp.Column(this=name.copy()), expression=path)
            part.set("only_json_types", False)
            first.replace(part)
            node.replace(node.this)
    return tree


def _is_spelled(node: exp.Expr) -> bool:
    """Does sqlglot write this node as another thing?"""
    if isinstance(node, exp.DataType):
        kind = node.args.get("kind")
        return isinstance(kind, str) and not _PLAIN_NAME.fullmatch(kind)
    if isinstance(node, exp.Ordered):
        return node.args.get("nulls_first") is False and not node.find_ancestor(exp.WithinGroup)
    if isinstance(node, exp.Array):
        return _WRITTEN in node.meta
    if isinstance(node, exp.Pivot):
        return any(c.args.get("table") for c in node.find_all(exp.Column))
    if isinstance(node, exp.Join):
        return isinstance(node.this, exp.Unnest) and set(filter(node.args.get, node.args)) == {
            "this"
        }
    return type(node) in _SPELLING


def _spelled(tree: exp.Expr, dialect: DuckDB, opts: dict[str, Any]) -> exp.Expr:
    """The tree with every node that has a spelling of its own replaced by its text."""
    nodes = [node for node in tree.walk() if _is_spelled(node)]
    for node in reversed(nodes):  # the innermost first: walk() meets parents before children
        text = exp.Var(this=_SPELLING[type(node)](node, lambda e: dialect.generate(e, **opts)))
        if node is tree:
            return text
        node.replace(text)
    return tree


_Write = Callable[[exp.Expr], str]


def _nulls_last(node: exp.Expr, write: _Write) -> str:
    """NULLS LAST is DuckDB's default, which `default_null_order` changes."""
    descending = node.args.get("desc")
    direction = " DESC" if descending else " ASC" if descending is False else ""
    return f"{write(node.this)}{direction} NULLS LAST"


def _json_path(node: exp.Expr, write: _Write) -> str:
    written = node.meta.get(_WRITTEN)
    return write(written) if isinstance(written, exp.Expr) else DuckDB().generate(node)


def _type_name(node: exp.Expr, write: _Write) -> str:
    """A type of the user's whose name needs its quotes."""
    return str(exp.to_identifier(node.args["kind"], quoted=True).sql("duckdb"))


def _pivot(node: exp.Expr, write: _Write) -> str:
    """sqlglot drops the qualifiers of all columns in it, those of the query that is pivoted too."""
    kept = node.copy()
    for c in list(kept.find_all(exp.Column)):
        if c.args.get("table"):
            c.replace(exp.Var(this=write(c.copy())))
    return write(kept) if kept.this else f" {write(kept)}"


def _nulls(words: str) -> Callable[[exp.Expr, _Write], str]:
    """``first(x IGNORE NULLS)``: sqlglot has the words around a call or its argument, or none."""

    def spelled(node: exp.Expr, write: _Write) -> str:
        text = write(node.this)
        if isinstance(node.this, exp.AnyValue):
            return text  # sqlglot's own words: DuckDB's any_value needs none
        if isinstance(node.parent, exp.Func | exp.Ordered):
            return f"{text} {words} NULLS"
        return f"{text.removesuffix(')')} {words} NULLS)"

    return spelled


_SPELLING: dict[type[exp.Expr], Callable[[exp.Expr, _Write], str]] = {
    exp.Ordered: _nulls_last,
    exp.JSONPath: _json_path,
    exp.DataType: _type_name,
    exp.Pivot: _pivot,
    # sqlglot writes JOIN … ON TRUE, to which further joins belong in another way.
    exp.Join: lambda node, write: f", {write(node.this)}",
    # sqlglot adds a cast to BOOLEAN, which lets pass what DuckDB refuses.
    exp.LogicalAnd: lambda node, write: f"BOOL_AND({write(node.this)})",
    exp.LogicalOr: lambda node, write: f"BOOL_OR({write(node.this)})",
    exp.Array: lambda node, write: f"ARRAY[{', '.join(map(write, node.expressions))}]",
    exp.IgnoreNulls: _nulls("IGNORE"),
    exp.RespectNulls: _nulls("RESPECT"),
    # sqlglot writes other names of the same parts: DAYOFWEEK for dow.
    exp.Extract: lambda node, write: f"EXTRACT({write(node.this)} FROM {write(node.expression)})",
}
