"""`tidewheel run`, as a process of its own and inside this one."""

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import tidewheel
from tidewheel.cli.main import cli

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    def invoke(*args: object, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, [str(a) for a in args], input=stdin)

    return invoke


def process(*args: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidewheel.cli", *map(str, args)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)


def test_table(run: Run) -> None:
    result = run("run", "-c", "select 1 as a, 'x' as b, null as c; select 1.50 as d")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "┌─────────┬─────────┬──────┐",
        "│    a    │    b    │  c   │",
        "│ integer │ varchar │ null │",
        "├─────────┼─────────┼──────┤",
        "│       1 │ x       │ NULL │",
        "└─────────┴─────────┴──────┘",
        "1 row",
        "┌──────────────┐",
        "│      d       │",
        "│ decimal(3,2) │",
        "├──────────────┤",
        "│         1.50 │",
        "└──────────────┘",
        "1 row",
    ]


def test_where_statements_come_from(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("﻿create table t(a int);\n-- comment\ninsert into t values (7);\nfrom t;\n")
    assert run("run", "-f", file, "--format", "csv").stdout_bytes == b"a\r\n7\r\n"
    assert run("run", "-", "--format", "jsonl", stdin="select 1 as b").stdout == '{"b": 1}\n'
    assert run("--format", "jsonl", stdin="select 2 as b").stdout == '{"b": 2}\n'
    assert run("-c", "select 3 as b", "--format", "jsonl").stdout == '{"b": 3}\n'
    database = tmp_path / "x.db"
    assert run("run", database, "-f", file).exit_code == 0
    assert run(database, "-c", "from t", "--format", "jsonl").stdout == '{"a": 7}\n'
    assert run("run", database, "--readonly", "-c", "drop table t").exit_code == 1


def test_errors_go_to_stderr_without_a_traceback(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("select 1;\nselect *\nfrm t")
    result = run("run", "-f", file)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f'{file}:3:1: Error: syntax error at or near "frm"',
        "LINE 3: frm t",
        "        ^^^",
        "Hint: did you mean FROM?",
    ]
    assert "1 row" in result.stdout
    outcome = process("-c", "select nope")
    assert outcome.returncode == 1
    assert outcome.stdout == ""
    assert "nope" in outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["run", "-c", "select 1", "-f", "x.sql"],
        ["run", "-c", "select 1", "--format", "xml"],
        ["run", "a.db", "b.db", "-c", "select 1"],
        ["rnu", "-c", "select 1"],
        ["run", "-c", "select ?, $a", "-p", "1", "-p", "a=2"],
    ],
)
def test_wrong_usage(run: Run, args: list[str], tmp_path: Path) -> None:
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        result = run(*args)
    finally:
        os.chdir(before)
    assert result.exit_code == 2
    assert "Error" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("args", [["-f", "/no/such/file.sql"], ["/no/such/x.db", "-c", "select 1"]])
def test_missing_files(run: Run, args: list[str]) -> None:
    result = run("run", *args)
    assert result.exit_code == 1
    assert "/no/such" in result.stderr


AWKWARD = """select 1 as a, 'a"b,c' || chr(10) || 'd' as "t,x", '' as e, null as n, ' s ' as s
    union all select 2, 'é', 'x', 'y', null"""


def test_csv_is_read_back(run: Run) -> None:
    text = run("run", "-c", AWKWARD, "--format", "csv").stdout_bytes.decode()
    assert text.count("\r\n") == 3
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows == [
        ["a", "t,x", "e", "n", "s"],
        ["1", 'a"b,c\nd', "", "", " s "],
        ["2", "é", "x", "y", ""],
    ]
    assert ',"",,' in text  # the empty string is not NULL


VALUES = """select '1000000000000000000000000000000'::hugeint as big, 1.10::decimal(9,2) as d,
    'nan'::double as nan, 'inf'::double as inf, 1e300::double as e, date '2020-01-31' as day,
    time '10:00:00' as t, timestamp '2020-01-31 10:00:00.5' as ts, true as o,
    timestamptz '2020-01-31 10:00:00+00' as tz, interval '1 day 90 minutes' as i, 'ab'::blob as b,
    uuid '00000000-0000-0000-0000-000000000001' as u, [1, null] as l, {'x': [true]} as s,
    map{1: 'nan'::float} as m, '{"k": 1.50}'::json as j, null as n, 2 as n,
    'a"b' || chr(10) || chr(1) || 'é' as txt"""


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json_is_strictly_valid(run: Run, form: str) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    result = run("run", "-c", f"set timezone = 'UTC'; {VALUES}", "--format", form)
    loaded = json.loads(result.stdout, parse_constant=refuse)
    row = loaded[0] if form == "json" else loaded
    assert row["big"] == 10**30
    assert (row["nan"], row["inf"], row["m"]) == (None, None, {"1": None})
    assert '"d": 1.10' in result.stdout
    assert '{"k": 1.50}' in result.stdout
    assert (row["day"], row["t"], row["ts"]) == (
        "2020-01-31",
        "10:00:00",
        "2020-01-31T10:00:00.500000",
    )
    assert row["tz"] == "2020-01-31T10:00:00+00:00"
    assert (row["i"], row["b"]) == ("P1DT1H30M0S", "YWI=")
    assert (row["l"], row["s"]) == ([1, None], {"x": [True]})
    assert row["txt"] == 'a"b\n\x01é'
    assert (row["n"], row["n_1"], row["o"]) == (None, 2, True)


