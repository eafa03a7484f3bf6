"""The journal of a run: a bounded ring of events, and what can be made of it.

Off by default. A driver that has one appends a tuple per event to a `deque`: no lock, no I/O, no
allocation that grows with the run; and nothing in the scheduler reads it. So it cannot change the
schedule.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One event: a quantum from `start` to `end`, or something that happened at `start`; in ns."""

    kind: str  # start, quantum, wake, reach, grow, error, abort
    stream: int
    start: int
    end: int
    detail: str  # a quantum's result, an error's text
    thread: str


class Journal:
    """The last `capacity` events of one scheduler."""

    def __init__(self, capacity: int = 65_536) -> None:
        self._ring: deque[tuple[str, int, int, int, str, str]] = deque(maxlen=capacity)
        self._names: dict[int, str] = {}
        self.add = self._ring.append  # bound once: `add` is on the path of every quantum

    def name(self, stream_id: int, name: str) -> None:
        self._names[stream_id] = name

    def __iter__(self) -> Iterator[Event]:
        return (Event(*event) for event in list(self._ring))

    def __len__(self) -> int:
        return len(self._ring)

    def clear(self) -> None:
        self._ring.clear()

    def story(self, *stream_ids: int) -> str:
        """The events of these streams (of all, if none is given), one per line, oldest first."""
        events = [e for e in self if not stream_ids or e.stream in stream_ids]
        first = min((event.start for event in events), default=0)
        lines = []
        for event in events:
            name = f"{self._names.get(event.stream, '?')}#{event.stream}"
            took = f" {(event.end - event.start) / 1e3:.1f} µs" if event.end > event.start else ""
            lines.append(
                f"{(event.start - first) / 1e3:12.1f} µs  {name:<24} {event.kind:<8} "
                f"{event.detail}{took}  [{event.thread}]"
            )
        return "\n".join(lines)

    def overlaps(self) -> list[tuple[int, int]]:
        """Pairs of different streams that were inside `execute` at the same time."""
        quanta = sorted((e.start, e.end, e.stream) for e in self if e.kind == "quantum")
        found: set[tuple[int, int]] = set()
        active: list[tuple[int, int]] = []
        for start, end, stream in quanta:
            active = [(until, other) for until, other in active if until > start]
            found.update(
                (min(stream, other), max(stream, other)) for _, other in active if other != stream
            )
            active.append((end, stream))
        return sorted(found)

    def trace(self) -> dict[str, Any]:
        """The events in Chrome's trace format: one track per stream, the thread as an argument."""
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": i, "args": {"name": f"{n} #{i}"}}
            for i, n in sorted(self._names.items())
        ]
        for event in self:
            common = {"pid": 1, "tid": event.stream, "ts": event.start / 1e3}
            if event.kind == "quantum":
                events.append(
                    common
                    | {
                        "ph": "X",
                        "name": self._names.get(event.stream, str(event.stream)),
                        "cat": "quantum",
                        "dur": (event.end - event.start) / 1e3,
                        "args": {"result": event.detail, "thread": event.thread},
                    }
                )
            elif event.kind != "start":
                detail = {"detail": event.detail, "thread": event.thread}
                events.append(common | {"ph": "i", "s": "t", "name": event.kind, "args": detail})
        return {"displayTimeUnit": "ns", "traceEvents": events}

    def write_trace(self, path: str | Path) -> None:
        """Write a file that Perfetto (ui.perfetto.dev) and chrome://tracing open."""
        Path(path).write_text(json.dumps(self.trace()), encoding="utf-8")
