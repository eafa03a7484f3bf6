"""All maintained views of one database: who reads what, and one epoch's way through them.

An epoch is one committed transaction's net change, a delta per base table. `Maintainer.step` takes
it through every hot view in dependency order (a view's own delta is the input of the views over it)
and gives every view's delta. A view is *cold* until somebody reads it: a cold view costs nothing
and is hydrated by one run of its query when it is first needed.

How a view is kept is a `Plan`: incremental operators where `planner.lower_view` has a rule for
every node of its query, else `Recompute`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, cast

from tidewheel.engine.arrow import pa
from tidewheel.engine.operators.shared import SharedArrangements
from tidewheel.engine.state.memory import AtMost, Excess, Overtime
from tidewheel.planner import view_choice
from tidewheel.planner.iterations import History
from tidewheel.planner.plans import Deltas, Home, Plan, Run
from tidewheel.planner.view_choice import Balance, Experience

if TYPE_CHECKING:
    from tidewheel.engine.state.change import Change, Replaced
    from tidewheel.engine.state.key_index import KeyIndex

    Found = Change | Replaced

_FEW = 16
FAILED_VIEW = "in maintained view "
"""Begins the note on an error that says whose query failed on a change, not the user's own."""


def failed_view(error: BaseException) -> str | None:
    """The key of the view whose query failed with an error."""
    notes: list[str] = getattr(error, "__notes__", [])
    keys = (n.removeprefix(FAILED_VIEW) for n in notes if n.startswith(FAILED_VIEW))
    return next(keys, None)


class _Named:
    """Errors of a view's query say which view it is."""

    __slots__ = ("_view",)

    def __init__(self, view: MaintainedView) -> None:
        self._view = view

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception):
            error.add_note(f"{FAILED_VIEW}{self._view.key}")


@dataclass(slots=True, eq=False)
class MaintainedView:
    """A view in the registry. `reads` are the keys of the tables and views that its query names."""

    key: str
    sql: str
    reads: frozenset[str]
    make_plan: Callable[[], Plan]
    token: str = ""
    """Names its rows for plans that read it; no other view has it."""
    home: Home = field(default_factory=Home)
    plain: bool = False
    """Its query is run by whoever reads it; it is kept up to date only for views that read it."""
    whole: bool = True
    """Was all there that its query names when `reads` was found?"""
    plan: Plan | None = None
    epochs: int = 0
    changed_rows: int = 0
    seconds: float = 0.0
    """Spent on all its epochs."""
    fill_seconds: float = 0.0
    followed_from: int = 0
    """How many writers had ended when it was filled; changes of later ones went through it."""
    last_epoch: int | None = None
    """The last epoch that changed what it reads, and how long that took."""
    last_seconds: float = 0.0
    last_rows: int | None = 0
    """The rows of it that the last epoch changed; None if nobody has looked."""
    spent: float = 0.0
    """Seconds that computing it anew took, while its operators wait to be worth it."""
    choice: str = ""
    """Why the last epoch computed it anew; empty if its operators took the change."""
    experience: Experience = field(default_factory=Experience)
    """What changes took in its operators."""
    balance: Balance = field(default_factory=Balance)
    """What they took in all, against its query."""
    too_short: int = 0
    """The last timeout, in milliseconds, under which it could not be kept filled."""
    refilled: int | None = None
    """Of the last time that it was filled again, after an epoch that failed, its `epochs`."""
    read: tuple[object, pa.Table] | None = None
    """Of a cold view, its rows when it was read, and the state of the database then."""
    read_seconds: float = 0.0
    """How long it took to compute them."""
    pinned: pa.Table | None = None
    """Its rows of the last epoch for other readers, while the next one is being made."""
    iterations: History = field(default_factory=History)
    """What changed in its recursive tables."""

    def followed(self, epoch: int, delta: Found, seconds: float, choice: str = "") -> None:
        """It has taken an epoch, or was computed anew for a reason."""
        self.epochs += 1
        self.last_epoch, self.last_seconds, self.choice = epoch, seconds, choice
        self.seconds += seconds
        self.too_short = 0
        self.last_rows = delta.rows
        self.changed_rows += delta.rows or 0

    def falls_behind(self) -> bool:
        """Have only a few changes come through since it was filled again?"""
        return self.refilled is not None and self.epochs - self.refilled < _FEW

    @property
    def hot(self) -> bool:
        return self.plan is not None

    @property
    def time(self) -> float:
        """How many seconds its operators may take for a change."""
        if self.plan is None or self.plan.reason:
            return inf
        return self.balance.left(self.plan.anew, self.fill_seconds)

    def overtime(self) -> None:
        """Its operators took too long: it is computed anew, until that has taken long, too."""
        if self.plan is not None:
            self.balance.overtime(self.plan.anew)
            self.spent = 0.0


