"""Which functions a connection has, by DuckDB's own list.

To read the list takes as long as to plan a query, so it is kept until a function may have come or
gone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, ref

import duckdb

from . import common_functions
from .statements import Statement, Token, tokens

_CHANGING = """
stability = 'VOLATILE' AND function_name <> 'error'
   OR stability = 'CONSISTENT_WITHIN_QUERY'
      AND len(list_filter(parameter_types, lambda p: p NOT IN ('VARCHAR', 'BOOLEAN'))) = 0
"""
"""Functions that take no values to compute with, but names at most.

Those of dates and times with a zone are only "consistent within a query", too, as the time zone may
be set to another one in between; a view keeps the settings that it was made with.
"""
_LIST = f"""
SELECT DISTINCT lower(function_name), function_type, macro_definition, internal,
       {_CHANGING},
       database_name = 'temp',
       CASE WHEN macro_definition IS NOT NULL THEN
           (database_name, schema_name, parameters, parameter_types)
       END
FROM duckdb_functions()
WHERE function_type = 'aggregate' OR macro_definition IS NOT NULL OR {_CHANGING}
"""
_TYPES = """
SELECT lower(type_name), database_name = 'temp' FROM duckdb_types() WHERE NOT internal
"""
_RELATIONS = frozenset({"TABLE", "VIEW", "INDEX", "SEQUENCE"})
_UNSAID = {"current_localtime", "current_localtimestamp", "query", "query_table"}
"""What DuckDB's list calls a function of its arguments, and the reads that no text tells of."""
_OF_THE_CATALOG = ("duckdb_", "pragma_")
BARE = frozenset({
    *("current_date", "current_timestamp", "current_time", "localtime", "localtimestamp"),
    *("current_schema", "current_catalog"),
})  # fmt: skip
"""Functions that are written like columns."""


@dataclass(frozen=True, slots=True)
class Macro:
    """One definition of a macro. `types`: of the parameters, '' where any will do."""

    name: str
    database: str
    schema: str
    table: bool
    parameters: tuple[str, ...]
    types: tuple[str, ...]
    text: str

    @property
    def place(self) -> tuple[str, str]:
        """Its database and schema, in lower case as search paths have them."""
        return self.database.lower(), self.schema.lower()


@dataclass(frozen=True)
class Functions:
    """Names in lower case."""

    aggregates: Set[str]
    volatile: Set[str]
    macros: dict[str, tuple[str, ...]]
    """The definitions of the macros that somebody made: one name may have several."""
    temporary: frozenset[str]
    """Those of them that only this connection has."""
    types: frozenset[str]
    """The types that somebody made."""
    temporary_types: frozenset[str]
    internal: Mapping[str, tuple[str, ...]]
    """The definitions of DuckDB's own."""
    aggregating: Set[str]
    """The scalar macros, DuckDB's own among them, that use aggregates, subqueries or UNNEST."""

    bodies: Mapping[str, tuple[Macro, ...]]
    """The macros that somebody made, and DuckDB's own over aggregates."""

    typed: dict[Hashable, list[tuple[str, str]]] = field(default_factory=dict, compare=False)
    """Labels and types of columns that depend on nothing but functions and types of the catalog."""

    def is_unstable(self, name: str) -> bool:
        """Is its value not a function of the tables, as it is a macro over such a one, say?"""
        seen, todo = {name}, [name]
        while todo:
            word = todo.pop()
            if word in self.volatile or word in _UNSAID or word in BARE:
                return True
            if word.startswith(_OF_THE_CATALOG):
                return True
            if word in self.aggregates:  # a call of histogram is the aggregate, but for FROM's
                continue
            for text in (*self.internal.get(word, ()), *self.macros.get(word, ())):
                called = {w for _, w in calls(text)} - seen
                seen |= called
                todo += called
        return False


_TEXTS = re.compile(r"'(?:[^']|'')*'")
"""(``list_sum`` names the aggregate that ``list_aggr`` uses, which is a function of one list.)"""
_versions = itertools.count(1)
_version = next(_versions)
_kept: WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[int, Functions]] = WeakKeyDictionary()
_new: WeakKeyDictionary[duckdb.DuckDBPyConnection, int] = WeakKeyDictionary()
"""The only connections of new databases, and the version when they were."""
_own: list[Functions] = []
"""DuckDB's own functions, once they are read."""


def calls(text: str) -> Iterator[tuple[Token, str]]:
    """The functions that a text calls, in lower case, and the values that are written like columns.

    ``age`` with one argument is reckoned from today; with two it is not among them.
    """
    parts = list(tokens(text))
    for i, token in enumerate(parts):
        before = parts[i - 1].text if i else ""
        behind = parts[i + 1].text if i + 1 < len(parts) else ""
        word = token.word
        if behind == "(" and token.kind in ("word", "string") and before.upper() != "AS":
            arguments, end = _arguments(parts, i + 1)
            table = [t.text.upper() for t in parts[end + 1 : end + 3]]
            if table[:1] == ["AS"] and table[1:] in (["("], ["NOT"], ["MATERIALIZED"]):
                continue  # the columns of a WITH table
            if word != "age" or arguments + (before == ".") == 1:
                yield token, word
        elif word in BARE and token.kind == "word" and "." not in (before, behind):
            if before.upper() == "AS":
                continue  # the name of a column
            yield token, word


