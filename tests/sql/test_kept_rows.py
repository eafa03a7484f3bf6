"""Rows of views that took long are there for who opens the file next, while they are right."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import tidewheel
from tidewheel.sql import keeping
from tidewheel.sql.view_reading import Reading

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")

VIEW = "CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS s FROM t GROUP BY k"
ROWS = "SELECT k, s FROM v ORDER BY k"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The views whose queries were run to be read; all rows are worth keeping."""
    found: list[str] = []
    run: Callable[..., object] = Reading._run

    def noted(self: Reading, view: object, naive: bool = False) -> object:
        found.append(view.key.rpartition(".")[2])  # type: ignore[attr-defined]
        return run(self, view, naive)

    monkeypatch.setattr(keeping, "LEAST", 0.0)
    monkeypatch.setattr(Reading, "_run", noted)
    return found


@pytest.fixture
def file(tmp_path: Path, runs: list[str]) -> Path:
    """A database with a view, whose rows are kept."""
    path = tmp_path / "kept.db"
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (k INTEGER, x INTEGER); INSERT INTO t VALUES (1, 2), (3, 4)")
        con.execute(VIEW)
        con.execute("INSERT INTO t VALUES (1, 5)")
    assert Path(f"{path}.tidewheel").exists()
    runs.clear()
    return path


def rows(file: Path, query: str = ROWS, *, read_only: bool = False) -> list[tuple[object, ...]]:
    with tidewheel.connect(file, read_only=read_only) as con:
        return con.execute(query).fetchall()


def test_rows_are_there_for_the_next_process(file: Path, runs: list[str]) -> None:
    for read_only in (False, True, False):
        assert rows(file, read_only=read_only) == [(1, 7), (3, 4)]
    assert runs == []


def test_a_view_goes_on_from_its_table(file: Path, runs: list[str]) -> None:
    with tidewheel.connect(file) as con:
        assert con.execute(ROWS).fetchall() == [(1, 7), (3, 4)]
        con.execute("INSERT INTO t VALUES (3, 1)")
        assert con.execute(ROWS).fetchall() == [(1, 7), (3, 5)]
        con.execute("BEGIN; DELETE FROM t")
        assert con.execute(ROWS).fetchall() == []
        con.execute("ROLLBACK")
    assert rows(file) == [(1, 7), (3, 5)]


@pytest.mark.parametrize(
    "script",
    [
        "INSERT INTO t VALUES (2, 3)",
        "BEGIN; UPDATE t SET x = 5; CREATE TABLE z AS FROM t; COMMIT",
        "BEGIN; DELETE FROM t; ROLLBACK",
        "CREATE TABLE z AS FROM t; CREATE INDEX i ON z (k); DROP TABLE z",
        "CREATE VIEW w AS FROM v; COMMENT ON TABLE t IS 'x'; ALTER TABLE t ADD COLUMN y INTEGER",
        "PREPARE q AS INSERT INTO t VALUES ($1, 9); EXECUTE q(5); CHECKPOINT; VACUUM",
        "CREATE SEQUENCE s; INSERT INTO t SELECT nextval('s'), 1",
        "ATTACH ':memory:' AS m; CREATE TABLE m.t AS SELECT 1 AS a; USE m; DELETE FROM t",
        "CREATE TEMP TABLE z AS FROM t; SET threads = 1",
    ],
)
def test_what_its_own_statements_write_is_known(script: str, file: Path, runs: list[str]) -> None:
    with tidewheel.connect(file) as con:
        con.execute(script)
        con.execute("USE kept")
        assert con.execute("FROM v").fetchall()
    runs.clear()
    with tidewheel.connect(file) as con:
        found = con.execute(ROWS).fetchall()
        assert runs == []
        wanted = "SELECT k, sum(x) AS s FROM t GROUP BY k ORDER BY k"
        assert found == con.execute(wanted).fetchall()


def test_what_another_program_wrote_counts(file: Path, runs: list[str]) -> None:
    with duckdb.connect(str(file)) as plain:
        plain.execute("UPDATE t SET x = x + 1 WHERE k = 3")
    assert rows(file) == [(1, 7), (3, 5)]
    assert runs == ["v"]
    assert rows(file) == [(1, 7), (3, 5)]
    assert runs == ["v"]


