"""Single rows inserted in autocommit, which views take row by row, among other statements.

The answers are DuckDB's, to the same statements and the views' own queries.
"""

from __future__ import annotations

import math
from collections import Counter

import duckdb
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tidewheel

TABLES = """
CREATE TABLE t (i INTEGER, b BIGINT, n DECIMAL(12, 2), d DATE, s VARCHAR, y TINYINT, x DOUBLE);
CREATE TABLE u (i INTEGER, s VARCHAR);
INSERT INTO u SELECT i, 's' || i % 3 FROM range(6) r(i);
"""
VIEWS = {
    "sums": "SELECT i, count(*), count(b), sum(b), sum(i), avg(n), sum(n) FROM t GROUP BY i",
    "texts": "SELECT s, d, min(i), sum(y) FROM t GROUP BY s, d",
    "pairs": "SELECT s, d, avg(b) AS a, sum(y + 1) AS total FROM t GROUP BY ALL",
    "by_decimal": "SELECT n, d IS NULL AS z, count(*), sum(b), max(y) FROM t GROUP BY ALL",
    "by_time": "SELECT d + INTERVAL 90 MINUTE AS h, count(*), min(i), sum(y) FROM t GROUP BY ALL",
    "total": "SELECT count(*), sum(b), avg(y), sum(x) FROM t",
    "one_group": "SELECT count(*), count(b), sum(b), avg(n), sum(n), sum(i) FROM t",
    "none": "SELECT count(*), sum(i) FROM t WHERE i > 99",
    "itself": "SELECT count(*), sum(p.b) FROM t p JOIN t q ON p.i = q.y",
    "doubles": "SELECT i % 3 AS k, sum(x), count(*) FROM t GROUP BY ALL",
    "having": "SELECT s FROM t GROUP BY s HAVING sum(i) > 2 AND count(*) < 4",
    "computed": "SELECT i * 3 - y AS a, i % 2 AS r, s FROM t WHERE n >= 0.5 AND d > '2020-01-02'",
    "either": "SELECT i, x FROM t WHERE (i = 1 OR y < 0) AND b IS NOT NULL",
    "distinct": "SELECT DISTINCT s, i FROM t",
    "joined": "SELECT u.s, count(*), sum(t.i) FROM t JOIN u USING (i) GROUP BY u.s",
    "over_a_view": "SELECT total, count(*) FROM v_pairs WHERE total > 1 GROUP BY total",
    "twice": "SELECT k, sum(c) FROM (SELECT i % 2 AS k, s, count(*) AS c FROM t GROUP BY ALL) "
    "GROUP BY k",
}
SMALL = st.sampled_from(["0", "1", "2", "3", "-1", "NULL"])
INSERT = st.tuples(
    SMALL,
    st.sampled_from(["0", "5", "9223372036854775807", "-9223372036854775808", "NULL"]),
    st.sampled_from(["0.5", "-1.25", "1", "9999999999.99", "NULL"]),
    st.sampled_from(["'2020-01-02'", "'2020-01-03'", "NULL"]),
    st.sampled_from(["'a'", "''", "'é'", "NULL"]),
    st.sampled_from(["126", "-128", "1", "0", "NULL"]),
    st.sampled_from(["0.1", "1e16", "-1e16", "NULL"]),
).map(lambda values: f"INSERT INTO t VALUES ({', '.join(values)})")
OTHER = st.one_of(
    SMALL.map(lambda i: f"DELETE FROM t WHERE i = {i}"),
    SMALL.map(lambda i: f"UPDATE t SET i = i + 1, s = NULL WHERE i = {i}"),
    SMALL.map(lambda i: f"INSERT INTO u VALUES ({i}, 's')"),
    st.just("INSERT INTO t (i, s) SELECT i, s FROM u"),
    st.just("DELETE FROM t"),
)
EDITS = st.lists(st.one_of(INSERT, INSERT, INSERT, OTHER), min_size=4, max_size=20)


@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(edits=EDITS, every=st.integers(4, 9))
def test_row_by_row(edits: list[str], every: int) -> None:
    theirs = duckdb.connect()
    theirs.execute(TABLES)
    with tidewheel.connect() as ours:
        ours.execute(TABLES)
        for name, query in VIEWS.items():
            ours.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
            ours.execute(f"FROM v_{name}").fetchall()
        theirs.execute(f"CREATE VIEW v_pairs AS {VIEWS['pairs']}")
        for i, edit in enumerate(edits, 1):
            ours.execute(edit)
            theirs.execute(edit).fetchall()
            if i % every and i < len(edits):
                continue
            for name, query in VIEWS.items():
                got = Counter(map(repr, ours.execute(f"FROM v_{name}").fetchall()))
                # DuckDB adds doubles up one by one, and loses 0.1 between -1e16 and 1e16
                rows = theirs.execute(query.replace("sum(x)", "list(x)")).fetchall()
                assert got == Counter(repr(tuple(map(_exact, row))) for row in rows), name


def _exact(value: object) -> object:
    """The sum of a list, rounded once; anything else as it is."""
    if not isinstance(value, list):
        return value
    known = [v for v in value if v is not None]
    return math.fsum(known) if known else None


def test_many_groups() -> None:
    """More groups than are kept at hand, and back to the first ones."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (g INTEGER, x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s FROM t GROUP BY g")
        con.execute("FROM v").fetchall()
        for i in range(5000):
            con.execute(f"INSERT INTO t VALUES ({i % 4200}, {i})")
        assert not con.execute("VERIFY VIEW v").fetchall()
        assert con.execute("SELECT count(*), sum(s) FROM v").fetchall() == [(4200, 12497500)]
