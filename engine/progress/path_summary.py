"""Path summaries: what a path through the graph does to a timestamp.

Only ingress, egress and feedback change a timestamp, and they work on its end like on a stack. So
every path from a place k counters deep has one normal form: keep the first `keep` counters, add
`add` to the last of them, append the constants `append`.

Source: Naiad (SOSP 2013), section 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidewheel.engine.progress.timestamp import Timestamp


class PathSummary(NamedTuple):
    """The function t ↦ (t.epoch, t.counters[:keep] with its last one + add, then append).

    Laws (tests/engine/progress/test_path_summary.py): `apply` is monotone in the progress order;
    `p.then(q).apply(t) == q.apply(p.apply(t))`; `then` is associative with `identity` as unit;
    `p.leq(q)` iff `p.apply(t)` is at or before `q.apply(t)` for every t.
    """

    keep: int
    add: int
    append: tuple[int, ...]

    def apply(self, t: Timestamp) -> Timestamp:
        """The earliest time that something at `t` can have at the path's end."""
        keep, add, append = self
        counters = t[1]
        if add:
            return Timestamp(t[0], (*counters[: keep - 1], counters[keep - 1] + add, *append))
        return Timestamp(t[0], counters[:keep] + append)

    def then(self, after: PathSummary) -> PathSummary:
        """This path followed by `after`."""
        keep, add, append = self
        if after.keep < keep:
            return after
        if after.keep == keep:
            return PathSummary(keep, add + after.add, after.append)
        cut = after.keep - keep
        *head, last = append[:cut]
        return PathSummary(keep, add, (*head, last + after.add, *after.append))

    def leq(self, other: PathSummary) -> bool:
        """Is this path never later than `other`, whatever time it starts from?"""
        if self.keep == other.keep:
            return (self.add, self.append) <= (other.add, other.append)
        if self.keep > other.keep:
            # `other` raised a counter that this path left alone. Without that raise the kept
            # counter has no bound, so this path may be the later one.
            return other.add > 0
        if self.add:
            return False
        gap = other.keep - self.keep  # the least value of what only `other` keeps is ⟨0 … 0, add⟩
        return self.append <= (*(0 for _ in range(gap - 1)), other.add, *other.append)

    def __str__(self) -> str:
        """`keep 1 +2 ⟨0,0⟩`."""
        tail = f" ⟨{','.join(map(str, self.append))}⟩" if self.append else ""
        return f"keep {self.keep}{f' +{self.add}' if self.add else ''}{tail}"


def identity(depth: int) -> PathSummary:
    """An edge or an ordinary stage, `depth` loops deep."""
    return PathSummary(depth, 0, ())


def ingress(depth: int) -> PathSummary:
    """Into a loop, from `depth` loops deep."""
    return PathSummary(depth, 0, (0,))


def egress(depth: int) -> PathSummary:
    """Out of a loop, from `depth` loops deep."""
    return PathSummary(depth - 1, 0, ())


def feedback(depth: int, by: int = 1) -> PathSummary:
    """Once round a loop, `depth` loops deep."""
    return PathSummary(depth, by, ())


def minimal(summaries: Iterable[PathSummary]) -> tuple[PathSummary, ...]:
    """The antichain of the least summaries, sorted: the canonical form of a set of paths.

    In the graphs that `Graph` accepts it has one element; the general form is kept because
    nothing in this module depends on it.
    """
    out: list[PathSummary] = []
    for s in sorted(set(summaries)):
        if not any(o.leq(s) for o in out):
            out = [o for o in out if not s.leq(o)]
            out.append(s)
    return tuple(sorted(out))
