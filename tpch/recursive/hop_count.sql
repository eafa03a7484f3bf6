-- The fewest deliveries between supplier 1 and every other trader, at most six of them.
WITH RECURSIVE hops (node, distance) AS (
    SELECT -1, 0
    UNION
    SELECT t_target, distance + 1
    FROM hops JOIN trade ON t_source = node
    WHERE distance < 6
),
nearest AS (
    SELECT node, min(distance) AS distance
    FROM hops
    GROUP BY node
)
SELECT distance, count(*) AS traders, sum(CASE WHEN node < 0 THEN 1 ELSE 0 END) AS suppliers
FROM nearest
GROUP BY distance
ORDER BY distance
