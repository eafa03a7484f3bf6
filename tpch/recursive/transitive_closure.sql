-- All pairs of traders of one nation that goods can flow between without leaving it.
WITH RECURSIVE trader (node, nation) AS (
    SELECT c_custkey, c_nationkey FROM customer
    UNION ALL
    SELECT -s_suppkey, s_nationkey FROM supplier
),
domestic (source, target) AS (
    SELECT t_source, t_target
    FROM trade
    JOIN trader AS s ON s.node = t_source
    JOIN trader AS t ON t.node = t_target
    JOIN nation ON n_nationkey = s.nation
    WHERE s.nation = t.nation AND n_name = 'FRANCE'
),
closure (source, target) AS (
    SELECT source, target FROM domestic
    UNION
    SELECT closure.source, domestic.target
    FROM closure JOIN domestic ON domestic.source = closure.target
)
SELECT source, target
FROM closure
ORDER BY source, target
