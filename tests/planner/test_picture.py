"""Pictures of dataflows: nothing overlaps, nothing is lost, nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from itertools import combinations, pairwise
from pathlib import Path as File
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.planner.layout import Rect, layout
from tidewheel.planner.picture import Arrow, Box, Path, Picture
from tidewheel.planner.picture_html import html
from tidewheel.planner.picture_svg import svg
from tidewheel.planner.picture_text import dot, mermaid, plain, wrapped

REACH = (
    "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT d FROM r JOIN e ON r.n = e.s) SELECT * FROM r"
)


def random_picture(size: int, seed: int) -> Picture:
    """A graph as plans make them: loops are entered by an ingress and left by an egress."""
    pick = random.Random(seed)
    picture = Picture(f"{size} vertices & <loops>")
    paths: list[Path] = [()]
    for number in range(pick.randrange(4)):
        path = (*pick.choice(paths), f"loop{number}")
        paths.append(path)
        picture.loops[path] = f"loop {number}"
    members: dict[Path, list[str]] = {path: [] for path in paths}
    for number in range(size):
        path = pick.choice(paths) if number > len(paths) else paths[number % len(paths)]
        name = f"n{number}"
        detail = 'SELECT "a", b < 2 FROM t JOIN u USING (k) GROUP BY ALL' * pick.randrange(4)
        note = "12 rows · 1.00 ms" if pick.random() < 0.5 else ""
        kind = pick.choice(["kernel", "vertex", "concat"])
        picture.boxes.append(Box(name, f"#{number}", kind, path, detail, note, pick.random()))
        for source in pick.sample(members[path][-20:], min(2, len(members[path]))):
            picture.arrows.append(Arrow(source, name, note="7 rows"))
        members[path].append(name)
    for path in picture.loops:
        outer, inner = members[path[:-1]], members[path]
        if inner and outer:
            stem = "-".join(path)
            for kind in ("ingress", "egress", "feedback"):
                picture.boxes.append(Box(f"{stem}-{kind}", kind, kind, path))
            picture.arrows += [
                Arrow(outer[0], f"{stem}-ingress"),
                Arrow(f"{stem}-ingress", inner[0]),
                Arrow(inner[-1], f"{stem}-egress"),
                Arrow(inner[-1], f"{stem}-feedback"),
                Arrow(f"{stem}-feedback", inner[0], back=True),
            ]
            if len(outer) > 1:
                picture.arrows.append(Arrow(f"{stem}-egress", outer[-1]))
    return picture


CLOSE = 1e-6  # what rounding may do


def apart(one: Rect, other: Rect) -> bool:
    return (
        one.x + one.width <= other.x + CLOSE
        or other.x + other.width <= one.x + CLOSE
        or one.y + one.height <= other.y + CLOSE
        or other.y + other.height <= one.y + CLOSE
    )


def inside(inner: Rect, outer: Rect) -> bool:
    return (
        outer.x <= inner.x + CLOSE
        and outer.y <= inner.y + CLOSE
        and inner.x + inner.width <= outer.x + outer.width + CLOSE
        and inner.y + inner.height <= outer.y + outer.height + CLOSE
    )


def crosses(line: list[tuple[float, float]], box: Rect) -> bool:
    """Does a line go through a box? Between its points it stays in their rectangle."""
    shrunk = Rect(box.x + 1, box.y + 1, box.width - 2, box.height - 2)
    for (x, y), (to_x, to_y) in pairwise(line):
        part = Rect(min(x, to_x), min(y, to_y), abs(x - to_x), abs(y - to_y))
        if not apart(part, shrunk):
            return True
    return False


def check_layout(picture: Picture) -> None:
    pick = random.Random(0)
    sizes = {b.id: (pick.uniform(20, 300), pick.uniform(20, 120)) for b in picture.boxes}
    groups = {b.id: b.loops for b in picture.boxes}
    edges = [(a.source, a.target) for a in picture.arrows]
    back = {i for i, a in enumerate(picture.arrows) if a.back}
    found = layout(sizes, edges, groups, dict.fromkeys(picture.loops, 150.0), back)
    whole = Rect(0, 0, found.width, found.height)
    assert set(found.nodes) == set(sizes)
    for node, rect in found.nodes.items():
        assert (rect.width, rect.height) == sizes[node]
        assert inside(rect, whole)
        for path, group in found.groups.items():
            if groups[node][: len(path)] == path:
                assert inside(rect, group), (node, path)
            else:
                assert apart(rect, group), (node, path)
    for (one, a), (other, b) in combinations(found.nodes.items(), 2):
        assert apart(a, b), (one, other)
    for (source, target), line in zip(edges, found.lines, strict=True):
        for node, rect in found.nodes.items():
            if node not in (source, target):
                assert not crosses(line, rect), (source, target, node)
        (x, _), (to_x, _) = line[0], line[-1]
        start, end = found.nodes[source], found.nodes[target]
        assert start.x <= x <= start.x + start.width
        assert end.x <= to_x <= end.x + end.width


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 60), st.integers(0, 2**32))
def test_nothing_overlaps_and_no_line_crosses_a_box(size: int, seed: int) -> None:
    check_layout(random_picture(size, seed))


@pytest.mark.parametrize("size", [3, 10, 30, 100, 300])
def test_nothing_overlaps_in_large_graphs(size: int) -> None:
    check_layout(random_picture(size, size))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30),
    st.sets(st.integers(0, 29)),
)
def test_any_graph_can_be_laid_out(edges: list[tuple[int, int]], back: set[int]) -> None:
    named = [(f"n{a}", f"n{b}") for a, b in edges]
    found = layout({f"n{i}": (40.0, 20.0) for i in range(10)}, named, back=back)
    for a, b in combinations(found.nodes.values(), 2):
        assert apart(a, b)
    assert all(len(line) > 1 for line in found.lines)


def test_the_same_graph_gives_the_same_picture() -> None:
    assert svg(random_picture(40, 5)) == svg(random_picture(40, 5))


def test_a_chain_is_drawn_straight_down() -> None:
    names = [f"n{i}" for i in range(5)]
    edges = list(pairwise(names))
    found = layout({n: (10.0 + 20 * i, 20.0) for i, n in enumerate(names)}, edges)
    centres = {round(r.x + r.width / 2, 6) for r in found.nodes.values()}
    assert len(centres) == 1
    assert sorted(names, key=lambda n: found.nodes[n].y) == names


@pytest.mark.parametrize("size", [3, 30, 300])
def test_svg_holds_every_box_arrow_and_loop(size: int) -> None:
    picture = random_picture(size, size)
    root = ElementTree.fromstring(svg(picture))
    name = "{http://www.w3.org/2000/svg}"
    assert {g.get("id") for g in root.iter(f"{name}g") if g.get("id")} == {
        b.id for b in picture.boxes
    }
    assert len([p for p in root.iter(f"{name}path") if p.get("marker-end")]) == len(picture.arrows)
    loops = [t.text for t in root.iter(f"{name}text") if t.get("class") == "loop-name"]
    assert sorted(map(str, loops)) == sorted(picture.loops.values())


def addresses(text: str) -> set[str]:
    return set(re.findall(r"https?://[^\s\"'<>]+|(?:src|href)=\S+|@import|url\((?!#)", text))


def test_pictures_load_nothing() -> None:
    picture = random_picture(20, 1)
    picture.iterations["r"] = [((0,), 1), ((1,), 5)]
    assert addresses(svg(picture)) == {"http://www.w3.org/2000/svg"}
    assert addresses(html(picture)) == {"http://www.w3.org/2000/svg"}


def test_html_holds_iterations_and_cannot_be_broken_out_of() -> None:
    picture = Picture("</script><script>alert(1)</script>")
    picture.boxes.append(Box("a", "</script>", "kernel", detail="<!-- </script> \u2028"))
    picture.iterations["</script>"] = [((0, 3), 7)]
    page = html(picture)
    assert page.count("</script>") == 2
    data = re.search(r'id="data">(.*)</script>', page)
    assert data is not None
    held = json.loads(data[1])
    assert held["iterations"] == {"</script>": [[[0, 3], 7]]}
    assert held["boxes"]["a"] == "</script>\n\n<!-- </script> \u2028"


def test_dot_and_mermaid_quote_what_they_hold() -> None:
    picture = Picture('a "title"')
    picture.loops["loop0",] = 'loop "x"'
    picture.boxes += [
        Box("n.1", 'k0: "quoted" \\', "kernel", (), "SELECT '<b>' AS \"x\""),
        Box("n2", "Iterate", "vertex", ("loop0",)),
    ]
    picture.arrows += [Arrow("n.1", "n2", note="3 rows"), Arrow("n2", "n2", back=True)]
    text = dot(picture)
    assert text.count("{") == text.count("}") == 2
    assert '"n.1" -> "n2" [label="3 rows"];' in text
    assert r"\"quoted\" \\" in text
    drawn = mermaid(picture)
    assert 'v_n_1 -->|"3 rows"| v_n2' in drawn
    assert "v_n2 -.-> v_n2" in drawn
    assert drawn.count("subgraph") == drawn.count("end\n") == 1
    assert "<b>" not in drawn
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=text, text=True, check=True, capture_output=True)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=300), st.integers(4, 40), st.integers(1, 6))
def test_wrapped_lines_fit(text: str, width: int, most: int) -> None:
    lines = wrapped(text, width, most)
    assert len(lines) <= most
    assert all(len(line) <= width for line in lines)
    if len(lines) < most:
        assert "".join(lines).replace(" ", "") == "".join(text.split())


@pytest.fixture
def con() -> tidewheel.Connection:
    con = tidewheel.connect()
    con.execute("CREATE TABLE e AS SELECT range AS s, (range + 1) % 20 AS d FROM range(20)")
    return con


def shown(con: tidewheel.Connection, sql: str) -> tuple[str, str]:
    """The stage, and the text."""
    rows = con.execute(sql).fetchall()
    return str(rows[0][0]), "\n".join(str(row[1]) for row in rows)


@pytest.mark.parametrize("form", ["svg", "html", "dot", "mermaid", "text"])
@pytest.mark.parametrize("analyze", ["", "ANALYZE, "])
def test_explain_draws_queries(con: tidewheel.Connection, form: str, analyze: str) -> None:
    con.execute("SET fusion = 'off'")
    stage, text = shown(con, f"EXPLAIN ({analyze}FORMAT {form}) {REACH}")
    assert stage == ({"": "dataflow", "ANALYZE, ": "analyze"}[analyze] if form == "text" else form)
    assert "Iterate" in text
    assert ("20 rows" in text) == bool(analyze)


def test_a_loop_is_a_frame_around_its_vertices(con: tidewheel.Connection) -> None:
    con.execute("SET fusion = 'off'")
    _, text = shown(con, f"EXPLAIN (FORMAT mermaid) {REACH}")
    frame = text[text.index("subgraph") : text.index("\n  end")]
    for part in ("ingress", "Iterate", "Pick", "feedback", "egress", "JOIN e"):
        assert part in frame
    assert "result" not in frame


def test_a_page_steps_through_the_iterations(con: tidewheel.Connection) -> None:
    _, page = shown(con, f"EXPLAIN (ANALYZE, FORMAT html) {REACH}")
    data = re.search(r'id="data">(.*)</script>', page)
    assert data is not None
    steps = json.loads(data[1])["iterations"]["r"]
    assert steps == [*([[i], 1] for i in range(20)), [[20], 0]]


def test_explain_draws_views(con: tidewheel.Connection) -> None:
    loop = REACH.replace("SELECT d FROM", "SELECT d + 0 FROM")  # no form that one operator keeps
    con.execute(f"CREATE MATERIALIZED VIEW v AS {loop}")
    con.execute("INSERT INTO e VALUES (3, 99)")
    for form in ("svg", "html", "dot", "mermaid"):
        stage, text = shown(con, f"EXPLAIN (FORMAT {form}) VIEW v")
        assert stage == form
        assert "source e" in text
        assert "loop recursion" in text
    stage, text = shown(con, "EXPLAIN VIEW v")
    assert stage == "dataflow"
    # (what filled the view did not come in)
    assert re.search(r"source e \[input\].*: 1 in · 21 out", text)


def test_a_view_that_is_recomputed_says_why(con: tidewheel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT s, percent_rank() OVER (ORDER BY d) FROM e")
    _, text = shown(con, "EXPLAIN VIEW w")
    assert "view w" in text.splitlines()[0]


def test_plain_text_names_every_box() -> None:
    picture = random_picture(30, 3)
    lines = plain(picture).splitlines()
    assert len(lines) == 1 + len(picture.boxes)


@pytest.mark.long
def test_a_browser_draws_the_page(con: tidewheel.Connection, tmp_path: File) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser")
    page = tmp_path / "page.html"
    text = shown(con, f"EXPLAIN (ANALYZE, FORMAT html) {REACH}")[1]
    steps = """<script>
    for (let i = 0; i < 3; i++) document.querySelector('.more').click();
    dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}));
    document.querySelector('.kernel rect').dispatchEvent(new MouseEvent('click', {bubbles: true}));
    </script>"""
    page.write_text(text.replace("</body>", f"{steps}</body>"), encoding="utf-8")
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    made = subprocess.run(
        [browser, *quiet, profile, "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "counter ⟨2⟩: 1 new rows, 3 so far" in made.stdout
    assert re.search(r'<pre id="chosen">k\d: ', made.stdout)
