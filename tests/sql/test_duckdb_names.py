"""What users of DuckDB's Python API type."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

import tidewheel


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("sql", r"execute\(sql\)"),
        ("table", "FROM name"),
        ("fetchdf", r"execute\(sql\)\.df\(\)"),
        ("fetchall", r"execute\(sql\)\.fetchall\(\)"),
        ("description", r"execute\(sql\)\.description$"),
        ("read_csv", r"FROM read_csv"),
        ("row_factory", r"cursor\.description"),  # sqlite3's
        ("isolation_level", "write autocommit"),
    ],
)
def test_of_a_connection(con: tidewheel.Connection, name: str, instead: str) -> None:
    assert not hasattr(con, name)
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; .*{instead}"):
        getattr(con, name)


@pytest.mark.parametrize(
    ("name", "instead"), [("fetchdf", "df()"), ("arrow", "to_arrow_table()"), ("show", "df()")]
)
def test_of_a_cursor(con: tidewheel.Connection, name: str, instead: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(con.execute("SELECT 1"), name)
    assert f"write {instead}" in str(caught.value)
    assert hasattr(con.cursor(), instead.rstrip("()"))


def test_what_is_not_there_is_not_set_either(con: tidewheel.Connection) -> None:
    for owner, name in (
        (con, "row_factory"),
        (con, "isolation_level"),
        (con.cursor(), "row_factory"),
    ):
        with pytest.raises(AttributeError):
            setattr(owner, name, None)
    with pytest.raises(AttributeError, match=r"write a macro: execute"):
        getattr(con.cursor(), "create_function")  # noqa: B009


def test_other_names_are_python_s(con: tidewheel.Connection) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(con, "exectue")  # noqa: B009  a misspelt name is wanted
    assert str(caught.value) == "'Connection' object has no attribute 'exectue'"
    assert (caught.value.name, caught.value.obj) == ("exectue", con)  # for "Did you mean"


def test_an_enum_is_a_category(con: tidewheel.Connection) -> None:
    con.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
    con.execute("CREATE TABLE t (i INT, m mood)")
    con.execute("INSERT INTO t VALUES (1, 'happy'), (2, NULL), (3, 'sad')")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT m, count(*) AS n FROM t GROUP BY m")
    frame = con.execute("SELECT m, i, m FROM t ORDER BY i").df()
    assert list(frame.columns) == ["m", "i", "m_1"]
    for name in ("m", "m_1"):
        assert list(frame[name].cat.categories) == ["sad", "ok", "happy"]
        assert frame[name].cat.ordered
        assert [None if pd.isna(m) else m for m in frame[name]] == ["happy", None, "sad"]
    assert str(con.execute("FROM v").df()["m"].dtype) == "category"
    assert str(con.execute("FROM t WHERE i > 9").df()["m"].dtype) == "category"
    con.register("again", frame[["m", "i"]])
    assert con.execute("SELECT max(m) FROM again").fetchone() == ("happy",)


def test_how_many_rows_is_an_integer(con: tidewheel.Connection) -> None:
    cursor = con.execute("FROM range(3)")
    for wrong in ("x", 1.5):
        with pytest.raises(tidewheel.ProgrammingError, match="a number of rows is an int, not"):
            cursor.fetchmany(wrong)  # type: ignore[arg-type]
    assert cursor.fetchmany(2) == [(0,), (1,)]
