"""Subqueries and FROM items that read no table, but rows of a value (`bind_own_rows`).

Each against DuckDB: by operators, and as a maintained view under random edits.
"""

from __future__ import annotations

import random

import pytest

import tidewheel
from oracle.kept_queries import like_duckdb

SETUP = (
    "CREATE TABLE t(id INT, a INT, b INT, l INT[], tags VARCHAR[], d DOUBLE, js JSON, "
    "m MAP(VARCHAR, INT))",
    "CREATE TABLE u(id INT, a INT, b INT)",
    "INSERT INTO u VALUES (1, 1, 2), (2, 2, 1), (3, NULL, 3)",
)
QUERIES = """
select id, a + 1 as z, (select max(x + z) from unnest(l) q(x)) from t
select id, (select max(x) from unnest(l) q(x)) m from t
select id from t where exists (select 1 from unnest(tags) q(x) where x = 'a')
select id from t where not exists (select 1 from unnest(tags) q(x) where x = 'a' or x = t.tags[1])
select id, (select count(*) from unnest(l) q(x) where x > t.a) m from t
select id, (select sum(x*i) from unnest(l) with ordinality q(x,i)) m from t
select id, (select avg(x) from unnest(l) q(x)) m from t
select id, (select list(x order by x) from unnest(l) q(x)) m from t
select id, (select list(x) from unnest(l) q(x)) m from t
select id, (select max(v) from (values (a),(b)) q(v)) m from t
select id, (select count(*) from range(a) q(i) where i % 2 = 0) m from t
select id from t where a in (select unnest(l))
select id from t where a not in (select unnest(l))
select id from t where a not in (select x from unnest(l) q(x) where x is not null)
select id, a in (select x+b from unnest(l) q(x)) from t
select id, a > all (select x from unnest(l) q(x)) from t
select id, a = any (select x from unnest(l) q(x)) from t
select id, a <> all (select x from unnest(l) q(x)) from t
select id, (select string_agg(x, ',') from unnest(tags) q(x)) m from t
select id, (select count(*) from unnest(l) q(x) join u on u.id = q.x) m from t
select id, (select sum(u.a) from unnest(l) q(x) join u on u.id = q.x where u.b > t.b) m from t
select id, (select count(*) from u, unnest(t.l) q(x) where u.id = q.x) m from t
select id from t where exists (select 1 from u where u.id in (select unnest(t.l)))
select id, (select count(*) from u where exists (select 1 from unnest(t.l) q(x) where x = u.a)) from t
select id, (select count(*) from u where exists (select 1 from unnest(t.l) q(x) where x = u.a and u.b < t.b)) from t
select id, x, n from t, lateral (select x, count(*) n from unnest(l) q(x) group by x) z
select t.id, z.m from t left join lateral (select max(x) m from unnest(l) q(x)) z on true
select t.id, z.m from t left join lateral (select x m from unnest(l) q(x) where x > a) z on true
select t.id, z.x, z.i from t left join unnest(l) with ordinality z(x,i) on true
select t.id, z.x, z.i from t cross join unnest(l) with ordinality z(x,i)
select id, x from t left join unnest(l) q(x) on x > a and b is not null
select t.id, q.x, u.id from t left join unnest(t.l) q(x) on q.x <> t.b left join u on u.id = q.x
select id, i from t left join generate_series(1, a) g(i) on i % 2 = 0
select t.id, z.x, z.i, u.id from t cross join unnest(l) with ordinality z(x,i) join u on u.id = z.x
select t.id, z.x, u.id from t left join lateral (select x from unnest(l) q(x) where x <> b) z on true left join u on u.id = z.x
select k, sum(v) from t cross join lateral (values ('a', a), ('b', b)) z(k,v) group by k
select id, k, v from t cross join lateral (values ('a', a), ('b', b::decimal(10,2)), ('c', null)) z(k, v)
select id, k from t left join lateral (values (a), (b)) z(k) on true where k is distinct from 2
select i, (select count(*) from json_each(js)) from (select id i, js from t)
select i, (select string_agg(key, ',' order by key) from json_each(js)) from (select id i, js from t)
select t.id, (select max(kv.value) from unnest(map_entries(m)) z(kv)) from t
select a, max((select max(x) from unnest(l) q(x))) from t group by a
select a, count(*) from t group by a having (select count(*) from range(a) q(i)) > 1
select a, sum(b) s, (select count(*) from range(a) q(i) where i > 0) from t group by a
select id, a, b from t where (select count(*) from unnest(l) q(x)) > 1 order by (select min(x) from unnest(l) q(x)), id, a, b limit 3
select id, (select x from unnest(l) q(x) order by x limit 1) from t
select id, (select x from unnest(l) q(x) order by x desc nulls last limit 1 offset 1) from t
select id, (select a from unnest(l) q(a) order by a limit 1) from t
select id, (select max(a) from unnest(l) q(a)) from t
select id, (select max(t.a + q.a) from unnest(l) q(a)) from t
select id, (select sum(a) from unnest(l) q(a)) from t
select t.id, (select max(x) + u.a from unnest(l) q(x)) from t join u on t.a = u.a
select t.id, (select max(x) + u.a from unnest(l) q(x)) from t join u using (a)
select t.id, (select max(x) + a from unnest(l) q(x)) from t join u using (a)
select t.id, u.id from t join u on t.a = u.a and exists (select 1 from unnest(t.l) q(x) where x = u.b)
select t.id, u.id from t left join u on t.a = u.a and u.b in (select unnest(t.l))
select t.id, u.id from t left join u on t.a = u.a where exists (select 1 from unnest(l) q(x) where x = u.b or u.b is null)
select id, (select count(distinct x) from unnest(l) q(x)) from t
select id, (select count(*) filter (where x > 1) from unnest(l) q(x)) from t
select id, (select bool_or(x > a) from unnest(l) q(x)) from t
select id, (select median(x) from unnest(l) q(x)) from t
select id, (select count(*) from (select distinct x from unnest(l) q(x))) from t
select id, (select count(*) from (select x from unnest(l) q(x) union select unnest([a,b]))) from t
select id, (select max(x) from (select x from unnest(l) q(x) except select unnest([a,b])) z) from t
select id, (select max(x+y) from unnest(l) q(x), unnest([a,b]) r(y)) from t
select id, (select count(*) from unnest(l) q(x) where x in (select unnest([t.a, t.b]))) from t
select id, (select arg_max(x, -x) from unnest(l) q(x)) from t
select id, array(select x * 2 from unnest(l) q(x) where x > 0 order by x) from t
select id, (select max(len(x)) from unnest(tags) x) from t
select id, (select max(x) from unnest(tags) as q(x) where x like 'a%' || t.tags[1]) from t
select id, x from t, unnest(tags) as x where exists (select 1 from unnest(l) q(y) where y = len(x))
select t.id, y.z from t, lateral (select x as w from unnest(l) q(x)) x, lateral (select w * 2 as z from unnest([w, t.a]) r(w2)) y
with c as (select id, l, a from t where a > 0) select c.id, (select max(x) from unnest(c.l) q(x)) from c
select id, s from (select id, (select sum(x) from unnest(l) q(x)) s from t) where s > 2
select id, sum((select count(*) from unnest(l))) over (partition by a) from t
select id, (select max(x) from unnest(l) q(x) where x < (select max(b) from u)) from t
select id from t union all select (select max(x) from unnest(l) q(x)) from t
select id, (select max(x) from generate_series(a, b) g(x)) from t
select id, x from t, generate_series(a, b) g(x) where x <> 2
select id, (select list(distinct x order by x) from unnest(l) q(x)) from t
select id, a z, (select max(z) from unnest(l) q(z)) from t
select id, (select count(*) from unnest(l) t(x)) from t
select id, (select count(*) from unnest(l) t(l)) from t
select id, (select max(x) from (select x from unnest(t.l) q(x) where x < t.a) t) from t
select id, exists(select 1 from unnest(l) q(x) group by x having count(*) > 1) from t
select id, exists(from unnest(l) q(x) where x = a) from t
select id, d, (select max(x * d) from unnest(l) q(x)) from t
select distinct (select min(x) from unnest(l) q(x)) from t
select id, case when a > 1 then (select min(x) from unnest(l) q(x)) else (select max(x) from unnest(l) q(x)) end from t
select id, coalesce((select min(x) from unnest(l) q(x) where x > 5), -1) + a from t
select t.id, j.key, j.value from t, json_each(js) j where j.id is not null
select id, (select sum(x * d) from unnest(l) q(x)) from t
select id, (select avg(x + 0.5::double) from unnest(l) q(x)) from t
select id, (select x from unnest(l) q(x) order by -x limit 1) is null from t
""".strip().splitlines()  # noqa: E501
ANEW = (
    "select id, (select mode(x) from unnest(l) q(x)) is null from t",
    "select id, len((select list(distinct x) from unnest(l) q(x))) from t",
    "select id, (select list(x + y) from unnest(l) q(x), unnest(l) r(y)) is null from t",
    "select id, (select max(n) from (select row_number() over () n from unnest(l))) from t",
    "select a, (select max(x) from unnest(list(b order by b)) q(x)) from t group by a",
    "select id, x from t left join unnest(l) b(x) on x > 1",
)
"""What follows an order that is open, or reads more than columns."""
PARTS = 8


