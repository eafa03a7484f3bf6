"""Problems of graphs, a query over `node(x)`, `edge(a, b, w)`, `source(x)`, and a naive answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

Rows = list[tuple[Any, ...]]
# Every edge in both directions, once, with the least weight.
LINK = """
CREATE VIEW link AS SELECT a, b, min(w) AS w FROM (
    SELECT a, b, w FROM edge UNION ALL SELECT b, a, w FROM edge
) WHERE a <> b GROUP BY a, b
"""


@dataclass(frozen=True)
class Tables:
    nodes: list[Any]
    edges: list[tuple[Any, Any, int]]
    sources: list[Any]

    @property
    def after(self) -> dict[Any, list[Any]]:
        found = defaultdict(list)
        for a, b, _ in self.edges:
            found[a].append(b)
        return found

    @property
    def links(self) -> dict[Any, dict[Any, int]]:
        found: dict[Any, dict[Any, int]] = {n: {} for n in self.nodes}
        for p, q, w in self.edges:
            for a, b in ((p, q), (q, p)):
                if a != b:
                    found.setdefault(a, {})[b] = min(w, found.get(a, {}).get(b, w))
        return found


def reached(start: Iterable[Any], after: Any, without: Any = None) -> set[Any]:
    found, todo = set(start), list(start)
    while todo:
        for b in after.get(todo.pop(), ()):
            if b not in found and b != without:
                found.add(b)
                todo.append(b)
    return found


def lengths(start: Iterable[Any], after: Any) -> dict[Any, int]:
    """The least number of steps to each node."""
    found = dict.fromkeys(start, 0)
    todo = list(found)
    for n in todo:
        for b in after.get(n, ()):
            if b not in found:
                found[b] = found[n] + 1
                todo.append(b)
    return found


PROBLEMS: dict[str, tuple[str, Callable[[Tables], Rows]]] = {}


def problem(sql: str) -> Callable[[Callable[[Tables], Rows]], Callable[[Tables], Rows]]:
    def add(naive: Callable[[Tables], Rows]) -> Callable[[Tables], Rows]:
        PROBLEMS[naive.__name__] = sql, naive
        return naive

    return add


@problem("""
WITH RECURSIVE c (x, l) AS (
    SELECT x, x FROM node UNION SELECT b, min(l) FROM c JOIN link ON a = x GROUP BY b
) FROM c
""")
def components(t: Tables) -> Rows:
    return [(n, min(reached([n], t.links))) for n in t.nodes]


@problem("""
WITH MUTUALLY RECURSIVE c (x {type}, l {type}) AS (
    SELECT x, min(l) FROM (
        SELECT x, x AS l FROM node UNION ALL SELECT b, l FROM c JOIN link ON a = x
    ) GROUP BY x
) SELECT l, count(*) FROM c GROUP BY l
""")
def component_sizes(t: Tables) -> Rows:
    found = [min(reached([n], t.links)) for n in t.nodes]
    return [(n, found.count(n)) for n in set(found)]


DISTANCES = """
WITH RECURSIVE d (x, y, k) AS (
    SELECT x, x, 0 FROM node
    UNION
    SELECT d.x, b, min(k + 1) FROM d JOIN link ON a = y GROUP BY d.x, b
) """


@problem(DISTANCES + "SELECT k, count(*) FROM d WHERE x < y GROUP BY k")
def distances(t: Tables) -> Rows:
    found = [k for n in t.nodes for m, k in lengths([n], t.links).items() if n < m]
    return [(k, found.count(k)) for k in set(found)]


@problem(DISTANCES + "SELECT x, max(k) FROM d GROUP BY x")
def eccentricity(t: Tables) -> Rows:
    return [(n, max(lengths([n], t.links).values())) for n in t.nodes]


@problem("""
WITH RECURSIVE d (x, k) AS (
    SELECT x, 0 FROM source UNION SELECT b, min(k + 1) FROM d JOIN link ON a = x GROUP BY b
), p (x, k) AS (
    SELECT x, 0 FROM source
    UNION ALL
    SELECT b, p.k + 1 FROM p JOIN link ON a = p.x JOIN d ON d.x = b AND d.k = p.k + 1
) SELECT x, count(*) FROM p GROUP BY x
""")
def shortest_path_counts(t: Tables) -> Rows:
    far = lengths(t.sources, t.links)
    ways = dict.fromkeys(t.sources, 1)
    for n in sorted(far, key=lambda n: far[n]):
        for b in t.links.get(n, ()):
            if far[b] == far[n] + 1:
                ways[b] = ways.get(b, 0) + ways[n]
    return list(ways.items())


@problem("""
WITH MUTUALLY RECURSIVE
    d (x {type}, y {type}, k INTEGER) AS (
        SELECT x, y, min(k) FROM (
            SELECT x, x AS y, 0 AS k FROM node
            UNION ALL SELECT d.x, b, k + 1 FROM d JOIN link ON a = y
        ) GROUP BY x, y
    ),
    s (x {type}, y {type}, n BIGINT) AS (
        SELECT x, x, 1 FROM node
        UNION ALL
        SELECT s.x, b, sum(n) FROM s JOIN link ON a = s.y
            JOIN d p ON p.x = s.x AND p.y = s.y JOIN d q ON q.x = s.x AND q.y = b AND q.k = p.k + 1
        GROUP BY s.x, b
    )
