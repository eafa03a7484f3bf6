"""What would keep a view up to date: its operators, which get no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidewheel.planner.lower_view import NoDeltaRule
from tidewheel.planner.view_kernels import under
from tidewheel.planner.view_plan import Incremental

if TYPE_CHECKING:
    from tidewheel.engine.operators.circuit import Circuit
    from tidewheel.planner.meaning import Meaning
    from tidewheel.planner.plans import Run


def drafted(sql: str, run: Run, rows_prefix: str, meaning: Meaning) -> tuple[Circuit | None, str]:
    """The circuit of a query's plan; None, and why, where the view would be recomputed."""
    with under(meaning), run.there():
        try:
            return Incremental(run.bind(sql), run, rows_prefix).circuit, ""
        except NoDeltaRule as error:
            return None, str(error)
        except RecursionError:
            return None, "its plan nests too deep"
