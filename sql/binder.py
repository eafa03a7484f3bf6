"""From text to a logical plan.

What the binder takes apart it takes apart with DuckDB's rules; what it does not, stays a `Block`
with the reason, at the smallest query around it that stands alone. So every query that DuckDB
accepts gets a plan. DuckDB binds the whole text first: errors are its own, with their places, and
the plan's columns must have the types that it names, or the whole stays one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import duckdb
import sqlglot
from sqlglot import exp

from tidewheel.engine.quoting import quoted
from tidewheel.planner import meaning
from tidewheel.planner.context import Context
from tidewheel.planner.dialect import Tidewheel
from tidewheel.planner.execute import whole
from tidewheel.planner.logical import (
    Block,
    Column,
    Node,
    PlanError,
    Project,
)
from tidewheel.planner.text import shallow, to_sql, typed_nulls, unchanged

from . import join_parentheses, reads
from .bind_catalog import Catalog
from .bind_collations import handed_on
from .bind_items import without_lateral
from .bind_limit import with_constants, without_limit
from .bind_macros import written_out
from .bind_names import Aggregates
from .bind_one_group import OneGroup, from_one_group
from .bind_parameters import by_name, marked, unmarked
from .bind_query import BoundQuery
from .bind_scope import FURTHER_OUT, Cte, Names, NotTaken, Scope, Told, deduplicated
from .bind_select import SelectBinder
from .bind_set import SetOperations
from .bind_star import PLAIN
from .bind_types import Oracle, first_line, may_name
from .bind_values import AT_THE_END, all_of, as_selects, reads_rows
from .parse_trees import same_query
from .pivot_statement import as_select, has_pivot
from .statements import mentions_recursion, words_in

DIALECT = Tidewheel
_NO_PLAN = "its parts, taken by themselves, do not fit together"


def bind(
    text: str,
    context: Context,
    catalog: reads.Names | None = None,
    recursive: Callable[[str], Node] | None = None,
) -> Node:
    """The logical plan of a query. duckdb.Error, with places in `text`, if DuckDB refuses it.

    `catalog`: as it is now, if the caller has read it. `recursive` plans the query of a plain view
    that has a recursion; without it such a view is read like a table.
    """
    oracle = Oracle(context, catalog)
    try:
        described = oracle.describe(text)
    except duckdb.Error:
        with context.lock:  # the same error again, placed in `text`
            relation = context.connection.sql(text, params=context.parameters)
            if relation is not None:
                relation.columns  # noqa: B018
        return whole(text, "DuckDB describes it only by running it")
    parsed = _parsed(marked(text), oracle)
    if isinstance(parsed, str):
        return whole(text, parsed)
    oracle.parameters = by_name(context.parameters)
    binder = Binder(oracle, recursive)
    try:
        tree = unmarked(written_out(parsed, oracle, partial(_parsed, oracle=oracle)))
        bound = binder.query(tree)
    except NotTaken as error:
        return whole(text, str(error))
    except RecursionError:
        return whole(text, "it nests too deep")
    except duckdb.Error as error:
        return whole(text, f"DuckDB does not bind a part of it alone: {first_line(error)}")
    if isinstance(bound.node, Block) and not bound.node.inputs:
        return whole(text, bound.node.reason)
    if [c.type for c in bound.columns] != [type_ for _, type_ in described]:
        return whole(text, "the types of its columns would not be those that DuckDB gives them")
    columns = [
        Column(c.name, label, c.type)
        for c, (label, _) in zip(bound.columns, described, strict=True)
    ]
    if tuple(columns) == bound.node.schema:
        return bound.node
    return Project(bound.node, unchanged(columns))


def _parsed(text: str, oracle: Oracle) -> exp.Query | str:
    """The query's tree, or why it must stay as it is written."""
    try:
        trees = sqlglot.parse(text, read=DIALECT)
    except sqlglot.errors.SqlglotError as error:
        if (select := as_select(text)) is not None:
            return _parsed(select, oracle)
        if "using key" in text.lower():
            return "USING KEY with aggregates, which DuckDB runs"
        return f"sqlglot cannot parse it: {str(error).splitlines()[0]}"
    if len(trees) == 1 and has_pivot(trees[0]) and (select := as_select(text)) is not None:
        return _parsed(select, oracle)
    if len(trees) == 1 and isinstance(trees[0], exp.Values):
        trees = [all_of(trees[0], trees[0])]
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        return "not a SELECT"
    tree = _without_places(trees[0])
    same = same_query(text, to_sql(tree))
    if same is None:
        return "DuckDB has no parse tree for it"
    if not same:
        return "sqlglot would change what it says"
    changed = meaning.changed(oracle.meaning, meaning.WRITING)
    if changed:
        return f"under {changed} only DuckDB knows what it says"
    collated = oracle.names.collated(text)
    if tree.find(exp.Collate) or collated is None or (collated and not handed_on(tree, collated)):
        return "it or a table has a collation, which Arrow does not carry"
    without_lateral(tree)
    shallow(tree)
    return tree


