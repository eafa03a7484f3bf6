select a from t order by b nulls last, c desc nulls first, d asc, e desc
select first_value(a ignore nulls) over (order by b) from t
select last_value(a respect nulls) over (order by b) from t
select nth_value(a, 2 ignore nulls) over (order by b) from t
select lag(a ignore nulls) over (order by b), lag(a, 1 ignore nulls) over (order by b) from t
select lead(a, 2, 0 ignore nulls) over w from t window w as (order by b)
select first(a ignore nulls) over w, last(a ignore nulls) over w, first(abs(a) ignore nulls) over (order by b), first(a respect nulls) over w, first(a order by c ignore nulls) over w, last(a ignore nulls) filter (where c) over w, lag(a, 1, 0 ignore nulls) filter (where c) over w, fill(a) over (order by b) from t window w as (order by b rows 2 preceding)
select sum(a) filter (where b) over (partition by c order by d rows between 1 preceding and current row exclude ties) from t
select sum(a) over (order by d range between interval 1 day preceding and interval 1 day following) from t
select sum(a) over (order by d groups between unbounded preceding and 1 following exclude group) from t
select sum(a) over (w rows 1 preceding) from t window w as (partition by b order by c)
select -a ** 2, (-a) ** 2, 2 ** 3 ** 2, 2 ^ 3, a ^ b * c from t
select a / b * c, a // b, a % b, a - (b - c), (a - b) - c, -(-a), a - -b from t
select a & b | c, a << 1 + 2, ~a & b, a | b << c, xor(a, b) from t
select not a = b, not (a and b), not a and b, a or b and c, (a or b) and c from t
select a || b + c, a + b || c, a || b || c from t
select a = b is null, (a = b) is null, a is null = b, a is not distinct from b, a is true, a is not true, a is unknown from t
select a between b and c and d, not a between 1 and 2, a between 1 and 2 or b from t
select a in (1, 2), a not in (select b from u), (a, b) in ((1, 2)), a in [1, null], a in b from t
select a like 'x%', a not like 'x', a like 'a!%' escape '!', a ilike 'B', a not ilike 'c', a similar to 'd', a not similar to 'e', a glob 'f*' from t
select a ~ 'x', a !~ 'y', a ~~ 'z', a !~~ 'z', a ~~* 'w', a !~~* 'w', a ~~~ 'v' from t
select a ^@ 'p', a @> b, a <@ b, a && b, a <-> b from t
select f(j -> 'a'), unnest(j -> '$.a[*]'), f(1, j -> 0, j -> 'a' -> 'b', j -> 'a' ->> 'b') from t
select list_transform(l, lambda x: 'a'), list_filter(l, lambda x: x > j) from t
select j -> 'a' ->> 0, j -> 'a' -> 'b' ->> 'c' ->> 1, f((j -> 'a') ->> 'b') from t
select j -> 'a', j ->> 'b', j -> 'a.b', j -> '$.a.b', j -> 0, j ->> '$[0]', j -> 'a' -> 'b', (j -> 'a') ->> 'b' from t
select (j -> 'a') = '1', j ->> 'a' = 'x', (j ->> 'a') = 'x', json_extract(j, '$.a') = 1, json_extract_string(j, 'a') || 'x', (j ->> 'a')::int + 1 from t
select json_extract(j, ['a', 'b']), json_extract_path(j, 'a'), json_extract_path_text(j, 'a'), j.a, json_value(j, '$.x'), json_exists(j, '$.y') from t
select a[1], a[-1], a[1:2], a[:2], a[2:], a[:], a[1:6:2], a[-2:], a[:-1], a[1:-:2], a[b + 1] from t
select [1, 2][1], [[1], [2, 3]][2][1], {'a': 1}.a, {'a': {'b': 2}}.a.b, {'a': 1}['a'], (a).b, (a).b.c, a.b.c from t
select map {'k': 1}['k'], map([1], [2]), map {}, map_extract(m, 'k')[1], m['k'] from t
select {'a b': 1, c: 2, 'd': [1]}, struct_pack(x := 1, y := a), row(1, 2), (1, 2), row(a) from t
select struct_pack(a, b), struct_insert(s, z := 1), s.* exclude (a), unnest(s) from t
select [x + 1 for x in l if x > 2], [y for y in [1, 2]], [(a, b) for a, b in l] from t
select list_transform(l, lambda x: x + 1), list_filter(l, lambda x, i: i > 1), list_reduce(l, lambda a, b: a + b, 0) from t
select date '2024-01-01', timestamp '2024-01-01 10:00', time '10:00', interval '1 day', interval 1 day, interval '1' month, interval (a) day, interval '1 year 2 days' from t
select date '2024-01-01'::timestamp, timestamp '2024-01-01'::date::text, date '2024-01-01' + 1, (date '2024-01-01').year, decimal(5,2) '1.5', int '7'::text
select a::int, a::int[], a::int[3], a::decimal(10, 2), a::struct(x int, y text[]), a::map(text, int), a::union(n int, s text), a::varchar(10), a::enum('x', 'y') from t
select cast(a as timestamptz), try_cast(a as int), a::timestamp with time zone, a::time with time zone, a::double precision, a::bit, a::uuid, a::json, a::hugeint, a::uhugeint from t
select a::"weird type", a::main.mytype from t
select extract(year from a), extract('month' from a), date_part('dow', a), date_trunc('week', a), year(a), a at time zone 'UTC', a at time zone 'UTC' at time zone 'Asia/Tokyo' from t
select date_diff('day', a, b), datediff('month', a, b), date_add(a, interval 1 day), date_sub('hour', a, b), age(a), age(a, b), a + interval 1 month, a - interval '2 days' from t
select strftime(a, '%Y'), strftime('%Y', a), strptime(a, '%d'), epoch(a), epoch_ms(a), to_timestamp(a), make_date(1, 2, 3), current_date, current_timestamp, now(), today(), localtimestamp, get_current_time() from t
select position('a' in b), strpos(b, 'a'), instr(b, 'a'), substring(a from 2 for 3), substring(a, 2), overlay(a placing 'x' from 2 for 1), trim(both 'x' from a), trim(leading from a), ltrim(a, 'x') from t
select trim(a, 'xy'), rtrim(a), lpad(a, 3, ' '), left(a, 2), right(a, -2), a[1], split_part(a, ',', 1), string_split(a, ','), regexp_split_to_array(a, 'b'), a.upper().lower() from t
select regexp_matches(a, 'x'), regexp_matches(a, 'x', 'i'), regexp_replace(a, 'b', 'c', 'g'), regexp_extract(a, '(.)', 1), regexp_extract_all(a, 'x'), regexp_full_match(a, 'y') from t
select count(*), count(), count(distinct a), count(distinct (a, b)), sum(distinct a), count(*) filter (where a), string_agg(a, ',' order by b desc), list(a order by b), list(distinct a order by a desc nulls first) from t
select string_agg(a), group_concat(a, ';'), listagg(a, ',' order by b), array_agg(a order by b) filter (where c), median(a), mode(a), quantile_cont(a, 0.5), quantile_cont(a, [0.1, 0.9]), percentile_cont(0.5) within group (order by a desc) from t
select arg_min(a, b), arg_max(a, b, 2), min_by(a, b), max(a, 3), approx_quantile(a, 0.5), histogram(a), corr(a, b), regr_slope(a, b), bool_and(a), bool_or(b), bit_and(a), any_value(a), first(a), last(a), arbitrary(a) from t
select sum(any_value(a)) over (order by b), first_value(coalesce(any_value(a), 0) ignore nulls) over (), lag(any_value(b) ignore nulls) over (order by b), any_value(a) over (), any_value(max(a)) over () from t group by b
select stddev(a), stddev_pop(a), stddev_samp(a), variance(a), var_pop(a), var_samp(a), skewness(a), kurtosis(a), entropy(a), product(a), sum_no_overflow(a), fsum(a), kahan_sum(a) from t
select log(a), log(2, a), log2(a), log10(a), ln(a), pow(a, b), power(a, b), exp(a), sqrt(a), cbrt(a), ceil(a), ceiling(a), floor(a), round(a), round(a, 2), round_even(a, 1), trunc(a), sign(a), mod(a, b), pi(), random(), greatest(a, b), least(a, b) from t
select coalesce(a, b), ifnull(a, b), nullif(a, b), if(a, b, c), case when a then b end, case a when 1 then 2 else 3 end, iff(a, b, c) from t
select len(a), length(a), char_length(a), strlen(a), array_length(a), array_length(a, 1), cardinality(m), list_contains(a, 1), array_contains(a, 1), list_has_any(a, b), array_has_all(a, b), list_position(a, 1), array_indexof(a, 2) from t
select list_append(a, 1), array_append(a, 1), list_prepend(1, a), array_prepend(1, a), list_concat(a, b), array_cat(a, b), list_sort(a), list_sort(a, 'DESC', 'NULLS FIRST'), array_sort(a), list_reverse_sort(a), list_distinct(a), list_unique(a), flatten(a), list_sum(a), list_aggregate(a, 'sum') from t
select list_sort(a, 'DESC'), array_sort([1, 2], 'asc', 'nulls first'), list_reverse_sort(f(a, b), 'NULLS LAST'), a.list_sort('DESC') from t
select range(3), range(1, 5), range(1, 10, 2), generate_series(3), generate_series(1, 3), unnest(generate_series(1, 3)), generate_subscripts(a, 1), unnest(a, recursive := true), unnest(a, max_depth := 2) from t
select to_hex(a), hex(a), unhex(a), to_base64(a), base64(a), from_base64(a), encode(a), decode(a), md5(a), sha1(a), sha256(a), hash(a), chr(a), ascii(a), unicode(a), ord(a), bin(a), to_base(a, 16) from t
select format('{}', a), printf('%d', a), concat(a, b), concat_ws(',', a, b), repeat(a, 2), replace(a, 'b', 'c'), reverse(a), starts_with(a, 'b'), ends_with(a, 'c'), contains(a, 'd'), prefix(a, 'e'), suffix(a, 'f'), levenshtein(a, b), editdist3(a, b) from t
select uuid(), gen_random_uuid(), uuidv7(), nextval('s'), currval('s'), getvariable('x'), current_setting('threads'), typeof(a), pg_typeof(a), alias(a), error('x'), current_schema(), version() from t
select 'it''s', e'a\nb', $$x'y$$, 'a' || chr(10), '', 'ünï' from t
select 1, 1.0, 1., .5, 1e3, 1.5e-3, 1_000, -1, 123456789012345678901234567890, 1.10, 0.1 + 0.2
select "a b", "select", "A"."b""c", t."x y" from t as "T"
select a as "b c", a b, a as c, d: a + 1 from t
select * exclude (a) replace (b + 1 as b) rename (c as d) from t
select t.* exclude (a), columns('x.*'), columns(*)::text, min(columns(*)), coalesce(*columns(*)), * like 'p%' from t
select distinct on (a, b) a, c from t order by a, b, c desc
select a, sum(b) from t group by all having sum(b) > 1 order by all
select a, sum(b) from t group by rollup (a, b), cube (c), grouping sets ((a), ()) having grouping(a) = 0
select a from t group by a qualify row_number() over (order by a) = 1
select a from t limit 10 offset 5
select a from t limit 10%
select a from t using sample 10%
select a from t using sample reservoir(50 rows) repeatable (3)
select a from t tablesample bernoulli(10%)
select a from t order by a limit (select 3) offset 1 + 1
from t
from t select a where b
from t where a > 1 order by b
from (from t select a) select a + 1
table t
values (1, 2), (3, 4)
select * from (values (1, 2)) v(a, b)
select * from (values (1), (2) union all select a from t) v(a)
select * from (values (1), ((select max(a) from (values (3) except select b from t) q(a))) order by 1 limit 1) v
select a in (values (1) union select 2) from t where a > any (values (1), (2)) and exists (values (a) except select b)
select * from t, u, v where t.a = u.a
select * from t join u using (a) left join v on t.b = v.b right join w using (c) full join x on true
select * from t natural join u natural left join v
select * from t cross join u, v
select * from t positional join u
select * from t asof join u on t.a = u.a and t.b >= u.b
select * from t asof left join u using (a, b)
select * from t semi join u using (a)
select * from t anti join u on t.a = u.a
select * from t, lateral (select * from u where u.a = t.a) x
select * from t left join lateral (select t.a + 1 as b) x on true
select * from t, unnest(t.l) as x(v), range(3) r(i)
select * from t, unnest(t.l) as x(v) left join u on u.a = x.v
select * from t join u using (a), unnest(t.l) as x(v) join v on v.a = x.v, u as w
select * from unnest([1, 2]) with ordinality as t(a, n)
select * from (t join u using (a)) join v using (b)
select * from t join (u join v using (b)) using (a)
select * from read_csv('x.csv', header = true, delim = ';', columns = {'a': 'INT'})
select * from read_parquet(['a.parquet', 'b.parquet'], union_by_name = true)
select * from 'file.parquet' f where f.a = 1
select * from generate_series(1, 10, 2) g(i)
select * from db.sch.t at (version => 3)
select a from t union select b from u union all select c from v intersect select d from w except select e from x
(select a from t order by a limit 1) union all (select b from u order by b limit 1) order by 1
select a from t union by name select b from u
select a from t union all by name select b from u order by a
select a from t except all select b from u
with a as (select 1), b(x) as materialized (select 2), c as not materialized (select 3) select * from a, b, c
with recursive r(i) as (select 1 union all select i + 1 from r where i < 3) select * from r
with recursive r(i, j) using key (i) as (select 1, 2 union select i, j + 1 from r where j < 5) select * from r
with recursive r as (select 1 as i union select i + 1 from r, recurring.r x where i < 3) select * from r
select (select max(a) from u where u.b = t.b), exists (select 1 from u), a > all (select b from u), a = any (select b from u), array(select a from u) from t
select a = any ([1, 2]), a <> all (select 1), a >= any (l) from t
unpivot t on a, b into name n value v
unpivot t on columns(* exclude (c)) into name n value v
select * from t pivot (sum(a) for b in ('x', 'y') group by c)
select * from t unpivot (v for n in (a, b))
pivot (select u.a, u.b, t.c from t as u, t) on a in (1, 2) using sum(b) group by c
with w as (select u.a, t.b from t as u, t) pivot w on a in (1) using max(b)
select * from t unpivot include nulls (v for n in (a as 'x', b))
describe select 1
summarize t
select a, b from t where a = $1 and b = $2
select #1, #2 from t order by #1
select a collate nocase, a collate de from t order by a collate nocase.noaccent
select max(a) over (partition by b, c order by d desc nulls last rows between unbounded preceding and unbounded following) m from t
select row_number() over (), rank() over (order by a desc), ntile(4) over (order by b), cume_dist() over w, percent_rank() over w from t window w as (order by c)
select a.b.c(1), main.f(2), system.main.abs(-1) from t
select f(x => 1, y := 2), f(1, k := 'v') from t
select case when a then 1 when b then 2 else case when c then 3 end end from t
select a isnull, a notnull, a is not null and b is null from t
select try(a / b), try_cast(a as date) from t
select sum(a order by b), first(a order by b desc nulls last), array_agg(distinct a order by a) from t
select variant_col.x, a::variant from t
select extract(epoch from a - b), (a - b)::interval, interval 1 hour * 2 from t
select extract(dow from a), extract(isodow from a), extract(doy from a), extract(weekofyear from a), extract(milliseconds from a) from t
select (select a, b from t limit 1)
select a from t where a in (select b from u where u.c = t.c group by b having count(*) > 1)
select unnest([1, 2]) as x, unnest(['a']) as y
select list_value(1, 2), list_pack(1), array_value(1, 2), [] , [null]
select not exists (select 1), not (select true), - (select 1)
select a, count(*) as n from t group by 1 having n > 2 order by 2 desc, 1
select t from t
select s.a.b, s['a']['b'], (s.a).b from t
select current_user, session_user, user, current_catalog, current_role from t
select date '2024-01-31' - interval '1' month, '2024-01-01'::date - 1, time '10:00' + interval '5' minute
select array[a, b], array[], array[array[a], [b]], array[a, b][1], a in (array[1], [2]), a = any(array[1, b]), array[a] || [b] || array[array[1], array[2]][1] from t group by array[a], [b]
select (array[1])[1], a::int[] || array[1], case when a then array[1] else array['x'] end, f(array[1], x := array[2]), a between array[1] and array[2] from t
select map.xor, sum(lock) over (partition by map order by xor desc) from t map join u as grant on map.a = grant.force
select map[1], map.x, map {'a': map}, map([a], [b])[1], a::map(integer, integer), xor(a, b), a in (map, drop) from t group by rollback
select between, insert, values, cube, rollup, if, if(if, between, 1), [x for x in l if x > 1] from between join values on between.if = values.between where between between 1 and 2 and if group by cube, rollup
select insert.a, x between 0 and cube, x not between 1 and 2 from insert, values as insert group by rollup(cube), cube(rollup, a)
select apply(l, lambda x: x + a), reduce(l, lambda x, y: x + y), reduce(l, lambda x, y: x + y, 0), apply.a from t as apply
select range < 5, list < struct, t.row < object, row(a, b) < row(1, 2), case when row(a) < row(b) then range end, array(select 1) < [2], map([a], [b]) < map {1: 2}, x::map(integer, integer) from t where row<row or b>row and range<range
select - + 5, - ( + 5 ), - - + 5, -(+ +6), 3 - + 2, - + 2.5, - + 1e3, - + a, -(- + a), + - 5 from t where a > - + 1
select map {}::map(varchar, integer), coalesce(m, map {}), cast(map {} as map(integer, date)) from t
