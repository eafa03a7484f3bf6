"""Names with dots in them, letters outside ASCII, and of types in front of a ``<``."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import tidewheel


@pytest.mark.parametrize(
    "table", ['"t.x"', '"a.b".t', '"a.b"."t.x"', '"d.b".t', '"d.b"."a.b"."t.x"']
)
@pytest.mark.parametrize("view", ["v", '"v.1"', '"a.b"."v.1"'])
def test_views_follow_their_tables(table: str, view: str) -> None:
    with tidewheel.connect() as con:
        con.execute(
            """ATTACH ':memory:' AS "d.b"; CREATE SCHEMA "a.b"; CREATE SCHEMA "d.b"."a.b";"""
        )
        con.execute(f"CREATE TABLE {table} (i INTEGER)")
        con.execute(f"CREATE MATERIALIZED VIEW {view} AS SELECT sum(i) AS s FROM {table}")
        con.execute(f"CREATE MATERIALIZED VIEW over AS SELECT s + 1 AS s FROM {view}")
        con.execute(f"INSERT INTO {table} VALUES (1), (2)")
        assert con.execute(f"FROM {view}, over").fetchall() == [(3, 4)]
        con.execute(f"UPDATE {table} SET i = 5 WHERE i = 2")
        assert con.execute(f"FROM {view}, over").fetchall() == [(6, 7)]
        assert con.execute(f"VERIFY VIEW {view}").fetchall() == []
        with pytest.raises(tidewheel.Error, match="maintained views read what"):
            con.execute(f"DROP TABLE {table}")
        con.execute("DROP MATERIALIZED VIEW over")
        con.execute(f'ALTER VIEW {view} RENAME TO "w.w"')
        con.execute(f"INSERT INTO {table} VALUES (4)")
        renamed = f'{view.rpartition(chr(34) + ".")[0]}"."w.w"' if '".' in view else '"w.w"'
        assert con.execute(f"FROM {renamed}").fetchall() == [(10,)]
        con.execute(f"DROP MATERIALIZED VIEW {renamed}")
        con.execute(f"DROP TABLE {table}")


def test_in_a_file_whose_name_has_dots(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b.c.db")
    with tidewheel.connect(path) as con:
        con.execute('CREATE SCHEMA "s.s"; CREATE TABLE "s.s"."t.t" (i INTEGER)')
        con.execute('CREATE MATERIALIZED VIEW "s.s"."v.v" AS SELECT sum(i) AS s FROM "s.s"."t.t"')
        con.execute('INSERT INTO "s.s"."t.t" VALUES (1)')
    with tidewheel.connect(path) as con:
        con.execute('INSERT INTO "s.s"."t.t" VALUES (2)')
        assert con.execute('FROM "s.s"."v.v"').fetchall() == [(3,)]
        named = con.execute("SELECT schema_name, view_name FROM tidewheel_views()").fetchall()
        assert named == [("s.s", "v.v")]
        con.execute('DROP SCHEMA "s.s" CASCADE')
        assert con.execute("FROM tidewheel_views()").fetchall() == []


def test_in_a_file_whose_name_is_that_of_our_schema(tmp_path: Path) -> None:
    path = tmp_path / "__tidewheel.db"
    with tidewheel.connect(path) as con:
        con.execute("create table t as select 1 as a")
        con.execute("create materialized view v as select count(*)::int as n from t")
        con.execute("create materialized view w as from t; alter view w rename to x")
        con.execute("drop materialized view x")
        con.execute(f"export database '{tmp_path / 'one'}'")
        con.execute(f"export database __tidewheel to '{tmp_path / 'two'}'")
    with tidewheel.connect(path) as con:
        con.execute("insert into t values (2)")
        assert con.execute("from v").fetchall() == [(2,)]
    for folder in ("one", "two"):
        with tidewheel.connect() as con:
            con.execute(f"import database '{tmp_path / folder}'")
            con.execute("attach ':memory:' as __tidewheel")
            con.execute("create materialized view y as from v")
            assert con.execute("from y").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "ddl",
    [
        'CREATE TABLE "ä" (i INTEGER)',
        'CREATE VIEW "ä" AS SELECT 1 AS i',
        'ALTER TABLE other RENAME TO "ä"',
    ],
)
def test_letters_outside_ascii(ddl: str) -> None:
    """Ä and ä are two names to DuckDB: a view over one of them had the changes of the other."""
    with tidewheel.connect() as con:
        con.execute('CREATE TABLE "Ä" (i INTEGER); CREATE TABLE other (i INTEGER)')
        con.execute('CREATE MATERIALIZED VIEW v AS SELECT sum(i) AS s FROM "Ä"')
        con.execute('INSERT INTO "Ä" VALUES (1)')
        with pytest.raises(tidewheel.Error, match="differ in the case of a letter"):
            con.execute(ddl)
        assert con.execute("FROM v").fetchall() == [(1,)]
        con.execute("DROP MATERIALIZED VIEW v")
        con.execute(ddl)
        with pytest.raises(tidewheel.NotSupportedError, match="but for the case of a letter"):
            con.execute('CREATE MATERIALIZED VIEW v AS SELECT sum(i) AS s FROM "Ä"')


@pytest.mark.parametrize(
    "query",
    [
        "SELECT range, range < 2 AS less FROM t WHERE row < 3 OR range<list",
        "SELECT struct < 2 AS few, count(*) AS n FROM t GROUP BY struct < 2 HAVING max(list) < 9",
        "SELECT list FROM t WHERE row(range, list) < row(2, 2)",
        "SELECT max(list) AS m FROM t GROUP BY row(range, row) HAVING row(range, row) < (2, 5)",
    ],
)
def test_types_in_front_of_a_less_than_are_names(query: str) -> None:
    """sqlglot reads ``range < 2`` as the beginning of a type, as STRUCT<a INT> is in BigQuery."""
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for each in (con, duck):
            each.execute(
                'CREATE TABLE t (range INTEGER, list INTEGER, struct INTEGER, "row" INTEGER)'
            )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        kept = con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()
        assert kept == [("incremental",)]
        for change in (
            "INSERT INTO t VALUES (1, 1, 1, 1), (2, 1, 2, 4), (2, 3, 1, 2), (NULL, 1, NULL, 2)",
            "UPDATE t SET list = 1, struct = 3 WHERE list = 3",
            "DELETE FROM t WHERE range = 1",
        ):
            for each in (con, duck):
                each.execute(change)
            expected = sorted(duck.execute(query).fetchall(), key=str)
            assert sorted(con.execute("FROM v").fetchall(), key=str) == expected
