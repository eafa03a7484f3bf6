"""VERIFY VIEW … AGAINST SPARK."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel
from tidewheel.engine.kernels.spark import Spark

SETUP = """
CREATE TABLE sale (item VARCHAR, cents DECIMAL(10, 2), day DATE, tags VARCHAR[]);
INSERT INTO sale VALUES ('tea', 3.5, DATE '2020-01-01', ['a', 'b']),
                        ('tea', NULL, DATE '2020-01-02', []), (NULL, 1, NULL, NULL);
CREATE TABLE edge (a INTEGER, b INTEGER);
INSERT INTO edge VALUES (1, 2), (2, 3), (3, 1);
CREATE MATERIALIZED VIEW total (item, cents, mean) AS
    SELECT item, sum(cents), avg(cents) FROM sale GROUP BY item;
CREATE MATERIALIZED VIEW dear AS SELECT item FROM total WHERE cents > 2;
CREATE MATERIALIZED VIEW tagged AS SELECT item, tags FROM sale;
CREATE MATERIALIZED VIEW reach AS
    WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT b FROM r JOIN edge ON a = n) FROM r;
CREATE MATERIALIZED VIEW hashed AS SELECT hash(item) AS h FROM sale;
"""


@pytest.fixture(scope="module")
def con(spark: Spark) -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as connection:
        connection.execute(SETUP)
        connection.execute("INSERT INTO sale VALUES ('pot', 25, DATE '2020-01-01', ['c'])")
        connection.execute("DELETE FROM edge WHERE a = 2")
        yield connection


@pytest.mark.parametrize("view", ["total", "dear", "tagged", "reach"])
def test_right_views(con: tidewheel.Connection, view: str) -> None:
    cursor = con.execute(f"VERIFY VIEW {view} AGAINST SPARK")
    assert cursor.description is not None
    assert cursor.description[-1][0] == "weight"
    assert cursor.fetchall() == []
    assert con.execute(f"VERIFY VIEW {view} AGAINST RECOMPUTE").fetchall() == []


def test_inside_a_transaction(con: tidewheel.Connection) -> None:
    con.execute("BEGIN; INSERT INTO sale VALUES ('cup', 7, NULL, NULL)")
    assert con.execute("VERIFY VIEW total AGAINST SPARK").fetchall() == []
    con.execute("ROLLBACK")


def test_what_differs_is_shown(con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    view = con._session.database.maintainer.views["memory.main.dear"]
    monkeypatch.setattr(view, "sql", "SELECT item FROM total WHERE cents > 20 UNION ALL SELECT 'x'")
    rows = con.execute("VERIFY VIEW dear AGAINST SPARK").fetchall()
    assert sorted(rows) == [("tea", -1), ("x", 1)]


def test_what_spark_cannot_run(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.NotSupportedError, match=r"hash\(\) gives another answer"):
        con.execute("VERIFY VIEW hashed AGAINST SPARK")
    con.execute("INSERT INTO sale VALUES ('mug', 1, NULL, NULL)")  # no lock is left


def test_the_view_s_settings(con: tidewheel.Connection) -> None:
    con.execute("SET TimeZone = 'America/New_York'; CREATE SCHEMA s; USE s")
    con.execute("CREATE TABLE visit (ts TIMESTAMPTZ); CREATE TABLE sale (n INTEGER)")
    con.execute("INSERT INTO visit VALUES ('2024-01-01 03:30:00+00'), (NULL)")
    con.execute("CREATE MATERIALIZED VIEW days AS SELECT ts::DATE AS d, ts FROM visit, sale")
    con.execute("CREATE MATERIALIZED VIEW hours AS SELECT extract(hour FROM ts) AS h FROM visit")
    con.execute("SET integer_division = true")
    con.execute("CREATE MATERIALIZED VIEW half AS SELECT n / 2 AS h FROM sale")
    con.execute("RESET integer_division; USE main; SET TimeZone = 'Asia/Tokyo'")
    con.execute("INSERT INTO s.sale VALUES (7)")
    assert sorted(con.execute("SELECT h FROM s.hours").fetchall(), key=str) == [(22,), (None,)]
    for view in ("s.days", "s.hours"):
        assert con.execute(f"VERIFY VIEW {view} AGAINST SPARK").fetchall() == []
    with pytest.raises(tidewheel.NotSupportedError, match="made under integer_division = 'true'"):
        con.execute("VERIFY VIEW s.half AGAINST SPARK")
    assert con.execute("SELECT current_setting('TimeZone')").fetchall() == [("Asia/Tokyo",)]
