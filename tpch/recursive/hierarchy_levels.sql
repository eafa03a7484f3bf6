-- How deep each part sits below the assemblies that contain it: parts per greatest depth.
WITH RECURSIVE level (part, depth) AS (
    SELECT DISTINCT b_parent, 0
    FROM bill_of_materials
    WHERE b_parent NOT IN (SELECT b_child FROM bill_of_materials)
    UNION
    SELECT b_child, depth + 1
    FROM level JOIN bill_of_materials ON b_parent = part
),
deepest AS (
    SELECT part, max(depth) AS depth
    FROM level
    GROUP BY part
)
SELECT depth, count(*) AS parts, avg(p_retailprice) AS average_price
FROM deepest JOIN part ON p_partkey = part
GROUP BY depth
ORDER BY depth
