"""Maintained views of many shapes under random edits, against their query from scratch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import tidewheel

TABLES = (
    "CREATE TABLE t (a INT, b VARCHAR, d DECIMAL(15, 2), x DOUBLE)",
    "CREATE TABLE u (a INT, c VARCHAR, y DOUBLE)",
    "CREATE TABLE e (s BIGINT, d BIGINT)",
)

QUOTED_X, QUOTED_Z = "'x'", "'z'"

SHAPES = {
    f"s{i:02d}": line.strip().rstrip(";")
    for i, line in enumerate(Path(__file__).with_name("view_shapes.sql").read_text().splitlines())
    if not line.startswith("--")
}


def edit(rng: random.Random) -> str:
    """A statement that changes something, usually."""
    pick = rng.choice
    a, b = pick(["NULL", "1", "2", "3", "4"]), pick(["NULL", "''", "'x'", "'yy'"])
    kind = rng.random()
    if kind < 0.3:
        values = f"{a}, {b}, {pick(['NULL', '1.5', '-2.25'])}, {pick(['NULL', '0.1', '2.5', '-1'])}"
        return f"INSERT INTO t VALUES ({values})"
    if kind < 0.5:
        return f"INSERT INTO u VALUES ({a}, {pick(['NULL', QUOTED_X, QUOTED_Z])}, 0.5)"
    s, d = rng.randint(1, 6), rng.randint(1, 6)
    if kind < 0.72:
        return f"INSERT INTO e VALUES ({s}, {d})"
    if kind < 0.8:
        return f"DELETE FROM e WHERE s = {s}"
    if kind < 0.86:
        return f"DELETE FROM t WHERE a = {s}"
    if kind < 0.91:
        return f"UPDATE t SET a = a + 1, b = 'x' WHERE a = {s}"
    if kind < 0.95:
        return f"DELETE FROM u WHERE a = {s} AND c IS NOT NULL"
    return "DELETE FROM t WHERE a IS NULL"


def run(names: list[str], edits: int, seed: int, setup: Sequence[str] = TABLES) -> None:
    rng = random.Random(seed)
    con = tidewheel.connect()
    for sql in setup:
        con.execute(sql)
    for _ in range(8):
        con.execute(edit(rng))
    for name in names:
        con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {SHAPES[name]}")
    history = []
    for step in range(edits):
        if rng.random() < 0.25:  # several changes in one epoch
            statements = ["BEGIN", *(edit(rng) for _ in range(rng.randint(2, 6))), "COMMIT"]
        else:
            statements = [edit(rng)]
        for sql in statements:
            con.execute(sql)
            history.append(sql)
        if step % 4 == 0 or step == edits - 1:
            for name in names:
                wrong = con.execute(f"VERIFY VIEW v_{name}").fetchall()
                assert not wrong, f"{SHAPES[name]}\n{wrong[:5]}\nafter {history}"
    con.close()


GROUPS = [sorted(SHAPES)[i::6] for i in range(6)]


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_views_stay_right(group: int) -> None:
    run(GROUPS[group], 24, group)


OTHERS = [t.replace("TABLE ", "TABLE memory.main.") for t in TABLES]
"""Tables of the same names that must not be read."""
PLACES = {
    "a schema": ["CREATE SCHEMA o", *OTHERS, "USE o", *TABLES],
    "main behind a schema": ["CREATE SCHEMA o", *TABLES, "USE o"],
    "a database": ["ATTACH ':memory:' AS d", *OTHERS, "USE d", *TABLES],
    "a schema of a database": [
        *("ATTACH ':memory:' AS d", "CREATE SCHEMA d.o", *OTHERS),
        *("SET search_path = 'd.o'", *TABLES),
    ],
}


@pytest.mark.parametrize("place", PLACES)
def test_views_stay_right_elsewhere(place: str) -> None:
    at = list(PLACES).index(place)
    run(sorted(SHAPES)[at :: len(PLACES)], 12, at, PLACES[place])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_views_stay_right_for_long(seed: int) -> None:
    run(sorted(SHAPES), 200, seed)


def test_every_shape_is_kept_by_changes() -> None:
    with tidewheel.connect() as con:
        for sql in TABLES:
            con.execute(sql)
        for name, query in SHAPES.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        reasons = con.execute("SELECT view_name, reason FROM tidewheel_views()").fetchall()
        assert [r for r in reasons if r[1] is not None] == []


def test_views_over_views() -> None:
    con = tidewheel.connect()
    con.execute("CREATE TABLE t (g INT, v INT)")
    con.execute("CREATE MATERIALIZED VIEW a AS SELECT g, sum(v) AS s FROM t GROUP BY g")
    con.execute(
        "CREATE MATERIALIZED VIEW b AS SELECT count(*) AS n, max(s) AS m FROM a WHERE s > 1"
    )
    con.execute("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5)")
    assert con.execute("SELECT * FROM b").fetchall() == [(2, 5)]
    con.execute("DELETE FROM t WHERE g = 2")
    assert con.execute("SELECT * FROM b").fetchall() == [(1, 3)]
    con.execute("UPDATE t SET v = 0")
    assert con.execute("SELECT * FROM b").fetchall() == [(0, None)]
    con.close()


def test_a_deleted_edge_cuts_a_cycle_off() -> None:
    con = tidewheel.connect()
    con.execute("CREATE TABLE e (s BIGINT, d BIGINT)")
    con.execute(
        "CREATE MATERIALIZED VIEW r AS WITH RECURSIVE r(n) AS "
        "(SELECT 1::BIGINT UNION SELECT e.d FROM r JOIN e ON r.n = e.s) SELECT * FROM r"
    )
    con.execute("INSERT INTO e VALUES (1, 2), (2, 3), (3, 4), (4, 2), (4, 5)")
    assert sorted(con.execute("SELECT n FROM r").fetchall()) == [(i,) for i in range(1, 6)]
    con.execute("DELETE FROM e WHERE s = 1")
    assert con.execute("SELECT n FROM r").fetchall() == [(1,)]
    con.execute("INSERT INTO e VALUES (1, 4)")
    assert sorted(con.execute("SELECT n FROM r").fetchall()) == [(i,) for i in range(1, 6)]
    con.close()


NAMED_FIELDS = {
    "packed": 'SELECT struct_pack(a := a, "B c" := upper(b)) AS s, count(*) AS n FROM t GROUP BY s',
    "inserted": "SELECT struct_insert({'a': a}, n := x) AS s FROM t",
    "updated": "SELECT DISTINCT struct_update({'a': a, 'b': 2}, a := b) AS s FROM t",
    "breadth": "WITH RECURSIVE w (n) AS (SELECT 1::BIGINT UNION ALL SELECT e.d FROM e JOIN w ON "
    "e.s = w.n) SEARCH BREADTH FIRST BY n SET o CYCLE n SET c USING p SELECT n, o, c FROM w",
}


def test_structs_whose_fields_are_named_are_kept_by_changes() -> None:
    rng = random.Random(5)
    con = tidewheel.connect()
    for sql in TABLES:
        con.execute(sql)
    for name, query in NAMED_FIELDS.items():
        con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    assert con.execute("SELECT DISTINCT reason FROM tidewheel_views()").fetchall() == [(None,)]
    con.execute("INSERT INTO e VALUES (1, 2), (2, 3), (3, 1), (1, 4)")
    depths = con.execute("SELECT o.depth, count(*) FROM breadth GROUP BY 1 ORDER BY 1")
    assert depths.fetchall() == [(0, 1), (1, 2), (2, 1), (3, 1)]
    for _ in range(30):
        con.execute(edit(rng))
        for name in NAMED_FIELDS:
            assert con.execute(f"VERIFY VIEW {name}").fetchall() == [], name


SERIES = [
    "SELECT r.i, count(t.a) AS n FROM range(5) r(i) LEFT JOIN t ON t.a = r.i GROUP BY r.i",
    "SELECT n, a FROM t, generate_series(1, 3) g(n) WHERE a > n",
    "SELECT s.d, t.b FROM range(DATE '2024-01-01', DATE '2024-01-04', INTERVAL 1 DAY) s(d), t",
    "SELECT a, z FROM t JOIN unnest([1, 2, 2, NULL]) q(z) ON z IS NOT DISTINCT FROM a",
    "SELECT i FROM range(6) WITH ORDINALITY r(i, o) WHERE o NOT IN (SELECT a FROM u WHERE a < 9)",
]


def test_series_in_from_are_constants() -> None:
    rng = random.Random(6)
    con = tidewheel.connect()
    for sql in TABLES:
        con.execute(sql)
    for i, query in enumerate(SERIES):
        con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
    assert con.execute("SELECT DISTINCT reason FROM tidewheel_views()").fetchall() == [(None,)]
    for _ in range(20):
        con.execute(edit(rng))
        for i, query in enumerate(SERIES):
            assert con.execute(f"VERIFY VIEW v{i}").fetchall() == [], query


@pytest.mark.parametrize("rows", [1, 40])
def test_an_update_of_what_a_view_does_not_read(rows: int) -> None:
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE staff AS SELECT i AS id, i // 3 AS boss, 'n' || i AS name, i AS pay "
            "FROM range(1, 200) r(i)"
        )
        con.execute(
            "CREATE MATERIALIZED VIEW paths AS WITH RECURSIVE c(id, path) AS (SELECT id, name "
            "FROM staff WHERE boss = 0 UNION ALL SELECT s.id, path || '/' || s.name FROM c "
            "JOIN staff s ON s.boss = c.id) FROM c"
        )
        con.execute("FROM paths").fetchall()

        def passed() -> list[object]:
            return con.execute(
                "SELECT sum(rows_in) FROM tidewheel_vertices() "
                "WHERE view_name = 'paths' AND kind <> 'input'"
            ).fetchall()

        before = passed()
        con.execute(f"UPDATE staff SET pay = pay + 1 WHERE id <= {rows}")
        assert passed() == before
        con.execute(f"UPDATE staff SET pay = pay + 1, name = 'm' || id WHERE id <= {rows}")
        assert passed() != before
        assert con.execute("VERIFY VIEW paths").fetchall() == []
