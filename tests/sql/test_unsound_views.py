"""A view whose changes do not add up is filled again, and says so."""

import pytest

import tidewheel
from tidewheel.engine.operators.sink import Sink
from tidewheel.engine.state.delta import Delta


def test_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with tidewheel.connect() as con, tidewheel.connect() as plain:
        for c in (con, plain):
            c.execute("CREATE TABLE t(a INT, b INT)")
            c.execute("INSERT INTO t VALUES (1, 2), (3, 4)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, b + 1 AS c FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(c) AS s FROM v")
        assert con.execute("FROM w").fetchall() == [(8,)]
        taken = Sink.taken

        def wrong(sink: Sink, read: bool = False) -> object:
            """What goes is not what came."""
            if len(sink.schema) == 2:
                sink._fresh = [
                    Delta(d.schema, (d.cols[0] + (d.weights < 0), d.cols[1]), d.weights)
                    for d in sink._fresh
                ]
            return taken(sink, read)

        with monkeypatch.context() as broken:
            broken.setattr(Sink, "taken", wrong)
            con.execute("DELETE FROM t WHERE a = 3")
        with pytest.warns(RuntimeWarning, match="main.v did not add up"):
            assert con.execute("FROM v").fetchall() == [(1, 3)]
        assert con.execute("FROM w").fetchall() == [(3,)]
        for change in ("INSERT INTO t VALUES (5, 6)", "DELETE FROM t WHERE a = 1"):
            con.execute(change)
        assert con.execute("FROM v").fetchall() == [(5, 7)]
        assert con.execute("FROM w").fetchall() == [(7,)]
        assert con.execute("VERIFY VIEW w").fetchall() == []
