"""Random programs of WITH MUTUALLY RECURSIVE, run once and as views, against a naive evaluation."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest

import tidewheel
from oracle.edges import TABLES, Rows, change, created, inserted
from oracle.mutual_programs import Endless, Program, Programs, bounded, naive


def meant(start: list[str], epochs: list[list[str]], program: Program) -> tuple[list[Rows], int]:
    """The program's rows after each epoch, and the most iterations that it took."""
    with duckdb.connect(config={"threads": 1}) as con:
        most, found = 0, []
        for statements in [start, *epochs]:
            for statement in statements:
                con.execute(statement)
            rows, iterations = naive(con, program)
            found.append(rows)
            most = max(most, iterations)
        return found, most


def run(seed: int) -> None:
    rng = random.Random(seed)
    start = [created(name) for name in TABLES]
    start += [inserted(rng, name, rng.randint(2, 8)) for name in TABLES if rng.random() < 0.95]
    epochs = [[change(rng) for _ in range(rng.choice([1, 1, 3]))] for _ in range(5)]
    queries, wanted = [], []
    for _ in range(rng.choice([1, 1, 1, 2])):
        program = Programs(rng).program()
        if rng.random() < 0.1:
            program = bounded(program, rng.randint(1, 5))
        while True:
            try:
                rows, most = meant(start, epochs, program)
                break
            except Endless as end:
                program = bounded(program, min(end.iterations, rng.randint(1, 8)))
        if program.limit is None and rng.random() < 0.2:
            program.limit, program.fails = most + 2, True
        queries.append(program.sql())
        wanted.append(rows)
    query = queries[0]
    if len(queries) > 1:  # beside each other, with the same names
        query = f"SELECT * FROM ({queries[0]}) UNION ALL SELECT * FROM ({queries[1]})"
    answers = [
        Counter([row for rows in every for row in rows]) for every in zip(*wanted, strict=True)
    ]
    with tidewheel.connect(threads=rng.choice([1, 2])) as con:
        for statement in start:
            con.execute(statement)
        con.execute(f"CREATE MATERIALIZED VIEW one_by_one AS {query}")
        done = list(start)
        for epoch, answer in enumerate(answers):
            if epoch:
                changes = epochs[epoch - 1]
                if len(changes) > 1:  # in between the program may have no end
                    changes = ["BEGIN", *changes, "COMMIT"]
                for statement in changes:
                    con.execute(statement)
                done += changes
            for fusion in ("on", "off") if epoch in (0, 3) else ():
                con.execute(f"SET fusion = '{fusion}'")
                assert Counter(con.execute(query).fetchall()) == answer, (fusion, query, done)
            assert Counter(con.execute("FROM one_by_one").fetchall()) == answer, (query, done)
    with tidewheel.connect(threads=rng.choice([1, 2])) as con:
        for statement in start:
            con.execute(statement)
        con.execute(f"CREATE MATERIALIZED VIEW at_once AS {query}")
        con.execute("; ".join(["BEGIN", *(s for epoch in epochs for s in epoch), "COMMIT"]))
        found = Counter(con.execute("FROM at_once").fetchall())
        assert found == answers[-1], ("at once", query, done)


@pytest.mark.parametrize("seed", range(11))
def test_mutual_programs(seed: int) -> None:
    run(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 3_000))
def test_mutual_programs_long(seed: int) -> None:
    run(seed)
