"""Runs queries on Spark, the recursions that Spark refuses included.

Spark has recursion by UNION ALL only. Every other recursive CTE runs here as a loop on the driver,
each step a Spark job over the rows of the last one:

    found = delta = distinct(anchor)
    while delta is not empty:
        delta = distinct(step(delta)) − found
        found = found ∪ delta

Each delta is checkpointed, which cuts Spark's plan: without it the plan would grow with every
step. The finished relation takes the CTE's place in the query. Mutual and non-linear recursion is
evaluated naively, to the least fixpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from ..engine.kernels.spark import Spark, SparkError, translated_errors
from .spark import DIALECT, to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# After so many unions the pieces found so far are made one: tasks are per piece.
_COMPACT_EVERY = 8


@dataclass(frozen=True)
class Recursion:
    """A recursive CTE taken apart: `anchors` do not read the group's names, `steps` do."""

    name: str
    columns: tuple[str, ...]
    anchors: tuple[exp.Expr, ...]
    steps: tuple[exp.Expr, ...]
    union_all: bool


class SparkQueries:
    """Runs queries, parsed with DuckDB's dialect, over tables that `spark` knows.

    `max_iterations` bounds every loop. After a run `iterations` tells how many steps the loops on
    the driver took; 0 means that Spark ran the query by itself.
    """

    def __init__(self, spark: Spark, max_iterations: int = 10_000) -> None:
        self.spark = spark
        self.max_iterations = max_iterations
        self.iterations = 0
        self._schemas: dict[str, dict[str, str]] = {}
        self._made: list[str] = []

    def add_table(self, name: str, frame: DataFrame) -> None:
        """Makes `frame` known to queries as the table `name`."""
        self.spark.view(frame, name)
        self._schemas[name] = dict(frame.dtypes)

    def drop_table(self, name: str) -> None:
        """Forgets a table that `add_table` made known."""
        self.spark.drop_view(name)
        del self._schemas[name]

    def evaluate(self, query: exp.Expr) -> DataFrame:
        """The DataFrame of a query. Loops run before this returns, the rest when it is read.

        Raises SparkError where Spark cannot run the query, with its reason.
        """
        self.iterations = 0
        while self._made:  # what an earlier query's loops have left
            self._forget(self._made[-1])
        query = query.copy()
        recursions = [cte for with_ in _recursive_withs(query) for cte in with_.expressions]
        if recursions and all(_spark_can(cte) for cte in recursions):
            try:
                return self._statement(query)
            except SparkError:
                pass  # its types are stricter than SQL's; the loop converts
        if not recursions:
            return self._statement(query)
        with self._without_constraints():
            return self._run(query)

    def close(self) -> None:
        """Forgets all tables and the views that loops have made; results read before stay valid."""
        for name in list(self._schemas):
            self.drop_table(name)
        self._made.clear()

    @contextmanager
    def _without_constraints(self) -> Iterator[None]:
        """Spark 4.3 keeps a checkpoint's constraints under names that its columns no longer have,
        and then fails on a union ("key not found"); a checkpoint made in here has none."""
        conf, name = self.spark.session.conf, "spark.sql.constraintPropagation.enabled"
        conf.set(name, "false")
        try:
            yield
        finally:
            conf.unset(name)

    def _statement(self, query: exp.Expr) -> DataFrame:
        return self.spark.sql(to_spark(query, self._schemas))

    def _run(self, query: exp.Expr) -> DataFrame:
        """Materializes the recursive CTEs of `query`, outermost first, and runs what is left."""
        while (with_ := next(_recursive_withs(query), None)) is not None:
            self._materialize(with_)
        return self._statement(query)

    def _materialize(self, with_: exp.With) -> None:
        """Replaces the recursive CTEs of one WITH by reads of materialized views."""
        ctes: list[exp.CTE] = list(with_.expressions)
        outer = _outer_ctes(with_)
        for group in _groups(ctes):
            if not any(_reads(cte.this, {c.alias.lower() for c in group}) for cte in group):
                continue
            first = min(ctes.index(cte) for cte in group)
            taken = [_take_apart(cte, group) for cte in group]
            scope = list(outer)
            for cte in (cte for cte in ctes[:first] if cte not in group):
                if any(_reads(step, {cte.alias.lower()}) for t in taken for step in t.steps):
                    self._hoist(cte, scope)
                scope.append(cte)
            if len(taken) == 1 and (taken[0].union_all or _linear(taken[0])):
                frames = [self._semi_naive(taken[0], scope)]
            else:
                frames = self._fixpoint(taken, scope)
            for cte, frame in zip(group, frames, strict=True):
                view = self._view(frame)
                cte.set("this", exp.select("*").from_(exp.to_identifier(view)))
                cte.set("key_expressions", None)
        with_.set("recursive", False)

    def _hoist(self, cte: exp.CTE, scope: list[exp.CTE]) -> None:
        """Computes once what every step of a loop reads, and Spark would compute in each."""
        columns = tuple(column.name for column in cte.args["alias"].columns)
        frame, _ = self._cut(_named(self._branch(cte.this, scope, {}), columns))
        cte.set("this", exp.select("*").from_(exp.to_identifier(self._view(frame))))

    def _view(self, frame: DataFrame) -> str:
        name = self.spark.view(frame)
        self._schemas[name] = dict(frame.dtypes)
        self._made.append(name)
        return name

    def _forget(self, view: str) -> None:
        self._made.remove(view)
        self.drop_table(view)

    def _branch(
        self, branch: exp.Expr, scope: list[exp.CTE], variables: dict[str, str]
    ) -> DataFrame:
        """Runs an anchor or a step: `variables` maps a CTE's name to the view of its rows."""
        query = branch.copy()
        definitions = [cte.copy() for cte in scope]
        for name, view in variables.items():
            rows = exp.select("*").from_(exp.to_identifier(view))
            alias = exp.TableAlias(this=exp.to_identifier(name))
            definitions.append(exp.CTE(this=rows, alias=alias))
        own = query.args.get("with_")
        if own is not None:
            definitions += [cte.copy() for cte in own.expressions]
        if definitions:
            recursive = bool(own is not None and own.args.get("recursive"))
            query.set("with_", exp.With(expressions=definitions, recursive=recursive))
        return self._run(query)

    def _all(
        self,
        branches: tuple[exp.Expr, ...],
        scope: list[exp.CTE],
        variables: dict[str, str],
        like: DataFrame | None,
        columns: tuple[str, ...],
    ) -> DataFrame | None:
        """UNION ALL of `branches`, with the types and names of `like`."""
        result: DataFrame | None = None
        for branch in branches:
            frame = self._branch(branch, scope, variables)
            frame = _converted(frame, like) if like is not None else _named(frame, columns)
            like = like if like is not None else frame
            result = frame if result is None else result.unionAll(frame)
        return result

    def _cut(self, frame: DataFrame) -> tuple[DataFrame, int]:
        """Computes `frame` and cuts it from its plan; the rows' number."""
        with translated_errors():
            done = frame.localCheckpoint(eager=False)
            return done, done.count()  # one job: counting computes and keeps the rows

    def _semi_naive(self, recursion: Recursion, scope: list[exp.CTE]) -> DataFrame:
        anchor = self._all(recursion.anchors, scope, {}, None, recursion.columns)
        if anchor is None:
            raise SparkError(f"the recursive query {recursion.name} has no anchor")
        delta, rows = self._cut(anchor if recursion.union_all else anchor.distinct())
        found = delta
        for step in range(self.max_iterations):
            if not rows:
                return found
            view = self._view(delta)
            new = self._all(recursion.steps, scope, {recursion.name: view}, delta, ())
            assert new is not None
            delta, rows = self._cut(new if recursion.union_all else new.subtract(found))
            self._forget(view)
            found = found.unionAll(delta)
            if step % _COMPACT_EVERY == _COMPACT_EVERY - 1:
                found, _ = self._cut(found.coalesce(2))
            self.iterations += 1
        raise SparkError(f"{recursion.name} did not end within {self.max_iterations} iterations")

    def _fixpoint(self, group: list[Recursion], scope: list[exp.CTE]) -> list[DataFrame]:
        for recursion in group:
            if recursion.union_all:
                raise SparkError(
                    f"{recursion.name}: mutual recursion with UNION ALL has no least solution; "
                    "nothing to compare"
                )
        anchors: list[DataFrame] = []
        for recursion in group:
            anchor = self._all(recursion.anchors, scope, {}, None, recursion.columns)
            if anchor is None:
                raise SparkError(f"the recursive query {recursion.name} has no anchor")
            anchors.append(anchor.distinct())
        found = [self._cut(anchor) for anchor in anchors]
        for _ in range(self.max_iterations):
            names = (recursion.name for recursion in group)
            views = dict(zip(names, (self._view(frame) for frame, _ in found), strict=True))
            new: list[tuple[DataFrame, int]] = []
            for recursion, (known, _rows) in zip(group, found, strict=True):
                step = self._all(recursion.steps, scope, views, known, ())
                grown = known if step is None else known.unionAll(step).distinct()
                new.append(self._cut(grown))
            self.iterations += 1
            for view in views.values():
                self._forget(view)
            if [rows for _, rows in new] == [rows for _, rows in found]:
                return [frame for frame, _ in new]
            found = new
        raise SparkError(f"{group[0].name} did not end within {self.max_iterations} iterations")


