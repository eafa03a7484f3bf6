"""Splitting and classifying, held against DuckDB's own splitter."""

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel
from tidewheel.sql import statements
from tidewheel.sql.statements import Kind, explained, split, tokens

DUCKDB = duckdb.connect()
PIECES = [
    "select 1",
    "select ';' , \"a;b\"",
    "select $$ ; $$, $tag$ ; $$ ; $tag$",
    "select e'\\';'",
    "select /* ; /* nested ; */ ; */ 2",
    "select 3 -- ; comment\n",
    "values ('it''s;')",
    "select 'é', \"ü;\"",
    "",
    "  ",
    "-- only a comment\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=6))
def test_splits_where_duckdb_splits(pieces: list[str]) -> None:
    script = ";".join(pieces)
    ours = [s.text for s in split(script)]
    theirs = [s.query.strip().rstrip(";").strip() for s in DUCKDB.extract_statements(script)]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        # DuckDB leaves comments around a statement with it.
        assert one in other


@given(st.text(alphabet="ab '\"$;-/*\n?1eE\\é", max_size=40))
def test_tokens_are_pieces_of_the_text(text: str) -> None:
    end = 0
    for token in tokens(text):
        assert token.text
        assert text.startswith(token.text, token.start)
        assert token.start >= end
        end = token.start + len(token.text)


def test_places_are_kept() -> None:
    script = "select 1;\n\n  select 2 ;"
    first, second = split(script)
    assert (first.text, second.text) == ("select 1", "select 2")
    assert script[second.start :].startswith("select 2")
    assert script[explained(second).start + len("EXPLAIN ") :].startswith("select 2")


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("select 1", Kind.QUERY),
        ("(select 1) union (select 2)", Kind.QUERY),
        ("((select 1))", Kind.QUERY),
        ("from t", Kind.QUERY),
        ("with a as (select 1) select * from a", Kind.QUERY),
        ("with a as (insert_me) from a", Kind.QUERY),
        ("with recursive a(x) as (select 1), b as (from a) insert into t from b", Kind.CHANGE),
        ("with a as (select 1) delete from t", Kind.CHANGE),
        ("values (1)", Kind.QUERY),
        ("table t", Kind.QUERY),
        ("pivot t on a using sum(b)", Kind.QUERY),
        ("/* c */ insert into t values (1)", Kind.CHANGE),
        ("COPY t TO 'x.csv'", Kind.CHANGE),
        ("begin transaction", Kind.TRANSACTION),
        ("rollback", Kind.TRANSACTION),
        ("explain select 1", Kind.EXPLAIN),
        ("set fusion = 'off'", Kind.SETTING),
        ("reset session threads", Kind.SETTING),
        ("set memory_limit = '1GB'", Kind.OTHER),
        ("create table t(a int)", Kind.OTHER),
        ("create or replace materialized view v as select 1", Kind.OURS),
        ("drop materialized view v", Kind.OURS),
        ("subscribe to v", Kind.OURS),
        ("verify view v", Kind.OURS),
        ("describe t", Kind.OTHER),
    ],
)
def test_kinds(sql: str, kind: Kind) -> None:
    assert split(sql)[0].kind is kind


def test_parameters_are_counted_outside_strings() -> None:
    statement = split("select ?, '?', $a, \"$b\", $$ $c $$ -- ?")[0]
    assert (statement.positional, statement.names) == (1, {"a"})
    assert split("select $2, $1, $2")[0].positional == 2
    assert split("select ?2")[0].positional == 2


def test_rows_are_told_from_counts() -> None:
    assert split("insert into t values (1) returning a")[0].rows
    assert not split("insert into t values ('returning')")[0].rows
    assert split("describe t")[0].rows


SPACES = "\ufeff\u200b\u2060\u2000\u200a\u202f\u205f\u3000\xa0"


@pytest.mark.parametrize("space", SPACES, ids=[f"{ord(c):x}" for c in SPACES])
def test_spaces_that_nobody_sees(space: str) -> None:
    """DuckDB takes them for spaces, so a view has to follow what stands between them."""
    (statement,) = split(f"{space}select{space}'a{space}b'{space}as/*{space}*/x{space};{space}")
    assert statement.text == f"select 'a{space}b' as/* */x"
    with tidewheel.connect() as con:
        con.execute(
            f"create table t(a int); {space}create{space}materialized view v as from{space}t"
        )
        con.execute(f"{space}insert{space}into t values (1), (2){space}")
        assert con.execute(f"{space}from v order by a{space}").fetchall() == [(1,), (2,)]
        assert con.execute(f"delete{space}from t where a = 1;{space}").rowcount == 1
        assert con.execute("from v").fetchall() == [(2,)]
        assert con.execute("select count(*) from t where ? = ?", [space, space]).fetchall() == [
            (1,)
        ]


@pytest.mark.parametrize(
    "name", ["😀", "हिन्दी", "e\u0301te\u0301", "نام\u200cها", "t€", "x·y", "٣"]
)
def test_names_of_any_letters_need_no_quotes(name: str) -> None:
    """To DuckDB all that is not ASCII is a letter: accents of their own, emoji, other digits."""
    assert [t.text for t in tokens(f"{name}.{name}+1")] == [name, ".", name, "+", "1"]
    with tidewheel.connect() as con:
        con.execute(f"create table {name}({name} int)")
        con.execute(
            f"create materialized view v_{name} as with recursive r{name}({name}) as "
            f"(from {name} union select {name} + 1 from r{name} where {name} < 3) "
            f"select * from r{name}"
        )
        con.execute(f"insert into {name} values (1), (9)")
        assert con.execute(f"from v_{name} order by all").fetchall() == [(1,), (2,), (3,), (9,)]
        con.execute(f"delete from {name} where {name} = $x{name}", {f"x{name}": 9})
        con.execute(f"with w as (select 5) insert into {name} from w")
        assert con.execute(f"from v_{name} order by all").fetchall() == [(1,), (2,), (3,), (5,)]


def test_a_comment_ends_with_its_line_whatever_ends_that() -> None:
    first, second = split("select 1 -- a; comment\r, 2; -- another\rselect 3")
    assert (first.text, second.text) == ("select 1 -- a; comment\r, 2", "select 3")


def test_names_in_backticks() -> None:
    """DuckDB takes them for quotes; from here on they are double quotes."""
    (statement,) = split('select `a b`, \'`\', `c``d"e`, "`" from `t`')
    assert statement.text == 'select "a b", \'`\', "c`d""e", "`" from "t"'
    with tidewheel.connect() as con:
        con.execute("create table `my t`(`a` int); create materialized view `v` as from `my t`")
        con.execute("insert into `my t` values (1), (2)")
        con.execute("insert -- into\rinto `my t` values (4)")
        con.execute("update `my t` set `a` = 3 where `a` = 2")
        assert con.execute("from `v` order by `a`").fetchall() == [(1,), (3,), (4,)]


def test_tokens_of_a_long_statement_are_kept_while_it_runs() -> None:
    values = ", ".join(f"({n}, 'it''s') /* {n} */" for n in range(3000))
    script = f"  SELECT 1;\n INSERT INTO t VALUES {values} ; -- behind"
    text = split(script)[1].text
    kept = statements._long
    assert kept[0] == text
    assert kept[1] == list(tokens(text)) == list(tokens(text + " "))
    assert all(text[t.start :].startswith(t.text) for t in kept[1])
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER, b TEXT)")
        con.execute(script)
        assert con.execute("SELECT count(*), min(b) FROM t").fetchall() == [(3000, "it's")]
    assert statements._long == ("", [])
