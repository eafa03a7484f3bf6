-- Whom the goods of supplier 1 can reach, in any number of steps; the trade graph has cycles.
WITH RECURSIVE reached (node) AS (
    SELECT -1
    UNION
    SELECT t_target
    FROM reached JOIN trade ON t_source = node
)
SELECT
    CASE WHEN node < 0 THEN 'supplier' ELSE 'customer' END AS kind,
    count(*) AS nodes,
    min(node) AS lowest,
    max(node) AS highest
FROM reached
GROUP BY kind
ORDER BY kind
