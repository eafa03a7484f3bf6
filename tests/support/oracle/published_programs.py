"""Recursive programs of textbooks and manuals, with their answers."""

from __future__ import annotations

from typing import Any, NamedTuple


class Program(NamedTuple):
    tables: str
    query: str
    answer: list[tuple[Any, ...]]
    changes: tuple[str, ...] = ()


CONTROL = (
    "('a', 'b', 60), ('a', 'c', 20), ('b', 'c', 40), ('c', 'd', 10), ('b', 'd', 41), ('d', 'e', 50)"
)
STAFF = (
    "(333, 'Yasmina', NULL), (198, 'John', 333), (692, 'Tarek', 333), (29, 'Pedro', 198), "
    "(4610, 'Sarah', 29), (72, 'Pierre', 29), (123, 'Adil', 692)"
)

PROGRAMS = {
    # S. Abiteboul, R. Hull, V. Vianu, Foundations of Databases (1995): a controls b with over half
    # of its shares, its own and those of companies that it controls.
    "company control": Program(
        f"CREATE TABLE owns (x VARCHAR, y VARCHAR, n INTEGER); INSERT INTO owns VALUES {CONTROL}",
        """
        WITH RECURSIVE controls (x, y) AS (
            SELECT x, y FROM owns WHERE n > 50
            UNION
            SELECT x, y FROM (
                SELECT x, x AS z, y, n FROM owns UNION ALL
                SELECT c.x, c.y AS z, o.y, o.n FROM controls c JOIN owns o ON o.x = c.y
            ) GROUP BY x, y HAVING sum(greatest(n, 0)) > 50
        ) FROM controls
        """,
        [("a", "b"), ("a", "c"), ("a", "d")],
        (
            "UPDATE owns SET n = 49 WHERE x = 'b' AND y = 'd'",
            "UPDATE owns SET n = 51 WHERE x = 'd'",
            "DELETE FROM owns WHERE x = 'a'",
            "DELETE FROM owns",
        ),
    ),
    # L. O. Andersen, Program Analysis and Specialization for the C Programming Language (1994):
    # x = &y, x = y, x = *y, *x = y
    "points to": Program(
        """
        CREATE TABLE code (op VARCHAR, x VARCHAR, y VARCHAR);
        INSERT INTO code VALUES ('new', 'p', 'a'), ('new', 'q', 'b'), ('store', 'p', 'q'),
            ('move', 'r', 'p'), ('load', 's', 'r')
        """,
        """
        WITH RECURSIVE pts (v, o) AS (
            SELECT x, y FROM code WHERE op = 'new'
            UNION SELECT c.x, p.o FROM code c JOIN pts p ON p.v = c.y WHERE op = 'move'
            UNION SELECT c.x, q.o FROM code c JOIN pts p ON p.v = c.y JOIN pts q ON q.v = p.o
                WHERE op = 'load'
            UNION SELECT p.o, q.o FROM code c JOIN pts p ON p.v = c.x JOIN pts q ON q.v = c.y
                WHERE op = 'store'
        ) FROM pts
        """,
        [("p", "a"), ("q", "b"), ("r", "a"), ("a", "b"), ("s", "b")],
        (
            "INSERT INTO code VALUES ('store', 'q', 'r'), ('new', 'r', 'q')",
            "DELETE FROM code WHERE op = 'store'",
            "DELETE FROM code WHERE x = 'p'",
            "DELETE FROM code",
        ),
    ),
    # Brackets that match, as reachability in a context-free language (T. Reps, 1998).
    "dyck": Program(
        """
        CREATE TABLE arc (a INTEGER, c VARCHAR, b INTEGER);
        INSERT INTO arc SELECT i, substr('(()())((', i, 1), i + 1 FROM range(1, 9) r(i)
        """,
        """
        WITH RECURSIVE node (x) AS (SELECT a FROM arc UNION SELECT b FROM arc), s (x, y) AS (
            SELECT x, x FROM node
            UNION SELECT p.a, q.b FROM arc p JOIN s ON s.x = p.b JOIN arc q ON q.a = s.y
                WHERE p.c = '(' AND q.c = ')'
            UNION SELECT s.x, t.y FROM s JOIN s t ON t.x = s.y
        ) SELECT x, y FROM s WHERE x <> y
        """,
        [(1, 7), (2, 4), (2, 6), (4, 6)],
        (
            "UPDATE arc SET c = ')' WHERE a = 7",
            "UPDATE arc SET c = ')' WHERE a IN (1, 8)",
            "INSERT INTO arc VALUES (9, ')', 8), (9, ')', 1)",
            "DELETE FROM arc WHERE a % 2 = 0",
            "DELETE FROM arc",
        ),
    ),
    # CLRS 15.2: the order of a product of matrices
    "matrix chain": Program(
        """
        CREATE TABLE m (i INTEGER, p INTEGER, q INTEGER); INSERT INTO m VALUES
            (1, 30, 35), (2, 35, 15), (3, 15, 5), (4, 5, 10), (5, 10, 20), (6, 20, 25)
        """,
        """
        WITH RECURSIVE c (i, j, p, q, n) AS (
            SELECT i, i, p, q, 0 FROM m
            UNION
            SELECT a.i, b.j, a.p, b.q, min(a.n + b.n + a.p * a.q * b.q)
            FROM c a JOIN c b ON b.i = a.j + 1 GROUP BY a.i, b.j, a.p, b.q
        ) SELECT i, j, n FROM c WHERE i = 1
        """,
        [(1, 1, 0), (1, 2, 15750), (1, 3, 7875), (1, 4, 9375), (1, 5, 11875), (1, 6, 15125)],
        (
            "UPDATE m SET q = 16 WHERE i = 2; UPDATE m SET p = 16 WHERE i = 3",
            "DELETE FROM m WHERE i = 4",
            "DELETE FROM m",
        ),
    ),
    # CLRS 15.4: the longest common subsequence
    "common subsequence": Program(
        """
        CREATE TABLE word (w INTEGER, i INTEGER, c VARCHAR);
        INSERT INTO word SELECT 1, i, substr('ABCBDAB', i, 1) FROM range(1, 8) r(i);
        INSERT INTO word SELECT 2, i, substr('BDCABA', i, 1) FROM range(1, 7) r(i)
        """,
        """
        WITH RECURSIVE a AS (FROM word WHERE w = 1), b AS (FROM word WHERE w = 2), l (i, j, n) AS (
            SELECT 0, 0, 0
            UNION
            SELECT i, j, max(n) FROM (
                SELECT a.i, l.j, l.n FROM l JOIN a ON a.i = l.i + 1
                UNION ALL SELECT l.i, b.i, l.n FROM l JOIN b ON b.i = l.j + 1
                UNION ALL SELECT a.i, b.i, l.n + 1 FROM l JOIN a ON a.i = l.i + 1
                    JOIN b ON b.i = l.j + 1 AND a.c = b.c
            ) GROUP BY i, j
        ) SELECT max(n) FROM l
        """,
        [(4,)],
        (
            "UPDATE word SET c = 'A' WHERE i < 3",
            "DELETE FROM word WHERE w = 2 AND i > 4",
            "DELETE FROM word WHERE w = 1",
        ),
    ),
    # V. Levenshtein's distance, the usual example
    "edit distance": Program(
        """
        CREATE TABLE word (w INTEGER, s VARCHAR);
        INSERT INTO word VALUES (1, 'kitten'), (2, 'sitting')
        """,
        """
        WITH MUTUALLY RECURSIVE
            c (w INTEGER, i BIGINT, c VARCHAR) AS (
                SELECT w, i, substr(s, i::INTEGER, 1)
                FROM word, LATERAL (SELECT unnest(range(1, len(s) + 1)) AS i)
            ),
            d (i BIGINT, j BIGINT, n BIGINT) AS (
                SELECT i, j, min(n) FROM (
                    SELECT 0 AS i, 0 AS j, 0 AS n
                    UNION ALL SELECT c.i, j, n + 1 FROM d JOIN c ON w = 1 AND c.i = d.i + 1
                    UNION ALL SELECT d.i, c.i, n + 1 FROM d JOIN c ON w = 2 AND c.i = j + 1
                    UNION ALL SELECT a.i, b.i, n + (a.c <> b.c)::INTEGER FROM d
                        JOIN c a ON a.w = 1 AND a.i = d.i + 1 JOIN c b ON b.w = 2 AND b.i = j + 1
                ) GROUP BY i, j
            )
        SELECT arg_max(n, i + j) FROM d
        """,
        [(3,)],
        (
            "UPDATE word SET s = 'mitten' WHERE w = 1",
            "UPDATE word SET s = '' WHERE w = 2",
            "INSERT INTO word VALUES (1, 'x')",
            "DELETE FROM word",
        ),
    ),
    # The manual of MySQL, 15.2.20, and its order of the tree
    "employees": Program(
        "CREATE TABLE staff (id INTEGER, name VARCHAR, boss INTEGER); "
        f"INSERT INTO staff VALUES {STAFF}",
        """
        WITH RECURSIVE paths (id, name, path) AS (
            SELECT id, name, id::VARCHAR FROM staff WHERE boss IS NULL
            UNION ALL
            SELECT s.id, s.name, p.path || ',' || s.id FROM paths p JOIN staff s ON p.id = s.boss
        ) FROM paths
        """,
        [
            (333, "Yasmina", "333"),
            (198, "John", "333,198"),
            (29, "Pedro", "333,198,29"),
            (4610, "Sarah", "333,198,29,4610"),
            (72, "Pierre", "333,198,29,72"),
            (692, "Tarek", "333,692"),
            (123, "Adil", "333,692,123"),
        ],
        (
            "UPDATE staff SET boss = 692 WHERE id = 29",
            "INSERT INTO staff VALUES (1, 'Ada', NULL), (2, 'Bob', 72)",
            "UPDATE staff SET boss = 1 WHERE boss IS NULL AND id > 1",
            "DELETE FROM staff WHERE id = 333",
            "DELETE FROM staff",
        ),
    ),
    # The manual of PostgreSQL, 7.8.2: how many of each part
    "parts": Program(
        """
        CREATE TABLE parts (part VARCHAR, sub_part VARCHAR, quantity INTEGER);
        INSERT INTO parts VALUES ('product', 'frame', 1), ('product', 'wheel', 4),
            ('wheel', 'bolt', 5), ('frame', 'bolt', 12), ('frame', 'tube', 3), ('spare', 'tube', 2)
        """,
        """
        WITH RECURSIVE included (sub_part, part, quantity) AS (
            SELECT sub_part, part, quantity FROM parts WHERE part = 'product'
            UNION ALL
            SELECT p.sub_part, p.part, p.quantity * pr.quantity
            FROM included pr JOIN parts p ON p.part = pr.sub_part
        ) SELECT sub_part, sum(quantity)::INTEGER FROM included GROUP BY sub_part
        """,
        [("frame", 1), ("wheel", 4), ("bolt", 32), ("tube", 3)],
        (
            "UPDATE parts SET quantity = 6 WHERE sub_part = 'wheel'",
            "INSERT INTO parts VALUES ('tube', 'steel', 7), ('product', 'spare', 1)",
            "DELETE FROM parts WHERE part = 'frame'",
            "DELETE FROM parts",
        ),
    ),
    # The manual of PostgreSQL, 7.8.2.2: cycles
    "search graph": Program(
        "CREATE TABLE g (id INTEGER, link INTEGER); "
        "INSERT INTO g VALUES (1, 2), (2, 3), (3, 1), (3, 4)",
        """
        WITH RECURSIVE s (id, link, depth) AS (
            SELECT id, link, 0 FROM g WHERE id = 1
            UNION ALL
            SELECT g.id, g.link, depth + 1 FROM g, s WHERE g.id = s.link
        ) SEARCH BREADTH FIRST BY id SET place CYCLE id SET again USING path
        SELECT id, link, depth, again FROM s
        """,
        [(1, 2, 0, False), (2, 3, 1, False), (3, 1, 2, False), (3, 4, 2, False), (1, 2, 3, True)],
        (
            "INSERT INTO g VALUES (4, 1)",
            "DELETE FROM g WHERE link = 1",
            "UPDATE g SET id = 2 WHERE id = 1",
            "DELETE FROM g",
        ),
    ),
    # CLRS, Bellman-Ford: weights below zero
    "negative weights": Program(
        """
        CREATE TABLE e (a VARCHAR, b VARCHAR, w INTEGER); INSERT INTO e VALUES
            ('s', 't', 6), ('s', 'y', 7), ('t', 'x', 5), ('t', 'y', 8), ('t', 'z', -4),
            ('x', 't', -2), ('y', 'x', -3), ('y', 'z', 9),
            ('z', 'x', 7), ('z', 's', 2)
        """,
        """
        WITH RECURSIVE d (x, k) AS (
            SELECT 's', 0 UNION SELECT b, min(k + w) FROM d JOIN e ON a = x GROUP BY b
        ) FROM d
        """,
        [("s", 0), ("t", 2), ("x", 4), ("y", 7), ("z", -2)],
        ("DELETE FROM e WHERE b = 'y'", "UPDATE e SET w = 3 WHERE w < -3", "DELETE FROM e"),
    ),
    # CLRS, all pairs: the matrix of Floyd and Warshall
    "all pairs": Program(
        """
        CREATE TABLE e (a INTEGER, b INTEGER, w INTEGER); INSERT INTO e VALUES (1, 2, 3), (1, 3, 8),
            (1, 5, -4), (2, 4, 1), (2, 5, 7), (3, 2, 4), (4, 1, 2), (4, 3, -5), (5, 4, 6)
        """,
        """
        WITH RECURSIVE d (x, y, k) AS (
            SELECT a, b, w FROM e
            UNION
            SELECT p.x, q.y, min(p.k + q.k) FROM d p JOIN d q ON p.y = q.x GROUP BY p.x, q.y
        ) SELECT x, list(k ORDER BY y) FROM d WHERE x <> y GROUP BY x
        """,
        [
            (1, [1, -3, 2, -4]),
            (2, [3, -4, 1, -1]),
            (3, [7, 4, 5, 3]),
            (4, [2, -1, -5, -2]),
            (5, [8, 5, 1, 6]),
        ],
        ("UPDATE e SET w = 2 WHERE w = -4", "DELETE FROM e WHERE a = 4", "DELETE FROM e"),
    ),
    # A. Aho, J. Ullman and others, Compilers (2006): the automaton of (a|b)*abb
    "words of an automaton": Program(
        """
        CREATE TABLE step (a INTEGER, c VARCHAR, b INTEGER); CREATE TABLE word (s VARCHAR);
        INSERT INTO step VALUES (0, 'a', 0), (0, 'b', 0), (0, 'a', 1), (1, 'b', 2), (2, 'b', 3);
        INSERT INTO word VALUES ('abb'), ('aabb'), ('babb'), ('ab'), (''), ('abba')
        """,
        """
        WITH RECURSIVE run (s, i, q) AS (
            SELECT s, 0, 0 FROM word
            UNION
            SELECT s, i + 1, b FROM run JOIN step ON a = q AND c = substr(s, i + 1, 1)
        ) SELECT s FROM run WHERE i = len(s) AND q = 3
        """,
        [("abb",), ("aabb",), ("babb",)],
        (
            "INSERT INTO step VALUES (3, 'a', 3)",
            "INSERT INTO word VALUES ('abb'), (NULL)",
            "DELETE FROM step WHERE a = b",
            "DELETE FROM word",
        ),
    ),
}
