"""Texts, conditions and choices that are computed row by row, against DuckDB's own answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tidewheel

TABLE = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a VARCHAR, b VARCHAR, n INTEGER, m BIGINT, d DATE,
    x DOUBLE, p DECIMAL(9, 2), f BOOLEAN, e ENUM ('x', 'Ab', 'c'))
"""
VALUES = """
upper(a) ; lower(a) ; a || b ; a || '-' || n ; n || a ; concat(a, n, b) ; concat(a, '-', b)
concat_ws('-', a, b, n) ; concat_ws(b, a, 'z') ; length(a) ; length(a || b) + n ; substr(a, 1, 3)
substring(a FROM 2 FOR 2) ; substr(a, 2) ; substr(a, 0, 2) ; substr(a, -2) ; left(a, 2)
left(a, -1) ; right(a, 2) ; right(a, 0) ; trim(a) ; ltrim(a) ; rtrim(a) ; trim(a, 'xy')
replace(a, 'x', 'yy') ; replace(a, b, '') ; coalesce(a, 'none') ; coalesce(a, b) ; ifnull(b, a)
coalesce(n, 0) ; coalesce(x, p, n) ; coalesce(a, n::VARCHAR, d::VARCHAR) ; nullif(a, 'x')
nullif(a, b) ; CASE WHEN n > 1 THEN 'big' WHEN a = 'x' THEN a ELSE 'small' END
CASE a WHEN 'x' THEN 1 WHEN b THEN 2 ELSE 0 END ; CASE n WHEN 1 THEN a WHEN NULL THEN b END
CASE WHEN f THEN n WHEN NOT f THEN m END ; CASE WHEN x > 1 THEN p ELSE 0 END
CASE WHEN a IN ('x', 'Ab', NULL) THEN n ELSE -1 END ; if(n > 1, 'a', b) ; if(n > 1, n, 0)
n::VARCHAR ; (n + 0)::VARCHAR ; d::VARCHAR ; a::VARCHAR ; least(n, m, 3) ; greatest(x, n)
greatest(p, n, 0) ; a = 'x' ; a <> b ; lower(a) = lower(b) ; a LIKE 'x%' ; a NOT LIKE '%b'
a LIKE '_' ; a LIKE 'x_%' ; a LIKE '' ; lower(a) LIKE '%b' ; a LIKE '.'
lower(a) NOT LIKE 'a_' ; NOT upper(a) LIKE 'X%' ; n > 1 AND f ; n > 1 OR a = 'x' ; NOT (n > 1 AND f)
NOT (a = 'x' OR NOT f) ; NOT f ; f ; a IS NULL ; NOT a IS NULL ; n BETWEEN 0 AND 2
NOT n BETWEEN 0 AND 2 ; n NOT IN (1, 2) ; n NOT IN (1, NULL) ; n IN (1, NULL)
a NOT IN ('x', 'y') ; starts_with(a, 'x') ; NOT starts_with(a, b) ; contains(a, 'b')
ends_with(a, b) ; upper(e) ; e || '!' ; e = 'Ab' ; e IN ('x', 'c') ; coalesce(e, 'none')
CASE WHEN e = 'c' THEN 'C' ELSE a END ; 5 || a ; a || NULL ; concat(a, NULL) ; length(e)
upper(a) || CASE WHEN length(b) > 2 THEN left(b, 1) ELSE '' END ; d = DATE '2020-01-02' AND f
x = 1.5 OR x > 2 ; NOT x > 2 ; p >= 1.5 ; NOT p < n ; length(a) BETWEEN 1 AND 2
abs(n + 0) ; abs(x) ; abs(p) ; abs(n) // 2 ; n // 3 ; m // 1000000 ; floor(x) ; ceil(x * 1.3)
round(x) ; round(x, 2) ; round(p) ; round(p, 1) ; round(p, 2) ; round(p, 3) ; round(n) ; round(-x)
round(x / 3, 4) ; round(p * 3, 1) ; n % 3 = 0 ; abs(n - m // 2) > 1 ; floor(p) ; round(n, 1)
(a || b) IS NULL ; a LIKE 'x%' AND f ; f OR NOT b LIKE '%b'
lower(a) IN ('x', 'ab', 'c', 'd', 'e', 'f', 'g', 'h', 'i')
a || b NOT IN ('xx', 'b', 'c', 'd', 'e', 'f', 'g', 'h', '')
a IN ('x', 'Ab', 'c', 'd', 'e', 'f', 'g', 'h', 'é') ; n NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
n IN (1, -3, 3, 4, 5, 6, 7, 8, 9) ; a NOT IN ('x', 'c', 'd', 'e', 'f', 'g', 'h', 'i', NULL)
p IN (0, 1.5, 3, 4, 5, 6, 7, 8, 9) ; e NOT IN ('x', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j')
a < b ; a >= 'b' ; coalesce(f, FALSE) ; CASE WHEN a > 'b' THEN 1 END
"""
EXPRESSIONS = [part.strip() for line in VALUES.strip().split("\n") for part in line.split(";")]
TEXTS = st.sampled_from(["x", "Ab", "", " x ", "xyx", "\tb", "é", "straße", "a\U0001f600b", "NULL"])
TEXT = TEXTS.map(lambda text: None if text == "NULL" else text)
ROW = st.tuples(
    TEXT,
    TEXT,
    st.sampled_from([None, 0, 1, 2, -3, 2147483647]),
    st.sampled_from([None, 0, 1, -1, 9223372036854775806]),
    st.sampled_from([None, "2020-01-02", "0001-01-01", "9999-12-31", "infinity"]),
    st.sampled_from([None, 0.0, -0.0, 1.5, 2.5, float("nan"), float("inf")]),
    st.sampled_from([None, "0", "1.50", "-2.25", "9999999.99"]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "x", "Ab", "c"]),
)
EDIT = st.one_of(
    st.tuples(st.just("insert"), st.integers(0, 9), ROW),
    st.tuples(st.just("insert"), st.integers(0, 9), ROW),
    st.tuples(st.sampled_from(["delete", "rename", "several", "many"]), st.integers(0, 9), ROW),
)
STATEMENTS = {
    "insert": "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "delete": "DELETE FROM t WHERE id = ?",
    "many": "INSERT INTO t SELECT (SELECT coalesce(max(id), 9) + 10 + r FROM t), ?, ?, r - 20, "
    "r * 1000003 - 5, DATE '2020-01-01' + r::INTEGER, (r - 20) / 8, (r - 20.5) * 1.25, r % 3 = 0, "
    "NULL FROM range(30) q(r)",
    "rename": "UPDATE t SET a = ?, n = ? WHERE id = ?",
    "several": "UPDATE t SET b = ?, f = NOT f WHERE id % 3 = ?",
}


