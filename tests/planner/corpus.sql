-- Queries that a binder can get wrong. One per line; blank lines and comments are skipped.
-- Where the outermost query has ORDER BY its order is total, and is compared.

-- projection, names, aliases
select * from t
select t.* from t
select a, a from t
select A, "B", T.s from t
select a + 1 as x, x * 2 as y, y - x as z from t
select -a as a from t where a = 1
select -a as a from t order by a, b, s
select lower(s) as s from t group by s
select a as b, b as a from t order by b, a, s
select a b, s from t where b > 2
select x.a, x."b" from t as x
select x.p, x.q from t as x(p, q)
select q from t as x(p, q, r) where p is not null
select main.t.a from t
select memory.main.t.a from memory.main.t
select * exclude (a) from t
select * exclude (a, B) from t
select * replace (a * 10 as a) from t
select * rename (a as aa) from t
select t.* exclude (s), u.* from t join u on t.a = u.k
select columns('a|b') from t
select columns(*) + 1 from (select a, b from t)
select * like 'a%' from t
select 1, 'x', null, true, 1.5, 1e3, date '2024-02-29', interval 3 day
select count(*), 1 from t
from t
from t select a where b > 1
select 1
select * from (select 1 as one, 2 as one)
select one_1 from (select 1 as one, 2 as one)
select "count_star()" from (select count(*) from t)
select "(a + 1)" from (select a + 1 from t)
select a from t where s = 'x' or s is null and not (b < 3)
select a, b from t where (a, b) in ((1, 2), (2, 3))
select a from t where a between 1 and 2 and b not between 3 and 4
select case when a = 1 then 'one' when a is null then 'none' else 'many' end from t
select case a when 1 then 'one' else s end from t
select coalesce(s, 'none'), nullif(a, 1), ifnull(a, 0) from t
select s || '!' || a, s like 'x%', s ilike 'X_', s similar to '[xy]+', s not like 'y%' from t
select a::varchar, try_cast(s as int), cast(b as double) / 3, a // 2, b % 2, -b, a ** 2 from t
select a is distinct from b, a is not distinct from null from t
select a in (1, null), b not in (1, 2) from t
select (select 5), (select a from t where b = 3)
select greatest(a, b), least(a, 1), abs(-a), round(b / 3.0, 2) from t
select extract(year from d), date_trunc('month', d), d + interval 1 month, strftime(d, '%Y') from v
select d - date '2024-01-01', age(ts, timestamp '2024-01-01'), epoch(ts) from v
select substring(s, 1, 1), s[1], position('x' in s), trim(s), length(s) from t
select hash(s) = hash(s), md5('x') from t
select st.x, st.y, (st).x, st['x'] from v
select v.st.x + 1 from v
select l, l[1], l[-1], l[1:2], len(l), list_sum(l) from v
select list_transform(l, lambda x: x + 1), list_filter(l, lambda x: x > 1), list_reduce([1, 2, 3], lambda x, y: x + y) from v
select [x * 2 for x in l if x > 1] from v
select list_transform(l, lambda e: e + id) from v
select m['k'], map_keys(m), cardinality(m) from v
select j->'k', j->>'k', j->'$.k', json_extract_string(j, '$.k') from v
select en, en = 'lo', en::varchar from v
select en from v order by en, id
select max(en), min(en) from v
select en, count(*) from v group by en order by en
select {'a': id, 'b': {'c': l}} as n from v
select row(id, d), struct_pack(x := id), list_value(id, 2), map {'a': id} from v
select un, un.num from v
select hu, hu * 2, uu, bl, iv, tz from v
select id from v where hu > 5 order by id
select t from t
select u.c from u as u(k, c) order by 1

