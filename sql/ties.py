"""Ties: rows that an ORDER BY leaves alike. SQL leaves open which of them comes first.

A view may have another right answer than DuckDB gives. `cut` is the query as views cut the ties of
a LIMIT. Of other ties, `settled` settles all by the rows themselves, in as many ways as one wants,
and `accepted` asks for what these answers have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import pyarrow as pa
import sqlglot
from sqlglot import exp

from tidewheel.planner.dialect import Tidewheel
from tidewheel.planner.order_of_rows import BY_ROW, by_ties, call_of, name, window_by_place
from tidewheel.planner.recompute import difference
from tidewheel.sql.bind_limit import limits
from tidewheel.sql.compare import compare
from tidewheel.sql.pivot_statement import as_select

Run = Callable[..., pa.Table]

# Of two rows that tie, each is the first once. In the order of the rows themselves the same rare
# values are the last ones everywhere, as they may be in a view. As text: hash(row, n) puts rows
# into one of a few orders, whatever n is.
_WAYS = ("hash(concat(hash({row}), '/{n}'))", "~hash(concat(hash({row}), '/{n}'))")
_BY_VALUES = 2  # so many ways, before these, go by the values of the rows, up and down
# A row by a number that it is given, equal ones apart; by the name of its FROM item, where that
# can't have another column.
_NUMBER = "__tw_place"
TOLD = (f"{{}}.{_NUMBER}", "{}")
_MODE = (
    "list_max(list_transform(map_entries({counts}), "
    "lambda e: (e.value, hash(concat(hash(e.key), '/{n}')), e.key)))[3]"
)
_PICKING = ("firstvalue", "lastvalue", "nthvalue", "first", "last")
# How often each row is in all answers, at least and at most; and the rows that any answer has.
_COUNTS = "SELECT *, count(*) AS __tw_least, __tw_least AS __tw_most FROM __tw_b GROUP BY ALL"
_IN_BOTH = (
    "SELECT * EXCLUDE (__tw_least, __tw_most), min(__tw_least) AS __tw_least, "
    "max(__tw_most) AS __tw_most FROM (FROM __tw_a UNION ALL FROM __tw_b) GROUP BY ALL "
    "HAVING count(*) = 2 AND 2 * min(__tw_least) > max(__tw_most)"
)
_COMMON = (
    "SELECT * EXCLUDE (__tw_least, __tw_most, __tw_nth) FROM "
    "(SELECT *, unnest(range(2 * __tw_least - __tw_most)) AS __tw_nth FROM __tw_a)"
)
_COMPARED = 6
_MOST = 30


def cut(sql: str, width: int) -> str | None:
    """The query, its ties cut by the whole row, as maintained views cut them.

    None if it does not end in an ORDER BY with a LIMIT or OFFSET.
    """
    tree = _named(_parsed(sql))
    order = tree and tree.args.get("order")
    if tree is None or order is None or not limits(tree):
        return None
    for place in range(1, width + 1):
        order.append("expressions", exp.Ordered(this=exp.Literal.number(place)))
    return tree.sql(dialect=Tidewheel)


def _named(tree: exp.Expr | None) -> exp.Expr | None:
    """The query that ``SELECT * FROM (query) AS named(…)`` gives the columns their names of."""
    while isinstance(tree, exp.Select) and tree.args.get("from_") and tree.is_star:
        item = tree.args["from_"].this
        here = {key for key, value in tree.args.items() if value}
        there = {key for key, value in item.args.items() if value}
        if here != {"expressions", "from_"} or there - {"this", "alias"}:
            break
        if tree.expressions != [exp.Star()] or not isinstance(item, exp.Subquery):
            break
        tree = item.this
    return tree


def _parsed(sql: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(as_select(sql) or sql, dialect=Tidewheel)
    except sqlglot.errors.SqlglotError:
        return None


def settled(sql: str, way: int, told: str = TOLD[0]) -> str | None:
    """The query with its ties settled by the rows of its FROM items, otherwise in each `way`.

    None if none of its windows, aggregates, DISTINCT ON and LIMITs go by an order of rows.
    `told`: what a row is told by, one of TOLD.
    """
    tree = _parsed(sql)
    if tree is None:
        return None
    changed = False
    for select in list(tree.find_all(exp.Select)):
        _name_subqueries(select)
        _write_out_windows(select)
        rows, groups = _rows(select, told), _groups(select, told)
        by_row = [*_orders(select), *_picked(select)] if groups else []
        within = list(_within(select)) if rows else []
        best = [call for call in select.find_all(exp.ArgMin, exp.ArgMax) if rows
                and call.parent_select is select and not call.args.get("count")]  # fmt: skip
        nearest = [join for join in _joins(select) if join.method == "ASOF"]
        if told == TOLD[0] and (by_row or within or best or nearest):
            _number_rows(select)
        for more, orders in ((groups, by_row), (rows, within)):
            for order, which in _numbered(orders):
                for row in more:
                    order.append("expressions", _place(row, way, which))
        for call in best:
            places = [_place(row, way + _BY_VALUES).this for row in rows]
            call.set("expression", _told_apart(call.expression, places))
        cut_ = [_one_each(join, told, way) for join in nearest]
        modes = [call for call in select.find_all(exp.Mode) if call.parent_select is select]
        for call in modes:
            _settle_mode(call, way)
        changed = changed or any((by_row, within, best, modes, *cut_))
    return tree.sql(dialect=Tidewheel) if changed else None


def _number_rows(select: exp.Select) -> None:
    """Give the rows of each of its FROM items a column with numbers, which `*` leaves out."""
    for item in _items(select):
        name = item.alias_or_name
        if not name:
            continue
        inner = item.copy()
        inner.set("joins", None)
        query = exp.Select().select("*", f"row_number() OVER () AS {_NUMBER}", dialect=Tidewheel)
        query.set("from_", exp.From(this=inner))
        alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        numbered = exp.Subquery(this=query, alias=alias, joins=item.args.get("joins"))
        item.replace(numbered)
    for shown in select.expressions:
        star = shown.this if isinstance(shown, exp.Column) else shown
        if isinstance(star, exp.Star):
            without = star.args.get("except_") or []
            star.set("except_", [*without, exp.to_identifier(_NUMBER)])


def _place(row: str, way: int, which: int = 0) -> exp.Ordered:
    """Where a way of settling ties puts a row, as an item of an ORDER BY, the which-th of several.

    All of them have the same order of rows, or every second one the opposite, or each its own.
    """
    text = row
    if way >= _BY_VALUES:
        opposite, own = way // 2 % 3 == 1, way // 2 % 3 == 2
        by = _WAYS[(way + which if opposite else way) % 2]
        text = by.format(row=row, n=f"{way // 2}/{which if own else 0}")
    item = sqlglot.parse_one(text, dialect=Tidewheel)
    return exp.Ordered(this=item, desc=way == 1, nulls_first=False)


def _numbered(orders: Sequence[exp.Expr]) -> list[tuple[exp.Expr, int]]:
    """Each ORDER BY with the number of its way of ordering rows: that, and PARTITION BY."""
    over: dict[tuple[str, ...], int] = {}
    found = []
    for order in orders:
        parts = order.parent.args.get("partition_by") or () if order.parent else ()
        found.append((order, tuple(e.sql() for e in (*parts, order))))
    return [(order, over.setdefault(key, len(over))) for order, key in found]


def _joins(select: exp.Select) -> list[exp.Join]:
    """The joins of a SELECT (which hang on its first table if it begins with FROM)."""
    return [join for join in select.find_all(exp.Join) if join.parent_select is select]


def _one_each(join: exp.Join, told: str, way: int) -> bool:
    """Leave an ASOF join one of the rows that are at one place of its right side."""
    name, on = join.this.alias_or_name, join.args.get("on")
    if not name:
        return False
    alias = exp.to_identifier(name, quoted=True).sql(dialect=Tidewheel)
    places = [f"{alias}.{c.sql(dialect=Tidewheel)}" for c in join.args.get("using") or ()]
    for condition in on.flatten() if isinstance(on, exp.And) else [on] if on else []:
        compared = condition.unnest()
        for side in compared.iter_expressions() if isinstance(compared, exp.Binary) else ():
            tables = {c.table.lower() for c in side.find_all(exp.Column)}
            if tables == {name.lower()}:
                places.append(side.sql(dialect=Tidewheel))
    if not places:
        return False
    query = (
        f"SELECT DISTINCT ON ({', '.join(places)}) * FROM {join.this.sql(dialect=Tidewheel)} "
        f"ORDER BY {_place(told.format(alias), way).sql(dialect=Tidewheel)}"
    )
    only = sqlglot.parse_one(query, dialect=Tidewheel)
    called = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    join.set("this", exp.Subquery(this=only, alias=called))
    return True


def _groups(select: exp.Select, told: str) -> list[str]:
    """What tells the rows that a SELECT orders apart: what it groups by, or its FROM items."""
    group = select.args.get("group")
    if group is None:
        return _rows(select, told)
    keys, several = [], False
    nested = [e for e in group.expressions if not isinstance(e, exp.Literal)]
    while nested:
        key = nested.pop(0)
        sets = isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets)
        if sets or (several and isinstance(key, exp.Tuple | exp.Paren)):
            several = True
            nested = [*([key.this] if key.this else key.expressions), *nested]
        else:
            keys.append(key.sql(dialect=Tidewheel))
    # A NULL that a set leaves out is not the NULL of a row.
    keys = list(dict.fromkeys(keys))
    return [*keys, *(f"GROUPING({key})" for key in keys)] if several else keys


def _items(select: exp.Select) -> list[exp.Expr]:
    """A SELECT's FROM items."""
    first = select.args.get("from_")
    items = [] if first is None else [first.this]
    return items + [join.this for join in _joins(select)]


