"""A layered layout of a graph whose nodes may lie in nested groups; no library, no randomness.

A group is laid out like a graph of its own and is one node of the graph around it, so that groups
nest, never overlap, and hold nothing that is not theirs. Within one level: edges that close a cycle
are turned round, layers are the longest paths, long edges get a place of their own in each layer
that they pass (so no line crosses a box), the order within layers is found by medians, and places
by least squares under the order (isotonic regression).

Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures"
(1981). Units are pixels; y grows downwards.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

GAP_X, GAP_Y = 26.0, 44.0
PAD, TITLE = 18.0, 26.0
LANE = 14.0
"""Between nodes, between layers; around a group's contents, above them; for a line that passes."""

_SWEEPS = 8

Id = str
Path = tuple[str, ...]
"""The groups around a node, outermost first."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rect:
    """`x`, `y` is the corner at the top left."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is. A line is a list of points, from the edge's source to its target."""

    width: float
    height: float
    nodes: dict[Id, Rect]
    groups: dict[Path, Rect]
    lines: list[list[Point]]


@dataclass(eq=False, slots=True)
class _Place:
    """A node, a group, or a long edge's place in a layer, on one level of the nesting."""

    width: float
    height: float
    layer: int = 0
    x: float = 0.0  # centre
    y: float = 0.0  # top
    above: list[_Link] = field(default_factory=list)
    below: list[_Link] = field(default_factory=list)
    inner: _Level | None = None
    first: bool = False  # reads from outside the group: stays at the top
    last: bool = False  # is read from outside: stays at the bottom

    @property
    def left(self) -> float:
        return self.x - self.width / 2


@dataclass(eq=False, slots=True)
class _Link:
    """From one layer to the next; the ends are x offsets from the places' centres."""

    upper: _Place
    lower: _Place
    edge: int
    out: float = 0.0
    into: float = 0.0


@dataclass(eq=False, slots=True)
class _Level:
    places: dict[Id | Path, _Place] = field(default_factory=dict)  # by node, or by group's path
    layers: list[list[_Place]] = field(default_factory=list)
    chains: dict[int, list[_Link]] = field(default_factory=dict)
    turned: set[int] = field(default_factory=set)
    width: float = 0.0
    height: float = 0.0


def layout(
    sizes: Mapping[Id, tuple[float, float]],
    edges: Sequence[tuple[Id, Id]],
    groups: Mapping[Id, Path] | None = None,
    titles: Mapping[Path, float] | None = None,
    back: Container[int] = (),
) -> Layout:
    """Place nodes of the given (width, height).

    `titles`: the least width of a group. `back`: positions of edges that are known to lead upwards;
    where other edges close cycles some of them are drawn upwards, too.
    """
    paths = {node: (groups or {}).get(node, ()) for node in sizes}
    level = _lay(sizes, edges, paths, (), titles or {}, back)
    found = Layout(level.width, level.height, {}, {}, [[] for _ in edges])
    offsets: dict[Path, tuple[_Level, float, float]] = {}
    _collect(level, (), 0.0, 0.0, found, offsets)
    for number, (source, target) in enumerate(edges):
        found.lines[number].extend(_line(number, source, target, paths, found, offsets))
    return found


def _lay(
    sizes: Mapping[Id, tuple[float, float]],
    edges: Sequence[tuple[Id, Id]],
    paths: Mapping[Id, Path],
    path: Path,
    titles: Mapping[Path, float],
    back: Container[int],
) -> _Level:
    """The graph directly inside a group, with the groups in it as nodes."""
    level = _Level()
    depth = len(path)
    for node, at in paths.items():
        if at == path:
            level.places[node] = _Place(*sizes[node])
        elif at[:depth] == path and (child := at[: depth + 1]) not in level.places:
            inner = _lay(sizes, edges, paths, child, titles, back)
            width = max(inner.width + 2 * PAD, titles.get(child, 0.0))
            level.places[child] = _Place(width, inner.height + 2 * PAD + TITLE, inner=inner)
    links: list[tuple[int, _Place, _Place]] = []
    for number, (source, target) in enumerate(edges):
        one, other = (_within(level, paths[n], n, path) for n in (source, target))
        if one is not None and other is not None and one is not other:
            links.append((number, one, other))
        elif one is not None and other is None:
            one.last = True
        elif one is None and other is not None:
            other.first = True
    _layer(level, links, back)
    _order(level)
    _arrange(level)
    return level


def _within(level: _Level, at: Path, node: Id, path: Path) -> _Place | None:
    """The place on a level that is a node, or holds it."""
    if at == path:
        return level.places[node]
    return level.places[at[: len(path) + 1]] if at[: len(path)] == path else None