-- joins
select * from t, u
select * from t, u where t.a = u.k
select * from t join u on a = k
select * from t join u on a = k and c > 2
select * from t join u on a = k or c > 7
select * from t join u on a < k
select * from t left join u on a = k
select * from t left join u on a = k and c > 2
select * from t left join u on a = k and t.b > 2
select * from t left join u on a = k where c is null
select * from t right join u on a = k
select * from t full join u on a = k
select * from t full outer join u on a = k and c > 2
select * from t left join u on true
select * from t cross join u
select a from t semi join u on a = k
select a from t anti join u on a = k
select * from t semi join w using (a)
select * from t anti join w using (a)
select * from t join w using (a)
select a, t.a, w.a, z from t join w using (a)
select * from t left join w using (a)
select a, t.a, w.a from t right join w using (a)
select * from t full join w using (a)
select a, t.a, w.a from t full join w using (a)
select * from t join w using (a) join w as w2 using (a)
select * from t full join w using (a) full join w as w2 using (a)
select a + 1 from t full join w using (a) where a > 0
select * from t natural join w
select * from t natural left join w
select * from t natural full join w
select * exclude (a) from t join w using (a)
select w.*, t.* from t join w using (a)
select * from t asof join u on t.a >= u.k
select * from t asof left join u on t.a >= u.k
select * from (select a, b from t) x asof join w using (a)
select * from t positional join u
select * from t, lateral (select t.a + 1 as n) l
select * from t, (select a + 1 as n) l
select * from t, lateral (select max(c) as m from u where k = t.a) l
select * from t left join lateral (select c from u where k = t.a) l on true
select x.a, y.a from t x join t y on x.a = y.b
select x.a, y.a, z.a from t x join t y on x.a = y.a join t z on y.b = z.b
select * from (t join u on a = k) join w using (a)
select * from t join (u join w on k = a) on t.a = k
select t.a, u.c, w.z from t, u, w where t.a = u.k and w.a = t.a and u.c > w.z
select count(*) from t, u, w
select count(*) from t x, t y, t z where x.a = y.a and y.a = z.a
select * from t join u on a = k where exists (select 1 from w where w.a = k)
select * from t left join (select k, sum(c) as total from u group by k) q on q.k = t.a
select * from t join u on (t.a = u.k) = true
select * from t join u on t.a is not distinct from u.k
select * from t left join u on t.a is not distinct from u.k
select t.b from t join u on t.a = u.k + 0 and t.b = u.c
select * from t join values_view v on v.n = t.a

-- from items
select * from (values (1, 'x'), (2, 'y')) as q(n, s)
select n + 1 from (values (1), (null)) q(n)
values (1, 'a'), (2, 'b')
select * from range(5)
select * from range(2, 8, 3) r(n)
select r.range * 2 from range(3) r
select * from generate_series(1, 3) g(n) join t on n = a
select * from unnest([1, 2, 3])
select * from unnest([1, 2, null]) as q(n) where n > 1 or n is null
select id, e from v, unnest(l) as q(e)
select id, q.e + 1 from v, unnest(v.l) as q(e) where q.e > 1
select id, unnest(l) from v
select id, unnest(l) + 1 as e from v order by id, e
select unnest([1, 2, 3]), unnest([10, 20])
select unnest(st) from v
select unnest({'a': 1, 'b': 2})
select generate_subscripts(l, 1), unnest(l) from v
select * from (select unnest(l) as e from v) where e > 1
select sum(e) from (select unnest(l) as e from v)
select * from values_view
select n * 2 from values_view where n > 1
select * from renamed_view order by one
select x.one from renamed_view x join renamed_view y on x.one = y.two
select * from nested_view
select count(*) from nested_view, values_view
select * from t tablesample 100%
select count(*) <= 4 from t using sample 2
select * from (pivot t on s using sum(b))
pivot t on s using sum(b) group by a
select * from t pivot (sum(b) for s in ('x', 'y'))
unpivot (select a, b from t) on a, b
select * from (unpivot (select a, b from t) on a, b into name n value val)
select * from query('select 42 as q')
select * from query_table('t')
select column_name from (describe t)
select * from (show tables) where name = 't'
summarize select a from t where false
describe t

