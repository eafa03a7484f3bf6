"""Whole processes: `tidewheel -c "select 1"` against DuckDB's package doing the same, in turns.

Also what `import tidewheel` costs beyond duckdb and pyarrow. Least and median of several runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

PROGRAMS = {
    "duckdb, select 1": ["-c", "import duckdb; duckdb.sql('select 1').show()"],
    "tidewheel, select 1": ["-m", "tidewheel", "-c", "select 1"],
    "import duckdb, pyarrow": ["-c", "import duckdb, pyarrow"],
    "import duckdb, pyarrow, tidewheel": ["-c", "import duckdb, pyarrow, tidewheel"],
}


def main() -> None:
    """Run all programs in turns and print their times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=21)
    repeats = parser.parse_args().repeats
    # As an installed package is run: with its compiled modules kept.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for turn in range(repeats + 1):
        for name, program in PROGRAMS.items():
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, *program], stdout=subprocess.DEVNULL, check=True, env=environment
            )
            if turn:  # the first run compiles
                times[name].append((time.perf_counter() - start) * 1e3)
    print(f"{'':36}{'least':>9}{'median':>9}  ms")
    for name, found in times.items():
        print(f"{name:36}{min(found):9.0f}{statistics.median(found):9.0f}")
    plain, ours, before, after = times.values()
    print(
        f"select 1: {min(ours) / min(plain):.2f} × duckdb (least), "
        f"{statistics.median(ours) / statistics.median(plain):.2f} × (median); "
        f"import tidewheel: {min(after) - min(before):.0f} ms more"
    )


if __name__ == "__main__":
    main()
