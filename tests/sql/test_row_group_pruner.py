"""DuckDB 2.0.0 answers ORDER BY … LIMIT wrongly by its `row_group_pruner`: off unless asked for."""

import duckdb
import pytest

import tidewheel

_ASKED = "SELECT current_setting('disabled_optimizers')"


@pytest.mark.parametrize("safe", [False, True])
def test_first_rows_after_deletes(safe: bool) -> None:
    with tidewheel.connect(safe_mode=safe) as con:
        con.execute("CREATE TABLE t AS SELECT hash(range) AS y FROM range(1000000)")
        for _ in range(4):
            want = con.execute(
                "SELECT y FROM t QUALIFY row_number() OVER (ORDER BY y) <= 3 ORDER BY y"
            )
            rows = want.fetchall()
            assert con.execute("SELECT y FROM t ORDER BY y LIMIT 3").fetchall() == rows
            con.execute("DELETE FROM t WHERE y = ?", rows[0])


def test_duckdb_is_still_wrong() -> None:
    """When this fails, DuckDB is mended: leave `opening._disable_pruner` out for that version."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT hash(range) AS y FROM range(1000000)")
        wrong = 0
        for _ in range(8):
            rows = con.execute("SELECT y FROM t ORDER BY y").fetchmany(3)
            wrong += con.execute("SELECT y FROM t ORDER BY y LIMIT 3").fetchall() != rows
            con.execute("DELETE FROM t WHERE y = ?", rows[0])
    assert wrong


def test_a_choice_is_kept(tmp_path: object) -> None:
    with tidewheel.connect(disabled_optimizers="join_order") as con:
        assert con.execute(_ASKED).fetchall() == [("join_order",)]
    with tidewheel.connect(config={"disabled_optimizers": "join_order"}, threads=1) as con:
        assert con.execute(_ASKED).fetchall() == [("join_order",)]
    with tidewheel.connect() as con:
        con.execute("RESET disabled_optimizers")
        assert con.execute(_ASKED).fetchall() == [("",)]
    path = f"{tmp_path}/a.db"
    with tidewheel.connect(path) as one:
        one.execute("SET disabled_optimizers = 'join_order'")
        with tidewheel.connect(path) as two:
            assert two.execute(_ASKED).fetchall() == [("join_order",)]
