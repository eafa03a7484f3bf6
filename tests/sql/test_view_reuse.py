"""Joins that filling a view reads twice are made once, as temporary tables."""

import pytest

import tidewheel
from tidewheel.planner import view_fill
from tidewheel.planner.view_reuse import Reusing

TABLES = """
CREATE TABLE fact AS SELECT i, i % 100 AS k, i % 77 AS z FROM range(20000) AS t(i);
CREATE TABLE b AS SELECT i AS k, i % 20 AS g, 'n' || i AS s FROM range(100) AS t(i);
CREATE TABLE c AS SELECT i AS g, 'g' || i AS n FROM range(20) AS t(i);
CREATE TABLE d AS SELECT 'g' || i AS n, i AS q FROM range(150) AS t(i)
"""
FROM = "FROM fact JOIN b USING (k) JOIN c USING (g) JOIN d USING (n)"
LEFT = "SELECT count(*) FROM duckdb_tables() WHERE temporary"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements whose rows become tables."""
    found: list[str] = []
    real = Reusing.kept

    def noted(self: Reusing, sql: str) -> object:
        found.append(sql)
        return real(self, sql)

    monkeypatch.setattr(Reusing, "kept", noted)
    monkeypatch.setattr(view_fill, "MANY", 1000)
    return found


def test_a_join_in_a_join_is_made_once(kept: list[str]) -> None:
    query = f"SELECT n, z, sum(i), count(*) {FROM} GROUP BY n, z"
    with tidewheel.connect() as con:
        con.execute(TABLES)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert kept
        assert con.execute(LEFT).fetchall() == [(0,)]
        for change in ("DELETE FROM fact WHERE i % 3 = 0", "DELETE FROM c WHERE g = 4"):
            con.execute(change)
            wanted = sorted(con.execute(query).fetchall())
            assert sorted(con.execute("FROM v").fetchall()) == wanted


def test_a_filling_that_fails_leaves_no_table(kept: list[str]) -> None:
    with tidewheel.connect() as con:
        con.execute(TABLES)
        query = f"SELECT n, z, sum(s::INTEGER) {FROM} GROUP BY n, z"
        with pytest.raises(tidewheel.Error, match="n"):
            con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert kept
        assert con.execute(LEFT).fetchall() == [(0,)]
        assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_in_a_database_that_may_only_be_read(
    kept: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("reuse") / "a.db")
    query = f"SELECT n, z, sum(i), count(*) {FROM} GROUP BY n, z"
    with tidewheel.connect(path) as con:
        con.execute(TABLES)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    kept.clear()
    with tidewheel.connect(path, read_only=True) as con:
        con.execute("EXPLAIN VIEW v")
        assert kept
        assert con.execute(LEFT).fetchall() == [(0,)]
