"""Ctrl-C while DuckDB computes.

Python runs its SIGINT handler between bytecodes of the main thread, hence not before a long call
into DuckDB returns (measured: up to the query's whole length). The C-level wakeup descriptor of
`signal` is written at once, though: a thread waits on it and interrupts the statement.

KeyboardInterrupt itself comes at the statement's end: raised between any two bytecodes it would
leave a transaction open that nobody knows of, or a result that nobody reads. A second Ctrl-C, or a
statement that does not end within a second, has it come at once.
"""

from __future__ import annotations

import _thread
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any


class _Watcher:
    """The process's one thread that waits for signals while a statement runs."""

    def __init__(self) -> None:
        self._reading, self.writing = socket.socketpair()
        self.writing.setblocking(False)
        self.target: Callable[[], None] | None = None
        self.turn = 0
        """Grows with each change of the target."""
        self.fired = 0
        """Signals that ended a statement."""
        self.seen = 0
        """All signals."""
        self._thread = threading.Thread(target=self._wait, name="tidewheel-sigint", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the thread. Only in the main thread, which alone may take the descriptor away."""
        before = signal.set_wakeup_fd(-1)
        if before != self.writing.fileno():
            signal.set_wakeup_fd(before)
        self.writing.send(_END)
        self._thread.join()
        self._reading.close()
        self.writing.close()

    def _wait(self) -> None:
        # What is received stays there until it is dealt with: `settle` looks.
        while (received := self._reading.recv(64, socket.MSG_PEEK)) and _END not in received:
            turn = self.turn
            meant = self.target is not None and signal.SIGINT in received
            if meant:
                self.fired += 1
                self._tell()
            self.seen += 1
            self._reading.recv(len(received))
            if meant:
                self._insist(turn)

    def _tell(self) -> None:
        target = self.target  # here alone: a frame that waits would keep the connection alive
        if target is not None:
            with suppress(Exception):  # the connection may just have been closed
                target()

    def _insist(self, turn: int) -> None:
        """Tell it again while the main thread stays in one call.

        DuckDB forgets what it is told between the last bytecode before a call and the call's start.
        What does not end by that is Python's own, which KeyboardInterrupt ends.
        """
        before = None
        for turns in range(_TIMES):
            if select.select([self._reading], (), (), _PAUSE)[0] or self.turn != turn:
                return
            frame = sys._current_frames()[threading.main_thread().ident or 0]
            at = id(frame), frame.f_code, frame.f_lasti
            del frame
            if at == before:
                self._tell()
            before = at
            if turns >= _PATIENCE:
                _thread.interrupt_main()  # for the second time, so it is raised

    def settle(self, seen: int = -1) -> None:
        """Wait until the thread is done with a signal (`seen` before), or those that have come.

        A busy machine may let it wait, and then it would take the next statement for the one that
        was meant.
        """
        until = time.monotonic() + _GRACE
        while (self.seen == seen or select.select([self._reading], (), (), 0)[0]) and (
            time.monotonic() < until
        ):
            time.sleep(0.001)


_END = b"\0"
_GRACE = 0.2
"""Seconds that the thread is given to be told of a signal."""
_PAUSE = 0.1
"""Seconds in which a call that was told to end mostly does."""
_TIMES = 100
_PATIENCE = 10
"""So many pauses a statement is given to end by itself."""
_plain: Any = sys.modules.get("_signal", signal)
"""What `signal` is made on: without making enums of handlers, which takes fifty times as long."""
_handler = _plain.getsignal
_handle = _plain.signal
_watcher: _Watcher | None = None
_lock = threading.Lock()
_users = 0


def hold() -> None:
    """A connection was opened: the thread may be needed."""
    global _users
    with _lock:
        _users += 1


def release() -> None:
    """A connection was closed; the last one takes the thread with it, if closed in the main one."""
    global _users, _watcher
    with _lock:
        _users -= 1
        if _users or threading.current_thread() is not threading.main_thread():
            return
        if _watcher is not None and _watcher.target is None:
            _watcher.end()
            _watcher = None


class Deferred:
    """While it is entered Ctrl-C waits: KeyboardInterrupt comes at the end of the outermost one.

    Does nothing outside the main thread, or where the program has a SIGINT handler of its own.
    """

    _waiting = False
    """Has one come?"""
    _held = False
    """Does it wait even if it comes again?"""

    def __init__(self) -> None:
        self._outermost = False

    def __enter__(self) -> Deferred:
        if (
            threading.current_thread() is threading.main_thread()
            and _handler(signal.SIGINT) is signal.default_int_handler
        ):
            Deferred._waiting = False
            self._outermost = True
            _handle(signal.SIGINT, _defer)
        return self

    def __exit__(self, *_: object) -> None:
        if self._outermost:
            self._outermost = False
            if _handler(signal.SIGINT) is _defer:
                _handle(signal.SIGINT, signal.default_int_handler)
            if Deferred._waiting:
                Deferred._waiting = False
                raise KeyboardInterrupt from None


class Held:
    """A block that no Ctrl-C ends, within a `Deferred`."""

    __slots__ = ("_mine",)

    def __enter__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        self._mine = main and not Deferred._held
        Deferred._held = Deferred._held or self._mine

    def __exit__(self, *_: object) -> None:
        if self._mine:
            Deferred._held = False


def _defer(number: int, frame: FrameType | None) -> None:
    if Deferred._waiting and not Deferred._held:
        signal.default_int_handler(number, frame)
    Deferred._waiting = True


class Watch:
    """While it is entered, SIGINT calls `interrupt` at once; `fired` tells afterwards if it did.

    Does nothing outside the main thread, or where the program has a SIGINT handler of its own.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._deferred = Deferred()
        self._before: tuple[Callable[[], None] | None, int, int] | None = None
        self._seen = 0
        self.fired = False

    def __enter__(self) -> Watch:
        global _watcher
        self._deferred.__enter__()
        if (
            threading.current_thread() is threading.main_thread()
            and _handler(signal.SIGINT) is _defer
        ):
            if Deferred._waiting:  # it came since the outer one began, and nobody was told
                self._deferred.__exit__()
                raise KeyboardInterrupt
            if _watcher is None:
                _watcher = _Watcher()
            _watcher.settle()
            self._seen = _watcher.seen
            descriptor = signal.set_wakeup_fd(_watcher.writing.fileno(), warn_on_full_buffer=False)
            self._before = (_watcher.target, descriptor, _watcher.fired)
            _watcher.target = self._interrupt
            _watcher.turn += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None and _watcher is not None:
            target, descriptor, fired = self._before
            if Deferred._waiting or isinstance(error, RuntimeError | KeyboardInterrupt):
                # DuckDB or Python noticed a signal, perhaps before our thread did.
                _watcher.settle(self._seen)
            _watcher.target = target
            _watcher.turn += 1
            # KeyboardInterrupt may come before this line. So where nobody else had a descriptor
            # ours stays, and a target that is left behind is only told to stop doing nothing.
            if descriptor not in (-1, _watcher.writing.fileno()):
                signal.set_wakeup_fd(descriptor)
            self.fired = _watcher.fired > fired
            self._before = None
        self._deferred.__exit__()
