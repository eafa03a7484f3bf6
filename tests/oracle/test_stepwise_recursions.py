"""Recursive views whose steps see the last one's rows together, under edits, against DuckDB."""

from __future__ import annotations

import math
import random
from collections import Counter

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.planner import view_choice

SCHEMA = """
CREATE TABLE e (a INTEGER, b INTEGER, w INTEGER, s VARCHAR);
CREATE TABLE n (x INTEGER, v INTEGER);
"""
# (where a step gives one row of each key, no order decides its values)
VIEWS = {
    "counted": "WITH RECURSIVE t(x, n) AS (SELECT a, 0 FROM e UNION SELECT e.b, c FROM "
    "(SELECT x, count(*) OVER () AS c FROM t) t JOIN e ON e.a = t.x) FROM t",
    "sums": "WITH RECURSIVE t(x, n) AS (SELECT a, 1::BIGINT FROM e UNION ALL "
    "SELECT e.b, (1 + sum(t.n))::BIGINT FROM t JOIN e ON e.a = t.x WHERE t.n < 20 GROUP BY e.b) "
    "FROM t",
    "distinct": "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION ALL SELECT DISTINCT e.b, n + 1 "
    "FROM t JOIN e ON e.a = t.x WHERE n < 5) FROM t",
    "not so far": "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION SELECT e.b, n + 1 FROM t JOIN e "
    "ON e.a = t.x WHERE NOT EXISTS (FROM recurring.t r WHERE r.x = e.b)) FROM t",
    "one row": "WITH RECURSIVE t(n) AS (SELECT 1::BIGINT UNION ALL SELECT "
    "(sum(n) + (SELECT count(*) FROM e))::BIGINT FROM t HAVING sum(n) < 60) FROM t",
    "one row or none": "WITH RECURSIVE t(n) AS (SELECT x FROM n WHERE v > 1 UNION SELECT "
    "least(60, 1 + sum(n) + (SELECT count(*) FROM e))::INTEGER FROM t) FROM t",
    "of none": "WITH RECURSIVE t(x, n) AS (SELECT x, 0 FROM n WHERE v > 1 UNION SELECT e.b, "
    "coalesce(n, 7) + 1 FROM t RIGHT JOIN e ON e.a = t.x AND n < 3) FROM t",
    "bag of none": "WITH RECURSIVE t(x, n) AS (SELECT x, 0 FROM n WHERE v > 1 UNION ALL "
    "SELECT e.b, coalesce(n, 3) + 1 FROM t FULL JOIN e ON e.a = t.x WHERE coalesce(n, 0) < 3 "
    "AND e.w > 0 AND NOT EXISTS (FROM recurring.t r WHERE r.n > 3)) FROM t",
    "without": "WITH RECURSIVE t(x, n) AS (SELECT DISTINCT a, 0 FROM e UNION ALL SELECT e.b, n + 1 "
    "FROM t JOIN e ON e.a = t.x WHERE n < 4 AND NOT EXISTS "
    "(FROM e f WHERE f.a = t.x AND f.b = t.n)) FROM t",
    "first of each": "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION ALL SELECT * FROM "
    "(SELECT DISTINCT ON (t.x) e.b, n + 1 FROM t JOIN e ON e.a = t.x WHERE n < 6 "
    "ORDER BY t.x, e.w, e.b)) FROM t",
    "places": "WITH RECURSIVE t(x, n) AS (SELECT a, 0 FROM e UNION SELECT b, n + 1 FROM "
    "(SELECT e.b, n, row_number() OVER (PARTITION BY n ORDER BY e.b DESC, e.a, w, s) AS r "
    "FROM t JOIN e ON e.a = t.x) WHERE r <= 2 AND n < 5) FROM t",
    "except": "WITH RECURSIVE t(x) AS (SELECT a FROM e WHERE w > 2 UNION "
    "(SELECT e.b FROM t JOIN e ON e.a = t.x EXCEPT SELECT b FROM e WHERE w < 2)) FROM t",
    "the most so far": "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION SELECT e.b, "
    "(SELECT max(n) FROM recurring.t) + 1 FROM t JOIN e ON e.a = t.x WHERE t.n < 6) FROM t",
    "first ones": "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION ALL (SELECT e.b, n + 1 FROM t "
    "JOIN e ON e.a = t.x WHERE n < 9 ORDER BY w, b LIMIT 2)) FROM t",
    "nearest": "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION (SELECT e.b, n + 1 FROM t JOIN e "
    "ON e.a = t.x WHERE NOT EXISTS (FROM recurring.t r WHERE r.x = e.b) ORDER BY e.w, e.b LIMIT 1))"
    " FROM t",
    "paths": "WITH RECURSIVE d(x, v) USING KEY (x) AS (SELECT 0, 0 UNION SELECT e.b, min(d.v + w) "
    "FROM d JOIN e ON e.a = d.x LEFT JOIN recurring.d r ON r.x = e.b "
    "WHERE w > 0 AND (r.v IS NULL OR d.v + w < r.v) GROUP BY e.b) FROM d",
    "paths of each": "WITH RECURSIVE d(x, y, v, via) USING KEY (x, y) AS (SELECT a, b, min(w), b "
    "FROM e WHERE w > 0 GROUP BY a, b UNION SELECT e.a, d.y, min(w + d.v), "
    "min((w + d.v, e.b))[2] FROM d JOIN e ON e.b = d.x LEFT JOIN recurring.d r "
    "ON (r.x, r.y) = (e.a, d.y) WHERE w > 0 AND w + d.v < coalesce(r.v, 999) GROUP BY e.a, d.y) "
    "FROM d",
    "components": "WITH RECURSIVE c(x, l) USING KEY (x) AS (SELECT x, min(x) FROM n GROUP BY x "
    "UNION (SELECT DISTINCT ON (u.x) u.x, v.l FROM recurring.c u, c v, e "
    "WHERE ((e.a, e.b) = (u.x, v.x) OR (e.b, e.a) = (u.x, v.x)) AND v.l < u.l "
    "ORDER BY u.x, v.l)) SELECT l, count(*) FROM c GROUP BY l",
    "levels": "WITH RECURSIVE t(x, n) USING KEY (x) AS (SELECT 0, 0 UNION "
    "SELECT DISTINCT e.b, n + 1 FROM t JOIN e ON e.a = t.x WHERE e.b NOT IN "
    "(SELECT x FROM recurring.t WHERE x IS NOT NULL)) FROM t",
    "texts": "WITH RECURSIVE t(k, s) USING KEY (k) AS (SELECT DISTINCT s, '' FROM e UNION "
    "SELECT e.s, max(t.s || e.b) FROM t JOIN e ON e.a = length(t.s) + length(e.s) - 1 "
    "WHERE length(t.s) < 3 GROUP BY e.s) FROM t",
    "replaced": "WITH RECURSIVE t(x, v) USING KEY (x) AS (SELECT x, max(v) FROM n GROUP BY x UNION "
    "SELECT e.b, (max(t.v) * 3 + count(*)) % 7 FROM t JOIN e ON e.a = t.x WHERE e.a < e.b "
    "GROUP BY e.b) FROM t",
    "counter": "WITH RECURSIVE t(x, n) USING KEY (x) AS (SELECT 1, 0 UNION SELECT x, n + 1 FROM t "
    "WHERE n < (SELECT count(*) FROM e)) FROM t",
    "of all so far": "WITH RECURSIVE t(x, v) USING KEY (x) AS (SELECT 0, 1::BIGINT UNION "
    "SELECT e.b, (SELECT sum(v)::BIGINT FROM recurring.t) + count(*) FROM t JOIN e ON e.a = t.x "
    "WHERE t.v < 40 GROUP BY e.b) FROM t",
    "lists": "WITH RECURSIVE t(x, way) USING KEY (x) AS (SELECT 0, [0] UNION "
    "SELECT e.b, min(list_append(way, e.b)) FROM t JOIN e ON e.a = t.x WHERE NOT EXISTS "
    "(FROM recurring.t r WHERE r.x IS NOT DISTINCT FROM e.b) GROUP BY e.b) FROM t",
    "recursion within": "WITH RECURSIVE t(x, n) USING KEY (x) AS (SELECT 0, 0 UNION SELECT y, "
    "max(n) + 1 FROM (WITH RECURSIVE i(y, n, k) AS (SELECT x, n, 0 FROM t WHERE n < 4 UNION "
    "SELECT e.b, n, k + 1 FROM i JOIN e ON e.a = i.y WHERE k < 2) SELECT y, n FROM i WHERE k > 0) "
    "GROUP BY y) FROM t",
    "found first": "WITH RECURSIVE d(x, v) USING KEY (x) AS (SELECT 0, 0 UNION ALL "
    "(WITH c AS (SELECT e.b AS x, d.v + 1 AS v FROM d JOIN e ON e.a = d.x) SELECT c.x, min(c.v) "
    "FROM c LEFT JOIN recurring.d r ON r.x IS NOT DISTINCT FROM c.x WHERE r.v IS NULL "
    "GROUP BY c.x)) FROM d",
    "core": "WITH RECURSIVE k(x, d, there) USING KEY (x) AS (SELECT x, count(e.b), count(e.b) > 1 "
    "FROM (SELECT DISTINCT x FROM n) n LEFT JOIN e ON e.a = n.x GROUP BY x UNION ALL "
    "SELECT k.x, count_if(r.there) AS c, c > 1 FROM k, e, recurring.k r "
    "WHERE (e.a, e.b) = (k.x, r.x) GROUP BY k.x, k.d HAVING c < k.d) FROM k",
    "all found": "WITH RECURSIVE t(x, v) USING KEY (x) AS (SELECT x, max(v) FROM n GROUP BY x "
    "UNION ALL SELECT t.x, least(r.v + 1, 3) FROM t JOIN recurring.t r USING (x) "
    "WHERE (t.v < 3 OR r.v < 4) AND t.v < 3 + (SELECT count(*) FROM e WHERE w = 9)) FROM t",
    "one by one": "WITH RECURSIVE c(x, l) USING KEY (x) AS (SELECT DISTINCT x, x FROM n "
    "WHERE x IS NOT NULL UNION ALL SELECT r.x, f.l FROM (SELECT u.l, v.l AS old FROM "
    "recurring.c u, recurring.c v, e WHERE (e.a, e.b) = (u.x, v.x) AND u.l < v.l "
    "ORDER BY e.w, u.l, v.l LIMIT 1) f, recurring.c r WHERE r.l = f.old) FROM c",
    "is there one": "WITH RECURSIVE t(x, n, hit) AS (SELECT a, 0, true FROM e UNION ALL "
    "SELECT e.b, n + 1, EXISTS (FROM t WHERE x = 3) FROM t JOIN e ON e.a = t.x WHERE n < 3) "
    "FROM t",
    "in a query": "SELECT n.v, count(d.x), max(d.v) FROM n LEFT JOIN (WITH RECURSIVE d(x, v) "
    "USING KEY (x) AS (SELECT DISTINCT a, 0 FROM e UNION SELECT e.b, max(d.v) + 1 FROM d JOIN e "
    "ON e.a = d.x WHERE d.v < 4 GROUP BY e.b) FROM d) d ON d.x = n.x GROUP BY n.v",
}
_value = st.integers(0, 5).map(str)
_maybe = st.one_of(st.just("NULL"), _value, _value, _value)
_text = st.sampled_from(["'a'", "'bb'", "'ccc'", "NULL"])
EDITS = st.one_of(
    st.tuples(_maybe, _maybe, _value, _text).map(
        lambda r: f"INSERT INTO e VALUES ({', '.join(r)})"
    ),
    st.tuples(_maybe, _value).map(lambda r: f"INSERT INTO n VALUES ({', '.join(r)})"),
    st.tuples(_value, _value).map(lambda r: f"DELETE FROM e WHERE a = {r[0]} AND b = {r[1]}"),
    st.tuples(_value, _value).map(lambda r: f"UPDATE e SET w = {r[0]} WHERE a = {r[1]}"),
    st.tuples(_value, _value).map(lambda r: f"UPDATE e SET b = {r[0]} WHERE a = {r[1]}"),
    _value.map(lambda v: f"DELETE FROM e WHERE b = {v}"),
    _value.map(lambda v: f"DELETE FROM n WHERE x = {v}"),
)
FEW = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@pytest.fixture(autouse=True)
def _filled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_choice, "AT_ONCE", 1e9)