def _rows(select: exp.Select, told: str) -> list[str]:
    """What tells the rows of each of a SELECT's FROM items apart, which has a name."""
    names = [exp.to_identifier(i.alias_or_name, quoted=True).sql(dialect=Tidewheel)
             for i in _items(select) if i.alias_or_name]  # fmt: skip
    return list(dict.fromkeys(map(told.format, names)))


def _name_subqueries(select: exp.Select) -> None:
    """Let each subquery in FROM have a name: those without one have DuckDB's."""
    unnamed = [i for i in _items(select) if isinstance(i, exp.Subquery) and not i.alias_or_name]
    for place, item in enumerate(unnamed):
        name = f"unnamed_subquery{place + 1 if place else ''}"
        item.set("alias", exp.TableAlias(this=exp.to_identifier(name)))


def _orders(select: exp.Select) -> Iterator[exp.Expr]:
    """Each ORDER BY of a SELECT, not of those in it, on whose ties its rows depend."""
    distinct = select.args.get("distinct")
    on = distinct is not None and distinct.args.get("on") is not None
    order = select.args.get("order")
    if order is not None and (on or (limits(select) and distinct is None)):
        yield order
    for window in _windows(select):
        order = window.args.get("order")
        if order is not None and _by_row(window):
            yield order
        call = call_of(window.this)
        own = call.find(exp.Order)
        if own is not None and name(call) in BY_ROW and not _picks(window):
            yield own


