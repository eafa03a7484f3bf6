"""EXPLAIN ANALYZE: run a plan to its end and tell what every vertex did.

The numbers are the scheduler's own counters, the journal's events, what each recursion reported of
its iterations, and what DuckDB measured inside the kernels.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tidewheel.engine.dataflow.graph import Stream
from tidewheel.engine.dataflow.runtime import Dataflow
from tidewheel.engine.scheduler.journal import Journal
from tidewheel.planner import execute
from tidewheel.planner.context import Context
from tidewheel.planner.execute import Physical
from tidewheel.planner.explain import vertex_lines
from tidewheel.planner.flow import Operator

SHOWN = 64
"""Iterations that the text shows of a recursion; the pictures show all."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one vertex did: rows and batches sent, quanta, seconds inside them."""

    rows: int
    batches: int
    quanta: int
    seconds: float


@dataclass(slots=True)
class Profile:
    """DuckDB's measure of one operator of a kernel, added up over the kernel's runs."""

    name: str
    detail: str
    rows: int
    seconds: float
    children: list[Profile]

    @staticmethod
    def of(node: dict[str, Any]) -> Profile:
        """From the node of DuckDB's JSON profile."""
        extra = node.get("extra_info") or {}
        shown = [v for k, v in extra.items() if k != "Estimated Cardinality" and v]
        texts = [", ".join(map(str, v)) if isinstance(v, list) else str(v) for v in shown]
        return Profile(
            str(node.get("type", "?")),
            "; ".join(texts),
            int(node.get("intermediate_rows", 0)),
            float(node.get("timing", 0.0)),
            [Profile.of(child) for child in node.get("children", ())],
        )

    def add(self, other: Profile) -> bool:
        """Add another run of the same statement; False if DuckDB planned it differently."""
        if self.name != other.name or len(self.children) != len(other.children):
            return False
        if not all(a.add(b) for a, b in zip(self.children, other.children, strict=True)):
            return False
        self.rows += other.rows
        self.seconds += other.seconds
        return True

    def lines(self, depth: int = 0) -> Iterator[str]:
        """One line per operator, inputs below and indented."""
        detail = self.detail if len(self.detail) <= 60 else self.detail[:59] + "…"
        name = f"{'  ' * depth}{self.name} {detail}".rstrip()
        yield f"{name}: {counted(self.rows, 'row')}, {self.seconds * 1e3:.2f} ms"
        for child in self.children:
            yield from child.lines(depth + 1)


@dataclass
class Analysis:
    """A finished run; also `execute.Watch` while it runs."""

    plan: Physical
    journal: Journal = field(default_factory=Journal)
    places: dict[Operator, Stream] = field(default_factory=dict)
    dataflow: Dataflow = field(init=False)
    rows: int = 0
    seconds: float = 0.0
    #: (counters, new rows) of every iteration, by recursive table
    iterations: dict[str, list[tuple[tuple[int, ...], int]]] = field(default_factory=dict)
    profiles: dict[str, list[Profile]] = field(default_factory=dict)  # by statement
    runs: dict[str, int] = field(default_factory=dict)  # of a statement
    work: dict[Operator, Work] = field(default_factory=dict)

    def profile(self, sql: str, measured: str) -> None:
        """See `execute.Watch`."""
        self.runs[sql] = self.runs.get(sql, 0) + 1
        found = [Profile.of(node) for node in json.loads(measured).get("operator", ())]
        found = [c for p in found for c in (p.children if p.name == "RESULT_COLLECTOR" else [p])]
        known = self.profiles.setdefault(sql, found)
        if known is not found:
            for one, other in zip(known, found, strict=False):
                one.add(other)

    def iteration(self, table: str, counters: tuple[int, ...], rows: int) -> None:
        """See `Context.watch`."""
        steps = self.iterations.setdefault(table, [])
        if not counters:
            return  # DuckDB's own recursion does not tell
        if steps and steps[-1][0] == counters:
            rows += steps.pop()[1]
        steps.append((counters, rows))

    def collect(self) -> None:
        """Take down what the scheduler counted."""
        stats = {s.id: s for s in self.dataflow.scheduler.stats()}
        for operator, stream in self.places.items():
            streams = self.dataflow.expansion.streams.get(stream.stage.id, ())
            found = [(s, stats[self.dataflow.expansion.ids[s]]) for s in streams]
            if found:
                self.work[operator] = Work(
                    sum(max((h.put_rows for h in s.outputs), default=0) for s, _ in found),
                    sum(max((h.put_batches for h in s.outputs), default=0) for s, _ in found),
                    sum(n.quanta for _, n in found),
                    sum(n.busy for _, n in found),
                )


def analyze(plan: Physical, context: Context) -> Analysis:
    """Run a plan, drop its rows, and say what happened."""
    found = Analysis(plan)
    context = dataclasses.replace(context, watch=found.iteration)
    started = time.perf_counter()
    stream = execute.launch(plan, context, found)
    try:
        for batch in stream:
            found.rows += batch.num_rows
    finally:
        stream.close()
    found.seconds = time.perf_counter() - started
    found.collect()
    return found


def text(found: Analysis) -> str:
    """The run as text: the dataflow, the iterations, DuckDB's profile of each kernel."""
    threads = found.dataflow.threads
    lines = [
        f"{counted(found.rows, 'row')} in {found.seconds * 1e3:.2f} ms, "
        f"{counted(threads, 'thread')} for vertices",
        "",
    ]
    for operator, line in vertex_lines(found.plan):
        work = None if operator is None else found.work.get(operator)
        lines.append(line if work is None else f"{line}: {_work(work)}")
    overlaps = found.journal.overlaps()
    if overlaps:
        names = {i: s.name for s, i in found.dataflow.expansion.ids.items()}
        pairs = ", ".join(f"{names.get(a, a)} with {names.get(b, b)}" for a, b in overlaps[:5])
        lines.append(f"ran at the same time: {pairs}{' …' if len(overlaps) > 5 else ''}")
    for table, steps in found.iterations.items():
        total = sum(rows for _, rows in steps)
        many = f"{counted(total, 'row')} in {counted(len(steps), 'iteration')}"
        lines += ["", f"recursive table {table}: {many}"]
        told = [f"⟨{', '.join(map(str, c))}⟩ {rows:+,}" for c, rows in steps[:SHOWN]]
        lines += ["  " + "  ".join(told[i : i + 8]) for i in range(0, len(told), 8)]
        if len(steps) > SHOWN:
            lines.append(f"  … and {len(steps) - SHOWN:,} more, in EXPLAIN (ANALYZE, FORMAT html)")
    for kernel in found.plan.kernels:
        if kernel.sql in found.profiles:
            runs = found.runs[kernel.sql]
            lines += ["", f"{kernel.name} in DuckDB, {counted(runs, 'run')}"]
            for profile in found.profiles[kernel.sql]:
                lines += [f"  {line}" for line in profile.lines()]
    return "\n".join(lines)


def _work(work: Work) -> str:
    quanta = counted(work.quanta, "quantum", "quanta")
    return f"{counted(work.rows, 'row')}, {quanta}, {work.seconds * 1e3:.2f} ms"


def counted(number: int, one: str, many: str = "") -> str:
    """A number and the word for what it counts."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def trace(found: Analysis) -> str:
    """The run for ui.perfetto.dev and chrome://tracing, as JSON."""
    return json.dumps(found.journal.trace())
