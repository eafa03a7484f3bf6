"""What is known of a query, or of tables, and used when a view is made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

import tidewheel
from tidewheel.engine.operators.join import Join
from tidewheel.planner import view_fill
from tidewheel.planner.rewrites.measured import Measures

JOINED = """
    SELECT a.k, count(*) AS n, min(c.x) AS least FROM a, b, c
    WHERE a.k = b.k AND b.g = c.g AND b.s <> 'none' GROUP BY a.k"""


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.k, u.k, x FROM t JOIN u ON t.k = u.k",
        "SELECT k, k, sum(x) FROM t GROUP BY ALL",
        "SELECT *, x FROM t ORDER BY x DESC LIMIT 3",
        "SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x) FROM t ORDER BY 1",
        "SELECT DISTINCT k, k, k FROM t UNION ALL SELECT k, 1, 2 FROM u",
        "WITH RECURSIVE r AS (SELECT k, x FROM t UNION SELECT k + 1, x FROM r WHERE k < 5) "
        "SELECT x, x, k FROM r",
        "SELECT median(x), median(x), 1 FROM t",
    ],
)
def test_columns_with_other_names(tmp_path: Path, query: str) -> None:
    file = str(tmp_path / "f.db")
    with tidewheel.connect(file) as con:
        con.execute("CREATE TABLE t AS SELECT range % 4 AS k, range AS x FROM range(20)")
        con.execute("CREATE TABLE u AS SELECT range AS k FROM range(3)")
        con.execute(f"CREATE MATERIALIZED VIEW plain AS {query}")
        con.execute(f"CREATE MATERIALIZED VIEW v (one, two, three) AS {query}")
        names = [c[0] for c in con.execute("FROM v").description or ()]
        assert names == ["one", "two", "three"][: len(names)]
        con.execute("INSERT INTO t VALUES (1, 100), (2, NULL); DELETE FROM t WHERE x = 5")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        reasons = con.execute("SELECT reason FROM tidewheel_views()").fetchall()
        assert reasons[0] == reasons[1]
    with tidewheel.connect(file) as con:  # the plan is made of the text that was kept
        assert sorted(con.execute("FROM v").fetchall(), key=str) == sorted(
            con.execute("FROM plain").fetchall(), key=str
        )
        con.execute("INSERT INTO t VALUES (3, 200)")
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize("how", ["replace", "drop", "alter", "update", "rollback", "other"])
def test_tables_that_are_others_behind_their_names(tmp_path: Path, how: str) -> None:
    """They have as many rows as they had when a view over them was made."""
    with tidewheel.connect(str(tmp_path / "f.db")) as con:
        con.execute(
            "CREATE TABLE a AS SELECT range AS k FROM range(30);"
            "CREATE TABLE b AS SELECT range % 5 AS k, range % 3 AS g, 'text' AS s FROM range(30);"
            "CREATE TABLE c AS SELECT range % 3 AS g, range AS x FROM range(30)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {JOINED}")
        first = con.execute("FROM v").fetchall()
        con.execute("DROP MATERIALIZED VIEW v")
        if how == "replace":
            con.execute(
                "CREATE OR REPLACE TABLE b AS "
                "SELECT 'z' AS s, (range % 3)::VARCHAR AS g, 7.5 AS k FROM range(30)"
            )
        elif how == "drop":
            con.execute("DROP TABLE c; CREATE TABLE c AS SELECT 1 AS x, 2 AS g FROM range(30)")
        elif how == "alter":
            con.execute("ALTER TABLE b ALTER COLUMN k TYPE VARCHAR")
            con.execute("ALTER TABLE c RENAME COLUMN x TO y; ALTER TABLE c ADD COLUMN x DATE")
        elif how == "update":
            con.execute("UPDATE b SET k = 1, g = 1")
        elif how == "rollback":
            con.execute("BEGIN; ALTER TABLE c DROP COLUMN x; ALTER TABLE c ADD COLUMN x VARCHAR")
            con.execute(f"CREATE MATERIALIZED VIEW v AS {JOINED}")
            con.execute("FROM v")
            con.execute("ROLLBACK")
        else:
            with con.cursor() as other:
                other.execute("ALTER TABLE c ALTER COLUMN x TYPE VARCHAR")
                other.execute("ALTER TABLE a ADD COLUMN g INTEGER")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {JOINED}")
        assert sorted(con.execute("FROM v").fetchall()) == sorted(con.execute(JOINED).fetchall())
        assert (how == "rollback") <= (sorted(con.execute("FROM v").fetchall()) == sorted(first))
        con.execute("INSERT INTO a (k) VALUES (1), (2); DELETE FROM b WHERE k::DOUBLE = 3")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]


def test_what_hides_a_table_hides_what_is_known_of_it(tmp_path: Path) -> None:
    with tidewheel.connect(str(tmp_path / "f.db")) as con:
        con.execute("CREATE TABLE t AS SELECT range AS a FROM range(3)")
        con.execute("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 'x' AS b, 2 AS a FROM range(3)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        con.execute("SET search_path = 's,main'")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT * FROM t")
        assert con.execute("FROM w").fetchall() == [("x", 2)] * 3
        con.execute("CREATE MATERIALIZED VIEW x AS SELECT * FROM main.t")
        assert con.execute("FROM x").fetchall() == [(0,), (1,), (2,)]
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT range AS a FROM range(3)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t; DROP MATERIALIZED VIEW v")
        con.execute("CREATE TEMP TABLE t AS SELECT 1 AS q")
        with pytest.raises(tidewheel.Error, match="only this connection"):
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        con.execute("DROP TABLE temp.t; CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        assert con.execute("FROM v").fetchall() == [(0,), (1,), (2,)]


def test_recursions_that_call_their_tables_alike() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT range AS a FROM range(3); CREATE TABLE r (z DATE)")
        for kind in ("INTEGER", "VARCHAR", "BIGINT"):
            con.execute(
                f"CREATE MATERIALIZED VIEW {kind}s AS WITH RECURSIVE r AS "
                f"(SELECT a::{kind} AS n FROM t UNION SELECT n FROM r WHERE n::INTEGER < 5) FROM r"
            )
            con.execute(f"CREATE MATERIALIZED VIEW {kind}_r AS SELECT z FROM r")
            found = con.execute(f"SELECT DISTINCT typeof(n) FROM {kind}s").fetchall()
            assert found == [(kind,)]
            assert con.execute(f"FROM {kind}_r").fetchall() == []


def test_a_type_that_is_made_again() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (m mood)")
        con.execute("INSERT INTO t VALUES ('ok'), ('sad')")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT m, count(*) AS n FROM t GROUP BY m")
        con.execute("DROP MATERIALIZED VIEW v; DROP TABLE t; DROP TYPE mood")
        con.execute("CREATE TYPE mood AS ENUM ('ok', 'fine', 'sad'); CREATE TABLE t (m mood)")
        con.execute("INSERT INTO t VALUES ('ok'), ('sad')")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT m, count(*) AS n FROM t GROUP BY m")
        con.execute("INSERT INTO t VALUES ('fine'), ('sad')")
        rows = con.execute("SELECT m, n FROM v ORDER BY m").fetchall()
        assert rows == [("ok", 1), ("fine", 1), ("sad", 2)]


def test_another_database_of_the_same_name(tmp_path: Path) -> None:
    with tidewheel.connect() as con:
        for number, kind in enumerate(("INTEGER", "VARCHAR")):
            file = tmp_path / f"{number}.db"
            con.execute(f"ATTACH '{file}' AS d; USE d")
            con.execute(f"CREATE TABLE t AS SELECT range::{kind} AS a FROM range(3)")
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT max(a) AS a FROM t")
            con.execute("INSERT INTO t VALUES ('10')")
            assert con.execute("FROM v").fetchall() == [("2",) if number else (10,)]
            con.execute("DROP MATERIALIZED VIEW v; USE memory; DETACH d")


@pytest.mark.parametrize(("keys", "by_operators"), [(30, True), (1, False)])
def test_few_rows_are_joined_by_operators_if_they_can_make_few_pairs(
    monkeypatch: pytest.MonkeyPatch, keys: int, by_operators: bool
) -> None:
    monkeypatch.setattr(view_fill, "SOON", 20)
    monkeypatch.setattr(view_fill, "_PAIRS", 3600 if by_operators else 3599)
    with tidewheel.connect() as con:
        for name in "ab":
            made = f"SELECT i % {keys} AS k, 1 AS x FROM range(60) AS t(i)"
            con.execute(f"CREATE TABLE {name} AS {made}")
        query = "SELECT k, sum(a.x * b.x) FROM a JOIN b USING (k) GROUP BY k"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        each = (60 // keys) ** 2
        assert sorted(con.execute("FROM v").fetchall()) == [(k, each) for k in range(keys)]
        circuit, _ = con._session.views.circuit("memory.main.v")
        assert circuit is not None
        (join,) = [n for n in circuit.nodes if n is not None and isinstance(n.op, Join)]
        assert bool(join.steps) is by_operators
        con.execute("DELETE FROM a WHERE k = 0")
        assert sorted(con.execute("FROM v").fetchall()) == [(k, each) for k in range(1, keys)]


def test_rows_of_a_table_are_counted_for_its_first_view(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    ask = Measures._ask

    def spied(self: Measures, wanted: Iterable[tuple[str, str]]) -> None:
        query = self._query
        self._query = lambda sql: counted.append(sql) or query(sql)  # type: ignore[func-returns-value]
        ask(self, wanted)
        self._query = query

    monkeypatch.setattr(Measures, "_ask", spied)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT range AS a FROM range(100)")
        views = con._session.views.registry
        made = "CREATE MATERIALIZED VIEW {} AS SELECT a + {} AS a FROM t"
        for i, (change, rows) in enumerate(
            [
                ("FROM t", 100),
                ("INSERT INTO t FROM range(7)", 107),
                ("DELETE FROM t WHERE a < 7", 93),
                ("BEGIN; DELETE FROM t WHERE a < 50; COMMIT", 50),
                ("BEGIN; INSERT INTO t VALUES (1); ROLLBACK", 50),
                ("ALTER TABLE t ADD COLUMN b INTEGER", 50),
            ]
        ):
            con.execute(change)
            con.execute(made.format(f"v{i}", i))
            known = {v.plan.held("memory.main.t") for v in views.views.values() if v.plan}
            assert known == {rows}
        assert len(counted) == 2, counted  # after ALTER no view has rows