SELECT v.y, round(sum(v.n * w.n / st.n), 6)
FROM s v JOIN s w ON w.x = v.y JOIN s st ON st.x = v.x AND st.y = w.y
    JOIN d dv ON dv.x = v.x AND dv.y = v.y JOIN d dw ON dw.x = w.x AND dw.y = w.y
    JOIN d ds ON ds.x = st.x AND ds.y = st.y
WHERE dv.k + dw.k = ds.k AND v.x < w.y AND v.y NOT IN (v.x, w.y) GROUP BY v.y
""")
def betweenness(t: Tables) -> Rows:
    far = {n: lengths([n], t.links) for n in t.nodes}
    ways = {n: dict(shortest_path_counts(Tables(t.nodes, t.edges, [n]))) for n in t.nodes}
    found: dict[Any, float] = {}
    for a, b in combinations(sorted(t.nodes), 2):
        for v in (set(far[a]) & set(far[b])) - {a, b}:
            if far[a][v] + far[v][b] == far[a][b]:
                found[v] = found.get(v, 0) + ways[a][v] * ways[v][b] / ways[a][b]
    return [(n, round(v, 6)) for n, v in found.items()]


DEGREE = "degree AS (SELECT x, count(b)::INTEGER AS n FROM node LEFT JOIN link ON a = x GROUP BY x)"


@problem(f"""
WITH RECURSIVE {DEGREE}, gone (k, x) AS (
    SELECT k, x FROM range(1, 12) r(k), degree WHERE n < k
    UNION
    SELECT g.k, b FROM gone g JOIN link ON a = g.x JOIN degree d ON d.x = b
    GROUP BY g.k, b, d.n HAVING count(*) > d.n - g.k
) SELECT x, min(k) - 1 FROM gone GROUP BY x
""")
def core_numbers(t: Tables) -> Rows:
    found = dict.fromkeys(t.nodes, 0)
    for k in range(1, 12):
        left = set(t.nodes)
        while out := {n for n in left if sum(b in left for b in t.links[n]) < k}:
            left -= out
        found |= dict.fromkeys(left, k)
    return list(found.items())


@problem("""
WITH MUTUALLY RECURSIVE gone (k BIGINT, x {type}) AS (
    SELECT k, x FROM range(1, 12) r(k), node
    WHERE (SELECT count(*) FROM link l WHERE l.a = x AND NOT EXISTS (
        SELECT 1 FROM gone g WHERE g.k = r.k AND g.x = l.b)) < k
) SELECT k - 1, count(*) FROM (SELECT x, min(k) AS k FROM gone GROUP BY x) GROUP BY k
""")
def shells(t: Tables) -> Rows:
    found = [k for _, k in core_numbers(t)]
    return [(k, found.count(k)) for k in set(found)]


@problem("""
WITH MUTUALLY RECURSIVE thin (k BIGINT, a {type}, b {type}) AS (
    SELECT k, e.a, e.b FROM range(3, 9) r(k), link e WHERE (
        SELECT count(*) FROM link p JOIN link q ON q.a = p.b
        WHERE p.a = e.a AND q.b = e.b
            AND (k, p.a, p.b) NOT IN (FROM thin) AND (k, q.a, q.b) NOT IN (FROM thin)
    ) < k - 2
) SELECT k - 1, count(*) // 2 FROM (SELECT min(k) AS k FROM thin GROUP BY a, b) GROUP BY k
""")
def trusses(t: Tables) -> Rows:
    full = {(a, b) for a in t.links for b in t.links[a]}
    found = dict.fromkeys(full, 2)
    for k in range(3, 9):
        left = set(full)
        while thin := {
            (a, b)
            for a, b in left
            if sum((a, c) in left and (c, b) in left for c in t.nodes) < k - 2
        }:
            left -= thin
        found |= dict.fromkeys(left, k)
    return [(k, list(found.values()).count(k) // 2) for k in set(found.values())]


@problem("""
WITH RECURSIVE walk (x, y, odd) AS (
    SELECT x, x, false FROM node UNION SELECT x, b, NOT odd FROM walk JOIN link ON a = y
) SELECT x FROM walk WHERE x = y AND odd
""")
def odd_nodes(t: Tables) -> Rows:
    """Nodes of components that are not bipartite."""
    twice = {(a, o): [(b, not o) for b in t.links[a]] for a in t.links for o in (False, True)}
    return [(n,) for n in t.nodes if (n, True) in reached([(n, False)], twice)]


@problem("""
WITH RECURSIVE q (m, size) AS (
    SELECT [x], 1 FROM node
    UNION ALL
    SELECT list_append(m, l.b), size + 1 FROM q JOIN link l ON l.a = m[-1] AND l.b > l.a
    WHERE (SELECT count(*) FROM link k WHERE k.a = l.b AND list_contains(m, k.b)) = size
) SELECT size, count(*) FROM q GROUP BY size
""")
def cliques(t: Tables) -> Rows:
    found = level = [(n,) for n in t.nodes]
    while level := [
        (*m, b)
        for m in level
        for b in t.links[m[-1]]
        if b > m[-1] and all(b in t.links[c] for c in m)
    ]:
        found = found + level
    sizes = [len(m) for m in found]
    return [(n, sizes.count(n)) for n in set(sizes)]


@problem("""
WITH RECURSIVE p (first, last, path) AS (
    SELECT x, x, [x] FROM node
    UNION ALL
    SELECT first, b, list_append(path, b) FROM p JOIN link ON a = last
    WHERE b > first AND NOT list_contains(path, b)
) SELECT len(path), count(*) // 2 FROM p JOIN link ON a = last AND b = first
WHERE len(path) > 2 GROUP BY len(path)
""")
def cycles(t: Tables) -> Rows:
    found: dict[int, int] = defaultdict(int)

    def follow(path: tuple[Any, ...]) -> None:
        for b in t.links[path[-1]]:
            if b == path[0] and len(path) > 2:
                found[len(path)] += 1
            elif b > path[0] and b not in path:
                follow((*path, b))

    for n in t.nodes:
        follow((n,))
    return [(size, n // 2) for size, n in found.items()]


@problem("""
WITH RECURSIVE numbered AS (SELECT x, row_number() OVER (ORDER BY x) AS i FROM node),
    earlier AS (SELECT p.i, list(q.i) AS js FROM numbered p LEFT JOIN link ON a = p.x
        LEFT JOIN numbered q ON q.x = b AND q.i < p.i GROUP BY p.i),
    c (i, colours) AS (
        SELECT 0, []::INTEGER[]
        UNION ALL
        SELECT c.i + 1, list_append(colours, k)
        FROM c JOIN earlier e ON e.i = c.i + 1, range(1, 4) r(k)
        WHERE NOT list_contains([colours[j] FOR j IN js], k)
    )
