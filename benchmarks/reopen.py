"""The first read of a view in a new process, against DuckDB running its query there.

A database file with tables of --rows rows and views of several kinds. Each figure is a whole
process: what it reads a view by, or the query, in milliseconds; least of --times, in turns.

    python benchmarks/reopen.py [--rows 5000000] [--times 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tidewheel

VIEWS = {
    "median": "SELECT k, median(x) AS m FROM f GROUP BY k",
    "sums": "SELECT k, count(*) AS n, sum(x) AS s FROM f GROUP BY k",
    "newest": "FROM f ORDER BY x DESC, id LIMIT 10",
    "ranks": "SELECT id, k, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM f",
    "reached": "WITH RECURSIVE r AS (SELECT 0::BIGINT AS n UNION "
    "SELECT e.b FROM r JOIN e ON e.a = r.n) FROM r",
}


def took(code: str) -> float:
    """Milliseconds of a Python process."""
    # (as an installed package is run: with its compiled modules kept)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return (time.perf_counter() - started) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    rows = given.rows
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "views.db"
        with tidewheel.connect(file) as con:
            con.execute(
                f"CREATE TABLE f AS SELECT i AS id, (hash(i) % 1000)::INTEGER AS k, "
                f"(hash(i + 3) % 1000003) / 1000003 AS x FROM range({rows}) q(i); "
                f"CREATE TABLE e AS SELECT (hash(i) % {rows // 8})::BIGINT AS a, "
                f"(hash(i + 1) % {rows // 8})::BIGINT AS b FROM range({rows // 4}) q(i)"
            )
            for name, query in VIEWS.items():
                con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        kept = Path(f"{file}.tidewheel")
        print(f"{rows:,} rows; kept beside the file: {kept.stat().st_size / 1e6:.1f} MB\n")
        print(f"{'view':10}{'kept':>8}{'computed':>10}{'DuckDB':>8}{'kept/DuckDB':>13}")
        ratios = []
        for name, query in VIEWS.items():
            ours = f"import tidewheel; c = tidewheel.connect({str(file)!r}, read_only=True); "
            theirs = f"import duckdb, pyarrow; c = duckdb.connect({str(file)!r}, read_only=True); "
            read = "c.{}({!r}).to_arrow_table()"
            away = kept.with_suffix(".away")
            times: list[list[float]] = [[], [], []]
            for _ in range(given.times):
                times[0].append(took(ours + read.format("execute", f"FROM {name}")))
                kept.rename(away)
                times[1].append(took(ours + read.format("execute", f"FROM {name}")))
                away.rename(kept)
                times[2].append(took(theirs + read.format("sql", query)))
            here, computed, duck = map(min, times)
            ratios.append(here / duck)
            print(f"{name:10}{here:8.0f}{computed:10.0f}{duck:8.0f}{here / duck:13.2f}")
        print(f"\ngeometric mean kept/DuckDB {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