-- grouping
select a, count(*) from t group by a
select a, sum(b), avg(b), min(s), max(s) from t group by a
select count(*), count(a), count(distinct a), sum(b) from t
select count(*) from t where false
select sum(b), max(s), count(a) from t where false
select a, count(*) from t where false group by a
select sum(b) from t having count(*) > 100
select a from t group by a having count(*) > 1
select a, sum(b) as total from t group by a having total > 3
select a % 2 as odd, count(*) from t group by odd
select a % 2 as odd, count(*) from t group by 1
select a % 2, count(*) from t group by a % 2
select a % 2 + 1, count(*) + sum(b) * 2 from t group by a % 2
select (a + 1) * 2, sum(b) from t group by (a + 1)
select a, b, count(*) from t group by all
select a, count(*), sum(b) from t group by all order by all
select s, a, sum(b) from t group by rollup (s, a)
select s, a, sum(b) from t group by cube (s, a)
select s, a, sum(b), grouping(s), grouping(a), grouping_id(s, a) from t group by grouping sets ((s), (a), ())
select s, a, b, count(*) from t group by s, rollup (a, b)
select s, sum(b) from t group by grouping sets ((s), (s))
select sum(b) from t group by ()
select 1 from t group by ()
select a from t group by a, b
select distinct a from t
select distinct a, s from t order by a nulls first, s
select distinct on (a) a, b from t order by a, b desc
select count(distinct s), count(distinct (a, b)) from t
select sum(b) filter (where a = 1), count(*) filter (where s is null) from t
select string_agg(s, ',' order by s), list(b order by b desc), first(b order by b) from t
select array_agg(b order by a desc nulls last, b) from t
select a, list(s order by s) filter (where s is not null) from t group by a
select arg_max(s, b), arg_min(s, b), max_by(b, b) from t
select median(b), quantile_cont(b, 0.25), quantile_disc(b, [0.25, 0.5]), mode(s) from t
select percentile_cont(0.5) within group (order by b) from t
select stddev(b), var_pop(b), corr(a, b), regr_slope(b, a) from t
select bool_and(a > 0), bool_or(a > 1), bit_and(b), bit_or(b), product(b) from t
select approx_count_distinct(a) from t
select histogram(a) from t
select sum(sum(b)) over () from t group by a
select a, sum(b), rank() over (order by sum(b) desc) from t group by a
select a, sum(b) / (select sum(b) from t) from t group by a
select a, (select count(*) from u where k = a) from t group by a
select max(b) - min(b) as spread from t having spread > 0
select count(*) c from t group by a having c = (select max(n) from (select count(*) n from t group by a))
select a, any_value(s) is null from t group by a having any_value(a) is not null
select x, count(*) from (select a as x from t union all select k from u) group by x
select date_trunc('month', d) as mon, count(*) from v group by mon order by mon
select st, count(*) from v group by st
select l, count(*) from v group by l
select en, list(id order by id) from v group by en
select coalesce(sum(b), 0) + coalesce(max(a), 0) from t where a > 100
select list(distinct a order by a) from t
select wavg_b from (select weighted_avg(b, a) as wavg_b from t)
select twice(a), sum(twice(b)) from t group by twice(a)
select total_of(b) from t

