"""What a new view starts from: the sums that DuckDB computes are those that NumPy would."""

from __future__ import annotations

import random
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.circuit import Node
from tidewheel.engine.operators.join import Join
from tidewheel.engine.operators.linear import Concat
from tidewheel.engine.operators.tally import Tally
from tidewheel.planner import view_doubles, view_fill, view_heads


def decimal(unscaled: int, scale: int) -> str:
    return f"{Decimal(unscaled).scaleb(-scale, Context(prec=40)):f}"


TYPES = {
    "TINYINT": st.integers(-128, 127),
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "UBIGINT": st.integers(0, 2**64 - 1),
    "HUGEINT": st.integers(-(10**36), 10**36),
    "DECIMAL(9,2)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda v: decimal(v, 2)),
    "DECIMAL(15,2)": st.sampled_from([-(1 << 32), -1, 0, 1, (1 << 32) - 1, 1 << 32, 1 << 40]).map(
        lambda v: decimal(v, 2)
    ),
    "DECIMAL(18,0)": st.integers(-(10**18) + 1, 10**18 - 1),
    "DECIMAL(18,18)": st.integers(-(10**18) + 1, 10**18 - 1).map(lambda v: decimal(v, 18)),
    "DECIMAL(38,6)": st.integers(-(10**36), 10**36).map(lambda v: decimal(v, 6)),
    "DECIMAL(38,30)": st.integers(-(10**36), 10**36).map(lambda v: decimal(v, 30)),
    "BOOLEAN": st.booleans(),
    "DOUBLE": st.one_of(
        st.floats(-1e6, 1e6), st.sampled_from(["nan", "inf", "-inf", -0.0, 1e300, 5e-324])
    ),
    "FLOAT": st.one_of(st.floats(-1e6, 1e6, width=32), st.sampled_from(["nan", "-inf"])),
}
KEYS = {"VARCHAR": st.sampled_from("ab")}


def text(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'"


def aggregates(kind: str) -> str:
    if kind == "BOOLEAN":
        return "bool_and(x), bool_or(x), count(x), count(*)"
    if kind in ("DOUBLE", "FLOAT"):
        return "sum(x), avg(x), count(x), var_pop(x), stddev(x)"
    return "sum(x), avg(x), count(x), count(*), count(DISTINCT x)"


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("key", [None, "VARCHAR"])
@pytest.mark.parametrize("kind", TYPES)
def test_nothing_is_left_when_all_rows_go(kind: str, key: str | None, data: st.DataObject) -> None:
    row = st.tuples(
        st.one_of(st.none(), KEYS[key]) if key else st.none(), st.one_of(st.none(), TYPES[kind])
    )
    rows = data.draw(st.lists(row, max_size=12))
    table = f"CREATE TABLE t (i INTEGER, g {key or 'VARCHAR'}, x {kind})"
    group = "g, " if key else ""
    by = " GROUP BY g" if key else ""
    query = f"SELECT {group}{aggregates(kind)} FROM t WHERE i >= 0{by}"
    with tidewheel.connect() as con, duckdb.connect() as oracle:
        for at in (con.cursor(), oracle):
            at.execute(table)
            for i, (g, x) in enumerate(rows):
                at.execute(f"INSERT INTO t VALUES ({i}, {text(g)}, {text(x)})")
        try:
            expected = oracle.execute(query).fetchall()
        except duckdb.OutOfRangeException:
            return
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]
        assert_same(con.execute("FROM v").fetchall(), expected)
        half = len(rows) // 2
        for gone in (f"i < {half}", f"i = {half}", "true"):
            for at in (con.cursor(), oracle):
                at.execute(f"DELETE FROM t WHERE {gone}")
            assert_same(con.execute("FROM v").fetchall(), oracle.execute(query).fetchall())
        for operator in accumulates(con):
            for arrangement in operator.arrangements():
                assert not len(arrangement.contents())


def accumulates(con: tidewheel.Connection) -> list[Accumulate]:
    plan = con._session.views._maintainer.views["memory.main.v"].plan
    nodes = plan.circuit.nodes
    return [node.op for node in nodes if isinstance(node.op, Accumulate)]


