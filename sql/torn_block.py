"""A database file whose last checkpoint was cut off by a kill.

A checkpoint of DuckDB writes into its blocks of metadata in place, 256 KB at a time. It changes
only such of their 64 parts as the file's header does not refer to yet, so a write that a kill cut
off has done no harm but to the checksum of the block, for which the file is not opened again. The
remedy is to set it right: the header still tells of the checkpoint before, and the log of what came
after. What is wrong in another way must not pass for that, so a block is mended only if

* reading the metadata alone, without the log, stumbles over it, and over nothing but it;
* nobody has the file open, and the block's checksum is still the one that was told.
"""

from __future__ import annotations

import logging
import os
import re
import struct
import tempfile
from pathlib import Path

import duckdb

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_TORN = re.compile(
    r"Corrupt database file: computed checksum (\d+) does not match stored checksum (\d+) "
    r"in block at location (\d+)"
)
_CHECKSUM = struct.Struct("<Q")
_BEFORE_BLOCKS = 3 * 4096  # the headers
_log = logging.getLogger("tidewheel")


def is_torn(error: duckdb.Error) -> bool:
    """Does it tell of a block that is not what its checksum says?"""
    return _TORN.search(str(error)) is not None


def mended(path: str) -> bool:
    """Mend the block of metadata, if one is why `path` can't be opened. Else change nothing."""
    torn, _ = _metadata(path)
    if torn is None:
        return False
    computed, stored, place = map(int, torn.groups())
    if not _replaced(path, place, stored, computed):
        return False
    torn, places = _metadata(path)
    if torn is not None or place not in places:
        _replaced(path, place, computed, stored)
        return False
    _log.warning("%s: a checkpoint was cut off as it wrote the block at %s; mended", path, place)
    return True


def _metadata(path: str) -> tuple[re.Match[str] | None, list[int]]:
    """Over which block reading the metadata alone stumbles; if over none, where its blocks are."""
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "alone.db")  # no log stands beside it
        try:
            link.symlink_to(Path(path).resolve())
            with duckdb.connect(str(link), read_only=True) as connection:
                found = connection.execute(
                    "SELECT block_id * (SELECT any_value(block_size) FROM pragma_database_size()) "
                    "FROM pragma_metadata_info()"
                ).fetchall()
        except duckdb.Error as error:
            return _TORN.search(str(error)), []
        except OSError:  # no links here
            return None, []
    return None, [_BEFORE_BLOCKS + start for (start,) in found]


def _replaced(path: str, place: int, old: int, new: int) -> bool:
    """Replace the checksum of a block, if it is still `old` and nobody has the file open."""
    if fcntl is None:
        return False
    try:
        with open(path, "r+b", buffering=0) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as DuckDB locks it
            file.seek(place)
            if file.read(_CHECKSUM.size) != _CHECKSUM.pack(old):
                return False
            file.seek(place)
            file.write(_CHECKSUM.pack(new))
            os.fsync(file.fileno())
    except OSError:
        return False
    return True