def edit(drawn: random.Random) -> str:
    def one() -> str:
        return drawn.choice(("NULL", "0", "1", "2", "3", "4"))

    def listed(items: list[str], kind: str) -> str:
        some = ", ".join(drawn.choice(items) for _ in range(drawn.randint(0, 4)))
        return drawn.choice(["NULL", f"[{some}]::{kind}[]", f"[{some}]::{kind}[]"])

    ints = listed(["NULL", "0", "1", "2", "3", "4"], "INT")
    texts = listed(["'a'", "'b'", "'ab'", "NULL"], "VARCHAR")
    js = drawn.choice(["NULL", "'{}'", """'{"x": 1, "y": null}'""", "'[1, 2]'"])
    m = drawn.choice(["NULL", "MAP {'k': 1, 'j': 2}", "MAP {}::MAP(VARCHAR, INT)"])
    key, d = drawn.randint(1, 5), drawn.choice(["0.5", "NULL", "1e10", "-2.5"])
    insert = f"INSERT INTO t VALUES ({key}, {one()}, {one()}, {ints}, {texts}, {d}, {js}, {m})"
    return drawn.choice(
        [
            insert,
            insert,
            f"DELETE FROM t WHERE id = {key}",
            f"UPDATE t SET a = {one()}, l = list_append(l, {one()}) WHERE id = {key}",
            f"INSERT INTO u VALUES ({key}, {one()}, {one()})",
            f"DELETE FROM u WHERE id = {key}",
        ]
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_like_duckdb(part: int) -> None:
    drawn = random.Random(part)
    setup = (*SETUP, *(edit(drawn) for _ in range(6)))
    like_duckdb(
        setup,
        (*QUERIES, *ANEW)[part::PARTS],
        edit,
        drawn,
        15,
        last=("DELETE FROM u", "DELETE FROM t"),
    )


def test_kept_by_their_changes() -> None:
    with tidewheel.connect() as con:
        for statement in SETUP:
            con.execute(statement)
        for query in (*QUERIES, *ANEW):
            con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
            told = "".join(row[-1] for row in con.execute("EXPLAIN VIEW v").fetchall())
            assert ("query recompute" in told) == (query in ANEW), query


def test_columns_called_like_those_of_the_plan() -> None:
    query = (
        "SELECT x.id, (SELECT max(i) + x.a_2 + y.a FROM unnest(x.l) q(i)) AS one, "
        "(SELECT max(i) + y.a_2 + x.a FROM unnest(y.l_3) q(i)) AS two FROM x, x y"
    )
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE x(id INT, a_2 INT, a INT, l_3 INT[], l INT[])")
        con.execute("INSERT INTO x VALUES (1, 100, 1, [5], [7, 1])")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("SET fusion = off")
        for read in (query, "FROM v"):
            assert con.execute(read).fetchall() == [(1, 108, 106)]


def test_measured_by_conditions_over_values() -> None:
    """The optimizer counts what such a condition leaves of a table, by the table's own names."""
    query = (
        "SELECT t.id, w.id AS other FROM t CROSS JOIN u w ANTI JOIN u ON w.a <> u.b "
        "WHERE EXISTS (SELECT 1 FROM range(0, 2) AS q(i) WHERE q.i::INT = w.a)"
    )
    with tidewheel.connect() as con:
        for statement in SETUP[:2]:
            con.execute(statement)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO t (id) VALUES (1)")
        con.execute("INSERT INTO u VALUES (5, 1, 1), (6, 2, 1)")
        assert con.execute("FROM v").fetchall() == [(1, 5)]


def test_a_second_row_is_an_error_that_changes_nothing() -> None:
    with tidewheel.connect() as con:
        for statement in SETUP:
            con.execute(statement)
        con.execute("INSERT INTO t (id, l) VALUES (1, [5])")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT id, (SELECT x FROM unnest(l) q(x)) FROM t"
        )
        with pytest.raises(tidewheel.Error, match="More than one row"):
            con.execute("INSERT INTO t (id, l) VALUES (2, [6, 7])")
        assert con.execute("FROM v").fetchall() == [(1, 5)]
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(1,)]