def assert_same(got: list[tuple[Any, ...]], want: list[tuple[Any, ...]]) -> None:
    """Floats but for their last digits: an average is rounded once, DuckDB's more often."""

    def plain(row: tuple[Any, ...]) -> list[str]:
        return [repr(v) for v in row if not isinstance(v, float)]

    def floats(row: tuple[Any, ...]) -> list[float]:
        return [v for v in row if isinstance(v, float)]

    got, want = sorted(got, key=plain), sorted(want, key=plain)
    assert list(map(plain, got)) == list(map(plain, want))
    for row, other in zip(got, want, strict=True):
        assert floats(row) == pytest.approx(floats(other), rel=1e-8, nan_ok=True)


def test_macros_with_the_names_of_what_the_filling_calls() -> None:
    query = "SELECT g, sum(d) AS s, count(*) AS n FROM t GROUP BY g"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (g INTEGER, d DOUBLE, x DECIMAL(30, 4))")
        con.execute("INSERT INTO t VALUES (1, 1.25, 2), (1, -3.5, 4), (2, 'nan', 5)")
        expected = con.execute(f"{query} ORDER BY g").fetchall()
        for name in ("trunc", "abs", "isfinite", "min", "max"):
            con.execute(f"CREATE MACRO {name}(x) AS 42")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert str(con.execute("FROM v ORDER BY g").fetchall()) == str(expected)


def test_what_a_view_reads_many_times_is_planned_once() -> None:
    """Chains whose plans share what is below: a walk that forgets where it was would not end."""
    count = 14
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i::INTEGER AS k FROM range(120_000) r(i)")
        con.execute("CREATE TABLE d AS SELECT i::INTEGER AS k, i + 1 AS v FROM range(20) r(i)")
        values = ", ".join(f"d{i}.v AS v{i}" for i in range(count))
        joins = " ".join(f"LEFT JOIN d d{i} ON d{i}.k = t.k + {i}" for i in range(count))
        con.execute(f"CREATE MATERIALIZED VIEW far AS SELECT t.k, {values} FROM t {joins}")
        con.execute("CREATE TABLE s AS FROM (VALUES (1), (1), (2)) t(k)")
        levels = ", ".join(
            f"c{i + 1} AS (SELECT DISTINCT x.k FROM c{i} x JOIN c{i} y ON x.k = y.k)"
            for i in range(9)
        )
        con.execute(f"CREATE MATERIALIZED VIEW deep AS WITH c0 AS (FROM s), {levels} FROM c9")
        joined = ", ".join(
            f"c{i + 1} AS (SELECT x.k FROM c{i} x JOIN c{i} y ON x.k = y.k)" for i in range(9)
        )
        once = "c0 AS (SELECT DISTINCT k FROM s)"
        con.execute(f"CREATE MATERIALIZED VIEW wide AS WITH {once}, {joined} FROM c9")
        assert con.execute("FROM deep ORDER BY k").fetchall() == [(1,), (2,)]
        con.execute(
            "INSERT INTO s VALUES (3); DELETE FROM s WHERE k = 2; DELETE FROM d WHERE k = 0"
        )
        con.execute("UPDATE t SET k = -1 WHERE k = 7")
        for view in ("deep", "wide"):
            assert con.execute(f"FROM {view} ORDER BY k").fetchall() == [(1,), (3,)]
        for view in ("deep", "wide", "far"):
            assert con.execute(f"VERIFY VIEW {view}").fetchall() == []


