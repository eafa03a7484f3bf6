"""The sqlglot dialect: DuckDB's, with what its round trip changes in silence mended.

``parse_one(text, dialect=Tidewheel).sql(dialect=Tidewheel)`` has to be the same query for DuckDB.
`tests/sql/test_round_trip.py` compares DuckDB's own parse trees of both; each mend below says what
was lost. sqlglot's compiled parser and generator cannot be subclassed, so the mends work on the
tokens before parsing (`tokens.py`) and on the tree before writing. The file is the planner's
because the planner writes SQL; the front end, which reads it, may import from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import DialectType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token

from tidewheel.planner.tokens import ARRAY, KEPT, PLAIN_NAME, mended

_WRITTEN = "written"


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
        return mended(super().tokenize(sql, dialect))

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


def _unmarked(tree: exp.Expr | None) -> exp.Expr | None:
    """The tree with the marks that the tokens left turned into what they say."""
    if tree is None:
        return None
    for node in list(tree.find_all(exp.Ordered, exp.Anonymous, exp.Array, exp.AnyValue)):
        if isinstance(node, exp.AnyValue):
            _own_nulls(node)
        elif isinstance(node, exp.Array):
            if node.expressions and node.expressions[0].name == ARRAY:
                node.set("expressions", node.expressions[1:])
                node.meta[_WRITTEN] = "ARRAY"
        elif isinstance(node, exp.Anonymous):
            if isinstance(node.this, str) and node.this.startswith(KEPT):
                node.set("this", node.this.removeprefix(KEPT))
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
        return isinstance(kind, str) and not PLAIN_NAME.fullmatch(kind)
    if isinstance(node, exp.Ordered):
        return node.args.get("nulls_first") is False and not node.find_ancestor(exp.WithinGroup)
    if isinstance(node, exp.Array):
        return _WRITTEN in node.meta
    if isinstance(node, exp.ToMap):
        return isinstance(node.this, exp.Struct) and not node.this.expressions
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
    # Under a cast sqlglot writes MAP MAP().
    exp.ToMap: lambda node, write: "MAP {}",
    exp.IgnoreNulls: _nulls("IGNORE"),
    exp.RespectNulls: _nulls("RESPECT"),
    # sqlglot writes other names of the same parts: DAYOFWEEK for dow.
    exp.Extract: lambda node, write: f"EXTRACT({write(node.this)} FROM {write(node.expression)})",
}