-- windows
select a, b, row_number() over (partition by a order by b) from t
select a, b, sum(b) over (partition by a order by b rows between 1 preceding and current row) from t
select b, lag(b) over w, lead(b, 1, 0) over w, first_value(b) over w from t window w as (order by b)
select b, sum(b) over (w rows unbounded preceding) from t window w as (order by b)
select a, b from t qualify row_number() over (partition by a order by b desc) = 1
select a, b, rank() over (order by a) as r from t qualify r <= 2
select a, count(*) from t group by a qualify rank() over (order by count(*) desc, a) = 1
select ntile(2) over (order by b), percent_rank() over (order by b), cume_dist() over (order by b) from t
select b, avg(b) over (order by b range between 1 preceding and 1 following) from t
select b, count(*) over (order by b groups between 1 preceding and 1 following) from t
select b, sum(b) over (order by b rows between unbounded preceding and unbounded following exclude current row) from t
select a, sum(b) filter (where s is not null) over (partition by a) from t
select last_value(s ignore nulls) over (order by b) from t
select b, row_number() over (order by b) + 1 as n from t order by n desc
select a, dense_rank() over (order by (select max(c) from u where k = a)) from t
select distinct count(*) over (partition by a) from t
select b, nth_value(b, 2) over (order by b) from t
select list(b) over (order by b) from t
select row_number() over () > 0 from t

-- subqueries
select a from t where a in (select k from u)
select a from t where a not in (select k from u)
select a from t where a not in (select k from u where k is not null)
select a from t where a not in (select k from u where false)
select a from t where (a, b) in (select k, c::int from u)
select a from t where a in (select k from u where c > b)
select a from t where a not in (select k from u where c > b)
select a in (select k from u), a not in (select k from u) from t
select a in (select k from u where k is not null) or b > 3 from t
select a from t where a in (select k from u) or s = 'y'
select a from t where not (a in (select k from u) and s = 'x')
select a from t where exists (select 1 from u where k = a)
select a from t where not exists (select 1 from u where k = a)
select a from t where exists (select * from u where k = a and c > b)
select a from t where exists (select 1 from u where k < a)
select a from t where exists (select count(*) from u where k = a)
select a from t where not exists (select sum(c) from u where k = a)
select a from t where exists (select k from u where k = a group by k having sum(c) > 2)
select a from t where exists (select distinct c from u where k = a)
select a from t where exists (select 1 from u where k = a limit 1)
select exists (select 1 from u), exists (select 1 from u where false)
select a, exists (select 1 from u where k = a) from t
select a, not exists (select 1 from u where k = a and c > 2) from t
select a from t where exists (select 1 from u where k = a) = (b > 2)
select a, (select max(c) from u where k = a) from t
select a, (select count(*) from u where k = a) from t
select a, (select count(*) + 1 from u where k = a) from t
select a, (select coalesce(sum(c), -1) from u where k = a) from t
select a, (select sum(c) * 2 from u where k = a and c > 1) from t
select a, (select max(c) from u where k < a) from t
select a, (select c from u where k = a and c < 2) from t
select a, (select count(*) from u where k = a having count(*) > 0) from t
select a, (select max(c) from u where k = a and c > (select min(z) from w where w.a = k)) from t
select a from t where b > (select avg(b) from t)
select a from t where b > (select avg(x.b) from t x where x.a = t.a)
select a from t where b = (select max(b) from t)
select a from t where a = any (select k from u)
select a from t where a <> all (select k from u where k is not null)
select a from t where b > all (select k from u where k is not null)
select a from t where b >= any (select c from u)
select (select a from t where b = 2) + (select max(c) from u)
select (select max(c) from u) as m, count(*) from t group by m
select a from t order by (select max(c) from u where k = a), a, b
select sum((select count(*) from u where k = a)) from t
select a from t where (select count(*) from u where k = a) > 0
select * from (select a, (select max(c) from u where k = a) as m from t) where m > 1
select a from t where a in (select k from u union select 2)
select a from t where a in (select a from w where z in (select c from u))
select a from t where exists (select 1 from u where k = a and exists (select 1 from w where w.a = k))
select a from t where exists (select 1 from u where exists (select 1 from w where w.a = t.a))
select array(select a from t order by a, b)
select a, array(select c from u where k = a order by c) from t
select list_contains((select list(k) from u), a) from t
select a from t where a in (values (1), (3))
select (select t.a) from t
select (select a + b) from t
select a, (select list(c order by c) from u where k = a) from t
select a, (select row_number() over (order by c) from u where k = a limit 1) from t
select a, (select c from u where k = a order by c limit 1) from t
select a from t where a in (select k from u order by c limit 1)
select (select count(*) from t x where x.a = t.a) from t group by a
select count(*) from t where (select true)