@pytest.mark.parametrize("value", ["2.9e-144", "1e-143", "5e-324", "3e-308", "-1.1e-160"])
def test_sums_and_squares_of_the_smallest_doubles(value: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (g INTEGER, x DOUBLE)")
        con.execute(f"INSERT INTO t VALUES (1, {value}), (1, {value} * 3), (2, 1), (2, {value})")
        for aggregates in ("sum(x) AS s", "sum(x) AS s, var_pop(x) AS v"):
            for where in ("true", "g = 1"):
                con.execute(
                    "CREATE OR REPLACE MATERIALIZED VIEW v AS "
                    f"SELECT g, {aggregates} FROM t WHERE {where} GROUP BY g"
                )
                assert con.execute("VERIFY VIEW v").fetchall() == []
        con.execute("INSERT INTO t VALUES (1, 1)")
        con.execute("DELETE FROM t WHERE x = 1")
        assert con.execute("VERIFY VIEW v").fetchall() == []


def nodes_of(con: tidewheel.Connection, view: str) -> list[Node]:
    circuit, _ = con._session.views.circuit(f"memory.main.{view}")
    assert circuit is not None
    return [n for n in circuit.nodes if n is not None]


def follow(
    con: tidewheel.Connection,
    oracle: duckdb.DuckDBPyConnection,
    queries: dict[str, str],
    *changes: str,
) -> None:
    """At first and after each change the views `v_…` have what DuckDB computes."""
    for change in ("SELECT 1", *changes):
        for at in (con, oracle):
            at.execute(change)
        for name, query in queries.items():
            got = sorted(map(str, con.execute(f"FROM v_{name}").fetchall()))
            assert got == sorted(map(str, oracle.execute(query).fetchall())), (name, change)


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "ANTI"])
@pytest.mark.parametrize("same", ["=", "IS NOT DISTINCT FROM"])
@pytest.mark.parametrize("empty", ["", "a", "b"])
@pytest.mark.parametrize("only", ["", " AND a.x + 8 <> b.y", " AND (a.x > b.y OR b.t > 'p')"])
def test_outer_and_anti_joins_are_filled_by_a_statement(
    kind: str, same: str, empty: str, only: str
) -> None:
    joined = f"a {kind} JOIN b ON a.k {same} b.k AND a.t {same} b.t{only}"
    shown = "a.x, a.k" if kind == "ANTI" else "a.x, a.k, b.k AS bk, b.y"
    sums = "count(*), sum(a.x)" if kind == "ANTI" else "count(*), sum(a.x), sum(b.y), count(b.k)"
    queries = {
        "rows": f"SELECT {shown} FROM {joined}",
        "sums": f"SELECT a.k, {sums} FROM {joined} GROUP BY a.k",
        "twice": f"SELECT c.k, j.x FROM (SELECT {shown} FROM {joined}) j LEFT JOIN b c USING (k)",
    }
    rows = "(VALUES (1, 'p'), (1, 'p'), (2, 'q'), (NULL, 'r'), (NULL, NULL), ({n}, 'p')) v(k, t)"
    with tidewheel.connect() as con, duckdb.connect() as oracle:
        for at in (con, oracle):
            for table, column, n in (("a", "x", 3), ("b", "y", 4)):
                made = f"SELECT *, k * 7 + {n} AS {column} FROM {rows.format(n=n)}"
                at.execute(f"CREATE TABLE {table} AS {made} WHERE {table != empty}")
        for name, query in queries.items():
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
        joins = [n for n in nodes_of(con, "v_sums") if isinstance(n.op, Concat)]
        assert joins
        assert not any(n.steps for n in joins)
        follow(
            con,
            oracle,
            queries,
            "DELETE FROM b WHERE k = 1",
            "INSERT INTO b FROM a",
            "UPDATE a SET k = 4, x = 9 WHERE k = 2 OR k IS NULL AND t IS NULL",
            "DELETE FROM a",
        )


