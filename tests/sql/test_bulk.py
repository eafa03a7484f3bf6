"""executemany by one statement does what one statement for each set does."""

import datetime as dt
import decimal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.sql import bulk
from tidewheel.sql.statements import split


def is_bulk(sql: str, sets: list[Any]) -> bool:
    return bulk.insert(split(sql)[0], sets) is not None


@pytest.mark.parametrize(
    ("sql", "row", "wanted"),
    [
        ("insert into t values (?, ?)", (1, "a"), True),
        ("insert into main.t (b, a) values (?, ?);", ("a", 1), True),
        ("insert into t values ($a, $b)", {"a": 1, "b": "x"}, True),
        ("insert into t values ($a, $a)", {"a": 1}, True),
        ("INSERT INTO t VALUES\n (?, /* b */ ?) -- end", (None, None), True),
        ("insert into t values (?, 'x')", (1,), False),
        ("insert into t values (?, ? || 'x')", (1, "a"), False),
        ("insert into t values ($2, $1)", ("a", 1), False),
        ("insert into t values (?, ?), (?, ?)", (1, "a", 2, "b"), False),
        ("insert into t values (?, ?) returning a", (1, "a"), False),
        ("insert into t values (?, ?) on conflict do nothing", (1, "a"), False),
        ("insert or replace into t values (?, ?)", (1, "a"), False),
        ("insert into t select * from (values (?, ?))", (1, "a"), False),
        ("insert into t values (?, ?)", (1, {"a": 1}), False),
        ("insert into t values (?, ?)", (1,), False),
        ("update t set a = ?", (1,), False),
    ],
)
def test_what_is_taken(sql: str, row: Any, wanted: bool) -> None:
    assert is_bulk(sql, [row] * 10) is wanted
    assert not is_bulk(sql, [row])


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-5, 5),
    st.floats(allow_nan=False),
    st.text("aé'\0 1", max_size=3),
    st.binary(max_size=2),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.decimals(-99, 99, places=2),
    st.decimals(allow_nan=True, allow_infinity=False).filter(lambda d: abs(d.adjusted()) < 9),
)
TARGETS = [
    "integer",
    "varchar",
    "double",
    "hugeint",
    "decimal(9, 3)",
    "timestamp",
    "blob",
    "boolean",
]

COLUMNS_TARGET = st.sampled_from(TARGETS)
COLUMNS = st.one_of(
    *(st.lists(one, min_size=10, max_size=12) for one in (values, st.integers(0, 9)))
)


@settings(max_examples=8, deadline=None)
@given(COLUMNS_TARGET, COLUMNS, st.booleans())
def test_same_as_one_by_one(target: str, column: list[Any], one_type: bool) -> None:
    # DuckDB writes a parameter 0.55 as '.55', and 1.55 and 0.05 with the digit before the point;
    # in one column all of them have it
    assume(target != "varchar" or len({_bare(v) for v in column if v is not None}) < 2)
    compare(target, column, one_type)


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(COLUMNS_TARGET, COLUMNS, st.booleans())
def test_same_as_one_by_one_at_length(target: str, column: list[Any], one_type: bool) -> None:
    assume(target != "varchar" or len({_bare(v) for v in column if v is not None}) < 2)
    compare(target, column, one_type)


def compare(target: str, column: list[Any], one_type: bool) -> None:
    if one_type:
        kind = type(column[0])
        column = [v if type(v) is kind else None for v in column]
    outcomes: list[Any] = []
    for one_by_one in (False, True):
        with tidewheel.connect() as connection:
            connection.execute(f"create table t(a integer default 7, v {target})")
            connection.execute(
                "create materialized view n as select v, count(*) as n from t group by v"
            )
            try:
                if one_by_one:
                    connection.begin()
                    for value in column:
                        connection.execute("insert into t(v) values (?)", [value])
                    connection.commit()
                else:
                    done = connection.executemany(
                        "insert into t(v) values (?)", [[v] for v in column]
                    )
                    assert done.rowcount == len(column)
                outcome: Any = repr(connection.execute("from t").fetchall())
            except tidewheel.Error as error:
                connection.rollback()
                outcome = type(error).__name__, error.message
            verified = connection.execute("verify view n").fetchall()
            outcomes.append((outcome, verified))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1] == []


