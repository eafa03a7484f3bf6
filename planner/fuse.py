"""Cuts the planner's graph into in-out trees and compiles each to one SQL statement.

An in-out tree (Hydro's two-level design) is a directed tree with a root on every path from one of
its sources to one of its sinks; every edge into it is a handoff. DuckDB's statements have one
output, so the trees made here end in their root.

With fusion off every operator is a tree of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidewheel.engine.kernels.duckdb import input_name
from tidewheel.planner.flow import Flow, Operator
from tidewheel.planner.logical import Column, PlanError
from tidewheel.planner.text import alias_of, column, identifier, to_sql


@dataclass(eq=False, slots=True)
class KernelPlan:
    """One in-out tree: `members` in the order of the flow, the last is the `root`.

    `inputs` are the operators whose handoffs it reads, one port each; `sql` is the statement.
    """

    name: str
    members: list[Operator]
    inputs: list[Operator]
    sql: str

    @property
    def root(self) -> Operator:
        """The member whose output is the kernel's."""
        return self.members[-1]


def fuse(flow: Flow, enabled: bool = True) -> list[KernelPlan]:
    """The kernels of a flow, in an order in which inputs come first (feedback aside)."""
    if enabled:
        _inline_scans(flow)
    kernels: list[KernelPlan] = []
    for members in _cut(flow, enabled):
        inside = set(members)
        inputs: dict[Operator, None] = {}
        for member in members:
            inputs.update((i, None) for i in member.inputs if i not in inside)
        check_in_out_tree(members, inputs)
        sql = _statement(members, list(inputs), flow)
        kernels.append(KernelPlan(f"k{len(kernels)}", members, list(inputs), sql))
    return kernels


def _cut(flow: Flow, enabled: bool) -> list[list[Operator]]:
    readers = flow.readers()
    group_of: dict[Operator, list[Operator]] = {}
    groups: list[list[Operator]] = []
    for operator in reversed(flow.operators):
        if operator.kind != "sql" or (not readers[operator] and operator is not flow.root):
            continue
        reader = readers[operator][0] if len(readers[operator]) == 1 else None
        if enabled and operator is not flow.root and reader is not None and _fits(operator, reader):
            group = group_of[reader]
        else:
            group = []
            groups.append(group)
        group.append(operator)
        group_of[operator] = group
    for group in groups:
        group.reverse()
    return groups[::-1]


def _fits(operator: Operator, reader: Operator) -> bool:
    return (
        reader.kind == "sql"
        and reader.loop is operator.loop
        and operator.fusible
        and reader.fusible
    )


def _inline_scans(flow: Flow) -> None:
    """Let a kernel inside a loop read a table itself instead of a copy brought in by an ingress."""
    for operator in list(flow.operators):
        if operator.kind != "sql" or operator.loop is None:
            continue
        origins = [_origin(i) for i in operator.inputs]
        if all(o.is_scan for o in origins):
            continue  # something must say when it runs
        for port, origin in enumerate(origins):
            if origin.is_scan and operator.inputs[port].kind == "ingress":
                at = flow.operators.index(operator)
                clone = Operator(
                    len(flow.operators),
                    "sql",
                    origin.name,
                    origin.columns,
                    [],
                    operator.loop,
                    build=origin.build,
                    detail=origin.detail,
                    is_scan=True,
                )
                flow.operators.insert(at, clone)
                operator.inputs[port] = clone
    _drop_unread(flow)


def _origin(operator: Operator) -> Operator:
    while operator.kind == "ingress":
        operator = operator.inputs[0]
    return operator


def _drop_unread(flow: Flow) -> None:
    while True:
        readers = flow.readers()
        dead = {o for o in flow.operators if not readers[o] and o is not flow.root}
        if not dead:
            return
        flow.operators = [o for o in flow.operators if o not in dead]


def check_in_out_tree(members: Sequence[Operator], inputs: Iterable[Operator]) -> None:
    """Refuse (PlanError) what is not an in-out tree whose incoming edges are all in `inputs`.

    A directed tree: connected, one edge fewer than vertices. A root: a vertex that every other
    one either reaches (IN) or is reached from (OUT); every path from IN to OUT then passes it.
    """
    inside = set(members)
    handoffs = set(inputs)
    if handoffs & inside:
        raise PlanError("a kernel reads one of its own members through a handoff")
    edges = [(s, m) for m in members for s in m.inputs if s in inside]
    if any(s not in inside and s not in handoffs for m in members for s in m.inputs):
        raise PlanError("an edge into a kernel is no handoff")
    below: dict[Operator, set[Operator]] = {m: set() for m in members}
    above: dict[Operator, set[Operator]] = {m: set() for m in members}
    for source, target in edges:
        below[source].add(target)
        above[target].add(source)
    both = {m: below[m] | above[m] for m in members}
    if len(edges) != len(members) - 1 or len(_reach(members[0], both)) != len(members):
        raise PlanError(f"kernel {[m.name for m in members]} is not a directed tree")
    if not any(_reach(m, above) | _reach(m, below) == inside for m in members):
        raise PlanError(f"kernel {[m.name for m in members]} has no central vertex")


def _reach(start: Operator, edges: dict[Operator, set[Operator]]) -> set[Operator]:
    found, work = {start}, [start]
    while work:
        for other in edges[work.pop()] - found:
            found.add(other)
            work.append(other)
    return found


def _statement(members: Sequence[Operator], inputs: Sequence[Operator], flow: Flow) -> str:
    root = members[-1]
    if root is flow.root and len(members) == 1 and root.text is not None:
        return root.text  # nothing was changed: as the user wrote it
    inside = set(members)
    ports = {operator: port for port, operator in enumerate(inputs)}
    written: dict[Operator, exp.Query] = {}
    for member in members:  # inputs first: no recursion, plans can be deep
        assert member.build is not None
        sources: list[exp.Expr] = []
        for source in member.inputs:
            if source in inside:
                sources.append(exp.Subquery(this=written.pop(source)))
            else:
                sources.append(handoff(input_name(ports[source]), source.columns))
        written[member] = member.build(sources)
    return to_sql(written[root])


def handoff(name: str, columns: Sequence[Column]) -> exp.Expr:
    """A FROM item that reads a handoff. ENUM comes out of Arrow as VARCHAR: it is cast back."""
    table = exp.Table(this=identifier(name))
    if not any("ENUM(" in c.type for c in columns):
        return table
    items: list[exp.Expr] = []
    for c in columns:
        item: exp.Expr = column(c.name)
        if "ENUM(" in c.type:
            item = exp.Var(this=f"CAST({to_sql(item)} AS {c.type})")
            item = alias_of(item, c.name)
        items.append(item)
    return exp.Subquery(this=exp.select(*items).from_(table))
