"""The disk is full (a limit of a file's size stands in for it): an error, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tidewheel

SCRIPT = """
import resource, sys
import pyarrow as pa
import tidewheel

path, how = sys.argv[1:]
con = tidewheel.connect(path, checkpoint_threshold="1MB")
con.execute("CREATE TABLE t (n INTEGER, s VARCHAR)")
con.execute("CREATE MATERIALIZED VIEW v AS SELECT n % 7 AS k, count(*) AS n FROM t GROUP BY k")
resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))
try:
    for epoch in range(1000):
        given = [(epoch * 1000 + i, f"{hash((epoch, i)):x}" * 3) for i in range(1000)]
        if how == "append":
            con.append("t", pa.table({"n": [n for n, _ in given], "s": [s for _, s in given]}))
        else:
            con.execute("INSERT INTO t SELECT unnest(?), unnest(?)", [*map(list, zip(*given))])
except tidewheel.OperationalError:
    print(epoch)
con.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limits")
@pytest.mark.parametrize("how", ["append", "insert"])
def test_a_full_disk(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.db"
    given = [sys.executable, "-c", SCRIPT, str(path), how]
    done = subprocess.run(given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    epochs = int(done.stdout)
    with tidewheel.connect(path) as con:
        (count,) = con.execute("SELECT count(*) FROM t").fetchall()[0]
        assert count in (epochs * 1000, epochs * 1000 + 1000)  # what failed may have come so far
        assert con.execute("SELECT sum(n) FROM v").fetchall() == [(count,)]
        con.execute("INSERT INTO t VALUES (-1, 'later')")
        assert con.execute("VERIFY VIEW v").fetchall() == []
