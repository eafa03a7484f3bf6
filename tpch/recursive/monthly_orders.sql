-- Orders and revenue per month of a calendar that recursion makes, months without orders too.
WITH RECURSIVE calendar (month) AS (
    SELECT DATE '1997-07-01'
    UNION ALL
    SELECT CAST(month + INTERVAL '1' MONTH AS DATE)
    FROM calendar
    WHERE month < DATE '1998-12-01'
)
SELECT month, count(o_orderkey) AS orders, coalesce(sum(o_totalprice), 0) AS total
FROM calendar LEFT JOIN orders
  ON o_orderdate >= month AND o_orderdate < month + INTERVAL '1' MONTH
GROUP BY month
ORDER BY month
