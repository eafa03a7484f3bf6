"""pandas, polars, Arrow, NumPy: the real packages, in and out."""

import collections
import datetime as dt
import decimal
import types
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidewheel
from tidewheel.sql import python_scan

ROWS = (
    "select range::integer a, 'x' || range b, date '2020-01-01' d, 1.5::decimal(5, 2) n "
    "from range(5)"
)


@pytest.fixture
def connection() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute(f"create table t as {ROWS}")
        yield opened


# -- out -------------------------------------------------------------------------------------------


def test_pandas_read_sql(connection: tidewheel.Connection) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas prefers SQLAlchemy
        frame = pd.read_sql("select * from t where a > ?", connection, params=[2])
        assert frame["a"].tolist() == [3, 4]
        frame = pd.read_sql("select a, d from t", connection, index_col="a", parse_dates=["d"])
        assert frame["d"].dtype.kind == "M"
        chunks = list(pd.read_sql("select * from t", connection, chunksize=2))
        assert [len(chunk) for chunk in chunks] == [2, 2, 1]


def test_polars_read_database(connection: tidewheel.Connection) -> None:
    frame = pl.read_database("select * from t", connection)
    assert frame.shape == (5, 4)
    assert frame.schema["n"] == pl.Decimal(5, 2)
    assert frame.schema["d"] == pl.Date
    parameters = {"parameters": {"least": 3}}
    query = "select a from t where a >= $least"
    assert pl.read_database(query, connection, execute_options=parameters).rows() == [(3,), (4,)]
    batches = pl.read_database("select a from t", connection, iter_batches=True, batch_size=2)
    assert [len(b) for b in batches] == [2, 2, 1]


def test_capsules_go_out(connection: tidewheel.Connection) -> None:
    query = "select a, b from t"
    assert pa.table(connection.execute(query)).num_rows == 5
    assert pa.RecordBatchReader.from_stream(connection.execute(query)).read_all().num_rows == 5
    assert pl.DataFrame(connection.execute(query)).shape == (5, 2)
    frame = pd.DataFrame.from_arrow(connection.execute(query))
    assert frame["b"].tolist() == ["x0", "x1", "x2", "x3", "x4"]
    with tidewheel.connect() as other:
        other.register("theirs", connection.execute(query))
        for _ in range(2):
            assert other.execute("select sum(a) from theirs").fetchone() == (10,)


def test_batches_are_not_copied(connection: tidewheel.Connection) -> None:
    """What Arrow holds as DuckDB made it is handed on: the same buffers."""
    cursor = connection.execute("select range as i, range::double as f from range(100000)")
    assert cursor._result is not None
    batch = cursor._result.next_batch()
    assert batch is not None
    cursor._result._held.appendleft(batch)
    first = cursor.to_arrow_reader().read_next_batch()
    for column, source in zip(first.columns, batch.columns, strict=True):
        assert column.buffers()[1].address == source.buffers()[1].address


def test_numpy(connection: tidewheel.Connection) -> None:
    found = connection.execute(
        "select a, nullif(a, 2) as holes, a * 1.5::double as f from t"
    ).fetchnumpy()
    assert found["a"].tolist() == [0, 1, 2, 3, 4]
    assert found["f"].dtype == np.float64
    assert found["holes"].mask.tolist() == [False, False, True, False, False]


# -- in --------------------------------------------------------------------------------------------

TABLE = pa.table({"a": [1, 2], "b": ["x", None]})


@pytest.mark.parametrize(
    "frame",
    [
        TABLE,
        TABLE.to_batches()[0],
        pl.DataFrame(TABLE),
        pl.DataFrame(TABLE).lazy(),
        TABLE.to_pandas(),
        pl.DataFrame(TABLE)["a"].to_frame().with_columns(b=pl.Series(["x", None])),
    ],
    ids=lambda f: f"{type(f).__module__.split('.')[0]}.{type(f).__name__}",
)
def test_frames_are_tables(connection: tidewheel.Connection, frame: object) -> None:
    connection.register("frame", frame)
    for _ in range(2):
        assert connection.execute("select a, b from frame order by a").fetchall() == [
            (1, "x"),
            (2, None),
        ]
    connection.execute("create table copied as from frame")
    assert connection.execute("insert into copied from frame").rowcount == 2
    recursive = (
        "with recursive r as (select 1 as n union select n + 1 from r join frame on a = n) "
        "select max(n) from r"
    )
    assert connection.execute(recursive).fetchone() == (3,)


def test_numpy_arrays_are_tables(connection: tidewheel.Connection) -> None:
    connection.register("columns", {"x": np.array([1, 2]), "y": np.array(["a", "b"])})
    assert connection.execute("from columns").fetchall() == [(1, "a"), (2, "b")]


