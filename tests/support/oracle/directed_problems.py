"""Problems of directed graphs, in the manner of `graph_problems`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from oracle.graph_problems import Rows, Tables, lengths, problem, reached


@problem("""
WITH RECURSIVE t (x, y) AS (
    SELECT a, b FROM edge UNION SELECT x, b FROM t JOIN edge ON a = y
) FROM t
""")
def closure(t: Tables) -> Rows:
    return [(n, m) for n in t.nodes for m in reached(t.after.get(n, ()), t.after)]


@problem("""
WITH RECURSIVE t (x, y) AS (
    SELECT a, b FROM edge UNION SELECT p.x, q.y FROM t p JOIN t q ON p.y = q.x
) SELECT n.x, min(least(n.x, b.x)) FROM node n
LEFT JOIN (SELECT p.x, p.y FROM t p JOIN t q ON p.x = q.y AND p.y = q.x) b ON b.y = n.x GROUP BY n.x
""")
def strong_components(t: Tables) -> Rows:
    after = {n: reached([n], t.after) for n in t.nodes}
    return [(n, min(m for m in after[n] if n in after[m])) for n in t.nodes]


@problem("""
WITH RECURSIVE d (x, k) AS (
    SELECT x, 0 FROM source UNION SELECT b, min(k + w) FROM d JOIN edge ON a = x GROUP BY b
) FROM d
""")
def least_weights(t: Tables) -> Rows:
    found = dict.fromkeys(t.sources, 0)
    for _ in t.nodes:
        for a, b, w in t.edges:
            if a in found:
                found[b] = min(found.get(b, found[a] + w), found[a] + w)
    return list(found.items())


@problem("""
WITH RECURSIVE d (x, k) AS (
    SELECT x, 0 FROM source UNION ALL SELECT DISTINCT b, k + 1 FROM d JOIN edge ON a = x
    WHERE b NOT IN (SELECT x FROM recurring.d)
) SELECT x, k FROM d
""")
def levels(t: Tables) -> Rows:
    return list(lengths(t.sources, t.after).items())


@problem("""
WITH MUTUALLY RECURSIVE way (x {type}, cost INT, hops INT) AS (
    SELECT DISTINCT ON (x) x, cost, hops FROM (
        SELECT x, 0 AS cost, 0 AS hops FROM source
        UNION ALL
        SELECT b, cost, hops + 1 FROM way JOIN edge ON a = x
    ) ORDER BY x, cost
) SELECT x, hops FROM way
""")
def levels_of_free_ways(t: Tables) -> Rows:
    """All ways cost the same: which of them is first is settled by what else is selected."""
    return list(lengths(t.sources, t.after).items())


@problem("""
WITH RECURSIVE r (v, y) AS (
    SELECT n.x, s.x FROM node n, source s WHERE n.x <> s.x
    UNION
    SELECT v, b FROM r JOIN edge ON a = y WHERE b <> v
), seen (x) AS (SELECT x FROM source UNION SELECT b FROM seen JOIN edge ON a = x)
SELECT v.x, w.x FROM seen v, seen w
WHERE v.x <> w.x AND v.x NOT IN (FROM source) AND (v.x, w.x) NOT IN (FROM r)
""")
def dominators(t: Tables) -> Rows:
    seen = reached(t.sources, t.after)
    return [
        (v, w)
        for v in seen - set(t.sources)
        for w in seen - reached(t.sources, t.after, without=v) - {v}
    ]


@problem("""
WITH MUTUALLY RECURSIVE
    hope (x {type}) AS (SELECT DISTINCT a FROM edge WHERE b NOT IN (FROM won)),
    won (x {type}) AS (SELECT DISTINCT a FROM edge WHERE b NOT IN (FROM hope))
SELECT x, CASE WHEN x IN (FROM won) THEN 'won' WHEN x IN (FROM hope) THEN 'drawn'
    ELSE 'lost' END FROM node