class Maintainer:
    """The registry and the order of work. Not thread-safe: the database's write lock guards it."""

    def __init__(
        self,
        views: Mapping[str, MaintainedView] | None = None,
        shared: SharedArrangements | None = None,
    ) -> None:
        self.views: dict[str, MaintainedView] = dict(views or {})
        self.shared = shared if shared is not None else SharedArrangements()
        self.indexes: dict[str, KeyIndex] = {}
        """Rows of base tables by their primary keys; what `step` changes, they follow."""
        self._ordered: tuple[list[MaintainedView], list[MaintainedView]] = [], []
        """The views as they were registered, and in dependency order."""
        self._inputs: set[str] = set()
        """What they read."""

    def settle(self) -> None:
        """Let go of arrangements that no view keeps any more."""
        self.shared.keep({v.plan.keeper for v in self.views.values() if v.plan is not None})

    def add(self, view: MaintainedView) -> None:
        """Register a cold view; what it reads must be there already, so no cycle can be made."""
        self.views[view.key] = view

    def remove(self, key: str) -> None:
        del self.views[key]

    def readers(self, keys: Iterable[str]) -> list[str]:
        """All views that depend on any of `keys`, directly or not, in dependency order."""
        reached = set(keys)
        found = []
        for view in self.ordered():
            if view.reads & reached:
                reached.add(view.key)
                found.append(view.key)
        return found

    def ordered(self) -> list[MaintainedView]:
        """Every view behind those that it reads."""
        views = list(self.views.values())
        if views != self._ordered[0]:
            self._ordered = views, self._in_order()
            self._inputs = set().union(*(view.reads for view in views))
        return self._ordered[1]

    def _in_order(self) -> list[MaintainedView]:
        done: dict[str, MaintainedView] = {}

        def visit(view: MaintainedView) -> None:
            if view.key in done:
                return
            for key in sorted(view.reads):
                if key in self.views:
                    visit(self.views[key])
            done[view.key] = view

        for key in list(self.views):
            visit(self.views[key])
        return list(done.values())

    def watched(self) -> set[str]:
        """The base tables that some hot view reads, directly or through other views."""
        keys: set[str] = set()
        for view in self.views.values():
            if view.hot:
                keys |= view.reads
        return keys - set(self.views)

    def incremental(self, key: str, one: bool = False) -> bool:
        """Can a change of a base table go through the views without a look at any table?

        `one`: the change is a row that comes.
        """
        views = [self.views[k] for k in self.readers([key])]
        moving = {key, *(v.token for v in views)}
        return not any(
            v.plan is not None
            and (v.plan.looks(one) or v.choice or v.experience.warns(moving) or v.time <= 0)
            for v in views
        )

    def heat(self, key: str, run: Run) -> MaintainedView:
        """Make a view hot, and before it every view that it reads."""
        view = self.views[key]
        if not view.hot:
            for other in sorted(view.reads & set(self.views)):
                self.heat(other, run)
            plan = view.make_plan()
            self.settle()
            started = perf_counter()  # (what a process loads for its first view is not the view's)
            here = run.of(view)
            view.followed_from = here.filling()
            self.shared.begin(here)
            plan.hydrate(here, view.spent, view.balance.rests)
            view.plan = plan
            view.fill_seconds = perf_counter() - started
            view.iterations.add(run.epoch, plan.iterations())
        return view

    def cool(self, keys: Iterable[str] | None = None) -> None:
        """Forget the state of `keys` (None: all); after an error it is rebuilt from the tables."""
        for view in self.views.values():
            if keys is None or view.key in keys:
                view.plan = None
        self.indexes.clear()
        self.settle()

    def step(self, changes: Deltas, run: Run, refused: bool = False) -> dict[str, Found]:
        """One epoch: every hot view's delta. An error leaves state half moved: call `cool`.

        `refused`: it takes back the change of the last one, which the tables never had.
        """
        moved = {k: d for k, d in changes.items() if len(d)}
        out: dict[str, Found] = {}
        if not moved:
            return out
        self._follow(moved)
        # (ahead of the tables' change a query would find the rows from before)
        if not run.ahead and sum(map(len, moved.values())) >= view_choice.LARGE:
            readers = self._hot(moved)
            tokens = [self.views[key].token if key in self.views else key for key in moved]
            choice = view_choice.choice(moved, readers, tokens)
            if choice:
                return self._compute_anew(readers, choice, run)
        self.shared.begin(run.committed, refused)
        left: list[MaintainedView] = []
        stepped: list[Plan] = []
        choice = ""
        for view in self.ordered():
            if view.plan is None:
                continue
            if left and view.reads & {v.key for v in left}:
                left.append(view)
                continue
            read = view.reads & moved.keys()
            if not read:
                continue
            mine = {self.views[k].token if k in self.views else k: moved[k] for k in read}
            if view.experience and not run.ahead and (said := self._experience(view, mine)):
                left.append(view)
                choice = said
                continue
            if view.plan.worth and view.spent > view.plan.worth and not run.ahead:
                left.append(view)
                choice = "its operators are worth it now"
                continue
            if view.time <= 0 and not run.ahead:
                view.overtime()
                left.append(view)
                choice = "its operators took longer than its query"
                continue
            started = perf_counter()
            try:
                with _Named(view), AtMost(view_choice.most(view), view.time):
                    followed = view.key in self._inputs and bool(self._hot([view.key]))
                    delta = view.plan.step(mine, run.of(view), followed)
            except Excess as error:
                if isinstance(error, Overtime):
                    view.overtime()
                if run.ahead:
                    raise
                left.append(view)
                choice = str(error)
                continue
            if followed:
                stepped.append(view.plan)
            view.followed(run.epoch + 1, delta, perf_counter() - started)
            if view.plan.worth:
                view.spent += view.last_seconds
            elif view.plan.anew:
                view.balance.took(view.last_seconds, view.plan.anew, view.fill_seconds)
            view.iterations.add(run.epoch + 1, view.plan.iterations())
            if view.last_seconds > view_choice.SHORT or view.experience:
                self._learn(view, mine)
            if delta.rows != 0:
                out[view.key] = delta
                if followed:
                    moved[view.key] = cast("Change", delta)
        for plan in stepped:
            plan.settle()
        if left:
            out |= self._compute_anew(left, choice, run)
        return out

    def _hot(self, keys: Iterable[str]) -> list[MaintainedView]:
        """The hot views that depend on any of `keys`."""
        return [self.views[key] for key in self.readers(keys) if self.views[key].hot]

    def _experience(self, view: MaintainedView, changes: Deltas) -> str:
        """Why changes had better not go through a view's operators; empty if they had."""
        took = view.experience.asked(changes)
        if not took:
            return ""
        readers = [view, *self._hot([view.key])]
        if not view_choice.longer(took, readers):  # it turned out to take longer than it had
            view.experience.forget(changes)
            return ""
        anew = view_choice.anew(readers)
        return f"its operators took {took:.2g} s for such a change, {anew:.2g} s anew"

    def _learn(self, view: MaintainedView, changes: Deltas) -> None:
        """A view's operators have taken changes."""
        seconds, plan = view.last_seconds, view.plan
        assert plan is not None
        slow = seconds > view_choice.SHORT and not plan.reason
        if slow and view_choice.longer(seconds, [view, *self._hot([view.key])]):
            rows = view.last_rows or 0
            whole = 4 * rows > max(plan.size, view_choice.LARGE)
            view.experience.note(changes, seconds, whole)
        elif view.experience:
            view.experience.forget(changes)

    def _follow(self, moved: Deltas) -> None:
        """Take the changes into the indexes; one of which most changes is made anew if need be."""
        for key, delta in moved.items() if self.indexes else ():
            index = self.indexes.get(key)
            few = len(delta) <= view_choice.LARGE
            if index is not None and (few or len(delta) <= len(index) // 2):
                index.apply(delta)
            else:
                self.indexes.pop(key, None)

    def _compute_anew(
        self, readers: Sequence[MaintainedView], choice: str, run: Run
    ) -> dict[str, Found]:
        before = [(view, view.plan, view.plan.rows()) for view in readers if view.plan is not None]
        self.cool([view.key for view in readers])
        out: dict[str, Found] = {}
        try:
            for view, plan, old in before:
                started = perf_counter()
                with _Named(view):
                    filled = self.heat(view.key, run).plan
                assert filled is not None
                delta = plan.compared(old, filled.rows())
                view.followed(run.epoch + 1, delta, perf_counter() - started, choice)
                if delta.rows != 0:
                    out[view.key] = delta
        except BaseException:
            for view, plan, _ in before:  # it was filled: `cool` is to know
                view.plan = plan
            raise
        return out
