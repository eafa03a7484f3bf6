# ruff: noqa: E501
"""Grouped steps that keep the best values: which are refused and why, which are run as what."""

from __future__ import annotations

import pytest

import tidewheel

REFUSED = {
    "falls in a subquery": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT k, min(d) FROM (SELECT e.b AS k, 9 - p.w AS d FROM p JOIN e ON e.a = p.a) GROUP BY k)",
        "9 - p.w may become worse",
    ),
    "falls, columns unnamed": (
        "p AS (SELECT a, w FROM e UNION SELECT e.b, min(9 - p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b)",
        "9 - p.w may become worse",
    ),
    "falls in the second step": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b UNION SELECT e.b, 9 - p.w FROM p JOIN e ON e.a = p.a)",
        "9 - p.w may become worse",
    ),
    "falls in a table of its own WITH": (
        "p(a, w) AS (WITH q AS (SELECT a, 9 - w AS w FROM p) SELECT a, w FROM e UNION SELECT e.b, min(q.w) FROM q JOIN e ON e.a = q.a GROUP BY e.b)",
        "9 - w may become worse",
    ),
    "joined by a value that improves": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT y.a, min(x.w) FROM p x JOIN p y ON x.w = y.w GROUP BY y.a)",
        "may fail the condition x.w = y.w",
    ),
    "joined by what follows it": (
        "p(a, w, f) AS (SELECT a, w, b FROM e UNION SELECT e.b, min(p.w), arg_min(p.a, p.w) FROM p JOIN e ON e.a = p.f GROUP BY e.b)",
        "may fail the condition e.a = p.f",
    ),
    "in EXISTS": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a WHERE EXISTS (SELECT 1 FROM p q WHERE q.w > 3) GROUP BY e.b)",
        "may fail the condition q.w > 3",
    ),
    "a table that keeps all values": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(q.w) FROM q JOIN e ON e.a = q.a GROUP BY e.b), q(a, w) AS (SELECT a, w FROM e UNION SELECT a, w FROM p)",
        "a value that improves is used as a key",
    ),
    "the other way in another table": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT a, min(w) FROM q GROUP BY a), q(a, w) AS (SELECT a, w FROM e UNION SELECT a, max(w) FROM p GROUP BY a)",
        "w may become worse",
    ),
    "different values": (
        "p(a, v, w) AS (SELECT a, b, w FROM e UNION SELECT a, min(v), max(w) FROM p GROUP BY a UNION SELECT a, max(v), min(w) FROM p GROUP BY a)",
        "its steps keep different values",
    ),
    "UNION ALL beside it": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT a, min(w) FROM q GROUP BY a), q(a, w) AS (SELECT a, w FROM e UNION ALL SELECT a, 1 FROM p)",
        "no meaning with UNION ALL",
    ),
    "a product of what may be negative": (
        "p(a, b, w) AS (SELECT a, b, w FROM e UNION SELECT x.a, y.b, max(x.w * y.w) FROM p x JOIN p y ON x.b = y.a GROUP BY ALL)",
        r"x.w \* y.w may become worse",
    ),
    "CASE over the value": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(CASE WHEN p.w < 3 THEN 9 ELSE p.w END) FROM p JOIN e ON e.a = p.a GROUP BY e.b)",
        "CASE WHEN p.w < 3 THEN 9 ELSE p.w END may become worse",
    ),
    "CASE over the table": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(CASE WHEN EXISTS (FROM p q WHERE q.w < 3) THEN 9 ELSE p.w END) FROM p JOIN e ON e.a = p.a GROUP BY e.b)",
        "not monotone",
    ),
    "a value that is missing": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a WHERE p.w IS NULL GROUP BY e.b)",
        "may fail the condition p.w IS NULL",
    ),
    "HAVING the worse ones": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b HAVING min(p.w) > 3)",
        "HAVING may drop a group as its value improves",
    ),
    "HAVING, by its name": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) AS best FROM p JOIN e ON e.a = p.a GROUP BY e.b HAVING best > 3)",
        "it may compare the one aggregate that is selected",
    ),
    "HAVING another aggregate": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b HAVING min(e.w) < 3)",
        "it may compare the one aggregate that is selected",
    ),
    "HAVING one of two aggregates": (
        "p(a, v, w) AS (SELECT a, b, w FROM e UNION SELECT e.b, min(p.v), min(p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b HAVING min(p.v) < 3)",
        "it may compare the one aggregate that is selected",
    ),
    "a condition that holds for NULL": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a WHERE greatest(p.w, 3) < 9 GROUP BY e.b)",
        r"an improved value may fail the condition GREATEST\(p.w, 3\) < 9",
    ),
    "HAVING that holds for NULL": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b HAVING greatest(min(p.w), 3) < 9)",
        "HAVING may drop a group as its value improves",
    ),
    "HAVING over what another table improves": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b UNION SELECT a, 100 FROM q), q(a) AS (SELECT 1 UNION SELECT a FROM p GROUP BY a HAVING max(w) > 3)",
        r"an improved value may fail the condition MAX\(w\) > 3",
    ),
    "groups by a value that improves": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b UNION SELECT a, 100 FROM q), q(a) AS (SELECT 1 UNION SELECT a FROM p GROUP BY a, w HAVING count(*) > 0)",
        "a value that improves is a key of groups that HAVING chooses",
    ),
    "groups by all that HAVING reads": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b UNION SELECT a, 100 FROM q), q(a) AS (SELECT 1 UNION SELECT p.a FROM p JOIN p r ON r.a > p.a GROUP BY ALL HAVING count(*) > 1 AND r.w IS NOT NULL)",
        "a value that improves is a key of groups that HAVING chooses",
    ),
    "EXISTS over few rows": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(e.w) FROM e WHERE EXISTS (SELECT 1 FROM p WHERE p.a = e.a HAVING count(*) < 2) GROUP BY e.b)",
        "not monotone: it passes a HAVING without GROUP BY",
    ),
    "EXISTS over few rows, twice": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, e.w FROM e JOIN p q ON q.a = e.a WHERE EXISTS (SELECT 1 FROM p WHERE p.a = e.a HAVING count(*) < 2))",
        "not monotone: it passes a HAVING without GROUP BY",
    ),
    "HAVING a product": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, 7 FROM p JOIN e ON e.a = p.a GROUP BY e.b HAVING product(p.w) = 6)",
        "HAVING may hold for some rows and no longer for more",
    ),
    "a product": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, product(p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b)",
        "can become worse as rows are added",
    ),
    "a list as text": (
        "p(a, s) AS (SELECT a, 'x' FROM e UNION SELECT e.b, string_agg(s, '+' ORDER BY s) FROM p JOIN e ON e.a = p.a GROUP BY e.b)",
        r"not monotone: string_agg\(s, '\+' ORDER BY s\) can become worse",
    ),
    "FILTER by the worse ones": (
        "p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(p.w) FILTER (WHERE p.w > 3) FROM p JOIN e ON e.a = p.a GROUP BY e.b)",
        "an improved value may fail the condition p.w > 3",
    ),
    "FILTER of one of two that go together": (
        "p(a, w, f) AS (SELECT a, w, b FROM e UNION SELECT e.b, min(p.w) FILTER (WHERE e.w > 3), arg_min(p.a, p.w) FROM p JOIN e ON e.a = p.a GROUP BY e.b)",
        "arg_min needs the min that it follows",
    ),
}  # fmt: skip
PATHS = (
    "WITH RECURSIVE p AS (SELECT a, b, w::{type} AS w FROM e UNION SELECT x.a, y.b, min({value}) "
    "FROM p x JOIN p y ON x.b = y.a GROUP BY x.a, y.b) FROM p"
)