def test_json_of_no_rows_is_an_empty_array(run: Run) -> None:
    assert json.loads(run("run", "-c", "select 1 where false", "--format", "json").stdout) == []
    assert run("run", "-c", "select 1 where false", "--format", "jsonl").stdout == ""


def test_formats_of_one_document_print_the_last_result(run: Run) -> None:
    sql = "select 1 as a; select 2 as b; create table t(a int)"
    assert json.loads(run("run", "-c", sql, "--format", "json").stdout) == [{"b": 2}]


def test_markdown(run: Run) -> None:
    result = run(
        "run", "-c", "select 1 as a, 'x|y' || chr(10) || '<b>' as b", "--format", "markdown"
    )
    assert result.stdout.splitlines() == [
        "| a | b |",
        "| ---: | --- |",
        "| 1 | x\\|y<br>&lt;b&gt; |",
    ]


def test_files(run: Run, tmp_path: Path) -> None:
    sql = "select range as a, range::varchar as b, sum(range) over () as s from range(1000)"
    assert run("run", "-c", sql, "-o", tmp_path / "x.parquet").exit_code == 0
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 1000
    assert run("run", "-c", sql, "-o", tmp_path / "x.arrow").exit_code == 0
    assert pa.ipc.open_file(tmp_path / "x.arrow").read_all().num_rows == 1000
    assert run("run", "-c", sql, "-o", tmp_path / "x.csv").exit_code == 0
    assert (tmp_path / "x.csv").read_bytes().count(b"\r\n") == 1001
    assert run("run", "-c", sql, "-o", tmp_path / "x.txt").stdout == ""
    assert "999" in (tmp_path / "x.txt").read_text()
    result = run("run", "-c", sql, "--format", "arrow")
    assert pa.ipc.open_stream(result.stdout_bytes).read_all().num_rows == 1000


