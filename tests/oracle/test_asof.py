"""Views over ASOF joins under random edits, against DuckDB: rows of both sides come and go."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pytest

import tidewheel
from tidewheel.engine.operators import shared
from tidewheel.engine.state import hashing
from tidewheel.planner import view_fill

KINDS = {
    "INTEGER": ["-3", "0", "1", "2", "3", "5", "8", "2147483647"],
    "BIGINT": ["-9223372036854775808", "0", "1", "2", "3", "9223372036854775807"],
    "DOUBLE": ["-1.5", "-0.0", "0.0", "0.5", "1", "2", "'inf'", "'-inf'", "'nan'"],
    "DATE": ["'2024-01-01'", "'2024-01-02'", "'2024-01-05'", "'infinity'", "'-infinity'"],
    "TIMESTAMP": ["'2024-01-01'", "'2024-01-02 00:00:01'", "'2024-01-05'", "'infinity'"],
    "DECIMAL(9,2)": ["-1.25", "0", "0.01", "3", "7"],
    "VARCHAR": ["''", "'a'", "'b'", "'somewhat longer'", "'somewhat longer still'"],
}
QUERIES = {
    "last": "SELECT a.i, b.t AS u FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t",
    "before": "SELECT a.i, a.t, b.t AS u FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.t < a.t",
    "next": "SELECT a.i, b.t AS u FROM a ASOF JOIN b ON a.k = b.k AND a.t <= b.t",
    "behind": "SELECT a.i, b.t AS u, b.k FROM a ASOF LEFT JOIN b ON b.t > a.t AND a.k = b.k",
    "alone": "SELECT a.i, b.t AS u FROM a ASOF LEFT JOIN b ON a.t >= b.t",
    "texts": "SELECT a.i, b.t AS u FROM a ASOF LEFT JOIN b ON a.h = b.h AND a.t > b.t",
    "keys": "SELECT a.i, b.t AS u FROM a ASOF JOIN b ON a.h = b.h AND a.k = b.k AND a.t < b.t",
    "itself": "SELECT x.i, y.t AS u FROM a x ASOF LEFT JOIN a y ON x.k = y.k AND x.t > y.t",
    "counted": "SELECT u, count(*) AS n FROM (SELECT b.t AS u FROM a ASOF LEFT JOIN b "
    "ON a.k = b.k AND a.t >= b.t) GROUP BY u",
    "further": "SELECT a.i, c.t AS u FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t "
    "JOIN c ON c.k = b.k",
    "filtered": "SELECT a.i, b.t AS u FROM (FROM a WHERE i % 3 > 0) a ASOF JOIN "
    "(FROM b WHERE j % 2 = 0) b ON a.k = b.k AND a.t >= b.t WHERE a.i <> 4",
    "chosen": "SELECT a.i, b.t AS u FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.t >= b.t "
    "AND a.i % 3 > 0 AND b.j % 2 = 0 AND a.t IS NOT NULL",
    "chosen_pairs": "SELECT a.i, b.t AS u FROM a ASOF JOIN b ON b.k = 1 AND a.t >= b.t "
    "AND (a.i % 3 > 0 OR a.k = 2) AND b.j % 2 = 0",
    "grouped": "SELECT a.i, b.t AS u, b.n FROM a ASOF LEFT JOIN (SELECT k, t, count(*) AS n FROM b "
    "GROUP BY ALL) b ON a.k = b.k AND a.t >= b.t",
    "listed": "SELECT a.k, list(a.i ORDER BY a.i) AS u FROM a ASOF JOIN b ON a.k = b.k "
    "AND a.t >= b.t WHERE a.i % 3 > 0 GROUP BY a.k",
}
WHOLE = "SELECT a.*, b.* FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.t >= b.t"
"""Of several partners at one place it may show any."""


def same(found: list[tuple[Any, ...]]) -> Counter[str]:
    """Rows to be compared; -0.0 stands at the place of 0.0, so either is right."""
    return Counter(repr([v + 0.0 if isinstance(v, float) else v for v in row]) for row in found)


def check(
    rng: random.Random, kind: str, start: int, edits: int, threads: int, kept: bool = True
) -> None:
    """Random transactions; all views after each. All are `kept` by operators, or one is not."""
    ids = iter(range(1 << 30))

    def some(table: str, n: int) -> str:
        found = []
        for _ in range(n):
            t = rng.choice([*KINDS[kind], "NULL"])
            k, h = rng.choice(["NULL", "1", "2", "3"]), rng.choice(["NULL", "'x'", "'y'", "'z'"])
            row = f"({next(ids)}, {k}, {h}, {t})"
            found += [row] * rng.choice([1, 1, 1, 2])
        return f"INSERT INTO {table} VALUES {', '.join(found)}"

    def edit() -> str:
        table, mod = rng.choice("aabbbc"), rng.randrange(2, 9)
        column = "j" if table == "b" else "i"
        where = f"WHERE {column} % {mod} = {rng.randrange(mod)}"
        return rng.choice(
            [
                some(table, rng.choice([1, 2, 9])),
                f"DELETE FROM {table} {where}",
                f"UPDATE {table} SET t = {rng.choice([*KINDS[kind], 'NULL'])} {where}",
                f"UPDATE {table} SET k = k % 3 + 1 {where}",
                f"DELETE FROM b WHERE t = (SELECT {rng.choice(['max', 'min'])}(t) FROM b)",
            ]
        )

    with tidewheel.connect(threads=threads) as con, duckdb.connect() as oracle:
        for at in (con, oracle):
            at.execute(f"CREATE TABLE a (i INTEGER, k INTEGER, h VARCHAR, t {kind})")
            at.execute(f"CREATE TABLE b (j INTEGER, k INTEGER, h VARCHAR, t {kind})")
            at.execute(f"CREATE TABLE c (i INTEGER, k INTEGER, h VARCHAR, t {kind})")
        if start:
            for statement in [some(table, start) for table in "abc"]:
                con.execute(statement)
                oracle.execute(statement)
        for name, query in [*QUERIES.items(), ("whole", WHOLE)]:
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for _ in range(edits):
            batch = [edit() for _ in range(rng.choice([1, 1, 3]))]
            for statement in batch if len(batch) == 1 else ["BEGIN", *batch, "COMMIT"]:
                con.execute(statement)
                oracle.execute(statement)
            for name, query in QUERIES.items():
                got = same(con.execute(f"FROM {name}").fetchall())
                assert got == same(oracle.execute(query).fetchall()), (name, batch)
            assert con.execute("VERIFY VIEW whole").fetchall() == [], batch
        reasons = con.execute("SELECT reason FROM tidewheel_views()").fetchall()
        assert kept == all(reason is None for (reason,) in reasons), reasons


@pytest.mark.parametrize(("start", "threads"), [(0, 1), (40, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_random_edits(kind: str, start: int, threads: int) -> None:
    check(random.Random(f"{kind} {start}"), kind, start, 5, threads)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_many_random_edits(seed: int) -> None:
    rng = random.Random(seed)
    check(rng, rng.choice(list(KINDS)), rng.choice([0, 20, 200]), 60, 1 + seed % 2)


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE"])
@pytest.mark.parametrize("times", [0, 1, 5])
def test_filled_by_statements(kind: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of large tables only; sides wait, are looked for, or are read at once."""
    monkeypatch.setattr(view_fill, "MANY", 1)
    monkeypatch.setattr(shared, "FEWER", 1)
    monkeypatch.setattr(shared, "ROW", 1)
    monkeypatch.setattr(shared, "TIMES", times)
    check(random.Random(f"{kind} {times}"), kind, 30, 5, 1)


