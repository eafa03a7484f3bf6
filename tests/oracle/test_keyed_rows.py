"""Single rows inserted, updated and deleted by their keys, among all kinds of other statements.

What DuckDB is to do with them may wait; nobody may see that. Rows, their order where nothing is
updated, the counts of changed rows and the errors are DuckDB's, to the same statements; views are
their own queries.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidewheel

TABLES = (
    "CREATE TABLE one (id INTEGER PRIMARY KEY, a BIGINT, s VARCHAR, x DOUBLE)",
    "CREATE TABLE two (k VARCHAR, day DATE, n DECIMAL(30, 2) NOT NULL, ts TIMESTAMP, ok BOOLEAN, "
    "PRIMARY KEY (k, day))",
    "CREATE TABLE bare (a INTEGER, s VARCHAR NOT NULL, w TINYINT)",
    "CREATE TABLE bound (id BIGINT PRIMARY KEY, a INTEGER CHECK (a < 5), s VARCHAR UNIQUE)",
)
VIEWS = {
    "sums": "SELECT s, count(*) AS c, sum(a) AS t, count(x) AS m FROM one GROUP BY s",
    "floats": "SELECT id, x, 1 / x AS y FROM one WHERE s <> 'a'",
    "joined": "SELECT p.id, q.id AS other FROM one p JOIN one q ON q.a = p.id",
    "kept": "SELECT * FROM two WHERE n > 0",
    "days": "SELECT day, count(ok) AS c, max(ts) AS m FROM two GROUP BY day",
    "counted": "SELECT a, count(*) AS c FROM bare GROUP BY a",
    "checked": "SELECT a, list(id ORDER BY id) AS ids FROM bound GROUP BY a",
    "reach": "WITH RECURSIVE r(i) AS (SELECT 1::BIGINT UNION SELECT one.a FROM r JOIN one "
    "ON id = i) SELECT i FROM r",
}
DAYS = [dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
TIMES = [None, dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1, 2, 3, 4, 5), dt.datetime.max]
NUMBERS = [decimal.Decimal(n) for n in ("-1.25", "0", "7", "9999999999999999999999999999.99")]
TEXTS = [None, "", "a", "it's", "é", "ab" * 20]
FLOATS = [None, 0.0, 1.5, 1e300, float("nan"), 3]

Step = tuple[str, list[Any] | dict[str, Any] | None]


class Steps:
    """Random statements, as text and values."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def value(self, table: str, column: str) -> Any:
        pick = self.rng.choice
        if column == "id" and table == "bound":
            return pick(range(6))
        integers = {
            "id": pick(range(9)),
            "w": pick([1, -128, 127, 128, None]),
            "a": pick([0, 1, 2]),
        }
        if column in integers:
            wrong = {"a": [None, 2**40, "7", 1.5], "id": [None, "3", 2**31, True]}.get(column, [1])
            return pick(wrong) if self.rng.random() < 0.06 else integers[column]
        return pick(
            {
                "s": TEXTS, "x": FLOATS, "k": ["a", "b", "é", "", 5], "day": DAYS, "n": NUMBERS,
                "ts": TIMES, "ok": [True, False, None],
            }[column]
        )  # fmt: skip

    def row(self, table: str) -> list[Any]:
        return [self.value(table, column) for column in COLUMNS[table]]

    def step(self) -> list[Step]:
        """Mostly a single statement of one row; at times something else."""
        rng = self.rng
        table = rng.choice(list(COLUMNS))
        keys = KEYS[table]
        kind = rng.random()
        if kind < 0.4:
            return [self.insert(table)]
        if kind < 0.62 and keys:
            return [
                self.bound(f"DELETE FROM {table} WHERE {self.equal(keys)}", self.of(table, keys))
            ]
        if kind < 0.85 and keys:
            sets = rng.sample([c for c in COLUMNS[table] if c not in keys], rng.choice([1, 1, 2]))
            items = ", ".join(f"{c} = {self.added(c)}?" for c in sets)
            text = f"UPDATE {table} SET {items} WHERE {self.equal(keys)}"
            return [self.bound(text, self.of(table, [*sets, *keys]))]
        if kind < 0.88 and table in ("one", "bound"):
            low, high = sorted(rng.choices(range(10), k=2))
            where = rng.choice([f"BETWEEN {low} AND {high}", f"IN ({high}, {low}, {low + 1}, ?)"])
            head = rng.choice([f"DELETE FROM {table}", f"UPDATE {table} SET a = 3"])
            return [(f"{head} WHERE id {where}", [rng.randrange(9)] if "?" in where else None)]
        if kind < 0.91:
            count, start = rng.randrange(1, 5), rng.randrange(9)
            ids = pa.array(range(start, start + count), pa.int32())
            texts = pa.array([rng.choice(TEXTS) for _ in ids])
            small = pa.array([rng.choice([1, 2, None]) for _ in ids], pa.int64())
            table = rng.choice(["one", "bare"])
            batch = pa.table({"a": ids, "s": texts, "w": small.cast(pa.int8())})
            if table == "one":
                floats = pa.array([0.5] * count)
                batch = pa.table({"id": ids, "a": small, "s": texts, "x": floats})
            return [(f"INSERT INTO {table} FROM given", [batch])]
        if kind < 0.94:
            inner = [step for _ in range(rng.randrange(4)) for step in self.step()]
            inner = [s for s in inner if s[0] not in ("BEGIN", "COMMIT", "ROLLBACK")]
            return [("BEGIN", None), *inner, (rng.choice(["COMMIT", "ROLLBACK"]), None)]
        return [(rng.choice(OTHERS), None)]

    def insert(self, table: str) -> Step:
        """A row, at times of some columns only, or one that may replace or change another."""
        rng, columns, listed = self.rng, COLUMNS[table], ""
        if rng.random() < 0.4:
            columns = rng.sample(columns, rng.randrange(max(1, len(columns) - 1), len(columns) + 1))
            listed = f" ({', '.join(columns)})"
        row = self.of(table, columns)
        either, conflict, more = "", "", list[Any]()
        if rng.random() < 0.4:
            either = rng.choice(["OR REPLACE ", "OR IGNORE ", ""])
        if not either and rng.random() < 0.5:
            target = rng.choice(["", f" ({', '.join(KEYS[table] or ['a'])})"])
            conflict = f" ON CONFLICT{target} DO NOTHING"
            if rng.random() < 0.8:
                sets = rng.sample(COLUMNS[table], rng.choice([1, 1, 2]))
                items = [self.assigned(table, column) for column in sets]
                more = self.of(
                    table, [c for c, item in zip(sets, items, strict=True) if "?" in item]
                )
                conflict = conflict.replace("NOTHING", f"UPDATE SET {', '.join(items)}")
        marks, values = f"({', '.join('?' * len(row))})", row
        # which of two rows with one text comes is DuckDB's choice
        for _ in range(rng.choice([0, 0, 1, 2]) if table != "bound" else 0):
            marks, values = f"{marks}, {marks[: 3 * len(row)]}", [*values, *self.of(table, columns)]
        text = f"INSERT {either}INTO {table}{listed} VALUES {marks}{conflict}"
        return self.bound(text, [*values, *more])

    def assigned(self, table: str, column: str) -> str:
        """What an upsert sets a column to."""
        there = self.added(column).replace(column, self.rng.choice([column, f"{table}.{column}"]))
        return f"{column} = {there}{self.rng.choice(['?', f'excluded.{column}', 'EXCLUDED.a'])}"

    def of(self, table: str, columns: list[str]) -> list[Any]:
        return [self.value(table, column) for column in columns]

    def added(self, column: str) -> str:
        """Sometimes, of a number, that the value is added to what is there."""
        if column not in ("a", "x", "n") or self.rng.random() < 0.6:
            return ""
        return f"{column} {self.rng.choice('+-')} "

    def equal(self, keys: list[str]) -> str:
        return " AND ".join(f"{k} = ?" for k in self.rng.sample(keys, len(keys)))

    def bound(self, text: str, values: list[Any]) -> Step:
        """The statement with its values bound, or written into the text where that is the same."""
        if values and self.rng.random() < 0.1:
            for i in range(len(values)):
                text = text.replace("?", f"$p{i}", 1)
            return text, {f"p{i}": value for i, value in enumerate(values)}
        if self.rng.random() < 0.6 or not all(type(v) in (int, str, type(None)) for v in values):
            return text, values
        for v in values:
            shown = "NULL" if v is None else repr(v) if type(v) is int else f"'{_doubled(v)}'"
            text = text.replace("?", shown, 1)
        return text, None