""")
def game(t: Tables) -> Rows:
    """Who cannot move has lost: the well-founded model of win(x) <- move(x, y), not win(y)."""
    state: dict[Any, str] = {}
    while True:
        new = {
            n: "won" if "lost" in ends else "lost"
            for n in t.nodes
            if n not in state
            and ("lost" in (ends := {state.get(b) for b in t.after.get(n, ())}) or ends <= {"won"})
        }
        if not new:
            return [(n, state.get(n, "drawn")) for n in t.nodes]
        state |= new


@problem("""
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) rank (x {type}, r DOUBLE) AS (
    WITH out AS (
            SELECT a, b, count(*) OVER (PARTITION BY a) AS n FROM (SELECT DISTINCT a, b FROM edge)
        ),
        size AS (SELECT count(*) AS n FROM node)
    SELECT node.x, CASE WHEN (SELECT count(*) FROM rank) = 0 THEN 1 / (FROM size)
        ELSE 0.15 / (FROM size) + 0.85 * (
            coalesce((SELECT sum(r / n) FROM out JOIN rank ON rank.x = a WHERE b = node.x), 0)
            + coalesce((SELECT sum(r) FROM rank WHERE rank.x NOT IN (SELECT a FROM out)), 0)
            / (FROM size)) END
    FROM node
) SELECT x, round(r, 9) FROM rank
""")
def page_rank(t: Tables) -> Rows:
    """After two iterations, as in LDBC Graphalytics."""
    after = {n: set(t.after.get(n, ())) for n in t.nodes}
    size = len(t.nodes)
    rank = dict.fromkeys(t.nodes, 1 / size) if size else {}
    for _ in range(2):
        lost = sum(rank[n] for n in t.nodes if not after[n])
        rank = {
            n: 0.15 / size
            + 0.85 * (sum(rank[m] / len(after[m]) for m in t.nodes if n in after[m]) + lost / size)
            for n in t.nodes
        }
    return [(n, round(r, 9)) for n, r in rank.items()]


@problem("""
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) label (x {type}, l {type}) AS (
    WITH both_ways AS (SELECT a, b FROM edge UNION ALL SELECT b, a FROM edge),
        votes AS (
            SELECT a AS x, l, count(*) AS n FROM both_ways JOIN label ON label.x = b GROUP BY ALL
        )
    SELECT node.x, coalesce(arg_min(l, (-n, l)), min(old), node.x)
    FROM node LEFT JOIN votes USING (x) LEFT JOIN (SELECT x, l AS old FROM label) o USING (x)
    GROUP BY node.x
) FROM label
""")
def label_propagation(t: Tables) -> Rows:
    """After two rounds; an edge in both directions counts twice."""
    label = {n: n for n in t.nodes}
    for _ in range(2):
        votes: dict[Any, Counter[Any]] = {n: Counter() for n in t.nodes}
        for a, b, _w in t.edges:
            votes[a][label[b]] += 1
            votes[b][label[a]] += 1
        label = {
            n: min(((-k, v) for v, k in votes[n].items()), default=(0, label[n]))[1]
            for n in t.nodes
        }
    return list(label.items())


@problem("""
SELECT n.x, coalesce((
    SELECT count(DISTINCT (e.a, e.b))
    FROM link p JOIN link q ON q.a = p.a JOIN edge e ON e.a = p.b AND e.b = q.b
    WHERE p.a = n.x AND p.b <> q.b
) / nullif((SELECT count(*) * (count(*) - 1) FROM link WHERE a = n.x), 0), 0) FROM node n
""")
def clustering(t: Tables) -> Rows:
    edges = {(a, b) for a, b, _ in t.edges if a != b}
    found = []
    for n in t.nodes:
        near = t.links[n]
        k = len(near)
        inner = sum((a, b) in edges for a in near for b in near)
        found.append((n, inner / (k * (k - 1)) if k > 1 else 0.0))
    return found


@problem("""
WITH RECURSIVE s (x, y) AS (
    SELECT p.b, q.b FROM edge p JOIN edge q ON p.a = q.a
    UNION
    SELECT p.b, q.b FROM s JOIN edge p ON p.a = s.x JOIN edge q ON q.a = s.y
) SELECT x, count(*) FROM s GROUP BY x
""")
def same_generation(t: Tables) -> Rows:
    after = t.after
    start = {(x, y) for n in t.nodes for x in after.get(n, ()) for y in after.get(n, ())}
    pairs = {
        (p, q): [(x, y) for x in after.get(p, ()) for y in after.get(q, ())]
        for p in t.nodes
        for q in t.nodes
    }
    return list(Counter(x for x, _ in reached(start, pairs)).items())


@problem("""
WITH RECURSIVE w (x, k, n) AS (
    SELECT x, 0, 1::HUGEINT FROM source
    UNION ALL
    SELECT b, min(k) + 1, sum(n)::HUGEINT FROM w JOIN edge ON a = x WHERE k < 8 GROUP BY b
) SELECT k, sum(n)::BIGINT FROM w GROUP BY k
""")
def walks(t: Tables) -> Rows:
    """How many walks of each length start at the sources."""
    now = Counter(t.sources)
    found = []
    for k in range(9):
        if now:
            found.append((k, sum(now.values())))
        new: Counter[Any] = Counter()
        for a, b, _ in t.edges:
            new[b] += now[a]
        now = +new
    return found


@problem("""
WITH MUTUALLY RECURSIVE c (x {type}, k BIGINT) AS (
    SELECT n.x, dense_rank() OVER (ORDER BY min(own.k), list(DISTINCT c.k ORDER BY c.k)) - 1
    FROM node n LEFT JOIN c own ON own.x = n.x LEFT JOIN edge ON a = n.x LEFT JOIN c ON c.x = b
    GROUP BY n.x
) SELECT count(DISTINCT k) FROM c
""")
def bisimilar(t: Tables) -> Rows:
    """Classes of nodes with the same future."""
    colours: dict[Any, Any] = dict.fromkeys(t.nodes, 0)
    for _ in t.nodes:
        after = {n: tuple(sorted({colours[b] for b in t.after.get(n, ())})) for n in t.nodes}
        order = sorted({(colours[n], after[n]) for n in t.nodes})
        colours = {n: order.index((colours[n], after[n])) for n in t.nodes}
    return [(len(set(colours.values())),)]
