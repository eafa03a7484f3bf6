"""DuckDB's own parse trees, brought to a form in which two spellings of one query are equal.

What counts as two spellings of one thing is taken from DuckDB where it says so: the aliases of
functions and types that its catalog lists. The few rules beyond that are written out below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import duckdb

from tidewheel.engine.inherited import kept_in_child

from .statements import tokens

Tree = Any

# Where a node stood in the text; the path repeats names that the node holds anyway.
_IGNORED = {"query_location", "query_location_length", "qualified_name", "is_operator"}

_NONE = '{"error":true'
_PLACE = re.compile(r'"query_location(?:_length)?":\d+,?')

# Their first argument names a part of a date, in any case.
_TAKES_PART = {"date_trunc", "date_part", "date_diff", "date_sub"}

# Aliases that DuckDB documents but its catalog does not list as such. `json_extract` and the
# arrows are the same functions; so are the JSON functions' `_path` forms.
_SAME_FUNCTION = {
    "datediff": "date_diff",
    "datesub": "date_sub",
    "datetrunc": "date_trunc",
    "datepart": "date_part",
    "json_extract": "->",
    "json_extract_path": "->",
    "json_extract_string": "->>",
    "json_extract_path_text": "->>",
    "&&": "list_has_any",
    # macros of DuckDB's whose whole body is the other name
    "date_add": "+",
    "array_append": "list_append",
    "array_prepend": "list_prepend",
}


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return kept_in_child(duckdb.connect(config={"threads": 1}))


@cache
def _function_aliases() -> dict[str, str]:
    rows = _connection().execute(
        "SELECT DISTINCT lower(function_name), lower(alias_of) FROM duckdb_functions() "
        "WHERE alias_of IS NOT NULL AND internal"
    )
    return dict(rows.fetchall()) | _SAME_FUNCTION


@cache
def _type_aliases() -> dict[str, str]:
    rows = _connection().execute(
        "SELECT lower(type_name), lower(logical_type) FROM duckdb_types() "
        "WHERE database_name = 'system' AND lower(type_name) <> 'json'"
    )
    return dict(rows.fetchall())


def parse_tree(sql: str) -> Tree | None:
    """DuckDB's tree of a SELECT, or None for a statement that it cannot write out as one."""
    return parse_trees([sql])[0]


def parse_trees(texts: list[str]) -> list[Tree | None]:
    """The trees of many queries, by one statement."""
    return [_tree(text) for text in _serialized(texts)]


def _serialized(texts: list[str]) -> list[str]:
    rows = (
        _connection()
        .cursor()
        .execute("SELECT json_serialize_sql(q) FROM unnest(?::VARCHAR[]) t(q)", [texts])
    )
    return [text for (text,) in rows.fetchall()]


def _tree(serialized: str) -> Tree | None:
    tree = json.loads(serialized)
    return None if tree.get("error") else tree["statements"]


