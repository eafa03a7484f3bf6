"""Transitive closures of some 50 million rows: seconds, and the process's most memory.

    python benchmarks/closure_memory.py

A chain of 10,000 edges, the same with texts as nodes, a random graph of 7,200 nodes and 60,000
edges (52 million pairs), and the chain as a maintained view; each in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import tidewheel

CLOSURE = (
    "WITH RECURSIVE t(x, y) AS "
    "(SELECT a, b FROM e UNION SELECT t.x, e.b FROM t JOIN e ON e.a = t.y) SELECT "
)
EDGES = {
    "chain": "SELECT range::INT AS a, (range + 1)::INT AS b FROM range(10000)",
    "texts": "SELECT 'node' || range AS a, 'node' || (range + 1) AS b FROM range(10000)",
    "random": "SELECT (hash(range) % 7200)::INT AS a, (hash(range + 1000000) % 7200)::INT AS b "
    "FROM range(60000)",
    "view of the chain": "SELECT range::INT AS a, (range + 1)::INT AS b FROM range(10000)",
}


def run(case: str) -> None:
    """One case, in this process."""
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE e AS {EDGES[case]}")
        begun = time.perf_counter()
        query = f"{CLOSURE} count(*) FROM t"
        if case.startswith("view"):
            con.execute(f"CREATE MATERIALIZED VIEW v AS {CLOSURE} * FROM t")
            query = "SELECT count(*) FROM v"
        (rows,) = con.execute(query).fetchone() or (0,)
        seconds = time.perf_counter() - begun
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{case:20}{rows:12,} rows{seconds:8.1f} s{most:8.1f} GiB", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1])
    else:
        for name in EDGES:
            subprocess.run([sys.executable, __file__, name], check=True)
