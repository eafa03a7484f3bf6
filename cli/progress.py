"""A progress line on stderr for whatever takes more than half a second, if it is a terminal."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from ..sql.activity import Progress
from ..sql.dbapi import Connection

_AFTER = 0.5
_EVERY = 0.1


class ProgressBar:
    """Shows the running statement's progress from a thread of its own while it is entered."""

    def __init__(self, connection: Connection, wanted: bool) -> None:
        self._connection = connection
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        if wanted:
            self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> ProgressBar:
        if self._thread is not None:
            self._thread.start()
        return self

    def _show(self) -> None:
        if self._done.wait(_AFTER):
            return
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        columns = (BarColumn(20), TextColumn("{task.description}"))
        with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bar:
            task = bar.add_task("", total=None)
            while not self._done.wait(_EVERY):
                now = self._connection.progress()
                if now is not None:
                    total = None if now.fraction is None or now.table else 1.0
                    bar.update(task, description=line(now), total=total, completed=now.fraction)

    def stop(self) -> None:
        """Take the bar away; safe to call again."""
        self._done.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def line(now: Progress) -> str:
    """What a statement is at, in a line: of a loop epoch, iteration and its delta; rows, time."""
    parts = []
    if now.table is not None:
        parts = [f"epoch {now.epoch}"]
        at = ".".join(map(str, now.counters))
        step = ", ".join([f"iteration {at}"] * bool(at) + [_rows(now.delta)] * bool(now.delta))
        parts.append(f"{now.table}: {step}" if step else now.table)
    elif now.fraction:
        parts.append(f"{now.fraction:.0%}")
    if now.rows:
        parts += [_rows(now.rows), f"{now.rows / max(now.seconds, 1e-3):,.0f} rows/s"]
    return " · ".join([*parts, f"{now.seconds:.1f} s"])


def _rows(count: int) -> str:
    return f"{count:,} row" + ("" if count == 1 else "s")
