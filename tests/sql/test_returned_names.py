"""Names of what changes return are DuckDB's, and names of tables mean no variables of ours."""

from __future__ import annotations

import duckdb
import pytest

import tidewheel

SETUP = (
    "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR)",
    "INSERT INTO item VALUES (0, 'a'), (1, 'b')",
    "CREATE TABLE other (id INT)",
    "INSERT INTO other VALUES (1)",
    "PREPARE twice AS SELECT id, id FROM item",
)


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO item VALUES (2, 'c') RETURNING *, *",
        "UPDATE item SET name = 'd' RETURNING id, name, id AS ID",
        "DELETE FROM item WHERE id = 1 RETURNING id + 1, id + 1",
        "MERGE INTO item USING other USING (id) WHEN MATCHED THEN DELETE RETURNING name, name",
        "WITH new AS (INSERT INTO item VALUES (3, 'e') RETURNING *) "
        "SELECT a.*, b.* FROM new a, new b",
        "WITH RECURSIVE n (i) AS (SELECT 5 UNION SELECT i + 1 FROM n WHERE i < 7) "
        "INSERT INTO item SELECT i, 'f' FROM n RETURNING id, id",
        "EXECUTE twice",
    ],
)
def test_columns_of_one_name_keep_it(statement: str, watched: bool) -> None:
    with duckdb.connect() as duck, tidewheel.connect() as con:
        for setup in SETUP:
            duck.execute(setup)
            con.execute(setup)
        if watched:
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT name FROM item")
        right, found = duck.execute(statement), con.execute(statement)
        assert found.description is not None
        assert [c[0] for c in found.description] == [c[0] for c in right.description]
        assert sorted(found.fetchall()) == sorted(right.fetchall())


@pytest.mark.parametrize("name", ["self", "text", "params", "info", "statement", "given"])
def test_a_table_that_is_not_there_is_no_variable_of_ours(name: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE item (id INT)")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM item")
        for statement in (
            f"INSERT INTO item FROM {name}",
            f"DELETE FROM item WHERE id IN (FROM {name})",
            f"UPDATE item SET id = 1 WHERE id IN (FROM {name})",
            f"WITH new AS (INSERT INTO item FROM {name} RETURNING *) FROM new",
        ):
            with pytest.raises(tidewheel.ProgrammingError, match=f"{name} does not exist"):
                con.execute(statement)
