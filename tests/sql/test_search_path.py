"""Which relation a name means: what DuckDB takes, for every name along many search paths."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import duckdb
import pytest

import tidewheel
from tidewheel.sql.reads import Names, Relation

PLACES = [
    ("memory", "main"), ("memory", "s1"), ("memory", "Two"), ("d2", "main"), ("d2", "s1"),
    ("d2", "s2"), ("D 3", "main"), ("D 3", "two"), ("D 3", "d2"),
]  # fmt: skip
PATHS = [
    "USE s1", "USE S1", "USE d2", "USE D2.S1", "USE d2.s2", 'USE "D 3".TWO', "SET schema = 'two'",
    "SET search_path = 's1,main'", "SET search_path = 'd2.s1,s1'",
    "SET search_path = 'memory.main,D2.main'", "SET search_path = 'd2.s1,d2.s2,memory.two'",
    "SET search_path = '\"D 3\".two,D2.S1'",
]  # fmt: skip
QUALIFIERS: list[tuple[str, ...]] = [
    *[(), ("main",), ("S1",), ("s2",), ("two",), ("Memory",), ("d2",), ("d 3",), ("temp",)],
    *PLACES,
]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    random = Random(1)
    with duckdb.connect(config={"python_enable_replacements": False}) as con:
        con.execute("ATTACH ':memory:' AS d2; ATTACH ':memory:' AS \"D 3\"")
        for database, schema in PLACES:
            con.execute(f'CREATE SCHEMA IF NOT EXISTS "{database}"."{schema}"')
            for name in "tUw":
                if random.random() < 0.6:
                    table = f'"{database}"."{schema}"."{name}"'
                    con.execute(f"CREATE TABLE {table} AS SELECT '{database}.{schema}' AS place")
        yield con


def written(parts: tuple[str, ...]) -> str:
    return ".".join(f'"{p}"' for p in parts)


def meant(con: duckdb.DuckDBPyConnection, name: str) -> str | None:
    try:
        return str(con.execute(f"SELECT place FROM {name}").fetchall()[0][0])
    except duckdb.Error:
        return None


def found(relation: Relation | None) -> str | None:
    return None if relation is None else f"{relation.database}.{relation.schema}"


@pytest.mark.parametrize("temporary", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_name_means_what_duckdb_takes(
    con: duckdb.DuckDBPyConnection, path: str, temporary: bool
) -> None:
    if temporary:
        con.execute("CREATE TEMP TABLE t AS SELECT 'temp.main' AS place")
    con.execute(path)
    names = Names(con)
    for parts in ((*q, name) for q, name in product(QUALIFIERS, "tuW")):
        expected = meant(con, written(parts))
        try:
            con.execute(f"FROM {written(parts)}")
        except duckdb.BinderException:  # a schema and a database of that name
            continue
        except duckdb.CatalogException:
            pass
        assert found(names.find(parts)) == expected, parts


@pytest.mark.parametrize("path", PATHS)
def test_create_makes_a_relation_where_duckdb_does(
    con: duckdb.DuckDBPyConnection, path: str
) -> None:
    con.execute(path)
    names = Names(con)
    for parts in ((*q, "made") for q in QUALIFIERS if q != ("temp",)):
        try:
            con.execute(f"CREATE TABLE {written(parts)} (a INT)")
        except duckdb.Error:
            continue
        ((database, schema),) = con.execute(
            "SELECT database_name, schema_name FROM duckdb_tables() WHERE table_name = 'made'"
        ).fetchall()
        con.execute(f'DROP TABLE "{database}"."{schema}".made')
        target = names.target(parts)
        assert [p.lower() for p in target] == [database.lower(), schema.lower()], parts


def test_the_query_of_a_plain_view_looks_in_its_own_schema_and_database_first(
    con: duckdb.DuckDBPyConnection,
) -> None:
    for place, name, q in product(PLACES, "tu", QUALIFIERS):
        con.execute("USE d2.s2")
        view = Relation(*place, "looks", "view", False)
        outer = Relation("D 3", "main", "outer", "view", False)
        query = f"SELECT place FROM {written((*q, name))}"
        try:
            con.execute(f"CREATE OR REPLACE VIEW {view.quoted} AS {query}")
            con.execute(f"CREATE OR REPLACE VIEW {outer.quoted} AS FROM {view.quoted}")
        except duckdb.Error:
            con.execute(f"DROP VIEW IF EXISTS {view.quoted}")
            continue
        ((sql,),) = con.execute(
            "SELECT sql FROM duckdb_views() WHERE view_name = 'looks'"
        ).fetchall()
        parts = [p.strip('";') for p in sql.rsplit(" FROM ", 1)[1].split(".")]
        for path in PATHS:
            con.execute(f"RESET search_path; {path}")
            names = Names(con)
            for inside in (names.inside(view), names.inside(outer).inside(view)):
                assert found(inside.find(parts)) == meant(con, view.quoted), (place, sql, path)
            assert meant(con, view.quoted) == meant(con, outer.quoted)
        con.execute(f"DROP VIEW {view.quoted}")


def test_views_see_changes_of_a_table_that_is_named_by_its_database_along_the_path() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE SCHEMA s; CREATE TABLE s.t (a INT); CREATE TABLE t (a INT)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS a FROM s.t")
        con.execute("USE memory.s")
        con.execute("INSERT INTO memory.t VALUES (1)")  # DuckDB looks for it along the path: s.t
        assert con.execute("FROM main.v").fetchall() == [(1,)]
        con.execute("INSERT INTO main.t VALUES (5)")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(a) AS a FROM memory.t")
        con.execute("UPDATE memory.t SET a = 2")
        assert con.execute("FROM w").fetchall() == [(2,)]


def test_a_view_says_which_schema_it_means_where_the_path_does_not_name_the_database() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS a")
        con.execute("CREATE TABLE t AS SELECT 2 AS a; USE s")
        assert con.execute("FROM memory.t").fetchall() == [(2,)]
        with pytest.raises(tidewheel.Error, match=r"memory\.t"):
            con.execute("CREATE MATERIALIZED VIEW v AS FROM memory.t")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM memory.main.t")
        con.execute("INSERT INTO memory.t VALUES (3)")
        con.execute("INSERT INTO t VALUES (4)")
        assert sorted(con.execute("FROM v").fetchall()) == [(2,), (3,)]


def test_main_is_the_schema_of_temporary_tables_first() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TEMP TABLE t (a INT)")
        con.execute("CREATE TABLE memory.main.t (a INT)")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM memory.main.t")
        con.execute("INSERT INTO main.t VALUES (1)")  # DuckDB: the temporary one
        assert con.execute("FROM v").fetchall() == con.execute("FROM memory.main.t").fetchall()


def test_a_commit_leaves_the_session_in_its_schema() -> None:
    """A path without a database follows the database of the path before it."""
    with tidewheel.connect() as con:
        con.execute("ATTACH ':memory:' AS d2; CREATE SCHEMA s; CREATE SCHEMA d2.s")
        con.execute("CREATE TABLE s.t AS SELECT 1 AS a; CREATE TABLE d2.s.t AS SELECT 2 AS a")
        con.execute("USE d2; CREATE TABLE u (a INT)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT mode(a) FROM u")  # computed anew
        con.execute("RESET search_path; USE s")
        con.execute("INSERT INTO d2.main.u VALUES (1)")
        assert con.execute("VERIFY VIEW d2.main.v").fetchall() == []
        assert con.execute("FROM t").fetchall() == [(1,)]
        assert con.execute("SHOW search_path").fetchall() == [("s",)]
