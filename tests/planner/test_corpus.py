"""Every query of `corpus.sql`, taken apart, rewritten, fused and not: the answers are DuckDB's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from tidewheel.planner.context import Context, Settings
from tidewheel.planner.execute import run
from tidewheel.planner.logical import Block, Node
from tidewheel.planner.rewrites import rewritten
from tidewheel.planner.verify import verify
from tidewheel.sql.binder import bind

SETUP = """
CREATE TABLE t (a INTEGER, b INTEGER, s VARCHAR);
INSERT INTO t VALUES (1, 2, 'x'), (2, 3, 'y'), (2, 4, NULL), (NULL, 5, 'x'), (1, 6, 'Yy');
CREATE TABLE u (k INTEGER, c DOUBLE);
INSERT INTO u VALUES (1, 1.5), (1, 4), (3, 2.5), (NULL, 7), (2, 3);
CREATE TABLE w (a BIGINT, z INTEGER);
INSERT INTO w VALUES (1, 1), (2, 2), (4, 3), (NULL, 4);
CREATE TYPE level AS ENUM ('lo', 'mid', 'hi');
CREATE TABLE v (
    id INTEGER, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ, st STRUCT(x INTEGER, y VARCHAR),
    l INTEGER[], m MAP(VARCHAR, INTEGER), j JSON, en level, un UNION(num INTEGER, str VARCHAR),
    hu HUGEINT, uu UUID, bl BLOB, iv INTERVAL
);
INSERT INTO v VALUES
    (1, '2024-01-31', '2024-01-31 10:00:00', '2024-01-31 10:00:00+00', {'x': 1, 'y': 'p'},
     [1, 2, 3], MAP {'k': 7}, '{"k": [1, 2]}', 'hi', 5, 10, uuid_parse('a0'), 'ab'::BLOB,
     INTERVAL 2 DAY),
    (2, '2024-02-29', '2024-02-29 11:30:00', '2024-02-29 11:30:00+02', {'x': 2, 'y': NULL},
     [], MAP {}, '{"k": "v"}', 'lo', 'five', 3, NULL, NULL, INTERVAL 1 MONTH),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE VIEW values_view AS SELECT * FROM (VALUES (1, 'one'), (2, 'two')) AS q(n, word);
CREATE VIEW renamed_view(one, two) AS SELECT a, b FROM t WHERE b < 5;
CREATE VIEW nested_view AS SELECT r.one, x.word
    FROM renamed_view r JOIN values_view x ON r.one = x.n;
CREATE MACRO twice(x) AS x * 2;
CREATE MACRO total_of(x) AS sum(x);
""".replace("uuid_parse('a0')", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'")

CORPUS = Path(__file__).with_name("corpus.sql")
QUERIES = [
    line for line in CORPUS.read_text().splitlines() if line.strip() and not line.startswith("--")
]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    con.execute("SET arrow_lossless_conversion = true; SET python_enable_replacements = false")
    con.execute("SET TimeZone = 'UTC'")
    con.execute(SETUP)
    yield con
    con.close()


def _context(con: duckdb.DuckDBPyConnection, fusion: bool, threads: int) -> Context:
    return Context(con, Settings(threads=threads, fusion=fusion))


def _answer(node: Node, context: Context) -> pa.Table:
    stream = run(node, context)
    try:
        return pa.Table.from_batches(list(stream), stream.schema)
    finally:
        stream.close()


def _rows(con: duckdb.DuckDBPyConnection, table: pa.Table) -> list[tuple[Any, ...]]:
    con.register("__tw_answer", table)
    try:
        found = con.execute("FROM __tw_answer").fetchall()
    finally:
        con.unregister("__tw_answer")
    return [tuple(map(_plain, row)) for row in found]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isnan(value):
        return float(f"{value:.12g}")
    return repr(value) if isinstance(value, (list, dict, float)) else value


def _is_ordered(sql: str) -> bool:
    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return False
    return tree.args.get("order") is not None


@pytest.mark.parametrize("sql", QUERIES)
def test_every_way_gives_duckdbs_answer(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    expected = connection.sql(sql).to_arrow_table()
    rows = _rows(connection, expected)
    plan = bind(sql, _context(connection, False, 1))
    verify(plan)
    rewritten(plan, verify)
    assert not [b.reason for b in blocks(plan) if b.reason.startswith("internal")]
    ways = [(True, 1), (False, 1)]
    if QUERIES.index(sql) % 4 == 0:  # the sqllogictests run with two threads, too
        ways.append((False, 2))
    for fusion, threads in ways:
        got = _answer(plan, _context(connection, fusion, threads))
        assert got.schema.names == expected.schema.names
        assert got.schema.types == expected.schema.types
        found = _rows(connection, got)
        if _is_ordered(sql):
            assert found == rows, (fusion, threads)
        else:
            assert Counter(found) == Counter(rows), (fusion, threads)


def blocks(plan: Node) -> list[Block]:
    """The pieces of SQL that a plan keeps whole."""
    found = [plan] if isinstance(plan, Block) else []
    return [*found, *(b for child in plan.children for b in blocks(child))]
