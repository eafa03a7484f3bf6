"""A maintained view means what its query meant in the session that created it.

Two sessions with different settings change its tables, with a file closed and opened in between;
DuckDB's own answer under the creator's settings must be the view's after every commit.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.planner import meaning

TABLES = """
CREATE TABLE e (i INTEGER, ts TIMESTAMPTZ, s VARCHAR, x INTEGER, d DOUBLE);
INSERT INTO e VALUES (1, '2024-01-01 03:30:00+00', '2024-03-31 02:30:00', 7, 2.5),
    (2, '2024-03-10 07:15:00+00', '2023-12-31 23:00:00', -7, 1), (3, NULL, NULL, NULL, NULL)
"""
CHANGES = (
    "INSERT INTO e VALUES (4, '2024-06-30 23:00:00+00', '2024-07-01 12:00:00+05', 0, 3)",
    "UPDATE e SET ts = ts + INTERVAL 31 DAY, x = x + 2, d = d + 1.5 WHERE i <> 3",
    "DELETE FROM e WHERE i = 1",
    "INSERT INTO e VALUES (6, '2024-11-03 05:30:00+00', 'Ab', 9, -1),"
    " (5, '2024-11-03 06:30:00+00', 'aB', 5, 4)",
)

ZONED = (
    "SELECT i, ts::DATE AS d, extract(hour FROM ts) AS h, strftime(ts, '%d %H %z') AS f FROM e",
    "SELECT ts::DATE AS d, count(*) AS n, min(ts)::VARCHAR AS first FROM e GROUP BY 1",
    "SELECT i, epoch_us(date_trunc('day', ts)) AS t, try_cast(s AS TIMESTAMPTZ)::DATE u FROM e",
    "SELECT a.i, b.i AS j FROM e a JOIN e b ON a.ts::DATE = b.ts::DATE",
    "SELECT i FROM e WHERE ts::DATE >= DATE '2024-01-01' AND ts < TIMESTAMPTZ '2024-07-01'",
    "SELECT i, row_number() OVER (PARTITION BY extract(month FROM ts) ORDER BY i) AS r FROM e",
    "SELECT i, ts::TIMESTAMP AS t, (ts + INTERVAL 1 MONTH)::TIMESTAMP AS m FROM e",
    "SELECT i, ts::VARCHAR AS v FROM e LIMIT 100",
    "WITH RECURSIVE r(i, t) AS (SELECT i, ts FROM e UNION SELECT r.i, date_trunc('day', r.t) "
    "FROM r JOIN e USING (i)) SELECT i, epoch_us(t) AS t FROM r",
)

CASES = {
    ("TimeZone", "America/New_York"): ZONED,
    ("TimeZone", "Asia/Kathmandu"): ZONED[:2],
    ("Calendar", "japanese"): (
        "SELECT i, make_timestamptz(2024, 1, i, 0, 0, 0)::VARCHAR AS v FROM e",
        "SELECT i, strftime(ts, '%Y') AS y FROM e",
    ),
    ("integer_division", "true"): (
        "SELECT i, x / 2 AS h, sum(x) OVER () / 4 AS q FROM e",
        "SELECT x / 4 AS q, count(*) AS n, avg(x) AS a FROM e GROUP BY ALL",
        "SELECT i, x + 1 AS y FROM e WHERE x / 2 = 3",
        "WITH RECURSIVE r(n) AS (SELECT x FROM e UNION SELECT n / 2 FROM r) FROM r",
    ),
    ("ieee_floating_point_ops", "false"): ("SELECT i, TRY(d / (x - 9)) AS q FROM e",),
    ("error_on_division_by_zero", "false"): ("SELECT i, x // (x - 9) q, x % (x - 9) m FROM e",),
    ("scalar_subquery_error_on_multiple_rows", "false"): (
        "SELECT i, (SELECT 1 FROM e AS o WHERE o.i <> e.i) AS one FROM e",
    ),
    ("order_by_non_integer_literal", "true"): ("SELECT i FROM e ORDER BY 'x'",),
    ("regex_match_operator_semantics", "full"): ("SELECT i, s ~ 'b' AS m, s ~ 'A.' AS n FROM e",),
    ("preserve_identifier_case", "lowercase"): ("SELECT i AS Ident FROM e",),
    ("default_order", "DESC"): ("SELECT i FROM e ORDER BY i LIMIT 2",),
    ("default_null_order", "NULLS_FIRST"): ("SELECT i, x FROM e ORDER BY x, i LIMIT 2",),
    ("default_collation", "nocase"): (
        "SELECT lower(s) AS s, count(*) AS n FROM e GROUP BY 1",
        "SELECT i, s = 'AB' AS same FROM e",
        "SELECT count(DISTINCT s) AS n FROM e",
    ),
    ("old_implicit_casting", "true"): ("SELECT i, length(x) AS n FROM e",),
    ("lambda_syntax", "ENABLE_SINGLE_ARROW"): (
        "SELECT list_transform([i], y -> y + 1) AS l FROM e",
    ),
    ("json_geometry_format", "geojson"): ("SELECT i, to_json('POINT(1 2)'::GEOMETRY) AS g FROM e",),
}
Rows = dict[str, Counter[object]]


@contextmanager
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    """Plain DuckDB with the same tables."""
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'").fetchall()
        con.execute(TABLES).fetchall()
        yield con


def under(con: duckdb.DuckDBPyConnection, assignment: str, queries: Iterable[str]) -> Rows:
    """DuckDB's answers under a setting."""
    name = assignment.split()[1]
    before = con.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]
    con.execute(assignment).fetchall()
    try:
        return {q: Counter(map(repr, con.execute(q).fetchall())) for q in queries}
    finally:
        con.execute(f"SET {name} = '{before}'").fetchall()