@pytest.mark.parametrize("given", ["(2, 'q'), (9, 'r')", "(2, 'q'), (NULL, 'r')", "(2, NULL)", ""])
def test_what_is_not_in_a_query_is_counted_by_statements(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NOT IN looks whether there is a NULL, or any row: a total, which DuckDB joins."""
    monkeypatch.setattr(view_fill, "MANY", 10)
    kept = "FROM a WHERE k NOT IN (SELECT k FROM b WHERE t <> 'z')"
    queries = {
        "different": f"SELECT t, count(DISTINCT x) {kept} GROUP BY t",
        "pairs": f"SELECT t, count(DISTINCT k), count(DISTINCT (k, x)) {kept} GROUP BY t",
        "all": f"SELECT count(DISTINCT t), count(DISTINCT k) {kept}",
        "rows": f"SELECT DISTINCT k, t {kept}",
        "more": "SELECT t, count(*) FROM a WHERE x > (SELECT sum(k) FROM b) GROUP BY t",
    }
    with tidewheel.connect() as con, duckdb.connect() as oracle:
        for at in (con, oracle):
            at.execute(
                "CREATE TABLE a AS SELECT i % 5 AS k, chr((112 + i % 3)::INTEGER) AS t, i % 4 AS x "
                "FROM range(40) AS r(i) UNION ALL FROM (VALUES (NULL, 'p', 1), (1, NULL, 2))"
            )
            at.execute("CREATE TABLE b (k INTEGER, t VARCHAR)")
            if given:
                at.execute(f"INSERT INTO b VALUES {given}")
        for name, query in queries.items():
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
        joins = [n for n in nodes_of(con, "v_different") if isinstance(n.op, Join | Tally)]
        assert len(joins) == 4
        assert not any(n.steps for n in joins)
        follow(
            con,
            oracle,
            queries,
            "INSERT INTO b VALUES (NULL, 'n')",
            "DELETE FROM b WHERE k IS NULL",
            "INSERT INTO a SELECT k + 1, t, x FROM a WHERE x = 2",
            "UPDATE b SET k = 3 WHERE k = 2",
            "DELETE FROM a WHERE k < 3",
            "DELETE FROM b",
        )


@pytest.mark.parametrize("rows", ["(1e16), (1.0), (-1e16)", "(1.0)", "('nan'), (1.0)", ""])
def test_a_total_stands_in_what_it_is_compared_in(
    rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where DuckDB's would be another: 1e16 + 1 - 1e16 is 1 here, and mostly 0 there."""
    monkeypatch.setattr(view_fill, "MANY", 10)
    with tidewheel.connect() as con, tidewheel.connect() as later:
        for at in (con, later):
            at.execute("CREATE TABLE d (x DOUBLE); CREATE TABLE b (k INTEGER, y DOUBLE)")
        filled = "INSERT INTO b SELECT i % 30, i / 80 FROM range(120) AS r(i)"
        con.execute(filled + (f"; INSERT INTO d VALUES {rows}" if rows else ""))
        queries = {
            "above": "SELECT k, y FROM b WHERE y > (SELECT sum(x) FROM d)",
            "lonely": "SELECT count(*), sum(y) FROM b WHERE y > (SELECT avg(x) FROM d) "
            "AND NOT EXISTS (FROM b c WHERE c.k = b.k + 7)",
            "spread": "SELECT k, y FROM b WHERE y < (SELECT stddev(x) + 2 FROM d)",
        }
        for name, query in queries.items():
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
            later.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
        joins = [n for n in nodes_of(con, "v_lonely") if isinstance(n.op, Join)]
        assert len(joins) == 2
        assert not any(n.steps for n in joins)
        later.execute(filled)
        later.execute(f"INSERT INTO d VALUES {rows}" if rows else "SELECT 1")
        for change in (
            "DELETE FROM b WHERE k = 3",
            "INSERT INTO d VALUES (0.5), (0.25)",
            "INSERT INTO b VALUES (41, 1.25), (48, 1.25)",
            "DELETE FROM d WHERE x < 0.4",
            "DELETE FROM b",
        ):
            for name in queries:
                found, expected = (
                    sorted(at.execute(f"FROM v_{name}").fetchall(), key=str) for at in (con, later)
                )
                assert found == expected, (name, change)
            con.execute(change)
            later.execute(change)
        assert con.execute("FROM v_above").fetchall() == []


@pytest.mark.parametrize("few", [True, False])
def test_exists_that_reads_no_column(few: bool) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT range AS a FROM range(9)")
        con.execute(f"CREATE TABLE u AS SELECT range AS b FROM range({0 if few else 3})")
        query = "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE b IS NOT NULL)"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in ("INSERT INTO u VALUES (NULL), (5)", "DELETE FROM u", "DELETE FROM t"):
            assert con.execute("VERIFY VIEW v").fetchall() == []
            con.execute(change)
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize(
    "join",
    ["LEFT JOIN t t{i} USING (k)", "FULL JOIN t t{i} USING (k)", "ANTI JOIN t t{i} ON false"],
)
def test_changes_of_both_sides_do_not_multiply_in_a_chain(join: str) -> None:
    """What is added without a partner and taken back with one cancels out, join by join."""
    count = 12
    joins = " ".join(join.format(i=i) for i in range(count))
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i::INTEGER AS k FROM range(4) r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t {joins}")
        con.execute("INSERT INTO t VALUES (7)")
        for change in ("INSERT INTO t VALUES (8), (9)", "DELETE FROM t WHERE k >= 8"):
            before = given_out(con)
            con.execute(change)
            assert given_out(con) - before < 40 * count
        assert con.execute("FROM v").fetchall() == [(5,)]


def given_out(con: tidewheel.Connection) -> int:
    """Rows that the operators of `v` gave their readers."""
    return sum(node.rows_out for node in nodes_of(con, "v"))


@pytest.mark.parametrize("digits", [1, 4, 9, 15, 17, 18, 19, 28, 36])
def test_sums_of_decimals_of_all_sizes(digits: int) -> None:
    """As large as their type allows, with as few and as many places as it can have."""
    rng = random.Random(digits)
    con = tidewheel.connect()
    for places in sorted({0, 1, digits // 2, digits - 1, digits}):
        most = 10**digits - 1
        values = [most, -most, most, 1, *(rng.randint(-most, most) for _ in range(6))]
        for end in (1 << 32, 10 ** max(places, 18 - places)):  # where they are cut otherwise
            near = (sign * end + by for sign in (1, -1) for by in (-1, 0, 1))
            values += [v for v in near if abs(v) <= most]
        few = min(most, 10**9)
        values += [rng.randint(-few, few) for _ in range(6)]
        kind = f"DECIMAL({digits}, {places})"
        exact = Context(prec=60)
        texts = [f"{Decimal(v).scaleb(-places, exact):f}" for v in values]
        rows = ", ".join(f"({i % 3}, '{text}'::{kind})" for i, text in enumerate(texts))
        con.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {rows}) AS r(g, d)")
        query = "SELECT g, sum(d) AS s, count(d) AS n, max(d) AS m FROM t GROUP BY g"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in (
            "",
            "DELETE FROM t WHERE d < 0",
            "INSERT INTO t FROM t WHERE g = 1 LIMIT 1",
            "DELETE FROM t",
        ):
            if change:
                con.execute(change)
            wanted = con.execute(query).fetchall()
            assert sorted(con.execute("FROM v").fetchall()) == sorted(wanted), kind
        sums = (a for op in accumulates(con) for a in op.arrangements())
        assert not any(len(a.contents()) for a in sums), kind
        con.execute("DROP MATERIALIZED VIEW v; DROP TABLE t")
    con.close()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "VARCHAR"])
