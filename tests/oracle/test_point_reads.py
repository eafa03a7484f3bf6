"""Rows of a view by values of its columns, found by an index of ours, against DuckDB."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidewheel
from tidewheel.engine.operators import sink
from tidewheel.engine.operators.sink import Sink

TABLE = "CREATE TABLE t (id INTEGER, g TINYINT, s VARCHAR, d DATE, u UBIGINT, x DOUBLE, b BOOLEAN)"
VIEWS = {
    "counted": "SELECT s, count(*) AS n, sum(id) AS total FROM t GROUP BY s",
    "rows": "SELECT * FROM t WHERE id % 5 > 0",
    "keys": 'SELECT g AS "Group", d, max(u) AS u, min(x) AS x FROM t GROUP BY g, d',
    "pairs": "SELECT p.s, q.g, p.d FROM t p JOIN t q ON p.id = q.g",
    "top": "SELECT DISTINCT id, s FROM t ORDER BY id DESC, s LIMIT 6",
    "same": "SELECT s, s AS other, b FROM t",
}
COLUMNS = {
    "counted": ["s", "n"],
    "rows": ["id", "g", "s", "d", "u", "x", "b"],
    "keys": ['"Group"', "d", "u", "group"],
    "pairs": ["s", "g", "d"],
    "top": ["id", "S"],
    "same": ["s", "other"],
}
TEXTS = ["a", "bb", "é", "it's", ""]
DAYS = [dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
ASKED: list[Any] = [
    *range(-1, 7),
    *TEXTS,
    *DAYS,
    None,
    2**63,
    300,
    -200,
    1.5,
    True,
    "1",
    "2020-01-01",
]


class Edits:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def row(self) -> list[Any]:
        pick = self.rng.choice
        return [
            self.rng.randrange(30), pick([0, 1, 2, 3, None]), pick([*TEXTS, None]),
            pick([*DAYS, None]), pick([0, 1, 2**64 - 1, None]), pick([0.5, 0.0, None]),
            pick([True, False, None]),
        ]  # fmt: skip

    def one(self) -> tuple[str, list[Any] | None]:
        rng = self.rng
        insert = f"INSERT INTO t VALUES ({', '.join('?' * 7)})"
        return rng.choice(
            [
                (insert, self.row()),
                (insert, self.row()),
                (f"DELETE FROM t WHERE id = {rng.randrange(30)}", None),
                (
                    f"UPDATE t SET s = '{rng.choice(['a', 'new'])}' WHERE g = {rng.randrange(4)}",
                    None,
                ),
                (f"UPDATE t SET g = g + 1, d = NULL WHERE id < {rng.randrange(9)}", None),
                ("INSERT INTO t SELECT id + 40, g, s, d, u, x, b FROM t WHERE g = 1", None),
                ("DELETE FROM t WHERE id >= 40", None),
            ]
        )


def query(rng: random.Random, name: str) -> tuple[str, Any]:
    """A point query: its text over the view, and what it is given."""
    asked = rng.sample(COLUMNS[name], rng.choice([1, 1, 1, 2]))
    values = [rng.choice(ASKED) for _ in asked]
    items = rng.choice(["*", *(", ".join(rng.sample(COLUMNS[name], n)) for n in (1, 2)), ""])
    told = rng.choice(["", "", "", "1", "true", "1 AS known", "count(*)", 'Count ( * ) AS "N n"'])
    text = f"FROM {name} WHERE {' AND '.join(f'{c} = ?' for c in asked)}"
    text += rng.choice(["", " LIMIT 1"]) if told else ""
    text = f"SELECT {told or items} {text}" if told or items else text
    if rng.random() < 0.15:
        text = f"SELECT EXISTS ({text}) AS known"
    if rng.random() < 0.3:
        for i in range(len(values)):
            text = text.replace("?", f"$v{i}", 1)
        return text, {f"v{i}": v for i, v in enumerate(values)}
    if rng.random() < 0.4 and all(type(v) in (int, str, dt.date) for v in values):
        for v in values:
            shown = f"DATE '{v}'" if isinstance(v, dt.date) else repr(v)
            text = text.replace("?", "'it''s'" if v == "it's" else shown, 1)
        return text, None
    return text, values


def answer(con: Any, text: str, given: Any) -> object:
    try:
        found = con.execute(text, given)
        named = [(d[0], str(d[1]).strip('"')) for d in found.description]
        return named, Counter(map(repr, found.fetchall()))
    except (tidewheel.Error, duckdb.Error):
        return "error"


def same(con: Any, oracle: Any, asked: tuple[str, Any], done: object) -> None:
    """Whether a text that is no number is looked at at all is DuckDB's choice."""
    wanted = answer(oracle, *asked)
    assert wanted == "error" or answer(con, *asked) == wanted, (asked, done)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(s, marks=pytest.mark.long) for s in range(2, 30))]
)
def test_like_duckdb(
    seed: int, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "_WORTH", 1 << 20 if seed % 2 else 30)
    monkeypatch.setattr(sink, "LEAF", 4)
    found: list[object] = []
    known = Sink.find
    monkeypatch.setattr(Sink, "find", lambda *a: found.append(known(*a)) or found[-1])
    rng = random.Random(seed)
    edits, oracle = Edits(rng), duckdb.connect()
    place = tmp_path / "t.db" if seed % 2 else ":memory:"
    with tidewheel.connect(place, threads=threads) as con:
        for at in (con, oracle):
            at.execute(TABLE)
            rng.seed(seed)
            for _ in range(40):
                at.execute(f"INSERT INTO t VALUES ({', '.join('?' * 7)})", edits.row())
        for name, sql in VIEWS.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            oracle.execute(f"CREATE VIEW {name} AS {sql}")
        for _ in range(25):
            done = [edits.one() for _ in range(rng.choice([1, 1, 3]))]
            kept = rng.random() < 0.8
            if len(done) > 1:
                con.execute("BEGIN")
                oracle.execute("BEGIN")
            for statement in done:
                con.execute(*statement)
                oracle.execute(*statement)
            asked = [query(rng, rng.choice(list(VIEWS))) for _ in range(6)]
            # within the transaction, if it is one, which an error would end
            same(con, oracle, ("SELECT n FROM counted WHERE s = ?", [rng.choice(TEXTS)]), done)
            if len(done) > 1:
                for at in (con, oracle):
                    at.execute("COMMIT" if kept else "ROLLBACK")
            for each in asked:
                same(con, oracle, each, done)
    assert sum(rows is not None for rows in found) > 20