@pytest.fixture
def con():
    with tidewheel.connect() as connection:
        connection.execute("CREATE TABLE e (a INT, b INT, w INT)")
        connection.execute("INSERT INTO e VALUES (1, 2, 3), (2, 3, 4), (1, 3, 9), (3, 1, 1)")
        yield connection


@pytest.mark.parametrize(("tables", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_a_better_value_would_spoil_is_refused(con, tables: str, reason: str) -> None:
    with pytest.raises(tidewheel.ProgrammingError, match=reason):
        con.execute(f"WITH RECURSIVE {tables} FROM p")


def test_exists_over_many_rows_goes_on_to_hold(con) -> None:
    query = (
        "WITH RECURSIVE p(a, w) AS (SELECT a, w FROM e UNION SELECT e.b, min(e.w + 5) FROM e WHERE"
        " EXISTS (SELECT 1 FROM p WHERE p.a = e.a HAVING count(*) >= 1) GROUP BY e.b) FROM p"
    )
    assert sorted(con.execute(query).fetchall()) == [(1, 3), (2, 4), (3, 1)]


@pytest.mark.parametrize(
    ("kind", "value", "linear"),
    [
        ("INT", "x.w + y.w", True),
        ("DECIMAL(9, 2)", "greatest(y.w, x.w)", True),
        ("DOUBLE", "x.w + y.w", False),
        ("INT", "x.w + y.w + 0", False),
    ],
)
def test_path_doubling(con, kind: str, value: str, linear: bool) -> None:
    query = PATHS.format(type=kind, value=value)
    plan = str(con.execute(f"EXPLAIN (LOGICAL) {query}").fetchall())
    assert ("__tw_anchor" in plan) == linear
    best = {(a, b): w for a, b, w in con.execute("FROM e").fetchall()}
    while True:
        more = dict(best)
        for (a, b), v in best.items():
            for (c, d), w in best.items():
                if b == c:
                    new = max(v, w) if "greatest" in value else v + w
                    more[a, d] = min(new, more.get((a, d), new))
        if more == best:
            break
        best = more
    assert sorted(con.execute(query).fetchall()) == sorted((*k, w) for k, w in best.items())


def test_a_product_of_what_is_not_negative(con) -> None:
    query = (
        "WITH RECURSIVE p AS (SELECT a, b, 1 / w AS w FROM e UNION SELECT x.a, y.b, "
        "max(greatest(x.w, 0) * greatest(y.w, 0)) FROM p x JOIN p y ON x.b = y.a GROUP BY ALL) "
        "SELECT round(12 * w) FROM p WHERE a = 1 AND b = 3"
    )
    assert con.execute(query).fetchall() == [(1,)]


def test_why_a_best_value_is_there(con) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW v AS {PATHS.format(type='INT', value='x.w + y.w + 0')}")
    shown = con.execute("EXPLAIN ROW (v, 2, 2, 8)").fetchall()[0][1]
    assert "5. p (2, 2, 8), iteration 2" in shown
    assert "<- 4. p (3, 2, 4)" in shown


@pytest.mark.parametrize(
    ("value", "fine"),
    [
        ("bool_or(p.f AND e.w > 1)", False),
        ("bool_or((e.w > 1) AND p.f)", False),
        ("bool_and(p.f OR e.w > 1)", False),
        ("bool_or(p.f AND coalesce(e.w, 0) > 1)", True),
        ("bool_or(p.f AND e.w IS NOT NULL)", True),
        ("bool_or(p.f OR e.w > 1)", True),
        ("bool_and(p.f AND e.w > 1)", True),
    ],
)
@pytest.mark.parametrize("fusion", ["on", "off"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_null_that_would_spoil_a_better_value(
    con, value: str, fine: bool, nested: bool, fusion: str
) -> None:
    """False AND NULL is false, but true AND NULL is NULL, which is worse."""
    con.execute(f"SET fusion = '{fusion}'")
    query = (
        f"WITH RECURSIVE p(a, f) AS (SELECT 1, true UNION SELECT e.b, {value} FROM p "
        "JOIN e ON e.a = p.a GROUP BY e.b) FROM p"
    )
    if nested:
        inner = value.split("(", 1)[1][:-1]
        query = (
            f"WITH RECURSIVE p(a, f) AS (SELECT 1, true UNION SELECT b, {value.split('(')[0]}(g) "
            f"FROM (SELECT b, {inner} AS g FROM p JOIN e ON e.a = p.a) GROUP BY b) FROM p"
        )
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    before = sorted(con.execute("FROM v").fetchall())
    assert sorted(con.execute(query).fetchall()) == before
    if fine:
        con.execute("INSERT INTO e VALUES (1, 9, NULL)")
        assert sorted(con.execute("FROM v").fetchall()) == sorted(con.execute(query).fetchall())
        return
    with pytest.raises(tidewheel.Error, match=r"not monotone where e\.w is NULL: give it a value"):
        con.execute("INSERT INTO e VALUES (1, 9, NULL)")
    assert sorted(con.execute("FROM v").fetchall()) == before
    con.execute("DROP MATERIALIZED VIEW v")
    con.execute("INSERT INTO e VALUES (1, 9, NULL)")
    with pytest.raises(tidewheel.Error, match=r"not monotone where e\.w is NULL: give it a value"):
        con.execute(query)


WIDEST = {
    "min": "SELECT e.b, min(greatest(p.w, e.w)) FROM p JOIN e ON e.a = p.a{} GROUP BY e.b",
    "max": "SELECT e.b, max(least(e.w, p.w)) FROM p JOIN e ON e.a = p.a{} GROUP BY e.b",
    "sum": "SELECT e.b, min(greatest(p.w + 0, 2)) FROM p JOIN e ON e.a = p.a{} GROUP BY e.b",
    "subquery": "SELECT b, min(w) FROM (SELECT e.b, greatest(p.w, e.w) AS w FROM p JOIN e "
    "ON e.a = p.a{}) GROUP BY b",
    "local table": "SELECT b, min(w) FROM x GROUP BY b",
    "double": "SELECT e.b, min(greatest(p.w, e.w::DOUBLE)) FROM p JOIN e ON e.a = p.a{} "
    "GROUP BY e.b",
    "text": "SELECT e.b, min(greatest(p.w, e.w::VARCHAR)) FROM p JOIN e ON e.a = p.a{} "
    "GROUP BY e.b",
}


@pytest.mark.parametrize("step", WIDEST)
@pytest.mark.parametrize("fusion", ["on", "off"])
def test_a_null_that_greatest_and_least_pass_over(con, step: str, fusion: str) -> None:
    """greatest(NULL, 3) is 3, and worse, 4, once there is a 4 in place of the NULL."""
    con.execute(f"SET fusion = '{fusion}'")
    con.execute("CREATE TABLE s (a INT, w INT)")
    con.execute("INSERT INTO s VALUES (1, 2), (3, 5)")
    kind = {"double": "DOUBLE", "text": "VARCHAR"}.get(step, "INT")
    local = (
        "WITH x AS (SELECT e.b, greatest(p.w, e.w) AS w FROM p JOIN e ON e.a = p.a{}) "
        if step == "local table"
        else ""
    )
    query = (
        f"WITH RECURSIVE p(a, w) AS ({local}SELECT a, w::{kind} FROM s UNION {WIDEST[step]}) FROM p"
    )
    asked, left_out = query.format(""), query.format(" WHERE p.w IS NOT NULL")
    con.execute(f"CREATE MATERIALIZED VIEW v AS {asked}")
    con.execute(f"CREATE MATERIALIZED VIEW u AS {left_out}")
    con.execute("INSERT INTO e VALUES (2, 5, NULL)")
    before = sorted(con.execute("FROM v").fetchall(), key=str)
    assert sorted(con.execute(asked).fetchall(), key=str) == before
    with pytest.raises(tidewheel.Error, match=r"not monotone where p\.w is NULL: give it a value"):
        con.execute("UPDATE s SET w = NULL")
    assert sorted(con.execute("FROM v").fetchall(), key=str) == before
    con.execute("DROP MATERIALIZED VIEW v")
    con.execute("UPDATE s SET w = NULL")
    with pytest.raises(tidewheel.Error, match=r"not monotone where p\.w is NULL: give it a value"):
        con.execute(asked)
    assert sorted(con.execute("FROM u").fetchall()) == [(1, None), (3, None)]
    con.execute("UPDATE s SET w = 4 WHERE a = 1")
    assert con.execute("VERIFY VIEW u").fetchall() == []
    assert sorted(con.execute("FROM u").fetchall(), key=str) == sorted(
        con.execute(left_out).fetchall(), key=str
    )


def test_widest_paths_are_still_one_operator(con) -> None:
    """What asks for NULLs keeps the loop without SQL, and the view's fixpoint."""
    query = (
        "WITH RECURSIVE p(a, w) AS (SELECT 1, 0 UNION SELECT e.b, min(greatest(p.w, e.w)) FROM p "
        "JOIN e ON e.a = p.a GROUP BY e.b) FROM p"
    )
    assert "the loop without SQL" in con.execute(f"EXPLAIN (DATAFLOW) {query}").fetchone()[1]
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    kinds = con.execute("SELECT list(kind) FROM tidewheel_vertices()").fetchone()[0]
    assert "fixpoint" in kinds
    assert "kernel" not in kinds


@pytest.mark.parametrize("fusion", ["on", "off"])
@pytest.mark.parametrize("key", ["VARCHAR", "INTEGER[]", "UUID", "HUGEINT", "INTEGER"])
@pytest.mark.parametrize(
    ("columns", "first", "best"),
    [
        ("w", "0", "min(p.w + e.w)"),
        ("w", "0", "max(p.w)"),
        ("w, f", "0, 0", "min(p.w + e.w), arg_min(e.w, p.w + e.w)"),
    ],
)
def test_an_anchor_without_rows(
    con, fusion: str, key: str, columns: str, first: str, best: str
) -> None:
    """Nothing comes of it, whatever the keys are; nor does it when all rows of a view went."""
    con.execute(f"SET fusion = {fusion}")
    con.execute(f"CREATE TABLE start (a {key}); CREATE TABLE road (a {key}, b {key}, w INTEGER)")
    query = (
        f"WITH RECURSIVE p(a, {columns}) AS (SELECT a, {first} FROM start UNION SELECT e.b, {best} "
        "FROM p JOIN road e ON e.a = p.a GROUP BY e.b) FROM p"
    )
    assert con.execute(query).fetchall() == []
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    con.execute("INSERT INTO start VALUES (NULL)")
    assert len(con.execute("FROM v").fetchall()) == 1
    con.execute("DELETE FROM start")
    assert con.execute("FROM v").fetchall() == []
    assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize("how", ["min", "max"])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("STRUCT(x INTEGER, y VARCHAR)", ["{x: 1, y: 'a'}", "{x: NULL, y: NULL}", "{x: 1, y: ''}"]),
        (
            "DOUBLE[]",
            ["[1.0, NULL]", "[1.0, 'nan'::DOUBLE]", "[1.0]", "[]", "[NULL]", "[1.0, 2.0]"],
        ),
        ("MAP(INTEGER, INTEGER)", ["MAP {1: 2}", "MAP {1: NULL}", "MAP {1: 2, 2: 3}"]),
        (
            "INTERVAL",
            ["INTERVAL 1 MONTH", "INTERVAL 40 DAY", "INTERVAL 25 HOUR", "INTERVAL 1 DAY"],
        ),
        ("STRUCT(i INTERVAL)", ["{i: INTERVAL 1 MONTH}", "{i: INTERVAL 40 DAY}", "{i: NULL}"]),
    ],
    ids=["structs", "lists", "maps", "intervals", "structs of intervals"],
)
def test_the_least_of_values_with_parts_is_that_of_duckdb(
    how: str, kind: str, values: list[str]
) -> None:
    query = (
        f"WITH RECURSIVE r(x, l) AS (SELECT 0, v FROM s UNION SELECT (r.x + 1) % 3, {how}(r.l) "
        "FROM r GROUP BY (r.x + 1) % 3) SELECT * FROM r"
    )
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE s (v {kind})")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for value in (*values, *reversed(values)):
            con.execute(f"INSERT INTO s VALUES ({value})")
            best = con.execute(f"SELECT {how}(v) FROM s").fetchall()
            assert repr(con.execute("SELECT DISTINCT l FROM v").fetchall()) == repr(best), value
            shown = sorted(map(repr, con.execute("FROM v").fetchall()))
            assert sorted(map(repr, con.execute(query).fetchall())) == shown
            assert con.execute("VERIFY VIEW v").fetchall() == []