def test_failed_run_leaves_no_file(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "old.csv"
    old.write_text("kept")
    assert run("run", "-c", "select 1 // 0", "-o", old).exit_code == 1
    late = "select cast(case when i = 900000 then 'x' else '1' end as int) from range(1000000) t(i)"
    assert run("run", "-c", late, "-o", old).exit_code == 1
    assert old.read_text() == "kept"
    assert [p.name for p in tmp_path.iterdir()] == ["old.csv"]
    assert run("run", "-c", "select 1", "-o", tmp_path / "no" / "x.csv").exit_code == 1


def test_an_ending_says_the_format_or_is_refused(run: Run, tmp_path: Path) -> None:
    result = run("run", "-c", "select 1", "-o", tmp_path / "out.xyz")
    assert result.exit_code == 2
    assert "no format is known for .xyz: give --format, or a name that ends in" in result.stderr
    for name, form in (("out.xyz", ["--format", "csv"]), ("out.TXT", []), ("out", [])):
        assert run("run", "-c", "select 1", "-o", tmp_path / name, *form).exit_code == 0
    assert (tmp_path / "out.TXT").read_text() == (tmp_path / "out").read_text()


def test_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "nothing" / "out.csv"
    result = run("-c", "SELECT 1", "--format", "csv", "-o", str(output))
    assert result.exit_code == 1
    assert result.stderr == f"Error: cannot write {output}: No such file or directory\n"


def test_a_device_stays_one_and_a_link_leads_to_its_file(run: Run, tmp_path: Path) -> None:
    """Neither is replaced by a file of that name; and a file keeps its permissions."""
    real, link, pipe = tmp_path / "real.csv", tmp_path / "link.csv", tmp_path / "pipe"
    real.touch(0o600)
    link.symlink_to(real)
    assert run("-c", "SELECT 1 AS a", "-o", link).exit_code == 0
    assert link.is_symlink()
    assert real.read_text() == "a\n1\n"
    assert real.stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    for form in ("csv", "parquet", "arrow"):
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
            assert run("-c", "SELECT 1 AS a", "-o", pipe, "--format", form).exit_code == 0
            assert reader.stdout is not None
            assert reader.stdout.read()
    assert pipe.is_fifo()
    result = run("-c", "SELECT 1", "-o", tmp_path)
    assert result.stderr == f"Error: cannot write {tmp_path}: Is a directory\n"


def test_duckdb_prints_no_bar_among_the_rows() -> None:
    """It takes a process that `python -m` started for one where somebody types."""
    query = "SELECT current_setting('enable_progress_bar_print')::INT AS bar"
    assert process("-c", query, "--format", "csv").stdout.split() == ["bar", "0"]
    assert process("shell", stdin=f".mode csv\n{query};").stdout.split() == ["bar", "0"]


def test_commands_of_the_shell_in_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n.tables\n")
    result = run("-f", str(tmp_path / "a.sql"))
    assert result.exit_code == 1
    assert "Hint: .tables is the shell's: .read runs files" in result.stderr


def test_parameters(run: Run) -> None:
    result = run(
        "run", "-c", "select $a + 1 as a, $d + 1 as d, $s as s", "--format", "jsonl",
        "-p", "a=41", "-p", "d=2026-01-31", "-p", "s='7'",
    )  # fmt: skip
    assert json.loads(result.stdout) == {"a": 42, "d": "2026-02-01", "s": "7"}
    result = run(
        "run", "-c", "select ? as a, ? as b", "--format", "jsonl", "-p", "x y", "-p", "null"
    )
    assert json.loads(result.stdout) == {"a": "x y", "b": None}
    result = run("run", "-c", "select $nmae", "-p", "name=1")
    assert result.exit_code == 1
    assert "$nmae" in result.stderr


def test_explain_runs_no_query(run: Run) -> None:
    result = run("run", "--explain", "-c", "create table t as select 1 a; select a // 0 from t")
    assert result.exit_code == 0
    assert "t" in result.stdout
    assert "explain_key" not in result.stdout


def test_timer_writes_to_stderr(run: Run) -> None:
    result = run("run", "--timer", "-c", "select 1; select 2", "--format", "csv")
    assert result.stderr.count("Time: ") == 2
    assert "Time" not in result.stdout


def test_many_rows_are_cut_in_the_middle(run: Run) -> None:
    lines = run("run", "-c", "from range(1000)", "--max-rows", "4").stdout.splitlines()
    assert [line.strip("│ ") for line in lines[4:9]] == ["0", "1", "·", "998", "999"]
    assert lines[-1] == "1,000 rows (4 shown)"
    assert run("run", "-c", "from range(100)", "--max-rows", 0).stdout.count("\n") == 106


def test_reader_that_goes_away_is_no_error() -> None:
    command = [
        sys.executable,
        "-m",
        "tidewheel.cli",
        "-c",
        "from range(1000000)",
        "--format",
        "csv",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"range\r\n"
        started.stdout.close()
        assert started.stderr is not None
        assert b"Traceback" not in started.stderr.read()


def test_ctrl_c_ends_the_process() -> None:
    command = [sys.executable, "-m", "tidewheel.cli", "-c", "select 'started'", "-c",
               "select sum(i % 7) from range(100000000000) t(i)"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        for line in started.stdout:
            if line.startswith(b"1 row"):
                break
        time.sleep(0.2)
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=30)
    assert started.returncode == 130
    assert err.decode().strip() == "Interrupted"


def test_on_a_terminal_the_table_fits_and_progress_is_shown() -> None:
    master, slave = pty.openpty()
    env = {**os.environ, "COLUMNS": "60", "TERM": "xterm"}
    wide = ", ".join(f"'{i} {'x' * 30}' as column_{i}" for i in range(12))
    sql = f"select sum(hash(i) % 7) from range(150000000) t(i); select {wide}"
    command = [sys.executable, "-m", "tidewheel.cli", "-c", sql]
    with subprocess.Popen(command, stdout=slave, stderr=slave, env=env) as started:
        os.close(slave)
        seen = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        assert started.wait() == 0
    os.close(master)
    text = seen.decode()
    assert "%" in text  # the bar
    last = [line.strip() for line in text.splitlines() if line.strip()][-8:]
    assert all(len(line) <= 60 for line in last), last
    assert "12 columns" in last[-1]


def test_version(run: Run) -> None:
    assert tidewheel.__version__ in run("--version").stdout
    assert "run" in run("--help").stdout


def test_a_plan_is_printed_as_lines(run: Run) -> None:
    done = run("run", "-c", "EXPLAIN (LOGICAL) SELECT i + 1 FROM range(3) r(i) WHERE i > 1")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Project")
    assert any(line.startswith("    Filter") for line in lines)


def test_a_missing_parameter_is_told_as_it_is_given_here(run: Run) -> None:
    for sql, hint in (
        ("SELECT $d", "--param d=VALUE"),
        ("SELECT ?", "--param VALUE"),
    ):
        found = run("run", "-c", sql)
        assert hint in found.stderr
    assert "--param e=VALUE" in run("run", "-c", "SELECT $d + $e", "-p", "d=1").stderr
