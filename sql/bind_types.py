"""What the binder asks DuckDB: the types of expressions, the columns of relations, its functions.

Types are never guessed: DuckDB describes the expressions over typed NULLs, all that belong to one
node in one statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from tidewheel.engine.quoting import quoted
from tidewheel.planner import meaning
from tidewheel.planner.context import Context
from tidewheel.planner.logical import Column
from tidewheel.planner.meaning import Meaning
from tidewheel.planner.text import cast_to, to_sql, typed_nulls, used_parameters
from tidewheel.planner.view_kernels import common_type

from . import functions, hidden
from .bind_scope import NotTaken
from .reads import Names, Relation
from .statements import words_in

_MORE = re.compile(r"\bselect\b.*\bselect\b.*\bselect\b|\w+val\b", re.IGNORECASE | re.DOTALL)
"""In what may name something of the catalog that is neither function nor type."""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_KEPT = 1000
_LONG = 20_000
"""Letters of a type that is not written again for each cast."""
_TEXTS = ("ENUM(", "JSON")
"""Types of which two values are equal where their texts are."""
_VOLATILE = {"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "setseed"}


class Oracle:
    """DuckDB, asked on the session's own connection (which sees its temporary objects)."""

    def __init__(self, context: Context, names: Names | None = None) -> None:
        self._context = context
        self._names = names
        self._described: dict[str, list[tuple[str, str]]] = {}
        self.parameters: Any = context.parameters
        self.elsewhere = False
        """Is a query bound that sees other schemas than the connection does?"""

    def rows(self, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """All rows of a query. One that does not bind leaves an open transaction as it is, since
        it is asked as a relation: a statement that fails would abort it."""
        with self._context.lock:
            relation = hidden.relation(self._context.connection, sql, parameters)
            return [] if relation is None else relation.fetchall()

    @property
    def names(self) -> Names:
        """The catalog, read once."""
        if self._names is None:
            with self._context.lock:
                self._names = Names(self._context.connection)
        return self._names

    @contextmanager
    def inside(self, view: Relation) -> Iterator[None]:
        """The catalog as the query of a plain view sees it."""
        outside, elsewhere = self.names, self.elsewhere
        self._names = outside.inside(view)
        self.elsewhere = elsewhere or self._names is not outside
        try:
            yield
        finally:
            self._names, self.elsewhere = outside, elsewhere

    def describe(self, sql: str) -> list[tuple[str, str]]:
        """Label and type of each column of a query. DuckDB's own error if it does not bind."""
        found = self._described.get(sql)
        if found is None:
            with self._context.lock:
                given = used_parameters(sql, self.parameters)
                found = hidden.describe(self._context.connection, sql, given)
            self._described[sql] = found
        return found

    def columns(self, table: Relation | None, name: str) -> list[tuple[str, str]]:
        """`describe` for what is in FROM; a table that all see is there as long as the catalog."""
        if table is None or table.kind != "table" or table.temporary:
            return self.describe(f"SELECT * FROM {name}")
        known = self.names.columns
        if name not in known:
            known[name] = self.describe(f"SELECT * FROM {name}")
        return known[name]

    def types(self, expressions: Sequence[exp.Expr], inputs: Sequence[Column]) -> list[str]:
        """The type of each expression over rows of `inputs`; none may be an aggregate.

        What was asked of columns of other names, of the same types, is known.
        """
        known = {c.name: c.type for c in inputs}
        types: list[str | None] = [
            known.get(e.name) if isinstance(e, exp.Column) else None for e in expressions
        ]
        asked = [e for e, t in zip(expressions, types, strict=True) if t is None]
        if asked:
            used = dict.fromkeys(c.name for e in asked for c in e.find_all(exp.Column))
            columns = [Column(n, n, known[n]) for n in used if n in known]
            items = ", ".join(to_sql(e) for e in asked)
            if "'" not in items and '"."' not in items:  # names are all that is in quotes
                short = {quoted(c.name): f'"c{i}"' for i, c in enumerate(columns)}
                items = _QUOTED.sub(lambda m: short.get(m[0], m[0]), items)
                columns = [Column(f"c{i}", c.label, c.type) for i, c in enumerate(columns)]
            source = typed_nulls(columns)
            try:
                described = self._typed(f"SELECT {items} FROM ({source})")
            except duckdb.Error as error:
                raise NotTaken(f"DuckDB does not type it alone: {first_line(error)}") from None
            if len(described) != len(asked):
                raise NotTaken("an expression that makes several columns")
            answers = iter(described)
            types = [next(answers)[1] if t is None else t for t in types]
        return [t for t in types if t is not None]

    def compared(
        self, inner: exp.Expr, mine: Sequence[Column], outer: exp.Expr, theirs: Sequence[Column]
    ) -> tuple[exp.Expr, str]:
        """`inner` over `mine`, and its type, so that what equals one value of `outer` is one value.

        The texts '2' and '02' are the same number.
        """
        (kind,), (other,) = self.types([inner], mine), self.types([outer], theirs)
        common = common_type([kind, other])
        texts = kind.startswith(_TEXTS) or other.startswith(_TEXTS)
        if common is None and not texts and '"NULL"' not in (kind, other):
            raise NotTaken(f"a subquery's {kind} that equals {other}")
        rounded = kind == "VARCHAR" or common in ("FLOAT", "DOUBLE")
        if common is not None and common != kind and rounded:
            return cast_to(inner.copy(), common), common
        return inner, kind

    def _typed(self, sql: str) -> list[tuple[str, str]]:
        """`describe` for expressions over typed NULLs: only functions and types are asked for."""
        known = self._functions
        lower = sql.lower() if known.types else ""  # which one a name means depends on the path
        if _MORE.search(sql) or self.parameters or any(t in lower for t in known.types):
            return self.describe(sql)
        kept = known.typed
        asked = sql, self.meaning
        found = kept.get(asked)
        if found is None:
            found = kept[asked] = self.describe(sql)
            if len(kept) > _KEPT:
                kept.clear()
        return found

    @property
    def _functions(self) -> functions.Functions:
        with self._context.lock:
            return functions.of(self._context.connection)

    def aggregates(self) -> Set[str]:
        """The names of aggregate functions."""
        return self._functions.aggregates

    def macros(self) -> Set[str]:
        """The names of macros that use aggregates, subqueries or UNNEST."""
        return self._functions.aggregating

    def user_types(self) -> frozenset[str]:
        """The types that somebody made, in lower case."""
        return self._functions.types

    def made(self) -> Set[str]:
        """The names of the macros that somebody made."""
        return self._functions.macros.keys()

    def bodies(self) -> Mapping[str, tuple[functions.Macro, ...]]:
        """The macros that are to be replaced by what they stand for, by their names."""
        return self._functions.bodies

    @cached_property
    def meaning(self) -> Meaning:
        """The settings on which the meaning of a query depends."""
        if self._context.meaning is not None:
            return self._context.meaning
        values: tuple[str, ...] = self.rows(meaning.QUERY)[0]
        return meaning.meaning(values)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without JSON around it."""
    text = str(error)
    brace = text.find("{")
    if brace >= 0:
        try:
            text = str(json.loads(text[brace:])["exception_message"])
        except (ValueError, KeyError):
            pass
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


_NAMES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
"""Of the calls that are written most: to write the others takes long."""


def function_name(node: exp.Expr) -> str:
    """The name by which DuckDB knows a function call, lower case; '' for what is no call."""
    if not isinstance(node, exp.Func) or isinstance(node, (exp.Cast, exp.Case, exp.Connector)):
        return ""
    if type(node) in _NAMES:
        return _NAMES[type(node)]
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    text = to_sql(node)
    head = text.split("(", 1)[0].strip().lower()
    return head if head.replace("_", "").isalnum() else ""


def may_name(tree: exp.Expr, types: Set[str]) -> bool:
    """May a query cast to one of these types, which somebody made?"""
    if not types:
        return False
    user = exp.DType.USERDEFINED
    if any(exp.DataType.build(t, dialect="duckdb", udt=True).this != user for t in types):
        return True  # called as one of DuckDB's own, which has several names
    named = set().union(*(words_in(to_sql(t)) for t in tree.find_all(exp.DataType)))
    return not types.isdisjoint(named)


def with_types_spelled_out(tree: exp.Query, oracle: Oracle) -> exp.Query:
    """`tree`, its casts to types that somebody made being to what these are, in place.

    A view's kernels run on a connection that does not know their names.
    """
    user = exp.DType.USERDEFINED
    named = [t for t in tree.find_all(exp.DataType) if t.this == user]
    if named and oracle.user_types():
        known: dict[str, exp.Expr | None] = {}
        for t in named:
            name = to_sql(t)
            if name not in known:
                known[name] = _spelled_out(name, oracle)
            if (meant := known[name]) is not None:
                t.replace(meant.copy())
    return tree


def _spelled_out(name: str, oracle: Oracle) -> exp.Expr | None:
    """What a type is; None if sqlglot does not write that as DuckDB does, or it is very long."""
    try:
        ((kind,),) = oracle.rows(f"SELECT system.main.typeof(CAST(NULL AS {name}))")
        if len(kind) > _LONG:
            return None
        meant: exp.Expr = cast_to(exp.Null(), kind).args["to"]
        ((again,),) = oracle.rows(f"SELECT system.main.typeof(CAST(NULL AS {to_sql(meant)}))")
    except (duckdb.Error, sqlglot.errors.SqlglotError):
        return None
    return meant if again == kind else None


def is_volatile(node: exp.Expr) -> bool:
    """Does it give another value each time?"""
    return any(function_name(f) in _VOLATILE for f in node.find_all(exp.Func))