SELECT count(*) FROM c WHERE i = (SELECT count(*) FROM node)
""")
def three_colourings(t: Tables) -> Rows:
    nodes = sorted(t.nodes)

    def ways(done: dict[Any, int]) -> int:
        if len(done) == len(nodes):
            return 1
        n = nodes[len(done)]
        taken = {done[b] for b in t.links[n] if b in done}
        return sum(ways(done | {n: k}) for k in range(3) if k not in taken)

    return [(ways({}),)]


@problem("""
WITH RECURSIVE r (a, b, y) AS (
    SELECT a, b, a FROM link WHERE a < b
    UNION
    SELECT r.a, r.b, l.b FROM r JOIN link l ON l.a = r.y
    WHERE (l.a, l.b) <> (r.a, r.b) AND (l.b, l.a) <> (r.a, r.b)
) SELECT a, b FROM link WHERE a < b EXCEPT SELECT a, b FROM r WHERE y = b
""")
def bridges(t: Tables) -> Rows:
    found = []
    for a in t.links:
        for b in t.links[a]:
            rest = {n: set(near) for n, near in t.links.items()}
            rest[a].discard(b)
            rest[b].discard(a)
            if a < b and b not in reached([a], rest):
                found.append((a, b))
    return found


@problem("""
WITH RECURSIVE r (v, y) AS (
    SELECT a, min(b) FROM link GROUP BY a
    UNION
    SELECT v, b FROM r JOIN link ON a = y WHERE b <> v
) SELECT DISTINCT a FROM link ANTI JOIN r ON v = a AND y = b
""")
def cut_nodes(t: Tables) -> Rows:
    return [
        (n,)
        for n in t.nodes
        if t.links[n] and set(t.links[n]) - reached([min(t.links[n])], t.links, without=n)
    ]


@problem("""
WITH RECURSIVE d (x, k) AS (
    SELECT x, 0 FROM source UNION SELECT b, min(k + w) FROM d JOIN link ON a = x GROUP BY b
) FROM d
""")
def shortest_paths(t: Tables) -> Rows:
    found = dict.fromkeys(t.sources, 0)
    for _ in t.nodes:
        for a in t.nodes:
            for b, w in t.links[a].items():
                if a in found:
                    found[b] = min(found.get(b, found[a] + w), found[a] + w)
    return list(found.items())


@problem("""
WITH RECURSIVE ranked AS (
        SELECT a, b, w, dense_rank() OVER (ORDER BY w, least(a, b), greatest(a, b)) AS i FROM link
    ),
    m (x, y, i) AS (
        SELECT x, x, 0 FROM node
        UNION
        SELECT m.x, r.b, min(greatest(m.i, r.i)) FROM m JOIN ranked r ON r.a = m.y GROUP BY m.x, r.b
    )