def _layer(level: _Level, links: list[tuple[int, _Place, _Place]], back: Container[int]) -> None:
    """Turn cycles, give each place the length of the longest path to it, split long edges."""
    following: dict[_Place, list[tuple[int, _Place]]] = {p: [] for p in level.places.values()}
    for number, one, other in links:
        if number in back:
            level.turned.add(number)
            one, other = other, one
        following[one].append((number, other))
    state: dict[_Place, int] = {}
    for root in level.places.values():
        stack = [(root, iter(following[root]))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            place, rest = stack[-1]
            for number, other in rest:
                if state.get(other) == 1:
                    level.turned ^= {number}
                elif other not in state:
                    state[other] = 1
                    stack.append((other, iter(following[other])))
                    break
            else:
                state[place] = 2
                stack.pop()
    ends = [(n, b, a) if n in level.turned else (n, a, b) for n, a, b in links]
    leaving: dict[_Place, list[_Place]] = {p: [] for p in level.places.values()}
    entering: dict[_Place, list[_Place]] = {p: [] for p in level.places.values()}
    for _, upper, lower in ends:
        leaving[upper].append(lower)
        entering[lower].append(upper)
    order = _topological(level, leaving, entering)
    for place in order:
        place.layer = max((p.layer + 1 for p in entering[place]), default=0)
    deepest = max((p.layer for p in order), default=0)
    for place in reversed(order):  # sources move down to those who read them
        if leaving[place] and not entering[place] and not place.first:
            place.layer = min(p.layer for p in leaving[place]) - 1
        elif place.last and not leaving[place]:
            place.layer = deepest
    level.layers = [[] for _ in range(deepest + 1)]
    for place in order:
        level.layers[place.layer].append(place)
    for number, upper, lower in ends:
        chain, at = [], upper
        for layer in range(upper.layer + 1, lower.layer):
            passing = _Place(LANE, 0.0, layer)
            level.layers[layer].append(passing)
            chain.append(_Link(at, passing, number))
            at = passing
        chain.append(_Link(at, lower, number))
        for link in chain:
            link.upper.below.append(link)
            link.lower.above.append(link)
        level.chains[number] = chain


def _topological(
    level: _Level,
    leaving: Mapping[_Place, list[_Place]],
    entering: Mapping[_Place, list[_Place]],
) -> list[_Place]:
    missing = {p: len(entering[p]) for p in level.places.values()}
    ready = [p for p, count in missing.items() if not count]
    order = []
    while ready:
        place = ready.pop(0)
        order.append(place)
        for other in leaving[place]:
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return order


def _order(level: _Level) -> None:
    """Sort layers by where their neighbours are, downwards and upwards; keep the best."""
    best, fewest = [list(layer) for layer in level.layers], _crossings(level.layers)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        layers = level.layers if down else level.layers[::-1]
        for before, layer in pairwise(layers):
            at = {place: i for i, place in enumerate(before)}
            middles = {place: _middle(place, at, down, i) for i, place in enumerate(layer)}
            layer.sort(key=middles.__getitem__)
        now = _crossings(level.layers)
        if now < fewest:
            best, fewest = [list(layer) for layer in level.layers], now
    level.layers = best


def _middle(place: _Place, at: Mapping[_Place, int], down: bool, own: int) -> float:
    near = [at[k.upper] for k in place.above] if down else [at[k.lower] for k in place.below]
    return sum(near) / len(near) if near else float(own)


def _crossings(layers: Sequence[Sequence[_Place]]) -> int:
    """Pairs of lines that cross, by counting inversions."""
    total = 0
    for upper, lower in pairwise(layers):
        at = {place: i for i, place in enumerate(lower)}
        ends = [e for p in upper for e in sorted(at[link.lower] for link in p.below)]
        tree = [0] * (len(lower) + 1)
        for count, end in enumerate(ends):
            i, before = end + 1, 0
            while i:
                before += tree[i]
                i &= i - 1
            total += count - before
            i = end + 1
            while i <= len(lower):
                tree[i] += 1
                i += i & -i
    return total


def _arrange(level: _Level) -> None:
    """Coordinates on one level, from (0, 0)."""
    for layer in level.layers:
        edge = 0.0
        for place in layer:
            place.x = edge + place.width / 2
            edge += place.width + GAP_X
    for sweep in range(_SWEEPS + 1):
        _ends(level)
        down = sweep % 2 == 0
        for layer in level.layers if down else level.layers[::-1]:
            wanted = []
            for place in layer:
                if down:
                    near = [k.upper.x + k.out - k.into for k in place.above]
                else:
                    near = [k.lower.x + k.into - k.out for k in place.below]
                near = near or [k.lower.x + k.into - k.out for k in place.below] or [place.x]
                wanted.append(sum(near) / len(near))
            _settle(layer, wanted)
    places = [place for layer in level.layers for place in layer]
    left = min((p.left for p in places), default=0.0)
    y = 0.0
    for layer in level.layers:
        for place in layer:
            place.x -= left
            place.y = y
        height = max(p.height for p in layer)
        for place in layer:
            if place.above == [] and place.below:
                place.y = y + height - place.height  # near those who read it
        y += height + GAP_Y
    level.width = max((p.left + p.width for p in places), default=0.0)
    level.height = max(y - GAP_Y, 0.0)


def _settle(layer: Sequence[_Place], wanted: Sequence[float]) -> None:
    """Nearest to the wanted centres, in order and apart: pools of neighbours that push each
    other."""
    shift = [0.0]
    for one, other in pairwise(layer):
        shift.append(shift[-1] + (one.width + other.width) / 2 + GAP_X)
    pools: list[tuple[float, int]] = []
    for target, moved in zip(wanted, shift, strict=True):
        total, count = target - moved, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before, more = pools.pop()
            total, count = total + before, count + more
        pools.append((total, count))
    means = [total / count for total, count in pools for _ in range(count)]
    for place, mean, moved in zip(layer, means, shift, strict=True):
        place.x = mean + moved


def _ends(level: _Level) -> None:
    """Spread the lines over the width of the box at which they end, in the order of their way."""
    for layer in level.layers:
        for place in layer:
            place.above.sort(key=lambda link: link.upper.x)
            place.below.sort(key=lambda link: link.lower.x)
            for link, offset in zip(place.above, _spread(place, len(place.above)), strict=True):
                link.into = offset
            for link, offset in zip(place.below, _spread(place, len(place.below)), strict=True):
                link.out = offset


def _spread(place: _Place, count: int) -> list[float]:
    step = min(place.width / (count + 1), 40.0)
    return [(i - (count - 1) / 2) * step for i in range(count)]


def _collect(
    level: _Level,
    path: Path,
    x: float,
    y: float,
    found: Layout,
    offsets: dict[Path, tuple[_Level, float, float]],
) -> None:
    offsets[path] = level, x, y
    for key, place in level.places.items():
        rect = Rect(x + place.left, y + place.y, place.width, place.height)
        if isinstance(key, str):
            found.nodes[key] = rect
        elif place.inner is not None:
            found.groups[key] = rect
            middle = rect.x + (rect.width - place.inner.width) / 2
            _collect(place.inner, key, middle, rect.y + PAD + TITLE, found, offsets)


def _line(
    number: int,
    source: Id,
    target: Id,
    paths: Mapping[Id, Path],
    found: Layout,
    offsets: Mapping[Path, tuple[_Level, float, float]],
) -> list[Point]:
    """An edge: from its source's box, through the places that it passes, to its target's box."""
    path: Path = ()
    for one, other in zip(paths[source], paths[target], strict=False):
        if one != other:
            break
        path = (*path, one)
    level, x, y = offsets[path]
    if number not in level.chains:  # a box that feeds itself
        box = found.nodes[source]
        right, low = box.x + box.width, box.y + box.height
        return [
            (right - 8, low),
            (right + 12, low + 10),
            (right + 12, box.y - 10),
            (right - 8, box.y),
        ]
    turned = number in level.turned
    upper, lower = (target, source) if turned else (source, target)
    points: list[Point] = []
    for link in level.chains[number]:
        top, bottom = link.upper, link.lower
        if not points:
            box, place = found.nodes[upper], top
            at = x + place.x + link.out
            if place.inner is not None:
                at = box.x + box.width / 2
            points.append((at, box.y + box.height))
            points.append((at, y + _floor(level, place)))
        else:
            points.append((x + top.x, y + _floor(level, top)))
        at = x + bottom.x + link.into
        if bottom.inner is not None:
            at = found.nodes[lower].x + found.nodes[lower].width / 2
        points.append((at, y + _ceiling(level, bottom)))
    box = found.nodes[lower]
    points.append((points[-1][0], box.y))
    points = [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]
    return points[::-1] if turned else points


def _ceiling(level: _Level, place: _Place) -> float:
    return min(p.y for p in level.layers[place.layer])


def _floor(level: _Level, place: _Place) -> float:
    return max(p.y + p.height for p in level.layers[place.layer])