def check(name: str, edits: list[str], batch: int, threads: int) -> None:
    """The view equals DuckDB's answer after every `batch` edits."""
    query = VIEWS[name]
    with tidewheel.connect(threads=threads) as con, duckdb.connect() as duck:
        for each in (con, duck):
            each.execute(SCHEMA)
            each.execute("INSERT INTO n SELECT i, i % 3 FROM range(5) t(i)")
            each.execute("INSERT INTO e SELECT i, (i + 1) % 4, 1, 'a' FROM range(4) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW kept AS {query}")
        for start in range(0, len(edits), batch):
            for each in (con, duck):
                each.execute("BEGIN")
                for edit in edits[start : start + batch]:
                    each.execute(edit)
                each.execute("COMMIT")
            kept = Counter(map(repr, con.execute("FROM kept").fetchall()))
            assert kept == Counter(map(repr, duck.execute(query).fetchall()))
        assert con.execute("VERIFY VIEW kept").fetchall() == []
        circuit, reason = con._session.views.circuit("memory.main.kept")
        assert circuit is not None, reason


@pytest.mark.parametrize("name", VIEWS)
@settings(FEW, max_examples=3)
@given(
    edits=st.lists(EDITS, min_size=6, max_size=20),
    batch=st.sampled_from([1, 1, 3, 20]),
    threads=st.integers(1, 2),
)
def test_step_by_step(name: str, edits: list[str], batch: int, threads: int) -> None:
    check(name, edits, batch, threads)


