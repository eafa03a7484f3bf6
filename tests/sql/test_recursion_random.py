"""Random recursive programs against a naive evaluator, and linear ones against DuckDB, too.

A program is a few rules over relations of two columns, in the manner of Datalog. Each has two
forms:
SQL, and Python sets that are evaluated again and again until nothing changes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import duckdb
import pytest

import tidewheel

Rows = set[tuple[int, int]]


@dataclass
class Rule:
    """`head` gets (p, q) of all rows of the `body`'s relations whose neighbours meet: a chain."""

    head: str
    body: tuple[str, ...]
    swap: bool
    bound: int | None

    def sql(self) -> str:
        names = [f"r{i}" for i in range(len(self.body))]
        joins = f"{self.body[0]} {names[0]}"
        for i, name in enumerate(self.body[1:], 1):
            joins += f" JOIN {name} {names[i]} ON {names[i - 1]}.b = {names[i]}.a"
        first, last = f"{names[0]}.a", f"{names[-1]}.b"
        items = f"{last}, {first}" if self.swap else f"{first}, {last}"
        where = "" if self.bound is None else f" WHERE {first} < {self.bound}"
        return f"SELECT {items} FROM {joins}{where}"

    def eval(self, known: dict[str, Rows]) -> Rows:
        pairs = set(known[self.body[0]])
        for name in self.body[1:]:
            pairs = {(a, d) for a, b in pairs for c, d in known[name] if b == c}
        if self.bound is not None:
            pairs = {(a, b) for a, b in pairs if a < self.bound}
        return {(b, a) for a, b in pairs} if self.swap else pairs


def naive(rules: list[Rule], base: dict[str, Rows]) -> dict[str, Rows]:
    known = {r.head: set() for r in rules} | base
    while True:
        before = {k: len(v) for k, v in known.items()}
        for rule in rules:
            known[rule.head] = known[rule.head] | rule.eval(known)
        if before == {k: len(v) for k, v in known.items()}:
            return known


