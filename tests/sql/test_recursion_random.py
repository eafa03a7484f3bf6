"""Random recursive programs against a naive evaluator, and linear ones against DuckDB, too.

They are run once, and kept as maintained views under random changes.

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
from tidewheel.planner import choice

Rows = set[tuple[int, int]]
Rows3 = set[tuple[int, int, int]]


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
    if len(heads) > 1 and rng.random() < 0.4:  # one reference through a table without UNION
        name = rng.choice(heads)
        tables = [t.replace(f" {name} r", " via r", 1) for t in tables]
        tables.append(f"via(a, b) AS (WITH n AS (SELECT * FROM {name}) SELECT a, b FROM n)")
    rng.shuffle(tables)
    union = " UNION ALL ".join(f"SELECT '{h}', a, b FROM {h}" for h in heads)
    return f"WITH RECURSIVE {', '.join(tables)} {union}"


def load(con, base: dict[str, Rows]) -> None:
    for name, rows in base.items():
        con.execute(f"CREATE OR REPLACE TABLE {name}(a INTEGER, b INTEGER)")
        if rows:
            con.execute(f"INSERT INTO {name} VALUES " + ", ".join(str(r) for r in rows))


def choose(seed: int, con, rng: random.Random) -> None:
    """How the next query is run: with fusion or without, by DuckDB alone where it can or not."""
    con.execute(f"SET fusion = '{rng.choice(['on', 'off'])}'")
    choice.FIRST = FIRST if seed // len(CHECKS) % 3 == 0 else 0


FIRST = choice.FIRST


@pytest.fixture(autouse=True)
def as_before():
    yield
    choice.FIRST = FIRST


def check(seed: int, con, duck) -> None:
    rng = random.Random(seed)
    choose(seed, con, rng)
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
    choose(seed, con, rng)
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
    choose(seed, con, rng)
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


# -- loops in loops, references outwards, groups that read groups, conditions on groups, negation


def spread(start: set[int], *steps: Rows) -> set[int]:
    """What can be reached from `start`, itself included."""
    found = set(start)
    while True:
        more = {b for step in steps for a, b in step if a in found} - found
        if not more:
            return found
        found |= more


def nested(e: Rows, f: Rows, k: int) -> tuple[str, set[tuple[int, ...]]]:
    """A recursion in another one's anchor."""
    inner = {(a, c) for a in {a for a, _ in e} for c in spread({b for x, b in e if x == a}, e)}
    wanted = {(a, c) for a, b in inner for c in spread({b}, f)}
    sql = (
        "WITH RECURSIVE t(a, b) AS ((WITH RECURSIVE s(a, b) AS (SELECT a, b FROM e UNION "
        "SELECT s.a, e.b FROM s JOIN e ON s.b = e.a) SELECT * FROM s) UNION "
        "SELECT t.a, f.b FROM t JOIN f ON t.b = f.a) SELECT a, b FROM t"
    )
    return sql, wanted


def inside(e: Rows, f: Rows, k: int) -> tuple[str, set[tuple[int, ...]]]:
    """A recursion in another one's step, which reads the rows of that step."""
    wanted = {k}
    while True:
        more = wanted | spread({b for a, b in f if a in wanted}, e)
        if more == wanted:
            break
        wanted = more
    sql = (
        f"WITH RECURSIVE t(x) AS (SELECT {k} UNION (WITH RECURSIVE s(y) AS (SELECT f.b FROM t, f "
        "WHERE f.a = t.x UNION SELECT e.b FROM s JOIN e ON e.a = s.y) SELECT y FROM s)) FROM t"
    )
    return sql, {(x,) for x in wanted}


def correlated(e: Rows, f: Rows, k: int) -> tuple[str, set[tuple[int, ...]]]:
    """A recursion that starts from the row of the query around it."""
    sql = (
        "SELECT DISTINCT f.a, (WITH RECURSIVE s(y) AS (SELECT f.b UNION SELECT e.b FROM s, e "
        "WHERE e.a = s.y) SELECT count(*) FROM s) AS n FROM f WHERE f.b = "
        "(SELECT min(g.b) FROM f g WHERE g.a = f.a)"
    )
    least = {a: min(b for x, b in f if x == a) for a, _ in f}
    return sql, {(a, len(spread({b}, e))) for a, b in least.items()}


def groups(e: Rows, f: Rows, k: int) -> tuple[str, set[tuple[int, ...]]]:
    """A recursion that reads another one, and itself twice."""
    ways = {(a, c) for a in {a for a, _ in e} for c in spread({b for x, b in e if x == a}, e)}
    ways |= f
    while True:
        more = ways | {(a, d) for a, b in ways for c, d in ways if b == c}
        if more == ways:
            break
        ways = more
    sql = (
        "WITH RECURSIVE s(a, b) AS (SELECT a, b FROM e UNION SELECT s.a, e.b FROM s, e "
        "WHERE s.b = e.a), t(a, b) AS (SELECT * FROM s UNION SELECT * FROM f UNION "
        "SELECT x.a, y.b FROM t x, t y WHERE x.b = y.a) SELECT a, b FROM t"
    )
    return sql, ways