@pytest.mark.long
@pytest.mark.parametrize("name", VIEWS)
@settings(FEW, max_examples=80)
@given(
    edits=st.lists(EDITS, min_size=20, max_size=80),
    batch=st.sampled_from([1, 1, 3, 20, 80]),
    threads=st.integers(1, 2),
)
def test_step_by_step_at_length(name: str, edits: list[str], batch: int, threads: int) -> None:
    check(name, edits, batch, threads)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "SELECT x, v FROM n UNION SELECT x + 1, v FROM t WHERE x < 3",
            "several rows of one key, of which the last counts",
        ),
        (
            "SELECT x, max(v)::DOUBLE FROM n GROUP BY x UNION SELECT x + 1, sum(v) / 2 FROM t "
            "WHERE x < 9 GROUP BY x",
            "sums of floating-point numbers",
        ),
        (
            "SELECT x, v FROM n UNION ALL SELECT x + 9, v FROM t WHERE x < 3",
            "several rows of one key, of which the last counts",
        ),
    ],
)
def test_what_is_computed_anew(query: str, reason: str) -> None:
    """Before and after two rows of one key came."""
    text = f"WITH RECURSIVE t(x, v) USING KEY (x) AS ({query}) FROM t"
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for each in (con, duck):
            each.execute(SCHEMA)
            each.execute("INSERT INTO n VALUES (1, 2), (4, 5)")
        con.execute(f"CREATE MATERIALIZED VIEW kept AS {text}")
        for edit in ("INSERT INTO n VALUES (3, 1)", "INSERT INTO n VALUES (1, 7)"):
            for each in (con, duck):
                each.execute(edit)
            kept = sorted(con.execute("FROM kept").fetchall())
            assert kept == sorted(duck.execute(text).fetchall())
        _, found = con._session.views.circuit("memory.main.kept")
        assert reason in found