def _named(frame: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    return frame.toDF(*columns) if columns else frame


def _converted(frame: DataFrame, like: DataFrame) -> DataFrame:
    """`frame` with the names and types of `like`, as SQL converts a step to its anchor's types."""
    from pyspark.sql import functions
    from pyspark.sql.types import DecimalType, DoubleType, IntegralType

    if len(frame.columns) != len(like.columns):
        raise SparkError(
            f"the anchor has {len(like.columns)} columns, the step {len(frame.columns)}"
        )
    frame = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    columns = []
    for i, field in enumerate(like.schema.fields):
        column, kind = functions.col(f"c{i}"), frame.schema.fields[i].dataType
        if isinstance(field.dataType, IntegralType):
            # A cast to an integer rounds here and truncates in Spark.
            if isinstance(kind, DecimalType):
                column = functions.round(column)
            elif isinstance(kind, DoubleType):
                column = functions.rint(column)
        columns.append(column.cast(field.dataType).alias(field.name))
    return frame.select(*columns)


def _recursive_withs(query: exp.Expr) -> Iterator[exp.With]:
    """The WITH RECURSIVE clauses that still hold a recursion, outermost first."""
    for with_ in query.find_all(exp.With):
        if not with_.args.get("recursive"):
            continue
        for group in _groups(list(with_.expressions)):
            names = {cte.alias.lower() for cte in group}
            if any(_reads(cte.this, names) for cte in group):
                yield with_
                break


def _outer_ctes(with_: exp.With) -> list[exp.CTE]:
    """The CTEs of enclosing queries that `with_` sees, outermost first."""
    found: list[exp.CTE] = []
    node: exp.Expr | None = with_.parent
    while node is not None:
        parent = node.parent
        if isinstance(parent, exp.With) and isinstance(node, exp.CTE):
            before = parent.expressions[: parent.expressions.index(node)]
            found = [*before, *found]
            node = parent.parent
            continue
        if parent is not None and (outer := parent.args.get("with_")) is not None:
            found = [*outer.expressions, *found]
        node = parent
    return found


def _reads(query: exp.Expr, names: set[str]) -> int:
    """How often `query` reads one of `names` (lower case), unqualified."""
    return sum(
        table.name.lower() in names and not table.db
        for table in query.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier)
    )