COLUMNS = {
    "one": ["id", "a", "s", "x"],
    "two": ["k", "day", "n", "ts", "ok"],
    "bare": ["a", "s", "w"],
    "bound": ["id", "a", "s"],
}
KEYS = {"one": ["id"], "two": ["k", "day"], "bare": [], "bound": ["id"]}
OTHERS = (
    "UPDATE one SET a = a + 1 WHERE id < 4",
    "DELETE FROM one WHERE id IN (1, 2, 3)",
    "INSERT INTO one SELECT i + 20, i, 's', NULL FROM range(3) r(i)",
    "DELETE FROM one WHERE id >= 20",
    "INSERT INTO one VALUES (1, 2, 'x', 0.5) ON CONFLICT DO UPDATE SET a = 5",
    "TRUNCATE two",
    "DELETE FROM bare WHERE a = 1",
    "UPDATE two SET ok = NOT ok",
    "UPDATE one SET id = 8 WHERE id = 7",
    "CREATE INDEX IF NOT EXISTS i ON one (a)",
    "DROP INDEX IF EXISTS i",
    "SET default_null_order = 'nulls_first'",
    "CREATE OR REPLACE TABLE other AS FROM one",
    "ALTER TABLE bare ALTER a SET NOT NULL",
    "ALTER TABLE bare ALTER a DROP NOT NULL",
    "INSERT INTO bare (s, a) VALUES ('named', 4)",
)


