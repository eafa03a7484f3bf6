"""Queries run here and on Spark: each must give the same multiset.

The statements are chosen for where the two engines differ in meaning, not in syntax: division,
integers from decimals, averages, the order of NULLs, days between dates, list indexes, recursion.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel
from tidewheel.engine.kernels.spark import Spark
from tidewheel.sql.check import check

SETUP = """
CREATE TABLE t AS
SELECT i, (i * 7 % 5)::DECIMAL(15, 2) / 4 AS f, (i * 7 % 5 + 0.25)::DECIMAL(15, 2) AS d,
       CASE WHEN i % 3 = 0 THEN NULL ELSE 'x' || i END AS s, DATE '2020-01-01' + i::INT AS dt,
       [i, i + 1] AS l, {'a': i, 'b': 'k'} AS st,
       TIMESTAMP '2020-01-01 10:00:00' + to_hours(i::INT) AS ts, i % 2 = 0 AS b,
       i::UBIGINT AS u, i::HUGEINT AS h, 'a'::ENUM ('a', 'b') AS e
FROM range(12) r(i);
CREATE TABLE edge (a INTEGER, b INTEGER);
INSERT INTO edge VALUES (1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (7, 8), (NULL, 2);
CREATE SCHEMA other;
CREATE TABLE other.t (i INTEGER);
INSERT INTO other.t VALUES (100);
CREATE VIEW v AS SELECT i, d FROM t WHERE i > 5;
CREATE TABLE empty (x INTEGER, y DECIMAL(10, 2));
"""

SAME = [
    "SELECT i, i / 3 AS x, i::HUGEINT AS h, avg(i) OVER () AS a FROM range(10) t(i)",
    "SELECT * FROM t",
    "SELECT v.i, v.d, o.i FROM v, other.t AS o WHERE d > 1",
    "SELECT i, i / 0, -i / 0, 0 / 0, d / i / 2, (d / 3)::INT, d::INT, f::INT, -d::INT FROM t",
    """SELECT avg(DISTINCT d) FILTER (i > 1), avg(d), avg(i), log(f + 1), extract(dow FROM dt),
              dayofweek(dt) FROM t GROUP BY f, dt""",
    """SELECT quantile_cont(f, 0.5), quantile_disc(f, 0.5), median(d), stddev(f), var_pop(f),
              arg_max(i, f * 100 + i), count(DISTINCT s), bool_or(b) FROM t""",
    "SELECT s, count(*) FROM t GROUP BY s ORDER BY s NULLS FIRST LIMIT 3",
    "SELECT i, s FROM t ORDER BY s DESC, i LIMIT 5",
    "SELECT string_agg(s, ',' ORDER BY i DESC), list(i ORDER BY i) FROM t",
    "SELECT i % 3 AS k, list(s ORDER BY i DESC), list(s ORDER BY s, i), list(DISTINCT s ORDER BY s "
    "DESC NULLS FIRST), list(s ORDER BY i) FILTER (i > 100), first(s ORDER BY i DESC), "
    "last(s ORDER BY i), any_value(s ORDER BY i), sum(d ORDER BY i) FROM t GROUP BY k",
    "SELECT list(x), list(x ORDER BY x), first(x ORDER BY x), any_value(x ORDER BY x) FROM empty",
    "SELECT i, list(s ORDER BY i) OVER (PARTITION BY b), "
    "any_value(s ORDER BY i) FILTER (b) OVER () FROM t",
    """SELECT list_contains(x, 1), list_position(x, 1), list_position(x, NULL), len(x), x && [1],
              list_has_all(x, [1]), list_has_all([1, 2], x), list_concat(x, [3]), list_cat([0], x),
              list_sort(list_distinct(x)), len(list_distinct(x)), list_unique(x), list_count(x),
              list_reverse(x), list_first(x), list_last(x), contains(x, 1), [y + 1 for y in x],
              [y for y in x if y > 1]
       FROM (VALUES ([1, 2, 2]), ([NULL, 1]), ([NULL]), ([]), (NULL)) AS v(x)""",
    "SELECT x[2:3], x[:2], x[2:], list_slice(x, 2, 2), array_slice(x, 3, 9), 'abcd'[2:3] "
    "FROM (VALUES ([1, 2, 3, 4]), ([1]), ([]), (NULL)) AS v(x)",
    "SELECT element_at(x, 'a'), map_keys(x), cardinality(x) "
    "FROM (VALUES (MAP {'a': 1}), (MAP {'b': 2}), (NULL)) AS v(x)",
    """SELECT isnan(x), isinf(x), isfinite(x), fmod(x, 2), round_even(x, 0)
       FROM (VALUES (2.5::DOUBLE), (-7.25), (NULL)) AS v(x)""",
    "SELECT isnan(x), isinf(x), isfinite(x) "
    "FROM (VALUES ('nan'::DOUBLE), ('infinity'::DOUBLE), ('-infinity'::DOUBLE), (1)) AS v(x)",
    "SELECT week(x), weekofyear(x), yearweek(x), isoyear(x), epoch(x), epoch_us(x) FROM "
    "(VALUES (TIMESTAMP '2024-12-30 12:34:56.789'), (TIMESTAMP '1969-12-31 23:59:59.5')) AS v(x)",
    "SELECT epoch_ms(ts), epoch_ms(dt), epoch_ms(i), epoch(dt) FROM t",
    """SELECT 'abc' SIMILAR TO 'a.*', 'abc' SIMILAR TO 'b', regexp_full_match('abc', 'a|abc'),
              prefix('abc', 'a'), suffix('abc', 'bc'), regexp_split_to_array('a1b22c', '[0-9]+')""",
    "SELECT t.i, (SELECT count(*) FROM times) AS n FROM times AS t WHERE i > 0",
    "SELECT kurtosis_pop(f), fsum(f), favg(f) FROM t",
    """SELECT json_array_length(x), json_keys(x)
       FROM (VALUES ('[1, 2]'::JSON), ('{"a": 1}'), ('[]'), (NULL)) AS v(x)""",
    "SELECT l[1], l[2], l[3], l[-1], st.a, st['b'], st, map {'k': i} AS m FROM t",
    "SELECT dt - DATE '2019-01-01', dt + 3, ts + INTERVAL 5 DAY, date_trunc('month', ts), "
    "date_diff('day', DATE '2019-01-01', dt), strftime(dt, '%Y-%m'), year(dt) FROM t",
    """SELECT i::VARCHAR || s, concat(s, 'a'), substr(s, 1, 1), upper(s), replace(s, 'x', 'y'),
              s LIKE 'x1%', regexp_matches(s, '1'), coalesce(s, 'z'), length(s), instr(s, '1')
       FROM t""",
    """SELECT CASE WHEN i > 3 THEN 'a' ELSE 'b' END AS k, sum(d * d * d), sum(f), min(s), max(dt),
              count(*) FILTER (b) FROM t GROUP BY k HAVING count(*) > 1""",
    """SELECT i, row_number() OVER (ORDER BY i), lag(i) OVER (ORDER BY i),
              sum(d) OVER (ORDER BY i ROWS BETWEEN 2 PRECEDING AND CURRENT ROW),
              avg(d) OVER (PARTITION BY i % 3), rank() OVER (PARTITION BY i % 3 ORDER BY d)
       FROM t""",
    "SELECT i, d FROM t QUALIFY row_number() OVER (PARTITION BY i % 3 ORDER BY d, i) = 1",
    "SELECT a, edge.b, sum(i) FROM t JOIN edge ON i = a GROUP BY GROUPING SETS ((a), (edge.b), ())",
    "SELECT i, EXISTS (SELECT 1 FROM edge WHERE a = i) FROM t",
    "SELECT i, (SELECT max(b) FROM edge WHERE a <= t.i) FROM t",
    "SELECT a FROM edge WHERE a NOT IN (SELECT b FROM edge WHERE b IS NULL)",
    "SELECT a FROM edge WHERE a NOT IN (SELECT a FROM edge)",
    """SELECT b, b IN (SELECT a FROM edge), b + 90 NOT IN (SELECT a FROM edge),
              a IN (SELECT x FROM empty), a IN (SELECT e.b FROM edge e WHERE e.a = edge.b),
              NOT (a IN (SELECT a FROM edge))
       FROM edge""",
    """SELECT CASE WHEN NOT b IN (SELECT a FROM edge) THEN 1 ELSE 0 END, count(*) FROM edge
       WHERE NOT (b IN (SELECT a FROM edge WHERE a < 9)) OR b IN (SELECT a FROM edge)
       GROUP BY ALL""",
    "SELECT * FROM t ANTI JOIN edge ON i = a",
    "SELECT i, unnest(l) AS u FROM t",
    "SELECT t.i, u.x FROM t, unnest(l) AS u(x)",
    """SELECT dt + INTERVAL 1 MONTH, dt - INTERVAL 1 DAY, (i * 0.5)::INT, 2.5::INT, 25e-1::INT,
              substr('hello', 0, 3), substr('hello', 0)
       FROM t WHERE dt > DATE '2020-01-01' + INTERVAL 3 DAY""",
    "SELECT d // 2, f // 2, i // 2, 7.5 // 2, -i // 2 FROM t",
    "SELECT arg_min(s, i), arg_max(s, -i), arg_min(i, f * 100 + i) FILTER (i > 3) FROM t",
    """SELECT left(s, -1), right(s, -1), left('abc', i - 2), right('abc', i - 2), left(s, 1),
              right(s, -99), left(s, -99)
       FROM t""",
    "SELECT avg(i * 0.5), avg(DISTINCT 0.5 + i), count(DISTINCT i + 0.25) FROM t",
    "SELECT monthname(dt), dayname(dt), extract(second FROM ts + INTERVAL 1.5 SECOND) FROM t",
    """SELECT date_part('dow', dt), isodow(dt), date_part('isodow', dt), weekday(dt),
              date_diff('month', DATE '2019-12-31', dt), date_diff('year', DATE '2019-12-31', dt),
              date_diff('hour', ts, ts + INTERVAL 150 MINUTE),
              date_diff('day', ts, TIMESTAMP '2020-02-01')
       FROM t""",
    "SELECT a FROM edge EXCEPT SELECT b FROM edge",
    "SELECT a FROM edge INTERSECT ALL SELECT b FROM edge",
    "FROM edge SELECT a + b AS c, c * 2 AS d",
    "SELECT * EXCLUDE (st, l) REPLACE (i * 2 AS i) FROM t",
    "SELECT i % 3, i // 3, -i // 3, i ** 2, round(f, 2), ceil(f), sqrt(i), greatest(i, 5) FROM t",
    "SELECT true AND NULL, NOT true, 1 IS DISTINCT FROM NULL, NULL = NULL",
    "SELECT max(x), count(*), sum(y), avg(y) FROM empty",
    "SELECT * FROM empty",
    "VALUES (1, 'a'), (2, NULL)",
    "WITH t AS (SELECT a AS i FROM edge) SELECT i FROM t",
    "WITH t AS (SELECT i FROM t WHERE i > 3) SELECT i FROM t",
]  # fmt: skip

RECURSIVE = {
    "union on a cycle": """
        WITH RECURSIVE c(x, y) AS (
            SELECT a, b FROM edge UNION SELECT c.x, e.b FROM c JOIN edge e ON c.y = e.a
        ) SELECT * FROM c""",
    "union all": """
        WITH RECURSIVE c(n, p) AS (
            SELECT 1, '1' UNION ALL
            SELECT b, p || '>' || b FROM c JOIN edge ON a = n WHERE length(p) < 9
        ) SELECT * FROM c""",
    "a step converted to its anchor's type": """
        WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 0.5 FROM c WHERE n < 4)
        SELECT * FROM c""",
    "in a subquery, reading an outer table expression": """
        WITH x AS (SELECT 3 AS m), t AS (SELECT i FROM t WHERE i > 3),
        y AS (WITH RECURSIVE q(n) AS (
            SELECT m FROM x UNION SELECT n + 1 FROM q, x WHERE n < 2 * m
        ) SELECT n FROM q)
        SELECT * FROM y, t WHERE y.n = t.i""",
    "two, the second over the first": """
        WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT b FROM r JOIN edge ON a = n),
        pairs(x, y) AS (
            SELECT r.n, r.n FROM r UNION
            SELECT x, b FROM pairs JOIN edge ON a = y JOIN r ON r.n = b
        ) SELECT * FROM pairs""",
    "an anchor that is empty": """
        WITH RECURSIVE c(n) AS (SELECT x FROM empty UNION SELECT n + 1 FROM c WHERE n < 5)
        SELECT count(*) FROM c""",
}

REFUSED = [
    ("SELECT list_distinct(l) FROM t", "any order"),
    ("SELECT kurtosis(f) FROM t", "kurtosis_pop"),
    ("SELECT l[-2:] FROM t", "positive numbers"),
    ("SELECT i, random() FROM t", r"random\(\) gives another answer"),
    ("SELECT regexp_replace(s, 'x', 'y') FROM t", "give it 'g' here, too"),
    ("SELECT hash(i) FROM t", r"hash\(\) gives another answer"),
    ("SELECT * FROM t ASOF JOIN edge ON i >= a", "Spark cannot run this query"),
    ("SELECT * FROM (SELECT TIME '10:00:00' AS x), times", "x is of type time64.*does not read"),
]


@pytest.fixture(scope="module")
def connection() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as connection:
        connection.execute(SETUP)
        connection.execute("CREATE TABLE times AS SELECT TIME '10:00:00' AS x, 1 AS i")
        yield connection


@pytest.mark.parametrize("sql", SAME)
def test_same(connection: tidewheel.Connection, spark: Spark, sql: str) -> None:
    checked = check(connection, sql, spark)
    assert checked.same, checked.comparison


@pytest.mark.parametrize("sql", RECURSIVE.values(), ids=RECURSIVE.keys())
def test_recursion(connection: tidewheel.Connection, spark: Spark, sql: str) -> None:
    checked = check(connection, sql, spark)
    assert checked.same, checked.comparison
    assert checked.comparison.left_rows > 0


@pytest.mark.parametrize(("sql", "reason"), REFUSED)
def test_refused(connection: tidewheel.Connection, spark: Spark, sql: str, reason: str) -> None:
    with pytest.raises(tidewheel.NotSupportedError, match=reason):
        check(connection, sql, spark)
    assert check(connection, "SELECT a FROM edge", spark).same  # the session is none the worse


@pytest.mark.parametrize("sql", ["", "SELECT 1; SELECT 2", "CREATE TABLE x (i INTEGER)"])
def test_not_a_query(connection: tidewheel.Connection, spark: Spark, sql: str) -> None:
    with pytest.raises(tidewheel.ProgrammingError, match="query"):
        check(connection, sql, spark)


def test_a_syntax_error_is_none_of_sparks(connection: tidewheel.Connection, spark: Spark) -> None:
    with pytest.raises(tidewheel.ProgrammingError, match='syntax error at or near "selec"'):
        check(connection, "selec 1", spark)


def test_a_difference_is_found(connection: tidewheel.Connection, spark: Spark) -> None:
    """The text before the first character is empty here; Spark starts at the first."""
    checked = check(connection, "SELECT substr('hello', x, 2) FROM range(2) v(x)", spark)
    assert not checked.same
    assert (checked.comparison.left_rows, checked.comparison.right_rows) == (2, 2)
    assert checked.comparison.only_left == [(1, ("h",))]
    assert checked.comparison.only_right == [(1, ("he",))]


def test_a_parquet_file_is_a_table(
    connection: tidewheel.Connection, spark: Spark, tmp_path: object
) -> None:
    path = f"{tmp_path}/t.parquet"
    connection.execute(f"COPY (SELECT i, d FROM t) TO '{path}' (FORMAT parquet)")
    assert check(connection, f"SELECT sum(d) FROM '{path}'", spark).same
    assert check(connection, f"SELECT i FROM read_parquet('{path}') WHERE i > 3", spark).same


def test_nothing_is_left_behind(connection: tidewheel.Connection, spark: Spark) -> None:
    check(connection, RECURSIVE["union on a cycle"], spark)
    assert [t.name for t in spark.session.catalog.listTables()] == []
