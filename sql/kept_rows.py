"""What maintained views read, and their rows, kept beside a database's file for who opens it next.

What took long to compute is written to `FILE.tidewheel` when a process closes its last connection
to the file. It holds as long as the file is what it was then: DuckDB's headers, which each
checkpoint changes, and no commit waits in the write-ahead log. Whoever wrote to the file meanwhile,
by whichever program, or was killed, has changed one of them; then the rows are computed. The
headers are read by the descriptor that DuckDB has: to close another one would end its lock.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import duckdb

from tidewheel.engine.arrow import pa

if TYPE_CHECKING:
    from tidewheel.planner.maintain import MaintainedView

_MAGIC: Final = b"twkept02"
"""The end of such a file, and the version of what is in it."""
_END: Final = struct.Struct("<QI8s")
"""Where the index begins, its checksum, and the mark."""
_HEADERS: Final = 3 * 4096
"""Bytes of DuckDB's headers: the main one, and two that checkpoints write in turns."""
_LOGS: Final = ".wal", ".wal.checkpoint", ".wal.recovery"
"""Where DuckDB writes what is not in the file yet, the second while a checkpoint runs."""
_ALIGNED: Final = 64


def mark(file: str) -> object:
    """What any commit to a file changes; quick, and for one process only."""
    return _stat(file), _stat(f"{file}.wal")


def fingerprint(file: str) -> list[Any] | None:
    """The state of a file that this process has open, the same for all processes.

    None where it can't be told: commits wait in the write-ahead log, or the system does not list
    descriptors in /proc.
    """
    if any((_stat(f"{file}{log}") or (0, 0))[1] for log in _LOGS):
        return None
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}") == file:
                    headers = os.pread(int(name), _HEADERS, 0)
                    return [hashlib.sha256(headers).hexdigest(), *(_stat(file) or ())]
    return None


def _stat(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@dataclass(frozen=True)
class Kept:
    """Of a view, what it reads; if it is worth it, its rows, and the seconds that these took."""

    view: MaintainedView
    rows: pa.Table | None = None
    seconds: float = 0.0


class _Checked(io.RawIOBase):
    """What is written to a file, and its checksum."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self.sum = out, 0

    def writable(self) -> bool:
        return True

    def write(self, given: Any) -> int:
        self.sum = zlib.crc32(given, self.sum)
        return self._out.write(given)


class KeptRows:
    """What is kept for one file. Hold its write lock, or have nobody else use it, to write."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.path = f"{file}.tidewheel"
        self.state: object = None
        """The database's state while what is kept holds."""
        self._found: Mapping[str, Mapping[str, Any]] = {}

    def open(self) -> None:
        """Look for what holds for the file as it is."""
        self._found = {}
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = self._index()
            now = fingerprint(self.file)
            if now is not None and found["file"] == now and found["by"] == _by():
                self._found = {
                    token: {"sql": "", "reads": [], **e} for token, e in found["views"].items()
                }

    def _index(self) -> dict[str, Any]:
        with open(self.path, "rb") as kept:
            kept.seek(-_END.size, os.SEEK_END)
            end = kept.tell()
            start, check, magic = _END.unpack(kept.read())
            if magic != _MAGIC:
                raise ValueError("another file, or one that was not written to its end")
            kept.seek(start)
            index = kept.read(end - start)
            if zlib.crc32(index) != check:
                raise ValueError("a disk, or somebody, has changed it")
            found: dict[str, Any] = json.loads(index)
            return found

    def reads(self, token: str, sql: str) -> frozenset[str] | None:
        """The keys of what a view reads, when the file is opened: to look takes a while."""
        entry = self._found.get(token)
        return frozenset(entry["reads"]) if entry is not None and entry["sql"] == sql else None

    def any(self, state: object) -> bool:
        """Is there something that holds in a state of the database?"""
        return bool(self._found) and state == self.state

    def holds(self, view: MaintainedView, state: object) -> bool:
        """Are there rows for a view, in a state of the database?"""
        entry = self._found.get(view.token, {})
        return "at" in entry and state == self.state and entry["sql"] == view.sql

    def rows(self, view: MaintainedView, state: object) -> Kept | None:
        """The rows of a view, if there are any; they stay in the file, mapped into memory."""
        if not self.holds(view, state):
            return None
        entry = self._found[view.token]
        try:
            whole = pa.memory_map(self.path).read_buffer()
            stream = whole.slice(entry["at"], entry["bytes"])
            if zlib.crc32(memoryview(stream)) != entry["check"]:
                raise pa.ArrowInvalid("a disk, or somebody, has changed it")
            return Kept(view, pa.ipc.open_stream(stream).read_all(), entry["seconds"])
        except (OSError, pa.ArrowException):
            self._found = {}
            return None

    def write(self, now: list[Any], some: Sequence[Kept]) -> None:
        """Write what holds for the file as it is `now`; in the end all of it, or nothing."""
        made = f"{self.path}.new"
        mode = os.stat(self.file).st_mode & 0o777
        views: dict[str, dict[str, Any]] = {}
        try:
            descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with open(descriptor, "wb") as out:
                for kept in some:
                    view = kept.view
                    entry: dict[str, Any] = {"sql": view.sql, "reads": sorted(view.reads)}
                    if kept.rows is not None:
                        out.write(bytes(-out.tell() % _ALIGNED))
                        at = out.tell()
                        checked = _Checked(out)
                        with pa.ipc.new_stream(checked, kept.rows.schema) as stream:
                            stream.write_table(kept.rows)
                        size = out.tell() - at
                        entry |= {"at": at, "bytes": size, "check": checked.sum}
                        entry["seconds"] = kept.seconds
                    views[view.token] = entry
                start = out.tell()
                index = json.dumps({"file": now, "by": _by(), "views": views}).encode()
                out.write(index + _END.pack(start, zlib.crc32(index), _MAGIC))
                out.flush()
                os.fsync(out.fileno())  # else a power cut may leave a file with holes
            os.replace(made, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(made)
            raise

    def forget(self) -> None:
        """Nothing is kept that holds: take the file away, and what a kill has left of another."""
        for path in (self.path, f"{self.path}.new"):
            with suppress(OSError):
                os.unlink(path)


def _by() -> list[str]:
    """Who computed the rows: another version may give others."""
    from tidewheel import __version__

    return [__version__, duckdb.__version__]