def _bare(value: Any) -> bool:
    """Is a number below 1 written without the 0?"""
    if not isinstance(value, decimal.Decimal):
        return False
    digits, exponent = value.as_tuple()[1:]
    return exponent == -len(digits)


@pytest.mark.parametrize("number", ["0.00", "0.05", "0.55", "1E-38", "0E-40", "5E+3", "12.5"])
def test_numbers_as_texts(number: str) -> None:
    compare("varchar", [decimal.Decimal(number), *[None] * 9], True)


@pytest.fixture
def connection() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute("create table t(a integer primary key, b varchar)")
        yield opened


def test_a_failure_names_its_row_and_takes_all_back(connection: tidewheel.Connection) -> None:
    rows: list[Any] = [(i, "x") for i in range(20)]
    with pytest.raises(tidewheel.IntegrityError, match='duplicate key "3"'):
        connection.executemany("insert into t values (?, ?)", [*rows, (3, "again")])
    with pytest.raises(tidewheel.DataError, match=r"[Cc]ould not convert"):
        connection.executemany(
            "insert into t(b, a) values (?, ?)", [("x", str(i)) for i in range(9)] + [("x", "y")]
        )
    assert connection.execute("select count(*) from t").fetchone() == (0,)
    assert not connection.in_transaction
    connection.begin()
    connection.executemany("insert into t values (?, ?)", rows)
    with pytest.raises(tidewheel.IntegrityError):
        connection.executemany("insert into t values (?, ?)", rows)
    connection.rollback()
    assert connection.executemany("insert into t values (?, ?)", rows).rowcount == 20
    assert connection.execute("from t limit 1").fetchall() == [(0, "x")]
    assert connection.execute(
        "select count(*) from duckdb_views() where view_name = '__tw_many'"
    ).fetchone() == (0,)


def test_subscribers_see_one_epoch(connection: tidewheel.Connection) -> None:
    connection.execute("create materialized view v as select count(*) as n from t")
    subscription = connection.subscribe("v")
    subscription.read()
    connection.executemany("insert into t values (?, ?)", ((i, None) for i in range(100)))
    update = subscription.read(5)
    assert update is not None
    assert sorted(row[1:] for row in update.rows()) == [(-1, 0), (1, 100)]


def test_money(connection: tidewheel.Connection) -> None:
    connection.execute("create table m(v decimal(10, 2), d date)")
    rows = [(decimal.Decimal(i).scaleb(-2), dt.date(2020, 1, 1 + i)) for i in range(10)]
    assert is_bulk("insert into m values (?, ?)", rows)
    connection.executemany("insert into m values (?, ?)", rows)
    assert connection.execute("from m").fetchall() == rows


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("begin", [False, True])
def test_rows_that_refer_to_one_another(begin: bool, view: bool) -> None:
    """DuckDB looks for the key among the rows of statements before."""
    rows = [(i, (i - 1) // 3 if i else None) for i in range(40)]
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE node (id INTEGER PRIMARY KEY, up INTEGER REFERENCES node(id))")
        con.execute('CREATE TABLE "Other" (node INTEGER REFERENCES node(id))')
        if view:
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT up, count(*) FROM node GROUP BY up")
        if begin:
            con.execute("BEGIN")
        assert con.executemany("INSERT INTO node VALUES (?, ?)", rows).rowcount == 40
        con.executemany('INSERT INTO "Other" VALUES (?)', [(i,) for i in range(40)])
        if begin:
            con.execute("COMMIT")
        assert con.execute("SELECT count(*), sum(up) FROM node").fetchall() == [
            (40, sum(up for _, up in rows if up is not None))
        ]
        with pytest.raises(tidewheel.IntegrityError, match="99"):
            con.executemany("INSERT INTO node VALUES (?, ?)", [(50 + i, 99) for i in range(9)])
