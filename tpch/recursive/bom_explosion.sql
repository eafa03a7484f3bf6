-- How many of each bought part one piece of each of thirty assemblies needs, all levels down.
WITH RECURSIVE explosion (assembly, part, quantity) AS (
    SELECT b_parent, b_child, CAST(b_quantity AS BIGINT)
    FROM bill_of_materials
    WHERE b_parent % 10 = 0 AND b_parent <= 300
    UNION ALL
    SELECT assembly, b_child, quantity * b_quantity
    FROM explosion JOIN bill_of_materials ON b_parent = part
)
SELECT assembly, part, p_name, sum(quantity) AS needed
FROM explosion JOIN part ON p_partkey = part
WHERE part NOT IN (SELECT b_parent FROM bill_of_materials)
GROUP BY assembly, part, p_name
ORDER BY assembly, part