def test_heads_of_groups_that_end_among_equal_values(
    kind: str, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heads are DuckDB's lists of the first values, and more rows may have the last of them."""
    monkeypatch.setattr(view_fill, "MANY", 100)
    query = "SELECT k, min(x) AS l, max(x) AS h FROM t GROUP BY k"
    least, most = {
        "BIGINT": ("'-9223372036854775808'", "'9223372036854775807'"),
        "DOUBLE": ("'-inf'", "'nan'"),
        "VARCHAR": ("''", "'zzzzzzzzzzzz'"),
    }[kind]
    alike = f"WHEN k = 0 THEN {least}::{kind}" if tied else ""
    with tidewheel.connect() as con:
        con.execute(
            f"CREATE TABLE t AS SELECT i AS id, k, CASE {alike} WHEN i < 5 THEN {least}::{kind} "
            f"WHEN i < 10 THEN {most}::{kind} ELSE (i % 7)::{kind} END AS x "
            "FROM (SELECT i, i % 5 AS k FROM range(5000) r(i))"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in (
            "DELETE FROM t WHERE id BETWEEN 7 AND 300",
            f"INSERT INTO t VALUES (9001, 2, {least}), (9002, 3, {most}), (9003, 4, NULL)",
            "DELETE FROM t WHERE id < 7 OR id IN (9001, 9003)",
            "DELETE FROM t WHERE x = (SELECT min(x) FROM t WHERE k = 2) AND id % 2 = 0",
            "DELETE FROM t WHERE k IN (0, 1) AND id > 305",
            "DELETE FROM t WHERE k = 4 AND id > 309",
        ):
            con.execute(change)
            got = con.execute("FROM v ORDER BY k").fetchall()
            assert str(got) == str(con.execute(f"{query} ORDER BY k").fetchall())


def test_keys_that_a_table_has_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_fill, "MANY", 100)
    query = "SELECT DISTINCT k FROM t WHERE k % 3 > 0"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i // 2 AS k FROM range(20000) r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in (
            "INSERT INTO t SELECT range FROM range(5000, 15000)",
            "DELETE FROM t WHERE k BETWEEN 10 AND 13000",
        ):
            con.execute(change)
            got = con.execute("FROM v ORDER BY k").fetchall()
            assert got == con.execute(f"{query} ORDER BY k").fetchall()