def _picked(select: exp.Select) -> Iterator[exp.Expr]:
    """An order in each call that picks a row of a frame: more in OVER would make other frames."""
    for window in _windows(select):
        call = call_of(window.this)
        order = call.find(exp.Order)
        if not _picks(window) or (order is None and window.args.get("order") is None):
            continue
        if order is None:
            last = "offset" if call.args.get("offset") is not None else "this"
            items = [item.copy() for item in window.args["order"].expressions]
            order = exp.Order(this=call.args[last], expressions=items)
            call.set(last, order)
        yield order


def _windows(select: exp.Select) -> list[exp.Window]:
    """The windows of a SELECT, not of those in it."""
    return [w for w in select.find_all(exp.Window) if w.parent_select is select]


def _write_out_windows(select: exp.Select) -> None:
    """Let each OVER say what the window that it names says: other calls may settle ties else."""
    named = {w.this.name.lower(): w for w in select.args.get("windows") or ()}
    for window in _windows(select):
        while window.text("alias"):
            meant = named.get(window.text("alias").lower())
            if meant is None or meant is window:
                return  # DuckDB says what is wrong
            window.set("alias", meant.args.get("alias") and meant.args["alias"].copy())
            for part in ("partition_by", "order", "spec"):
                given = meant.args.get(part)
                if given and not window.args.get(part):
                    copies = [e.copy() for e in given] if isinstance(given, list) else given.copy()
                    window.set(part, copies)
    select.set("windows", None)


