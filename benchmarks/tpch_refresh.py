"""The 22 TPC-H queries as maintained views under RF1 and RF2, against DuckDB recomputing them.

    python benchmarks/tpch_refresh.py [--scale 1] [--epochs 10] [--data FOLDER] [--only q01,q06]

An epoch is one transaction with RF1 and RF2 (0.1% of the orders and their lineitems come, as many
go). `epoch` is the median of what the view took in it, `DuckDB` the median of its run of the query
after each epoch, on tables in memory that went through the same changes, with as many threads. Both
in one run, in turns. Views over tables that do not change are left out. The closing lines have the
geometric mean of the ratios, the views that lose, and the whole transaction: capturing the changes,
all views, the commit.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import tidewheel
from tidewheel.tpch import generate, queries
from tidewheel.tpch.churn import Churn, geometric_mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--every", type=int, default=0, help="compare every n-th epoch")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default="tpch,monthly_orders")
    options = parser.parse_args()
    folder = generate.DataFolder(options.data or generate.default_folder(options.scale))
    if not folder.complete(options.scale, options.epochs):
        generate.generate(folder, options.scale, options.epochs, print)
    with tidewheel.connect() as con:
        start = time.perf_counter()
        chosen = queries.load(options.scale, options.only.split(","))
        churn = Churn(con, folder, chosen, lambda _step: None)
        every = options.every or options.epochs
        for epoch in range(1, options.epochs + 1):
            churn.step(compared=epoch % every == 0 or epoch == options.epochs)
        report(churn)
        print(f"{time.perf_counter() - start:.0f} s in all")
        churn.close()


def report(churn: Churn) -> None:
    """A line per view, then the totals."""
    print(f"{'view':16}{'filled s':>10}{'epoch ms':>10}{'DuckDB ms':>11}{'faster':>9}  answers")
    ratios: dict[str, float] = {}
    for view in churn.views:
        name, ratio = view.query.name, view.ratio
        verdict = view.problem or ("right" + (f" ({view.reason})" if view.reason else ""))
        if ratio is None:
            print(f"{name:16}{view.filled:10.2f}{'–':>10}{'–':>11}{'–':>9}  {verdict}")
            continue
        ratios[name] = ratio
        mine, theirs = (statistics.median(t) * 1e3 for t in (view.epochs, view.recomputed))
        print(f"{name:16}{view.filled:10.2f}{mine:10.1f}{theirs:11.1f}{ratio:8.1f}x  {verdict}")
    slower = [name for name, ratio in ratios.items() if ratio < 1]
    print(f"geometric mean {geometric_mean(ratios.values()):.1f}x over {len(ratios)} views")
    print("slower than recomputing:", ", ".join(slower) or "none")
    views = statistics.median(map(sum, zip(*(v.epochs for v in churn.views), strict=True)))
    rows = statistics.median(churn.changed)
    print(f"one epoch: {rows:,.0f} rows, {statistics.median(churn.commits) * 1e3:.0f} ms", end=", ")
    print(f"of which the views {views * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
