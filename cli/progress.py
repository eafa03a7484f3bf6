"""A progress bar on stderr for whatever takes more than half a second, if stderr is a terminal."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

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
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
            task = bar.add_task("", total=None)
            while not self._done.wait(_EVERY):
                fraction = self._connection.progress()
                if fraction is not None:
                    bar.update(task, total=1.0, completed=fraction)

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