@pytest.mark.parametrize("again", ["v", "1 - v"])
def test_rows_that_are_found_for_ever(again: str) -> None:
    """Under UNION ALL the next step reads rows that changed nothing, too."""
    query = (
        "WITH RECURSIVE t(x, v) USING KEY (x) AS (SELECT 1, 0 UNION ALL "
        f"SELECT x, {again} FROM t WHERE EXISTS (FROM n)) FROM t"
    )
    with tidewheel.connect() as con:
        con.execute(SCHEMA)
        con.execute(f"CREATE MATERIALIZED VIEW kept AS {query}")
        assert con.execute("FROM kept").fetchall() == [(1, 0)]
        with pytest.raises(tidewheel.OperationalError, match="never ends: at iteration"):
            con.execute("INSERT INTO n VALUES (1, 1)")
        con.execute("INSERT INTO e VALUES (1, 1, 1, 'a')")
        assert con.execute("FROM n").fetchall() == []
        assert con.execute("FROM kept").fetchall() == [(1, 0)]


def test_operators_that_take_long_to_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are filled once that is worth it; readers and subscribers see each change."""
    monkeypatch.setattr(view_choice, "AT_ONCE", 0)
    monkeypatch.setattr(view_choice, "WORTH", 1e-9)
    query = VIEWS["paths"]
    with tidewheel.connect() as con:
        con.execute(SCHEMA)
        con.execute("INSERT INTO e SELECT i, i + 1, 1, 'a' FROM range(9) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW kept AS {query}")
        con.execute("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(v) AS s FROM kept")
        with con.subscribe("kept") as following, con.subscribe("total") as behind:
            rows = {"kept": Counter[object](), "total": Counter[object]()}
            reasons = []
            for i, edit in enumerate(
                (
                    "INSERT INTO e VALUES (0, 5, 1, 'b')",
                    "DELETE FROM e WHERE a = 3",
                    "INSERT INTO e VALUES (2, 7, 1, 'c'), (8, 3, 1, 'd')",
                    "UPDATE e SET w = 3 WHERE a < 2",
                )
            ):
                con.execute(edit)
                assert con.execute("VERIFY VIEW kept").fetchall() == []
                assert con.execute("VERIFY VIEW total").fetchall() == []
                for name, subscription in (("kept", following), ("total", behind)):
                    for _ in range(1 if i else 2):  # the snapshot, and each change
                        update = subscription.read(10)
                        assert update is not None
                        for _, weight, *row in update.rows():
                            rows[name][tuple(row)] += weight
                    assert +rows[name] == Counter(con.execute(f"FROM {name}").fetchall())
                reasons.append(con._session.views.circuit("memory.main.kept")[1])
        assert [bool(reason) for reason in reasons] == [True, False, False, False]


def test_how_long_operators_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop that computes a view over few rows anew takes half as long as to fill them."""
    assert view_choice.worth(1.0, 600, 0) < 3
    assert view_choice.worth(1.0, 1_000_000, 0) == 20
    assert view_choice.worth(1.0, 600, 2) == 80  # they have been given up twice
    asked = []

    def worth(anew: float, rows: int, rests: int) -> float:
        asked.append((rows, rests))
        return math.inf

    monkeypatch.setattr(view_choice, "AT_ONCE", 0)
    monkeypatch.setattr(view_choice, "worth", worth)
    with tidewheel.connect() as con:
        con.execute(SCHEMA)
        con.execute("INSERT INTO e SELECT i, i + 1, 1, 'a' FROM range(9) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW kept AS {VIEWS['paths']}")
        con.execute("FROM kept").fetchall()
    assert asked == [(9, 0)]


