"""Words of other systems' SQL: where the error is, and what is written here."""

from __future__ import annotations

import pytest

import tidewheel

CASES = [
    ("SELECT a FROM t LIMIT 1, 2", ",", "LIMIT count OFFSET start"),
    ("SELECT TOP 3 a FROM t", "3", "LIMIT 3"),
    ("SELECT * FROM t LIMIT 1 BY a", "BY", "QUALIFY"),
    ("SELECT a FROM t MINUS SELECT a FROM u", "SELECT a FROM u", "EXCEPT"),
    ("SELECT a FROM t CONNECT BY PRIOR a = b", "BY", "WITH RECURSIVE"),
    ("SELECT * FROM t CROSS APPLY (SELECT 1) AS x", "APPLY", "LATERAL"),
    ("SELECT * FROM t OUTER APPLY (SELECT 1) AS x", "OUTER", "LATERAL"),
    ("SELECT * FROM t AS x OUTER APPLY (SELECT 1) AS y", "OUTER", "LATERAL"),
    ("SELECT * FROM t AS x ARRAY JOIN [1] AS y", "ARRAY", "unnest"),
    ("SELECT * FROM t LEFT SEMI JOIN u USING (a)", "SEMI", "SEMI JOIN, without LEFT"),
    ("SELECT * FROM t x LEFT ANTI JOIN u ON true", "ANTI", "ANTI JOIN, without LEFT"),
    ("SELECT * FROM t ANY LEFT JOIN u USING (a)", "ANY", "DISTINCT ON (key)"),
    ("SELECT * FROM t AS x LEFT ANY JOIN u USING (a)", "ANY", "DISTINCT ON (key)"),
    ("SELECT * FROM t ANY JOIN u USING (a)", "ANY", "DISTINCT ON (key)"),
    ("SELECT a, count(*) FROM t GROUP BY a WITH TOTALS", "WITH", "GROUPING SETS"),
    ("SELECT a INTO x FROM t", "INTO", "CREATE TABLE name AS"),
    ("CREATE TABLE x (id INT PRIMARY KEY AUTO_INCREMENT, b INT)", "AUTO_INC", "nextval"),
    ("CREATE TABLE x (id INTEGER PRIMARY KEY AUTOINCREMENT)", "AUTOINC", "nextval"),
    ("CREATE TABLE x (id INT IDENTITY (1, 1))", "IDENTITY", "nextval"),
    ("CREATE TABLE x (id INT GENERATED ALWAYS AS IDENTITY)", "IDENTITY", "nextval"),
    ("CREATE TABLE x (id SERIAL)", "SERIAL", "nextval"),
    ("CREATE TABLE x (id INT(11))", "(11)", "without a width"),
    ("CREATE TABLE x (id INT UNSIGNED)", "UNSIGNED", "UINTEGER"),
    ("CREATE TABLE x (id JSONB)", "JSONB", "JSON"),
    ("CREATE PROCEDURE p() AS SELECT 1", "PROCEDURE", "CREATE MACRO"),
    ("UPDATE t JOIN u USING (a) SET b = 1", "JOIN", "UPDATE name SET … FROM"),
    ("UPDATE t LEFT JOIN u USING (a) SET b = 1", "LEFT", "UPDATE name SET … FROM"),
    ("DELETE t FROM t JOIN u USING (a)", "t FROM", "DELETE FROM name USING"),
    ("INSERT INTO t SET a = 1", "SET", "(column, …) VALUES"),
    ("SELECT a FROM dual", "dual", "leave FROM dual out"),
    ("SELECT SYSDATE", "SYSDATE", "now()"),
    ("SELECT a FROM t WHERE ROWNUM < 3", "ROWNUM", "LIMIT n"),
    ("SELECT NVL(a, 1) FROM t", "NVL", "coalesce"),
    ("SELECT GETDATE()", "GETDATE", "now()"),
    ("SELECT CONVERT(a, 'VARCHAR') FROM t", "CONVERT", "CAST"),
    ("SELECT date_format(DATE '2024-01-01', '%Y')", "date_format", "strftime"),
    ("SELECT last_insert_id()", "last_insert_id", "RETURNING"),
]


@pytest.mark.parametrize(("sql", "at", "hint"), CASES)
def test_the_cure_and_the_place(sql: str, at: str, hint: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE u (a INT)")
        for text in (sql, f"CREATE MATERIALIZED VIEW v AS {sql}"):
            if text is not sql and not sql.startswith("SELECT"):
                continue
            with pytest.raises(tidewheel.Error) as raised:
                con.execute(text)
            assert hint in str(raised.value.hint), raised.value
            assert raised.value.column is not None
            assert text[raised.value.column - 1 :].startswith(at), raised.value


def test_these_words_can_be_names() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE minus (top INT, apply INT, rownum INT, sysdate INT)")
        con.execute("INSERT INTO minus VALUES (1, 2, 3, 4)")
        read = "SELECT top, apply, rownum, sysdate FROM minus"
        assert con.execute(read).fetchall() == [(1, 2, 3, 4)]
