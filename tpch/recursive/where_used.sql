-- In which assemblies the parts that a supplier delivers are used, directly or deep inside.
WITH RECURSIVE used (part, assembly) AS (
    SELECT ps_partkey, b_parent
    FROM partsupp JOIN bill_of_materials ON b_child = ps_partkey
    WHERE ps_suppkey = 7
    UNION
    SELECT part, b_parent
    FROM used JOIN bill_of_materials ON b_child = assembly
)
SELECT part, count(*) AS assemblies, min(assembly) AS first_assembly
FROM used
GROUP BY part
ORDER BY assemblies DESC, part
