-- Suppliers whose goods come back to them within their region.
WITH RECURSIVE trader (node, region) AS (
    SELECT c_custkey, n_regionkey FROM customer JOIN nation ON n_nationkey = c_nationkey
    UNION ALL
    SELECT -s_suppkey, n_regionkey FROM supplier JOIN nation ON n_nationkey = s_nationkey
),
flow (origin, node) AS (
    SELECT t_source, t_target
    FROM trade JOIN trader AS s ON s.node = t_source JOIN trader AS t ON t.node = t_target
    JOIN region ON r_regionkey = s.region
    WHERE t_source < 0 AND s.region = t.region AND r_name = 'EUROPE' AND t_volume > 35000
    UNION
    SELECT origin, t_target
    FROM flow JOIN trade ON t_source = flow.node JOIN trader ON trader.node = t_target
    JOIN region ON r_regionkey = region
    WHERE r_name = 'EUROPE' AND t_volume > 35000
)
SELECT s_suppkey, s_name
FROM flow JOIN supplier ON s_suppkey = -origin
WHERE origin = node
ORDER BY s_suppkey
