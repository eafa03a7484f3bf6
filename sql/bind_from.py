"""FROM: the joins of a SELECT's items (see `bind_from_item`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from tidewheel.planner.logical import (
    AsofJoin,
    Block,
    EquiKey,
    Filter,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    names_of,
    references,
)
from tidewheel.planner.text import column, identifier, substituted, to_sql, unchanged

from .bind_from_item import From, Items
from .bind_items import join_kind_of, to_their_items
from .bind_names import conjuncts, waits
from .bind_query import split_conditions, with_outer
from .bind_scope import NotTaken, Relation, Scope, Visible
from .bind_settled import outer_columns, reads_tables

if TYPE_CHECKING:
    from .bind_select import SelectBinder


class FromBinder(Items):
    """Binds the FROM clause of one SELECT. Conditions of inner joins that only WHERE can hold
    (subqueries, references to the SELECT around) are left in `conditions`, resolved."""

    def __init__(self, select: SelectBinder) -> None:
        super().__init__(select)
        self.where: exp.Expr | None = None
        self.last: exp.Join | None = None
        """The last join of the SELECT: its sides are all of the FROM items."""

    def bind(self, item: exp.Expr, joins: Sequence[exp.Join]) -> From:
        """An item and what is joined to it."""
        left = self._item(item)
        for join in to_their_items([*(item.args.get("joins") or ()), *joins]):
            left = self.join(left, join)
        return left

    def join(self, left: From, join: exp.Join) -> From:
        """Items with what a join adds."""
        if any(join.args.get(k) for k in ("global_", "match_condition", "pivots", "expressions")):
            raise NotTaken("an unusual join")
        waiting, around = len(self.conditions), self.around
        self.around = Scope(left[1], around, before=True)
        try:
            right = self.bind(join.this, ())
        except (NotTaken, duckdb.Error):
            if join.this.args.get("joins"):  # (a LATERAL that these have on their left)
                raise
            del self.conditions[waiting:]
            from .bind_lateral import Lateral

            if (lateral := Lateral(self).join(left, join)) is None:
                raise
            return lateral
        finally:
            self.around = around
        method = (join.args.get("method") or "").upper()
        side = (join.args.get("side") or "").upper()
        kind = (join.args.get("kind") or "").upper()
        using = [u.name for u in join.args.get("using") or ()]
        if method == "NATURAL":
            using = _common(left[1], right[1])
            if not using:
                raise NotTaken("NATURAL JOIN without common columns")
        elif method and method not in ("ASOF", "POSITIONAL"):
            raise NotTaken(f"{method} JOIN")
        if method == "POSITIONAL":
            return self._positional(left, right)
        join_kind = join_kind_of(side, kind)
        partners = []
        if method == "ASOF" and len(self.conditions) > waiting:  # they choose who is the nearest
            if any(map(waits, partners := self.conditions[waiting:])):
                raise NotTaken("a correlated right side of an ASOF join")
            del self.conditions[waiting:]
            left, partners = self._beside_outer(left, right, partners, join is self.last)
            waiting = len(self.conditions)
        # What waits for WHERE is true of the rows below an outer join, not of those that it adds.
        plain = ("inner", "cross") if using or method else ("inner", "cross", "left")
        added = len(self.conditions) > waiting and join_kind not in plain
        if added or (self.conditions and join_kind in ("right", "full")):
            raise NotTaken("a subquery in a condition below an outer join")
        relations = [*left[1], *right[1]]
        if using:
            conditions, relations = self._using(left, right, using, join_kind, method == "ASOF")
            return self.finish(left, right, relations, join_kind, [*conditions, *partners], method)
        scope = Scope(relations, self.select.scope.parent)
        on = join.args.get("on")
        if join_kind == "left" and not method:
            resolved = [
                self.select.resolve_in(scope, c, around=True, beside=True) for c in conjuncts(on)
            ]
            if any(map(waits, self.conditions[waiting:])):
                raise NotTaken("a subquery in a condition below an outer join")
            left, right, resolved = self._beside_sides(left, right, resolved)
            resolved += self.conditions[waiting:]
            del self.conditions[waiting:]
            left, resolved = self._beside_outer(left, right, resolved, join is self.last)
        elif join_kind == "inner" and not method:
            resolved = [self.select.resolve_in(scope, c) for c in conjuncts(on)]
        else:
            beside = not method
            resolved = [
                self.select.resolve_in(scope, c, pure=True, beside=beside) for c in conjuncts(on)
            ]
            left, right, resolved = self._beside_sides(left, right, resolved)
            resolved += partners
        if join_kind in ("semi", "anti"):
            relations = left[1]
        return self.finish(left, right, relations, join_kind, resolved, method)

    def _beside_sides(
        self, left: From, right: From, conditions: Sequence[exp.Expr]
    ) -> tuple[From, From, list[exp.Expr]]:
        one, two, found = self.select.beside_sides(left[0], right[0], conditions)
        return (one, left[1]), (two, right[1]), found

    def _beside_outer(
        self, left: From, right: From, conditions: Sequence[exp.Expr], last: bool
    ) -> tuple[From, list[exp.Expr]]:
        """The left side of an outer join beside what its conditions read of the SELECT around.

        What WHERE says of the left side holds before the join, too, and leaves fewer pairs.
        """
        here, there = names_of(left[0]), names_of(right[0])
        read = set().union(*map(references, conditions)) - here - there
        if not read:
            return left, list(conditions)
        known = self._known(left, right) if last else []
        if not last and reads_tables(left[0]):  # WHERE may say more than can be told here
            raise NotTaken("an outer join that reads the SELECT around, below another join")
        read = read.union(*map(references, known)) - here
        outer = outer_columns(self.select.scope.parent, read)
        node, met = with_outer(left[0], known, outer, self.binder.names)
        self.select.around |= read
        self.conditions += [
            exp.NullSafeEQ(this=met[c.name].copy(), expression=column(c.name)) for c in outer
        ]
        return (node, left[1]), [substituted(c, met) for c in conditions]

    def _known(self, left: From, right: From) -> list[exp.Expr]:
        """Conditions of WHERE over the left side of the last join and the SELECT around."""
        scope = Scope([*left[1], *right[1]], self.select.scope.parent)
        outer = {c.name for c in scope.parent.columns_around()} if scope.parent else set()
        found = []
        for condition in conjuncts(self.where):
            if condition.find(exp.Query, exp.Window, exp.Subquery):
                continue
            try:
                resolved = self.select.resolve_in(scope, condition, around=True)
            except NotTaken:
                continue
            if references(resolved) <= names_of(left[0]) | outer and references(resolved) & outer:
                found.append(resolved)
        return found

    def finish(
        self,
        left: From,
        right: From,
        relations: list[Relation],
        kind: JoinKind,
        conditions: list[exp.Expr],
        method: str,
    ) -> From:
        if method == "ASOF":
            return self._asof(left[0], right[0], kind, conditions), relations
        here, there = names_of(left[0]), names_of(right[0])
        if kind == "inner":
            visible = here | there
            later = [c for c in conditions if not self.select.is_local(c, visible)]
            self.conditions += later
            conditions = [c for c in conditions if not any(c is x for x in later)]
        one_sided = [
            c for c in conditions if kind == "inner" and (_all_of(c, here) or _all_of(c, there))
        ]
        keys, rest = split_conditions(
            [c for c in conditions if not any(c is o for o in one_sided)], here, there
        )
        if kind == "inner" and not keys and not rest:
            kind = "cross"
        residual = exp.and_(*rest) if rest else None
        node: Node = Join(left[0], right[0], kind, tuple(keys), residual)
        for condition in one_sided:
            node = Filter(node, condition)
        if kind == "full" and any(
            v.merged is not None and v.merged.name not in names_of(node)
            for r in relations
            for v in r.columns
        ):
            node = self._with_merged(node, relations)
        return node, relations

    def _asof(
        self, left: Node, right: Node, kind: JoinKind, conditions: Sequence[exp.Expr]
    ) -> Node:
        if kind not in ("inner", "left"):
            # DuckDB 2.0: a prepared ASOF RIGHT JOIN breaks at its second run.
            raise NotTaken(f"ASOF {kind.upper()} JOIN")
        here, there = names_of(left), names_of(right)
        of_left = [c for c in conditions if _all_of(c, here)]
        of_right = [c for c in conditions if _all_of(c, there)]
        rest = [c for c in conditions if not any(c is o for o in (*of_left, *of_right))]
        keys, compared = split_conditions(rest, here, there)
        if len(compared) != 1:
            raise NotTaken("an ASOF join by more than one comparison of both sides")
        for condition in of_right:  # a partner is the nearest of those for which they hold
            right = Filter(right, condition)
        for condition in of_left:
            if kind == "inner":
                left = Filter(left, condition)
            else:  # of a row for which it does not hold there is none
                met = self.binder.names.fresh("met", "BOOLEAN")
                right = Project(right, (*unchanged(right.schema), Named(met, exp.true())))
                keys.append(EquiKey(condition, column(met.name)))
        return AsofJoin(left, right, kind, tuple(keys), compared[0])

    def _using(
        self, left: From, right: From, using: Sequence[str], kind: JoinKind, asof: bool
    ) -> tuple[list[exp.Expr], list[Relation]]:
        """The conditions of USING, and the relations with the merged columns marked."""
        conditions: list[exp.Expr] = []
        relations = [
            Relation(r.path, [replace(v) for v in r.columns]) for r in (*left[1], *right[1])
        ]
        split = len(left[1])
        for position, name in enumerate(using):
            mine = _unqualified(relations[:split], name)
            theirs = _unqualified(relations[split:], name)
            assert mine.merged is not None
            assert theirs.merged is not None
            equal: type[exp.Binary] = exp.GTE if asof and position == len(using) - 1 else exp.EQ
            conditions.append(
                equal(this=column(mine.merged.name), expression=column(theirs.merged.name))
            )
            if kind == "right":
                mine.merged = theirs.merged
            elif kind == "full":
                type_ = self.binder.oracle.types(
                    [_coalesced(mine.merged.name, theirs.merged.name)],
                    [mine.merged, theirs.merged],
                )[0]
                merged = self.binder.names.fresh(name, type_)
                self._merged[merged.name] = _coalesced(mine.merged.name, theirs.merged.name)
                mine.merged = merged
            theirs.merged = None
        if kind in ("semi", "anti"):
            return conditions, left[1]
        return conditions, relations

    @property
    def _merged(self) -> dict[str, exp.Expr]:
        return self.select.merged

    def _with_merged(self, node: Node, relations: Sequence[Relation]) -> Node:
        have = names_of(node)
        new = [
            v.merged
            for r in relations
            for v in r.columns
            if v.merged is not None and v.merged.name not in have
        ]
        merged = (Named(m, self._merged[m.name]) for m in new)
        return Project(node, (*unchanged(node.schema), *merged))

    def _positional(self, left: From, right: From) -> From:
        """A join that only DuckDB does, over both sides as inputs."""
        names = (self.binder.input_alias(), self.binder.input_alias())
        columns = (*left[0].schema, *right[0].schema)
        items = ", ".join(to_sql(column(c.name)) for c in columns)
        a, b = (to_sql(identifier(n)) for n in names)
        sql = f"SELECT {items} FROM {a} POSITIONAL JOIN {b}"
        node = Block(sql, (left[0], right[0]), names, columns, "POSITIONAL JOIN")
        return node, [*left[1], *right[1]]


def _common(left: Sequence[Relation], right: Sequence[Relation]) -> list[str]:
    theirs = {v.label.lower() for r in right for v in r.columns if v.merged is not None}
    found = [v.label for r in left for v in r.columns if v.merged is not None]
    return [label for label in found if label.lower() in theirs]


def _unqualified(relations: Sequence[Relation], name: str) -> Visible:
    found = [
        v
        for r in relations
        for v in r.columns
        if v.merged is not None and v.label.lower() == name.lower()
    ]
    if len(found) != 1:
        raise NotTaken(f"USING ({name}) is ambiguous")
    return found[0]


def _coalesced(a: str, b: str) -> exp.Expr:
    return exp.Coalesce(this=column(a), expressions=[column(b)])


def _all_of(condition: exp.Expr, names: set[str]) -> bool:
    used = {c.name for c in condition.find_all(exp.Column)}
    return bool(used) and used <= names