-- set operations
select a from t union select k from u
select a from t union all select k from u
select a from t except select k from u
select a from t except all select k from u
select a from t intersect select k from u
select a from t intersect all select k from u
select a, s from t union all select k, c from u
select 1 as x union select 2 union all select 2
select a from t union (select k from u except select 1)
(select a from t order by b limit 1) union all (select k from u order by c limit 1)
select a from t union all select k from u order by a nulls first
select a as n from t union all select k from u order by n desc nulls last limit 2
select a from t union all select k from u order by 1 limit 3 offset 1
select a, b from t union by name select b, s from t
select a, b from t union all by name select s, a from t
select null as x union all select 1
select 1 union all select 1.5 union all select '2'
select date '2024-01-01' union all select timestamp '2024-01-02 03:04:05'
select [1] union all select [2.5]
select count(*) from (select a from t union all select a from t)
select a from (select a from t union select k from u) where a > 1
select en from v union all select 'lo'
select 1 where false union all select 2
from t union all from t

-- CTEs
with q as (select a, b from t) select * from q
with q as (select a, b from t) select x.a from q x join q y on x.a = y.b
with q as (select a from t), r as (select a + 1 as n from q) select q.a, r.n from q, r where q.a = r.n
with q(n) as (select a from t) select n from q where n > 1
with q(n, n2) as (select a, b from t) select n2 from q
with t as (select 5 as a) select a from t
with q as (with q as (select 1 as x) select x + 1 as x from q) select x from q
with q as materialized (select random() as r) select count(distinct r) from (select r from q union all select r from q)
with q as not materialized (select a from t) select count(*) from q, q q2
with q as (select a, count(*) c from t group by a) select * from q where c = (select max(c) from q)
with q as (select * from t) select * from q where exists (select 1 from q x where x.a = q.b)
with q as (select a from t) select * from t where a in (from q)
with q as (select 1 as a), r as (select * from q union all select * from q) select sum(a) from r
with q as (select unnest([1, 2]) as n) select * from q, q q2
with q as (select a from t order by a limit 2) select count(*) from q
with unused as (select 1/0), q as (select 1 as x) select * from q
with q as (select a as x from t) select (select max(x) from q), x from q
with q as (select * from (values (1), (2)) v(n)) select * from q pivot (sum(n) for n in (1, 2))
select * from (with q as (select a from t) select * from q) where a > 1
select a from t where a in (with q as (select k from u) select k from q)
with recursive q as (select 1 as x) select x from q
with q as (select a, b from t) select a, sum(b) over (partition by a) from q where b in (select b from q)

-- ordering and limits
select a, b from t order by a desc nulls first, b
select a, b from t order by a nulls last, b desc
select s from t order by s collate nocase, a, b
select a from t order by b desc limit 2
select b from t order by b limit 2 offset 1
select b from t order by b offset 2
select b from t order by b limit 0
select count(*) from (select b from t limit 2)
select b from t order by a * -1, s, b
select b from t order by 1 desc
select a, b from t order by all
select a + b as q from t order by q, a
select b as a from t order by a
select b from t order by t.a, t.b
select a from t order by count(*) over (partition by a), a, b
select a, sum(b) from t group by a order by sum(b) desc, a
select a from t group by a order by max(b) desc, a
select a from t order by length(s), a, b
select b from t order by b limit 50%
select b from t order by b limit (select 2)
select b from t order by b limit 1 + 1
select b from t order by b fetch first 2 rows only
select * from (select b from t order by b desc limit 2) order by b
select distinct b % 2 as q from t order by q
select a, b from t order by (a is null), a, b
select b, random() < 2 from t order by b
select list(b) from (select b from t order by b)