def random_edges(rng: random.Random) -> Rows:
    nodes = rng.randint(2, 7)
    return {(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(rng.randint(0, 2 * nodes))}


def random_rules(rng: random.Random, form: str) -> list[Rule]:
    heads = ["p", "q", "s"][: 1 if form != "mutual" else rng.randint(2, 3)]

    def rule(head: str, body: list[str]) -> Rule:
        bound = rng.randint(1, 6) if rng.random() < 0.2 else None
        return Rule(head, tuple(body), rng.random() < 0.25, bound)

    rules = [rule(h, [rng.choice("ef")]) for h in heads]
    for i, head in enumerate(heads):
        for _ in range(rng.randint(1, 2)):
            extra = [rng.choice("ef") for _ in range(rng.randint(0, 2))]
            other = heads[(i + 1) % len(heads)]
            names = [other]
            if form == "nonlinear" or (form == "mutual" and rng.random() < 0.4):
                names.append(rng.choice(heads))
            body = names + extra
            rng.shuffle(body)
            rules.append(rule(head, body))
    return rules


def program(rng: random.Random, rules: list[Rule]) -> str:
    heads = list(dict.fromkeys(r.head for r in rules))
    tables = []
    for head in heads:
        steps = [r for r in rules if r.head == head]
        parts = [r.sql() for r in steps]
        tables.append(f"{head}(a, b) AS ({' UNION '.join(parts)})")
    rng.shuffle(tables)
    union = " UNION ALL ".join(f"SELECT '{h}', a, b FROM {h}" for h in heads)
    return f"WITH RECURSIVE {', '.join(tables)} {union}"


def load(con, base: dict[str, Rows]) -> None:
    for name, rows in base.items():
        con.execute(f"CREATE OR REPLACE TABLE {name}(a INTEGER, b INTEGER)")
        if rows:
            con.execute(f"INSERT INTO {name} VALUES " + ", ".join(str(r) for r in rows))


def check(seed: int, con, duck) -> None:
    rng = random.Random(seed)
    con.execute(f"SET fusion = '{rng.choice(['on', 'off'])}'")
    base = {"e": random_edges(rng), "f": random_edges(rng)}
    load(con, base)
    form = rng.choice(["linear", "linear", "nonlinear", "mutual"])
    rules = random_rules(rng, form)
    sql = program(rng, rules)
    known = naive(rules, base)
    wanted = sorted((h, a, b) for h in {r.head for r in rules} for a, b in known[h])
    assert sorted(con.execute(sql).fetchall()) == wanted, f"seed {seed}: {sql}"
    if form == "linear" and len(rules) == 2:
        load(duck, base)
        assert sorted(duck.execute(sql).fetchall()) == wanted, f"seed {seed}, DuckDB: {sql}"


# -- aggregates, bags, everything -----------------------------------------------------------------


def check_aggregate(seed: int, con, duck) -> None:
    """min or max over walks: the best value per node, found by relaxing until nothing changes."""
    rng = random.Random(seed)
    con.execute(f"SET fusion = '{rng.choice(['on', 'off'])}'")
    edges = random_edges(rng)
    weighted = [(a, b, rng.randint(0, 5)) for a, b in edges]
    con.execute("CREATE OR REPLACE TABLE w(a INTEGER, b INTEGER, c INTEGER)")
    if weighted:
        con.execute("INSERT INTO w VALUES " + ", ".join(str(r) for r in weighted))
    how, sql_value, value, start = rng.choice(
        [
            ("min", "v + c", lambda v, c: v + c, 0),
            ("min", "greatest(v, c)", max, 0),
            ("max", "least(v, c)", min, 9),
            ("min", "v", lambda v, c: v, 3),
        ]
    )
    best = dict.fromkeys(range(rng.randint(1, 3)), start)
    anchor = " UNION ALL ".join(f"SELECT {n}, {start}" for n in best)
    sql = (
        f"WITH RECURSIVE d(n, v) AS (SELECT * FROM ({anchor}) UNION "
        f"SELECT b, {how}({sql_value}) FROM d JOIN w ON d.n = w.a GROUP BY b) SELECT n, v FROM d"
    )
    pick = min if how == "min" else max
    while True:
        before = dict(best)
        for a, b, c in weighted:
            if a in best:
                found = value(best[a], c)
                best[b] = pick(best.get(b, found), found)
        if before == best:
            break
    assert sorted(con.execute(sql).fetchall()) == sorted(best.items()), f"seed {seed}: {sql}"


def check_bag(seed: int, con, duck) -> None:
    """UNION ALL on a DAG: every walk counts."""
    rng = random.Random(seed)
    con.execute(f"SET fusion = '{rng.choice(['on', 'off'])}'")
    base = {"e": {(a, b) for a, b in random_edges(rng) if a < b}}
    load(con, base)
    load(duck, base)
    items, condition = rng.choice(
        [("t.a, e.b, n + 1", "true"), ("e.a, e.b, n * 2", "n < 9"), ("t.b, e.b, n", "e.b > 1")]
    )
    name = rng.choice(["t", '"t"', "T"])
    sql = (
        f"WITH RECURSIVE {name}(a, b, n) AS (SELECT a, b, 1 FROM e UNION ALL "
        f"SELECT {items} FROM t JOIN e ON t.b = e.a WHERE {condition}) SELECT * FROM t"
    )
    wanted = sorted(duck.execute(sql).fetchall())
    assert sorted(con.execute(sql).fetchall()) == wanted, f"seed {seed}: {sql}"


CHECKS = [check, check, check, check_aggregate, check_bag]


@pytest.fixture(scope="module")
def con():
    con = tidewheel.connect()
    yield con
    con.close()


@pytest.fixture(scope="module")
def duck():
    con = duckdb.connect()
    yield con
    con.close()


@pytest.mark.parametrize("block", range(6))
def test_random_programs(con, duck, block):
    for seed in range(50 * block, 50 * (block + 1)):
        CHECKS[seed % len(CHECKS)](seed, con, duck)


@pytest.mark.long
def test_many_random_programs(con, duck):
    for seed in range(1_000, 6_000):
        CHECKS[seed % len(CHECKS)](seed, con, duck)
