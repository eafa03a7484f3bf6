"""What the first query of a process must not load: each of these takes 50 ms or more."""

import subprocess
import sys

HEAVY = ("sqlglot", "pandas", "polars", "pyspark", "sqlalchemy", "asyncio", "prompt_toolkit")
QUERY = "select 1 as a, 'x' as b"
BATCH = f"""
import sys
from tidewheel.cli.main import main
sys.argv = ["tidewheel", "-c", "{QUERY}"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
CURSOR = f"""
import sys, tidewheel
with tidewheel.connect() as connection:
    assert connection.execute("{QUERY}").fetchall() == [(1, "x")]
"""
VIEW = """
import tidewheel
con = tidewheel.connect()
con.execute("CREATE TABLE e (a INT, b INT)")
con.execute("INSERT INTO e VALUES (0, 1), (1, 2)")
step = "SELECT b FROM t JOIN e ON a = x"
query = f"WITH RECURSIVE t(x) AS (SELECT 0 UNION {step}) SELECT count(*), sum(x) FROM t"
con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
assert con.execute("FROM v").fetchall() == [(3, 3)]
import sys
"""
VIEWS = """
import tidewheel
con = tidewheel.connect()
con.execute(
    "CREATE TABLE t AS SELECT i, i % 10 AS k, i / 7 AS d, (i % 100)::DECIMAL(12, 2) AS x, "
    "'n' || (i % 5) AS s FROM range(150000) AS r(i)"
)
for i, query in enumerate([
    "SELECT s, avg(x), sum(i) FROM t GROUP BY s",
    "SELECT k, sum(d), stddev(d) FROM t GROUP BY k",
    "SELECT DISTINCT s, k FROM t",
    "SELECT k, min(d), max(s) FROM t GROUP BY k",
    "SELECT * FROM t ORDER BY d LIMIT 10",
    "SELECT a.i, b.s FROM t AS a JOIN t AS b ON a.i = b.i WHERE a.s = 'n1' AND b.s LIKE 'n%'",
]):
    con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
con.execute("INSERT INTO t VALUES (-1, 2, 0.5, 1.25, 'n'), (-2, NULL, NULL, NULL, NULL)")
con.execute("INSERT INTO t SELECT 7, 2, 0.5, 1.25, 'n1'")
con.execute("UPDATE t SET d = d + 1, s = 'n2' WHERE i IN (5, 7)")
con.execute("DELETE FROM t WHERE i < 30")
import sys
"""
SHOW = """
print("LOADED", *(m for m in sys.modules if m == "tidewheel" or "." not in m
                  or m in ("pyarrow.compute", "tidewheel.engine.scheduler", "rich.console")))
"""


def _loaded(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program + SHOW], capture_output=True, text=True, check=True
    )
    line = next(x for x in done.stdout.splitlines() if x.startswith("LOADED"))
    return set(line.split())


def test_a_batch_query_loads_nothing_heavy() -> None:
    loaded = _loaded(BATCH)
    assert {"duckdb", "click", "tidewheel"} <= loaded
    assert not loaded & {*HEAVY, "pyarrow", "numpy", "tidewheel.engine.scheduler", "rich.console"}


def test_a_first_query_through_the_db_api_loads_nothing_heavy() -> None:
    loaded = _loaded(CURSOR)
    assert {"duckdb", "tidewheel"} <= loaded
    assert not loaded & {*HEAVY, "click", "rich", "tidewheel.engine.scheduler"}


def test_first_maintained_views_and_changes_load_no_pandas() -> None:
    """Which `pyarrow.array`, `pyarrow.scalar` and `to_numpy` do."""
    assert "pandas" not in _loaded(VIEW)
    assert "pandas" not in _loaded(VIEWS)


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidewheel", "-c", "select 41 + 1", "--format", "csv"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["(41", "+", "1)", "42"]
