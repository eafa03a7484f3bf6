"""A kill cuts off the write of a block of metadata; DuckDB alone does not open such a file."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import duckdb
import pytest

import tidewheel

BLOCK = 262144
PAGE = 4096
BEFORE = 3 * PAGE


def commit(con: tidewheel.Connection, n: int) -> None:
    con.execute(f"INSERT INTO t SELECT i, 'row ' || i FROM range({n * 100}, {n * 100 + 100}) r(i)")
    con.execute("CHECKPOINT")


def torn_file(folder: Path, seed: int) -> tuple[Path, int]:
    """A file as a kill leaves it in the middle of a checkpoint, and how many rows its table has.

    The block of metadata, which every checkpoint writes last, is new up to some page.
    """
    rng = random.Random(seed)
    path = folder / "a.db"
    count = rng.randrange(1, 12)
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (n INTEGER, s VARCHAR)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT n % 7 AS k, sum(n) FROM t GROUP BY 1")
        for n in range(count):
            commit(con, n)
    old = path.read_bytes()
    with duckdb.connect(str(path)) as plain:
        (block,) = plain.execute("SELECT block_id FROM pragma_metadata_info()").fetchall()
    with tidewheel.connect(path) as con:
        commit(con, count)
    new = path.read_bytes()
    at = BEFORE + block[0] * BLOCK
    last = max(i for i in range(BLOCK) if old[at + i] != new[at + i])
    cut = at + rng.randrange(1, last // PAGE + 1) * PAGE
    torn = folder / "torn.db"
    torn.write_bytes(old[:at] + new[at:cut] + old[cut:])
    return torn, count * 100


@pytest.mark.parametrize("seed", range(8))
def test_a_torn_block_of_metadata_is_mended(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    torn, count = torn_file(tmp_path, seed)
    with pytest.raises(duckdb.Error, match="Corrupt database file"):
        duckdb.connect(str(torn))
    with pytest.raises(tidewheel.OperationalError, match="open it once to write"):
        tidewheel.connect(torn, read_only=True)
    with caplog.at_level(logging.WARNING), tidewheel.connect(torn) as con:
        rows = con.execute("SELECT count(*), count(DISTINCT s) FROM t").fetchone()
        assert rows == (count, count)
        assert con.execute("VERIFY VIEW v").fetchall() == []
        con.execute("INSERT INTO t VALUES (-1, 'later')")
    assert "mended" in caplog.text
    with duckdb.connect(str(torn)) as plain:
        assert plain.execute("SELECT max(n), min(n) FROM t").fetchone() == (count - 1, -1)


def test_a_block_of_data_is_never_mended(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t AS SELECT i, hash(i) AS h FROM range(100000) r(i)")
    with duckdb.connect(str(path), read_only=True) as plain:
        metadata = {
            row[0]
            for row in plain.execute("SELECT block_id FROM pragma_metadata_info()").fetchall()
        }
    contents = bytearray(path.read_bytes())
    for block in range((len(contents) - BEFORE) // BLOCK):
        if block not in metadata:
            contents[BEFORE + block * BLOCK + 5000] ^= 1
    path.write_bytes(contents)
    with tidewheel.connect(path) as con, pytest.raises(tidewheel.Error, match="Corrupt"):
        con.execute("SELECT sum(h) FROM t").fetchall()
    assert path.read_bytes()[BEFORE:] == contents[BEFORE:]


def test_metadata_that_can_not_be_read_either_way_is_left_alone(tmp_path: Path) -> None:
    torn, _ = torn_file(tmp_path, 3)
    contents = bytearray(torn.read_bytes())
    for header in (PAGE, 2 * PAGE):  # both say that the metadata lies elsewhere
        contents[header + 16] ^= 1
        contents[header] ^= 1
    torn.write_bytes(contents)
    with pytest.raises(tidewheel.Error):
        tidewheel.connect(torn)
    assert torn.read_bytes() == bytes(contents)
