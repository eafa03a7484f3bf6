"""Plans in which a node is read more than once are rewritten in pieces, so that it stays one.

A rule takes a tree apart and builds another; met twice, a shared node would become two, computed
twice (and, over ``random()``, to different rows). So each shared node is first replaced by a leaf,
the pieces are rewritten one by one, readers first, and put together again.

The rules for views have both trees, each with what its reader asks of it, and find afterwards what
is still the same (`same_subplans`). Where a query nests, though, the trees of a node that is read
twice at each level double with each: what is large then is a piece, too (`large_in_pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from tidewheel.planner.logical import Column, LetRec, Node, Project, Scan
from tidewheel.planner.text import unchanged

PREFIX = "\0shared "
MANY: Final = 500  # nodes of a plan as a tree, more than a query has that was not made to nest
LARGE: Final = 30  # nodes below one that several read


def in_pieces(node: Node, rewrite: Callable[[Node], Node]) -> Node:
    """`rewrite` applied to `node` and to each node in it that has several readers."""
    shared = _shared(node)
    if not shared:
        return rewrite(node)
    cutter = _Cutter(shared)
    pieces = {0: rewrite(cutter.cut(node, top=True))}
    for number, inner in cutter.numbered():  # readers come first
        wanted: dict[str, None] = {}
        for piece in pieces.values():
            _leaves(piece, number, wanted)
        columns = [c for c in inner.schema if c.name in wanted] or [inner.schema[0]]
        narrow = Project(cutter.cut(inner, top=True), unchanged(columns))
        pieces[number] = rewrite(narrow)
    return _Joiner(pieces).join(pieces[0])


@dataclass(frozen=True)
class Piece(Node):
    """Stands for a node that several read, in one of them."""

    number: int
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        self._set_schema(self.columns)


def large_in_pieces(node: Node, rewrite: Callable[[Node], Node]) -> Node:
    """`rewrite` applied to `node`, and by themselves to parts that would make it far too large."""
    if _sizes(node, {})[id(node)] <= MANY:
        return rewrite(node)
    shared = _shared(node)
    sizes = _sizes(node, shared)
    cutter = _LargeCutter({key: n for key, n in shared.items() if sizes[key] > LARGE})
    pieces = {n: rewrite(cutter.cut(inner, top=True)) for n, inner in cutter.numbered()}
    return _LargeJoiner(pieces).join(rewrite(cutter.cut(node, top=True)))


def _sizes(root: Node, shared: Container[int]) -> dict[int, int]:
    """The nodes of each node's tree; one that is `shared` and large counts once for its reader."""
    sizes: dict[int, int] = {}

    def size(node: Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = 1 + sum(map(size, _children(node)))
        found = sizes[id(node)]
        return 1 if found > LARGE and id(node) in shared else found

    size(root)
    return sizes


def _shared(root: Node) -> dict[int, Node]:
    """Nodes with more than one reader, readers before what they read."""
    readers: dict[int, int] = {}
    order: list[Node] = []

    def visit(node: Node) -> None:
        readers[id(node)] = readers.get(id(node), 0) + 1
        if readers[id(node)] == 1:
            for child in _children(node):
                visit(child)
            order.append(node)

    visit(root)
    return {id(n): n for n in reversed(order) if readers[id(n)] > 1}


def _children(node: Node) -> tuple[Node, ...]:
    # What recursions read is placed by their own lowering.
    return () if isinstance(node, LetRec) else node.children


def _mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    if isinstance(node, LetRec):
        return node
    changes: dict[str, Any] = {}
    for f in fields(node):
        if not f.init:
            continue
        value = getattr(node, f.name)
        if isinstance(value, Node):
            new: Any = change(value)
        elif isinstance(value, tuple) and value and all(isinstance(v, Node) for v in value):
            new = tuple(change(v) for v in value)
            if all(a is b for a, b in zip(new, value, strict=True)):
                continue
        else:
            continue
        if new is not value:
            changes[f.name] = new
    return replace(node, **changes) if changes else node


@dataclass(slots=True)
class _Cutter:
    shared: dict[int, Node]

    def numbered(self) -> list[tuple[int, Node]]:
        return list(enumerate(self.shared.values(), 1))

    def cut(self, node: Node, top: bool = False) -> Node:
        if id(node) in self.shared and not top:
            return self.leaf(list(self.shared).index(id(node)) + 1, node)
        return _mapped(node, self.cut)

    def leaf(self, number: int, node: Node) -> Node:
        names = tuple(c.name for c in node.schema)
        return Scan(f"{PREFIX}{number}", node.schema, names)


class _LargeCutter(_Cutter):
    def leaf(self, number: int, node: Node) -> Node:
        return Piece(number, node.schema)


def _leaves(node: Node, number: int, wanted: dict[str, None]) -> None:
    if isinstance(node, Scan) and node.table == f"{PREFIX}{number}":
        wanted.update((c.name, None) for c in node.columns)
    for child in _children(node):
        _leaves(child, number, wanted)


class _Joiner:
    def __init__(self, pieces: dict[int, Node]) -> None:
        self.pieces = pieces
        self.done: dict[int, Node] = {}

    def join(self, node: Node) -> Node:
        if isinstance(node, Scan) and node.table.startswith(PREFIX):
            number = int(node.table.removeprefix(PREFIX))
            if number not in self.done:
                self.done[number] = self.join(self.pieces[number])
            return _narrowed(self.done[number], node.columns)
        return _mapped(node, self.join)


class _LargeJoiner(_Joiner):
    def join(self, node: Node) -> Node:
        if not isinstance(node, Piece):
            return _mapped(node, self.join)
        if node.number not in self.done:
            self.done[node.number] = self.join(self.pieces[node.number])
        return self.done[node.number]


def _narrowed(node: Node, columns: tuple[Column, ...]) -> Node:
    if [c.name for c in node.schema] == [c.name for c in columns]:
        return node
    return Project(node, unchanged(columns))
