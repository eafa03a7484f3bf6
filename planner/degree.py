"""Whether threads gain anything for a plan, and which kernels may run beside the connection's own.

Two kernels on one DuckDB connection never run at once: they queue for it (`exclusive`). A kernel
that reads nothing but handoffs is a function of its inputs, so it may have a cursor of its own;
what reads tables stays on the session's connection, inside the one transaction whose snapshot all
of them see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
import sqlglot
from sqlglot import exp

from tidewheel.engine.dataflow.runtime import Dataflow
from tidewheel.planner import meaning
from tidewheel.planner.context import Context
from tidewheel.planner.flow import Flow, Operator
from tidewheel.planner.fuse import KernelPlan

WORTH = 5_000_000
"""ns that two threads must be expected to save. Starting them and opening cursors costs 1 ms, and
beside other work two kernels of 1 to 2 ms were as often slower together as faster."""

_OF_THE_SESSION = {
    *("getvariable", "nextval", "currval", "setseed", "random", "current_setting"),
    *("current_schema", "current_schemas", "current_database", "query", "query_table"),
}


@dataclass
class Learned:
    """What running a plan taught about it; kept with the plan, so it lives as long as its cache."""

    estimates: dict[str, int] = field(default_factory=dict)  # ns per quantum, by stage
    apart: frozenset[str] | None = None  # the kernels that may have cursors of their own
    settings: str = ""  # SET … that such a cursor needs

    def note(self, dataflow: Dataflow) -> None:
        """Take over how long a run's quanta were."""
        nodes = dataflow.scheduler.transitions.nodes
        for stream, stream_id in dataflow.expansion.ids.items():
            node = nodes.get(stream_id)
            if node is not None and node.quanta:
                before = self.estimates.get(stream.name)
                took = node.busy_ns // node.quanta
                # The shortest of late: what another process makes it take is no work of ours.
                self.estimates[stream.name] = (
                    took if before is None else min(took, before + (before >> 3))
                )

    def give(self, dataflow: Dataflow) -> None:
        """Let a run begin with what was learned."""
        for stream in dataflow.expansion.ids:
            stream.expected_ns = self.estimates.get(stream.name, -1)


def degree(flow: Flow, kernels: Sequence[KernelPlan], learned: Learned, threads: int) -> int:
    """The degree of parallelism to run with: 1 where threads would gain nothing.

    Kernels run once per time, when all inputs of that time are there; so two overlap only if
    neither is before the other. Within a loop that holds per iteration.
    """
    if threads == 1 or len(kernels) < 2:
        return 1
    above = _above(flow, kernels)
    pairs = [
        (one, other)
        for i, one in enumerate(kernels)
        for other in kernels[:i]
        if (one.inputs or other.inputs)  # what reads tables alone shares the session's connection
        and one.name not in above[other.name]
        and other.name not in above[one.name]
    ]
    if not pairs:
        return 1
    known = learned.estimates
    if all(k.name in known for k in kernels):
        gain = max(min(known[one.name], known[other.name]) for one, other in pairs)
        if gain < WORTH:
            return 1
    return threads


def _above(flow: Flow, kernels: Sequence[KernelPlan]) -> dict[str, set[str]]:
    """By kernel, those whose output it needs at the same time; feedback leads to a later one."""
    made_by = {member: k for k in kernels for member in k.members}
    reached: dict[Operator, set[str]] = {}
    found: dict[str, set[str]] = {}
    for operator in flow.operators:
        kernel = made_by.get(operator)
        sources = kernel.inputs if kernel is not None and operator is kernel.root else ()
        if kernel is None and operator.kind != "feedback":
            sources = operator.inputs
        names: set[str] = set()
        for source in sources:
            names |= reached.get(source, set())
        if kernel is not None and operator is kernel.root:
            found[kernel.name] = set(names)
            names.add(kernel.name)
        reached[operator] = names
    return found


def leave(kernels: Sequence[KernelPlan], learned: Learned, context: Context) -> frozenset[str]:
    """The kernels that may leave the session's connection; looked up once per plan."""
    if context.in_transaction or context.temporary:
        return frozenset()  # what is temporary or uncommitted is seen by no other connection
    if learned.apart is None:
        learned.apart = frozenset()
        with context.lock:
            path = context.connection.execute(_SEARCH_PATH).fetchall()[0][0]
            found = context.connection.execute(meaning.QUERY).fetchall()[0]
            own = context.connection.cursor()
        try:
            fresh = own.execute(meaning.QUERY).fetchall()[0]
        finally:
            own.close()
        if path in ("", "main"):
            learned.apart = frozenset(k.name for k in kernels if _reads_handoffs_only(k))
            learned.settings = meaning.statement(
                meaning.assignments(meaning.meaning(fresh), meaning.meaning(found))
            )
    return learned.apart


_SEARCH_PATH = "SELECT current_setting('search_path')"


def cursor(context: Context, learned: Learned) -> duckdb.DuckDBPyConnection:
    """Another connection to the session's database, with the session's settings."""
    with context.lock:
        made = context.connection.cursor()
    if learned.settings:
        made.execute(learned.settings).fetchall()
    return made


def _reads_handoffs_only(kernel: KernelPlan) -> bool:
    if not kernel.inputs:
        return False
    try:
        tree = sqlglot.parse_one(kernel.sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return False
    within = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if not (table.name.startswith("__tw_in") or table.name in within):
            return False
    return not any(_name(f) in _OF_THE_SESSION for f in tree.find_all(exp.Func))


def _name(function: exp.Func) -> str:
    if isinstance(function, exp.Anonymous):
        return str(function.name).lower()
    return function.sql_name().lower()
