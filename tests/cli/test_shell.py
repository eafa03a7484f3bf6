"""The shell, driven through a pseudo-terminal and through a pipe."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest

from tidewheel.cli.shell import meant

COMMAND = [sys.executable, "-m", "tidewheel.cli"]
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t;"
TIMEOUT = 60

Spawn = Callable[..., "Terminal"]


class Terminal:
    """A shell at a terminal of 120 columns, and what stands on the screen."""

    def __init__(self, home: Path, *args: str) -> None:
        environment = {
            **os.environ,
            "HOME": str(home),
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        self.child: Any = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], "shell", *args],
            env=environment,
            dimensions=(200, 120),
            encoding="utf-8",
        )
        self._screen = pyte.Screen(120, 200)
        self._stream = pyte.Stream(self._screen)
        self.see("tidewheel>")

    def send(self, text: str) -> None:
        """Type keys; an Enter is a line feed."""
        self.child.send(text.replace("\n", "\r"))

    def type(self, text: str) -> None:
        """Type a line (or several) and Enter."""
        self.send(text + "\n")

    def see(self, *texts: str) -> str:
        """Wait until all `texts` stand on the screen; the screen."""
        end = time.monotonic() + TIMEOUT
        while True:
            screen = "\n".join(line.rstrip() for line in self._screen.display).rstrip()
            if all(text in screen for text in texts):
                return screen
            assert time.monotonic() < end, f"{texts} not seen on:\n{screen}"
            with contextlib.suppress(pexpect.TIMEOUT):
                self._stream.feed(self.child.read_nonblocking(10_000, timeout=0.2))

    def close(self) -> None:
        """End it, whatever it does."""
        self.child.close(force=True)


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    opened: list[Terminal] = []

    def start(*args: str) -> Terminal:
        opened.append(Terminal(tmp_path, *args))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def pipe(text: str, *args: object, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home)} if home else None
    return subprocess.run(
        [*COMMAND, *map(str, args)],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env=environment,
        check=False,
    )


def test_several_lines_and_mistakes(spawn: Spawn) -> None:
    shell = spawn()
    shell.type("select 6 * 7\nas answer\n;")
    shell.see(" 42 │", "1 row")
    shell.type("create table people(name text);")
    shell.type("select nmae from people;")
    shell.see('column "nmae" not found', "       ^^^^", "did you mean name?")
    shell.type(".tabels")
    shell.see("did you mean .tables?")
    shell.type(".tables")
    shell.see("people                         table")


def test_ctrl_c_keeps_the_shell_and_ctrl_d_leaves(spawn: Spawn) -> None:
    shell = spawn()
    shell.type("set max_iterations = 100000000;")
    shell.type(ENDLESS)
    shell.see("epoch 0")  # the progress line: it runs
    shell.child.sendintr()
    shell.see("Interrupted\ntidewheel>")
    shell.send("select 1 +")  # a line that is given up
    shell.see("select 1 +")
    shell.child.sendintr()
    shell.type("select 7 * 11;")
    shell.see(" 77 │", "1 row\ntidewheel>")  # a key that comes before the prompt is the terminal's
    shell.child.sendeof()
    shell.child.expect(pexpect.EOF, timeout=TIMEOUT)
    shell.child.wait()
    assert shell.child.exitstatus == 0


def test_words_of_other_shells(spawn: Spawn) -> None:
    shell = spawn()
    shell.type("help")
    shell.see(".watch [VIEW|off]")
    shell.type("CREATE TABLE exits (quit INT);")
    shell.type("\\d")
    shell.see("exits  ")
    shell.type("exit")
    shell.child.expect(pexpect.EOF, timeout=TIMEOUT)


def test_a_progress_line_tells_iteration_delta_and_rows(spawn: Spawn) -> None:
    shell = spawn("--no-init")
    shell.type(
        "SET max_iterations = 1000000000; WITH RECURSIVE up(n) AS (SELECT 0 UNION ALL "
        "SELECT n + 1 FROM up WHERE n < 100000000) SELECT max(n) FROM up;"
    )
    shown = shell.see("up: iteration", "rows/s")
    line = next(x for x in shown.splitlines() if "rows/s" in x)
    assert re.search(r"epoch 0 · up: iteration \d+, 1 row · [\d,]+ rows · [\d,]+ rows/s", line)
    shell.send("\x03")
    shell.see("Interrupted")
    shell.type("SELECT 40 + 2 AS answer;")
    assert "rows/s" not in shell.see("42")


def test_completion(spawn: Spawn) -> None:
    shell = spawn()
    shell.type("create table expenditure(amount_in_cents int);")
    shell.send("select amount_in\t")
    shell.see("select amount_in_cents")
    shell.send(" from expendi\t")
    shell.see("select amount_in_cents from expenditure")
    shell.type(";")
    shell.see("0 rows")


def test_watch_shows_changes(spawn: Spawn) -> None:
    shell = spawn()
    shell.type("create table t(a int); insert into t values (1), (2);")
    shell.type("create materialized view total as select sum(a) as s from t;")
    shell.type(".watch total")
    shell.see(" 3 │")
    shell.type("insert into t values (4);")
    shell.see("total - 3", "total + 7")
    shell.type("begin; insert into t values (9); rollback;")
    shell.type("insert into t values (1);")
    screen = shell.see("total - 7", "total + 8")
    assert "16" not in screen


def test_subscribe_would_never_end(tmp_path: Path) -> None:
    """It points to .watch; and a dot-command may end like a statement."""
    make = "create table t(a int); create materialized view v as from t;\n"
    done = pipe(f"{make}.mode csv;\nselect 1 as a;\nsubscribe to v;\n", home=tmp_path)
    assert done.stdout == "a\n1\n"
    assert "<stdin>:4:1: Error: SUBSCRIBE never ends" in done.stderr
    assert ".watch" in done.stderr


def test_a_pipe_is_run_to_its_first_error(tmp_path: Path) -> None:
    done = pipe("select 1 as a;\n.mode csv\nselect 2 as b;\n", home=tmp_path)
    assert done.returncode == 0
    assert done.stdout.endswith("b\n2\n")
    failed = pipe("select 1 as a;\n\nselect nope;\nselect 3 as c;\n", home=tmp_path)
    assert failed.returncode == 1
    assert "<stdin>:3:8: Error:" in failed.stderr
    assert "c" not in failed.stdout


def test_dump_import_and_read(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,word\n1,it's\n2,\n3,ü\n")
    made = tmp_path / "dump.sql"
    script = f"""
