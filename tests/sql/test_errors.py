"""Every mistake of a user is one error: class, place, hint; afterwards the next statement works."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidewheel

TABLES = """
create table customers (id integer primary key, name varchar not null, total decimal(5,2));
create schema archive;
create table archive.orders (id integer);
insert into customers values (1, 'Ann', 10);
"""


@pytest.fixture(params=["on", "off"], scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[tidewheel.Connection]:
    """A connection for all statements that fail: none of them may leave anything behind."""
    with tidewheel.connect(fusion=request.param) as opened:
        opened.execute(TABLES)
        yield opened


@pytest.fixture
def connection() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute(TABLES)
        yield opened


def fail(connection: tidewheel.Connection, sql: str, parameters: object = None) -> tidewheel.Error:
    with pytest.raises(tidewheel.Error) as caught:
        connection.execute(sql, parameters).fetchall()  # type: ignore[arg-type]
    assert connection.execute("select count(*) from customers").fetchall() == [(1,)]
    assert "Traceback" not in str(caught.value)
    return caught.value


def underlined(error: tidewheel.Error) -> str:
    """The text above the ^^^."""
    lines = str(error).split("\n")
    mark = next(i for i, line in enumerate(lines) if set(line.strip()) == {"^"})
    start = lines[mark].index("^")
    return lines[mark - 1][start : start + lines[mark].count("^")]


CASES = [
    # sql, class, (line, column), underlined, part of the message, part of the hint
    ("select zzz from customers", "ProgrammingError", (1, 8), "zzz", "not found", "nearest: "),
    (
        "SELECT 'a'::BLOB LIKE 'a%'",
        "ProgrammingError",
        (1, 18),
        "LIKE 'a%'",
        "operator ~~ cannot be applied to (BLOB, STRING_LITERAL)",
        "CAST(… AS VARCHAR)",
    ),
    ("selec 1", "ProgrammingError", (1, 1), "selec", "syntax error", "SELECT"),
    ("select *\nform customers", "ProgrammingError", (2, 1), "form", "syntax error", "FROM"),
    ("select 1;\nselect (1", "ProgrammingError", (2, 8), "(", "never closed", None),
    ("select 1)", "ProgrammingError", (1, 9), ")", "closes nothing", None),
    ("select 1,, 2", "ProgrammingError", (1, 10), ",", "syntax error", "comma"),
    ("select case when 1 = 1 then 2", "ProgrammingError", (1, 8), "case", "no END", None),
    ("select (case when 1 then 2)", "ProgrammingError", (1, 9), "case", "no END", None),
    ("select * from customers join", "ProgrammingError", (1, 25), "join", "syntax", "after join"),
    ("select", "ProgrammingError", None, None, "SELECT", None),
    ("update customers set nmae = 'x'", "ProgrammingError", (1, 22), "nmae", "nmae", None),
    (
        "select 1 from customers where name = Ann",
        "ProgrammingError",
        (1, 38),
        "Ann",
        "Ann",
        "'Ann'",
    ),
    ("show tables like 'c%'", "ProgrammingError", (1, 13), "like", "syntax", None),
    ("1 + 1", "ProgrammingError", (1, 1), "1", "syntax error", "begins with a verb"),
    ("select * from order", "ProgrammingError", (1, 15), "order", "syntax", '"order"'),
    ("select * from custmers", "ProgrammingError", (1, 15), "custmers", "exist", "customers"),
    ("select * from orders", "ProgrammingError", (1, 15), "orders", "exist", "archive.orders"),
    ("select 1;\n select nmae from customers", "ProgrammingError", (2, 9), "nmae", "nmae", "name"),
    ("select 'é', nmae from customers", "ProgrammingError", (1, 13), "nmae", "nmae", "name"),
    ("select c.id from customers", "ProgrammingError", (1, 8), None, '"c"', "customers"),
    ("select lenght(name) from customers", "ProgrammingError", (1, 8), None, "lenght", "length"),
    (
        "select id + name from customers",
        "ProgrammingError",
        (1, 11),
        "+",
        "INTEGER, VARCHAR",
        "cast",
    ),
    ("select upper(1, 2)", "ProgrammingError", (1, 8), None, "upper", "VARCHAR"),
    ("select * from 'nope.parquet'", "OperationalError", (1, 15), "'nope.parquet'", "nope", None),
    ("insert into customers (idd) values (1)", "ProgrammingError", (1, 24), "idd", "idd", "id"),
    ("insert into customers values (2)", "ProgrammingError", None, None, "3 columns", None),
    ("insert into customers values (1, 'x', 1)", "IntegrityError", None, None, "uplicate", None),
    ("insert into customers values (2, null, 1)", "IntegrityError", None, None, "NOT NULL", None),
    ("insert into customers values (2, 'x', 1e5)", "DataError", None, None, "DECIMAL(5,2)", None),
    ("select cast(name as integer) from customers", "DataError", None, None, "Ann", None),
    ("select 9223372036854775807 + id from customers", "DataError", None, None, "verflow", None),
    ("select id // (id - 1) from customers", "DataError", None, None, "zero", None),
    ("select date '2020-13-01'", "DataError", (1, 8), None, "2020-13-01", None),
    ("set fusion = maybe", "ProgrammingError", (1, 14), "maybe", "maybe", "on or off"),
    ("set max_iterations = -5", "ProgrammingError", (1, 22), "-", "-5", "at least 1"),
    ("create table customers (a int)", "ProgrammingError", None, None, "already exists", None),
    ("set thread = 1", "ProgrammingError", None, None, "thread", "threads"),
    (
        "with recursive t(a) as (select a + 1 from t) from t",
        "ProgrammingError",
        (1, 16),
        "t",
        "anchor",
        "UNION",
    ),
]


TAKEN_APART = {"select date '2020-13-01'": (1, 13)}
"""Places that are another one, of the same mistake, where the query is taken apart."""


@pytest.mark.parametrize(
    ("sql", "kind", "place", "marked", "message", "hint"), CASES, ids=[c[0] for c in CASES]
)
def test_mistakes(
    shared: tidewheel.Connection,
    sql: str,
    kind: str,
    place: tuple[int, int] | None,
    marked: str | None,
    message: str,
    hint: str | None,
) -> None:
    error = fail(shared, sql)
    assert type(error) is getattr(tidewheel, kind), error
    assert message in error.message
    if place is not None:
        if shared.execute("SHOW fusion").fetchall() == [("off",)]:
            place = TAKEN_APART.get(sql, place)
        assert (error.line, error.column) == place, str(error)
    if marked is not None:
        assert underlined(error) == marked
    if hint is not None:
        assert hint in (error.hint or ""), str(error)


def test_errors_form_the_tree_of_pep_249() -> None:
    assert issubclass(tidewheel.DatabaseError, tidewheel.Error)
    for name in ("DataError", "OperationalError", "IntegrityError", "InternalError"):
        assert issubclass(getattr(tidewheel, name), tidewheel.DatabaseError)
    for name in ("ProgrammingError", "NotSupportedError"):
        assert issubclass(getattr(tidewheel, name), tidewheel.DatabaseError)
    assert issubclass(tidewheel.InterfaceError, tidewheel.Error)
    assert not issubclass(tidewheel.InterfaceError, tidewheel.DatabaseError)


def test_file_that_is_no_parquet(connection: tidewheel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    path.write_text("a,b\n1,2\n")
    error = fail(connection, f"select * from '{path}'")
    assert type(error) is tidewheel.OperationalError
    assert str(path) in error.message
    assert "read_csv" in (error.hint or "")


def test_missing_file_names_the_one_that_is_there(
    connection: tidewheel.Connection, tmp_path: Path
) -> None:
    (tmp_path / "orders.parquet").write_bytes(b"")
    error = fail(connection, f"select * from '{tmp_path}/order.parquet'")
    assert error.hint == f"did you mean {tmp_path}/orders.parquet?"


@pytest.mark.parametrize(
    ("sql", "parameters", "column", "message"),
    [
        ("select ?, ?", [1], 11, "2 parameters, 1 given"),
        ("select ?", None, 8, "1 parameter, 0 given"),
        ("select 1", [1], None, "no parameters, 1 given"),
        ("select ?", {"a": 1}, 8, "positional"),
        ("select $one", {"ones": 1}, 8, "$one"),
        ("select $one", [1], 8, "$one"),
        ("select $one", {"one": 1, "second": 2}, None, "$second"),
        ("select ?", "a", None, "not str"),
        ("select ?", 5, None, "not int"),
    ],
)
def test_parameters_that_do_not_fit(
    shared: tidewheel.Connection,
    sql: str,
    parameters: object,
    column: int | None,
    message: str,
) -> None:
    error = fail(shared, sql, parameters)
    assert type(error) is tidewheel.ProgrammingError
    assert message in error.message
    assert error.column == column


def test_a_list_without_a_common_type_says_what_to_pass() -> None:
    with tidewheel.connect() as con, pytest.raises(tidewheel.ProgrammingError) as caught:
        con.execute("SELECT ?::JSON", [{"a": [1, {"b": 2}]}])
    assert "no common type: INTEGER, STRUCT(b INTEGER)" in caught.value.message
    assert caught.value.hint == "for JSON pass text: json.dumps(value)"


def test_place_is_found_with_parameters_and_in_a_transaction() -> None:
    with tidewheel.connect() as connection:
        connection.execute(TABLES)
        for begin in ("select 1", "begin"):
            connection.execute(begin)
            with pytest.raises(tidewheel.ProgrammingError) as caught:
                connection.execute("select ?,\n nmae from customers", [1])
            assert (caught.value.line, caught.value.column) == (2, 2)


def test_runaway_recursion_is_stopped(connection: tidewheel.Connection) -> None:
    connection.execute("set max_iterations = 100")
    error = fail(
        connection,
        "with recursive t(a) as (select 1 union all select a + 1 from t) select count(*) from t",
    )
    assert isinstance(error, tidewheel.OperationalError)
    assert "max_iterations" in str(error)


def test_error_in_a_stream_comes_with_its_place(connection: tidewheel.Connection) -> None:
    sql = (
        "select\n  cast(case when i = 2500000 then 'x' else '1' end as int) "
        "from range(3000000) t(i)"
    )
    connection.execute("set threads = 1")  # a second one may come to the bad row before the first
    cursor = connection.execute(sql)
    assert cursor.fetchone() == (1,)
    with pytest.raises(tidewheel.DataError) as caught:
        cursor.fetchall()
    assert caught.value.line == 2
    assert connection.execute("select 1").fetchall() == [(1,)]


def test_failed_statement_leaves_nothing_half_done(connection: tidewheel.Connection) -> None:
    connection.execute("create table n (a integer primary key)")
    with pytest.raises(tidewheel.IntegrityError):
        connection.execute("insert into n select range % 50 from range(100)")
    with pytest.raises(tidewheel.DataError):
        connection.execute("create table m as select cast(name as int) x from customers")
    with pytest.raises(tidewheel.ProgrammingError):
        connection.execute("from m")
    assert connection.execute("from n").fetchall() == []


def test_statements_before_the_failing_one_stay(connection: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.ProgrammingError) as caught:
        connection.execute(
            "create table n (a int);\ninsert into n values (1);\ninsert into m values (1)"
        )
    assert caught.value.line == 3
    assert connection.execute("from n").fetchall() == [(1,)]


def test_no_variable_of_python_becomes_a_table(shared: tidewheel.Connection) -> None:
    for name in ("self", "statement", "given", "connection", "sql", "params", "pa"):
        for sql in (f"select * from {name}", f"insert into customers select * from {name}"):
            error = fail(shared, sql)
            assert "Python" not in error.message, error


def test_long_lines_are_cut_around_the_place(shared: tidewheel.Connection) -> None:
    sql = "select " + ", ".join(f"id as c{i}" for i in range(80)) + ", nope from customers"
    error = fail(shared, sql)
    assert underlined(error) == "nope"
    assert max(len(line) for line in str(error).split("\n")[1:3]) < 130


@pytest.mark.parametrize("column", ["order", "show", "desc", "select", "end"])
def test_a_reserved_word_as_a_column_is_named(shared: tidewheel.Connection, column: str) -> None:
    """Whatever stands before it: ``int`` is no misspelt INTO."""
    with pytest.raises(tidewheel.ProgrammingError, match=f'at or near "{column}"') as caught:
        shared.execute(f"CREATE TABLE reserved (a int, {column} int, c date)")
    assert caught.value.hint == f'{column} is a keyword; as a name it is written "{column}"'


@pytest.mark.parametrize("column", ["comm", "jion", "t.colum"])
def test_a_column_before_the_place_is_no_misspelt_keyword(
    shared: tidewheel.Connection, column: str
) -> None:
    with pytest.raises(tidewheel.ProgrammingError, match='at or near "symmetric"') as caught:
        shared.execute(f"SELECT 1 FROM t WHERE {column} BETWEEN symmetric 6 AND 3")
    assert caught.value.hint is None


def test_a_file_that_another_process_has_open(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    program = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    command = [sys.executable, "-c", program, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(tidewheel.OperationalError, match="another process") as caught:
            tidewheel.connect(file)
        assert str(file) in caught.value.message
        assert str(other.pid) in caught.value.message
        assert "read_only=True" in (caught.value.hint or "")
        other.communicate(b"\n")
    with tidewheel.connect(file) as con:
        assert con.execute("SELECT 42").fetchall() == [(42,)]


@pytest.mark.parametrize("keyed", ["", "USING KEY (a)"])
def test_a_null_without_a_type_begins_a_recursion(keyed: str) -> None:
    step = f"WITH RECURSIVE r(a, b) {keyed} AS (SELECT 1, NULL UNION SELECT a, %s FROM r) FROM r"
    with tidewheel.connect() as con:
        for value, kind in (("a", "INTEGER"), ("'x'", "VARCHAR"), ("a::DECIMAL(5, 2)", "DEC")):
            with pytest.raises(tidewheel.DataError) as caught:
                con.execute(step % value)
            assert f"NULL::{kind}" in (caught.value.hint or ""), str(caught.value)


def test_a_bad_line_of_a_csv_file(tmp_path: Path) -> None:
    """File, line and cause come first, then what may be done; not a list of all options."""
    file = tmp_path / "bad.csv"
    file.write_text("a,b\n" + "1,2\n" * 30_000 + "x,5\n")
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT, b INT)")
        with pytest.raises(tidewheel.DataError) as caught:
            con.execute(f"COPY t FROM '{file}'")
    assert caught.value.message.startswith(f"{file}, line 30002: Error when converting column")
    assert (caught.value.hint or "").startswith("the line is: x,5\nCheck whether")
    assert "delimiter" not in str(caught.value)


def test_the_mark_stands_under_wide_characters() -> None:
    """A terminal shows them over two columns, and combining ones over none."""
    with tidewheel.connect() as con:
        for sql, lead, carets in (
            ("SELECT '日本', nope", 7 + 8, 4),
            ("SELECT 日本", 7, 4),
            ("SELECT 'größe', nope", 7 + 9, 4),
            ("SELECT 'e\u0301', nope", 7 + 5, 4),
        ):
            with pytest.raises(tidewheel.ProgrammingError) as caught:
                con.execute(sql)
            mark = str(caught.value).splitlines()[2]
            assert mark == " " * (len("LINE 1: ") + lead) + "^" * carets


def test_a_misspelt_setting_of_connect() -> None:
    for given, hint in (
        ({"threds": 2}, "did you mean threads?"),
        ({"fuson": "off"}, "did you mean fusion?"),
        ({"config": {"memory_limt": "1GB"}}, "did you mean memory_limit?"),
    ):
        with pytest.raises(tidewheel.ProgrammingError, match="there is no setting") as caught:
            tidewheel.connect(**given)  # type: ignore[arg-type]
        assert caught.value.hint == hint


def test_which_set_of_executemany_fails() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT, b INT)")
        for rows in ([(1, 2)] * 30 + [(1, "x")], [[1, 2], [3, "y"]]):
            with pytest.raises(tidewheel.DataError) as caught:
                con.executemany("INSERT INTO t VALUES (?, ?)", rows)
            assert f"it is set {len(rows)} of {len(rows)}" in (caught.value.hint or "")
        with pytest.raises(tidewheel.DataError) as caught:
            con.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x")])
        assert caught.value.hint is None
        assert con.execute("FROM t").fetchall() == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT {'a': 1, : 2}",
        "WITH RECURSIVE r (x) AS (SELECT 1 UNION SELECT {'a': x, : 1} FROM r) SELECT * FROM r",
    ],
)
@pytest.mark.parametrize("before", ["", "CREATE MATERIALIZED VIEW v AS "])
def test_a_text_over_which_sqlglot_fails_otherwise(query: str, before: str) -> None:
    """sqlglot's parser raises an AttributeError."""
    with tidewheel.connect() as con, pytest.raises(tidewheel.ProgrammingError, match="syntax"):
        con.execute(before + query)