def test_a_reader_streams_once(connection: tidewheel.Connection) -> None:
    batches = [pa.record_batch({"a": np.arange(i, i + 3)}) for i in range(0, 9, 3)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    connection.register("reader", reader)
    connection.execute("create table read as from reader")
    assert connection.execute("select count(*), sum(a) from read").fetchone() == (9, 36)
    with pytest.raises(tidewheel.Error, match="already been consumed"):
        connection.execute("from reader").fetchall()


def test_rows_survive_the_way_through_arrow(connection: tidewheel.Connection) -> None:
    values = [
        (1, 1.5, "é", dt.date(2020, 1, 1), decimal.Decimal("1.50"), [1, None], {"x": 1}),
        (None,) * 7,
    ]
    connection.execute(
        "create table rich(i bigint, f double, s varchar, d date, n decimal(5, 2), l integer[], "
        "o struct(x integer))"
    )
    connection.executemany("insert into rich values (?, ?, ?, ?, ?, ?, ?)", values)
    connection.register("back", connection.execute("from rich").to_arrow_table())
    assert connection.execute("from back").fetchall() == values
    assert connection.execute("from back except from rich").fetchall() == []


# -- Python variables as tables --------------------------------------------------------------------

at_module_level = pl.DataFrame({"x": [1, 2]})


@pytest.fixture
def scanning() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect(python_scan=True) as opened:
        yield opened


def test_variables_are_tables(scanning: tidewheel.Connection) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]})
    query = "select a from frame join at_module_level on a = x order by a"
    assert scanning.execute(query).fetchall() == [(1,), (2,)]
    frame = pd.DataFrame({"a": [2]})
    assert scanning.execute(query).fetchall() == [(2,)]
    assert scanning.cursor().execute('from "frame"').fetchall() == [(2,)]
    assert [c.fetchall() for c in scanning.script("from frame; select 1")] == [[(2,)], [(1,)]]
    scanning.execute("create table kept as from frame")
    scanning.executemany("insert into kept select a + ? from frame", [[1], [2]])
    assert scanning.execute("select sum(a) from kept").fetchone() == (2 + 3 + 4,)
    scanning.begin()
    assert scanning.execute("from frame").fetchall() == [(2,)]
    scanning.rollback()
    assert scanning.execute("from frame").fetchall() == [(2,)]
    del frame
    with pytest.raises(tidewheel.ProgrammingError, match="frame"):
        scanning.execute("from frame")


def test_a_frame_of_python_3_13_has_a_view_of_its_variables() -> None:
    class Locals(collections.UserDict[str, object]):
        def keys(self) -> list[str]:  # type: ignore[override]  # as the proxy there gives them
            return list(self.data)

    frame = pd.DataFrame({"a": [1]})
    fake = types.SimpleNamespace(f_globals={"other": 1}, f_locals=Locals(frame=frame, n=2))
    assert python_scan.found("select n, other from frame", fake) == {"frame": frame}  # type: ignore[arg-type]


def test_tables_go_before_variables(scanning: tidewheel.Connection) -> None:
    frame = pd.DataFrame({"a": [1]})
    scanning.execute("create table Frame as select 7 as a")
    assert scanning.execute("from frame").fetchall() == [(7,)]
    registered = frame
    scanning.register("registered", pd.DataFrame({"a": [9]}))
    assert scanning.execute("from registered").fetchall() == [(9,)]
    del registered


def test_variables_are_tables_only_on_demand(connection: tidewheel.Connection) -> None:
    frame = pd.DataFrame({"a": [1]})
    number = 7
    with pytest.raises(tidewheel.ProgrammingError, match="frame") as caught:
        connection.execute("from frame")
    cure = 'frame is a DataFrame of yours: con.register("frame", frame) or SET python_scan = on'
    assert caught.value.hint == cure
    with pytest.raises(tidewheel.ProgrammingError) as caught:
        connection.execute("create materialized view v as select * from at_module_level")
    assert "at_module_level is a DataFrame of yours" in (caught.value.hint or "")
    with pytest.raises(tidewheel.ProgrammingError) as caught:
        connection.execute("from number")
    assert "yours" not in (caught.value.hint or "")
    del number
    connection.execute("set python_scan = on")
    assert connection.execute("from frame").fetchall() == [(1,)]
    connection.execute("reset python_scan")
    with pytest.raises(tidewheel.ProgrammingError, match="frame"):
        connection.execute("from frame")
    with pytest.raises(tidewheel.ProgrammingError, match="contradicts"):
        tidewheel.connect(safe_mode=True, python_scan=True)
    del frame


def test_a_maintained_view_reads_no_variable(scanning: tidewheel.Connection) -> None:
    frame = pd.DataFrame({"a": [1]})
    with pytest.raises(tidewheel.NotSupportedError, match="only this connection has it"):
        scanning.execute("create materialized view v as select * from frame")
    assert scanning.execute("from frame").fetchall() == [(1,)]
    del frame


# -- notebooks -------------------------------------------------------------------------------------


def test_html(connection: tidewheel.Connection) -> None:
    cursor = connection.execute("select 1 as n, '<b>' as s, null as nothing")
    html = cursor._repr_html_()
    assert html is not None
    assert html.startswith("<table>")
    assert "&lt;b&gt;" in html
    assert "<i>NULL</i>" in html
    assert "<small>INTEGER</small>" in html
    assert "1 row<" in html
    assert cursor.fetchall() == [(1, "<b>", None)]
    long = connection.execute("select range, repeat('x', 9) from range(300000)")
    assert "(40 shown)" in (long._repr_html_() or "")
    assert connection.execute("select 1").fetchone() == (1,)
    assert [row[0] for row in long.fetchall()] == list(range(300_000))
    assert connection.execute("create table z(a int)")._repr_html_() is None


def test_html_of_a_subscription_does_not_wait(connection: tidewheel.Connection) -> None:
    connection.execute("create materialized view v as select count(*) as n from t")
    cursor = connection.execute("subscribe to v")
    assert "more rows follow" in (cursor._repr_html_() or "")
    assert cursor.fetchone()[2:] == (False, 5)  # type: ignore[index]
    cursor.close()


def test_ipython_shows_html(connection: tidewheel.Connection) -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(connection.execute("select 42 as answer"))
    assert "42" in data["text/html"]