def kept(con: tidewheel.Connection, queries: Iterable[str], letter: str = "v") -> Rows:
    """The views' rows, which do not differ from a run of their queries."""
    found = {}
    for n, query in enumerate(queries):
        assert con.execute(f"VERIFY VIEW {letter}{n}").fetchall() == [], query
        found[query] = Counter(map(repr, con.execute(f"FROM {letter}{n}").fetchall()))
    return found


def settings_of(con: tidewheel.Connection) -> object:
    return con.execute(meaning.QUERY).fetchall()


@pytest.mark.parametrize(("name", "value"), CASES)
def test_what_a_view_means(name: str, value: str, tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    queries = CASES[name, value]
    assignment = f"SET {name} = '{value}'"

    def check(con: tidewheel.Connection, over: str) -> None:
        expected = under(duck, assignment, queries)
        assert kept(con, queries) == expected
        assert list(kept(con, queries[:1], over).values()) == [expected[queries[0]]]

    with oracle() as duck:
        with tidewheel.connect(path) as a, tidewheel.connect(path) as b:
            b.execute("SET TimeZone = 'Asia/Tokyo'")
            a.execute(f"SET TimeZone = 'UTC'; {TABLES.strip()}")
            a.execute(assignment)
            for n, query in enumerate(queries):
                a.execute(f"CREATE MATERIALIZED VIEW v{n} AS {query}")
            a.execute("CREATE MATERIALIZED VIEW w0 AS FROM v0")
            check(a, "w")
            a.execute(f"RESET {name}; SET TimeZone = 'UTC'")
            before = settings_of(a), settings_of(b)
            for con, change in zip((a, b), CHANGES[:2], strict=True):
                con.execute(change)
                duck.execute(change).fetchall()
                check(a, "w")
            assert (settings_of(a), settings_of(b)) == before
        with tidewheel.connect(path) as a:
            a.execute("SET TimeZone = 'UTC'")
            own = settings_of(a)
            a.execute("ALTER VIEW w0 RENAME TO x0")
            for change in CHANGES[2:]:
                a.execute(change)
                duck.execute(change).fetchall()
                check(a, "x")
            for con in (a, duck):
                con.execute("BEGIN; DELETE FROM e WHERE i = 2")
            check(a, "x")
            for con in (a, duck):
                con.execute("ROLLBACK")
            check(a, "x")
            assert settings_of(a) == own


def test_what_a_replaced_view_means() -> None:
    """CREATE OR REPLACE takes the settings of now; what is shown is what was taken."""
    shown = "SELECT settings FROM tidewheel_views()"
    with tidewheel.connect() as con:
        con.execute("SET TimeZone = 'UTC'; CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (7)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a / 2 AS h FROM t")
        assert con.execute(shown).fetchall() == [(None,)]
        con.execute("SET integer_division = true")
        assert con.execute("FROM v").fetchall() == [(3.5,)]
        con.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a / 2 AS h FROM t")
        con.execute("RESET integer_division; INSERT INTO t VALUES (9)")
        assert sorted(con.execute("FROM v").fetchall()) == [(3,), (4,)]
        assert con.execute(shown).fetchall() == [("integer_division = 'true'",)]


def test_a_session_keeps_its_settings_after_errors() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE SCHEMA s; CREATE TABLE t (a INTEGER); CREATE TABLE s.t (a INTEGER)")
        con.execute("SET ieee_floating_point_ops = false; SET TimeZone = 'Asia/Tokyo'; USE s")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT 1.0::DOUBLE / a AS q FROM t LIMIT 100%")
        con.execute("USE main; SET ieee_floating_point_ops = true; SET TimeZone = 'Europe/Rome'")
        con.execute("INSERT INTO s.t VALUES (2)")
        before = settings_of(con)
        with pytest.raises(tidewheel.Error, match="ivision by zero"):
            con.execute("INSERT INTO s.t VALUES (0)")
        assert settings_of(con) == before
        con.execute("BEGIN; INSERT INTO s.t VALUES (0)")
        with pytest.raises(tidewheel.Error, match="ivision by zero"):
            con.execute("FROM s.v")
        with pytest.raises(tidewheel.Error, match="aborted"):
            con.execute("SELECT 1")
        con.execute("ROLLBACK")
        assert settings_of(con) == before
        assert con.execute("SELECT current_schema()").fetchall() == [("main",)]
        assert con.execute("FROM s.v").fetchall() == [(0.5,)]


def test_a_session_that_could_not_come_back_does_at_its_next_statement() -> None:
    with tidewheel.connect() as con:
        con.execute("SET TimeZone = 'Asia/Tokyo'; CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t LIMIT 100%")
        con.execute("SET TimeZone = 'Europe/Rome'")
        before = settings_of(con)
        views = con._session.views
        go, views._return = views._return, _interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            con.execute("INSERT INTO t VALUES (1)")
        views._return = go  # type: ignore[method-assign]
        assert settings_of(con) == before
        con.execute("INSERT INTO t VALUES (2)")
        assert sorted(con.execute("FROM v").fetchall()) == [(2,)]


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_setting_of_all_sessions_reaches_one_that_was_elsewhere() -> None:
    name = ":memory:elsewhere"
    with tidewheel.connect(name) as a, tidewheel.connect(name) as b:
        a.execute("SET integer_division = true; CREATE TABLE t (a INTEGER)")
        a.execute("CREATE MATERIALIZED VIEW v AS SELECT a / 2 AS h FROM t LIMIT 100%")
        b.execute("INSERT INTO t VALUES (7)")
        a.execute("SET GLOBAL integer_division = true")
        assert b.execute("SELECT 7 / 2").fetchall() == [(3,)]


def test_settings_in_safe_mode(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con:
        con.execute("SET TimeZone = 'Asia/Tokyo'; CREATE TABLE t (ts TIMESTAMPTZ)")
        con.execute("SET integer_division = true")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT extract(hour FROM ts) / 2 AS h FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS FROM v LIMIT 100%")
    with tidewheel.connect(path, safe_mode=True) as con:
        con.execute("INSERT INTO t VALUES ('2024-01-01 00:00:00+00')")
        assert con.execute("FROM v, w").fetchall() == [(4, 4)]
        con.execute("INSERT INTO t VALUES ('2024-01-01 00:00:00+00')")
        assert con.execute("SELECT count(*) FROM v, w WHERE v.h = 4").fetchall() == [(4,)]
        with pytest.raises(tidewheel.NotSupportedError, match="settings cannot be changed"):
            con.execute("SET TimeZone = 'UTC'")


def test_a_proof_under_the_view_s_settings_and_in_its_schema() -> None:
    with tidewheel.connect() as con:
        con.execute("SET TimeZone = 'America/New_York'; CREATE SCHEMA s; CREATE TABLE t (b BOOL)")
        con.execute("USE s; CREATE TABLE t (ts TIMESTAMPTZ)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT ts::DATE AS d FROM t")
        con.execute("USE main; SET TimeZone = 'UTC'")
        con.execute("INSERT INTO s.t VALUES ('2024-01-01 03:00:00+00')")
        shown = con.execute("EXPLAIN ROW (s.v, DATE '2023-12-31')").fetchall()[0][1]
        assert "<- t ('2023-12-31 22:00:00-05')" in shown
        assert con.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]


ZONES = st.sampled_from(
    ["UTC", "America/St_Johns", "Europe/Berlin", "Asia/Kolkata", "Pacific/Apia", "Etc/GMT+12"]
)
INSTANTS = st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2040, 1, 1))


