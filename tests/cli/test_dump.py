"""The shell's `.dump`: SQL that makes the whole database again."""

import os
import subprocess
import sys
from pathlib import Path


def pipe(text: str, *args: object, home: Path) -> subprocess.CompletedProcess[str]:
    """Run the shell on `text`, with no settings of a user's."""
    return subprocess.run(
        [sys.executable, "-m", "tidewheel.cli", "shell", *map(str, args)],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "HOME": str(home)},
        check=False,
    )


def test_a_dump_has_all_that_the_tables_and_views_need(tmp_path: Path) -> None:
    script = """
CREATE SCHEMA raw;
CREATE TYPE mood AS ENUM ('ok', 'bad');
CREATE SEQUENCE ids;
CREATE TABLE t (id INT PRIMARY KEY DEFAULT nextval('ids'), m mood, twice INT AS (id * 2));
INSERT INTO t (m) VALUES ('ok'), (NULL);
CREATE TABLE raw.t (a INT);
INSERT INTO raw.t VALUES (5);
CREATE MACRO more(x) AS x + 1;
CREATE MATERIALIZED VIEW n AS SELECT m, count(*) AS n FROM t GROUP BY m;
CREATE MATERIALIZED VIEW raw.n AS SELECT more(sum(a)) AS s FROM raw.t;
CREATE VIEW a_plain AS FROM n;
CREATE MATERIALIZED VIEW "Over all" (other) AS SELECT n FROM a_plain;
CREATE INDEX by_m ON t (m);
"""
    seen = """
.mode csv
FROM t; FROM raw.t; FROM n ORDER BY ALL; FROM raw.n; FROM "Over all";
.tables
.verify "Over all"
.watch "Over all"
INSERT INTO t (m) VALUES ('bad');
.dump
"""
    dump = tmp_path / "dump.sql"
    first = pipe(f"{script}.output {dump}\n.dump\n.output\n{seen}", home=tmp_path)
    again = pipe(f".read {dump}\n{seen}", tmp_path / "new.db", home=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == first.stdout
    assert "__tw" not in first.stdout
    lines = first.stdout.splitlines()
    for name in ("Over all", "n", "raw.n"):
        assert f"{name:30} maintained view" in lines
    assert 'CREATE MATERIALIZED VIEW "Over all" ("other") AS SELECT n FROM a_plain;' in lines
    assert lines.index("CREATE VIEW a_plain AS SELECT * FROM n;") > lines.index(
        'CREATE MATERIALIZED VIEW "n" AS SELECT m, count(*) AS n FROM t GROUP BY m;'
    )


def test_a_dump_has_defaults_of_macros_comments_and_triggers(tmp_path: Path) -> None:
    script = """
CREATE TABLE t (id INT); CREATE TABLE seen (id INT); CREATE SCHEMA s;
CREATE MACRO more(x, y := 2) AS x + y;
CREATE MACRO s."of"(a) AS a, (a, b) AS a + b;
CREATE MACRO upto(n) AS TABLE SELECT * FROM range(n);
CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t;
CREATE VIEW p AS SELECT more(id) AS m FROM t;
COMMENT ON TABLE t IS 'it''s t'; COMMENT ON COLUMN t.id IS 'its key';
COMMENT ON VIEW p IS 'plain'; COMMENT ON MATERIALIZED VIEW n IS 'kept';
INSERT INTO t VALUES (1);
CREATE TRIGGER note AFTER INSERT ON t REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT INSERT INTO seen SELECT id FROM new;
"""
    seen = """
.mode csv
INSERT INTO t VALUES (7); FROM seen; FROM n; FROM p; SELECT s."of"(1), s."of"(1, 2); FROM upto(1);
.dump
"""
    dump = tmp_path / "dump.sql"
    first = pipe(f"{script}.output {dump}\n.dump\n.output\n{seen}", home=tmp_path)
    again = pipe(f".read {dump}\n{seen}", tmp_path / "new.db", home=tmp_path)
    assert (first.stderr, again.stderr) == ("", "")
    assert again.stdout == first.stdout
    assert first.stdout.count("COMMENT ON") == 4


def test_safe_mode_shows_what_is_there(tmp_path: Path) -> None:
    script = "CREATE TABLE t (a INT);\nCREATE MACRO m(x) AS x;\n.tables\n.schema t\n.dump\n"
    result = pipe(script, "--safe", home=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"{'t':30} table",
        "CREATE TABLE t(a INTEGER);",
        "BEGIN;",
        "CREATE TABLE t(a INTEGER);",
        'CREATE MACRO "m"("x") AS (x);',
        "COMMIT;",
    ]


def test_views_of_a_dump_mean_what_they_did(tmp_path: Path) -> None:
    """They look for names where they were made, under the settings of then."""
    script = """
CREATE SCHEMA "s.1";
CREATE TABLE t (a INT, ts TIMESTAMPTZ);
CREATE TABLE "s.1".t (a INT);
INSERT INTO t VALUES (7, '2026-05-01 03:00:00+00');
INSERT INTO "s.1".t VALUES (40), (50);
SET TimeZone = 'America/New_York';
SET integer_division = true;
CREATE MATERIALIZED VIEW v AS SELECT a / 2 AS half, ts::DATE AS day FROM t;
RESET TimeZone;
RESET integer_division;
USE "s.1";
CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS a FROM t;
CREATE MATERIALIZED VIEW main.w AS SELECT a + 1 AS a FROM v;
USE main;
CREATE MATERIALIZED VIEW x AS SELECT a / 2 AS half FROM t;
"""
    seen = '.mode csv\nFROM v; FROM w; FROM x; FROM "s.1".v; SELECT 1 / 2 AS half;\n.dump\n'
    dump = tmp_path / "dump.sql"
    first = pipe(f"{script}.output {dump}\n.dump\n.output\n{seen}", home=tmp_path)
    again = pipe(f".read {dump}\n{seen}", tmp_path / "new.db", home=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    assert (again.returncode, again.stderr) == (0, "")
    # (the order of views that do not read one another may be another one)
    assert sorted(again.stdout.splitlines()) == sorted(first.stdout.splitlines())
    assert "3,2026-04-30" in again.stdout
