"""Recursions over graphs whose answers are published or follow from theory; once, and as views.

The view of each lives through random edges out and in, some together, and must then equal a naive
evaluation; when the edges are back it has the known answer again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from functools import cache
from math import comb
from typing import Any

import pytest

import oracle.directed_problems  # noqa: F401  adds its problems
import tidewheel
from oracle import published_graphs as graphs
from oracle.graph_problems import LINK, PROBLEMS, Tables
from oracle.published_graphs import Graph

GRAPHS: dict[str, Graph] = {
    "petersen": graphs.PETERSEN,
    "clrs scc": graphs.CLRS_SCC,
    "clrs mst": graphs.CLRS_MST,
    "clrs dijkstra": graphs.CLRS_DIJKSTRA,
    "pages": graphs.PAGES,
    "flowgraph": graphs.FLOWGRAPH,
    "ldbc directed": graphs.LDBC_DIRECTED,
    "ldbc undirected": graphs.LDBC_UNDIRECTED,
    "K5": graphs.complete(5),
    "K33": graphs.bipartite(3, 3),
    "C7": graphs.cycle(7),
    "Q3": graphs.hypercube(3),
    "Q4": graphs.hypercube(4),
    "grid": graphs.grid(4, 5),
    "de bruijn": graphs.de_bruijn(2, 3),
    "knight": graphs.knight(8),
    "ladder": graphs.of("6-5 5-4 4-3 3-2 2-1 7-8 8-7 9-1 8-9 9-7 7-4"),
    "tree": Graph(tuple((n // 2, n, 1) for n in range(2, 16))),
}
FILES = ("karate", "les_miserables", "southern_women", "florentine")


@cache
def graph(name: str) -> Graph:
    return graphs.from_file(name) if name in FILES else GRAPHS[name]


def each(value: object, names: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(name, value) for name in names]


def words(text: str) -> list[tuple[Any, ...]]:
    """`a:1 b:2` as rows."""
    return [tuple(map(_value, word.split(":"))) for word in text.split()]


def _value(text: str) -> str | float:
    return float(text) if text[0].isdigit() else text


def numbers(text: str, first: int = 1) -> list[tuple[int, float]]:
    return [(n, float(v)) for n, v in enumerate(text.split(), first)]


KNOWN: dict[tuple[str, str], list[tuple[Any, ...]]] = {
    # Zachary's club, as its literature has it
    ("component_sizes", "karate"): [(1, 34)],
    ("distances", "karate"): [(1, 78), (2, 265), (3, 137), (4, 73), (5, 8)],
    ("cliques", "karate"): [(1, 34), (2, 78), (3, 45), (4, 11), (5, 2)],
    ("shells", "karate"): [(1, 1), (2, 11), (3, 12), (4, 10)],
    ("trusses", "karate"): [(2, 11), (3, 42), (4, 11), (5, 14)],
    ("bridges", "karate"): [(1, 12)],
    ("cut_nodes", "karate"): [(1,)],
    ("stable_colours", "karate"): [(27,)],
    ("components", "les_miserables"): each("Anzelma", graphs.from_file("les_miserables").nodes),
    ("distances", "les_miserables"): [(1, 254), (2, 995), (3, 1251), (4, 399), (5, 27)],
    ("spanning_tree", "les_miserables"): [(76, 105)],
    ("cut_nodes", "les_miserables"): words(
        "Fauchelevent Gavroche Mabeuf MlleGillenormand MmeBurgon Myriel Thenardier Valjean"
    ),
    ("odd_nodes", "southern_women"): [],
    ("shells", "southern_women"): [(2, 4), (3, 5), (4, 23)],
    ("cut_nodes", "florentine"): words("Albizzi Guadagni Medici Salviati"),
    # the normalised 0.522 of the Medici is 47.5 of 91 pairs
    ("betweenness", "florentine"): words(
        "Medici:47.5 Guadagni:23.166667 Albizzi:19.333333 Salviati:13 Ridolfi:10.333333 "
        "Bischeri:9.5 Strozzi:9.333333 Barbadori:8.5 Tornabuoni:8.333333 Castellani:5 Peruzzi:2"
    ),
    # J. Petersen (1898): girth 5, no Hamiltonian cycle, 120 colourings, distance-regular
    ("distances", "petersen"): [(1, 15), (2, 30)],
    ("cycles", "petersen"): [(5, 12), (6, 10), (8, 15), (9, 20)],
    ("three_colourings", "petersen"): [(120,)],
    ("stable_colours", "petersen"): [(1,)],
    # of complete and bipartite graphs, rings, cubes and grids
    ("cliques", "K5"): [(k, comb(5, k)) for k in range(1, 6)],
    ("cycles", "K5"): [(3, 10), (4, 15), (5, 12)],
    ("three_colourings", "K5"): [(0,)],
    ("trusses", "K5"): [(5, 10)],
    ("cycles", "K33"): [(4, 9), (6, 6)],
    ("cycles", "C7"): [(7, 1)],
    ("three_colourings", "C7"): [(2**7 - 2,)],
    ("odd_nodes", "C7"): [(n,) for n in range(1, 8)],
    ("cycles", "Q3"): [(4, 6), (6, 16), (8, 6)],
    ("three_colourings", "Q3"): [(114,)],
    ("distances", "Q4"): [(k, 8 * comb(4, k)) for k in range(1, 5)],
    ("core_numbers", "Q4"): each(4, range(1, 17)),
    ("shortest_path_counts", "Q3"): words("1:1 2:1 3:1 5:1 4:2 6:2 7:2 8:6"),
    ("shortest_path_counts", "grid"): [
        (5 * r + c + 1, comb(r + c, r)) for r in range(4) for c in range(5)
    ],
    ("odd_nodes", "grid"): [],
    ("closure", "de bruijn"): [(a, b) for a in range(1, 9) for b in range(1, 9)],
    ("walks", "de bruijn"): [(k, 2**k) for k in range(9)],
    ("distances", "knight"): [(1, 168), (2, 540), (3, 768), (4, 450), (5, 88), (6, 2)],
    ("odd_nodes", "knight"): [],
    # a ladder down from 6 to 1, and a ring: who must move at its end has lost
    ("game", "ladder"): words("6:won 5:lost 4:won 3:lost 2:won 1:lost 7:drawn 8:drawn 9:won"),
    ("bisimilar", "ladder"): [(9,)],
    ("same_generation", "tree"): [(n, 1 << n.bit_length() - 1) for n in range(2, 16)],
    ("bisimilar", "tree"): [(4,)],
    # T. Cormen and others, Introduction to Algorithms: figures of 22.5, 23.1, 24.3
    ("strong_components", "clrs scc"): words("a:a b:a e:a c:c d:c f:f g:f h:h"),
    ("spanning_tree", "clrs mst"): [(8, 37)],
    ("least_weights", "clrs dijkstra"): words("s:0 t:8 x:9 y:5 z:7"),
    # Lengauer and Tarjan's flowgraph: what R does not reach without …
    ("dominators", "flowgraph"): words("C:F C:G C:J D:L G:J"),
    # LDBC Graphalytics, the examples and reference outputs of its specification
    ("levels", "ldbc directed"): words("1:0 3:1 5:1 4:2 8:2 10:2"),
    ("least_weights", "ldbc directed"): words("1:0 3:50 4:83 5:30 8:40 10:102"),
    ("label_propagation", "ldbc directed"): words("1:1 2:2 3:3 4:4 5:1 6:1 7:2 8:3 9:2 10:1"),
    ("clustering", "ldbc directed"): numbers(
        "0.6666666666666666 0.1666666666666667 0.15 0.05 0.25 0 0 0.8333333333333334 0 0"
    ),
    ("page_rank", "ldbc directed"): numbers(
        "0.1477629166666667 0.04753375 0.1550469444444444 0.1597573611111111 0.14624 "
        "0.04753375 0.04753375 0.1135740277777778 0.04753375 0.08748375"
    ),
    ("components", "ldbc undirected"): each(2, range(2, 11)),
    ("shortest_paths", "ldbc undirected"): words(
        "2:0 3:82 4:69 5:126 6:178 7:231 8:114 9:201 10:241"
    ),
}


def counted(rows: Iterable[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """As a multiset; what 1e-6 tells apart is different."""
    return Counter(
        tuple(round(float(v), 6) if isinstance(v, int | float) else v for v in row) for row in rows
    )


def fill(con: tidewheel.Connection, of: Graph) -> None:
    first = "R" if "R" in of.nodes else "s" if "s" in of.nodes else min(of.nodes)
    con.execute(
        f"CREATE TABLE node (x {of.type}); CREATE TABLE source (x {of.type}); "
        f"CREATE TABLE edge (a {of.type}, b {of.type}, w INTEGER)"
    )
    con.execute(LINK)
    con.executemany("INSERT INTO node VALUES (?)", [(n,) for n in of.nodes])
    con.executemany("INSERT INTO edge VALUES (?, ?, ?)", list(of.edges))
    con.execute("INSERT INTO source VALUES (?)", [first])
    con.execute("CREATE TABLE kept AS FROM edge; CREATE TABLE kept_source AS FROM source")


def tables(con: tidewheel.Connection) -> Tables:
    return Tables(
        [x for (x,) in con.execute("FROM node").fetchall()],
        con.execute("FROM edge").fetchall(),
        [x for (x,) in con.execute("FROM source").fetchall()],
    )


def change(con: tidewheel.Connection, of: Graph, rng: random.Random) -> str:
    """Change the graph a little, now and then much."""
    kind = rng.choice(["out", "out", "in", "in", "in", "both", "turn", "weight", "source", "all"])
    a, b, _ = rng.choice(of.edges)
    new = (rng.choice(of.nodes), rng.choice(of.nodes), rng.randint(1, 9))
    if kind in ("out", "both"):
        con.execute("DELETE FROM edge WHERE a = ? AND b = ?", [a, b])
    if kind in ("in", "both"):
        con.execute("INSERT INTO edge VALUES (?, ?, ?)", new)
    if kind == "turn":
        con.execute("UPDATE edge SET a = b, b = a WHERE a = ?", [a])
    if kind == "weight":
        con.execute("UPDATE edge SET w = w % 5 + 1 WHERE b = ?", [b])
    if kind == "source":
        con.execute("UPDATE source SET x = ?", [new[0]])
    if kind == "all" and rng.random() < 0.3:
        con.execute("DELETE FROM edge")
    return kind


@pytest.mark.parametrize(("name", "of"), KNOWN)
def test_known_answer(name: str, of: str) -> None:
    sql, naive = PROBLEMS[name]
    sql = sql.replace("{type}", graph(of).type)
    known = counted(KNOWN[name, of])
    rng = random.Random(f"{name} {of}")
    with tidewheel.connect(threads=rng.choice([1, 2])) as con:
        fill(con, graph(of))
        assert counted(con.execute(sql).fetchall()) == known
        assert counted(naive(tables(con))) == known
        con.execute("SET fusion = 'off'")
        assert counted(con.execute(sql).fetchall()) == known
        con.execute(f"RESET fusion; CREATE MATERIALIZED VIEW v AS {sql}")
        assert counted(con.execute("FROM v").fetchall()) == known
        done = []
        for together in (False, True):
            if together:
                con.execute("BEGIN")
            for _ in range(2):
                done.append(change(con, graph(of), rng))
                answer = counted(con.execute("FROM v").fetchall())
                assert answer == counted(naive(tables(con))), done
            con.execute("DELETE FROM edge; INSERT INTO edge FROM kept")
            con.execute("DELETE FROM source; INSERT INTO source FROM kept_source")
            if together:
                con.execute("COMMIT")
            assert counted(con.execute("FROM v").fetchall()) == known, done
        assert con.execute("VERIFY VIEW v").fetchall() == []


def test_page_rank_of_wikipedia() -> None:
    """Percent, as in the picture of its article."""
    sql = PROBLEMS["page_rank"][0].replace("{type}", "VARCHAR").replace("LIMIT 3)", "LIMIT 60)")
    known = {"A": 3.3, "B": 38.4, "C": 34.3, "D": 3.9, "E": 8.1, "F": 3.9} | dict.fromkeys(
        "GHIJK", 1.6
    )
    with tidewheel.connect() as con:
        fill(con, graphs.PAGES)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
        assert {x: round(100 * r, 1) for x, r in con.execute(sql).fetchall()} == known
        con.execute("DELETE FROM edge WHERE a = 'C'")
        con.execute("INSERT INTO edge VALUES ('C', 'B', 1)")
        assert {x: round(100 * r, 1) for x, r in con.execute("FROM v").fetchall()} == known
