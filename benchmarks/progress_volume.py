"""The traffic of the distributed progress protocol, for connected components.

Compare Naiad (SOSP 2013), figure 6(c): with accumulation in the workers and in a central place the
protocol's volume stays small; without any it grows with the square of the number of workers.

    python benchmarks/progress_volume.py [--workers 1,2,4,8,16,32,64] [--json FILE]

Workers are simulated (engine/dataflow/simulator.py); messages are counted on all links but those of
a worker to itself, bytes as `encoded_size` has them. The answer is checked each time.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any

from tidewheel.engine.dataflow.fluent import Collection
from tidewheel.engine.dataflow.graph import Graph
from tidewheel.engine.dataflow.simulator import Simulation
from tidewheel.engine.dataflow.superstep import superstep
from tidewheel.engine.progress.broadcast import Accumulation

Edge = tuple[int, int]


def smallest_label(
    node: Any, label: Any, messages: list[Any], neighbours: list[Any], number: int
) -> Any:
    """Take the smallest label heard of, tell it to the neighbours if it is new."""
    best = min([label, *messages])
    return best, [(n, best) for n in neighbours] if best < label or number == 0 else []


def build() -> Graph:
    """Connected components in supersteps."""
    graph = Graph()
    nodes, edges = Collection.input(graph, "nodes"), Collection.input(graph, "edges")
    superstep(nodes.map(lambda n: (n, n)), edges, smallest_label).output("out")
    return graph


def components(nodes: int, edges: list[Edge]) -> dict[int, int]:
    """By union-find."""
    parent = list(range(nodes))

    def root(n: int) -> int:
        while parent[n] != n:
            n = parent[n]
        return n

    for a, b in edges:
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    return {n: root(n) for n in range(nodes)}


def measure(
    workers: int, accumulation: Accumulation, nodes: int, edges: list[Edge]
) -> dict[str, Any]:
    """One run."""
    start = time.perf_counter()
    simulation = Simulation(build(), workers, accumulation, seed=1, speeds=(0.5, 1.0))
    both = [*edges, *((b, a) for a, b in edges)]
    for worker in range(workers):
        mine = list(range(worker, nodes, workers))
        if mine:
            simulation.send("nodes", worker, 0, mine)
        if both[worker::workers]:
            simulation.send("edges", worker, 0, both[worker::workers])
    simulation.open_epoch("nodes", None)
    simulation.open_epoch("edges", None)
    simulation.run()
    found = dict(pair for _, batch in simulation.output("out") for pair in batch)
    assert found == components(nodes, edges)
    progress = simulation.progress
    return {
        "workers": workers,
        "accumulation": accumulation.value,
        "messages": progress.messages,
        "updates": progress.updates,
        "bytes": progress.bytes,
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    """Print one line per number of workers and kind of accumulation."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", default="1,2,4,8,16,32,64")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--edges", type=int, default=240)
    parser.add_argument("--json")
    args = parser.parse_args()
    rng = random.Random(1)
    edges = [(rng.randrange(args.nodes), rng.randrange(args.nodes)) for _ in range(args.edges)]
    results = []
    for workers in map(int, args.workers.split(",")):
        for accumulation in Accumulation:
            result = measure(workers, accumulation, args.nodes, edges)
            if not results:
                print("  ".join(f"{name:>12}" for name in result))
            print("  ".join(f"{value:>12}" for value in result.values()), flush=True)
            results.append(result)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
