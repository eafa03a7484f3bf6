"""Graphs whose answers are published, or follow from what they are."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

FILES = Path(__file__).parents[2] / "oracle" / "published"
Node = int | str
Edge = tuple[Node, Node, int]


@dataclass(frozen=True)
class Graph:
    """Edges as they are stored: an undirected one stands there once."""

    edges: tuple[Edge, ...]
    alone: tuple[Node, ...] = ()

    @property
    def nodes(self) -> list[Node]:
        return sorted({n for a, b, _ in self.edges for n in (a, b)} | set(self.alone), key=str)

    @property
    def type(self) -> str:
        return "VARCHAR" if any(isinstance(n, str) for n in self.nodes) else "INTEGER"


def from_file(name: str) -> Graph:
    lines = (FILES / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return Graph(tuple((_node(r["a"]), _node(r["b"]), int(r["w"])) for r in rows))


def of(text: str, alone: tuple[Node, ...] = ()) -> Graph:
    """`a-b a-c:4`: edges, with their weights where these are not 1."""
    edges = []
    for word in text.split():
        pair, _, weight = word.partition(":")
        a, b = pair.split("-")
        edges.append((_node(a), _node(b), int(weight or 1)))
    return Graph(tuple(edges), alone)


def _node(text: str) -> Node:
    return int(text) if text.isdigit() else text


def complete(n: int) -> Graph:
    return Graph(tuple((a, b, 1) for a in range(1, n + 1) for b in range(a + 1, n + 1)))


def bipartite(n: int, m: int) -> Graph:
    return Graph(tuple((a, n + b, 1) for a in range(1, n + 1) for b in range(1, m + 1)))


def cycle(n: int) -> Graph:
    return Graph(tuple((a, a % n + 1, 1) for a in range(1, n + 1)))


def hypercube(n: int) -> Graph:
    pairs = ((a, a | 1 << i) for a in range(2**n) for i in range(n))
    return Graph(tuple((a + 1, b + 1, 1) for a, b in pairs if a != b))


def grid(rows: int, columns: int) -> Graph:
    at = {p: i + 1 for i, p in enumerate(product(range(rows), range(columns)))}
    lines = [[at[r, c] for c in range(columns)] for r in range(rows)]
    lines += [[at[r, c] for r in range(rows)] for c in range(columns)]
    return Graph(tuple((a, b, 1) for line in lines for a, b in pairwise(line)))


def de_bruijn(symbols: int, length: int) -> Graph:
    """Directed: a word's successors drop its first symbol and add one."""
    size = symbols**length
    return Graph(
        tuple((a + 1, a * symbols % size + s + 1, 1) for a in range(size) for s in range(symbols))
    )


def knight(size: int) -> Graph:
    moves = [(1, 2), (2, 1), (-1, 2), (-2, 1)]
    squares = list(product(range(size), repeat=2))
    return Graph(
        tuple(
            (r * size + c + 1, (r + i) * size + c + j + 1, 1)
            for r, c in squares
            for i, j in moves
            if (r + i, c + j) in squares
        )
    )


PETERSEN = of("1-2 2-3 3-4 4-5 5-1 1-6 2-7 3-8 4-9 5-10 6-8 8-10 10-7 7-9 9-6")
# T. Cormen, C. Leiserson, R. Rivest, C. Stein, Introduction to Algorithms (third edition)
CLRS_SCC = of("a-b b-c b-e b-f c-d c-g d-c d-h e-a e-f f-g g-f g-h h-h")
CLRS_MST = of(
    "1-2:4 1-8:8 2-3:8 2-8:11 3-4:7 3-6:4 3-9:2 4-5:9 4-6:14 5-6:10 6-7:2 7-8:1 7-9:6 8-9:7"
)
CLRS_DIJKSTRA = of("s-t:10 s-y:5 t-x:1 t-y:2 y-t:3 y-x:9 y-z:2 x-z:4 z-x:6 z-s:7")
# Scores of web pages, the example of Wikipedia's article on PageRank
PAGES = of("B-C C-B D-A D-B E-B E-D E-F F-B F-E G-B G-E H-B H-E I-B I-E J-E K-E")
# T. Lengauer, R. Tarjan, A fast algorithm for finding dominators in a flowgraph, TOPLAS 1 (1979)
FLOWGRAPH = of(
    "R-A R-B R-C A-D B-A B-D B-E C-F C-G D-L E-H F-I G-I G-J H-E H-K I-K J-I K-I K-R L-H"
)
# The examples of LDBC Graphalytics; weights in hundredths.
LDBC_DIRECTED = of(
    "1-3:50 1-5:30 2-4:10 2-5:30 2-10:12 3-1:53 3-5:62 3-8:21 3-10:52 5-3:69 5-4:53 5-8:10 "
    "6-3:23 6-4:39 7-4:83 8-1:39 9-4:69"
)
LDBC_UNDIRECTED = of(
    "2-3:90 2-4:69 3-4:13 3-5:50 3-8:32 5-6:63 5-8:12 6-7:53 6-8:64 6-9:23 6-10:63 7-9:36"
)