def _arguments(parts: list[Token], opened: int) -> tuple[int, int]:
    """How many arguments are in the parentheses that open at a token, and where they close."""
    depth, commas = 0, 0
    for at in range(opened, len(parts)):
        text = parts[at].text if parts[at].kind == "punctuation" else ""
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        commas += depth == 1 and text == ","
        if depth == 0:
            return (0 if at == opened + 1 else commas + 1), at
    return commas + 1, len(parts)


def is_steady(text: str) -> bool:
    """Does a query plainly depend on its tables alone? Often wrongly no; asks nobody."""
    return all(word in _STEADY for _, word in calls(text))


_STEADY = {
    "abs", "array_agg", "avg", "bool_and", "bool_or", "cast", "ceil", "coalesce", "concat",
    "count", "floor", "greatest", "ifnull", "least", "length", "list", "list_append",
    "list_concat", "list_contains", "lower", "max", "min", "nullif", "range", "replace", "round",
    "row_number", "string_agg", "substr", "substring", "sum", "trim", "unnest", "upper",
    # words of SQL itself, before a parenthesis
    "all", "and", "any", "as", "by", "case", "distinct", "else", "except", "exists", "filter",
    "from", "having", "in", "intersect", "lateral", "materialized", "not", "on", "or", "over",
    "select", "then", "union", "using", "values", "when", "where",
}  # fmt: skip


def is_unstable(word: str, functions: Functions) -> bool:
    """Is what `calls` found not a function of the tables?"""
    return word == "age" or functions.is_unstable(word)


def changed() -> None:
    """A function may have come or gone, in any connection of this process."""
    global _version
    _version = next(_versions)


def version() -> int:
    """Another one after every call of `changed`."""
    return _version


def may_change(statement: Statement) -> bool:
    """May a statement that is not about rows make or drop a function? Never wrongly no."""
    words = set(statement.words)
    if words & {"MACRO", "FUNCTION"} or statement.words[0] not in ("CREATE", "DROP", "ALTER"):
        return True
    return not words & _RELATIONS


def of(connection: duckdb.DuckDBPyConnection) -> Functions:
    """The functions that statements on `connection` can call now."""
    kept = _kept.get(connection)
    version = _version
    if kept is None or kept[0] != version:
        new = _new.get(connection) == version
        kept = _kept[connection] = (version, (_unread if new else _read)(connection))
    return kept[1]


def nothing_made(connection: duckdb.DuckDBPyConnection) -> None:
    """`connection` is the only one to a new database: nobody has made a function or a type."""
    _new[connection] = _version


def _unread(connection: duckdb.DuckDBPyConnection) -> Functions:
    """DuckDB's own functions, whose list is read when it is asked for one that is not common.

    It is read once in a process, as it is the same in all new databases.
    """
    held = ref(connection)  # this is kept for as long as the connection is

    def read() -> Functions:
        if not _own:
            found = held()
            assert found is not None
            _own.append(_read(found))
        return _own[0]

    return Functions(
        aggregates=common_functions.Names(common_functions.AGGREGATES, lambda: read().aggregates),
        volatile=common_functions.Names(frozenset(), lambda: read().volatile),
        macros={},
        temporary=frozenset(),
        types=frozenset(),
        temporary_types=frozenset(),
        internal=common_functions.Definitions(lambda: read().internal),
        aggregating=common_functions.Names(frozenset(), lambda: read().aggregating),
        bodies=common_functions.Definitions(lambda: read().bodies),
    )


def _read(connection: duckdb.DuckDBPyConnection) -> Functions:
    rows = connection.sql(_LIST).fetchall()
    aggregates = frozenset(name for name, kind, *_ in rows if kind == "aggregate")
    macros = [row[:4] for row in rows if row[2] is not None]
    wanted = aggregates | {"select", "unnest"}
    definitions: tuple[dict[str, tuple[str, ...]], ...] = {}, {}
    for name, _, text, internal in macros:
        of = definitions[internal]
        of[name] = (*of.get(name, ()), text)
    words = [
        (name, {w.lower() for w in re.findall(r"\w+", _TEXTS.sub("", text))})
        for name, kind, text, _ in macros
        if kind == "macro"
    ]
    aggregating: set[str] = set()
    while more := {name for name, used in words if used & wanted} - aggregating:
        aggregating |= more
        wanted |= more
    own_types = connection.sql(_TYPES).fetchall()
    bodies: dict[str, tuple[Macro, ...]] = {}
    for name, kind, text, internal, *_, place in rows:
        if text is not None and (name in aggregating or not internal):
            database, schema, parameters, types = place
            macro = Macro(name, database, schema, kind == "table_macro", tuple(parameters),
                          tuple(t or "" for t in types), text)  # fmt: skip
            bodies[name] = (*bodies.get(name, ()), macro)
    return Functions(
        aggregates=aggregates,
        volatile=frozenset(row[0] for row in rows if row[4]),
        macros=definitions[0],
        temporary=frozenset(row[0] for row in rows if row[2] is not None and row[5]),
        types=frozenset(name for name, _ in own_types),
        temporary_types=frozenset(name for name, own in own_types if own),
        internal=definitions[1],
        aggregating=frozenset(aggregating),
        bodies=bodies,
    )