@pytest.mark.parametrize("module", ["duckdb", "tidewheel"])
def test_what_a_killed_process_wrote_counts(module: str, file: Path, runs: list[str]) -> None:
    code = (
        f"import os, {module} as m; con = m.connect({str(file)!r}); "
        "con.execute('INSERT INTO t VALUES (9, 9)'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert rows(file, read_only=False) == [(1, 7), (3, 4), (9, 9)]
    assert runs == ["v"]


def test_what_is_written_beside_us_is_not_kept(file: Path, runs: list[str]) -> None:
    """What DuckDB's own connections of the same process write no view sees; the next one does."""
    with tidewheel.connect(file) as con:
        con.execute("INSERT INTO t VALUES (5, 5)")
        con.execute(ROWS).fetchall()
        with duckdb.connect(str(file)) as plain:
            plain.execute("INSERT INTO t VALUES (9, 9)")
        con.execute("INSERT INTO t VALUES (5, 5)")
    assert not Path(f"{file}.tidewheel").exists()
    assert rows(file) == [(1, 7), (3, 4), (5, 10), (9, 9)]


def test_another_file_of_the_name(file: Path, runs: list[str], tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    shutil.copy2(file, other)
    for path, x in ((other, 10), (file, 20)):
        with duckdb.connect(str(path)) as plain:
            plain.execute(f"INSERT INTO t VALUES (3, {x})")
    assert rows(file) == [(1, 7), (3, 24)]
    shutil.copy2(other, file)
    assert rows(file) == [(1, 7), (3, 14)]


@pytest.mark.parametrize("left", [b"", b"twkept02", b"x" * 100, 40, -20])
def test_a_broken_file_is_none(left: bytes | int, file: Path, runs: list[str]) -> None:
    kept = Path(f"{file}.tidewheel")
    kept.write_bytes(left if isinstance(left, bytes) else kept.read_bytes()[:left])
    assert rows(file) == [(1, 7), (3, 4)]
    assert runs == ["v"]
    assert rows(file) == [(1, 7), (3, 4)]
    assert runs == ["v"]


@pytest.mark.parametrize("seed", range(4))
def test_changed_bytes_are_told(seed: int, file: Path, runs: list[str]) -> None:
    kept, rng = Path(f"{file}.tidewheel"), random.Random(seed)
    whole = kept.read_bytes()
    with tidewheel.connect(file, read_only=True) as con:
        wanted = con.execute(ROWS).fetchall()
    for _ in range(15):
        garbled = bytearray(whole)
        garbled[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        kept.write_bytes(garbled)
        assert rows(file, read_only=True) == wanted
    assert runs


def test_where_nothing_can_be_written(file: Path, runs: list[str]) -> None:
    kept = Path(f"{file}.tidewheel")
    kept.unlink()
    kept.mkdir()  # (root may write anywhere)
    assert rows(file) == rows(file) == [(1, 7), (3, 4)]
    assert sorted(p.name for p in file.parent.iterdir()) == [file.name, kept.name]


def test_a_view_that_is_dropped_or_altered_has_others(file: Path, runs: list[str]) -> None:
    with tidewheel.connect(file) as con:
        con.execute(f"DROP MATERIALIZED VIEW v; {VIEW.replace('sum(x)', 'max(x)')}")
    assert rows(file) == [(1, 5), (3, 4)]
    with tidewheel.connect(file) as con:
        con.execute("ALTER TABLE t ADD COLUMN y INTEGER DEFAULT 7")
        assert con.execute(ROWS).fetchall() == [(1, 5), (3, 4)]
    assert rows(file) == [(1, 5), (3, 4)]
    with tidewheel.connect(file) as con:
        con.execute("DROP MATERIALIZED VIEW v")
    assert not Path(f"{file}.tidewheel").exists()


def test_what_depends_on_more_than_the_file_is_not_kept(
    tmp_path: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, lake = tmp_path / "rows.csv", tmp_path / "lake.db"
    table.write_text("a\n1\n")
    duckdb.connect(str(lake)).execute("CREATE TABLE l AS SELECT 1 AS a").close()
    path = tmp_path / "open.db"

    def start() -> tidewheel.Connection:
        con = tidewheel.connect(path)
        con.execute(f"ATTACH '{lake}' AS lake")
        return con

    with start() as con:
        con.execute(f"CREATE VIEW plain AS FROM '{table}'")
        con.execute(f"CREATE MACRO m() AS TABLE FROM read_csv('{table}')")
        for name, source in [
            ("c", f"'{table}'"), ("d", f"read_csv('{table}')"), ("e", "plain"), ("f", "m()"),
            ("g", "lake.l"), ("h", "(SELECT s AS a FROM d)"), ("i", "(SELECT 1 AS a)"),
        ]:  # fmt: skip
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT sum(a) AS s FROM {source}")
    runs.clear()
    assert rows(path, "FROM i") == [(1,)]
    assert runs == []
    table.write_text("a\n5\n")
    duckdb.connect(str(lake)).execute("UPDATE l SET a = 5").close()
    with start() as con:
        for name in "cdefghi":
            wanted = 1 if name == "i" else 5
            assert con.execute(f"FROM {name}").fetchall() == [(wanted,)], name


def test_a_plain_view_that_comes_to_read_a_file(tmp_path: Path, runs: list[str]) -> None:
    table, path = tmp_path / "rows.csv", tmp_path / "open.db"
    table.write_text("a\n1\n")
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a; CREATE VIEW plain AS FROM t")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM plain")
        con.execute(f"CREATE OR REPLACE VIEW plain AS FROM '{table}'")
        assert con.execute("FROM v").fetchall() == [(1,)]
    table.write_text("a\n5\n")
    assert rows(path, "FROM v") == [(5,)]


def test_an_exit_without_close(file: Path, runs: list[str]) -> None:
    code = (
        "import tidewheel; from tidewheel.sql import keeping; keeping.LEAST = 0; "
        f"con = tidewheel.connect({str(file)!r}); con.execute('INSERT INTO t VALUES (9, 9)'); "
        "con.execute('FROM v').fetchall()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert rows(file) == [(1, 7), (3, 4), (9, 9)]
    assert runs == []


def test_what_is_kept_needs_no_parser(file: Path) -> None:
    code = (
        f"import sys, tidewheel; con = tidewheel.connect({str(file)!r}); "
        "assert con.execute('FROM v').fetchall(); con.close(); assert 'sqlglot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_open_transaction_is_rolled_back(file: Path, runs: list[str]) -> None:
    with tidewheel.connect(file) as con:
        con.execute("BEGIN; INSERT INTO t VALUES (9, 9)")
        assert con.execute(ROWS).fetchall() == [(1, 7), (3, 4), (9, 9)]
        con.close()
    assert rows(file) == [(1, 7), (3, 4)]


@pytest.mark.parametrize("seed", range(6))
def test_random_ends(seed: int, tmp_path: Path, runs: list[str]) -> None:
    """Files that are opened, changed, closed, forgotten or killed by several programs."""
    rng = random.Random(seed)
    path = tmp_path / "r.db"
    views = {
        "a": "SELECT k, sum(x) AS s FROM t GROUP BY k",
        "b": "SELECT k, s FROM a WHERE s > 10",
        "c": "SELECT t.k, u.x FROM t LEFT JOIN u ON t.k = u.k AND t.x > 3",
        "d": "WITH RECURSIVE r AS (SELECT k, x FROM u UNION SELECT r.k, t.x FROM r JOIN t "
        "ON t.k = r.x) FROM r",
        "e": "SELECT list(x ORDER BY x) AS l, max(k) AS m FROM t",
    }
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (k INTEGER, x INTEGER); CREATE TABLE u (k INTEGER, x INTEGER)")
        for name, query in views.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    def statement() -> str:
        table, k, x = rng.choice("tu"), rng.randrange(5), rng.randrange(9)
        return rng.choice(
            [
                f"INSERT INTO {table} VALUES ({k}, {x})",
                f"UPDATE {table} SET x = {x} WHERE k = {k}",
                f"DELETE FROM {table} WHERE x = {x}",
            ]
        )

    for _ in range(25):
        how = rng.choice(["read", "read", "write", "both", "plain", "killed", "read only"])
        some = [statement() for _ in range(rng.choice([1, 2]))]
        if how == "plain":
            with duckdb.connect(str(path)) as plain:
                for one in some:
                    plain.execute(one)
        elif how == "killed":
            checkpoint = rng.choice(["", "con.execute('CHECKPOINT'); "])
            code = (
                f"import os, duckdb; con = duckdb.connect({str(path)!r}); "
                f"con.execute({'; '.join(some)!r}); {checkpoint}os._exit(0)"
            )
            subprocess.run([sys.executable, "-c", code], check=True)
        else:
            # (a log that a killed process left is none that a read-only one can write back)
            only = how == "read only" and not Path(f"{path}.wal").exists()
            with tidewheel.connect(path, read_only=only) as con:
                if how == "both":
                    con.execute(some.pop())
                for name in rng.sample(list(views), rng.randrange(1, 6)) if how != "write" else ():
                    query = views[name].replace("FROM a ", f"FROM ({views['a']}) ")
                    wanted = con.execute(f"FROM ({query}) ORDER BY ALL").fetchall()
                    assert con.execute(f"FROM {name} ORDER BY ALL").fetchall() == wanted
                if how in ("write", "both"):
                    for one in some:
                        con.execute(one)


def test_views_of_a_file_that_was_cut_off_are_there_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "cut.db"
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER)")
        con.execute("INSERT INTO t SELECT i, i % 3, i FROM range(100) r(i)")
        con.execute(VIEW)
    whole = path.read_bytes()
    wanted, told = rows(path), []
    for cut in range(len(whole) - 4096, 3 * 4096, -131072):  # it may open, and tell of no views
        path.write_bytes(whole[:cut])
        try:
            tidewheel.connect(path).close()
        except tidewheel.OperationalError as error:
            told.append(error)  # whoever keeps it does not keep the file
        path.write_bytes(whole)
        assert rows(path) == wanted
    assert told
