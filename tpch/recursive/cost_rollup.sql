-- What the bought parts of an assembly cost at the cheapest suppliers: the ten dearest.
WITH RECURSIVE cheapest (part, cost) AS (
    SELECT ps_partkey, min(ps_supplycost)
    FROM partsupp
    GROUP BY ps_partkey
),
explosion (assembly, part, quantity) AS (
    SELECT p_partkey, p_partkey, CAST(1 AS BIGINT)
    FROM part
    WHERE p_partkey % 10 = 4 AND p_brand = 'Brand#13'
    UNION ALL
    SELECT assembly, b_child, quantity * b_quantity
    FROM explosion JOIN bill_of_materials ON b_parent = part
)
SELECT assembly, sum(quantity * cost) AS cost, count(*) AS ways
FROM explosion JOIN cheapest ON cheapest.part = explosion.part
WHERE explosion.part NOT IN (SELECT b_parent FROM bill_of_materials)
GROUP BY assembly
ORDER BY cost DESC, assembly
LIMIT 10