.import {tmp_path}/in.csv words
CREATE TABLE other (d DOUBLE, l INTEGER[], b BLOB, s STRUCT(x INTEGER, y VARCHAR));
INSERT INTO other VALUES (0.1, [1, NULL], '\\x00a'::BLOB, {{'x': 1, 'y': 'a''b'}}), (NULL, [], NULL, NULL);
CREATE VIEW plain AS SELECT id FROM words;
CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM words;
.output {made}
.dump
"""  # noqa: E501
    done = pipe(script, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    again = pipe(
        f".read {made}\n.mode csv\nFROM counted;\nFROM other;\nFROM words;\n.tables\n",
        tmp_path / "new.db",
        home=tmp_path,
    )
    assert (again.returncode, again.stderr) == (0, "")
    first = pipe(
        f"{script}\n.output\n.mode csv\nFROM counted;\nFROM other;\nFROM words;\n.tables\n",
        home=tmp_path,
    )
    assert again.stdout == first.stdout.replace("words has 3 rows\n", "")
    assert "counted                        maintained view" in again.stdout


def test_errors_of_commands_in_a_file_have_their_line(tmp_path: Path) -> None:
    inner = tmp_path / "inner.sql"
    inner.write_text("SELECT 1;\n\n.mode nonsense\n")
    for script, wanted in (
        ("\n.verify nothing\n", "<stdin>:2: Error: there is no maintained view nothing\n"),
        ("\n\n.read nothing.sql\n", "<stdin>:3: Error: nothing.sql: No such file"),
        (f".read {inner}\n", f"{inner}:3: Error: there is no mode nonsense"),
        (f".read {inner}\n", f"<stdin>:1: Error: {inner} was run to its first error"),
    ):
        done = pipe(script, home=tmp_path)
        assert done.returncode == 1
        assert wanted in done.stderr


def test_files_under_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a\n7\n")
    (tmp_path / "in.sql").write_text("FROM t;\n")
    script = (
        ".import ~/in.csv t\n.mode csv\n.once ~/once.csv\nFROM t;\n.save ~/saved.db\n"
        ".open ~/saved.db\n.output ~/read.csv\n.read ~/in.sql\n.graph ~/t.svg FROM t\n"
    )
    done = pipe(script, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "once.csv").read_text() == "a\n7\n"
    assert (tmp_path / "read.csv").read_text().startswith("a\n7\n")
    assert (tmp_path / "t.svg").exists()


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("\\d", ".tables"),
        ("\\d words;", ".schema words"),
        ("\\dt w%", ".tables w%"),
        ("\\i a.sql", ".read a.sql"),
        ("\\timing on", ".timer on"),
        ("\\x", ".mode line"),
        ("\\dt+", ".tables"),
        ("\\c other.db", ".open other.db"),
        ("\\l", "SHOW DATABASES;"),
        ("\\nonsense here", ".nonsense here"),
        ("EXIT;", ".exit"),
        ("SELECT '\\d';", "SELECT '\\d';"),
    ],
)
def test_what_other_shells_call_it(typed: str, command: str) -> None:
    assert meant(typed) == command


def test_pasted_lines_of_both_kinds(spawn: Spawn) -> None:
    shell = spawn()
    text = ".mode csv\nSELECT 6 * 7\n  AS n;\n.mode line\nSELECT 8 * 9 AS m;\n.mode table"
    shell.send(f"\x1b[200~{text}\x1b[201~\n")  # as a terminal marks what is pasted
    shell.see("\nn\n42\nm = 72\ntidewheel>")


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    found = pexpect.run(shlex.join([*COMMAND, "-c", "SELECT nope"]), encoding="utf-8")
    assert found.startswith("Error: ")


def test_a_command_of_psql_waits_for_no_semicolon(spawn: Spawn) -> None:
    shell = spawn()
    shell.type("\\nonsense")
    shell.see("there is no command .nonsense")


def test_options_of_the_shell_need_no_word_shell(tmp_path: Path) -> None:
    (tmp_path / ".tidewheelrc").write_text(".mode csv\n")
    found = pipe(".safe_mode\nSELECT 1 AS a;", "--no-init", "--safe", home=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "│" in found.stdout


def test_rc_file_and_once(tmp_path: Path, spawn: Spawn) -> None:
    (tmp_path / ".tidewheelrc").write_text(".maxrows 4\ncreate table from_rc(a int);\n")
    shell = spawn()
    shell.type(".tables")
    shell.see("from_rc                        table")
    shell.type("from range(100);")
    shell.see("100 rows (4 shown)")
    shell.type(f".once {tmp_path}/one.txt")
    shell.type("select 11 + 22 as n;")
    shell.type("select 12 + 33 as m;")
    assert "33 │" not in shell.see("45 │")
    assert "33 │" in (tmp_path / "one.txt").read_text()


def test_other_databases(tmp_path: Path) -> None:
    saved, opened = tmp_path / "saved.db", tmp_path / "opened.db"
    script = f"create table t as select 5 as a;\n.save {saved}\n.open {opened}\n.tables\n.open {saved}\n.mode csv\nfrom t;\n"  # noqa: E501
    done = pipe(script, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n5\n", "")


def test_safe_mode(tmp_path: Path) -> None:
    done = pipe("select 1;\nfrom read_text('/etc/passwd');\n", "shell", "--safe", home=tmp_path)
    assert done.returncode == 1
    assert "safe mode" in done.stderr
    for line in (".read x", ".open x.db", ".output x"):
        done = pipe(line + "\n", "shell", "--safe", home=tmp_path)
        assert done.returncode == 1
        assert "safe mode" in done.stderr
    assert not (tmp_path / "x").exists()


def test_verify_says_what_it_compared(tmp_path: Path) -> None:
    made = "CREATE TABLE t AS FROM range(3); CREATE MATERIALIZED VIEW v AS FROM t;"
    done = pipe(f"{made}\nVERIFY VIEW v;\n.verify v\n", home=tmp_path)
    said = "main.v is right: it has the 3 rows of its query\n"
    assert done.stdout == said * 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (".nothing", "there is no command .nothing"),
        (".mode tabel", "there is no mode tabel"),
        (".read", "usage: .read FILE"),
        (".read a b.sql", "usage: .read FILE; a name with spaces goes into quotes"),
        (".read /no/such", "No such file"),
        (".maxrows many", "usage: .maxrows N"),
        (".verify nothing", "nothing"),
        (".graph a.png select 1", "usage: .graph"),
        (".t on", "it could be .tables, .timer, .threads"),
    ],
)
def test_wrong_commands(line: str, message: str, tmp_path: Path) -> None:
    done = pipe(line + "\n", home=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_watched_view_that_is_dropped_is_told_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "shell"],
        input="create materialized view v as select 1 as x;\n.watch v\n"
        "drop materialized view v;\nselect 41 + 1 as n;\n.watch\n",
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0
    assert done.stderr.count("v is no longer watched: ") == 1
    assert " 42 │" in done.stdout
