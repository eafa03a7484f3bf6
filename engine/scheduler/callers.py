"""Callers who wait for the manager of a parallel run."""

from __future__ import annotations

import threading

from tidewheel.engine.scheduler.graph import Output


class Request:
    """A caller who waits for the manager: idle, read, pause or stop; abort waits for nothing."""

    __slots__ = ("_lock", "granted", "kind", "output", "output_id", "resume")

    def __init__(self, kind: str, output_id: int = -1, output: Output | None = None) -> None:
        self.kind = kind
        self.output_id = output_id
        self.output = output
        self.granted = False
        self.resume = threading.Event()  # ends a pause
        self._lock = threading.Lock()
        self._lock.acquire()

    def grant(self) -> None:
        self.granted = True
        self._lock.release()

    def wait(self, timeout: float = -1) -> bool:
        """Wait to be granted. Ctrl-C gets through: acquiring a lock can be interrupted."""
        return self._lock.acquire(timeout=timeout)

    @property
    def fulfilled(self) -> bool:
        return self.output is not None and (bool(self.output.ready) or self.output.ended)


class Callers:
    """The requests that are not yet granted. Owned by the manager."""

    def __init__(self) -> None:
        self._waiting: list[Request] = []
        self.halts = 0  # of them, those that want everything to stop

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def reading(self) -> bool:
        """Does one wait at an output?"""
        return any(request.output for request in self._waiting)

    @property
    def stopping(self) -> bool:
        """Does one want the manager to end?"""
        return any(request.kind == "stop" for request in self._waiting)

    def add(self, request: Request) -> None:
        self._waiting.append(request)
        self.halts += request.kind in ("pause", "stop")

    def grant(self, *kinds: str) -> None:
        """Let all go who wait for one of these."""
        granted = [r for r in self._waiting if r.kind in kinds]
        if granted:
            self._waiting = [r for r in self._waiting if r.kind not in kinds]
            for request in granted:
                request.grant()

    def grant_fulfilled(self) -> None:
        """Let those go whose output has something, or has ended."""
        for request in [r for r in self._waiting if r.fulfilled]:
            self._waiting.remove(request)
            request.grant()

    def pause(self) -> None:
        """Nothing runs: wait for each of those who asked for that."""
        for request in [r for r in self._waiting if r.kind == "pause"]:
            self._waiting.remove(request)
            self.halts -= 1
            request.grant()
            request.resume.wait()