def test_what_restricts_groups_is_kept_once() -> None:
    """Also where its readers want other columns of it."""
    least = "(SELECT min(v) FROM s x, r y WHERE x.p = p.id AND y.q = x.q AND y.z = 1)"
    query = f"SELECT id, name, v FROM p, s, r WHERE p = id AND r.q = s.q AND z = 1 AND v = {least}"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE p (id INTEGER, name VARCHAR)")
        con.execute("CREATE TABLE s (p INTEGER, v INTEGER, q INTEGER)")
        con.execute("CREATE TABLE r AS SELECT i AS q, i % 2 AS z FROM range(40) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        vertices = con.execute("SELECT vertex FROM tidewheel_vertices()").fetchall()
        assert sum("inner join" in name for (name,) in vertices) == 3
        for change in (
            "INSERT INTO p SELECT i % 9, 'n' || i FROM range(20) r(i)",
            "INSERT INTO s SELECT i % 7, i % 5, i FROM range(40) r(i)",
            "DELETE FROM s WHERE v = 0 AND q < 20",
            "UPDATE p SET name = 'n5' WHERE id = 3",
        ):
            con.execute(change)
            got = con.execute("FROM v ORDER BY ALL").fetchall()
            assert got == con.execute(f"{query} ORDER BY ALL").fetchall()


@pytest.mark.parametrize("bits", [29, 31, 34, 53])
def test_doubles_of_more_rows_than_have_an_exact_sum(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Squares are added up apart then, or all by operators; the sums are the same."""
    monkeypatch.setattr(view_doubles, "EXACT", bits)
    values = [random.Random(i).uniform(-1, 1) * 10 ** (i % 9) for i in range(25)]
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (g INTEGER, x DOUBLE)")
        for i, x in enumerate(values):
            con.execute("INSERT INTO t VALUES (?, ?)", [i % 2, x])
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s, var_pop(x) AS p FROM t")
        exact = [Fraction(x) for x in values]
        mean = sum(exact) / len(exact)
        spread = sum((x - mean) ** 2 for x in exact) / len(exact)
        assert con.execute("FROM v").fetchall() == [(float(sum(exact)), float(spread))]
        con.execute("DELETE FROM t WHERE g = 0")
        con.execute("DELETE FROM t WHERE x <> ?", [values[1]])
        assert con.execute("FROM v").fetchall() == [(values[1], 0.0)]


def test_ends_of_groups_are_found_by_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one column, and of others."""
    monkeypatch.setattr(view_fill, "MANY", 100)
    made: list[str] = []
    held: list[view_heads.Lists] = []
    take = view_heads.Lists.take

    def counted(self: view_heads.Lists, run: Any, *asked: str) -> Any:
        def noted(sql: str) -> Any:
            made.append(sql)
            return run(sql)

        held.append(self)
        return take(self, noted, *asked)

    monkeypatch.setattr(view_heads.Lists, "take", counted)
    query = "SELECT g, min(x) AS l, max(x) AS h, max(y) AS m FROM t GROUP BY g"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i % 3 AS g, i AS x, -i AS y FROM range(900) AS r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert (len(made), len(held)) == (1, 3)
        assert not any(lists._wanted or lists._found for lists in held)
        for where in ("x < 60", "x > 880", "x BETWEEN 300 AND 800", "g = 1"):
            con.execute(f"DELETE FROM t WHERE {where}")
            assert_same(con.execute("FROM v").fetchall(), con.execute(query).fetchall())
