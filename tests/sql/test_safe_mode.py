"""Safe mode: attacks that must fail, and everything else that must still work."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tidewheel

SECRET = "the-secret-text"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("outside")
    (tmp_path / "secret.txt").write_text(f"{SECRET}\n{SECRET}\n")
    with tidewheel.connect() as connection:
        connection.execute(f"copy (select '{SECRET}' s) to '{tmp_path}/secret.parquet'")
        connection.execute(f"copy (select '{SECRET}' s) to '{tmp_path}/secret.json'")
    with tidewheel.connect(tmp_path / "other.db") as connection:
        connection.execute(f"create table secret as select '{SECRET}' s")
    return tmp_path


@pytest.fixture(scope="module")
def besieged() -> Iterator[tidewheel.Connection]:
    """One connection that takes all attacks."""
    with tidewheel.connect(safe_mode=True) as connection:
        connection.execute("create table t(a int); insert into t values (1)")
        yield connection


@pytest.fixture
def safe() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect(safe_mode=True) as connection:
        connection.execute("create table t(a int); insert into t values (1)")
        yield connection


READS = """
from read_csv('{f}/secret.txt', header = false)
from read_csv_auto('{f}/secret.txt')
from read_text('{f}/secret.txt')
from read_text(['{f}/secret.txt'])
from read_blob('{f}/*.txt')
from read_json('{f}/secret.json')
from read_json_auto('{f}/secret.json')
from read_json_objects('{f}/secret.json')
from read_ndjson('{f}/secret.json')
from read_parquet('{f}/secret.parquet')
from parquet_scan('{f}/secret.parquet')
from parquet_metadata('{f}/secret.parquet')
from parquet_schema('{f}/secret.parquet')
from parquet_file_metadata('{f}/secret.parquet')
from parquet_kv_metadata('{f}/secret.parquet')
from sniff_csv('{f}/secret.txt')
from glob('{f}/*')
from '{f}/secret.parquet'
from "{f}/secret.parquet"
from '{f}/secret.txt'
from '{f}/secret.json'
from query('from read_text(''{f}/secret.txt'')')
from query_table('{f}/secret.parquet')
from query_table(['{f}/secret.parquet'])
select * from t where a in (select length(content) from read_text('{f}/secret.txt'))
select (select content from read_text('{f}/secret.txt'))
with x as materialized (from read_text('{f}/secret.txt')) from x
with recursive r as (select 1 n union all select n + length(content) from r, read_text('{f}/secret.txt') where n < 3) from r
create table s as from read_text('{f}/secret.txt')
create view s as from read_text('{f}/secret.txt')
create materialized view s as select * from read_text('{f}/secret.txt')
create macro s() as table from read_text('{f}/secret.txt')
insert into t select length(content) from read_text('{f}/secret.txt')
update t set a = (select length(content) from read_text('{f}/secret.txt'))
delete from t where a < (select length(content) from read_text('{f}/secret.txt'))
merge into t using (select 2 as a from read_text('{f}/secret.txt')) s on t.a = s.a when not matched then insert
prepare p as from read_text('{f}/secret.txt')
explain analyze from read_text('{f}/secret.txt')
summarize from read_text('{f}/secret.txt')
describe from read_text('{f}/secret.txt')
call read_text('{f}/secret.txt')
pivot read_text('{f}/secret.txt') on size
from (values (1)) v, lateral read_text('{f}/secret.txt')
copy t from '{f}/secret.txt'
COPY t FROM '{f}/secret.txt' (auto_detect true)
attach '{f}/other.db' as o
attach '{f}/other.db' as o (read_only); from o.secret
attach 'https://example.com/x.db'
import database '{f}'
select getenv('HOME')
from 'https://example.com/x.parquet'
from read_csv('https://example.com/x.csv')
from read_parquet('s3://bucket/x.parquet')
pragma import_database('{f}')
from pandas_scan(1)
from arrow_scan(1, 1, 1)
from sqlite_scan('{f}/other.db', 'secret')
/* */ copy /* */ t from '{f}/secret.txt'
select 1; copy t from '{f}/secret.txt'
from json_execute_serialized_sql('{{"statements": []}}')
verify view v against spark
"""  # noqa: E501

WRITES = """
copy t to '{f}/out.csv'
copy (from t) to '{f}/out.parquet'
copy t to '/dev/stdout'
export database '{f}/out'
attach '{f}/out.db' as o
attach ':memory:' as o
create secret s (type s3)
create persistent secret s (type s3, key_id 'x', secret 'y')
create or replace secret s (type http)
drop secret s
install json
install 'https://example.com/x.duckdb_extension'
force install json from community
load json
load '{f}/evil.duckdb_extension'
update extensions
call enable_logging(storage = 'file', storage_config = {{'path': '{f}/out'}})
pragma enable_logging
pragma profiling_output = '{f}/out.json'
pragma enable_profiling
pragma export_database('{f}/out')
explain analyze copy t to '{f}/out.csv'
prepare p as copy t to '{f}/out.csv'
insert into __tidewheel.views values ('a', 'from read_text(''{f}/secret.txt'')', 1)
create schema "__tidewheel"
"""

SETTINGS = """
set enable_external_access = true
set global enable_external_access = true
set lock_configuration = false
reset lock_configuration
reset enable_external_access
set session enable_external_access = true
set allow_community_extensions = true
set allow_unsigned_extensions = true
set python_enable_replacements = true
set autoload_known_extensions = true
set allowed_directories = ['{f}']
set allowed_paths = ['{f}/secret.txt']
set home_directory = '{f}'
set temp_directory = '{f}/out'
set extension_directory = '{f}/out'
set secret_directory = '{f}/out'
set log_query_path = '{f}/out'
set file_search_path = '{f}'
set custom_profiling_settings = '{{}}'
set disabled_filesystems = ''
pragma enable_external_access = true
pragma lock_configuration = false
pragma threads = 4
set threads = 4
set fusion = off
set max_iterations = 10
set local fusion = off
reset fusion
set python_scan = on
set memory_limit = '100GB'
SET /* x */ lock_configuration TO false
begin; set lock_configuration = false
"""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def read_all(connection: tidewheel.Connection, sql: str) -> str:
    cursors = connection.script(sql)
    return repr([c.fetchall() for c in cursors if c.description is not None])


def attack(connection: tidewheel.Connection, sql: str) -> str:
    """Run what must not run; the message."""
    with pytest.raises(tidewheel.Error) as raised:
        read_all(connection, sql)
    if connection.in_transaction:
        connection.rollback()
    assert SECRET not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("sql", lines(READS) + lines(WRITES))
def test_nothing_outside_is_reached(besieged: tidewheel.Connection, folder: Path, sql: str) -> None:
    before = sorted(folder.iterdir())
    attack(besieged, sql.format(f=folder))
    assert sorted(folder.iterdir()) == before
    assert besieged.execute("from t").fetchall() == [(1,)]
    databases = "select count(*) from duckdb_databases() where not internal"
    assert besieged.execute(databases).fetchall() == [(1,)]


@pytest.mark.parametrize("sql", lines(SETTINGS))
def test_nothing_can_be_turned_on(besieged: tidewheel.Connection, folder: Path, sql: str) -> None:
    safe = besieged
    names = "enable_external_access", "lock_configuration", "python_enable_replacements", "threads"
    query = "select " + ", ".join(f"current_setting('{n}')" for n in names) + ", 1"
    before = safe.execute(query).fetchall()
    assert "safe mode" in attack(safe, sql.format(f=folder))
    assert safe.execute(query).fetchall() == before
    attack(safe, f"from read_text('{folder}/secret.txt')")


def test_the_message_says_why(safe: tidewheel.Connection) -> None:
    message = attack(safe, "select 1; copy t to 'x.csv'")
    assert message.splitlines() == [
        "safe mode: COPY is not allowed, files are out of reach",
        "LINE 1: select 1; copy t to 'x.csv'",
        "                  ^^^^",
        "Hint: the database was opened with safe_mode=True (--safe)",
    ]
    assert attack(safe, "from read_text('/etc/hostname')").startswith("safe mode: Cannot access")


def test_python_variables_are_out_of_reach(safe: tidewheel.Connection) -> None:
    frame = pd.DataFrame({"a": [1]})
    assert "frame" in attack(safe, "from frame")
    with pytest.raises(tidewheel.ProgrammingError, match="contradicts"):
        tidewheel.connect(safe_mode=True, python_enable_replacements=True)
    del frame


def test_a_shadowed_function_reads_no_file_for_a_view(
    safe: tidewheel.Connection, folder: Path
) -> None:
    """A macro of a file function's name is harmless here; nowhere may the built-in one answer."""
    path = folder / "secret.txt"
    sql = (
        "create macro read_text(p) as table select 'harmless' as content; "
        f"create materialized view v as select a, content from t, read_text('{path}'); "
        "insert into t values (2); from v"
    )
    try:
        seen = read_all(safe, sql)
    except tidewheel.Error as error:
        seen = str(error)
    assert SECRET not in seen