def _without_places(tree: exp.Query) -> exp.Query:
    """The tree without where its names stand: trees are copied often, and that is most of it."""
    for node in tree.walk():
        if node._meta:
            rest = node._meta.keys() - set(exp.POSITION_META_KEYS)
            node._meta = {key: node._meta[key] for key in rest} or None
    return tree


class Binder:
    """Binds the queries of one statement."""

    def __init__(self, oracle: Oracle, recursive: Callable[[str], Node] | None = None) -> None:
        self.oracle = oracle
        self.recursive = recursive
        self.names = Names()
        self.ctes: dict[str, Cte] = {}
        self.first_row_of_many = bool(
            meaning.changed(oracle.meaning, ("scalar_subquery_error_on_multiple_rows",))
        )
        self.all_pairs = True
        self._catalog = Catalog(oracle)
        self._aggregates = Aggregates(oracle)
        self._aliases = 0

    # -- queries

    def query(
        self,
        tree: exp.Expr,
        outer: Scope | None = None,
        for_exists: bool = False,
        late: bool = False,
    ) -> BoundQuery:
        """A query, bound; `outer` is what is around it, where it is an expression or lateral there.

        NotTaken if neither its parts nor the whole can be bound without the SELECT around it.
        """
        if isinstance(tree, exp.Subquery) and tree.args.get("with_"):
            if tree.unnest().args.get("with_"):
                raise NotTaken("WITH before and in parentheses")  # DuckDB forgets the second one
            with self._with(tree.args["with_"], outer):
                bare = tree.copy()
                bare.set("with_", None)
                return self.query(bare, outer, for_exists, late)
        tree = with_constants(_by_expression(_unwrapped(tree)), self.oracle)
        with self._with(tree.args.get("with_"), outer):
            try:
                if isinstance(tree, exp.Select):
                    select = self._for_exists(tree) if for_exists else tree
                    with self.pairs(True):
                        return self._select(select, outer, late)
                if isinstance(tree, exp.SetOperation):
                    rows = without_limit(tree) if for_exists else tree
                    return SetOperations(self, outer).bind(rows)
                if isinstance(tree, exp.Values) and (outer is not None or reads_rows(tree)):
                    return self.query(as_selects(tree), outer, for_exists, late)
                if isinstance(tree, exp.Values):
                    return self.query(all_of(tree, tree), outer, for_exists, late)
                raise NotTaken(f"{type(tree).__name__} as a query")
            except (NotTaken, PlanError) as error:
                reason = _NO_PLAN if isinstance(error, PlanError) else str(error)
                plain = tree.copy()
                try:
                    block = self.block(plain, reason)
                except (NotTaken, duckdb.Error):
                    raise NotTaken(reason) from None
                return BoundQuery(block, block.columns)

    def _select(self, select: exp.Select, outer: Scope | None, late: bool) -> BoundQuery:
        try:
            return SelectBinder(self, outer, late).bind(select)
        except OneGroup as error:
            if (rows := from_one_group(select, self._aggregates)) is not None:
                with suppress(NotTaken):
                    return SelectBinder(self, outer, late).bind(rows)
            raise NotTaken(str(error)) from None

    @contextmanager
    def pairs(self, allowed: bool) -> Iterator[None]:
        """May a side of a UNION stand beside each row around, though it does not read it?"""
        before, self.all_pairs = self.all_pairs, allowed
        try:
            yield
        finally:
            self.all_pairs = before

    def _for_exists(self, select: exp.Select) -> exp.Select:
        """EXISTS asks for rows, not for what is in them."""
        select = without_limit(select)
        keeps = ("group", "having", "qualify", "distinct", "limit", "offset", "sample")
        if any(select.args.get(k) for k in keeps):
            return select
        if any(self._aggregates.found_in(e) for e in select.expressions):
            return select
        copy = select.copy()
        copy.set("expressions", [exp.Literal.number(1)])
        copy.set("order", None)
        return copy

    @contextmanager
    def _with(self, clause: exp.With | None, outer: Scope | None) -> Iterator[None]:
        if clause is None:
            yield
            return
        before = self.ctes
        self.ctes = dict(before)
        try:
            names = [c.alias.lower() for c in clause.expressions]
            for position, cte in enumerate(clause.expressions):
                name = cte.alias.lower()
                if clause.args.get("recursive"):
                    read = {t.name.lower() for t in cte.this.find_all(exp.Table) if not t.db}
                    if read & set(names[position:]):
                        raise NotTaken("a recursive table")
                if cte.args.get("key_expressions"):
                    raise NotTaken("USING KEY")  # there are fewer rows than its query gives
                query = cte.this
                if isinstance(query, exp.Pivot):
                    query = exp.select("*").from_(exp.Subquery(this=query.copy()))
                if not isinstance(query, exp.Query):
                    raise NotTaken("a statement that is no query in WITH")
                labels = tuple(c.name for c in cte.args["alias"].columns)
                self.ctes[name] = Cte(query, labels, dict(self.ctes), outer)
            yield
        finally:
            self.ctes = before

    def cte(self, cte: Cte) -> tuple[Node, tuple[Column, ...]]:
        """A WITH table's plan (one, however often it is read) and its columns."""
        if cte.bound is None:
            before, self.ctes = self.ctes, cte.ctes
            try:
                query = self.query(cte.query)
                columns = self.named(cte.query, query.columns)
            finally:
                self.ctes = before
            cte.bound = query.node, _relabelled(columns, cte.labels)
        return cte.bound

    def named(self, tree: exp.Expr, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """The columns of a query by DuckDB's names, where some are expressions without one.

        One that reads the SELECT around is not asked for.
        """
        if all(PLAIN.fullmatch(c.label) for c in columns):
            return columns
        with suppress(NotTaken, duckdb.Error):
            known = self.block(tree.copy(), "its names").columns
            labels = [
                c.label if isinstance(c.label, Told) else k.label
                for c, k in zip(columns, known, strict=True)
            ]
            return _relabelled(columns, labels)
        return columns

    def correlated_cte(self, cte: Cte) -> BoundQuery:
        """A WITH table that reads the SELECTs around its WITH, anew for each that reads it."""
        before, self.ctes = self.ctes, cte.ctes
        try:
            query = self.query(cte.query, cte.outer)
        finally:
            self.ctes = before
        query.columns = _relabelled(query.columns, cte.labels)
        return query

    # -- leaves

    def one_row(self) -> Block:
        """What a SELECT without FROM reads."""
        only = self.names.fresh("row", "INTEGER")
        return Block("SELECT 1", (), (), (only,), "no FROM")

    def block(self, tree: exp.Expr, reason: str) -> Block:
        """A query kept whole, over the WITH tables that it reads. duckdb.Error if it depends on
        more."""
        if any(c._meta and FURTHER_OUT in c._meta for c in tree.find_all(exp.Column)):
            raise NotTaken(reason)  # as text the name might mean something else
        read = {t.name.lower() for t in tree.find_all(exp.Table) if not t.db and not t.catalog}
        tables = [(name, self.ctes[name]) for name in sorted(read & set(self.ctes))]
        inputs: list[Node] = []
        aliases: list[str] = []
        prelude: list[str] = []
        for name, cte in tables:
            node, columns = self.cte(cte)
            alias = self.input_alias()
            items = ", ".join(f"{quoted(c.name)} AS {quoted(c.label)}" for c in columns)
            prelude.append(f"{quoted(name)} AS (SELECT {items} FROM {quoted(alias)})")
            inputs.append(node)
            aliases.append(alias)
        sql = to_sql(tree)
        if prelude:
            sql = f"WITH {', '.join(prelude)} SELECT * FROM ({sql}\n)"
        stand_ins = ", ".join(
            f"{quoted(a)} AS ({typed_nulls(n.schema)})"
            for a, n in zip(aliases, inputs, strict=True)
        )
        described = self.oracle.describe(
            f"WITH {stand_ins} SELECT * FROM ({sql}\n)" if stand_ins else sql
        )
        columns = tuple(self.names.fresh(label, type_) for label, type_ in described)
        read_here = (
            t
            for t in tree.find_all(exp.Table)
            if t.name.lower() not in self.ctes and not isinstance(t.this, exp.GenerateSeries)
        )
        scans = tuple(sorted({to_sql(t) for t in read_here}))
        if scans and self.oracle.elsewhere:
            raise NotTaken(reason)  # DuckDB would look for them in other schemas
        return Block(sql, tuple(inputs), tuple(aliases), columns, reason, scans)

    def input_alias(self) -> str:
        """A name for a block's input."""
        self._aliases += 1
        return f"__tw_b{self._aliases}"

    def table(self, item: exp.Table) -> tuple[str, tuple[str, ...], reads.Relation | None]:
        """A table's qualified, quoted name, the parts that can qualify its columns, and what the
        catalog has."""
        return self._catalog.table(item)

    def view(self, path: tuple[str, ...]) -> tuple[Node, tuple[Column, ...]] | None:
        """The plan of a plain view; None for what is none, or is not taken apart."""
        found = self._catalog.view(path)
        if found is None:
            return None
        view, text = found
        with self.oracle.inside(view):
            bound = self._view_query(text)
        if bound is None:
            return None
        node, columns = bound
        described = self.oracle.describe(f"SELECT * FROM {view.quoted}")
        if [t for _, t in described] != [c.type for c in columns]:
            return None
        return node, _relabelled(columns, [label for label, _ in described])

    def _view_query(self, text: str) -> tuple[Node, tuple[Column, ...]] | None:
        # The connection may have other types of these names.
        types = self.oracle.user_types() if self.oracle.elsewhere else frozenset()
        if mentions_recursion(text):
            if self.recursive is None or not types.isdisjoint(words_in(text)):
                return None
            if self.oracle.elsewhere:
                if self.oracle.names.macros.keys() & words_in(text):
                    return None
                text = self.oracle.names.qualified(text)
            try:
                node = self.recursive(join_parentheses.without(text))
            except (NotTaken, duckdb.Error):
                return None
            return None if isinstance(node, Block) else (node, node.schema)
        tree = _parsed(text, self.oracle)
        if isinstance(tree, str) or may_name(tree, types):
            return None
        before, self.ctes = self.ctes, {}
        try:
            tree = written_out(tree, self.oracle, partial(_parsed, oracle=self.oracle))
            query = self.query(tree)
        except (NotTaken, duckdb.Error):
            return None
        finally:
            self.ctes = before
        return query.node, tuple(query.columns)


def _unwrapped(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, (exp.Subquery, exp.Paren)):
        if any(tree.args.get(k) for k in ("with_", "sample", "pivots")):
            raise NotTaken("a query in parentheses with clauses of its own")
        if any(tree.args.get(k) for k in AT_THE_END):
            return all_of(tree.this, tree)
        tree = tree.this
    return tree


def _by_expression(tree: exp.Expr) -> exp.Expr:
    """A set operation that is ordered by more than its columns: a SELECT has this from it."""
    order = tree.args.get("order") if isinstance(tree, exp.SetOperation) else None
    plain = (exp.Column, exp.Var, exp.Literal)
    if order is None or all(isinstance(o.this, plain) for o in order.expressions):
        return tree
    bare = tree.copy()
    for key in AT_THE_END:
        bare.set(key, None)
    return all_of(bare, tree)


def _relabelled(columns: Sequence[Column], labels: Sequence[str]) -> tuple[Column, ...]:
    given = labels[: len(columns)]  # DuckDB ignores names beyond the columns of a CTE
    names = deduplicated([*given, *(c.label for c in columns[len(labels) :])])
    return tuple(Column(c.name, n, c.type) for c, n in zip(columns, names, strict=True))
