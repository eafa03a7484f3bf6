"""A forked child and the databases that its parent has open."""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import tidewheel

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_child(run: Callable[[], None]) -> int:
    """The exit status of a forked child that does `run` and ends as a program does."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def test_a_file_is_not_written_from_both(tmp_path: Path) -> None:
    path = str(tmp_path / "some.db")
    with tidewheel.connect(path) as con:
        con.execute("create table t(a integer)")
        con.execute("create materialized view v as select count(*) as n from t")
        for i in range(50):
            con.execute("insert into t values (?)", [i])  # (some rows may wait to be written)
        cursor = con.cursor()
        uses: list[Callable[[], object]] = [
            lambda: con.execute("insert into t values (99)"),
            lambda: cursor.execute("from t"),
            lambda: con.subscribe("v"),
            lambda: con.close(),
            lambda: tidewheel.connect(path),
            lambda: tidewheel.connect(path, read_only=True),
        ]

        def child() -> None:
            told = "open in the process that this one was forked from"
            for use in uses:
                with pytest.raises(tidewheel.OperationalError, match=told):
                    use()
            with tidewheel.connect() as own:
                assert own.execute("select 1").fetchall() == [(1,)]

        assert in_child(child) == 0
        con.execute("insert into t values (51)")
        assert con.execute("from v").fetchall() == [(51,)]

    def later() -> None:
        with tidewheel.connect(path) as own:
            own.execute("insert into t values (52)")

    assert in_child(later) == 0  # the parent has closed the file
    with tidewheel.connect(path) as con:
        assert con.execute("from v").fetchall() == [(52,)]


PROGRAM = """
import os, sys, tidewheel
con = tidewheel.connect(sys.argv[1])
con.execute("create table t(a integer); create materialized view v as select count(*) as n from t")
for i in range(100):
    con.execute("insert into t values (?)", [i])
if os.fork() == 0:
    try:
        con.close()
    finally:
        sys.exit()  # all objects of the parent are freed
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
con.execute("insert into t select range from range(100000)")
os._exit(0)  # without an end
"""


def test_a_child_that_ends_leaves_the_file_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "some.db")
    subprocess.run([sys.executable, "-c", PROGRAM, path], check=True, timeout=60)
    with tidewheel.connect(path) as con:
        assert con.execute("select count(*) from t").fetchall() == [(100_100,)]
        assert con.execute("from v").fetchall() == [(100_100,)]
        assert con.execute("verify view v").fetchall() == []


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("name", [":memory:", ":memory:shared"])
def test_a_child_ends_as_any_program_does(name: str, closes: bool, frozen: bool) -> None:
    """DuckDB's threads are not there: who ends its databases waits for them, or crashes."""
    program = f"""
import gc, os, sys, tidewheel
con = tidewheel.connect({name!r})
con.execute("create table t(a text)")
con.execute("create materialized view v as select upper(a) b, count(*) n from t group by b")
con.execute("insert into t values ('a'), ('b')")
con.execute("insert into t select 'x' || range from range(100)")
loop = "with recursive r(a) as (select 1 union all select a + 1 from r where a < 5) from r"
con.execute(loop).fetchall()
assert con.execute("select interval 1 month").fetchall()  # by a database that converts it
con.execute("set fusion = 'off'")
con.execute("select count(*) from t").fetchall()  # by one that has parse trees
if {frozen}:
    gc.freeze()
if os.fork() == 0:
    con.execute("insert into t values ('c')")
    assert con.execute("select count(*) from v").fetchall() == [(103,)]
    if {closes}:
        con.close()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
con.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_database_in_memory_is_the_childs_own() -> None:
    with tidewheel.connect() as con:
        con.execute("create table t as select range as a from range(10)")
        con.execute("create materialized view v as select sum(a)::int as s from t")

        def child() -> None:
            con.execute("insert into t values (5)")
            assert con.execute("from v").fetchall() == [(50,)]

        assert in_child(child) == 0
        assert con.execute("from v").fetchall() == [(45,)]


def test_a_file_that_is_attached(tmp_path: Path) -> None:
    path, main = str(tmp_path / "some.db"), str(tmp_path / "main.db")
    told = "open in the process that this one was forked from"
    tidewheel.connect(main).close()
    for name, read_only in ((":memory:", False), (":memory:shared", False), (main, True)):
        with tidewheel.connect(name, read_only=read_only) as con:
            con.execute(f"attach '{path}' as other (read_write)")
            con.execute("create or replace table other.t as select 1 as a")
            uses: list[Callable[[], object]] = [
                lambda con=con: con.execute("insert into other.t values (2)"),  # type: ignore[misc]
                lambda: tidewheel.connect(path),
            ]
            if name != ":memory:":
                uses.append(lambda n=name, r=read_only: tidewheel.connect(n, read_only=r))  # type: ignore[misc]

            def child(uses: list[Callable[[], object]] = uses) -> None:
                for use in uses:
                    with pytest.raises(tidewheel.OperationalError, match=told):
                        use()

            assert in_child(child) == 0
            con.execute("insert into other.t values (3)")
            con.execute("detach other")

            def later(con: tidewheel.Connection = con) -> None:
                assert con.execute("select 7").fetchall() == [(7,)]
                tidewheel.connect(path).close()

            assert in_child(later) == 0


def test_what_is_only_read(tmp_path: Path) -> None:
    path = str(tmp_path / "some.db")
    with tidewheel.connect(path) as con:
        con.execute("create table t as select 7 as a")
    with tidewheel.connect(path, read_only=True) as con:

        def child() -> None:
            assert con.execute("from t").fetchall() == [(7,)]

        assert in_child(child) == 0