@settings(max_examples=12, deadline=None)
@given(ZONES, ZONES, st.lists(INSTANTS, min_size=1, max_size=8, unique=True))
def test_days_in_any_zone(made: str, used: str, instants: list[dt.datetime]) -> None:
    query = (
        "SELECT ts::DATE AS d, extract(hour FROM ts) AS h, count(*) AS n, "
        "epoch_us(min(date_trunc('month', ts))) AS m FROM t GROUP BY ALL"
    )
    with tidewheel.connect() as con, duckdb.connect() as duck:
        con.execute(f"SET TimeZone = '{made}'; CREATE TABLE t (ts TIMESTAMPTZ)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}; SET TimeZone = '{used}'")
        duck.execute(f"SET TimeZone = '{made}'; CREATE TABLE t (ts TIMESTAMPTZ)").fetchall()
        for instant in instants:
            for each in (con, duck):
                each.execute("INSERT INTO t VALUES (?)", [instant.replace(tzinfo=dt.UTC)])
        con.execute("DELETE FROM t WHERE epoch_us(ts) % 2 = 0")
        duck.execute("DELETE FROM t WHERE epoch_us(ts) % 2 = 0").fetchall()
        expected = Counter(duck.execute(query).fetchall())
        assert Counter(con.execute("FROM v").fetchall()) == expected


