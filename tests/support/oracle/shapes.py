"""The tables, the view shapes and the random edits that the oracles share."""

# ruff: noqa: E501
from __future__ import annotations

from hypothesis import strategies as st

SCHEMA = """
CREATE TABLE t (id INTEGER, g INTEGER, x INTEGER, d DOUBLE, s VARCHAR);
CREATE TABLE u (k INTEGER, w INTEGER, s VARCHAR);
CREATE TABLE e (src INTEGER, dst INTEGER);
CREATE TABLE p (k INTEGER PRIMARY KEY, v INTEGER);
CREATE MACRO scaled(n, times) AS n * times + 1;
CREATE MACRO twice(n) AS scaled(scaled(n, 2), times := 2), (n, m) AS scaled(n, m) + m;
CREATE MACRO total(n) AS sum(n) FILTER (n > 1) + count(*);
CREATE MACRO greatest_w(key) AS (SELECT max(w) FROM u WHERE u.k = key);
CREATE MACRO in_group(least, most) AS TABLE SELECT id, g, twice(x) AS y FROM t WHERE g BETWEEN least AND most;
"""

SHAPES: dict[str, str] = {
    # linear
    "project": "SELECT id, x * 2 + 1 AS y, upper(s) AS s FROM t",
    "filter": "SELECT * FROM t WHERE x > 2 AND s IS NOT NULL",
    "filter_or_null": "SELECT id FROM t WHERE x > 2 OR s = 'a'",
    "case": "SELECT id, CASE WHEN x > 2 THEN 'big' WHEN x IS NULL THEN 'none' ELSE 'small' END AS k FROM t",
    "unnest": "SELECT id, unnest([x, g, id]) AS v FROM t",
    "unnest_from": "SELECT id, v FROM t, unnest([x, g]) AS q(v) WHERE v > 1",
    "lateral_values": "SELECT id, q.n, q.v FROM t, LATERAL (VALUES (1, t.x), (2, t.g + 1), (3, NULL)) AS q(n, v)",
    "lateral_values_left": "SELECT id, q.* FROM t LEFT JOIN LATERAL (VALUES (t.g), (t.x)) AS q ON q.col0 > 1",
    "lateral_values_one": "SELECT id, q.v, w.n FROM t, LATERAL (VALUES (t.x, 1)) q(v), LATERAL (VALUES (q.v + 1)) w(n) WHERE q.v IN (SELECT k FROM u) OR w.n > 2",
    "columns_replaced": "SELECT COLUMNS(* EXCLUDE (s) REPLACE (x + 1 AS x)), COLUMNS(* EXCLUDE (s, x) RENAME (g AS x)) FROM t",
    "columns_aggregates": "SELECT g, max(COLUMNS(* EXCLUDE (g, s))), count(COLUMNS('^s$')) FROM t GROUP BY g",
    "columns_values": "SELECT COLUMNS(lambda c: c IN ('id', 'x')) * 2 + t.g, COLUMNS('^(id|x)$') FROM t",
    "columns_join": "SELECT coalesce(COLUMNS(['x', 'w']), 0) FROM t JOIN u ON g = k",
    "struct_star": "SELECT id, q.* EXCLUDE (c), unnest(q) FROM (SELECT id, {'a': x, 'b c': s, 'c': g} AS q FROM t)",
    "constant": "SELECT 1 AS one",
    "values_join": "SELECT t.id, q.n FROM t JOIN (VALUES (1, 'one'), (2, 'two')) AS q(g, n) ON t.g = q.g",
    # joins
    "inner": "SELECT t.id, u.w FROM t JOIN u ON t.g = u.k",
    "inner_residual": "SELECT t.id, u.w FROM t JOIN u ON t.g = u.k AND t.x < u.w",
    "inner_expression": "SELECT t.id, u.w FROM t JOIN u ON t.g + 1 = u.k * 2",
    "inner_string": "SELECT t.id, u.k FROM t JOIN u ON t.s = u.s",
    "inner_two_keys": "SELECT t.id, u.w FROM t JOIN u ON t.g = u.k AND t.s = u.s",
    "null_safe": "SELECT t.id, u.k FROM t JOIN u ON t.s IS NOT DISTINCT FROM u.s",
    "left": "SELECT t.id, u.w FROM t LEFT JOIN u ON t.g = u.k",
    "left_residual": "SELECT t.id, u.w FROM t LEFT JOIN u ON t.g = u.k AND u.w > 2",
    "right": "SELECT t.id, u.k, u.w FROM t RIGHT JOIN u ON t.g = u.k",
    "full": "SELECT t.id, t.g, u.k, u.w FROM t FULL JOIN u ON t.g = u.k",
    "semi": "SELECT * FROM u SEMI JOIN t ON t.g = u.k",
    "anti": "SELECT * FROM u ANTI JOIN t ON t.g = u.k",
    "cross": "SELECT t.id, u.k FROM t, u WHERE t.id < 3",
    "inequality": "SELECT t.id, u.k FROM t JOIN u ON t.x < u.w",
    "band": "SELECT t.id, u.k, u.w FROM t JOIN u ON t.x >= u.k AND t.x < u.k + u.w",
    "band_outer": "SELECT t.id, u.k, u.w FROM t FULL JOIN u ON t.x BETWEEN u.k AND u.w",
    "band_anti": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k - 1 < t.x AND t.x <= u.w)",
    "band_semi": "SELECT * FROM u WHERE EXISTS (SELECT 1 FROM t WHERE u.k <= t.d AND t.d <= u.w AND t.s <> u.s)",
    "band_self": "SELECT a.id AS i, b.id AS j FROM t a JOIN t b ON b.d > a.d - 1.5 AND b.d < a.d + 1.5",
    "band_three": "SELECT t.id, u.k, p.v FROM t, u, p WHERE t.x BETWEEN u.k AND u.w AND p.v > t.x",
    "one_ended_outer": "SELECT t.id, u.w FROM t LEFT JOIN u ON t.d + 0.5 >= u.w",
    "band_recursive": "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t.id FROM r JOIN t ON t.x BETWEEN r.n - 1 AND r.n + 1) SELECT * FROM r",
    "self": "SELECT a.id AS i, b.id AS j FROM t a JOIN t b ON a.g = b.g AND a.id < b.id",
    "three": "SELECT t.id, u.w, p.v FROM t JOIN u ON t.g = u.k JOIN p ON p.k = u.w",
    "using": "SELECT k, w, v FROM u JOIN p USING (k)",
    "triangle": "SELECT a.src, b.src AS mid, c.src AS last FROM e a JOIN e b ON a.dst = b.src JOIN e c ON b.dst = c.src AND c.dst = a.src",
    # joins in an order of the planner's choice, conditions moved to what they read
    "four_tables": "SELECT t.id, u.w, p.v, e.dst FROM t, e, p, u WHERE e.src = p.v AND u.k = t.g AND p.k = u.w",
    "chain_filtered": "SELECT a.id, u.w, p.v FROM t a JOIN u ON u.k = a.g JOIN p ON p.k = a.x WHERE a.s = 'a' AND p.v > 1 AND u.w < 5",
    # joins by one equality or another
    "or_join": "SELECT t.id, u.w FROM t JOIN u ON t.g = u.k OR t.x = u.w",
    "or_join_three": "SELECT t.id, u.w, u.s FROM t, u WHERE (t.g = u.k AND u.w > 1) OR t.s = u.s OR (t.x = u.w AND t.d < 3) AND t.id <> u.k",
    "or_join_self": "SELECT a.id AS i, b.id AS j FROM t a JOIN t b ON (a.g = b.g OR a.s = b.s) AND a.id < b.id",
    "or_both_null": "SELECT t.id, u.w FROM t JOIN u ON t.g = u.k OR (t.g IS NULL AND u.k IS NULL)",
    "or_both_null_left": "SELECT t.id, u.w FROM t LEFT JOIN u ON ((u.k IS NULL) AND t.x IS NULL OR (t.x) = u.k) AND u.w > 1",
    "or_both_null_full": "SELECT t.id, u.w FROM t FULL JOIN u ON t.x + 1 = u.k OR (t.x + 1 IS NULL AND u.k IS NULL)",
    "or_both_null_exists": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.x OR (u.k IS NULL AND t.x IS NULL))",
    "or_both_null_not_exists": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE (u.k IS NULL AND t.x IS NULL) OR u.k = t.x)",
    "or_both_null_other": "SELECT t.id, u.w FROM t JOIN u ON t.g = u.k OR (t.x IS NULL AND u.k IS NULL)",
    "or_left": "SELECT t.id, u.w FROM t LEFT JOIN u ON t.g = u.k OR (t.x = u.w AND t.s > 'a')",
    "or_full": "SELECT t.id, u.k FROM t FULL JOIN u ON t.g = u.k OR t.x = u.k",
    "or_exists": "SELECT id, g FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.g OR u.w = t.x)",
    "or_not_exists": "SELECT id, g FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE (u.k = t.g OR u.w = t.x + 1) AND u.s IS NOT NULL)",
    "or_recursive": "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT CASE WHEN e.src = r.n THEN e.dst ELSE e.src END FROM r JOIN e ON e.src = r.n OR e.dst = r.n) FROM r",
    "or_over_two": "SELECT t.id, u.w FROM t, u, p WHERE t.g = u.k AND p.k = u.w AND ((t.x = 1 AND p.v > 2) OR (t.x > 2 AND (p.v = 1 OR p.v IS NULL)))",
    "or_one_sided": "SELECT t.id, u.w FROM t JOIN u ON t.g = u.k WHERE (t.x > 1 AND u.w = 2) OR u.w = 3",
    "island": "SELECT t.id, u.k, p.k AS pk FROM t, u, p WHERE t.g = u.k AND p.v > 2 AND t.id < 4",
    "expressions_three": "SELECT t.id, u.w, p.v FROM t, u, p WHERE t.g + 1 = u.k AND u.w - 1 = p.k AND t.x <> p.v",
    "null_safe_three": "SELECT t.id, u.k, p.v FROM t, u, p WHERE t.s IS NOT DISTINCT FROM u.s AND t.g = p.k",
    "cycle_of_keys": "SELECT t.id, u.w, e.dst FROM t, u, e WHERE t.g = u.k AND e.src = t.g AND e.dst = u.k",
    "semi_below": "SELECT t.id, u.w, p.v FROM t, u, p WHERE t.g = u.k AND p.k = u.w AND u.k IN (SELECT src FROM e GROUP BY src HAVING count(*) > 1)",
    "anti_below": "SELECT t.id, u.w FROM t, u, p WHERE t.g = u.k AND p.k = u.w AND NOT EXISTS (SELECT 1 FROM e WHERE e.src = p.v AND e.dst > p.k)",
    "semi_two_sides": "SELECT t.id, u.w FROM t, u WHERE t.g = u.k AND EXISTS (SELECT 1 FROM e WHERE e.src = t.x AND e.dst <> u.w) AND t.x NOT IN (SELECT v FROM p)",
    "step_of_joins": "WITH RECURSIVE r(n) AS (SELECT e.src FROM e JOIN u ON u.k = e.src UNION SELECT e.dst FROM r JOIN e ON e.src = r.n JOIN u ON u.k = e.dst JOIN p ON p.k = u.w WHERE p.v > 1 AND r.n < 5) SELECT * FROM r",
    "step_of_joins_all": "WITH RECURSIVE r(n, d) AS (SELECT 1, 0 UNION ALL SELECT e.dst, r.d + 1 FROM r, e, u WHERE e.src = r.n AND u.k = e.dst AND r.d < 3 AND u.w > 1) SELECT * FROM r",
    "step_of_union": "WITH RECURSIVE x(k, w) AS (SELECT k, w FROM u UNION ALL SELECT k, v FROM p), r(n, w) AS (SELECT src, w FROM e JOIN x ON x.k = e.src UNION SELECT e.dst, x.w FROM r JOIN e ON e.src = r.n JOIN x ON x.k = e.dst WHERE x.w = r.w) SELECT * FROM r",
    "below_recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT e.dst FROM r JOIN e ON e.src = r.n) SELECT t.id, u.w, p.v FROM t, u, p, r WHERE t.g = u.k AND p.k = u.w AND u.k IN (SELECT src FROM e) AND r.n = p.v",
    "cross_last": "SELECT t.id, q.n FROM t, (SELECT count(*) AS n FROM u) q, p WHERE p.k = t.g",
    # groups that a restricted outer side can meet
    "below_average": "SELECT sum(t.x) AS s FROM t, p WHERE p.k = t.g AND p.v > 2 AND t.x < (SELECT avg(x) FROM t i WHERE i.g = p.k)",
    "two_keys_restricted": "SELECT u.k, u.w FROM u WHERE u.k IN (SELECT k FROM p WHERE v > 1) AND u.w > (SELECT sum(x) FROM t WHERE t.g = u.k AND t.s = u.s)",
    "count_restricted": "SELECT u.k, (SELECT count(*) FROM t WHERE t.g = u.k) AS n FROM u WHERE u.w > 2",
    "group_joined": "SELECT u.k, q.n FROM u JOIN (SELECT g, count(*) AS n FROM t GROUP BY g HAVING count(*) > 1) q ON q.g = u.k WHERE u.w > 1",
    "group_left": "SELECT p.k, q.n, q.m FROM p LEFT JOIN (SELECT g, s, count(*) AS n, max(x) AS m FROM t GROUP BY g, s) q ON q.g = p.k WHERE p.v < 4",
    "group_anti": "SELECT p.k FROM p WHERE p.v > 1 AND NOT EXISTS (SELECT 1 FROM (SELECT g, sum(x) AS m FROM t GROUP BY g) q WHERE q.g = p.k AND q.m > 3)",
    "group_of_expression": "SELECT p.k, q.n FROM p, (SELECT g + 1 AS h, count(*) AS n FROM t GROUP BY g + 1) q WHERE q.h = p.k AND p.v > 1",
    # parts that are the same
    "cte_and_its_max": "WITH r AS (SELECT g, sum(x) AS m FROM t GROUP BY g) SELECT u.k, r.m FROM u JOIN r ON r.g = u.k WHERE r.m = (SELECT max(m) FROM r)",
    "join_twice": "SELECT count(*) AS n FROM (SELECT t.id, u.w FROM t JOIN u ON t.g = u.k) a, (SELECT t.id, u.w FROM t JOIN u ON t.g = u.k) b WHERE a.w = b.w",
    "union_twice": "SELECT g, count(*) AS n FROM t GROUP BY g UNION ALL SELECT g, count(*) AS n FROM t GROUP BY g",
    # subqueries
    "exists": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.g AND u.w > t.x)",
    "not_exists": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.g)",
    "in": "SELECT id FROM t WHERE g IN (SELECT k FROM u)",
    "not_in": "SELECT id FROM t WHERE g NOT IN (SELECT k FROM u WHERE k IS NOT NULL)",
    "not_in_nulls": "SELECT id FROM t WHERE g NOT IN (SELECT k FROM u)",
    "scalar": "SELECT id, (SELECT max(w) FROM u) AS m FROM t",
    "exists_two_out": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.g AND EXISTS (SELECT 1 FROM e WHERE e.src = u.w AND e.dst = t.x))",
    "division": "SELECT DISTINCT g FROM t a WHERE NOT EXISTS (SELECT 1 FROM p WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.g = a.g AND b.x = p.v))",
    "scalar_two_out": "SELECT id, (SELECT sum(w) FROM u WHERE k <= (SELECT max(v) FROM p WHERE p.k = t.g)) AS m FROM t",
    "lateral_two_out": "SELECT t.id, l.w FROM t, LATERAL (SELECT w FROM u WHERE u.k <= t.g AND EXISTS (SELECT 1 FROM p WHERE p.v = t.x AND p.k = u.w)) AS l",
    "scalar_below": "SELECT id, (SELECT max(w) FROM u WHERE u.w < t.x AND u.k <> t.g) AS m FROM t",
    "exists_value_below": "SELECT id, EXISTS (SELECT 1 FROM u WHERE u.w < t.x) AS e FROM t",
    "not_in_value_below": "SELECT id, x NOT IN (SELECT w FROM u WHERE u.k <= t.g) AS e FROM t",
    "limit_below": "SELECT id, (SELECT k FROM u WHERE u.w < t.x ORDER BY w DESC, k LIMIT 1) AS k FROM t",
    "list_below": "SELECT id, (SELECT list(k ORDER BY k) FROM u WHERE u.w <> t.x) AS l FROM t",
    "scalar_correlated": "SELECT id, (SELECT sum(w) FROM u WHERE u.k = t.g) AS m FROM t",
    "count_bug": "SELECT id, (SELECT count(*) FROM u WHERE u.k = t.g) AS n FROM t",
    "above_average": "SELECT id FROM t WHERE x > (SELECT avg(x) FROM t t2 WHERE t2.g = t.g)",
    "before_value": "SELECT id, (SELECT sum(w) FROM u WHERE u.k < t.x) AS m, (SELECT count(*) FROM u WHERE u.w >= t.d) AS n FROM t",
    "before_share": "SELECT sum(x * g) AS s FROM t WHERE (SELECT sum(w) FROM u) * 0.5 > (SELECT sum(w) FROM u WHERE u.k > t.x)",
    "before_filtered": "SELECT p.k, (SELECT count(x) FILTER (WHERE s = 'a') FROM t WHERE p.v + 1 >= t.x AND t.g > 0) AS n FROM p",
    "before_expression": "SELECT t.id, u.w FROM t, u WHERE (SELECT max(v) FROM p WHERE p.k <= t.x + u.k) > 1",
    # subqueries that read the SELECT around where it is not seen
    "exists_of_union": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.g AND u.w > t.x UNION ALL SELECT 1 FROM p WHERE p.k = t.x)",
    "in_union": "SELECT id, g IN (SELECT w FROM u WHERE u.k = t.x UNION SELECT v FROM p WHERE p.k < t.g) AS i FROM t",
    "not_in_union": "SELECT id FROM t WHERE x NOT IN (SELECT w FROM u WHERE u.k = t.g UNION ALL SELECT v FROM p)",
    "scalar_of_union": "SELECT id, (SELECT sum(w) FROM (SELECT w FROM u WHERE u.k = t.g UNION ALL SELECT v + t.x FROM p WHERE p.k = t.g)) AS s FROM t",
    "first_of_union": "SELECT id, (SELECT w FROM u WHERE u.k = t.g UNION SELECT v FROM p WHERE p.k = t.x ORDER BY w DESC NULLS LAST LIMIT 1) AS w FROM t",
    "lateral_except": "SELECT t.id, l.w FROM t, LATERAL (SELECT w FROM u WHERE u.k = t.g EXCEPT SELECT v FROM p WHERE p.k = t.x) AS l",
    "lateral_intersect_all": "SELECT t.id, l.w FROM t LEFT JOIN LATERAL (SELECT w FROM u WHERE u.k = t.g INTERSECT ALL SELECT x FROM t b WHERE b.g = t.g) AS l ON true",
    "union_of_aggregates": "SELECT id, (SELECT list(n ORDER BY n) FROM (SELECT count(*) AS n FROM u WHERE u.k = t.g GROUP BY w UNION ALL SELECT max(v) FROM p WHERE p.v <= t.x GROUP BY k)) AS l FROM t",
    "with_inside": "SELECT id, (WITH q AS (SELECT w FROM u WHERE u.k = t.g) SELECT sum(a.w * b.w) FROM q a, q b) AS s FROM t",
    "with_two_out": "SELECT id FROM t WHERE EXISTS (WITH q AS (SELECT w FROM u WHERE u.k = t.g) SELECT 1 FROM p WHERE p.v > (SELECT max(w) FROM q WHERE q.w <> p.k))",
    "outer_on": "SELECT id, (SELECT count(p.v) FROM u LEFT JOIN p ON p.k = u.w AND p.v > t.x WHERE u.k = t.g) AS n FROM t",
    "outer_on_exists": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u LEFT JOIN p ON p.k = u.w AND p.v = t.x WHERE p.k IS NULL AND u.k <= t.g)",
    "outer_of_correlated": "SELECT id, (SELECT sum(coalesce(q.v, 10)) FROM u LEFT JOIN (SELECT k, v FROM p WHERE v < t.x) q ON q.k = u.w WHERE u.k = t.g) AS s FROM t",
    "derived_aggregate": "SELECT id, (SELECT n + 1 FROM (SELECT count(*) AS n FROM u WHERE u.k = t.g) q) AS m, (SELECT max(n) FROM (SELECT sum(w) AS n FROM u WHERE u.w < t.x GROUP BY k)) AS o FROM t",
    "derived_below_join": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT max(w) AS m FROM u WHERE u.k = t.g) q JOIN p ON p.k = q.m OR q.m IS NULL)",
    "equal_all": "SELECT id, x = ALL (SELECT w FROM u WHERE u.k = t.g) AS a, x <> ANY (SELECT w FROM u WHERE u.k <= t.g) AS b FROM t WHERE g <> ANY (SELECT v FROM p) OR s = ALL (SELECT s FROM u)",
    # macros
    "macro_values": "SELECT id, twice(x) AS a, twice(g, 3) AS b, greatest_w(g) AS w FROM t WHERE scaled(x, g) > 2 OR greatest_w(g + 1) > 3",
    "macro_aggregate": "SELECT g, total(x) AS n, weighted_avg(x, g) AS w FROM t GROUP BY g HAVING total(x) <> 2",
    "macro_table": "SELECT q.id, q.y, p.v FROM in_group(0, 3) q JOIN p ON p.k = q.g WHERE EXISTS (FROM in_group(p.v, 5) WHERE y > 3)",
    # aggregates
    "count_all": "SELECT count(*) AS n, count(x) AS nx, sum(x) AS sx FROM t",
    "group": "SELECT g, count(*) AS n, sum(x) AS sx, avg(x) AS ax FROM t GROUP BY g",
    "group_minmax": "SELECT g, min(x) AS lo, max(x) AS hi, min(s) AS s FROM t GROUP BY g",
    "group_expression": "SELECT x % 3 AS m, count(*) AS n FROM t GROUP BY x % 3",
    "top_wide": "SELECT g, sum(x::DECIMAL(38, 4)) AS m FROM t GROUP BY g ORDER BY m DESC, g LIMIT 2",
    "top_ties": "SELECT id, g, x FROM t ORDER BY g NULLS LAST, x NULLS FIRST, id, d, s LIMIT 3 OFFSET 1",
    "max_wide": "SELECT max(m) AS m, min(m) AS l FROM (SELECT g, sum(x::DECIMAL(38, 4)) AS m FROM t GROUP BY g) q",
    "having": "SELECT g, count(*) AS n FROM t GROUP BY g HAVING count(*) > 1",
    "double": "SELECT g, sum(d) AS sd, avg(d) AS ad FROM t GROUP BY g",
    "variance": "SELECT g, round(var_pop(x), 9) AS v, round(stddev_samp(x), 9) AS sd FROM t GROUP BY g",
    "filtered": "SELECT g, count(*) FILTER (WHERE x > 2) AS n, sum(x) FILTER (WHERE s = 'a') AS sa FROM t GROUP BY g",
    "distinct_aggregate": "SELECT g, count(DISTINCT s) AS n, sum(DISTINCT x) AS sx FROM t GROUP BY g",
    "list_sorted": "SELECT g, list(x ORDER BY x, id) AS xs, string_agg(s, ',' ORDER BY s, id) AS ss FROM t GROUP BY g",
    # lists in the order of a table's rows
    "table_order": "SELECT g, list(x) AS xs, string_agg(s, ', ') AS ss, first(id) AS f, last(s) AS z, any_value(s) AS y, count(*) AS n, sum(d) AS t FROM t GROUP BY g",
    "table_order_whole": "SELECT list(id) AS ids, first(x) FILTER (WHERE x > 1) AS f, count(*) AS n FROM t WHERE g > 1",
    "table_order_sets": "SELECT g, s, list_sort(list(id)) AS ids, string_agg(id, '') AS i, list(g) AS gs FROM t GROUP BY GROUPING SETS ((g, s, id))",
    "table_order_subquery": "WITH few AS (SELECT g + 1 AS h, x * 2 AS y, s FROM t WHERE x > 1), more AS (SELECT * FROM few WHERE s <> 'b') SELECT h % 2 AS e, s, array_agg(y) AS ys FROM more GROUP BY ALL",
    "table_order_correlated": "SELECT k, w, (SELECT string_agg(s, '-') FROM t WHERE t.g = u.k AND x > 0) AS ss FROM u WHERE w > 1",
    "table_order_joined": "SELECT p.k, q.xs[1] AS x, len(q.xs) AS n FROM p JOIN (SELECT g, list(x) AS xs FROM t GROUP BY g HAVING count(*) > 1) q ON q.g = p.k",
    "table_order_of_key": "SELECT v, list(k) AS ks FROM p GROUP BY v",
    "rollup_order": "SELECT g, s, list_sort(list(id)) AS ids FROM t GROUP BY ROLLUP (g, s)",
    "join_order": "SELECT g, list_sort(list(w)) AS ws, list(DISTINCT x ORDER BY x) AS xs, any_value(k) AS k FROM t JOIN u ON t.g = u.k GROUP BY g",
    "union_order": "SELECT g, list_sort(list(x)) AS xs FROM (SELECT g, x FROM t UNION ALL SELECT k, w FROM u) GROUP BY g",
    "median": "SELECT g, median(x) AS m, quantile_disc(x, 0.25) AS q FROM t GROUP BY g",
    "bools": "SELECT g, bool_and(x > 1) AS a, bool_or(x > 3) AS o FROM t GROUP BY g",
    "arg_max": "SELECT g, max(x * 100 + id) AS best FROM t GROUP BY g",
    "arg_min_ignores_nulls": "SELECT g, arg_min(x, d * 1000 + id * 7 + x) AS a, count(*) AS n FROM t GROUP BY g",
    "greatest_two": "SELECT g, max(x, 2) AS hi, min(s, 2) AS lo FROM t GROUP BY g",
    "rollup": "SELECT g, s, count(*) AS n, sum(x) AS sx FROM t GROUP BY ROLLUP (g, s)",
    "grouping_sets": "SELECT g, s, count(*) AS n, GROUPING(g, s) AS gr FROM t GROUP BY GROUPING SETS ((g), (s), ())",
    "agg_over_join": "SELECT u.k, sum(t.x) AS sx, count(*) AS n FROM t JOIN u ON t.g = u.k GROUP BY u.k",
    "agg_of_agg": "SELECT n, count(*) AS groups FROM (SELECT g, count(*) AS n FROM t GROUP BY g) GROUP BY n",
    # distinct, sets
    "distinct": "SELECT DISTINCT g, s FROM t",
    "distinct_on": "SELECT DISTINCT ON (g) g, id, x FROM t ORDER BY g, x DESC NULLS LAST, id, d, s",
    "union": "SELECT g FROM t UNION SELECT k FROM u",
    "union_all": "SELECT g FROM t UNION ALL SELECT k FROM u",
    "except": "SELECT g FROM t EXCEPT SELECT k FROM u",
    "except_all": "SELECT g FROM t EXCEPT ALL SELECT k FROM u",
    "intersect": "SELECT g FROM t INTERSECT SELECT k FROM u",
    "intersect_all": "SELECT g FROM t INTERSECT ALL SELECT k FROM u",
    # order, windows
    "topk": "SELECT id, x FROM t ORDER BY x DESC NULLS LAST, id, g, d, s LIMIT 3",
    "topk_offset": "SELECT id, x FROM t ORDER BY x, id, g, d, s LIMIT 2 OFFSET 1",
    "row_number": "SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY x, id, d, s) AS r FROM t",
    "running": "SELECT id, g, sum(x) OVER (PARTITION BY g ORDER BY id ROWS UNBOUNDED PRECEDING) AS r FROM (SELECT DISTINCT id, g, x FROM t WHERE x IS NOT NULL) q QUALIFY count(*) OVER (PARTITION BY g, id) = 1",
    "rank": "SELECT id, rank() OVER (PARTITION BY g ORDER BY x) AS r, dense_rank() OVER (PARTITION BY g ORDER BY x) AS dr FROM t",
    "window_total": "SELECT id, sum(x) OVER () AS total FROM t",
    "qualify": "SELECT id, g, x FROM t QUALIFY rank() OVER (PARTITION BY g ORDER BY x DESC) = 1",
    "first_two": "SELECT g, id, x FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x DESC, id, d, s) <= 2",
    "running_values": "SELECT k, v, sum(v) OVER w AS s, count(v) OVER w AS n, rank() OVER w AS r, min(v) OVER w AS m FROM p WINDOW w AS (ORDER BY k)",
    "running_peers": "SELECT id, sum(x) OVER w AS s, dense_rank() OVER w AS r, bool_or(x > 3) FILTER (s = 'a') OVER w AS b FROM t WINDOW w AS (PARTITION BY g ORDER BY d DESC NULLS LAST)",
    "moving": "SELECT k, avg(v) OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a, lead(v, 2, -1) OVER (ORDER BY k) AS l, max(v) OVER (ORDER BY k) AS m FROM p",
    "lag": "SELECT k, v, lag(v) OVER (ORDER BY k) AS before FROM p",
    # composite
    "cte_twice": "WITH q AS (SELECT g, sum(x) AS sx FROM t GROUP BY g) SELECT a.g, b.sx FROM q a JOIN q b ON a.sx = b.sx",
    "share": "SELECT g, sum(x) * 1.0 / (SELECT sum(x) FROM t) AS share FROM t GROUP BY g",
    "best_group": "SELECT g FROM (SELECT g, sum(x) AS sx FROM t GROUP BY g) WHERE sx = (SELECT max(sx) FROM (SELECT sum(x) AS sx FROM t GROUP BY g))",
    "pivot_list": "SELECT q.g, a, b_n FROM t PIVOT (sum(x) AS n FOR s IN ('a', 'b') GROUP BY g) AS q(g, a, b_n)",
    "pivot_statement": "PIVOT (SELECT g, x, s FROM t) ON g IN (0, 1, 2) USING count(*), max(s) GROUP BY x",
    "pivoted": "SELECT g, sum(CASE WHEN s = 'a' THEN x END) AS a, sum(CASE WHEN s = 'b' THEN x END) AS b FROM t GROUP BY ALL",
    # recursion
    "reach": "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT e.dst FROM r JOIN e ON r.n = e.src) SELECT * FROM r",
    "closure": "WITH RECURSIVE r(a, b) AS (SELECT src, dst FROM e UNION SELECT r.a, e.dst FROM r JOIN e ON r.b = e.src) SELECT * FROM r",
    "reach_anchor": "WITH RECURSIVE r(n) AS (SELECT k FROM p WHERE v > 2 UNION SELECT e.dst FROM r JOIN e ON r.n = e.src WHERE e.dst <> 3) SELECT n FROM r",
    "levels": "WITH RECURSIVE r(n, l) AS (SELECT 0, 0 UNION ALL SELECT e.dst, r.l + 1 FROM r JOIN e ON r.n = e.src WHERE r.l < 3) SELECT * FROM r",
    "reach_count": "WITH RECURSIVE r(a, b) AS (SELECT src, dst FROM e UNION SELECT r.a, e.dst FROM r JOIN e ON r.b = e.src) SELECT a, count(*) AS n FROM r GROUP BY a",
}
"""View queries by name. Every one has one right answer (no ties broken by chance)."""