def _groups(ctes: list[exp.CTE]) -> list[list[exp.CTE]]:
    """Groups of CTEs that refer to each other, in an order in which none reads a later group."""
    names = [cte.alias.lower() for cte in ctes]
    reaches = [[_reads(cte.this, {name}) > 0 for name in names] for cte in ctes]
    count = len(ctes)
    for k in range(count):
        for i in range(count):
            if reaches[i][k]:
                reaches[i] = [a or b for a, b in zip(reaches[i], reaches[k], strict=True)]
    groups: list[list[exp.CTE]] = []
    placed: set[int] = set()
    while len(placed) < count:
        for i in range(count):
            if i in placed:
                continue
            group = [j for j in range(count) if j == i or (reaches[i][j] and reaches[j][i])]
            if all(j in placed or j in group for j in range(count) if reaches[i][j]):
                groups.append([ctes[j] for j in group])
                placed.update(group)
                break
    return groups


def _branches(query: exp.Expr, distinct: bool | None) -> list[exp.Expr]:
    """The operands of a chain of unions of one kind, left to right."""
    while isinstance(query, exp.Subquery) and not query.alias:
        query = query.this
    if isinstance(query, exp.Union) and distinct in (None, bool(query.args.get("distinct"))):
        kind = bool(query.args.get("distinct"))
        return [*_branches(query.left, kind), *_branches(query.right, kind)]
    return [query]


def _take_apart(cte: exp.CTE, group: list[exp.CTE]) -> Recursion:
    """Anchors and steps of a recursive CTE. Raises SparkError for a form that no loop here runs."""
    name = cte.alias
    if cte.args.get("key_expressions"):
        raise SparkError(f"{name}: USING KEY has no counterpart on Spark")
    query = cte.this
    names = {other.alias.lower() for other in group}
    if query.args.get("limit") or query.args.get("order"):
        raise SparkError(f"{name}: ORDER BY or LIMIT over a recursive query")
    branches = _branches(query, None)
    steps = tuple(branch for branch in branches if _reads(branch, names))
    anchors = tuple(branch for branch in branches if not _reads(branch, names))
    union = query
    while isinstance(union, exp.Subquery):
        union = union.this
    if not isinstance(union, exp.Union) and len(group) == 1:
        raise SparkError(f"{name} refers to itself but is no union of an anchor and a step")
    if isinstance(union, exp.Union) and union.args.get("by_name"):
        raise SparkError(f"{name}: UNION BY NAME in a recursive query")
    union_all = isinstance(union, exp.Union) and not union.args.get("distinct")
    columns = tuple(column.name for column in cte.args["alias"].columns)
    return Recursion(name, columns, anchors, steps, union_all)


def _linear(recursion: Recursion) -> bool:
    return all(_reads(step, {recursion.name.lower()}) == 1 for step in recursion.steps)


def _spark_can(cte: exp.CTE) -> bool:
    """Whether Spark runs a CTE of WITH RECURSIVE by itself: none, or UNION ALL, anchor first."""
    name = {cte.alias.lower()}
    if not _reads(cte.this, name):
        return True
    query = cte.this
    return (
        isinstance(query, exp.Union)
        and not query.args.get("distinct")
        and not query.args.get("by_name")
        and not cte.args.get("key_expressions")
        and _reads(query.left, name) == 0
        and _reads(query.right, name) == 1
    )


__all__ = ["DIALECT", "Recursion", "SparkQueries"]