def counted(e: Rows, f: Rows, k: int) -> tuple[str, set[tuple[int, ...]]]:
    """A group belongs to it once it has enough rows: two, or what `f` says of the group."""
    need = {a: sum(x == a for x, _ in f) for a, _ in f}
    found = {k}
    while True:
        into = [b for a, b in e if a in found]
        more = found | {b for b in into if into.count(b) >= need.get(b, 2)}
        if more == found:
            break
        found = more
    sql = (
        f"WITH RECURSIVE t(x) AS (SELECT {k} UNION SELECT e.b FROM t JOIN e ON e.a = t.x "
        "LEFT JOIN (SELECT a, count(*) AS n FROM f GROUP BY a) AS w ON w.a = e.b "
        "GROUP BY e.b, w.n HAVING coalesce(w.n, 2) <= count(*)) SELECT x FROM t"
    )
    return sql, {(x,) for x in found}


def negated(e: Rows, f: Rows, k: int) -> tuple[str, set[tuple[int, ...]]]:
    """What Materialize's form allows: the complement of a recursion, and a recursion over it.

    All are evaluated in order, again and again, so `v` may keep what `u` had too early; on a cycle
    of f it goes round for ever.
    """
    r: set[int] = set()
    v: set[int] = set()
    for _ in range(20):
        before = r, v
        r = {k} | {b for a, b in e if a in r}
        u = {a for a, _ in f} - r
        v = u | {b for a, b in f if a in v}
        if (r, v) == before:
            break
    sql = (
        "WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 20) "
        f"r(x INT) AS (SELECT {k} UNION SELECT e.b FROM r, e "
        "WHERE e.a = r.x), u(x INT) AS (SELECT a FROM f EXCEPT SELECT x FROM r), "
        "v(x INT) AS (SELECT x FROM u UNION SELECT f.b FROM v, f WHERE f.a = v.x) SELECT x FROM v"
    )
    return sql, {(x,) for x in v}


def walks(e: Rows, f: Rows, k: int) -> tuple[str, list[tuple[int, ...]]]:
    """Two bags that refer to each other: how many walks of length n end in each node."""
    p, q = [(a, 0) for a, _ in f], [(k, 0)]
    every_p, every_q = list(p), list(q)
    while p or q:
        p, q = (
            [(b, n + 1) for x, n in q for a, b in e if a == x and n < 3],
            [(b, n + 1) for x, n in p for a, b in f if a == x and n < 3],
        )
        every_p, every_q = every_p + p, every_q + q
    sql = (
        "WITH RECURSIVE p(x, n) AS (SELECT a, 0 FROM f UNION ALL SELECT e.b, n + 1 FROM q, e "
        f"WHERE e.a = q.x AND n < 3), q(x, n) AS (SELECT {k}, 0 UNION ALL SELECT f.b, n + 1 "
        "FROM p, f WHERE f.a = p.x AND n < 3) SELECT 0, x, n FROM p UNION ALL SELECT 1, x, n FROM q"
    )
    return sql, [(0, *row) for row in every_p] + [(1, *row) for row in every_q]


def settled(e: Rows, f: Rows, k: int) -> tuple[str, list[tuple[int, ...]]]:
    """Tables that no recursion reaches, read before their place, behind it, and through another."""
    first, c, d, r, late = set[int](), set[int](), set[int](), set[int](), set[int]()
    for _ in range(20):
        before = first, c, d, r, late
        first = r - late
        c = {a for a, _ in f}
        d = {x for x in c if x != k}
        r = {k} | {b for a, b in e if a in r and a in c}
        late = d
        if (first, c, d, r, late) == before:
            break
    sql = (
        "WITH MUTUALLY RECURSIVE first(x INT) AS (SELECT x FROM r EXCEPT SELECT x FROM late), "
        f"c(x INT) AS (SELECT DISTINCT a FROM f), d(x INT) AS (SELECT x FROM c WHERE x <> {k}), "
        f"r(x INT) AS (SELECT {k} UNION SELECT e.b FROM r, e, c WHERE e.a = r.x AND e.a = c.x), "
        "n(n INT) AS (SELECT count(*) FROM d, r WHERE d.x = r.x), late(x INT) AS (FROM d) "
        "SELECT 0, x FROM first UNION ALL SELECT 1, n FROM n UNION ALL SELECT 2, x FROM r"
    )
    return sql, [(0, x) for x in first] + [(1, len(d & r))] + [(2, x) for x in r]


SHAPES = [nested, inside, correlated, groups, counted, negated, walks, settled]