def canonical(tree: Tree) -> Tree:
    """The tree without what makes no difference to the answer."""
    if isinstance(tree, list):
        return [canonical(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    node = {k: canonical(v) for k, v in tree.items() if k not in _IGNORED}
    for rule in _RULES:
        node = rule(node)
    return node


def same_query(a: str, b: str) -> bool | None:
    """Are two texts one query to DuckDB? None if it has no tree for the first."""
    if _spelled_alike(_words(a), _words(b)):
        return True
    texts = _serialized([a, b])
    if texts[0].startswith(_NONE):  # quicker than to read it
        return None
    first, second = (_PLACE.sub("", text) for text in texts)
    return first == second or bool(canonical(_tree(texts[0])) == canonical(_tree(texts[1])))


def _spelled_alike(a: list[str], b: list[str]) -> bool:
    """Are the words the same, but for AS before other names in `b`?"""
    if a == b:
        return True
    at = 0
    for word in b:
        if at < len(a) and a[at] == word:
            at += 1
        elif word != "AS" or not 0 < at < len(a) or not (_is_name(a[at]) and _is_named(a[at - 1])):
            return False
    return at == len(a)


def _is_named(word: str) -> bool:
    """Does the end of something stand there that may have a name?"""
    return word == ")" or _is_name(word)


def _is_name(word: str) -> bool:
    """Is it a name in any place, so no word of DuckDB's grammar?"""
    return word[0] == '"' or (word.isidentifier() and word not in _keywords())


@cache
def _keywords() -> frozenset[str]:
    rows = _connection().execute("SELECT upper(keyword_name) FROM duckdb_keywords()").fetchall()
    return frozenset(word for (word,) in rows)


def _words(text: str) -> list[str]:
    """What is left of a text without its layout, and the case of what is not in quotes.

    DATE '2024-01-01' is a cast here, as it is to DuckDB and to sqlglot.
    """
    found: list[str] = []
    end = -1
    for token in tokens(text):
        sign = token.kind == "punctuation" and token.text not in "()[]{},;"
        if sign and token.start == end:  # operators of several signs
            found[-1] += token.text
        elif token.text[0] == "'" and found[-1:] in _LITERALS and found[-2:-1] != ["."]:
            found[-1:] = ["CAST", "(", token.text, "AS", *found[-1:], ")"]
        else:
            found.append(token.text.upper() if token.kind == "word" else token.text)
        end = token.start + len(token.text) if sign else -1
    return found


_LITERALS = (["DATE"], ["TIMESTAMP"])
"""Before a text, as in DATE '2024-01-01'."""


def difference(a: Tree, b: Tree, path: str = "") -> str | None:
    """The first place where two trees differ, None if they do not."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys(), key=lambda k: (k not in _TELLING, k)):
            if found := difference(a.get(key), b.get(key), f"{path}.{key}"):
                return found
        return None
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = zip(a, b, strict=True)
        return next((d for i, (x, y) in enumerate(pairs) if (d := difference(x, y, path))), None)
    if a == b:
        return None
    return f"{path}: {json.dumps(a)[:90]} became {json.dumps(b)[:90]}"


_TELLING = ("class", "type", "function_name", "type_name")


def _text_of(node: Tree) -> str | None:
    """The text of a constant, or of a function's argument that is one."""
    expression = node.get("expression", node)
    literal = expression.get("literal") if isinstance(expression, dict) else None
    return literal["text"] if isinstance(literal, dict) else None


def _function(node: Tree) -> Tree:
    name = node.get("function_name")
    if not isinstance(name, str):
        return node
    name = name.lower()
    for _ in range(3):
        name = _function_aliases().get(name, name)
    node["function_name"] = name
    arguments = node["arguments"]
    if name in _TAKES_PART and arguments and (part := _text_of(arguments[0])):
        arguments[0]["expression"]["literal"]["text"] = part.lower()
    if (
        name in ("range", "generate_series")
        and len(arguments) == 2
        and _text_of(arguments[0]) == "0"
    ):
        node["arguments"] = arguments[1:]
    if name == "string_agg" and len(arguments) == 1:
        node["arguments"] = [*arguments, {"name": "", "expression": _item("','")}]
    orders = (node.get("order_bys") or {}).get("orders") or []
    if name in ("quantile_cont", "quantile_disc") and len(arguments) == len(orders) == 1:
        # percentile_cont(f) WITHIN GROUP (ORDER BY x) is quantile_cont(x, f ORDER BY x)
        node["arguments"] = [{"name": "", "expression": orders[0]["expression"]}, *arguments]
    if not arguments and name in ("current_user", "session_user"):
        return {**_item(name), "alias": node["alias"]}
    if name == "+" and len(arguments) == 1:
        return {**arguments[0]["expression"], "alias": node["alias"]}
    if name == "-" and len(arguments) == 1:
        return _negated(node, arguments[0]["expression"])
    if name == "if" and len(arguments) == 3:  # it is a macro for CASE
        when, then, otherwise = (a["expression"] for a in arguments)
        return {
            "class": "CASE",
            "type": "CASE_EXPR",
            "alias": node["alias"],
            "case_checks": [{"when_expr": when, "then_expr": then}],
            "else_expr": otherwise,
        }
    return node


def _negated(node: Tree, negated: Tree) -> Tree:
    """-(+5), which sqlglot writes as -5, is that constant, unless it is too large for one type."""
    literal = negated.get("literal")
    if not isinstance(literal, dict) or literal["kind"] not in ("INTEGER", "NUMERIC"):
        return node
    text = literal["text"]
    if not re.fullmatch(r"-?[\d.]{1,18}(e[+-]?\d+)?", text):
        return node
    text = text[1:] if text[0] == "-" else "-" + text
    return {**negated, "alias": node["alias"], "literal": {**literal, "text": text}}


def _type(node: Tree) -> Tree:
    if isinstance(node.get("type_name"), str):
        name = node["type_name"].lower()
        node["type_name"] = _type_aliases().get(name, name)
        if node["type_name"] == "varchar":  # a length is accepted and has no effect
            node["children"] = []
        if node["type_name"] == "decimal" and not node["children"]:
            node["children"] = [_item("18"), _item("3")]
    return node


_OPPOSITE = {
    "OPERATOR_IS_NULL": "OPERATOR_IS_NOT_NULL",
    "OPERATOR_IS_NOT_NULL": "OPERATOR_IS_NULL",
    "COMPARE_NOT_DISTINCT_FROM": "COMPARE_DISTINCT_FROM",
    "COMPARE_DISTINCT_FROM": "COMPARE_NOT_DISTINCT_FROM",
}


def _not(node: Tree) -> Tree:
    """NOT (x IS NULL) is x IS NOT NULL; likewise IS [NOT] DISTINCT FROM, which IS TRUE is too."""
    if node.get("type") == "OPERATOR_NOT" and len(node["children"]) == 1:
        inner = node["children"][0]
        if opposite := _OPPOSITE.get(inner.get("type")):
            return {**inner, "type": opposite, "alias": node["alias"]}
    return node


def _number(node: Tree) -> Tree:
    """1_000 is 1000, 5. is 5.0 and .5 is 0.5."""
    literal = node.get("literal")
    if isinstance(literal, dict) and literal.get("kind") in ("INTEGER", "NUMERIC", "DECIMAL"):
        text = re.sub(r"^\.", "0.", literal["text"].replace("_", "").lower())
        literal["text"] = text
    return node


def _interval(node: Tree) -> Tree:
    """INTERVAL '1' DAY is INTERVAL 1 DAY: DuckDB casts either constant to DOUBLE itself."""
    if node.get("class") == "CAST" and node.get("type_expr", {}).get("type_name") == "double":
        text = _text_of(node["child"])
        if text is not None and re.fullmatch(r"\d+", text):
            node["child"]["literal"]["kind"] = "INTEGER"
    return node


def _column(node: Tree) -> Tree:
    """Identifiers are compared without regard to case."""
    if node.get("class") == "COLUMN_REF":
        node["column_names"] = [n.lower() for n in node["column_names"]]
    return node


def _join(node: Tree) -> Tree:
    """A comma, CROSS JOIN and JOIN … ON TRUE are one."""
    if node.get("join_type") == "INNER" and node.get("ref_type") in ("CROSS", "REGULAR"):
        condition = node.get("condition")
        is_true = isinstance(condition, dict) and _text_of(condition) == "true"
        if node["ref_type"] == "CROSS" or is_true:
            node |= {"ref_type": "CROSS", "condition": None, "is_implicit": True}
    return node


def _interval_text(node: Tree) -> Tree:
    """INTERVAL '1 day' is INTERVAL '1' DAY."""
    if node.get("class") != "CAST" or node["type_expr"]["type_name"] != "interval":
        return node
    found = re.fullmatch(r"(\d+) ([a-z]+?)s?", _text_of(node["child"]) or "")
    if found is None:
        return node
    return {**_item(f"INTERVAL '{found[1]}' {found[2]}"), "alias": node["alias"]}


def _json_arrow(node: Tree) -> Tree:
    """j -> 'a' and json_extract(j, 'a'): DuckDB's parser takes an arrow for a lambda at first.

    It reads j -> 'a' ->> 'b' as j -> ('a' ->> 'b'), and turns that round when it binds.
    """
    if node.get("class") == "LAMBDA" and node.get("syntax_type") == "SINGLE_ARROW":
        return {**_extract(node["lhs"], node["expr"]), "alias": node["alias"]}
    return node


def _extract(value: Tree, path: Tree) -> Tree:
    if path.get("function_name") in ("->", "->>") and path.get("class") == "FUNCTION":
        first, last = path["arguments"]
        first = {**first, "expression": _extract(value, first["expression"])}
        return {**path, "arguments": [first, last]}
    sides = [{"name": "", "expression": side} for side in (value, path)]
    return {**_item("json_extract(a, b)"), "arguments": sides}


def _values(node: Tree) -> Tree:
    """VALUES is SELECT * FROM (VALUES …)."""
    table = node.get("from_table")
    if isinstance(table, dict) and table.get("type") == "SUBQUERY" and table["alias"] == "_values":
        inner = table["subquery"]["node"]
        if inner.get("from_table", {}).get("type") == "EXPRESSION_LIST":
            node["from_table"] = inner["from_table"]
    return node


@cache
def _item_text(sql: str) -> str:
    statements = parse_tree(f"SELECT {sql}")
    assert statements is not None
    return json.dumps(statements[0]["node"]["select_list"][0])


def _item(sql: str) -> Tree:
    """The canonical tree of an expression."""
    return canonical(json.loads(_item_text(sql)))


_RULES: tuple[Callable[[Tree], Tree], ...] = (
    _number,
    _type,
    _interval,
    _interval_text,
    _values,
    _json_arrow,
    _function,
    _not,
    _column,
    _join,
)
