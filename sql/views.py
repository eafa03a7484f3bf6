"""A session's maintained views, as its statements use them.

The layers below: `view_registry` (which views there are), `view_reading` (their rows),
`view_epochs` (transactions), `view_create`, `view_draft`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidewheel.engine.arrow import pa
from tidewheel.engine.quoting import key_of, parts_of_key, quoted
from tidewheel.planner import meaning, recompute
from tidewheel.planner.maintain import MaintainedView
from tidewheel.sql import errors, foreign_views, view_ddl, view_text
from tidewheel.sql.maintenance import Maintenance
from tidewheel.sql.opening import default_threads
from tidewheel.sql.reads import Names
from tidewheel.sql.statements import Statement
from tidewheel.sql.subscribe import Subscription, Update, snapshot
from tidewheel.sql.view_draft import Drafts
from tidewheel.sql.view_registry import row_name, rows_relation

if TYPE_CHECKING:
    from tidewheel.planner.meaning import Meaning
    from tidewheel.planner.plans import Plan
    from tidewheel.sql.compare import Comparison

__all__ = ["Views", "row_name"]


class Views(Drafts):
    """One session's view of the registry, and its transaction's captured changes."""

    def drop(self, statement: Statement, plain: bool = False) -> None:
        """DROP MATERIALIZED VIEW [IF EXISTS] name [CASCADE]; `plain`: DROP VIEW."""
        parsed = view_text.parse_drop(statement, plain)
        with self.writing():
            version, names = self.host.catalog.version, self._present()
            relation = names.find(list(parsed.parts))
            known = None if relation is None else self._maintainer.views.get(relation.key)
            if relation is None or known is None or (known.plain and not plain):
                if parsed.if_exists and relation is None:
                    return
                foreign_views.refuse(self, relation, statement, parsed.name_at)
                raise errors.ProgrammingError(
                    f"there is no maintained view {'.'.join(parsed.parts)}"
                    if relation is None
                    else f"{parsed.parts[-1]} is a {relation.kind}, not a maintained view",
                    hint=self._near(parsed.parts[-1])
                    if relation is None
                    else f"DROP {relation.kind.upper()} {'.'.join(parsed.parts)}",
                    text=statement.script,
                    position=parsed.name_at,
                    length=parsed.name_length,
                )
            if len(parsed.parts) > 1:
                self.in_use(relation.key, statement, parsed)
            dependents = self._maintainer.readers([relation.key])
            if dependents and not parsed.cascade:
                self._refuse_dependents(relation.key, statement, parsed.name_at)
            gone = [relation.key, *dependents]
            rows = [rows_relation(self._maintainer.views[key].token).key for key in gone]
            with self.implicitly():
                for key in reversed(gone):
                    self.drop_one(key, names)
            self._went_on(names, version, gone=[*gone, *rows])

    def rename(
        self, statement: Statement, parsed: view_text.ViewName, view: MaintainedView
    ) -> None:
        """ALTER VIEW name RENAME TO another; refused where views read it, by name."""
        (new,) = parsed.rest
        with self.writing():
            if self._maintainer.readers([view.key]):
                self._refuse_dependents(view.key, statement, parsed.name_at)
            with self.implicitly():
                relation = self._relation(view.key)
                assert relation is not None
                self._do(f"ALTER VIEW {relation.quoted} RENAME TO {quoted(new)}")
                key = f"{view.key.rsplit('.', 1)[0]}.{key_of(new)}"
                old = [self._stored(key), self._stored(view.key)]
                kept = self._catalog_of(relation)
                self._do(f"DELETE FROM {kept} WHERE key = ?", old[:1])  # of one that others dropped
                self._do(f"UPDATE {kept} SET key = ? WHERE key = ?", old)
                registry = self._change_registry()
                registry.remove(view.key)
                registry.add(replace(view, key=key))
        self.host.catalog_changed()

    def forget_plain(self, parsed: view_text.CreateView, statement: Statement) -> None:
        """Drop a plain view of the registry: another one takes its place."""
        with self.writing():
            relation = Names(self.host.connection).made(parsed.parts)
            assert relation is not None
            if self._maintainer.readers([relation.key]):
                self._refuse_dependents(relation.key, statement, parsed.name_at)
            with self.implicitly():
                self.drop_one(relation.key)
        self.host.catalog_changed()

    def ddl(self, statement: Statement, run: Callable[[], Any]) -> Any:
        """Run DDL; the views that read what it names must be able to go on, else it is undone."""
        return view_ddl.run(self, statement, run)

    def attached(self, statement: Statement) -> None:
        """A database was attached or detached."""
        view_ddl.attached(self, replaced="REPLACE" in statement.words[:3])

    def subscribe(
        self, named: view_text.ViewName, statement: Statement, epoch: int | None
    ) -> Subscription:
        """Follow a view: from a snapshot now, or behind `epoch` if that is still kept."""
        key = self.resolve(named.parts, statement, named.name_at)
        if self.host.in_transaction and not self._maintainer.views[key].hot:
            raise errors.OperationalError(  # nobody else may ever see what it would be filled with
                "the view is not filled yet, and an open transaction may see other rows",
                hint="subscribe when the transaction has ended",
                text=statement.script,
                position=named.name_at,
                length=named.name_length,
            )
        with self.writing(), self.database.reading:
            if key not in self._maintainer.views:  # the writer before has dropped or renamed it
                key = self.resolve(named.parts, statement, named.name_at)
            if not self.host.in_transaction:
                self.recover()
            view = self._maintainer.heat(key, Maintenance(self))
            assert view.plan is not None
            rows, now = view.plan.rows(), self.database.epoch
            open_ = self.host.check_open
            if epoch is not None:
                if epoch > now:
                    raise errors.ProgrammingError(
                        f"epoch {epoch} has not come yet; now is {now}",
                        hint="without an epoch it begins with a snapshot; "
                        "epochs are counted anew when the database is opened",
                    )
                return Subscription(self.database, key, rows.schema, None, epoch, open_)
            first = Update(now, snapshot(rows), snapshot=True)
            return Subscription(self.database, key, rows.schema, first, now, open_)

    def verify(self, statement: Statement) -> tuple[pa.Table, str]:
        """VERIFY VIEW v: what the view lacks (weight > 0) and has too much (weight < 0), and
        what was compared, in words."""
        parsed = view_text.parse_verify(statement)
        key = self.resolve(parsed.parts, statement, parsed.name_at)
        view = self._maintainer.views[key]
        if parsed.rest == ("SPARK",):
            found, rows = self._verify_on_spark(view)
            return found, _verdict(view, rows, found, " on Spark")
        how = ""
        with self.writing():
            with self.database.reading:
                if self._maintainer.views.get(key) is not view:  # the writer before has changed it
                    key = self.resolve(parsed.parts, statement, parsed.name_at)
                    view = self._maintainer.views[key]
                kept = self._rows(key)
            fresh = self._run_naively(view)
            found = self._compared(kept, fresh)
            if found.num_rows:  # several threads put lists together in any order
                with self._one_thread():
                    fresh = self._run_naively(view)
                found = self._compared(kept, fresh)
            if found.num_rows:
                found = self._without_ties(view, kept, found)
                how = "" if found.num_rows else ", up to rows that tie"
            if found.num_rows and any(pa.types.is_floating(f.type) for f in kept.schema):
                # The same sum may be rounded to either side. Imported here: few verify.
                from tidewheel.sql.compare import compare

                closer = compare(kept, fresh)
                if not (closer.same or closer.problem):
                    closer = compare(kept, fresh, self._magnitudes(view))
                if not closer.problem:
                    found = _difference(closer, kept.schema)
        return found, _verdict(view, kept.num_rows, found, how)

    def _run_naively(self, view: MaintainedView) -> pa.Table:
        """What the query gives, its WITH MUTUALLY RECURSIVE evaluated as it is written.

        The other forms that it is given are planned in one way for queries and views.
        """
        if "mutually" not in view.sql.lower():
            return self._run(view)
        try:
            return self._run(view, naive=True)
        except errors.Interrupted:
            raise
        except errors.OperationalError:  # too many iterations, or rows
            return self._run(view)

    def _compared(self, kept: pa.Table, fresh: pa.Table) -> pa.Table:
        scratch = self._scratch
        left, right = recompute.rounded(kept, scratch), recompute.rounded(fresh, scratch)
        return recompute.difference(left, right, scratch)

    def _without_ties(self, view: MaintainedView, kept: pa.Table, found: pa.Table) -> pa.Table:
        """What differs from the answer of the same query in which no rows tie."""
        from tidewheel.sql import ties  # loads sqlglot
        from tidewheel.sql.written_out import written_out

        with self.at(view.home):
            sql = written_out(view.sql, self.host.context(None))

        def right(told: str) -> bool:
            def answer(way: int) -> pa.Table:
                other = replace(view, sql=ties.settled(sql, way, told) or "")
                rows = self._run_naively(other).rename_columns(kept.column_names)
                return recompute.rounded(rows, self._scratch)

            if ties.settled(sql, 0, told) is None:
                return False
            try:
                own = recompute.rounded(kept, self._scratch)
                sizes = partial(self._magnitudes, view)
                return ties.accepted(own, answer, self._scratch, sizes)
            except errors.Interrupted:
                raise
            except errors.Error:  # not every query can tell its rows so
                return False

        text = ties.cut(sql, kept.num_columns)
        try:
            if text is not None:
                rows = self._run_naively(replace(view, sql=text))
                other = self._compared(kept, rows.rename_columns(kept.column_names))
                if not other.num_rows:
                    return other
        except errors.Interrupted:
            raise
        except errors.Error:  # sqlglot does not write every text so that it runs
            return found
        if any(map(right, ties.TOLD)):
            return found.slice(0, 0)
        return found

    def _magnitudes(self, view: MaintainedView) -> pa.Table | None:
        """The query's rows with sums of what is added up without its sign; None if that fails.

        Where large numbers cancel out, the last digit of a sum of doubles is one of theirs.
        """
        from tidewheel.sql.written_out import without_signs, written_out

        with self.at(view.home):
            sql = without_signs(written_out(view.sql, self.host.context(None)))
        try:
            return None if sql is None else self._run_naively(replace(view, sql=sql))
        except errors.Interrupted:
            raise
        except errors.Error:  # what is added up has no sign: intervals
            return None

    @contextmanager
    def _one_thread(self) -> Iterator[None]:
        """DuckDB runs with one thread: it reads a table in its order. Not where it is locked."""
        connection = self.host.connection
        before = default_threads(connection)
        if before == 1 or self.host.safe_mode:
            yield
            return
        connection.execute("SET threads = 1")
        try:
            yield
        finally:
            connection.execute(f"SET threads = {before}")

    @contextmanager
    def _still(self, view: MaintainedView) -> Iterator[None]:
        """Nothing changes the tables, which are found by the names that the view has for them."""
        with self.writing(), self.at(view.home):
            yield

    def _verify_on_spark(self, view: MaintainedView) -> tuple[pa.Table, int]:
        # Imported here: sqlglot and Parquet take long to load.
        from tidewheel.sql.check import against

        def kept() -> pa.Table:
            with self.database.reading:
                return self._rows(view.key)

        other = meaning.changed(view.home.meaning, meaning.DEFAULTS.keys() - {"TimeZone"})
        if other:
            raise errors.NotSupportedError(f"the view was made under {other}, which Spark has not")
        zone = (meaning.DEFAULTS | dict(view.home.meaning))["TimeZone"]
        here, found = against(self.host.python(), view.sql, kept, self._still(view), zone)
        if found.problem:
            raise errors.OperationalError(f"the answers can't be compared: {found.problem}")
        return _difference(found, here.schema), here.num_rows


def _verdict(view: MaintainedView, rows: int, found: pa.Table, where: str = "") -> str:
    """What a comparison came to, for people."""
    name = ".".join(parts_of_key(view.key)[1:])
    count = f"{rows:,} row{'' if rows == 1 else 's'}"
    if not found.num_rows:
        return f"{name} is right: it has the {count} of its query{where}"
    differ = f"{found.num_rows:,} row{'' if found.num_rows == 1 else 's'}"
    return f"{name} is wrong in {differ}: weight > 0 is missing, weight < 0 is too much"


def _difference(found: Comparison, schema: pa.Schema) -> pa.Table:
    """What the right side has more, or less, than the left, as a delta."""
    more = [(*row, count) for count, row in found.only_right]
    rows = more + [(*row, -count) for count, row in found.only_left]
    columns = list(zip(*rows, strict=True)) or [()] * (len(schema) + 1)
    fields = [*schema, pa.field(recompute.WEIGHT, pa.int64())]
    arrays = [_shown(c, f.type) for c, f in zip(columns, fields, strict=True)]
    return pa.table(arrays, names=[f.name for f in fields])


def _shown(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values of a comparison in the type of their column; as text where they are no more."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([None if v is None else str(v) for v in values], pa.string())


def plan_view(sql: str, meaning: Meaning, scratch: Callable[..., pa.Table]) -> Plan:
    """How a view is kept."""
    # Imported here: operators and sqlglot take long to load, and not everybody has views.
    from tidewheel.planner.view_plan import ViewPlan

    return ViewPlan(sql, scratch, row_name(""), meaning)
