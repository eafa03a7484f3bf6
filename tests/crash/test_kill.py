"""kill -9 at random moments of a process that commits: nothing acknowledged is lost.

After every kill the file opens, the tables are those of a whole number of transactions, all that
were acknowledged among them, and every maintained view is there and right.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

import crash_writer as writer
import tidewheel

SCRIPT = Path(writer.__file__)


def killed(path: Path, rng: random.Random, early: bool) -> int:
    """Run the writer and kill it; the last number that it acknowledged, or -1.

    `early`: while it starts or opens the file; else some time after its first commit.
    """
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        if not early:
            child.stdout.readline()
        sleep(rng.uniform(0.0, 1.5) if early else rng.expovariate(4.0))
        if child.poll() is not None:
            assert child.stderr is not None
            pytest.fail(f"the writer ended by itself: {child.stderr.read().decode()}")
        os.kill(child.pid, signal.SIGKILL)
        told = child.stdout.read().split(b"\n")[:-1]
    return int(told[-1]) if told else -1


def check(path: Path, acknowledged: int) -> int:
    """The file after a kill; how many transactions it holds."""
    with tidewheel.connect(path) as con:
        tables = {row[0] for row in con.execute("SHOW TABLES").fetchall()}
        if "log" not in tables:
            assert acknowledged < 0
            assert not tables
            return 0
        log = [row[0] for row in con.execute("SELECT n FROM log ORDER BY n").fetchall()]
        assert log == list(range(1, len(log) + 1))
        assert acknowledged <= len(log) <= max(acknowledged, 0) + 1 or acknowledged < 0
        model = writer.Model(len(log))
        assert dict(con.execute("SELECT id, cents FROM account").fetchall()) == model.accounts
        edges = con.execute("SELECT a, b FROM edge").fetchall()
        assert sorted(edges) == sorted(model.edges)
        views = con.execute("SELECT view_name FROM tidewheel_views()").fetchall()
        assert {row[0] for row in views} == model.views
        for view in sorted(model.views):
            assert con.execute(f"VERIFY VIEW {view}").fetchall() == [], view
        # and it goes on
        con.execute("BEGIN; INSERT INTO account VALUES (-1, 50)")
        assert con.execute("SELECT n FROM money").fetchall() == [(11,)]
        con.execute("ROLLBACK")
        return len(log)


def kill_again_and_again(path: Path, seconds: float, rounds: int, seed: int) -> int:
    rng = random.Random(seed)
    until = monotonic() + seconds
    count = done = 0
    # On a busy machine it may be killed before its first transaction, several times.
    while (not count and done < 40) or (done < rounds and (done < 3 or monotonic() < until)):
        early = done % 4 == 2
        acknowledged = killed(path, rng, early)
        before, count = count, check(path, acknowledged)
        assert count >= before
        done += 1
    return count


def test_nothing_is_lost_by_a_kill(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    assert kill_again_and_again(tmp_path / "a.db", 10, 6, seed) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_lost_by_many_kills(tmp_path: Path, seed: int) -> None:
    assert kill_again_and_again(tmp_path / "a.db", 300, 60, seed) > 0
