"""What the progress line says, and where its numbers come from."""

import pytest

import tidewheel
from tidewheel.cli.progress import line
from tidewheel.sql.activity import Progress

RECURSION = "WITH RECURSIVE r(n) AS (SELECT 1 UNION {all} SELECT n + 1 FROM r WHERE n < 50) FROM r"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (Progress(0, None, None, (), 0, 0, 2.0), "2.0 s"),
        (Progress(0, 0.0, "r", (), 0, 0, 2.0), "epoch 0 · r · 2.0 s"),
        (Progress(0, 0.0, "r", (7,), 0, 0, 2.0), "epoch 0 · r: iteration 7 · 2.0 s"),
        (Progress(0, 0.25, None, (), 0, 0, 2.0), "25% · 2.0 s"),
        (Progress(3, 0.5, None, (), 0, 1, 0.0), "50% · 1 row · 1,000 rows/s · 0.0 s"),
        (
            Progress(2, None, "paths", (1, 5), 1200, 34000, 2.0),
            "epoch 2 · paths: iteration 1.5, 1,200 rows · 34,000 rows · 17,000 rows/s · 2.0 s",
        ),
    ],
)
def test_the_line(now: Progress, said: str) -> None:
    assert line(now) == said


def test_nothing_is_noted_before_it_is_wanted() -> None:
    with tidewheel.connect() as connection:
        connection.execute(RECURSION.format(all="ALL")).fetchall()
        assert connection.progress() is None


@pytest.mark.parametrize("every", ["", "ALL"])
@pytest.mark.parametrize("fusion", ["on", "off"])
def test_a_recursion_that_ran(fusion: str, every: str) -> None:
    with tidewheel.connect() as connection:
        # with a bound the loop runs it, small as it is, and not DuckDB
        connection.execute(f"SET fusion = '{fusion}'; SET max_iterations = 1000")
        connection.enable_progress()
        assert len(connection.execute(RECURSION.format(all=every)).fetchall()) == 50
        now = connection.progress()
        assert now is not None
        assert now.table == "r"
        assert now.rows == 50
        assert not now.counters or now.counters[0] in (49, 50)


def test_a_result_as_far_as_it_was_read() -> None:
    with tidewheel.connect() as connection:
        connection.enable_progress()
        cursor = connection.execute("FROM range(300000)")
        cursor.fetchone()
        first = connection.progress()
        assert first is not None
        assert 0 < first.rows < 300_000
        cursor.fetchall()
        last = connection.progress()
        assert last is not None
        assert last.rows == 300_000
        connection.execute("SELECT 1").fetchall()
        other = connection.progress()
        assert other is not None
        assert other.rows == 1


def test_a_maintained_recursion() -> None:
    with tidewheel.connect() as connection:
        connection.enable_progress()
        connection.execute("CREATE TABLE e AS SELECT range AS a, range + 1 AS b FROM range(9)")
        connection.execute(
            "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL "
            "SELECT b FROM r JOIN e ON a = n WHERE b < 100) FROM r"
        )
        assert connection.execute("SELECT count(*) FROM v").fetchone() == (10,)
        connection.execute("INSERT INTO e VALUES (9, 10), (10, 11)")
        now = connection.progress()
        assert now is not None
        assert now.table == "r"
        assert now.epoch >= 1