SELECT count(*), sum(r.w) FROM m JOIN ranked r ON r.a = m.x AND r.b = m.y AND r.i = m.i
WHERE m.x < m.y
""")
def spanning_tree(t: Tables) -> Rows:
    part = {n: n for n in t.nodes}
    chosen = []
    links = [(w, p, q) for p, near in t.links.items() for q, w in near.items() if p < q]
    for w, a, b in sorted(links):
        if part[a] != part[b]:
            chosen.append(w)
            part = {n: part[a] if p == part[b] else p for n, p in part.items()}
    return [(len(chosen), sum(chosen) if chosen else None)]


@problem("""
WITH MUTUALLY RECURSIVE c (x {type}, k BIGINT) AS (
    SELECT n.x, dense_rank() OVER (ORDER BY min(own.k), list(c.k ORDER BY c.k)) - 1
    FROM node n LEFT JOIN c own ON own.x = n.x LEFT JOIN link ON a = n.x LEFT JOIN c ON c.x = b
    GROUP BY n.x
) SELECT count(DISTINCT k) FROM c
""")
def stable_colours(t: Tables) -> Rows:
    """Colour refinement: how many kinds of nodes it tells apart."""
    colours: dict[Any, Any] = dict.fromkeys(t.nodes, 0)
    for _ in t.nodes:
        signs = {n: (colours[n], tuple(sorted(colours[b] for b in t.links[n]))) for n in t.nodes}
        order = sorted(set(signs.values()))
        colours = {n: order.index(s) for n, s in signs.items()}
    return [(len(set(colours.values())),)]