def _within(select: exp.Select) -> Iterator[exp.Expr]:
    """Each ORDER BY of an aggregate of a SELECT on whose ties its value depends."""
    for call in select.find_all(exp.ArrayAgg, exp.GroupConcat, exp.First, exp.Last, exp.Anonymous):
        if call.parent_select is select and by_ties(call):
            order = call.find(exp.Order)
            if order is not None:
                yield order


def _told_apart(by: exp.Expr, more: Sequence[exp.Expr]) -> exp.Expr:
    row = exp.Anonymous(this="row", expressions=[by.copy(), *(m.copy() for m in more)])
    there = exp.Not(this=exp.Is(this=exp.paren(by.copy()), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=there, true=row)])


def _settle_mode(call: exp.Mode, way: int) -> None:
    """Put one of the values that are there most often in the place of mode(…)."""
    value = call.this.this if isinstance(call.this, exp.Order) else call.this
    counts = exp.Anonymous(this="histogram", expressions=[value])
    call.replace(counts)
    whole: exp.Expr = counts
    while isinstance(whole.parent, exp.Filter | exp.Window) and whole.parent.this is whole:
        whole = whole.parent
    text = _MODE.format(counts=whole.sql(dialect=Tidewheel), n=way)
    whole.replace(sqlglot.parse_one(text, dialect=Tidewheel))


def _by_row(window: exp.Window) -> bool:
    """Does the function tell rows apart that tie? (One over RANGE does not, most of the time.)"""
    alone = window.copy()
    alone.set("order", None)
    return window_by_place(alone) and not _picks(window)


def _picks(window: exp.Window) -> bool:
    """Does it give the value of one row of a frame that peers enter and leave together?"""
    spec = window.args.get("spec")
    if spec is not None and spec.text("kind").upper() == "ROWS":
        ends = {str(spec.args.get(k)).upper() for k in ("start", "end")}
        if ends != {"UNBOUNDED"} or spec.text("exclude").upper() not in ("GROUP", "TIES"):
            return False
    return call_of(window.this).key in _PICKING


def accepted(
    kept: pa.Table,
    answer: Callable[[int], pa.Table],
    run: Run,
    sizes: Callable[[], pa.Table | None] = lambda: None,
) -> bool:
    """May `kept` be an answer, where ties alone make one `answer` differ from the next?

    In the columns that are the same in all of them, as many together as there are, it must be the
    same. Rows that are in each of them must be in it, of equal ones as many as the least number in
    one, and fewer where that differs, by as much; as a row that depends on ties may be in several
    by chance, more answers are asked for while one is missing. `sizes`: how large the
    numbers are that doubles were added up from (see `compare`).
    """
    answers = [answer(way) for way in range(_COMPARED)]
    rows = [found.num_rows for found in answers]
    if not min(rows) <= kept.num_rows <= max(rows):
        return False
    floating = any(pa.types.is_floating(f.type) for f in kept.schema)
    large = cache(sizes)

    def same(left: pa.Table, right: pa.Table, columns: Sequence[int]) -> bool:
        sides = left.select(columns), right.select(columns)
        return not difference(*sides, run).num_rows

    def stable(columns: Sequence[int]) -> bool:
        return all(same(answers[0], other, columns) for other in answers[1:])

    def near(rows: pa.Table, columns: Sequence[int]) -> bool:
        """Are these columns of some rows in `kept`, but for what doubles are rounded to?"""
        if not floating:
            return False
        given = large()
        size = None if given is None else given.select(columns)
        found = compare(rows.select(columns), kept.select(columns), size)
        return not (found.problem or found.only_left)

    every = range(kept.num_columns)
    if stable(every):
        return False
    seen: set[int] = set()
    for first in every:
        together = [first]
        if first not in seen and stable(together):
            for other in every:
                if other != first and stable([*together, other]):
                    together.append(other)
            if not (same(answers[0], kept, sorted(together)) or near(answers[0], together)):
                return False
            seen.update(together)
    counts = run(_COUNTS, __tw_b=answers[0])
    for way in range(1, _MOST):
        other = answers[way] if way < len(answers) else answer(way)
        counts = run(_IN_BOTH, __tw_a=counts, __tw_b=run(_COUNTS, __tw_b=other))
        common = run(_COMMON, __tw_a=counts)
        missing = run("FROM __tw_a EXCEPT ALL FROM __tw_b", __tw_a=common, __tw_b=kept)
        if not missing.num_rows or near(common, every):
            return True
    return False
