"""EXPLAIN ANALYZE: the numbers are those of the run."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import tidewheel
from tidewheel.planner import degree

CHAIN = (
    "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT d FROM r JOIN e ON r.n = e.s) SELECT * FROM r"
)
MUTUAL = """
WITH RECURSIVE p(n) AS (SELECT 1 UNION SELECT n + 1 FROM q WHERE n < 30),
q(n) AS (SELECT 2 UNION SELECT n + 1 FROM p WHERE n < 30) SELECT count(*) FROM p
"""


@pytest.fixture
def con() -> tidewheel.Connection:
    con = tidewheel.connect()
    con.execute("CREATE TABLE e AS SELECT range AS s, (range + 1) % 20 AS d FROM range(20)")
    con.execute("SET threads = 1")
    return con


def text(con: tidewheel.Connection, sql: str) -> str:
    rows = con.execute(sql).fetchall()
    assert len(rows) == 1
    return str(rows[0][1])


def vertex(shown: str, name: str) -> tuple[int, int]:
    """Rows and quanta of the first vertex of a name."""
    found = re.search(rf"#\d+ {name}.*: ([\d,]+) rows?, ([\d,]+) quant", shown)
    assert found is not None, shown
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def test_one_kernel(con: tidewheel.Connection) -> None:
    shown = text(con, "EXPLAIN ANALYZE SELECT s % 3 AS m, count(*) FROM e GROUP BY m")
    assert shown.startswith("3 rows in ")
    assert vertex(shown, "Block")[0] == 3
    assert "k0 in DuckDB, 1 run\n" in shown
    assert re.search(r"TABLE_SCAN .*: 20 rows", shown)


def test_iterations_of_a_loop(con: tidewheel.Connection) -> None:
    con.execute("SET fusion = 'off'")
    shown = text(con, f"EXPLAIN ANALYZE {CHAIN}")
    assert vertex(shown, "Block SELECT c0")[0] == 1  # the anchor
    assert vertex(shown, "Pick r_1 delta")[0] == 20
    assert "recursive table r: 20 rows in 21 iterations" in shown
    assert "⟨0⟩ +1  ⟨1⟩ +1" in shown
    assert "⟨20⟩ +0" in shown
    assert "in DuckDB, 20 runs" in shown  # the step, once per iteration that found something


@pytest.mark.parametrize("query", [CHAIN, CHAIN.replace("UNION", "UNION ALL") + " LIMIT 5"])
def test_loops_of_every_kind_tell_their_iterations(con: tidewheel.Connection, query: str) -> None:
    counted = []
    for fusion in ("on", "off"):
        con.execute(f"SET fusion = '{fusion}'")
        shown = text(con, f"EXPLAIN ANALYZE {query}")
        counted.append(re.findall(r"⟨\d+⟩ \+1", shown)[:5])
    assert counted[0] == counted[1]
    assert len(counted[0]) == 5


def test_deltas_by_table_of_a_mutual_recursion(con: tidewheel.Connection) -> None:
    shown = text(con, f"EXPLAIN ANALYZE {MUTUAL}")
    rows = dict(re.findall(r"recursive table (\w): (\d+) rows?", shown))
    assert int(rows["p"]) == con.execute(MUTUAL).fetchone()[0]  # type: ignore[index]


def test_counters_of_nested_loops(con: tidewheel.Connection) -> None:
    con.execute("SET fusion = 'off'")
    nested = """
    WITH RECURSIVE o(n) AS (
      SELECT 0 UNION SELECT m FROM (
        WITH RECURSIVE i(m) AS (SELECT n + 1 FROM o WHERE n < 3 UNION SELECT m + 10 FROM i
        WHERE m < 20) SELECT m FROM i)
    ) SELECT count(*) FROM o
    """
    shown = text(con, f"EXPLAIN ANALYZE {nested}")
    assert "recursive table o: 10 rows in 5 iterations" in shown
    assert "recursive table i: 9 rows in 13 iterations" in shown
    assert "⟨2, 1⟩ +1  ⟨2, 2⟩ +1  ⟨2, 3⟩ +0" in shown


def test_a_trace_shows_what_overlaps(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(degree, "WORTH", 0)
    con.execute("SET fusion = 'off'; SET threads = 2")
    events: list[dict[str, Any]] = json.loads(
        text(con, f"EXPLAIN (ANALYZE, FORMAT trace) {MUTUAL}")
    )["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert any(name.startswith("Iterate") for name in names.values())
    quanta = [e for e in events if e["ph"] == "X"]
    assert {e["args"]["result"] for e in quanta} <= {
        "UNDERFLOW",
        "OVERFLOW",
        "EOS",
        "QUANTUM_EXPIRED",
        "YIELD",
    }
    assert all(e["dur"] >= 0 and e["tid"] in names for e in quanta)
    assert len({e["args"]["thread"] for e in quanta}) > 1


def test_the_answer_and_the_settings_are_left_alone(con: tidewheel.Connection) -> None:
    before = con.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()
    con.execute("BEGIN")
    con.execute("INSERT INTO e VALUES (99, 100)")
    shown = text(con, "EXPLAIN ANALYZE SELECT * FROM e WHERE s = 99")
    assert shown.startswith("1 row in ")
    con.execute("ROLLBACK")
    assert con.execute("SELECT count(*) FROM e").fetchall() == [(20,)]
    after = con.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()
    assert after == before


def test_in_safe_mode_the_profile_is_left_out() -> None:
    con = tidewheel.connect(safe_mode=True)
    shown = text(con, "EXPLAIN ANALYZE SELECT * FROM range(5)")
    assert shown.startswith("5 rows in ")
    assert "in DuckDB" not in shown


def test_an_error_of_the_query_has_its_place(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.ProgrammingError, match="nope") as caught:
        con.execute("EXPLAIN ANALYZE SELECT nope FROM e")
    assert "^^^^" in str(caught.value)
    assert con.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("FORMAT bmp", "there is no EXPLAIN format bmp"),
        ("FORMAT trace", "a trace is of a run"),
        ("FORMAT svg", "EXPLAIN needs a query"),
        ("LOGICAL, SLOWLY", "EXPLAIN takes"),
    ],
)
def test_wrong_options(con: tidewheel.Connection, options: str, message: str) -> None:
    query = "" if "needs" in message else "SELECT 1"
    with pytest.raises(tidewheel.ProgrammingError, match=message):
        con.execute(f"EXPLAIN ({options}) {query}")


def test_what_is_duckdbs_stays_duckdbs(con: tidewheel.Connection) -> None:
    assert json.loads(text(con, "EXPLAIN (FORMAT json) SELECT 1"))
    assert con.execute("EXPLAIN ANALYZE INSERT INTO e VALUES (7, 7)").fetchall()
    assert con.execute("SELECT count(*) FROM e").fetchall() == [(21,)]


def test_views_only_have_a_dataflow(con: tidewheel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT d, count(*) FROM e GROUP BY d")
    with pytest.raises(tidewheel.NotSupportedError, match="a view has a dataflow"):
        con.execute("EXPLAIN (KERNELS) VIEW v")
    with pytest.raises(tidewheel.ProgrammingError, match="no maintained view w"):
        con.execute("EXPLAIN VIEW w")
