"""Views under RF1 and RF2, compared with Spark at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidewheel
import tpch_data
from tidewheel.engine.kernels.spark import Spark
from tidewheel.tpch.churn import Churn
from tidewheel.tpch.generate import DataFolder
from tidewheel.tpch.queries import load


def test_views_after_churn_are_what_spark_answers(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DataFolder(tpch_data.make(tmp_path, 0.01, 2))
    wanted = ["q01", "q03", "q13", "q15", "q18", "q22", "monthly_orders"]
    with tidewheel.connect() as con:
        churn = Churn(con, folder, load(0.01, wanted), lambda _step: None)
        churn.step(compared=False)
        churn.step(compared=True)
        churn.check_on_spark(spark)
        assert [(v.query.name, v.problem) for v in churn.views if v.problem] == []
        assert {v.checked for v in churn.views} == {2}
        # a view that was wrong would be found
        churn.views = churn.views[:1]
        monkeypatch.setattr(churn, "rows", lambda _view: con.execute("SELECT 1").to_arrow_table())
        churn.check_on_spark(spark)
        assert churn.views[0].problem is not None
        assert "on Spark: " in churn.views[0].problem
        churn.close()
