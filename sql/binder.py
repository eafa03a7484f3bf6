"""From text to a logical plan.

What the binder takes apart it takes apart with DuckDB's rules; what it does not, stays a `Block`
with the reason, at the smallest query around it that stands alone. So every query that DuckDB
accepts gets a plan. DuckDB binds the whole text first: errors are its own, with their places, and
the plan's columns must have the types that it names, or the whole stays one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce

import duckdb
import sqlglot
from sqlglot import exp

from tidewheel.planner import meaning
from tidewheel.planner.context import Context
from tidewheel.planner.dialect import Tidewheel
from tidewheel.planner.execute import whole
from tidewheel.planner.logical import (
    Block,
    Column,
    Named,
    Node,
    PlanError,
    Project,
    SetOp,
    SortKey,
)
from tidewheel.planner.text import alias_of, column, identifier, shallow, to_sql, typed_nulls

from . import reads
from .bind_catalog import Catalog
from .bind_limit import lets_one_through, limited, limits
from .bind_macros import expanded
from .bind_names import Aggregates
from .bind_parameters import by_name, marked, unmarked
from .bind_query import BoundQuery
from .bind_scope import FURTHER_OUT, Cte, Names, NotTaken, Scope, deduplicated
from .bind_select import SelectBinder
from .bind_settled import outer_columns, outer_names, reads_tables, settled, told_apart
from .bind_types import Oracle, first_line
from .parse_trees import same_query
from .statements import mentions_recursion, tokens

DIALECT = Tidewheel


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
        tree = unmarked(expanded(parsed, oracle, partial(_parsed, oracle=oracle)))
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
        return whole(text, "internal: the plan's types are not DuckDB's")
    columns = [
        Column(c.name, label, c.type)
        for c, (label, _) in zip(bound.columns, described, strict=True)
    ]
    if tuple(columns) == bound.node.schema:
        return bound.node
    return Project(bound.node, tuple(Named(c, column(c.name)) for c in columns))


def _parsed(text: str, oracle: Oracle) -> exp.Query | str:
    """The query's tree, or why it must stay as it is written."""
    try:
        trees = sqlglot.parse(text, read=DIALECT)
    except sqlglot.errors.SqlglotError as error:
        return f"sqlglot cannot parse it: {str(error).splitlines()[0]}"
    if len(trees) == 1 and isinstance(trees[0], exp.Pivot):
        return _parsed(f"SELECT * FROM ({text.rstrip().rstrip(';')}\n)", oracle)
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
    if tree.find(exp.Collate) or oracle.names.collated(text):
        return "it or a table has a collation, which Arrow does not carry"
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
        tree = _by_expression(_unwrapped(tree))
        with self._with(tree.args.get("with_"), outer):
            try:
                if isinstance(tree, exp.Select):
                    select = self._for_exists(tree) if for_exists else tree
                    return SelectBinder(self, outer, late).bind(select)
                if isinstance(tree, exp.SetOperation):
                    return self._set_operation(tree, outer)
                if isinstance(tree, exp.Values) and outer is not None:
                    return self.query(_selects(tree), outer, for_exists, late)
                raise NotTaken(f"{type(tree).__name__} as a query")
            except (NotTaken, PlanError) as error:
                reason = f"internal: {error}" if isinstance(error, PlanError) else str(error)
                plain = tree.copy()
                try:
                    block = self.block(plain, reason)
                except duckdb.Error:
                    raise NotTaken(reason) from None
                return BoundQuery(block, block.columns)

    def _for_exists(self, select: exp.Select) -> exp.Select:
        """EXISTS asks for rows, not for what is in them."""
        if lets_one_through(select):
            select = select.copy()
            select.set("limit", None)
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
            finally:
                self.ctes = before
            cte.bound = query.node, _relabelled(query.columns, cte.labels)
        return cte.bound

    def correlated_cte(self, cte: Cte) -> BoundQuery:
        """A WITH table that reads the SELECTs around its WITH, anew for each that reads it."""
        before, self.ctes = self.ctes, cte.ctes
        try:
            query = self.query(cte.query, cte.outer)
        finally:
            self.ctes = before
        query.columns = _relabelled(query.columns, cte.labels)
        return query

    def _set_operation(self, tree: exp.SetOperation, outer: Scope | None) -> BoundQuery:
        for key in ("side", "kind", "on"):
            if tree.args.get(key):
                raise NotTaken("a set operation with options")
        left = self.query(tree.this, outer, late=outer is not None)
        right = self.query(tree.expression, outer, late=outer is not None)
        met = outer_columns(outer, outer_names(left) | outer_names(right))
        keys: list[list[Column]] = [[], []]
        if met:
            for side in (left, right):
                if side.empty is not None:
                    raise NotTaken("an aggregate as a side of a correlated set operation")
                if not outer_names(side) and reads_tables(side.node):
                    raise NotTaken("a correlated set operation with a side that is not")
            left, keys[0] = settled(left, met, self.names)
            right, keys[1] = settled(right, met, self.names)
        distinct = bool(tree.args.get("distinct"))
        if tree.args.get("by_name"):
            columns, pairs = self._by_name(left.columns, right.columns)
        else:
            if len(left.columns) != len(right.columns):
                raise NotTaken("sides of different width")
            columns = self._merged(left.columns, right.columns, "UNION ALL")
            pairs = list(zip(left.columns, right.columns, strict=True))
        self._refuse_double_casts(tree, columns, pairs)
        apart = tuple(self.names.fresh(c.label, c.type) for c in met)
        op = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}[type(tree)]
        node: Node = SetOp(
            op,  # type: ignore[arg-type]  # the three literals above
            not distinct,
            self._cast(left.node, [*keys[0], *(a for a, _ in pairs)], (*apart, *columns)),
            self._cast(right.node, [*keys[1], *(b for _, b in pairs)], (*apart, *columns)),
            (*apart, *columns),
        )
        each = [column(c.name) for c in apart] if limits(tree) else []
        node = limited(node, tree, self._output_order(tree, columns), each, self.names)
        around = tuple(c.name for c in met)
        return BoundQuery(node, columns, told_apart(apart, met), around=around)

    def _refuse_double_casts(
        self,
        tree: exp.SetOperation,
        columns: Sequence[Column],
        pairs: Sequence[tuple[Column | None, Column | None]],
    ) -> None:
        """DuckDB casts the values of a chain of set operations once, to the type of all; what is
        taken apart would cast them at each step, and ``1``, ``1.5``, ``'2'`` make 1 into 1.0."""
        for side, part in ((0, tree.this), (1, tree.expression)):
            if isinstance(part.unnest(), exp.SetOperation) and any(
                own is not None and own.type != c.type
                for own, c in zip((pair[side] for pair in pairs), columns, strict=True)
            ):
                raise NotTaken("a chain of set operations over several types")

    def _merged(
        self, left: Sequence[Column], right: Sequence[Column], word: str
    ) -> tuple[Column, ...]:
        a = ", ".join(f"CAST(NULL AS {c.type}) AS {_quoted(c.label)}" for c in left)
        b = ", ".join(f"CAST(NULL AS {c.type}) AS {_quoted(c.label)}" for c in right)
        described = self.oracle.describe(f"SELECT {a} {word} SELECT {b}")
        return tuple(self.names.fresh(label, type_) for label, type_ in described)

    def _by_name(
        self, left: Sequence[Column], right: Sequence[Column]
    ) -> tuple[tuple[Column, ...], list[tuple[Column | None, Column | None]]]:
        columns = self._merged(left, right, "UNION ALL BY NAME")
        mine = {c.label.lower(): c for c in left}
        theirs = {c.label.lower(): c for c in right}
        if len(mine) != len(left) or len(theirs) != len(right):
            raise NotTaken("BY NAME with a name twice")
        return columns, [(mine.get(c.label.lower()), theirs.get(c.label.lower())) for c in columns]

    def _cast(
        self, node: Node, sources: Sequence[Column | None], targets: Sequence[Column]
    ) -> Node:
        exprs: list[Named] = []
        for source, target in zip(sources, targets, strict=True):
            new = self.names.fresh(target.label, target.type)
            value: exp.Expr = exp.null() if source is None else column(source.name)
            if source is None or source.type != target.type:
                value = exp.Cast(this=value, to=exp.Var(this=target.type))
            exprs.append(Named(new, value))
        return Project(node, tuple(exprs))

    def _output_order(self, tree: exp.Expr, columns: Sequence[Column]) -> list[SortKey]:
        """ORDER BY of a set operation: positions and names of its columns."""
        keys: list[SortKey] = []
        for ordered in tree.args["order"].expressions if tree.args.get("order") else ():
            key = ordered.this
            if isinstance(key, exp.Literal) and key.name.isdigit():
                found = [columns[int(key.name) - 1]] if int(key.name) <= len(columns) else []
            elif isinstance(key, (exp.Column, exp.Var)) and not getattr(key, "table", ""):
                found = [c for c in columns if c.label.lower() == key.name.lower()][:1]
                if not found and key.name.lower() == "all":
                    found = list(columns)
            else:
                found = []
            if not found or ordered.args.get("with_fill"):
                raise NotTaken("a set operation ordered by an expression")
            descending = bool(ordered.args.get("desc"))
            nulls_first = bool(ordered.args.get("nulls_first"))
            keys += [SortKey(column(c.name), descending, nulls_first) for c in found]
        return keys

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
            items = ", ".join(f"{_quoted(c.name)} AS {_quoted(c.label)}" for c in columns)
            prelude.append(f"{_quoted(name)} AS (SELECT {items} FROM {_quoted(alias)})")
            inputs.append(node)
            aliases.append(alias)
        sql = to_sql(tree)
        if prelude:
            sql = f"WITH {', '.join(prelude)} SELECT * FROM ({sql}\n)"
        stand_ins = ", ".join(
            f"{_quoted(a)} AS ({typed_nulls(n.schema)})"
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

    def table(self, item: exp.Table) -> tuple[str, tuple[str, ...]]:
        """A table's qualified, quoted name, and the parts that can qualify its columns."""
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
        if mentions_recursion(text):
            if self.recursive is None:
                return None
            if self.oracle.elsewhere:
                if self.oracle.names.macros.keys() & {t.text.lower() for t in tokens(text)}:
                    return None
                text = self.oracle.names.qualified(text)
            try:
                node = self.recursive(text)
            except (NotTaken, duckdb.Error):
                return None
            return None if isinstance(node, Block) else (node, node.schema)
        tree = _parsed(text, self.oracle)
        if isinstance(tree, str):
            return None
        before, self.ctes = self.ctes, {}
        try:
            tree = expanded(tree, self.oracle, partial(_parsed, oracle=self.oracle))
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
        if any(tree.args.get(k) for k in _AT_THE_END):
            return _all_of(tree.this, tree)
        tree = tree.this
    return tree


_AT_THE_END = ("order", "limit", "offset")


def _selects(values: exp.Values) -> exp.Query:
    """VALUES that read the row around: a SELECT for each row."""
    rows = [e.expressions if isinstance(e, exp.Tuple) else [e] for e in values.expressions]
    each: list[exp.Query] = [
        exp.select(*(alias_of(v.copy(), f"col{i}") for i, v in enumerate(row))) for row in rows
    ]
    return reduce(lambda a, b: exp.Union(this=a, expression=b, distinct=False), each)


def _by_expression(tree: exp.Expr) -> exp.Expr:
    """A set operation that is ordered by more than its columns: a SELECT has this from it."""
    order = tree.args.get("order") if isinstance(tree, exp.SetOperation) else None
    plain = (exp.Column, exp.Var, exp.Literal)
    if order is None or all(isinstance(o.this, plain) for o in order.expressions):
        return tree
    bare = tree.copy()
    for key in _AT_THE_END:
        bare.set(key, None)
    return _all_of(bare, tree)


def _all_of(query: exp.Expr, clauses: exp.Expr) -> exp.Select:
    """All rows of a query, with the ORDER BY, LIMIT and OFFSET of another tree."""
    rows = exp.From(this=exp.Subquery(this=query.copy()))
    whole = exp.Select(expressions=[exp.Star()], from_=rows)
    for key in _AT_THE_END:
        part = clauses.args.get(key)
        whole.set(key, part and part.copy())
    return whole


def _relabelled(columns: Sequence[Column], labels: Sequence[str]) -> tuple[Column, ...]:
    given = labels[: len(columns)]  # DuckDB ignores names beyond the columns of a CTE
    names = deduplicated([*given, *(c.label for c in columns[len(labels) :])])
    return tuple(Column(c.name, n, c.type) for c, n in zip(columns, names, strict=True))


def _quoted(name: str) -> str:
    return to_sql(identifier(name))
