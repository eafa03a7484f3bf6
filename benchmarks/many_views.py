# ruff: noqa: E501
"""Many views as people write them, each made, changed and verified: is one of them out of line?

Per view, milliseconds of processor time: its query once, the first fill, the first change and the
median of the next ones, in and out. The tables are of a size at which meeting all pairs, or reading
all rows for a change, is seen at once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import tidewheel

TABLES = """
create table cust(id bigint, name varchar, country varchar, signup date, tier int);
insert into cust select i, 'c'||i, 'k'||(i%50), date '2024-01-01'+(i%700)::int, i%4 from range(10000) t(i);
create table ord(id bigint, cust_id bigint, ts timestamp, amount decimal(10,2), status varchar, disc double);
insert into ord select i, (i*7919)%10000, timestamp '2024-01-01'+ to_minutes((i*37)%1000000), ((i*13)%10000)/100, case when i%10=0 then 'returned' when i%3=0 then 'open' else 'done' end, (i%7)*0.1 from range(100000) t(i);
create table item(ord_id bigint, sku int, qty int, price decimal(8,2));
insert into item select i//2, (i*31)%2000, i%5+1, ((i*17)%5000)/100 from range(200000) t(i);
create table sku(id int, cat varchar, cost decimal(8,2)); insert into sku select i,'cat'||(i%40), i%100 from range(2000) t(i);
create table ev(uid int, ts timestamp, kind varchar, val int); insert into ev select (i*101)%5000, timestamp '2025-01-01'+to_seconds((i*997)%5000000), (['view','cart','buy','leave'])[i%4+1], i%17 from range(100000) t(i);
create table price(sku int, valid_from date, valid_to date, p decimal(8,2)); insert into price select i%2000, date '2024-01-01'+(i//2000*30)::int, date '2024-01-30'+(i//2000*30)::int, i%90 from range(20000) t(i);
create table emp(id int, mgr int, name varchar, dept varchar, sal decimal(10,2)); insert into emp select i, case when i > 0 then (i-1)//5 end, 'e'||i, 'd'||(i%20), 1000+i%500 from range(20000) t(i);
create table member(child varchar, parent varchar); insert into member select 'u'||i, 'g'||(i%2000) from range(20000) t(i); insert into member select 'g'||i, 'g'||(i//6) from range(1,2000) t(i);
create table grant_(grp varchar, res varchar, allow boolean); insert into grant_ select 'g'||(i%2000), 'r'||(i%100), i%11<>0 from range(3000) t(i);
create table part(asm int, comp int, qty int); insert into part select i//4, i, i%3+1 from range(1,15000) t(i);
create table cost(comp int, c decimal(10,2)); insert into cost select i, i%100 from range(4000,15000) t(i);
create table cat(id int, parent int, name varchar); insert into cat select i, case when i > 0 then (i-1)//3 end, 'n'||i from range(5000) t(i);
create table prod(id int, cat int, price double); insert into prod select i, i%5000, i%97 from range(30000) t(i);
create table flight(src varchar, dst varchar, price double, carrier varchar); insert into flight select 'a'||((i*31)%600), 'a'||((i*77+i//7)%600), 10+i%300, 'c'||(i%5) from range(4000) t(i);
create table follows(a bigint,b bigint); insert into follows select (i*7919)%8000, (i*104729+i//3)%8000 from range(24000) t(i);
create table dep(pkg varchar, needs varchar); insert into dep select 'p'||i, 'p'||((i*17+j)%greatest(i,1)) from range(3000) t(i), range(3) u(j) where i>0;
create table dir(path varchar, parent varchar, size bigint); insert into dir select 'f'||i, case when i=0 then null else 'f'||((i-1)//8) end, i%1000 from range(20000) t(i);
create table e as select (i*7919)%20000 as a, (i*104729+i//3)%20000 as b, (i%19+1)::bigint as w from range(60000) t(i);
create table s as select 'n'||a as a, 'n'||b as b from e; create table ei as select a::int as a, b::int as b, w::int as w from e;
create table reading as select (i%100)::int as sensor, i//100 as tick, (i*7919)%1000 as v from range(200000) r(i);
create table t as select i as id, i//3 as parent, 'x'||i as name from range(1, 20000) t(i);
"""
CHANGES = {
    "ORDER": "insert into ord values ({k},{c},'2025-06-01 10:00:00',12.5,'done',0.2)|delete from ord where id={k}",
    "EVENT": "insert into ev values ({u},'2025-02-01 10:00:00','buy',3)|delete from ev where uid={u} and ts='2025-02-01 10:00:00'",
    "CUSTOMER": "insert into cust values ({k},'zz','k3','2025-01-01',2)|delete from cust where id={k}",
    "ITEM": "insert into item values ({c},5,2,3.5)|delete from item where ord_id={c} and sku=5 and price=3.5",
    "EMPLOYEE": "insert into emp values ({k},{m},'x','d1',10)|delete from emp where id={k}",
    "MEMBER": "insert into member values ('u{k}','g{g}')|delete from member where child='u{k}'",
    "PART": "insert into part values ({p},{k},2)|delete from part where comp={k}",
    "CATEGORY": "insert into cat values ({k},{c},'z')|delete from cat where id={k}",
    "PRODUCT": "insert into prod values ({k},{c},5)|delete from prod where id={k}",
    "FLIGHT": "insert into flight values ('a{x}','a{y}',50,'c1')|delete from flight where src='a{x}' and dst='a{y}' and price=50",
    "FOLLOWS": "insert into follows values ({x},{y})|delete from follows where a={x} and b={y}",
    "NEEDS": "insert into dep values ('p{x}','p{w}')|delete from dep where pkg='p{x}' and needs='p{w}'",
    "FOLDER": "insert into dir values ('q{k}','f{m}',7)|delete from dir where path='q{k}'",
    "EDGE": "insert into e values ({x},{y},{w})|delete from e where a={x} and b={y}",
    "EDGE_INT": "insert into ei values ({x},{y},{w})|delete from ei where a={x} and b={y}",
    "TEXT": "insert into s values ('n{x}','n{y}')|delete from s where a='n{x}' and b='n{y}'",
    "READINGS": "insert into reading select i, 1000, {k} from range(100) r(i)|delete from reading where v={k}",
    "NODE": "insert into t values ({k},{c},'y')|delete from t where id={k}",
}
VIEWS = [
    (
        "daily revenue",
        "ORDER",
        "SELECT ts::date d, sum(amount) s, count(*) n, avg(amount) a FROM ord GROUP BY d",
    ),
    (
        "revenue by country month",
        "ORDER",
        "SELECT country, date_trunc('month',ts) m, sum(amount*(1-disc)) r FROM ord JOIN cust c ON c.id=cust_id GROUP BY ALL",
    ),
    (
        "top customers",
        "ORDER",
        "SELECT cust_id, sum(amount) s FROM ord GROUP BY cust_id ORDER BY s DESC LIMIT 20",
    ),
    (
        "top 3 per country",
        "ORDER",
        "SELECT * FROM (SELECT country, cust_id, sum(amount) s, row_number() OVER (PARTITION BY country ORDER BY sum(amount) DESC, cust_id) rn FROM ord JOIN cust c ON c.id=cust_id GROUP BY country,cust_id) WHERE rn<=3",
    ),
    (
        "never ordered",
        "ORDER",
        "SELECT id FROM cust WHERE NOT EXISTS (SELECT 1 FROM ord WHERE cust_id=cust.id)",
    ),
    (
        "not in",
        "ORDER",
        "SELECT id FROM cust WHERE id NOT IN (SELECT cust_id FROM ord WHERE status='returned')",
    ),
    (
        "latest order",
        "ORDER",
        "SELECT DISTINCT ON (cust_id) cust_id, ts, amount FROM ord ORDER BY cust_id, ts DESC, id",
    ),
    (
        "latest by qualify",
        "ORDER",
        "SELECT * FROM ord QUALIFY row_number() OVER (PARTITION BY cust_id ORDER BY ts DESC, id)=1",
    ),
    (
        "latest by join max",
        "ORDER",
        "SELECT o.* FROM ord o JOIN (SELECT cust_id, max(ts) m FROM ord GROUP BY cust_id) x ON x.cust_id=o.cust_id AND x.m=o.ts",
    ),
    (
        "correlated max",
        "ORDER",
        "SELECT * FROM ord o WHERE ts=(SELECT max(ts) FROM ord p WHERE p.cust_id=o.cust_id)",
    ),
    ("above avg", "ORDER", "SELECT id FROM ord WHERE amount > (SELECT avg(amount) FROM ord)"),
    (
        "above cust avg",
        "ORDER",
        "SELECT id FROM ord o WHERE amount > (SELECT 1.5*avg(amount) FROM ord p WHERE p.cust_id=o.cust_id)",
    ),
    (
        "share of total",
        "ORDER",
        "SELECT status, sum(amount) s, sum(amount)/(SELECT sum(amount) FROM ord) sh FROM ord GROUP BY status",
    ),
    (
        "window share",
        "ORDER",
        "SELECT id, amount / sum(amount) OVER (PARTITION BY cust_id) sh FROM ord",
    ),
    (
        "running total",
        "ORDER",
        "SELECT id, sum(amount) OVER (PARTITION BY cust_id ORDER BY ts,id) rt FROM ord",
    ),
    (
        "moving avg days",
        "ORDER",
        "SELECT d, avg(s) OVER (ORDER BY d ROWS 6 PRECEDING) m FROM (SELECT ts::date d, sum(amount) s FROM ord GROUP BY d)",
    ),
    (
        "lag gap",
        "EVENT",
        "SELECT uid, ts, ts - lag(ts) OVER (PARTITION BY uid ORDER BY ts, kind, val) g FROM ev",
    ),
    (
        "sensor jumps",
        "READINGS",
        "SELECT sensor, tick, v - lag(v) OVER w j, avg(v) OVER (w ROWS 9 PRECEDING) m FROM reading WINDOW w AS (PARTITION BY sensor ORDER BY tick, v)",
    ),
    (
        "sessions",
        "EVENT",
        "SELECT uid, s, min(ts) a, max(ts) b, count(*) n FROM (SELECT uid, ts, sum(f) OVER (PARTITION BY uid ORDER BY ts, kind, val) s FROM (SELECT uid, ts, kind, val, CASE WHEN ts - lag(ts) OVER (PARTITION BY uid ORDER BY ts, kind, val) > INTERVAL 30 MINUTE THEN 1 ELSE 0 END f FROM ev)) GROUP BY uid, s",
    ),
    (
        "funnel",
        "EVENT",
        "SELECT count(DISTINCT v.uid) v, count(DISTINCT c.uid) c, count(DISTINCT b.uid) b FROM ev v LEFT JOIN ev c ON c.uid=v.uid AND c.kind='cart' AND c.ts>v.ts LEFT JOIN ev b ON b.uid=c.uid AND b.kind='buy' AND b.ts>c.ts WHERE v.kind='view' AND v.uid<300",
    ),
    (
        "distinct users per day",
        "EVENT",
        "SELECT ts::date d, count(DISTINCT uid) u FROM ev GROUP BY d",
    ),
    (
        "pivot kinds",
        "EVENT",
        "SELECT uid, count(*) FILTER (kind='view') v, count(*) FILTER (kind='buy') b FROM ev GROUP BY uid",
    ),
    (
        "retention",
        "EVENT",
        "SELECT f, (ts::date - f)//7 w, count(DISTINCT e.uid) n FROM ev e JOIN (SELECT uid, min(ts)::date f FROM ev GROUP BY uid) x ON x.uid=e.uid GROUP BY ALL",
    ),
    (
        "margin by cat",
        "ITEM",
        "SELECT cat, sum(qty*(price-cost)) m FROM item JOIN sku ON sku.id=sku GROUP BY cat",
    ),
    (
        "4 joins",
        "ITEM",
        "SELECT country, cat, sum(qty*price) s FROM item JOIN ord o ON o.id=ord_id JOIN cust c ON c.id=cust_id JOIN sku ON sku.id=item.sku WHERE status<>'returned' GROUP BY ALL",
    ),
    (
        "order totals check",
        "ITEM",
        "SELECT o.id, o.amount, sum(qty*price) t FROM ord o LEFT JOIN item ON ord_id=o.id GROUP BY o.id, o.amount HAVING coalesce(sum(qty*price),0) <> o.amount",
    ),
    (
        "basket pairs",
        "ITEM",
        "SELECT a.sku x, b.sku y, count(*) n FROM item a JOIN item b ON a.ord_id=b.ord_id AND a.sku<b.sku GROUP BY x,y HAVING count(*)>20",
    ),
    (
        "scd price",
        "ITEM",
        "SELECT i.ord_id, i.sku, p.p FROM item i JOIN ord o ON o.id=i.ord_id JOIN price p ON p.sku=i.sku AND o.ts::date BETWEEN p.valid_from AND p.valid_to",
    ),
    (
        "asof price",
        "ITEM",
        "SELECT i.ord_id, p.p FROM (SELECT item.*, o.ts::date d FROM item JOIN ord o ON o.id=ord_id) i ASOF JOIN price p ON p.sku=i.sku AND i.d>=p.valid_from",
    ),
    (
        "union feeds",
        "ORDER",
        "SELECT 'o' k, ts, amount::double v FROM ord WHERE amount>90 UNION ALL SELECT 'e', ts, val FROM ev WHERE val>15",
    ),
    ("dup check", "CUSTOMER", "SELECT name, count(*) FROM cust GROUP BY name HAVING count(*)>1"),
    (
        "full recon",
        "ORDER",
        "SELECT coalesce(o.cust_id,c.id) id, o.s, c.tier FROM (SELECT cust_id, sum(amount) s FROM ord GROUP BY cust_id) o FULL JOIN cust c ON c.id=o.cust_id WHERE o.cust_id IS NULL OR c.id IS NULL",
    ),
    (
        "rollup",
        "ORDER",
        "SELECT country, status, sum(amount) FROM ord JOIN cust c ON c.id=cust_id GROUP BY ROLLUP(country,status)",
    ),
    (
        "median",
        "ORDER",
        "SELECT status, median(amount), quantile_cont(amount,0.9) FROM ord GROUP BY status",
    ),
    (
        "string_agg sorted",
        "ORDER",
        "SELECT cust_id, string_agg(status, ',' ORDER BY ts, id) FROM ord GROUP BY cust_id",
    ),
    ("text search", "CUSTOMER", "SELECT * FROM cust WHERE lower(name) LIKE '%99%'"),
    (
        "case buckets",
        "ORDER",
        "SELECT CASE WHEN amount<10 THEN 'low' WHEN amount<50 THEN 'mid' ELSE 'hi' END b, count(*) FROM ord GROUP BY b",
    ),
    (
        "exists two",
        "CUSTOMER",
        "SELECT c.id FROM cust c WHERE EXISTS (SELECT 1 FROM ord o JOIN item i ON i.ord_id=o.id WHERE o.cust_id=c.id AND i.sku=7)",
    ),
    (
        "anti windows",
        "ORDER",
        "SELECT cust_id FROM ord GROUP BY cust_id HAVING max(ts) < TIMESTAMP '2025-06-01'",
    ),
    (
        "cross small",
        "ORDER",
        "SELECT c.country, s.cat, (SELECT count(*) FROM cust x WHERE x.country=c.country) n FROM (SELECT DISTINCT country FROM cust) c, (SELECT DISTINCT cat FROM sku) s",
    ),
    (
        "gaps",
        "ORDER",
        "SELECT id, nxt FROM (SELECT id, lead(id) OVER (ORDER BY id) nxt FROM ord) WHERE nxt<>id+1",
    ),
    (
        "islands",
        "ORDER",
        "SELECT min(id) a, max(id) b FROM (SELECT id, id - row_number() OVER (ORDER BY id) g FROM ord WHERE status='done') GROUP BY g",
    ),
    ("percent rank", "ORDER", "SELECT id, rank() OVER (ORDER BY amount DESC) r FROM ord"),
    (
        "dense top",
        "ORDER",
        "SELECT * FROM (SELECT id, amount, dense_rank() OVER (ORDER BY amount DESC) r FROM ord) WHERE r<=5",
    ),
    (
        "date spine",
        "ORDER",
        "SELECT d::date d, count(o.id) n FROM range(DATE '2024-01-01', DATE '2025-12-31', INTERVAL 1 DAY) t(d) LEFT JOIN ord o ON o.ts::date=d::date GROUP BY ALL",
    ),
    (
        "overlaps",
        "CUSTOMER",
        "SELECT a.sku, count(*) FROM price a JOIN price b ON a.sku=b.sku AND a.valid_from<b.valid_to AND b.valid_from<a.valid_to GROUP BY a.sku",
    ),
    (
        "json",
        "ORDER",
        "SELECT json_extract_string(json_object('s',status,'a',amount),'$.s') s, count(*) FROM ord GROUP BY s",
    ),
    (
        "like join",
        "CUSTOMER",
        "SELECT c.id, k.p FROM cust c JOIN (VALUES ('c1%'),('c22%')) k(p) ON c.name LIKE k.p",
    ),
    (
        "org below one",
        "EMPLOYEE",
        "WITH RECURSIVE r AS (SELECT id,name,0 lvl FROM emp WHERE id=3 UNION ALL SELECT e.id,e.name,lvl+1 FROM emp e, r WHERE e.mgr=r.id) SELECT * FROM r",
    ),
    (
        "org path",
        "EMPLOYEE",
        "WITH RECURSIVE r AS (SELECT id,name::varchar path FROM emp WHERE mgr IS NULL UNION ALL SELECT e.id, r.path||'>'||e.name FROM emp e JOIN r ON e.mgr=r.id) SELECT * FROM r",
    ),
    (
        "org rollup salary",
        "EMPLOYEE",
        "WITH RECURSIVE r(boss,id) AS (SELECT id,id FROM emp UNION ALL SELECT r.boss,e.id FROM r JOIN emp e ON e.mgr=r.id) SELECT boss, sum(sal), count(*) FROM r JOIN emp e ON e.id=r.id GROUP BY boss",
    ),
    (
        "org depth group",
        "EMPLOYEE",
        "WITH RECURSIVE r AS (SELECT id, 1 d FROM emp WHERE mgr IS NULL UNION ALL SELECT e.id, d+1 FROM emp e JOIN r ON e.mgr=r.id) SELECT d, count(*) FROM r GROUP BY d",
    ),
    (
        "managers of all",
        "EMPLOYEE",
        "WITH RECURSIVE r(id,boss) AS (SELECT id,mgr FROM emp WHERE mgr IS NOT NULL UNION SELECT r.id,e.mgr FROM r JOIN emp e ON e.id=r.boss WHERE e.mgr IS NOT NULL) SELECT * FROM r",
    ),
    (
        "groups of users",
        "MEMBER",
        "WITH RECURSIVE r(child,grp) AS (SELECT child,parent FROM member UNION SELECT r.child,m.parent FROM r JOIN member m ON m.child=r.grp) SELECT * FROM r WHERE child LIKE 'u%'",
    ),
    (
        "permissions",
        "MEMBER",
        "WITH RECURSIVE r(child,grp) AS (SELECT child,parent FROM member WHERE child LIKE 'u%' UNION SELECT r.child,m.parent FROM r JOIN member m ON m.child=r.grp) SELECT DISTINCT child,res FROM r JOIN grant_ g ON g.grp=r.grp WHERE allow EXCEPT SELECT child,res FROM r JOIN grant_ g ON g.grp=r.grp WHERE NOT allow",
    ),
    (
        "one user may",
        "MEMBER",
        "WITH RECURSIVE r(grp) AS (SELECT parent FROM member WHERE child='u77' UNION SELECT m.parent FROM member m JOIN r ON m.child=r.grp) SELECT res FROM grant_ WHERE grp IN (FROM r) AND allow",
    ),
    (
        "bom explode",
        "PART",
        "WITH RECURSIVE b AS (SELECT comp, qty FROM part WHERE asm=1 UNION ALL SELECT p.comp, b.qty*p.qty FROM b JOIN part p ON p.asm=b.comp) SELECT comp, sum(qty) q FROM b GROUP BY comp",
    ),
    (
        "bom cost",
        "PART",
        "WITH RECURSIVE b(root,comp,qty) AS (SELECT asm,comp,qty FROM part UNION ALL SELECT root,p.comp,b.qty*p.qty FROM b, part p WHERE p.asm=b.comp) SELECT root, sum(qty*c) FROM b JOIN cost USING(comp) GROUP BY root",
    ),
    (
        "where used",
        "PART",
        "WITH RECURSIVE w(x) AS (SELECT 9000 UNION SELECT asm FROM part JOIN w ON comp=x) SELECT * FROM w",
    ),
    (
        "cat products",
        "PRODUCT",
        "WITH RECURSIVE r(root,id) AS (SELECT id,id FROM cat UNION ALL SELECT root,c.id FROM r JOIN cat c ON c.parent=r.id) SELECT root, count(*), avg(price), max(price) FROM r JOIN prod p ON p.cat=r.id GROUP BY root",
    ),
    (
        "cat tree path list",
        "CATEGORY",
        "WITH RECURSIVE r AS (SELECT id, [name] path FROM cat WHERE parent IS NULL UNION ALL SELECT c.id, list_append(path,c.name) FROM cat c JOIN r ON c.parent=r.id) SELECT id, array_to_string(path,'/') p FROM r",
    ),
    (
        "cheapest routes",
        "FLIGHT",
        "WITH RECURSIVE r(dst,p) AS (SELECT 'a0',0.0::double UNION SELECT f.dst,min(r.p+f.price) FROM r JOIN flight f ON f.src=r.dst GROUP BY f.dst) SELECT * FROM r",
    ),
    (
        "routes 3 legs",
        "FLIGHT",
        "WITH RECURSIVE r(dst,p,legs,via) AS (SELECT dst,price,1,src||'-'||dst FROM flight WHERE src='a1' UNION ALL SELECT f.dst,p+price,legs+1,via||'-'||f.dst FROM r JOIN flight f ON f.src=r.dst WHERE legs<3) SELECT dst,min(p),count(*) FROM r GROUP BY dst",
    ),
    (
        "carrier reach",
        "FLIGHT",
        "WITH RECURSIVE r(c,x) AS (SELECT DISTINCT carrier,'a2' FROM flight UNION SELECT f.carrier,f.dst FROM r, flight f WHERE f.src=r.x AND f.carrier=r.c) SELECT c,count(*) FROM r GROUP BY c",
    ),
    (
        "fof",
        "FOLLOWS",
        "SELECT DISTINCT x.a, z.b FROM follows x JOIN follows y ON y.a=x.b JOIN follows z ON z.a=y.b WHERE x.a<200",
    ),
    (
        "reach depth min",
        "FOLLOWS",
        "WITH RECURSIVE r(x,d) AS (SELECT 5,0 UNION SELECT b,d+1 FROM r,follows WHERE a=x AND d<6) SELECT x,min(d) FROM r GROUP BY x",
    ),
    (
        "scc-ish mutual",
        "FOLLOWS",
        "WITH RECURSIVE f(x) AS (SELECT 5 UNION SELECT b FROM f JOIN follows ON a=x), g(x) AS (SELECT 5 UNION SELECT a FROM g JOIN follows ON b=x) SELECT x FROM f INTERSECT SELECT x FROM g",
    ),
    (
        "cycle clause",
        "FOLLOWS",
        "WITH RECURSIVE r(x) AS (SELECT 5 UNION ALL SELECT b FROM r JOIN follows ON a=x WHERE b<60) CYCLE x SET c USING p SELECT x,c FROM r",
    ),
    (
        "deps closure",
        "NEEDS",
        "WITH RECURSIVE d AS (SELECT pkg,needs FROM dep WHERE pkg IN ('p100','p200','p2999') UNION SELECT d.pkg,e.needs FROM d JOIN dep e ON e.pkg=d.needs) SELECT pkg,count(*) FROM d GROUP BY pkg",
    ),
    (
        "deps max depth",
        "NEEDS",
        "WITH RECURSIVE l(pkg,d) AS (SELECT pkg,0 FROM dep WHERE pkg='p2999' UNION SELECT dep.needs,max(l.d+1) FROM l JOIN dep ON dep.pkg=l.pkg GROUP BY dep.needs) SELECT * FROM l",
    ),
    (
        "dir sizes",
        "FOLDER",
        "WITH RECURSIVE r(root,path,size) AS (SELECT path,path,size FROM dir UNION ALL SELECT r.root,d.path,d.size FROM r JOIN dir d ON d.parent=r.path) SELECT root,sum(size) FROM r GROUP BY root",
    ),
    (
        "series",
        "EMPLOYEE",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<100) SELECT i,(SELECT count(*) FROM emp WHERE id%100=i) FROM n",
    ),
    (
        "lateral ancestors",
        "EMPLOYEE",
        "SELECT e.id,(WITH RECURSIVE u(x) AS (SELECT e.mgr UNION SELECT m.mgr FROM u JOIN emp m ON m.id=u.x) SELECT count(*) FROM u) d FROM emp e WHERE e.id%50=0",
    ),
    (
        "recursion left join",
        "EMPLOYEE",
        "WITH RECURSIVE r AS (SELECT id,dept FROM emp WHERE id=1 UNION SELECT e.id,e.dept FROM r JOIN emp e ON e.mgr=r.id LEFT JOIN cost c ON c.comp=e.id WHERE c.c IS NULL OR c.c>10) SELECT dept,count(*) FROM r GROUP BY dept",
    ),
    (
        "not exists in step",
        "EMPLOYEE",
        "WITH RECURSIVE r(id) AS (SELECT id FROM emp WHERE id=1 UNION SELECT e.id FROM r JOIN emp e ON e.mgr=r.id WHERE NOT EXISTS (SELECT 1 FROM cost WHERE comp=e.id)) SELECT * FROM r",
    ),
    (
        "two keys",
        "FLIGHT",
        "WITH RECURSIVE r(a,b) AS (SELECT src,carrier FROM flight WHERE src='a3' UNION SELECT f.dst,f.carrier FROM r JOIN flight f ON (f.src,f.carrier)=(r.a,r.b)) SELECT * FROM r",
    ),
    (
        "using",
        "PART",
        "WITH RECURSIVE r(asm) AS (SELECT 2 UNION SELECT comp FROM r JOIN part USING (asm)) SELECT * FROM r",
    ),
    (
        "natural",
        "PART",
        "WITH RECURSIVE r(asm) AS (SELECT 2 UNION SELECT comp FROM r NATURAL JOIN part) SELECT * FROM r",
    ),
    (
        "subquery in from",
        "PART",
        "WITH RECURSIVE r(x) AS (SELECT 2 UNION SELECT c FROM (SELECT r.x, p.comp c FROM r, part p WHERE p.asm=r.x) q) SELECT * FROM r",
    ),
    (
        "filter const",
        "PART",
        "WITH RECURSIVE r(x) AS (SELECT 2 UNION SELECT comp FROM r, part WHERE asm=x AND qty BETWEEN 1 AND 2) SELECT * FROM r",
    ),
    (
        "reach int anchor",
        "EDGE",
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT e.b FROM r JOIN e ON e.a=r.x) SELECT * FROM r",
    ),
    (
        "reach in",
        "EDGE",
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT b FROM e WHERE a IN (SELECT x FROM r)) SELECT * FROM r",
    ),
    (
        "reach exists",
        "EDGE",
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT b FROM e WHERE EXISTS (SELECT 1 FROM r WHERE r.x=e.a)) SELECT * FROM r",
    ),
    (
        "reach comma",
        "EDGE",
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT DISTINCT e.b FROM r, e WHERE e.a=r.x AND e.w>3) SELECT * FROM r",
    ),
    (
        "reach left join",
        "EDGE",
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT e.b FROM r LEFT JOIN e ON e.a=r.x WHERE e.b IS NOT NULL) SELECT * FROM r",
    ),
    (
        "reach undirected or",
        "EDGE",
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT CASE WHEN e.a=r.x THEN e.b ELSE e.a END FROM r JOIN e ON e.a=r.x OR e.b=r.x) SELECT * FROM r",
    ),
    (
        "reach undirected union",
        "EDGE",
        "WITH RECURSIVE s2 AS (SELECT a,b FROM e UNION ALL SELECT b,a FROM e), r(x) AS (SELECT 0 UNION SELECT s2.b FROM r JOIN s2 ON s2.a=r.x) SELECT * FROM r",
    ),
    (
        "reach two steps",
        "EDGE",
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION (SELECT e.b FROM r JOIN e ON e.a=r.x UNION ALL SELECT e.a FROM r JOIN e ON e.b=r.x)) SELECT * FROM r",
    ),
    (
        "reach text",
        "TEXT",
        "WITH RECURSIVE r(x) AS (SELECT 'n0' UNION SELECT s.b FROM r JOIN s ON s.a=r.x) SELECT * FROM r",
    ),
    (
        "reach upper",
        "TEXT",
        "WITH RECURSIVE r(x) AS (SELECT 'N0' UNION SELECT upper(s.b) FROM r JOIN s ON upper(s.a)=r.x) SELECT * FROM r",
    ),
    (
        "reach expr",
        "EDGE",
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT e.b + 0 FROM r JOIN e ON e.a=r.x) SELECT * FROM r",
    ),
    (
        "reach hop",
        "EDGE",
        "WITH RECURSIVE r(x,l) AS (SELECT 0,0 UNION SELECT e.b,l+1 FROM r JOIN e ON e.a=r.x WHERE l<4) SELECT x,min(l) FROM r GROUP BY x",
    ),
    (
        "bfs level",
        "EDGE",
        "WITH RECURSIVE r(x,l) AS (SELECT 0,0 UNION SELECT e.b,min(l+1) FROM r JOIN e ON e.a=r.x GROUP BY e.b) SELECT * FROM r",
    ),
    (
        "paths int",
        "EDGE_INT",
        "WITH RECURSIVE r(x,l) AS (SELECT 0,0 UNION SELECT e.b,min(l+e.w) FROM r JOIN ei e ON e.a=r.x GROUP BY e.b) SELECT * FROM r",
    ),
    (
        "paths dec102",
        "EDGE",
        "WITH RECURSIVE r(x,l) AS (SELECT 0,0::decimal(12,2) UNION SELECT e.b,min(l+(e.w*0.5)::decimal(6,2)) FROM r JOIN e ON e.a=r.x GROUP BY e.b) SELECT * FROM r",
    ),
    (
        "paths double",
        "EDGE",
        "WITH RECURSIVE r(x,l) AS (SELECT 0,0::double UNION SELECT e.b,min(l+e.w*0.5::double) FROM r JOIN e ON e.a=r.x GROUP BY e.b) SELECT * FROM r",
    ),
    (
        "widest",
        "EDGE",
        "WITH RECURSIVE r(x,c) AS (SELECT 0,1000 UNION SELECT e.b,max(least(c,e.w)) FROM r JOIN e ON e.a=r.x GROUP BY e.b) SELECT * FROM r",
    ),
    (
        "comp",
        "EDGE",
        "WITH RECURSIVE s2 AS (SELECT a,b FROM e UNION ALL SELECT b,a FROM e), c(n,l) AS (SELECT a,a FROM s2 UNION SELECT s2.b,min(c.l) FROM c JOIN s2 ON s2.a=c.n GROUP BY s2.b) SELECT * FROM c",
    ),
    (
        "tree below",
        "NODE",
        "WITH RECURSIVE r AS (SELECT id, parent FROM t WHERE id=7 UNION ALL SELECT t.id, t.parent FROM t JOIN r ON t.parent=r.id) SELECT * FROM r",
    ),
    (
        "tree depth all",
        "NODE",
        "WITH RECURSIVE r AS (SELECT id, 0 AS depth FROM t WHERE parent=0 UNION ALL SELECT t.id, depth+1 FROM t JOIN r ON t.parent=r.id) SELECT * FROM r",
    ),
    (
        "tree path",
        "NODE",
        "WITH RECURSIVE r AS (SELECT id, name AS path FROM t WHERE parent=0 UNION ALL SELECT t.id, r.path||'/'||t.name FROM t JOIN r ON t.parent=r.id) SELECT * FROM r",
    ),
    (
        "tree list path",
        "NODE",
        "WITH RECURSIVE r AS (SELECT id, [id] AS path FROM t WHERE parent=0 UNION ALL SELECT t.id, list_append(r.path,t.id) FROM t JOIN r ON t.parent=r.id) SELECT * FROM r",
    ),
    (
        "ancestors",
        "NODE",
        "WITH RECURSIVE r AS (SELECT id, parent FROM t UNION ALL SELECT r.id, t.parent FROM r JOIN t ON t.id=r.parent) SELECT parent, count(*) FROM r GROUP BY parent",
    ),
    (
        "tree rollup",
        "NODE",
        "WITH RECURSIVE r AS (SELECT id AS root, id FROM t UNION ALL SELECT r.root, t.id FROM t JOIN r ON t.parent=r.id) SELECT root, count(*) FROM r GROUP BY root",
    ),
    (
        "mutual",
        "EDGE",
        "WITH RECURSIVE ev(x) AS (SELECT 0 UNION SELECT e.b FROM od JOIN e ON e.a=od.x), od(x) AS (SELECT e.b FROM ev JOIN e ON e.a=ev.x) SELECT x FROM ev",
    ),
    (
        "wmr",
        "EDGE",
        "WITH MUTUALLY RECURSIVE r(x bigint) AS (SELECT 0 UNION SELECT e.b FROM r JOIN e ON e.a=r.x) SELECT * FROM r",
    ),
    (
        "recursion then join",
        "EDGE",
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT e.b FROM r JOIN e ON e.a=r.x) SELECT e.w, count(*) FROM r JOIN e ON e.a=r.x GROUP BY e.w",
    ),
]


def spent(run: Callable[[], object]) -> float:
    """Milliseconds of processor time."""
    begun = time.process_time()
    run()
    return (time.process_time() - begun) * 1000


def main() -> None:
    """Print a line per view."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="a part of the names of views")
    parser.add_argument("--changes", type=int, default=7)
    options = parser.parse_args()
    con = tidewheel.connect()
    con.execute(TABLES)
    print(f"{'view':26}{'query':>8}{'fill':>8}{'first':>8}{'in':>8}{'out':>8}{'MB':>8}")
    for name, kind, query in VIEWS:
        if options.only not in name:
            continue
        once = min(
            spent(lambda q=query: con.execute(f"SELECT count(*) FROM ({q})").fetchall())
            for _ in range(2)
        )  # type: ignore[misc]
        fill = spent(lambda q=query: con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {q}"))  # type: ignore[misc]
        times: list[list[float]] = [[], []]
        for k in range(options.changes):
            values = {
                "k": 10_000_000 + k,
                "c": k * 977 % 5000,
                "u": k * 31 % 5000,
                "m": k * 977 % 20000,
            }
            values |= {
                "g": k * 31 % 2000,
                "p": k * 331 % 14000,
                "x": (k * 131 + 7) % 500,
                "y": (k * 57 + 3) % 500,
                "w": k * 3 % 300,
            }
            for change, found in zip(CHANGES[kind].format(**values).split("|"), times, strict=True):
                found.append(spent(lambda sql=change: con.execute(sql)))  # type: ignore[misc]
        ((how, why, held),) = con.execute(
            "SELECT maintenance, reason, state_bytes FROM tidewheel_views()"
        ).fetchall()
        wrong = "  WRONG" if con.execute("VERIFY VIEW v").fetchall() else ""
        into, out = map(statistics.median, times)
        line = f"{name:26}{once:8.0f}{fill:8.0f}{times[0][0]:8.1f}{into:8.2f}{out:8.2f}{held / 1e6:8.1f}"
        print(line + ("" if how == "incremental" else f"  {how}: {why}") + wrong, flush=True)


if __name__ == "__main__":
    main()
