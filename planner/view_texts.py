"""What the operators of a view give, as statements over its tables.

A filter, a projection, a join by keys, a semi or outer join of what tables give is a statement,
too. Those of joins are nested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlglot import exp

from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.asof import AsofJoin
from tidewheel.engine.operators.circuit import Node
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.linear import Map
from tidewheel.engine.operators.ranged import RangeJoin
from tidewheel.engine.quoting import quoted
from tidewheel.planner import logical as L
from tidewheel.planner.rewrites.measured import Text
from tidewheel.planner.text import OWN, identifier, to_sql
from tidewheel.planner.view_statements import behind, item, named, sources, stepped
from tidewheel.planner.view_sums import groups_alike

PLACE: Final = "__tw_place"
_JOINED: Final = 16  # tables of one statement: what a view reads twice is in its text twice


_ALIKE: Final = ("count_star", "count", "sum", "bool_and", "bool_or")
"""Aggregates whose values are DuckDB's, but of doubles."""
Step = L.Filter | L.Project | L.Unnest


def alike(op: Accumulate) -> bool:
    """Are all values DuckDB's?"""
    return all(a.function in _ALIKE for a in op.aggregates) and not any(
        s.float for s in op.arguments
    )


def _calls(op: Accumulate, names: Sequence[str]) -> list[str]:
    return [
        f"{OWN}count(*)"
        if a.argument is None
        else f"{OWN}{a.function}({to_sql(identifier(names[a.argument]))})"
        for a in op.aggregates
    ]


class Only(NamedTuple):
    """A condition on the pairs of a join, and what it calls their columns."""

    condition: exp.Expr
    names: Sequence[str]


