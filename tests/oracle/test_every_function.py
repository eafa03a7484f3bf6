"""Every function that DuckDB's catalog lists, under maintained views, beside DuckDB."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache

import duckdb
import pytest

import tidewheel

VALUES = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("1", "-3"),
    "SMALLINT": ("5", "300"),
    "INTEGER": ("7", "0"),
    "BIGINT": ("9", "2"),
    "HUGEINT": ("11", "170141183460469231731687303715884105"),
    "UTINYINT": ("2", "200"),
    "USMALLINT": ("2", "65000"),
    "UINTEGER": ("3", "9"),
    "UBIGINT": ("4", "18446744073709551615"),
    "UHUGEINT": ("5", "8"),
    "FLOAT": ("1.5", "-0.25"),
    "DOUBLE": ("2.5", "0.5"),
    "DECIMAL(18,3)": ("1.250", "-7.5"),
    "VARCHAR": ("'abc'", "'Hé, b'"),
    "BLOB": ("'ab'::BLOB", r"'\xAA'::BLOB"),
    "DATE": ("'2024-02-29'", "'1999-12-31'"),
    "TIMESTAMP": ("'2024-02-29 12:34:56.789'", "'1969-12-31 23:59:59'"),
    "TIME": ("'12:34:56'", "'00:00:00'"),
    "INTERVAL": ("'1 month'", "'3 days 4 hours'"),
    "TIMESTAMP WITH TIME ZONE": ("'2024-02-29 12:34:56+02'", "'2000-01-01 00:00:00Z'"),
    "UUID": ("'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "'00000000-0000-0000-0000-000000000001'"),
    "BIT": ("'0101'", "'1100'"),
    "INTEGER[]": ("[1, 2, 3]", "[3, NULL]"),
    "VARCHAR[]": ("['a', 'b']", "[]"),
    "DOUBLE[]": ("[1, 2, 3]", "[4, 5.5]"),
    "INTEGER[3]": ("[1, 2, 3]", "[4, 5, 6]"),
    "FLOAT[3]": ("[1, 2, 3]", "[4, 5, 6]"),
    "STRUCT(a INTEGER, b VARCHAR)": ("{'a': 1, 'b': 'x'}", "{'a': 2, 'b': NULL}"),
    "MAP(VARCHAR, INTEGER)": ("MAP {'a': 1}", "MAP {'b': 2, 'c': 3}"),
    "JSON": ("""'{"a": [1, 2], "b": "c"}'""", """'[1, {"x": 2}]'"""),
}
GENERIC = {
    "ANY": ["INTEGER", "VARCHAR"],
    "T": ["INTEGER", "VARCHAR"],
    "K": ["VARCHAR"],
    "V": ["INTEGER"],
    "T[]": ["INTEGER[]", "VARCHAR[]"],
    "ANY[]": ["INTEGER[]"],
    "LIST": ["INTEGER[]"],
    "DECIMAL": ["DECIMAL(18,3)"],
    "STRUCT": ["STRUCT(a INTEGER, b VARCHAR)"],
    "MAP": ["MAP(VARCHAR, INTEGER)"],
    "MAP(K, V)": ["MAP(VARCHAR, INTEGER)"],
    "ANY[ANY]": ["INTEGER[3]"],
    "T[ANY]": ["INTEGER[3]"],
    "FLOAT[ANY]": ["FLOAT[3]"],
    "DOUBLE[ANY]": ["FLOAT[3]"],
}
COLUMNS = {kind: f"c{i}" for i, kind in enumerate(VALUES)}
TABLE = f"CREATE TABLE t (id INTEGER, {', '.join(f'{c} {k}' for k, c in COLUMNS.items())})"
UNSTABLE = {  # no answer twice, or one that depends on the clock, the session or the machine
    *("random", "setseed", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "nextval", "currval"),
    *("now", "today", "age", "get_current_time", "get_current_timestamp", "transaction_timestamp"),
    *("error", "sleep_ms", "write_log", "getvariable", "in_search_path", "txid_current"),
}


def row(number: int, at: int) -> str:
    chosen = [
        (*values, "NULL")[(at + k * (at // 3)) % 3] for k, values in enumerate(VALUES.values())
    ]
    return f"({number}, {', '.join(chosen)})"


START = f"INSERT INTO t VALUES {', '.join(row(i, i) for i in range(6))}"
EDITS = [
    f"INSERT INTO t VALUES {row(10, 4)}",
    "DELETE FROM t WHERE id = 1",
    "UPDATE t SET id = id + 20 WHERE id = 2",
    "INSERT INTO t FROM t WHERE id = 0",
    "DELETE FROM t",
    f"INSERT INTO t VALUES {', '.join(row(i, i) for i in range(3))}",
]


@cache
def calls(kind: str) -> list[str]:
    with duckdb.connect() as con:
        found = con.execute(
            "SELECT DISTINCT function_name, parameter_types, varargs FROM duckdb_functions() "
            "WHERE function_type = ? AND NOT has_side_effects IS TRUE ORDER BY ALL",
            [kind],
        ).fetchall()
    return [call for name, types, rest in found for call in _calls(kind, name, types, rest)]


def _calls(kind: str, name: str, types: list[str], rest: str | None) -> Iterator[str]:
    own = ("pg_", "has_", "current_", "__")  # of the session
    if name in UNSTABLE or name.startswith(own) or not name.replace("_", "").isalnum():
        return
    asked = [*types, *([rest] if rest and not types else [])]
    known = [[t] if t in COLUMNS else GENERIC.get(t, []) for t in asked]
    for chosen in itertools.islice(itertools.product(*known), 2):
        given = ", ".join(COLUMNS[k] for k in chosen)
        order = " ORDER BY id" if kind == "aggregate" and given else ""
        yield f'"{name}"({given}{order})'


def query(kind: str, called: Sequence[str]) -> str:
    columns = ", ".join(f"{call} AS x{i}" for i, call in enumerate(called))
    if kind == "scalar":
        return f"SELECT id, {columns} FROM t"
    return f"SELECT id % 2 AS g, {columns} FROM t GROUP BY g"


def answer(con: tidewheel.Connection | duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    return sorted(map(repr, con.execute(sql).fetchall()))


@cache
def states() -> duckdb.DuckDBPyConnection:
    """A schema for what the table holds at the start and after each of the edits."""
    con = duckdb.connect()
    for i in range(len(EDITS) + 1):
        con.execute(f"CREATE SCHEMA s{i}; USE s{i}; {TABLE}")
        con.execute(f"INSERT INTO t FROM s{i - 1}.t; {EDITS[i - 1]}" if i else START)
    return con


def answers(sql: str) -> list[list[str]] | None:
    """What DuckDB answers in each state, if the function takes such values."""
    con = states().cursor()
    found = []
    for i in range(len(EDITS) + 1):
        con.execute(f"USE s{i}")
        try:
            found.append(answer(con, sql))
        except duckdb.Error:
            return None
    return found


@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("kind", ["scalar", "aggregate"])
@pytest.mark.parametrize("together", [4, pytest.param(1, marks=pytest.mark.long)])
def test_every_function_of_the_catalog(together: int, kind: str, part: int) -> None:
    called = [call for call in calls(kind)[part::10] if answers(query(kind, [call]))]
    assert len(called) > 20
    with tidewheel.connect() as con:
        con.execute(TABLE)
        con.execute(START)
        views = []
        for at in range(0, len(called), together):
            sql = query(kind, called[at : at + together])
            expected = answers(sql)
            assert expected is not None
            name = f"v{at}"
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            views.append((name, sql, expected))
            assert answer(con, f"FROM {name}") == expected[0], sql
        for i, edit in enumerate(EDITS, 1):
            con.execute(edit)
            for name, sql, expected in views:
                assert answer(con, f"FROM {name}") == expected[i], (edit, sql)