def parameters(kind: str, at: int, row: tuple[Any, ...]) -> list[Any]:
    """Of the statement."""
    if kind == "insert":
        return [at, *row]
    others = {"delete": [at], "rename": [row[0], row[2], at], "several": [row[1], at % 3]}
    return [*row[:2]] if kind == "many" else others[kind]


def check(expressions: list[str], edits: list[tuple[str, int, tuple[Any, ...]]]) -> None:
    """After each edit the view that computes them, and the one that asks them, are right."""
    theirs = duckdb.connect()
    theirs.execute(TABLE)
    listed = ", ".join(f"{e} AS c{i}" for i, e in enumerate(expressions))
    queries = [f"SELECT id, {listed} FROM t"]
    for e in expressions:
        kind = theirs.sql(f"SELECT typeof({e}) FROM (FROM t RIGHT JOIN (SELECT 1) ON TRUE)")
        if kind.fetchall() == [("BOOLEAN",)]:
            queries.append(f"SELECT id, a FROM t WHERE {e}")
            queries.append(f"SELECT id, a FROM t WHERE NOT ({e})")
    with tidewheel.connect() as ours:
        ours.execute(TABLE)
        for i, query in enumerate(queries):
            ours.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
            ours.execute(f"FROM v{i}").fetchall()
        for kind, at, row in edits:
            given = parameters(kind, at, row)
            try:
                theirs.execute(STATEMENTS[kind], given).fetchall()
            except duckdb.Error:
                with pytest.raises(tidewheel.Error):
                    ours.execute(STATEMENTS[kind], given)
                continue
            ours.execute(STATEMENTS[kind], given)
            for i, query in enumerate(queries):
                got = Counter(map(repr, ours.execute(f"FROM v{i}").fetchall()))
                assert got == Counter(map(repr, theirs.execute(query).fetchall())), query


@pytest.mark.parametrize(
    "expressions", [EXPRESSIONS[i : i + 12] for i in range(0, len(EXPRESSIONS), 12)], ids=" ; ".join
)
@settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(edits=st.lists(EDIT, min_size=6, max_size=16))
def test_row_by_row(expressions: list[str], edits: list[tuple[str, int, tuple[Any, ...]]]) -> None:
    check(expressions, edits)
