"""A query for all of a maintained view, which DuckDB does not run when it comes again."""

from __future__ import annotations

import pytest

import tidewheel
from tidewheel.planner import direct

READS = ["FROM v", "SELECT * FROM v", "select *\n from main.v ", "FROM memory.main.v"]


@pytest.fixture
def con():
    with tidewheel.connect() as found:
        found.execute("CREATE TABLE e (a INTEGER, b VARCHAR)")
        found.execute("INSERT INTO e VALUES (1, 'x'), (2, 'y')")
        yield found


@pytest.fixture
def asked(monkeypatch):
    """The texts that DuckDB got."""
    texts: list[str] = []
    run = direct.run

    def spied(sql, context):
        texts.append(sql)
        return run(sql, context)

    monkeypatch.setattr(direct, "run", spied)
    return texts


def read(con, text="FROM v"):
    return con.execute(text).fetchall()


@pytest.mark.parametrize("text", READS)
def test_the_answer_is_the_same(con, asked, text):
    con.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) n, sum(a) s, avg(a) m, max(b) t, "
        "sum(a::DECIMAL(9, 2)) d, max(DATE '2020-01-01' + a) AS day, list(a) l FROM e"
    )
    for i in range(5):
        con.execute("INSERT INTO e VALUES (?, 'z')", [i])
        found, theirs = con.execute(text), con.execute(f"FROM ({text})")
        assert found.description == theirs.description
        assert found.to_arrow_table().equals(theirs.to_arrow_table(), check_metadata=True)
        assert read(con, text) == read(con, f"FROM ({text})")
    assert asked.count(text.strip()) == 1  # when it comes again it is looked into
    assert [c.fetchall() for c in con.script(text, as_text=True)] == [read(con, text)]


@pytest.mark.parametrize("text", READS)
def test_the_first_read_of_a_view_that_was_just_made(con, asked, text):
    """Its schema is known: DuckDB need not say what it is."""
    query = "SELECT sum(a) s, avg(a) m, max(b) t, max(a)::DECIMAL(9, 2) d, bool_or(a > 1) x"
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query} FROM e")
    con.execute("CREATE MATERIALIZED VIEW other AS SELECT 1 AS one")
    found = con.execute(text)
    assert asked == []
    theirs = con.execute(f"FROM ({text})")
    assert found.description == theirs.description
    assert found.to_arrow_table().equals(theirs.to_arrow_table(), check_metadata=True)
    assert read(con, text) == read(con, f"FROM ({text})")


def test_what_may_happen_before_the_first_read(con):
    made = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT count(*) {} FROM e"
    for before, answer, columns in (
        ("CREATE TEMP TABLE v AS SELECT 7 AS m", [(7,)], ["m"]),
        ("SELECT 1", [(2,)], ["n"]),
        ("ALTER MATERIALIZED VIEW v RENAME TO w", None, []),
        (made.format("n, max(a) x"), [(2, 2)], ["n", "x"]),
        ("INSERT INTO e VALUES (3, 'z')", [(3,)], ["n"]),
        ("DROP MATERIALIZED VIEW v", None, []),
        ("BEGIN; DELETE FROM e", [(0,)], ["n"]),
    ):
        con.execute("DROP MATERIALIZED VIEW IF EXISTS w")
        con.execute(made.format("n"))
        con.execute(before)
        if answer is None:
            with pytest.raises(tidewheel.ProgrammingError):
                read(con)
        else:
            found = con.execute("FROM v")
            assert [d[0] for d in found.description] == columns
            assert found.fetchall() == answer
        con.execute("DROP TABLE IF EXISTS temp.v")


def test_types_that_duckdb_makes_of_the_rows(con):
    con.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    con.execute("CREATE TABLE m (x mood, u UUID, t TIMESTAMPTZ)")
    con.execute("INSERT INTO m VALUES ('ok', uuid(), now())")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM m")
    for _ in range(4):
        con.execute("INSERT INTO m VALUES ('sad', uuid(), now())")
        found, theirs = con.execute("FROM v"), con.execute("SELECT * FROM (FROM v)")
        assert found.description == theirs.description
        assert sorted(found.fetchall()) == sorted(theirs.fetchall())


@pytest.fixture
def known(con):
    """A view whose text has been looked into."""
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) n FROM e")
    con.execute("INSERT INTO e VALUES (3, 'z')")
    for _ in range(3):
        assert read(con) == [(3,)]
    return con


def test_a_name_may_come_to_mean_something_else(known):
    known.execute("CREATE TEMP TABLE v AS SELECT 7 n")
    assert [read(known) for _ in range(3)] == [[(7,)]] * 3
    known.execute("DROP TABLE temp.v")
    assert [read(known) for _ in range(3)] == [[(3,)]] * 3
    known.execute("CREATE SCHEMA other")
    known.execute("CREATE TABLE other.v AS SELECT 8 n")
    known.execute("SET schema = 'other'")
    assert [read(known) for _ in range(3)] == [[(8,)]] * 3
    known.execute("RESET schema")
    known.execute("DROP MATERIALIZED VIEW v")
    with pytest.raises(tidewheel.ProgrammingError):
        read(known)
    known.execute("CREATE MATERIALIZED VIEW v AS SELECT max(a) n, 1 m FROM e")
    assert [read(known) for _ in range(3)] == [[(3, 1)]] * 3


def test_another_connection_may_change_it(tmp_path):
    path = str(tmp_path / "db")
    with tidewheel.connect(path) as one, tidewheel.connect(path) as two:
        one.execute("CREATE TABLE e AS SELECT 1 a")
        one.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) n FROM e")
        assert [read(two) for _ in range(3)] == [[(1,)]] * 3
        one.execute("INSERT INTO e VALUES (2)")
        assert read(two) == [(2,)]
        one.execute("DROP MATERIALIZED VIEW v")
        with pytest.raises(tidewheel.ProgrammingError):
            read(two)


def test_a_transaction_sees_itself(known):
    known.execute("BEGIN")
    known.execute("INSERT INTO e VALUES (4, 'z')")
    assert [read(known) for _ in range(3)] == [[(4,)]] * 3
    with pytest.raises(tidewheel.Error):
        known.execute("SELECT 1 / 'x'").fetchall()
    with pytest.raises(tidewheel.Error):
        read(known)
    known.execute("ROLLBACK")
    assert read(known) == [(3,)]


def test_a_result_that_is_not_read_to_its_end(known):
    first = known.execute("FROM v")
    known.execute("INSERT INTO e VALUES (4, 'z')")
    assert read(known) == [(4,)]
    assert first.fetchall() == [(3,)]


def test_a_plain_view_between(known):
    known.execute("CREATE VIEW w AS SELECT n + 1 AS n FROM v")
    assert [read(known, "FROM w") for _ in range(3)] == [[(4,)]] * 3


def test_what_is_no_name(con):
    con.execute('CREATE MATERIALIZED VIEW "select" AS SELECT count(*) n FROM e')
    for _ in range(3):
        with pytest.raises(tidewheel.ProgrammingError):
            read(con, "FROM select")
