"""A picture as SVG: loop contexts as nested frames, kernels with their SQL, rows and time."""

from __future__ import annotations

from html import escape

from tidewheel.planner.layout import Layout, Point, layout
from tidewheel.planner.picture import Box, Picture
from tidewheel.planner.picture_text import label

CHARACTER, LINE_HEIGHT, INSET = 6.7, 15.0, 10.0
"""Of the monospace font at 11 px: a character's width, a line's height; a box's margin."""
MARGIN, HEADING = 16.0, 30.0

STYLE = """
text { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1d2733 }
.title { font-weight: bold }
.heading { font-size: 13px; font-weight: bold }
.note { fill: #8a3b12 }
.edge { fill: none; stroke: #5b6b7d; stroke-width: 1.3 }
.back { stroke: #b4540a; stroke-dasharray: 5 3 }
.loop { fill: #fff7ec; stroke: #d9a25f; stroke-dasharray: 6 3; fill-opacity: .75 }
.loop-name { font-weight: bold; fill: #8f5a12 }
.box { stroke: #5b6b7d; fill: #fff }
.kernel .box { fill: #e8f1fb; stroke: #3f74ad }
.vertex .box { fill: #eef6ec; stroke: #5b8f52 }
.ingress .box, .egress .box, .feedback .box, .concat .box { fill: #fdf0dc; stroke: #c58a3c }
.input .box { fill: #eceff3 }
.output .box { fill: #2f3b4a; stroke: #2f3b4a }
.output text { fill: #fff }
.share { fill: #d0582a }
""".strip()


def svg(picture: Picture) -> str:
    """A whole SVG file; it needs nothing else to be seen."""
    labels = {box.id: label(box) for box in picture.boxes}
    sizes = {box.id: _size(box, labels[box.id]) for box in picture.boxes}
    groups = {box.id: box.loops for box in picture.boxes}
    titles = {path: len(name) * CHARACTER + 2 * INSET for path, name in picture.loops.items()}
    placed = layout(
        sizes,
        [(a.source, a.target) for a in picture.arrows],
        groups,
        titles,
        {number for number, arrow in enumerate(picture.arrows) if arrow.back},
    )
    width = max(placed.width, len(picture.title) * 8.0) + 2 * MARGIN
    height = placed.height + 2 * MARGIN + HEADING
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{escape(picture.title)}</title>",
        f"<style>{STYLE}</style>",
        *(_marker(name, colour) for name, colour in (("to", "#5b6b7d"), ("next", "#b4540a"))),
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>',
        f'<text class="heading" x="{MARGIN}" y="{MARGIN + 8}">{escape(picture.title)}</text>',
        f'<g transform="translate({MARGIN} {MARGIN + HEADING})">',
        *_frames(picture, placed),
    ]
    for arrow, line in zip(picture.arrows, placed.lines, strict=True):
        style, head = ("edge back", "next") if arrow.back else ("edge", "to")
        rows = f"<title>{escape(arrow.note)}</title>" if arrow.note else ""
        out.append(
            f'<path class="{style}" d="{_curve(line)}" marker-end="url(#{head})">{rows}</path>'
        )
    for box in picture.boxes:
        out += _box(box, labels[box.id], placed)
    return "\n".join([*out, "</g>", "</svg>"])


def _size(box: Box, lines: list[str]) -> tuple[float, float]:
    longest = max(map(len, lines))
    return longest * CHARACTER + 2 * INSET, len(lines) * LINE_HEIGHT + INSET


def _marker(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="{colour}"/></marker>'
    )


def _frames(picture: Picture, placed: Layout) -> list[str]:
    out = []
    for path, rect in sorted(placed.groups.items(), key=lambda entry: len(entry[0])):
        name = picture.loops.get(path, "loop")
        out.append(
            f'<rect class="loop" x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" '
            f'height="{rect.height:.1f}" rx="8"/>'
            f'<text class="loop-name" x="{rect.x + INSET:.1f}" y="{rect.y + 17:.1f}">'
            f"{escape(name)}</text>"
        )
    return out


def _box(box: Box, lines: list[str], placed: Layout) -> list[str]:
    at = placed.nodes[box.id]
    round_ = 12 if box.kind in ("input", "output") else 4
    full = "\n".join(t for t in (box.title, box.detail, box.note) if t)
    out = [
        f'<g class="vertex-box {box.kind}" id="{escape(box.id)}">',
        f"<title>{escape(full)}</title>",
        f'<rect class="box" x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" '
        f'height="{at.height:.1f}" rx="{round_}"/>',
    ]
    if box.share > 0.005:
        out.append(
            f'<rect class="share" x="{at.x:.1f}" y="{at.y + at.height - 3:.1f}" '
            f'width="{max(2.0, at.width * min(box.share, 1.0)):.1f}" height="3"/>'
        )
    for number, line in enumerate(lines):
        style = "title" if number == 0 else "note" if line == box.note else "sql"
        y = at.y + INSET / 2 + LINE_HEIGHT * (number + 0.75)
        out.append(
            f'<text class="{style}" x="{at.x + INSET:.1f}" y="{y:.1f}" xml:space="preserve">'
            f"{escape(line)}</text>"
        )
    return [*out, "</g>"]


def _curve(line: list[Point]) -> str:
    """Down through the layers: straight where boxes stand, curved between them."""
    (x, y), *rest = line
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        if abs(to_x - x) < 0.5:
            parts.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            parts.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(parts)
