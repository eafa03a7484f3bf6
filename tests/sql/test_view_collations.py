"""A collation makes views that look into its column computed anew, and no others."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import tidewheel

MAINTAINED = [
    "SELECT a, count(*) AS n FROM plain GROUP BY a",
    "WITH named AS (SELECT a FROM plain) SELECT DISTINCT a FROM named",
    "SELECT a, count(*) AS n FROM elsewhere.named GROUP BY a",
]
RECOMPUTED = [
    "SELECT a, count(*) AS n FROM named GROUP BY a",
    "WITH plain AS (SELECT a FROM named) SELECT DISTINCT a FROM plain",
    "SELECT DISTINCT a FROM over_named",
    "SELECT DISTINCT a FROM named_rows()",
    "SELECT a FROM plain EXCEPT SELECT a FROM copied",
    "SELECT DISTINCT folded(a) AS a FROM plain",
]


@pytest.mark.parametrize("query", MAINTAINED + RECOMPUTED)
def test_only_what_reads_a_collation_is_recomputed(query: str) -> None:
    con = tidewheel.connect()
    con.execute("""
        CREATE TABLE plain (a VARCHAR);
        CREATE TABLE named (a VARCHAR COLLATE nocase);
        CREATE SCHEMA elsewhere;
        CREATE TABLE elsewhere.named (a VARCHAR);
        INSERT INTO plain VALUES ('x'), ('X'), ('y');
        INSERT INTO named VALUES ('x'), ('Z');
        INSERT INTO elsewhere.named VALUES ('q'), ('Q');
        CREATE TABLE copied AS SELECT * FROM named;
        CREATE VIEW over_named AS SELECT * FROM named;
        CREATE MACRO named_rows() AS TABLE SELECT * FROM named;
        CREATE MACRO folded(t) AS CAST(t AS VARCHAR) COLLATE nocase;
    """)
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    for change in (
        "INSERT INTO plain VALUES ('X'), ('Y'), (NULL)",
        "INSERT INTO named VALUES ('X'), ('z'), (NULL)",
        "INSERT INTO elsewhere.named VALUES ('Q')",
        "DELETE FROM plain WHERE a = 'x'",
        "UPDATE named SET a = 'zz' WHERE a = 'x'",
    ):
        con.execute(change)
        found = con.execute("SELECT a IS NULL, lower(a) FROM v ORDER BY ALL").fetchall()
        asked = con.execute(f"SELECT a IS NULL, lower(a) FROM ({query}) ORDER BY ALL").fetchall()
        assert found == asked
        assert con.execute("VERIFY VIEW v").fetchall() == []
    kept = con.execute("SELECT maintenance FROM tidewheel_views()").fetchone()
    assert kept == ("recompute" if query in RECOMPUTED else "incremental",)


TABLES = """
CREATE TABLE t (id INTEGER, k INTEGER, s VARCHAR COLLATE NOCASE, x INTEGER, u VARCHAR COLLATE de,
    g VARCHAR GENERATED ALWAYS AS (s || '+'));
