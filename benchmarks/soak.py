"""Memory and time per change over a long history of small changes to a dozen views.

    python benchmarks/soak.py [--minutes 5] [--rows 100000] [--seed 1]

A line every twenty seconds: what a change took, what the process and the views hold. At the end
every view is verified. What grows with the number of changes, and not with the rows, is a fault.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import tidewheel

TABLES = """
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, region INTEGER);
CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER, day DATE, amount DOUBLE, status TEXT);
CREATE TABLE edge (a INTEGER, b INTEGER);
INSERT INTO customer SELECT i, 'n' || i, i % 10 FROM range(2000) AS r(i);
INSERT INTO sale SELECT i, hash(i) % 2000, DATE '2024-01-01' + (hash(i + 1) % 365)::INTEGER,
    (hash(i + 2) % 10000) / 100, ['new', 'paid', 'sent'][1 + (hash(i + 3) % 3)::INTEGER]
    FROM range({rows}) AS r(i);
INSERT INTO edge SELECT hash(i) % 3000, hash(i + 9) % 3000 FROM range(2500) AS r(i)
"""
VIEWS = {
    "by_region": "SELECT region, status, count(*) AS n, sum(amount) AS s, avg(amount) AS m "
    "FROM sale JOIN customer ON customer = customer.id GROUP BY ALL",
    "top": "SELECT * FROM sale ORDER BY amount DESC, id LIMIT 20",
    "each": "SELECT customer, max(day) AS d, min(amount) AS low, count(DISTINCT status) AS k, "
    "median(amount) AS middle FROM sale GROUP BY customer",
    "latest": "SELECT * FROM sale QUALIFY row_number() OVER "
    "(PARTITION BY customer ORDER BY day DESC, id) = 1",
    "running": "SELECT id, sum(amount) OVER (PARTITION BY customer ORDER BY day, id) AS s "
    "FROM sale",
    "nobody": "SELECT * FROM customer WHERE NOT EXISTS "
    "(FROM sale WHERE customer = customer.id AND status = 'paid')",
    "daily": "SELECT day, sum(amount) AS s, stddev(amount) AS q FROM sale GROUP BY day",
    "weekly": "SELECT date_trunc('week', day) AS w, sum(s) AS s FROM daily GROUP BY w",
    "texts": "SELECT region, string_agg(name, ',' ORDER BY id) AS t FROM customer GROUP BY region",
    "reached": "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT b FROM r JOIN edge ON a = x) FROM r",
    "near": "WITH RECURSIVE r(x, d) AS (SELECT 1, 0 UNION SELECT b, d + 1 FROM r JOIN edge "
    "ON a = x WHERE d < 6) SELECT x, min(d) AS d FROM r GROUP BY x",
    "sent": "SELECT customer.id, coalesce(sum(amount), 0) AS s FROM customer LEFT JOIN sale "
    "ON sale.customer = customer.id AND status = 'sent' GROUP BY customer.id",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tidewheel.connect() as con:
        con.execute(TABLES.format(rows=options.rows))
        for name, query in VIEWS.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        end = time.monotonic() + 60 * options.minutes
        made, done, taken, mark = options.rows, 0, list[float](), time.monotonic()
        print(" changes  median ms   99 %   most  process MB  views MB")
        while time.monotonic() < end:
            start = time.perf_counter()
            made += change(con, chance, made)
            taken.append(time.perf_counter() - start)
            done += 1
            if done % 50 == 0:
                for name in chance.sample(list(VIEWS), 3):
                    con.execute(f"SELECT count(*) FROM {name}").fetchall()
            if time.monotonic() - mark > 20:
                taken.sort()
                some = [taken[len(taken) // 2], taken[len(taken) * 99 // 100], taken[-1]]
                median, late, most = (1e3 * seconds for seconds in some)
                print(
                    f"{done:8}{median:11.2f}{late:7.1f}{most:7.0f}{process():12.0f}{held(con):10.0f}"
                )
                taken, mark = [], time.monotonic()
        for name in VIEWS:
            wrong = con.execute(f"VERIFY VIEW {name}").fetchall()
            print(f"{name:10} {'right' if not wrong else wrong[:3]}")


def change(con: tidewheel.Connection, chance: random.Random, made: int) -> int:
    """One statement; how many sales it adds."""
    kind, status = chance.random(), chance.choice(["new", "paid", "sent"])
    if kind < 0.4:
        day = f"2024-{chance.randrange(1, 13):02d}-11"
        row = [made, chance.randrange(2000), day, chance.random() * 100, status]
        con.execute("INSERT INTO sale VALUES (?, ?, ?, ?, ?)", row)
        return 1
    if kind < 0.6:
        update = "UPDATE sale SET status = ?, amount = amount + 1 WHERE id = ?"
        con.execute(update, [status, chance.randrange(made)])
    elif kind < 0.8:
        con.execute("DELETE FROM sale WHERE id = ?", [chance.randrange(made)])
    elif kind < 0.9:
        pair = [chance.randrange(3000), chance.randrange(3000)]
        con.execute("INSERT INTO edge VALUES (?, ?)", pair)
    else:
        con.execute("DELETE FROM edge WHERE a = ? AND b % 3 = 1", [chance.randrange(3000)])
    return 0


def process() -> float:
    """Megabytes of memory that the process has (where the system tells)."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * 4096 / 1e6 if told.exists() else float("nan")


def held(con: tidewheel.Connection) -> float:
    """Megabytes that the views hold."""
    return (
        float(con.execute("SELECT sum(state_bytes) FROM tidewheel_views()").fetchall()[0][0]) / 1e6
    )


if __name__ == "__main__":
    main()