def test_a_planted_view_is_not_run(folder: Path) -> None:
    """A file that someone else wrote: its stored view reads nothing either."""
    path = folder / "planted.db"
    with tidewheel.connect(path) as connection:
        connection.execute("create table t(a int)")
        connection.execute(
            "create materialized view v as select a, content from t, "
            f"read_text('{folder}/secret.txt')"
        )
        connection.execute("insert into t values (1)")
    # another process: this one remembers the rows that the view had
    command = [sys.executable, "-m", "tidewheel.cli", "run", str(path), "--safe", "-c", "from v"]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 1
    assert "safe mode" in outcome.stderr
    assert SECRET not in outcome.stdout + outcome.stderr


INSIDE = """
delete from "__TideWheel".views
create trigger x after insert on t for each row delete from __tidewheel.views
from query('delete from __tide' || 'wheel.views returning *')
from query('update __tide' || 'wheel.views set position = 7')
delete from query_table('__tide' || 'wheel.views')
insert into query_table('__tide' || 'wheel.views') values (1)
copy from database memory to memory
from json_execute_serialized_sql(json_serialize_sql('drop table __tide' || 'wheel.views'))
alter schema __tidewheel rename to x
drop schema main cascade
"""


@pytest.mark.parametrize("sql", lines(INSIDE))
def test_what_views_are_made_of_is_not_changed(safe: tidewheel.Connection, sql: str) -> None:
    safe.execute("create materialized view v as select sum(a)::int as s from t")
    kept = "from query_table('__tide' || 'wheel.views')"
    before = safe.execute(kept).fetchall()
    assert len(before) == 1
    attack(safe, sql)
    assert safe.execute(kept).fetchall() == before
    safe.execute("insert into t values (2)")
    assert safe.execute("from v").fetchall() == [(3,)]


