"""A loop of notifications only: the cost of coordination, with no data at all.

Naiad (SOSP 2013), figure 6(b), measured 753 µs per iteration on 64 machines. Here one process runs
the loop; what is measured is the progress tracker and the scheduler.

    python benchmarks/timely_loop.py [--iterations 100000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

from tidewheel.engine.dataflow.graph import Graph
from tidewheel.engine.dataflow.runtime import Dataflow
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.timestamp import Timestamp


class Tick(Vertex):
    """Passes a token on when it is notified; notes the time at each turn if it is the first."""

    def __init__(self, turns: list[int] | None, last: int) -> None:
        self.turns, self.last = turns, last

    def on_recv(self, port: int, batch: Any, time: Timestamp) -> None:
        self.notify_at(time)

    def on_notify(self, at: Timestamp) -> None:
        if self.turns is not None:
            self.turns.append(time.perf_counter_ns())
        if at.counters[-1] < self.last:
            self.send_by(0, None, at)


def build(vertices: int, last: int, turns: list[int]) -> Graph:
    """One loop of `vertices` stages, each of which waits for a notification."""
    graph = Graph()
    loop = graph.loop("loop")
    feedback = loop.feedback()
    stream = graph.concat("variable", [loop.ingress(graph.input("in")), feedback.stream])
    for n in range(vertices):
        own = turns if n == 0 else None
        stream = graph.stage(f"tick{n}", lambda own=own: Tick(own, last), [stream]).stream
    feedback.connect(stream)
    return graph


def measure(
    iterations: int, vertices: int = 1, epochs: int = 1, workers: int = 1, threads: int = 1
) -> dict[str, Any]:
    """`epochs` of them go round the loop at the same time; `rounds` iterations each."""
    turns: list[int] = []
    rounds = max(2, iterations // epochs)
    with Dataflow(build(vertices, rounds, turns), threads, workers) as dataflow:
        entry = dataflow.input("in")
        for _ in range(epochs):
            for worker in range(workers):
                entry.send(None, worker)
            entry.close_epoch()
        entry.close()
        start = time.process_time_ns()
        dataflow.run()
        spent = time.process_time_ns() - start
    # One turn of all epochs and workers that go round together.
    together = epochs * workers
    gaps = [
        (b - a) / 1000 for a, b in zip(turns[::together], turns[together::together], strict=False)
    ]
    gaps.sort()
    return {
        "vertices": vertices,
        "active timestamps": epochs,
        "workers": workers,
        "threads": threads,
        "iterations": rounds,
        "median µs": round(statistics.median(gaps), 1),
        "p95 µs": round(gaps[int(0.95 * len(gaps))], 1),
        "p99 µs": round(gaps[int(0.99 * len(gaps))], 1),
        "CPU µs/notification": round(spent / 1000 / len(turns) / vertices, 1),
    }


def main() -> None:
    """Print one line per setting."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=100_000)
    parser.add_argument("--json")
    args = parser.parse_args()
    n = args.iterations
    settings: list[dict[str, int]] = [
        {"iterations": n},
        *({"iterations": n // v // 4, "vertices": v} for v in (2, 4, 8, 16, 32)),
        *({"iterations": n // 10, "epochs": e} for e in (2, 4, 8, 16, 32, 64, 128)),
        *({"iterations": n // w // 10, "workers": w} for w in (2, 4)),
        {"iterations": n // 10, "threads": 2},
    ]
    results = []
    for setting in settings:
        result = measure(**setting)
        if not results:
            print("  ".join(f"{name:>19}" for name in result))
        print("  ".join(f"{value:>19}" for value in result.values()), flush=True)
        results.append(result)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