def check_shape(seed: int, con, duck) -> None:
    rng = random.Random(seed)
    choose(seed, con, rng)
    base = {"e": random_edges(rng), "f": random_edges(rng)}
    load(con, base)
    sql, wanted = SHAPES[seed // len(CHECKS) % len(SHAPES)](base["e"], base["f"], rng.randrange(4))
    assert sorted(con.execute(sql).fetchall()) == sorted(wanted), f"seed {seed}: {sql}"


CHECKS = [check, check, check_shape, check_aggregate, check_shape, check_bag]


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
@pytest.mark.parametrize("block", range(1, 7))
def test_many_random_programs(con, duck, block):
    for seed in range(1_000 * block, 1_000 * (block + 1)):
        CHECKS[seed % len(CHECKS)](seed, con, duck)


# -- the same as maintained views, under random changes


def best(weighted: Rows3, pick, value, start: int) -> Rows:
    known = {0: start}
    while True:
        before = dict(known)
        for a, b, c in weighted:
            if a in known:
                found = value(known[a], c)
                known[b] = pick(known.get(b, found), found)
        if known == before:
            return set(known.items())


def random_view(rng: random.Random, seed: int):
    """A query over e and f, and a function from their rows to its rows."""
    kind = seed % 4
    k = rng.randrange(4)
    if kind == 0:
        shape = SHAPES[seed // 4 % len(SHAPES)]
        return shape(set(), set(), k)[0], lambda e, f: shape(e, f, k)[1]
    if kind == 1:
        how, sql_value, value, start = rng.choice(
            [
                ("min", "v + f.b", lambda v, c: v + c, 0),
                ("min", "greatest(v, f.b)", max, 0),
                ("max", "least(v, f.b)", min, 9),
                ("min", "v", lambda v, c: v, 3),
            ]
        )
        sql = (
            f"WITH RECURSIVE d(n, v) AS (SELECT 0, {start} UNION SELECT e.b, {how}({sql_value}) "
            "FROM d JOIN e ON d.n = e.a JOIN f ON f.a = e.a GROUP BY e.b) SELECT n, v FROM d"
        )
        pick = min if how == "min" else max

        def evaluate(e: Rows, f: Rows) -> Rows:
            weighted = {(a, b, c) for a, b in e for x, c in f if x == a}
            return best(weighted, pick, value, start)

        return sql, evaluate
    rules = random_rules(rng, rng.choice(["linear", "nonlinear", "mutual"]))

    def evaluate_rules(e: Rows, f: Rows) -> set[tuple[str, int, int]]:
        known = naive(rules, {"e": e, "f": f})
        return {(h, a, b) for h in {r.head for r in rules} for a, b in known[h]}

    return program(rng, rules), evaluate_rules


def change(rng: random.Random, con, base: dict[str, Rows]) -> None:
    """One epoch: some rows of both tables go, come, or change."""
    con.execute("BEGIN")
    for name in rng.sample(["e", "f"], rng.randint(1, 2)):
        rows = base[name]
        gone = {r for r in rows if rng.random() < rng.choice([0, 0.1, 0.4])}
        for a, b in gone:
            con.execute(f"DELETE FROM {name} WHERE a = {a} AND b = {b}")
        rows -= gone
        for _ in range(rng.randint(0, 3)):
            row = (rng.randrange(7), rng.randrange(7))
            if row not in rows:
                con.execute(f"INSERT INTO {name} VALUES {row}")
                rows.add(row)
        old = next(iter(rows), None)
        new = (rng.randrange(7), rng.randrange(7))
        if old is not None and new not in rows and rng.random() < 0.3:
            con.execute(f"UPDATE {name} SET a = {new[0]}, b = {new[1]} WHERE (a, b) = {old}")
            rows -= {old}
            rows.add(new)
    con.execute("COMMIT")


def check_maintained(seed: int, con) -> None:
    rng = random.Random(seed)
    con.execute("SET fusion = 'on'")
    base = {"e": random_edges(rng), "f": random_edges(rng)}
    load(con, base)
    sql, evaluate = random_view(rng, seed)
    # Named columns: a union of constants and columns has labels that appear twice.
    width = len(con.execute(sql).description)
    names = ", ".join(f"c{i}" for i in range(width))
    con.execute(f"CREATE MATERIALIZED VIEW v({names}) AS {sql}")
    try:
        for epoch in range(6):
            wanted = sorted(evaluate(base["e"], base["f"]))
            found = sorted(con.execute("FROM v").fetchall())
            assert found == wanted, f"seed {seed}, epoch {epoch}: {sql}"
            change(rng, con, base)
    finally:
        con.execute("DROP MATERIALIZED VIEW v")


@pytest.mark.parametrize("block", range(2))
def test_random_maintained_programs(con, block):
    for seed in range(8 * block, 8 * (block + 1)):
        check_maintained(seed, con)


@pytest.mark.long
@pytest.mark.parametrize("block", range(10, 20))
def test_many_random_maintained_programs(con, block):
    for seed in range(100 * block, 100 * (block + 1)):
        check_maintained(seed, con)