def test_the_engine_works(safe: tidewheel.Connection) -> None:
    safe.execute("create table e(a int, b int); insert into e values (1, 2), (2, 3), (3, 4)")
    reach = (
        "with recursive r(a, b) as (select a, b from e union "
        "select r.a, e.b from r join e on e.a = r.b) select * from r"
    )
    assert len(safe.execute(reach).fetchall()) == 6
    mutual = (
        "with recursive x(n) as (select 1 union select n + 1 from y where n < 9), "
        "y(n) as (select 2 union select n + 1 from x where n < 9) select count(*) from x"
    )
    assert safe.execute(mutual).fetchall() == [(5,)]
    safe.execute(f"create materialized view v as {reach}")
    subscription = safe.subscribe("v")
    safe.execute("insert into e values (4, 5)")
    assert safe.execute("select count(*) from v").fetchall() == [(10,)]
    assert safe.execute("verify view v").fetchall() == []
    assert [len(subscription.read(5).delta) for _ in range(2)] == [6, 4]  # type: ignore[union-attr]
    safe.begin()
    safe.execute("delete from e where a = 2")
    assert safe.execute("select count(*) from v").fetchall() == [(4,)]
    safe.rollback()
    safe.executemany("insert into t values (?)", [[2], [3]])
    safe.register("given", pa.table({"a": [5]}))
    assert safe.execute("select sum(given.a) from given, t").fetchall() == [(15,)]
    assert safe.execute("show fusion").fetchall() == [("on",)]
    assert safe.execute("pragma table_info('t')").fetchall()[0][1] == "a"
    safe.execute("set variable x = 3")
    assert safe.execute("select getvariable('x')").fetchall() == [(3,)]
    assert safe.execute("select a from t order by hash(a) limit 1").df().shape == (1, 1)
    safe.enable_progress()


def test_settings_are_given_when_connecting() -> None:
    with tidewheel.connect(safe_mode=True, threads=1, fusion=False, max_iterations=5) as safe:
        assert safe.execute("show threads").fetchall() == [("1",)]
        assert safe.execute("select 1 + 1 from range(2)").fetchall() == [(2,), (2,)]
        endless = "with recursive r(n) as (select 1 union all select n + 1 from r) from r"
        with pytest.raises(tidewheel.OperationalError, match="max_iterations"):
            safe.execute(endless).fetchall()


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB would end the process."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for given in ({"safe_mode": True}, {"config": {"enable_external_access": "false"}}):
        with pytest.raises(tidewheel.OperationalError, match="working directory is gone"):
            tidewheel.connect(**given)  # type: ignore[arg-type]
    with tidewheel.connect() as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_connections_to_a_file_agree(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path, safe_mode=True) as one:
        with tidewheel.connect(path, safe_mode=True) as two:
            two.execute("create table t(a int)")
            two.enable_progress()
            attack(two, "set threads = 1")
        assert one.execute("from t").fetchall() == []
        with pytest.raises(tidewheel.OperationalError, match="safe_mode"):
            tidewheel.connect(path)
    with tidewheel.connect(path) as free:
        free.execute("set threads = 1")
        with pytest.raises(tidewheel.OperationalError, match="safe_mode"):
            tidewheel.connect(path, safe_mode=True)


def test_command_line(folder: Path) -> None:
    def run(*sql: str) -> Any:
        command = [sys.executable, "-m", "tidewheel.cli", "run", "--safe", "--format", "csv"]
        return subprocess.run([*command, "-c", *sql], capture_output=True, text=True, cwd=folder)

    fine = run("select 42 as a")
    assert (fine.returncode, fine.stdout.split()) == (0, ["a", "42"])
    refused = run("from 'secret.parquet'")
    assert refused.returncode == 1
    assert "safe mode" in refused.stderr
    assert SECRET not in refused.stdout + refused.stderr