@pytest.mark.parametrize("kind", ["INTEGER", "TIMESTAMP"])
def test_keys_that_share_a_hash(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that meets two is recomputed from then on; so some have a reason."""
    combine = hashing.combine
    monkeypatch.setattr(hashing, "combine", lambda h, v: combine(h, v) & np.uint64(1))
    check(random.Random(kind), kind, 40, 5, 1, kept=False)


def counted(con: tidewheel.Connection) -> list[int]:
    """Rows that the operator of `v` gave so far."""
    query = "SELECT rows_out FROM tidewheel_vertices() WHERE view_name = 'v' AND kind = 'asofjoin'"
    return [n for (n,) in con.execute(query).fetchall()]


def test_a_change_reaches_the_rows_up_to_the_next_one() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE a AS SELECT i FROM range(3000) r(i)")
        con.execute("CREATE TABLE b AS SELECT i * 100 AS t, i AS x FROM range(30) r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT i, x FROM a ASOF JOIN b ON i >= t")
        before = counted(con)[0]
        con.execute("INSERT INTO b VALUES (1050, 77)")
        assert counted(con) == [before + 100]
        con.execute("DELETE FROM b WHERE x = 77; INSERT INTO a VALUES (5000)")
        assert counted(con) == [before + 201]
        assert con.execute("SELECT x FROM v WHERE i = 5000").fetchall() == [(29,)]


def test_rows_that_went_are_passed_over() -> None:
    """Many of them, in runs that are not merged with those that have them."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE a AS SELECT i FROM range(10) r(i)")
        con.execute("CREATE TABLE b AS SELECT i AS t FROM range(20_000) r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT i, t FROM a ASOF LEFT JOIN b ON i >= t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT i, t FROM a ASOF LEFT JOIN b ON i < t")
        con.execute("DELETE FROM b WHERE t BETWEEN 5 AND 19_990")
        con.execute("INSERT INTO a VALUES (19_000), (19_995), (NULL)")
        assert con.execute("SELECT i, t FROM v WHERE i > 3 OR i IS NULL ORDER BY i").fetchall() == [
            *((i, min(i, 4)) for i in range(4, 10)), (19_000, 4), (19_995, 19_995), (None, None),
        ]  # fmt: skip
        for view in "vw":
            assert con.execute(f"VERIFY VIEW {view}").fetchall() == []
        con.execute("DELETE FROM b WHERE t < 3 OR t > 19_992")
        for view in "vw":
            assert con.execute(f"VERIFY VIEW {view}").fetchall() == []


@pytest.mark.parametrize("on", ["a.k = b.k AND a.i >= b.t", "a.i < b.t"])
def test_the_partner_is_chosen_before_duckdb_joins(
    on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two at one place DuckDB may take the other one, which the operator would not take back."""
    monkeypatch.setattr(view_fill, "MANY", 1)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE a AS SELECT i, i % 3 AS k, 'a' AS x FROM range(50) r(i)")
        con.execute("CREATE TABLE b AS SELECT i % 3 AS k, i // 9 AS t, i AS y FROM range(900) r(i)")
        query = f"SELECT a.*, b.* FROM a ASOF JOIN b ON {on}"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute(
            "SELECT steps FROM tidewheel_vertices() WHERE kind = 'asofjoin'"
        ).fetchall() == [(0,)]
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n, sum(y) AS s FROM v")
        for statement in (
            "DELETE FROM b WHERE y % 2 = 0",
            "DELETE FROM a WHERE i % 2 = 0",
            "INSERT INTO b SELECT i % 3, i // 9, i FROM range(0, 900, 7) r(i)",
            "DELETE FROM b WHERE y % 3 = 0",
        ):
            con.execute(statement)
            assert con.execute("VERIFY VIEW v").fetchall() == []
            assert con.execute("VERIFY VIEW w").fetchall() == []
