"""A timeout that stays set, shorter than a view takes to be filled, stops no writing, nor reading.

What takes long here says so itself: no test waits for a clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidewheel
from tidewheel.engine.operators.budget import BOUNDS
from tidewheel.planner import view_choice
from tidewheel.planner.view_plan import ViewPlan

VIEWS = {
    "sums": "SELECT g, sum(x) AS s FROM t GROUP BY g",
    "rows": "SELECT t.x, u.y FROM t JOIN u USING (g)",
    "closure": "WITH RECURSIVE r(a, b) AS (SELECT g, x FROM t UNION "
    "SELECT r.a, t.x FROM r JOIN t ON t.g = r.b) FROM r",
}


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        _make(opened)
        yield opened


def _make(con: tidewheel.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT i % 7 AS g, i AS x FROM range(50) AS r(i)")
    con.execute("CREATE TABLE u AS SELECT i AS g, -i AS y FROM range(9) AS r(i)")
    for name, query in VIEWS.items():
        con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    con.execute("SET statement_timeout = '1min'")


_new = itertools.count(100)


def _write(con: tidewheel.Connection) -> None:
    con.execute(f"INSERT INTO t VALUES (3, {next(_new)})")


def _ends(end: Callable[[], object]) -> Callable[..., Any]:
    def late(*_: object) -> None:
        end()
        raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    return late


def _are_right(con: tidewheel.Connection) -> None:
    for name in VIEWS:
        assert con.execute(f"VERIFY VIEW {name}").fetchall() == []


def _hot(con: tidewheel.Connection) -> set[str]:
    views = con._session.database.maintainer.views
    return {key.rpartition(".")[2] for key, view in views.items() if view.hot}


def test_filling_again_takes_no_time_of_the_statement(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, hydrate, step = con._session.limit, ViewPlan.hydrate, ViewPlan.step
    with monkeypatch.context() as patch:
        patch.setattr(ViewPlan, "step", _ends(limit.end))
        with pytest.raises(tidewheel.OperationalError, match="longer than statement_timeout"):
            _write(con)
    assert _hot(con) == set()
    asked: list[tuple[str, float | None, float | None]] = []

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            asked.append((name, limit.deadline, BOUNDS.get().deadline))
            return call(*given)

        return run

    monkeypatch.setattr(ViewPlan, "hydrate", noted("fill", hydrate))
    monkeypatch.setattr(ViewPlan, "step", noted("step", step))
    _write(con)
    assert [name for name, *_ in asked] == ["fill"] * 3 + ["step"] * 3
    assert all(a is b is None for name, a, b in asked if name == "fill")
    assert all(a == b is not None for name, a, b in asked if name == "step")
    assert _hot(con) == set(VIEWS)
    _are_right(con)


def test_what_can_not_follow_in_time_stays_cold(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = ViewPlan.step

    def late(plan: ViewPlan, *given: Any) -> Any:
        if "sum(" in plan._sql:
            return _ends(con._session.limit.end)()
        return step(plan, *given)

    with con.subscribe("rows") as others, con.subscribe("sums") as sums:
        assert others.read(0) is not None
        assert sums.read(0) is not None
        with monkeypatch.context() as patch:
            patch.setattr(ViewPlan, "step", late)
            for _ in range(2):
                with pytest.raises(tidewheel.OperationalError, match="statement_timeout"):
                    _write(con)
            for _ in range(3):
                _write(con)
                _are_right(con)
        assert _hot(con) == set(VIEWS) - {"sums"}
        assert others.read(0) is not None
        with pytest.raises(tidewheel.OperationalError, match="made anew"):
            sums.read(0)
    con.execute("SET statement_timeout = none")
    con.execute("FROM sums")
    _write(con)
    con.execute("FROM sums")
    assert _hot(con) == set(VIEWS)
    _write(con)
    _are_right(con)


def test_an_interrupt_while_it_is_filled_again(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    hydrate, left = ViewPlan.hydrate, iter([False, True])

    def interrupted(plan: ViewPlan, *given: Any) -> None:
        if next(left):
            _ends(con.interrupt)()
        hydrate(plan, *given)

    with con.subscribe("rows") as subscription:
        assert subscription.read(0) is not None
        with monkeypatch.context() as patch:
            patch.setattr(ViewPlan, "step", _ends(con.interrupt))
            with pytest.raises(tidewheel.OperationalError, match="interrupted"):
                _write(con)
            patch.setattr(ViewPlan, "hydrate", interrupted)
            with pytest.raises(tidewheel.OperationalError, match="interrupted"):
                _write(con)
        assert len(_hot(con)) == 1  # the next change goes on from there
        _write(con)
        assert _hot(con) == set(VIEWS)
        _are_right(con)
        assert subscription.read(0) is not None


def test_an_interrupt_while_a_view_is_computed_anew(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with con.subscribe("rows") as subscription:
        assert subscription.read(0) is not None
        with monkeypatch.context() as patch:
            patch.setattr(view_choice, "LARGE", 1)
            patch.setattr(view_choice, "choice", lambda *_: "many rows")
            patch.setattr(ViewPlan, "hydrate", _ends(con.interrupt))
            with pytest.raises(tidewheel.OperationalError, match="interrupted"):
                con.execute("DELETE FROM t WHERE x < 25")
        _write(con)
        assert _hot(con) == set(VIEWS)
        _are_right(con)
        update = subscription.read(0)
        assert update is not None
        assert update.delta.num_rows == 1


def test_reading_what_can_not_be_filled_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "x.duckdb")
    with tidewheel.connect(path) as con:
        _make(con)
    with tidewheel.connect(path, statement_timeout="1min") as con:
        assert con.execute("SELECT count(*) FROM sums").fetchall() == [(7,)]
        with monkeypatch.context() as patch:
            patch.setattr(ViewPlan, "hydrate", _ends(con._session.limit.end))
            _write(con)
            with pytest.raises(tidewheel.OperationalError, match="statement_timeout"):
                con.execute("FROM sums")
            for _ in range(3):
                _write(con)
                for _ in range(2):
                    found = con.execute("SELECT sum(s) FROM sums").fetchall()
                    assert found == con.execute("SELECT sum(x) FROM t").fetchall()
        con.execute("SET statement_timeout = '2min'")
        _write(con)
        con.execute("FROM sums")
        assert _hot(con) == {"sums"}
        _write(con)
        assert con.execute("VERIFY VIEW sums").fetchall() == []
