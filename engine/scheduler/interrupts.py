"""Ctrl-C while the main thread is inside a kernel.

Python runs signal handlers in the main thread, between two bytecodes: while that thread is inside
DuckDB, Ctrl-C does nothing (measured with DuckDB 2.0: the query runs to its end). But the
interpreter's C-level handler writes a byte to a "wakeup" descriptor at once. One thread waits
there and calls whoever is to be told; that one interrupts the kernel, and the main thread, back in
Python, raises KeyboardInterrupt as usual.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class InterruptWatch:
    """Listens for SIGINT while `start`ed; `start` and `stop` are counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._thread: threading.Thread | None = None
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._before = -1

    def start(self) -> None:
        """Start the thread, unless it runs already."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                reading, writing = self._sockets = socket.socketpair()
                writing.setblocking(False)
                self._thread = threading.Thread(
                    target=self._listen, args=(reading,), name="tidewheel-interrupts", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Give it up; the last one to do so ends the thread."""
        with self._lock:
            self._users -= 1
            if self._users or self._sockets is None or self._thread is None:
                return
            reading, writing = self._sockets
            thread, self._thread, self._sockets = self._thread, None, None
        writing.send(b"\0")
        thread.join()
        reading.close()
        writing.close()

    @contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Inside, SIGINT calls `callback` at once, from another thread.

        Does nothing unless in the main thread, started, and SIGINT has a Python handler.
        """
        sockets = self._sockets
        if (
            sockets is None
            or threading.current_thread() is not threading.main_thread()
            or not callable(signal.getsignal(signal.SIGINT))
        ):
            yield
            return
        self._callbacks.append(callback)
        before = signal.set_wakeup_fd(sockets[1].fileno(), warn_on_full_buffer=False)
        nested = before == sockets[1].fileno()
        if not nested:
            self._before = before  # an event loop's, which still gets its byte
        try:
            yield
        finally:
            self._callbacks.pop()
            if not nested:
                signal.set_wakeup_fd(before, warn_on_full_buffer=False)
                self._before = -1

    def _listen(self, reading: socket.socket) -> None:
        while (numbers := reading.recv(64)) and 0 not in numbers:
            if self._before != -1:
                os.write(self._before, numbers)
            if signal.SIGINT in numbers:
                for callback in self._callbacks[-1:]:
                    callback()


interrupt_watch = InterruptWatch()