def _doubled(text: str) -> str:
    return text.replace("'", "''")


def _run(con: Any, step: Step) -> object:
    """How many rows a statement changes, or the kind of its error."""
    try:
        text, values = step
        if text.endswith("FROM given"):
            assert isinstance(values, list)
            con.register("given", values[0])
            values = None
        done = con.execute(text, values)
        if isinstance(con, duckdb.DuckDBPyConnection):
            rows = done.fetchall()
            return rows[0][0] if rows and rows[0] else -1
        return done.rowcount
    except (tidewheel.Error, duckdb.Error) as error:
        return next(
            k for k in ("IntegrityError", "Error") if k in {c.__name__ for c in type(error).__mro__}
        )


def _check(ours: Any, theirs: Any, tables: bool) -> None:
    for name, query in VIEWS.items():
        got = Counter(map(repr, ours.execute(f"FROM {name}").fetchall()))
        assert got == Counter(map(repr, theirs.execute(query).fetchall())), name
    for table in COLUMNS if tables else ():
        text = f"FROM {table}"
        got, wanted = (list(map(repr, c.execute(text).fetchall())) for c in (ours, theirs))
        if KEYS[table]:  # an UPDATE with RETURNING, by which a change is captured, moves rows
            got, wanted = sorted(got), sorted(wanted)
        assert got == wanted, table


def _play(ours: Any, seed: int, steps: int) -> None:
    theirs = duckdb.connect()
    random_steps = Steps(seed)
    for con in (ours, theirs):
        for table in TABLES:
            con.execute(table)
    for name, query in VIEWS.items():
        ours.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    done: list[Step] = []
    for _ in range(steps):
        for step in random_steps.step():
            done.append(step)
            found, wanted = _run(ours, step), _run(theirs, step)
            if step[0].split()[0] in ("INSERT", "UPDATE", "DELETE"):
                assert found == wanted, done[-12:]
        if random_steps.rng.random() < 0.3:
            try:
                _check(ours, theirs, random_steps.rng.random() < 0.5)
            except AssertionError as error:
                error.add_note(f"seed {seed} after {done[-12:]}")
                raise
    _check(ours, theirs, True)
    for name in VIEWS:
        assert not ours.execute(f"VERIFY VIEW {name}").fetchall(), name


@pytest.mark.parametrize("seed", range(8))
def test_in_memory(seed: int) -> None:
    with tidewheel.connect() as ours:
        _play(ours, seed, 150)


@pytest.mark.parametrize("seed", range(100, 104))
def test_in_a_file(seed: int, tmp_path: Path) -> None:
    with tidewheel.connect(tmp_path / "t.db") as ours:
        _play(ours, seed, 120)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_in_memory_longer(seed: int) -> None:
    with tidewheel.connect() as ours:
        _play(ours, seed, 300)