@pytest.mark.parametrize("seconds", [0.0, 1e-9])
def test_operators_that_take_longer_than_the_query(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are given up, before a change or in the midst of one, and tried again later."""
    monkeypatch.setattr(view_choice, "AT_ONCE", math.inf)
    with tidewheel.connect() as con:
        con.execute(SCHEMA)
        con.execute("INSERT INTO e SELECT i, i + 1, 1, 'a' FROM range(9) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW kept AS {VIEWS['paths']}")
        con.execute("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(v) AS s FROM kept")

        def changed(edit: str) -> str:
            con.execute(edit)
            assert con.execute("VERIFY VIEW kept").fetchall() == []
            assert con.execute("VERIFY VIEW total").fetchall() == []
            text = str(con.execute("EXPLAIN VIEW kept").fetchall())
            return text.partition("recompute [kernel]: ")[2].partition("\\n")[0]

        con.execute("FROM total").fetchall()
        assert changed("INSERT INTO e VALUES (0, 5, 1, 'b')") == ""
        longer = "its operators took longer than its query: they are tried again later"
        with monkeypatch.context() as patch:
            patch.setattr(view_choice.Balance, "left", lambda *_: seconds)
            assert changed("INSERT INTO e VALUES (0, 3, 1, 'c')").startswith(longer)
            assert changed("DELETE FROM e WHERE a = 3").startswith(longer)
        assert changed("INSERT INTO e VALUES (2, 7, 1, 'd'), (8, 3, 1, 'e')").startswith(longer)
        con._session.database.maintainer.views["memory.main.kept"].spent = math.inf
        assert changed("INSERT INTO e VALUES (4, 8, 1, 'b')") == ""
        assert changed("UPDATE e SET w = 3 WHERE a < 2") == ""


WAYS = """
    WITH RECURSIVE r(a, b, way) AS (
        SELECT a, b, [a, b] FROM e
        UNION ALL SELECT r.a, e.b, way || [e.b] FROM r JOIN e ON e.a = r.b
    ) SELECT a, b, max(way) AS longest, count(*) AS n FROM r GROUP BY a, b
"""


@pytest.mark.parametrize("name", [*VIEWS, "ways"])
def test_operators_given_up_at_any_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(name)
    times = [1e-9, 1e-3, 2e-3, math.inf] if name == "ways" else [0.0, 1e-9, 1e-3, 2e-3, math.inf]
    monkeypatch.setattr(view_choice.Balance, "left", lambda *_: rng.choice(times))
    monkeypatch.setattr(view_choice, "WORTH", 1e-9)
    with tidewheel.connect() as con:
        con.execute(SCHEMA)
        con.execute("INSERT INTO e SELECT i, i + 1, 1, 'a' FROM range(9) t(i)")
        con.execute("INSERT INTO n SELECT i, i FROM range(4) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW kept AS {VIEWS.get(name, WAYS)}")
        con.execute("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM kept")
        con.execute("FROM total").fetchall()
        for i in range(6):
            a = rng.randrange(9)
            con.execute(
                f"INSERT INTO e VALUES ({a}, {rng.randint(a + 1, 9)}, {rng.randint(1, 3)}, 'b{i}')"
                if rng.random() < 0.6
                else f"DELETE FROM e WHERE a = {a} AND b <> a + 1"
            )
            assert con.execute("VERIFY VIEW kept").fetchall() == []
            assert con.execute("VERIFY VIEW total").fetchall() == []


def test_what_operators_may_lose() -> None:
    balance = view_choice.Balance()
    assert (balance.left(0, 0.1), balance.left(0, 3)) == (2, 24)
    balance.overtime(0)
    assert (balance.left(0, 0.1), balance.left(0, 3), balance.rests) == (4, 48, 0)
    for _ in range(9):
        balance.took(0.1, 1, 5)
    assert balance.lost == -5
    balance.took(9, 1, 5)
    assert balance.lost == 3
    balance.overtime(1)
    assert (balance.lost, balance.rests) == (0, 1)