@pytest.mark.parametrize("connection", ["one", "two"])
def test_views_of_other_settings_outlive_a_lock(tmp_path: Path, connection: str) -> None:
    path = f"{tmp_path}/a.db"
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (ts TIMESTAMPTZ); SET TimeZone = 'Asia/Tokyo'")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT ts::DATE AS d FROM t")
        con.execute(
            "CREATE MATERIALIZED VIEW w AS SELECT ts::DATE AS d FROM t POSITIONAL JOIN (SELECT 1)"
        )
        con.execute("SET TimeZone = 'UTC'; SET lock_configuration = true")
        with pytest.raises(tidewheel.ProgrammingError, match="locked"):
            con.execute("SET memory_limit = '1GB'")
        other = con if connection == "one" else tidewheel.connect(path)
        other.execute("INSERT INTO t VALUES ('2024-01-01 20:00:00+00')")
        for view in "vw":
            assert other.execute(f"FROM {view}").fetchall() == [(dt.date(2024, 1, 2),)]
            assert other.execute(f"VERIFY VIEW {view}").fetchall() == []


def test_a_database_that_is_locked_from_the_start() -> None:
    with tidewheel.connect(config={"lock_configuration": True}) as con:
        con.execute(
            "CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT max(a) AS m FROM t"
        )
        con.cursor().execute("INSERT INTO t VALUES (1)")
        assert con.execute("FROM v").fetchall() == [(1,)]


def test_a_change_in_several_time_zones() -> None:
    """Rows that an upsert replaces are read under the zone of the system."""
    with tidewheel.connect() as con:
        con.execute("SET TimeZone = 'Asia/Tokyo'")
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ, l TIMESTAMPTZ[])")
        some = "SELECT range, make_timestamptz(range * {}), [make_timestamptz(range)] FROM range(3)"
        con.execute(f"INSERT INTO t {some.format(1)}")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, max(ts) AS m, max(l) FROM t"
        )
        con.execute(f"INSERT OR REPLACE INTO t {some.format(2)}")
        con.execute(
            "MERGE INTO t USING (SELECT 1 AS i) ON id = i WHEN MATCHED THEN UPDATE SET ts = NULL"
        )
        assert not con.execute("VERIFY VIEW v").fetchall()
        con.execute(f"BEGIN; INSERT OR REPLACE INTO t {some.format(9)}; SET TimeZone = 'UTC'")
        con.execute("DELETE FROM t WHERE id = 1; COMMIT")
        assert not con.execute("VERIFY VIEW v").fetchall()
