"""A number, a date or another value that equals a text is the key of a join, as its own type."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest

import tidewheel

VALUES = {
    "INTEGER": ["1", "2", "02", " 3", "3", "1.4", "4.6"],
    "HUGEINT": ["1", "01", "170141183460469231731687303715884105727"],
    "DECIMAL(8,2)": ["1", "1.0", "1.001", "2.50", "2.5"],
    "DOUBLE": ["1", "1e0", "2.5", "nan", "inf"],
    "DATE": ["2024-01-01", "2024-1-1", "2024/01/01", "infinity"],
    "TIMESTAMP": ["2024-01-01", "2024-01-01T00:00", "2024-02-01 10:00"],
    "TIME": ["01:02:03", "1:2:3", "01:02:03.5"],
    "UUID": ["12345678-1234-1234-1234-123456789abc", "{12345678-1234-1234-1234-123456789ABC}"],
    "BOOLEAN": ["true", "t", "1", "f", "FALSE"],
    "INTERVAL": ["1 month", "30 days", "24 hours", "1 day"],
    "BLOB": ["a", r"\x61", "b"],
    "ENUM ('a', 'b')": ["a", "b"],
}
QUERIES = [
    *(f"SELECT k, s, y FROM a {kind} JOIN b ON k = s" for kind in ("INNER", "LEFT", "FULL")),
    *(f"SELECT k, s, y FROM a {kind} JOIN b ON s = k AND x < y" for kind in ("RIGHT", "FULL")),
    "SELECT k, s, y FROM a FULL JOIN b ON k IS NOT DISTINCT FROM s",
    "FROM a SEMI JOIN b ON k = s",
    "FROM a WHERE NOT EXISTS (FROM b WHERE s = k AND y > x)",
    "SELECT *, EXISTS (FROM b WHERE s = k) AS has FROM a",
    "SELECT *, (SELECT sum(y) FROM b WHERE s = k) AS y FROM a",
    "SELECT *, (SELECT sum(x) FROM a WHERE s = k) AS x FROM b",
    "SELECT k, y FROM a, LATERAL (SELECT y FROM b WHERE s = k ORDER BY y LIMIT 1)",
    "SELECT k, c.y FROM a JOIN b ON k = s AND b.y > 2 JOIN b c ON c.s = b.s AND c.s = k",
    "SELECT k, n FROM (FROM a JOIN b ON k = s WHERE y > 2) "
    "LEFT JOIN (SELECT s AS t, count(*) AS n FROM b GROUP BY s) ON t = k",
    "WITH RECURSIVE r(k) AS (SELECT k FROM a WHERE x < 2 UNION SELECT o FROM r JOIN b ON r.k = s)"
    " FROM r",
]


@pytest.mark.parametrize("kind", VALUES)
def test_the_rows_are_those_of_the_query(kind: str) -> None:
    rng = random.Random(kind)
    texts = [f"'{t}'" for t in VALUES[kind]] + ["NULL"]
    duck = duckdb.connect()
    with tidewheel.connect() as con:
        for each in (duck, con):
            each.execute(f"CREATE TABLE a (k {kind}, x INT)")
            each.execute(f"CREATE TABLE b (s VARCHAR, y INT, o {kind})")
        for i, query in enumerate(QUERIES):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
            explained = con.execute(f"EXPLAIN VIEW v{i}").fetchall()[0][1]
            assert "arrange by  [" not in explained, query
        for _ in range(8):
            k, s, x = rng.choice(texts), rng.choice(texts), rng.randrange(4)
            change = rng.choice(
                (
                    f"INSERT INTO a VALUES ({k}, {x}), ({s}, {x})",
                    f"INSERT INTO b VALUES ({s}, {x}, {k}), ({k}, {x}, {s})",
                    f"UPDATE a SET k = {k} WHERE x = {x}",
                    f"UPDATE b SET s = {s} WHERE y = {x}",
                    f"DELETE FROM b WHERE y = {x}",
                )
            )
            for each in (duck, con):
                each.execute(change)
            for i, query in enumerate(QUERIES):
                right = Counter(map(repr, duck.execute(query).fetchall()))
                got = Counter(map(repr, con.execute(f"FROM v{i}").fetchall()))
                assert got == right, (query, change)


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "SEMI", "FULL"])
def test_a_text_that_cannot_be_cast_is_refused(kind: str) -> None:
    """With or without a partner: DuckDB, too, casts all before it looks for partners."""
    query = f"SELECT * FROM a {kind} JOIN b ON k = s"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE a (k INT); CREATE TABLE b (s VARCHAR)")
        con.execute("INSERT INTO a VALUES (1)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        with pytest.raises(tidewheel.DataError, match="Could not convert string 'one'") as caught:
            con.execute("INSERT INTO b VALUES ('1'), ('one')")
        assert "maintained view main.v " in (caught.value.hint or "")
        con.execute("INSERT INTO b VALUES ('1')")
        found = con.execute("FROM v").fetchall()
        assert found == con.execute(query).fetchall()
        con.execute("DROP MATERIALIZED VIEW v; INSERT INTO b VALUES ('one')")
        with pytest.raises(tidewheel.DataError, match="Could not convert string 'one'"):
            con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")


def test_a_recursion_does_not_round_what_it_compares() -> None:
    """A step that derives BIGINTs makes the key one; the other side is a DOUBLE, or a text."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e (d DOUBLE, b BIGINT); INSERT INTO e VALUES (1, 2), (1.4, 3)")
        query = "WITH RECURSIVE r(k) AS (SELECT 1 UNION SELECT b FROM r JOIN e ON k = d) FROM r"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO e VALUES (1.6, 4), (2, 5)")
        found = con.execute("FROM v ORDER BY 1").fetchall()
        assert found == con.execute(f"FROM ({query}) ORDER BY 1").fetchall() == [(1,), (2,), (5,)]


def test_integers_that_are_one_double() -> None:
    query = (
        "SELECT d, d IN (SELECT i FROM b) AS has, (SELECT count(*) FROM b WHERE i = d) AS n FROM a"
    )
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE a (d DOUBLE); CREATE TABLE b (i BIGINT)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute(
            f"INSERT INTO a VALUES ({2**53}); INSERT INTO b VALUES ({2**53}), ({2**53 + 1})"
        )
        found = con.execute("FROM v").fetchall()
        assert found == con.execute(query).fetchall() == [(2.0**53, True, 2)]


def test_texts_that_equal_one_number_differ() -> None:
    """Groups are left out by what joins them, which a text beside the number is not."""
    query = (
        "SELECT k, n FROM a JOIN (FROM b WHERE y > 2) b ON k = b.s "
        "JOIN (SELECT s AS t, count(*) AS n FROM b GROUP BY s) ON t = k"
    )
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE a (k INT); CREATE TABLE b (s VARCHAR, y INT)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO a VALUES (2); INSERT INTO b VALUES ('02', 5), ('2', 1)")
        assert con.execute("FROM v").fetchall() == con.execute(query).fetchall() == [(2, 1)] * 2
