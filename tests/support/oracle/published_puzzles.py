"""Puzzles and sequences as recursive programs, with their answers."""

from __future__ import annotations

from oracle.published_programs import Program

SUDOKU = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"

PUZZLES = {
    # SQLite's manual, lang_with.html: a sudoku
    "sudoku": Program(
        f"CREATE TABLE input (sud VARCHAR); INSERT INTO input VALUES ('{SUDOKU}')",
        """
        WITH RECURSIVE digits (z, lp) AS (
            SELECT '1', 1 UNION ALL SELECT CAST(lp + 1 AS VARCHAR), lp + 1 FROM digits WHERE lp < 9
        ), x (s, ind) AS (
            SELECT sud, instr(sud, '.') FROM input
            UNION ALL
            SELECT substr(s, 1, ind - 1) || z || substr(s, ind + 1),
                instr(substr(s, 1, ind - 1) || z || substr(s, ind + 1), '.')
            FROM x, digits AS z WHERE ind > 0 AND NOT EXISTS (
                SELECT 1 FROM digits AS lp
                WHERE z.z = substr(s, ((ind - 1) // 9) * 9 + lp, 1)
                    OR z.z = substr(s, ((ind - 1) % 9) + (lp - 1) * 9 + 1, 1)
                    OR z.z = substr(s, (((ind - 1) // 3) % 3) * 3 + ((ind - 1) // 27) * 27 + lp
                        + ((lp - 1) // 3) * 6, 1)
            )
        ) SELECT s FROM x WHERE ind = 0
        """.replace("+ lp", "+ lp.lp").replace("(lp - 1)", "(lp.lp - 1)"),
        [(SOLVED,)],
        ("DELETE FROM input", f"INSERT INTO input VALUES ('{SOLVED}')"),
    ),
    # SQLite's manual: the set of Mandelbrot
    "mandelbrot": Program(
        "CREATE TABLE most (n INTEGER); INSERT INTO most VALUES (28)",
        """
        WITH RECURSIVE
            xaxis (x) AS (SELECT -2.0::DOUBLE UNION ALL SELECT x + 0.05 FROM xaxis WHERE x < 1.2),
            yaxis (y) AS (SELECT -1.0::DOUBLE UNION ALL SELECT y + 0.1 FROM yaxis WHERE y < 1.0),
            m (iter, cx, cy, x, y) AS (
                SELECT 0, x, y, 0.0::DOUBLE, 0.0::DOUBLE FROM xaxis, yaxis
                UNION ALL
                SELECT iter + 1, cx, cy, x * x - y * y + cx, 2.0 * x * y + cy FROM m
                WHERE x * x + y * y < 4.0 AND iter < (SELECT n FROM most)
            ),
            m2 (iter, cx, cy) AS (SELECT max(iter), cx, cy FROM m GROUP BY cx, cy),
            a (t) AS (
                SELECT string_agg(substr(' .+*#', 1 + least(iter // 7, 4), 1), '' ORDER BY cx)
                FROM m2 GROUP BY cy
            )
        SELECT count(*), max(len(rtrim(t))), count(*) FILTER (t LIKE '%####%') FROM a
        """,
        [(22, 50, 17)],
        ("UPDATE most SET n = 5", "DELETE FROM most"),
    ),
    "queens": Program(
        "CREATE TABLE board (n INTEGER); INSERT INTO board VALUES (6)",
        """
        WITH RECURSIVE q (n, i, taken) AS (
            SELECT n, 0, []::INTEGER[] FROM board
            UNION ALL
            SELECT n, i + 1, list_append(taken, c::INTEGER) FROM q, range(1, 9) r(c)
            WHERE i < n AND c <= n AND NOT list_contains(taken, c)
                AND NOT coalesce(list_bool_or([abs(x - c) = i + 1 - p FOR x, p IN taken]), false)
        ) SELECT n, count(*) FROM q WHERE i = n GROUP BY n
        """,
        [(6, 4)],
        (
            "INSERT INTO board VALUES (4), (5)",
            "UPDATE board SET n = 3 WHERE n = 6",
            "DELETE FROM board",
        ),
    ),
    # OEIS A006577, A025586: 27 takes 111 steps and comes to 9232
    "collatz": Program(
        "CREATE TABLE start (n INTEGER); INSERT INTO start VALUES (27), (1), (97), (871)",
        """
        WITH RECURSIVE c (n, x, k) AS (
            SELECT n, n, 0 FROM start
            UNION ALL
            SELECT n, CASE x % 2 WHEN 0 THEN x // 2 ELSE 3 * x + 1 END, k + 1 FROM c WHERE x > 1
        ) SELECT n, max(k), max(x) FROM c GROUP BY n
        """,
        [(27, 111, 9232), (1, 0, 1), (97, 118, 9232), (871, 178, 190996)],
        (
            "INSERT INTO start VALUES (703), (27)",
            "DELETE FROM start WHERE n < 99",
            "DELETE FROM start",
        ),
    ),
    "fibonacci": Program(
        "CREATE TABLE upto (n INTEGER); INSERT INTO upto VALUES (90)",
        """
        WITH RECURSIVE f (i, a, b) AS (
            SELECT 1, 0::BIGINT, 1::BIGINT
            UNION ALL
            SELECT i + 1, b, a + b FROM f JOIN upto ON i < n
        ) SELECT arg_max(b, i), sum(b % 10)::INTEGER FROM f
        """,
        [(2880067194370816120, 408)],
        ("UPDATE upto SET n = 10", "DELETE FROM upto"),
    ),
    "josephus": Program(
        "CREATE TABLE circle (n INTEGER, k INTEGER); INSERT INTO circle VALUES (41, 3), (7, 2)",
        """
        WITH RECURSIVE j (n, k, i, x) AS (
            SELECT n, k, 1, 0 FROM circle
            UNION ALL
            SELECT n, k, i + 1, (x + k) % (i + 1) FROM j WHERE i < n
        ) SELECT n, k, x + 1 FROM j WHERE i = n
        """,
        [(41, 3, 31), (7, 2, 7)],
        ("INSERT INTO circle VALUES (10, 2)", "UPDATE circle SET k = 5", "DELETE FROM circle"),
    ),
    # J. H. Conway's life: after four generations a glider stands one further, down and right
    "glider": Program(
        """
        CREATE TABLE cell (x INTEGER, y INTEGER);
        INSERT INTO cell VALUES (2, 1), (3, 2), (1, 3), (2, 3), (3, 3)
        """,
        """
        WITH RECURSIVE life (t, x, y) AS (
            SELECT 0, x, y FROM cell
            UNION ALL
            SELECT t + 1, x + i, y + j
            FROM life, (VALUES (-1), (0), (1)) r(i), (VALUES (-1), (0), (1)) s(j) WHERE t < 4
            GROUP BY ALL HAVING count(*) = 3 OR count(*) = 4 AND bool_or(i = 0 AND j = 0)
        ) SELECT x - 1, y - 1 FROM life WHERE t = 4
        """,
        [(2, 1), (3, 2), (1, 3), (2, 3), (3, 3)],
        (
            "DELETE FROM cell WHERE x = 1",
            "INSERT INTO cell VALUES (9, 9), (9, 10), (9, 11)",
            "DELETE FROM cell",
        ),
    ),
    # Jugs of 3 and 5: 4 litres after six pours; the fewest for what each jug can hold
    "jugs": Program(
        "CREATE TABLE jugs (a INTEGER, b INTEGER); INSERT INTO jugs VALUES (3, 5)",
        """
        WITH RECURSIVE s (x, y, k) AS (
            SELECT 0, 0, 0
            UNION
            SELECT t.x, t.y, min(k + 1) FROM s, jugs, LATERAL (VALUES
                (a, y), (x, b), (0, y), (x, 0), (x - least(x, b - y), y + least(x, b - y)),
                (x + least(y, a - x), y - least(y, a - x))
            ) t(x, y) GROUP BY t.x, t.y
        ) SELECT min(k) FROM s WHERE y = 4
        """,
        [(6,)],
        ("UPDATE jugs SET a = 4", "UPDATE jugs SET b = 9", "DELETE FROM jugs"),
    ),
    # Missionaries and cannibals: eleven crossings
    "river": Program(
        "CREATE TABLE boat (m INTEGER, c INTEGER); "
        "INSERT INTO boat VALUES (1, 0), (2, 0), (0, 1), (0, 2), (1, 1)",
        """
        WITH RECURSIVE s (m, c, here, k) AS (
            SELECT 3, 3, true, 0
            UNION
            SELECT m, c, here, min(k) FROM (
                SELECT CASE WHEN here THEN s.m - b.m ELSE s.m + b.m END AS m,
                    CASE WHEN here THEN s.c - b.c ELSE s.c + b.c END AS c,
                    NOT here AS here, k + 1 AS k
                FROM s, boat b
            ) WHERE m BETWEEN 0 AND 3 AND c BETWEEN 0 AND 3 AND (m IN (0, 3) OR m = c)
            GROUP BY m, c, here
        ) SELECT k FROM s WHERE m = 0 AND c = 0
        """,
        [(11,)],
        (
            "DELETE FROM boat WHERE m = 2",
            "DELETE FROM boat WHERE c > 0",
            "INSERT INTO boat VALUES (3, 0), (3, 3)",
        ),
    ),
    "primes": Program(
        "CREATE TABLE upto (n INTEGER); INSERT INTO upto VALUES (100)",
        """
        WITH RECURSIVE c (p, m) AS (
            SELECT i, 2 * i FROM upto, range(2, 11) r(i)
            UNION ALL
            SELECT p, m + p FROM c, upto WHERE m + p <= n
        ) SELECT count(*) FROM upto, range(2, 1000) r(i)
        WHERE i <= n AND i NOT IN (SELECT m FROM c)
        """,
        [(25,)],
        ("UPDATE upto SET n = 30", "DELETE FROM upto"),
    ),
    # The first numbers of E. Catalan: a convolution
    "catalan": Program(
        "CREATE TABLE upto (n INTEGER); INSERT INTO upto VALUES (9)",
        """
        WITH MUTUALLY RECURSIVE c (i INTEGER, n BIGINT) AS (
            SELECT 0, 1 UNION ALL
            SELECT a.i + b.i + 1, sum(a.n * b.n) FROM c a, c b, upto
            WHERE a.i + b.i < upto.n GROUP BY 1
        ) FROM c
        """,
        list(enumerate([1, 1, 2, 5, 14, 42, 132, 429, 1430, 4862])),
        ("UPDATE upto SET n = 3", "DELETE FROM upto"),
    ),
    # Subtraction games: with 1 … 3 to take, whoever faces a multiple of 4 loses
    "nim": Program(
        "CREATE TABLE take (k INTEGER); INSERT INTO take VALUES (1), (2), (3)",
        """
        WITH MUTUALLY RECURSIVE win (n BIGINT) AS (
            SELECT DISTINCT n FROM range(0, 21) r(n) JOIN take ON n >= k
            WHERE n - k NOT IN (FROM win)
        ) SELECT n FROM range(0, 21) r(n) EXCEPT FROM win
        """,
        [(0,), (4,), (8,), (12,), (16,), (20,)],
        ("DELETE FROM take WHERE k = 2", "UPDATE take SET k = 5 WHERE k = 3", "DELETE FROM take"),
    ),
}