class Texts:
    """Statements that compute what operators give from tables."""

    def __init__(self) -> None:
        self._texts: dict[Node, Text] = {}
        self._gives: dict[Node, str] = {}
        self._antis: dict[Node, str] = {}
        self._places: dict[Node, str] = {}
        self._maps: dict[Node, tuple[Node, Sequence[str], Sequence[Step]]] = {}
        self._tables: dict[Node, str] = {}
        self._reads: dict[Node, int] = {}  # how many tables
        self._totals: set[Node] = set()  # what DuckDB may compute otherwise, or cannot
        self.outputs: set[Node] = set()
        """What operators compute."""

    def table(
        self, node: Node, names: Sequence[str], table: str, stored: bool, numbered: bool
    ) -> None:
        """A source gives these columns of a table, or of a view's rows.

        Is it `stored`, so that all sessions have it? Are its rows `numbered`?
        """
        listed = ", ".join(map(quoted, names))
        self._gives[node] = f"SELECT {listed} FROM {table}"
        self._texts[node] = Text.table(table, names, names)
        if stored:
            self._tables[node] = table
        if numbered:
            self._places[node] = f"SELECT {listed}, rowid AS {PLACE} FROM {table}"

    def constant(self, node: Node, query: str) -> None:
        """A source gives what a query that reads no table does."""
        self._gives[node] = query
        self._tables[node] = ""

    def computed(self, node: Node) -> None:
        """Operators compute what `node` gives; while a view is filled, statements may read it."""
        self._gives[node] = f"SELECT * FROM __tw_output_{node.index}"
        self._totals.add(node)
        self.outputs.add(node)

    def map(self, node: Node, source: Node, names: Sequence[str], steps: Sequence[Step]) -> None:
        """A map takes `steps` after `source`, whose columns they call `names`."""
        given = self.after(source, names, steps)
        if given is not None:
            self._gives[node] = given
            self._reads[node] = self._reads.get(source, 1)
            self._maps[node] = source, tuple(names), tuple(steps)

    def union(self, node: Node) -> None:
        """All rows of several inputs."""
        given = [self._gives.get(wire.node) for wire in node.inputs]
        reads = sum(self._reads.get(wire.node, 1) for wire in node.inputs)
        if None not in given and reads <= _JOINED:
            self._gives[node] = " UNION ALL ".join(f"SELECT * FROM ({query})" for query in given)
            self._reads[node] = reads

    def text(self, node: Node) -> Text | None:
        """What a table gives, also after maps, to be counted."""
        if node not in self._texts and node in self._maps:
            source, names, steps = self._maps[node]
            text = self.text(source)
            if text is not None and not any(isinstance(s, L.Unnest) for s in steps):
                self._texts[node] = text.named(names).after(*steps)
        return self._texts.get(node)

    def after(self, source: Node, names: Sequence[str], steps: Sequence[Step]) -> str | None:
        """What `steps` give of the rows of a source, whose columns they call `names`."""
        given = self._gives.get(source)
        return None if given is None else stepped(item(given, names), steps)

    def placed(self, source: Node, names: Sequence[str], steps: Sequence[Step]) -> str | None:
        """What `steps` give of the rows of one table, with the place of the row as `PLACE`."""
        given = self._places.get(source)
        if given is None and source in self._maps:
            given = self.placed(*self._maps[source])
        if given is None or any(isinstance(s, L.Unnest) for s in steps):
            return None
        return stepped(item(given, [*names, PLACE]), steps, PLACE)

    def total(self, node: Node, given: str, names: Sequence[str]) -> None:
        """One row that counts the rows of `given`, or sums them up as an `Accumulate` does.

        What joins it with other rows is a statement, too; while the view is filled, its value
        stands in there. At other times DuckDB's may be another (the last bit of a mean).
        """
        op = node.op
        assert isinstance(op, Accumulate)
        if op.key:
            return
        if not alike(op):
            self._totals.add(node)
        self._gives[node] = f"SELECT {', '.join(_calls(op, names))} FROM ({given})"
        self._reads[node] = self._reads.get(node.inputs[0].node, 1)

    def groups(self, node: Node, given: str, names: Sequence[str]) -> str:
        """The groups of `given`, with what DuckDB counts and sums up as an `Accumulate` does."""
        op = node.op
        assert isinstance(op, Accumulate)
        keys = [to_sql(identifier(names[i])) for i in op.key]
        items = ", ".join([*keys, *_calls(op, names)])
        return f"SELECT {items} FROM ({given}) GROUP BY {', '.join(keys)}"

    def join(self, node: Node) -> None:
        """A join of what two arrangements get."""
        query = self._pairs(node, "JOIN")
        if query is not None:
            self._gives[node] = query

    def asof(self, node: Node) -> None:
        """An ASOF join with what is called `partners`, while a view is filled."""
        op, right = node.op, node.inputs[1].node.inputs[0].node
        assert isinstance(op, AsofJoin)
        kind = f"ASOF {'LEFT ' if op.outer else ''}JOIN"
        query = self._pairs(node, kind, right=self.partners(node))
        if query is not None and self.given(right) is not None:
            self._gives[node] = query
            self._totals.add(node)

    def partners(self, join: Node) -> str:
        """The right rows of an ASOF join, one for each place of a key."""
        return f"SELECT * FROM __tw_partners_{join.index}"

    def _pairs(
        self,
        node: Node,
        kind: str,
        alone: Node | None = None,
        only: Only | None = None,
        right: str | None = None,
    ) -> str | None:
        """What a join gives; or only rows `alone` of the side that `kind` keeps, padded.

        `right`: a query to be read in place of what the right side gives.
        """
        op = node.op
        assert isinstance(op, Join)
        behind = [arranged.node.inputs[0].node for arranged in node.inputs]
        given = [self._gives.get(n) for n in behind]
        if alone is not None:
            given[kind == "RIGHT JOIN"] = self._gives.get(alone)
        given[1] = right or given[1]
        schemas = [n.op.schema for n in behind]
        keys = op.left.key.indices, op.right.key.indices
        reads = self._reads[node] = sum(self._reads.get(n, 1) for n in behind)
        if (
            None in given
            or reads > _JOINED
            or not all(groups_alike(op.left.schema.types[i]) for i in keys[0])
        ):
            return None
        arrange = node.inputs[0].node.op
        null_keys = isinstance(arrange, Arrange) and arrange.null_keys and not op.ranged
        same = "IS NOT DISTINCT FROM" if null_keys else "="
        called = [[f"{a}{i}" for i in range(len(s))] for a, s in zip("lr", schemas, strict=True)]
        if only is not None:
            width, names = len(schemas[0]), [to_sql(identifier(n)) for n in only.names]
            called = [names[:width], names[width:]]

        def column(place: tuple[int, int]) -> str:
            return f"{'lr'[place[0]]}.{called[place[0]][place[1]]}"

        sides = [
            f"({query}) AS {name}" + (f"({', '.join(names)})" if names else "")
            for query, name, names in zip(given, "lr", called, strict=True)
        ]
        conditions: list[str] = []
        if isinstance(op, AsofJoin):
            left_at, sign, right_at = op.condition
            conditions.append(f"{column((0, left_at))} {sign} {column((1, right_at))}")
        if not isinstance(op, RangeJoin):  # (DuckDB joins by what is asked of its pairs)
            pairs = ((column((0, i)), column((1, j))) for i, j in zip(*keys, strict=True))
            conditions += [f"{a} {same} {b}" for a, b in pairs]
        if only is not None:
            conditions.append(f"({to_sql(only.condition)})")
        on = " AND ".join(conditions) or "true" if alone is None else "false"
        one_side = kind in ("SEMI JOIN", "ANTI JOIN")
        chosen = ", ".join(column(c) for c in op.columns if not one_side or c[0] == 0)
        return f"SELECT {chosen} FROM {sides[0]} {kind} {sides[1]} ON {on}"

    def semi(self, join: Node, right: Node, key: Sequence[int]) -> None:
        """A semi join with the keys that `right` has (see `outer.semi`)."""
        once = self._keys(join, right, key)
        if once is not None and not key:
            self._one_side(join)
        elif once is not None:
            distinct, self._gives[once] = self._gives[once], self._gives[once.inputs[0].node]
            self._one_side(join)  # which asks for no distinct keys
            self._gives[once] = distinct

    def matched(self, join: Node, pairs: Node, key: Sequence[int]) -> None:
        """A semi join with `pairs`, which are counted (see `outer.matched`)."""
        once = self._keys(join, pairs, key)
        if once is not None:
            self._reads[once] = 1  # what they are counted in
            self._one_side(join)

    def _keys(self, join: Node, right: Node, key: Sequence[int]) -> Node | None:
        """What a semi join asks of `right`, once each; None if DuckDB's keys are others."""
        given, types = self._gives.get(right), right.op.schema.types
        if given is None or not all(groups_alike(types[i]) for i in key):
            return None
        once = join.inputs[1].node.inputs[0].node
        keys = once.inputs[0].node
        names = [f"c{i}" for i in range(len(types))]
        chosen = ", ".join(names[i] for i in key)
        self._reads[keys] = self._reads[once] = self._reads.get(right, 1)
        if key:
            self._gives[keys] = f"SELECT {chosen} FROM ({named(given, names)})"
            self._gives[once] = f"SELECT DISTINCT * FROM ({self._gives[keys]})"
        else:  # is there a row?
            self._gives[keys] = f"SELECT 1 FROM ({given})"
            self._gives[once] = f"{self._gives[keys]} LIMIT 1"
        return once

    def _one_side(self, join: Node) -> None:
        semi, anti = self._pairs(join, "SEMI JOIN"), self._pairs(join, "ANTI JOIN")
        if semi is not None and anti is not None:
            self._gives[join], self._antis[join] = semi, anti

    def anti(self, lonely: Node, join: Node) -> None:
        """What a semi join leaves of its left side (see `outer.minus`)."""
        if join in self._antis:
            negated = lonely.inputs[1].node
            self._gives[negated] = self._gives[join]  # wanted by `lonely` alone
            self._gives[lonely] = self._antis[join]
            self._reads[lonely] = self._reads[join]

    def outer(self, node: Node, join: Node, kind: str, only: Only | None) -> None:
        """The pairs of a join and, padded, rows that are in none: the inputs of `node`."""
        pairs, *padded = [wire.node for wire in node.inputs]
        if self.origin(pairs) is not join:
            return
        kinds = ("LEFT JOIN", "RIGHT JOIN") if kind == "full" else (f"{kind.upper()} JOIN",)
        texts = [self._pairs(join, k, p.inputs[0].node) for k, p in zip(kinds, padded, strict=True)]
        query = self._pairs(join, f"{kind.upper()} JOIN", None, only)
        for n, text in zip([*padded, node], [*texts, query], strict=True):
            if text is None:
                return
            self._gives[n] = text
            self._reads[n] = self._reads[join]

    def given(self, node: Node) -> str | None:
        """The statement that computes what `node` gives at any time, if there is one."""
        return self._gives.get(node) if self._totals.isdisjoint(behind(node)) else None

    def tables(self, node: Node) -> frozenset[str] | None:
        """The tables that `node` follows from, where they are all stored, or constant."""
        found = [self._tables.get(source) for source in sources(node)]
        return None if None in found else frozenset(filter(None, found))

    def origin(self, node: Node) -> Node:
        """Where maps begin that lead to `node`."""
        while node in self._gives and isinstance(node.op, Map):
            node = node.inputs[0].node
        return node
