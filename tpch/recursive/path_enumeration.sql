-- Every way down from assembly 10 to a bought part, written out.
WITH RECURSIVE walk (part, depth, path) AS (
    SELECT b_child, 1, '10>' || b_child
    FROM bill_of_materials
    WHERE b_parent = 10
    UNION ALL
    SELECT b_child, depth + 1, path || '>' || b_child
    FROM walk JOIN bill_of_materials ON b_parent = part
)
SELECT path, depth
FROM walk
WHERE part NOT IN (SELECT b_parent FROM bill_of_materials)
ORDER BY path