_value = st.integers(0, 5)
_maybe = st.one_of(st.just("NULL"), _value.map(str))
_text = st.sampled_from(["'a'", "'b'", "'ab'", "NULL"])
# Sums of these are exact in any order; DuckDB's own sum of others depends on the order of the rows.
_double = st.sampled_from(["0.25", "0.5", "1024", "-1024", "3.5", "NULL"])


def _insert(table: str, *columns: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    row = st.tuples(*columns).map(lambda r: f"({', '.join(r)})")
    return st.lists(row, min_size=1, max_size=4).map(
        lambda rows: f"INSERT INTO {table} VALUES {', '.join(rows)}"
    )


_number = _value.map(str)
EDITS: st.SearchStrategy[str] = st.one_of(
    _insert("t", _number, _maybe, _maybe, _double, _text),
    _insert("t", _number, _maybe, _maybe, _double, _text),
    _insert("u", _maybe, _maybe, _text),
    _insert("e", _number, _number),
    _insert("e", _number, _number),
    st.tuples(_number, _number).map(
        lambda r: (
            f"INSERT INTO p VALUES ({r[0]}, {r[1]}) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
        )
    ),
    _number.map(lambda v: f"DELETE FROM t WHERE id = {v}"),
    _number.map(lambda v: f"DELETE FROM u WHERE k = {v}"),
    st.tuples(_number, _number).map(lambda r: f"DELETE FROM e WHERE src = {r[0]} AND dst = {r[1]}"),
    _number.map(lambda v: f"DELETE FROM e WHERE src = {v}"),
    _number.map(lambda v: f"DELETE FROM p WHERE k = {v}"),
    st.tuples(_maybe, _number).map(lambda r: f"UPDATE t SET x = {r[0]} WHERE id = {r[1]}"),
    st.tuples(_maybe, _number).map(lambda r: f"UPDATE t SET g = {r[0]} WHERE id = {r[1]}"),
    st.tuples(_number, _number).map(lambda r: f"UPDATE u SET w = w + {r[0]} WHERE k = {r[1]}"),
    st.tuples(_number, _number).map(lambda r: f"UPDATE e SET dst = {r[0]} WHERE src = {r[1]}"),
    st.just("DELETE FROM u"),
)
"""One DML statement on the tables of `SCHEMA`."""