CREATE TABLE d (k INTEGER, name VARCHAR, s VARCHAR);
INSERT INTO d VALUES (0, 'n0', 'a'), (1, 'n1', 'A'), (2, 'n1', 'b');
"""
HANDED_ON = {
    "sums": "SELECT k, sum(x) AS n, count(*) AS c FROM t GROUP BY k",
    "rows": "SELECT id, s, x + 1 AS y FROM t WHERE x > 3",
    "all": "SELECT * FROM t",
    "renamed": "SELECT s AS id, id AS s2, u FROM t WHERE k > 0",
    "joined": "SELECT t.*, name FROM t JOIN d USING (k) WHERE x <> 2",
    "outer": "SELECT t.s, t.id, name FROM d LEFT JOIN t ON t.k = d.k AND t.x > d.k",
    "top": "SELECT * FROM t ORDER BY x DESC, id LIMIT 5",
    "first": "SELECT id, s FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY x, id) = 1",
    "running": "SELECT id, s, sum(x) OVER (PARTITION BY k ORDER BY id) AS r FROM t",
    "inside": "SELECT * FROM t WHERE k IN (SELECT k FROM d WHERE name > 'n0')",
    "over": "SELECT k, max(x) AS h FROM v_all GROUP BY k",
    "over_rows": "SELECT v.s, name FROM v_all AS v JOIN d USING (k)",
    "reached": "WITH RECURSIVE r AS (SELECT id, x FROM t WHERE id < 3 UNION "
    "SELECT t.id, t.x FROM r JOIN t ON t.k = r.x) SELECT id, x FROM r",
}  # fmt: skip
LOOKED_INTO = {
    "generated": "SELECT g, count(*) AS n FROM t GROUP BY g",
    "groups": "SELECT s, count(*) AS n FROM t GROUP BY s",
    "distinct": "SELECT DISTINCT s FROM t",
    "compared": "SELECT id FROM t WHERE s = 'A'",
    "ordered": "SELECT id, s FROM t ORDER BY s, id LIMIT 3",
    "by_number": "SELECT s, id FROM t ORDER BY 1, 2 LIMIT 3",
    "by_alias": "SELECT s AS q, id FROM t ORDER BY q, id LIMIT 3",
    "natural": "SELECT id FROM t NATURAL JOIN (SELECT s FROM d)",
    "using": "SELECT id FROM t JOIN d USING (s)",
    "named": "SELECT count(*) AS n FROM t AS q(a, b, c, e, f, h) WHERE c = 'b'",
    "starred": "SELECT count(*) AS n FROM (SELECT * FROM t) AS q(a, b, c, e, f, h) WHERE c = 'b'",
    "both": "SELECT s FROM t UNION SELECT s FROM d",
    "whole_row": "SELECT count(DISTINCT t) AS n FROM t",
    "row_of_all": "SELECT DISTINCT ON (k) * FROM t ORDER BY k, id",
    "over_groups": "SELECT s, count(*) AS n FROM v_all GROUP BY s",
}
READS = (
    "SELECT count(*) FROM {} WHERE s = 'a'",
    "SELECT count(DISTINCT s) FROM {}",
    "SELECT lower(s) FROM {} ORDER BY s",
    "SELECT lower(s) FROM {} WHERE s > 'A' AND s < 'c' ORDER BY ALL",
)


@pytest.mark.parametrize("threads", [1, 2])
def test_columns_that_are_handed_on(threads: int) -> None:
    rng = random.Random(threads)
    con, duck = tidewheel.connect(), duckdb.connect()
    con.execute(f"SET threads = {threads}")

    def both(statement: str) -> None:
        con.execute(statement)
        duck.execute(statement)

    def some(n: int) -> str:
        rows = (
            f"({rng.randrange(50)}, {rng.randrange(3)}, {rng.choice(['NULL', *TEXTS])}, "
            f"{rng.randrange(9)}, {rng.choice(TEXTS)})"
            for _ in range(n)
        )
        return f"INSERT INTO t (id, k, s, x, u) VALUES {', '.join(rows)}"

    both(TABLES)
    both(some(20))
    queries = HANDED_ON | LOOKED_INTO
    for name, query in queries.items():
        con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
        duck.execute(f"CREATE VIEW v_{name} AS {query}")
    for edit in range(12):
        both(
            rng.choice(
                [
                    some(1),
                    some(3),
                    f"DELETE FROM t WHERE id % 5 = {rng.randrange(5)}",
                    f"UPDATE t SET s = {rng.choice(TEXTS)} WHERE id % 4 = {rng.randrange(4)}",
                    "UPDATE t SET s = upper(s), u = lower(u) WHERE k = 1",
                ]
            )
        )
        for name, query in queries.items():
            found = con.execute(f"SELECT * FROM v_{name}").fetchall()
            right = duck.execute(query).fetchall()
            if (
                name in LOOKED_INTO
            ):  # which of the texts that are equal is given, is DuckDB's choice
                found, right = [_lower(row) for row in found], [_lower(row) for row in right]
            assert Counter(found) == Counter(right), (name, edit)
            if name in HANDED_ON:
                assert con.execute(f"VERIFY VIEW v_{name}").fetchall() == []
        for read in READS:
            for name in ("rows", "all", "joined", "over_rows"):
                text = read.format(f"v_{name}")
                assert con.execute(text).fetchall() == duck.execute(text).fetchall(), text
        point = "SELECT id, x FROM v_all WHERE s = 'A'"
        assert Counter(con.execute(point).fetchall()) == Counter(duck.execute(point).fetchall())
    kept = dict(con.execute("SELECT view_name, maintenance FROM tidewheel_views()").fetchall())
    assert kept == {
        f"v_{name}": "incremental" if name in HANDED_ON else "recompute" for name in queries
    }


TEXTS = ("'a'", "'A'", "'b'", "'B'", "'c'", "'ä'", "'Ä'", "''")


def _lower(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(v.lower() if isinstance(v, str) else v for v in row)


def test_a_view_keeps_the_collation_of_its_column_in_a_file(tmp_path: Path) -> None:
    file = str(tmp_path / "f.db")
    with tidewheel.connect(file) as con:
        con.execute("CREATE TABLE t (s VARCHAR COLLATE noaccent.nocase, n INTEGER)")
        con.execute("INSERT INTO t VALUES ('a', 1), ('Á', 2), ('b', 3)")
        con.execute("BEGIN; CREATE MATERIALIZED VIEW v AS SELECT n, s AS q FROM t; COMMIT")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT n::VARCHAR COLLATE nocase AS q FROM t")
        con.execute("INSERT INTO t VALUES ('A', 4)")
        assert con.execute("SELECT count(*) FROM v WHERE q = 'a'").fetchone() == (3,)
    with tidewheel.connect(file) as con:
        con.execute("INSERT INTO t VALUES ('á', 5)")
        assert con.execute("SELECT count(*) FROM v WHERE q = 'a'").fetchone() == (4,)
        assert con.execute("SELECT DISTINCT q FROM w ORDER BY q DESC LIMIT 1").fetchone() == ("5",)