@pytest.fixture
def con(monkeypatch: pytest.MonkeyPatch):
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i AS id, 's' || i % 3 AS s FROM range(9) r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS n FROM t GROUP BY s")
        for _ in range(2):
            con.execute("FROM v").fetchall()
        yield con


def asked(con: tidewheel.Connection, sql: str, given: Any = None) -> list[Any]:
    return con.execute(sql, given).fetchall()


def test_a_collation_that_comes_later(con) -> None:
    sql = "SELECT n FROM v WHERE s = 'S1'"
    assert asked(con, sql) == []
    con.execute("SET default_collation = 'nocase'")
    wanted = asked(con, "SELECT n FROM (SELECT s, count(*) AS n FROM t GROUP BY s) WHERE s = 'S1'")
    assert asked(con, sql) == wanted
    con.execute("RESET default_collation")
    assert asked(con, sql) == []


def test_names_that_come_later(con) -> None:
    sql = "SELECT n FROM v WHERE s = 's1'"
    assert asked(con, sql) == asked(con, sql) == [(3,)]
    con.execute("CREATE TEMP TABLE v AS SELECT 's1' AS s, 7 AS n")
    assert asked(con, sql) == [(7,)]
    con.execute("DROP TABLE v")
    assert asked(con, sql) == [(3,)]
    con.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT s, sum(id) AS n FROM t GROUP BY s")
    assert asked(con, sql) == [(12,)]
    con.execute("DROP MATERIALIZED VIEW v")
    with pytest.raises(tidewheel.ProgrammingError, match="v"):
        con.execute(sql)


def test_what_is_no_column_of_the_view(con) -> None:
    for sql in (
        "SELECT m FROM v WHERE s = 'a'",
        "SELECT EXISTS (SELECT m FROM v WHERE n = 1) AS e",
        "FROM v WHERE m = 1",
        "FROM w WHERE s = 'a'",
    ):
        with pytest.raises(tidewheel.ProgrammingError):
            con.execute(sql)
    assert asked(con, "SELECT current_date FROM v WHERE s = 's1'")[0][0].year > 2000
    assert asked(con, "SELECT v FROM v WHERE s = 's1'") == [({"s": "s1", "n": 3},)]
    with pytest.raises(tidewheel.Error):
        con.execute("FROM v WHERE s = ? AND n = ?", ["s1"])


def test_arrow_and_text_are_those_of_duckdb(con) -> None:
    for sql in ("FROM v WHERE s = 's1'", "SELECT n, s FROM v WHERE n = 3"):
        for _ in range(2):
            found = con.execute(sql).to_arrow_table()
        wanted = con.execute(sql.replace("WHERE", "WHERE true AND")).to_arrow_table()
        assert found.schema == wanted.schema
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))


def test_an_index_is_not_made_for_who_asks_once(con, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "_WORTH", 1)
    plan = con._session.database.maintainer.views["memory.main.v"].plan
    for n in range(4):
        held = plan.circuit.nodes[-1].op.state_bytes
        assert asked(con, "SELECT n FROM v WHERE s = ?", [f"s{n}"]) == ([(3,)] if n < 3 else [])
        assert (plan.circuit.nodes[-1].op.state_bytes > held) == (n == 2)
