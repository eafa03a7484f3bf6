"""Plans in which a node is read more than once are rewritten in pieces, so that it stays one.

A rule takes a tree apart and builds another; met twice, a shared node would become two, computed
twice (and, over ``random()``, to different rows). So each shared node is first replaced by a leaf,
the pieces are rewritten one by one, readers first, and put together again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from tidewheel.planner.logical import Column, LetRec, Named, Node, Project, Scan
from tidewheel.planner.text import column

PREFIX = "\0shared "


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
        narrow = Project(
            cutter.cut(inner, top=True), tuple(Named(c, column(c.name)) for c in columns)
        )
        pieces[number] = rewrite(narrow)
    return _Joiner(pieces).join(pieces[0])


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
            number = list(self.shared).index(id(node)) + 1
            names = tuple(c.name for c in node.schema)
            return Scan(f"{PREFIX}{number}", node.schema, names)
        return _mapped(node, self.cut)


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


def _narrowed(node: Node, columns: tuple[Column, ...]) -> Node:
    if [c.name for c in node.schema] == [c.name for c in columns]:
        return node
    return Project(node, tuple(Named(c, column(c.name)) for c in columns))
