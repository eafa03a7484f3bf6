"""A picture as text for other programs: Graphviz's DOT and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator

from tidewheel.planner.picture import Box, Path, Picture

LINE, LINES = 46, 6
"""Characters of a line, and lines, that a box shows of a kernel's SQL."""

_SHAPES = {
    "kernel": "box",
    "vertex": "box",
    "ingress": "invhouse",
    "egress": "invhouse",
    "feedback": "cds",
    "concat": "point",
    "input": "oval",
    "output": "oval",
}


def wrapped(text: str, width: int = LINE, most: int = LINES) -> list[str]:
    """Words in lines of at most `width` characters; what does not fit is cut, with an ellipsis."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        while len(word) > width:
            if line:
                lines.append(line)
                line = ""
            lines.append(word[:width])
            word = word[width:]
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        lines.append(line)
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = lines[-1][: width - 2] + " …"
    return lines


def label(box: Box) -> list[str]:
    """What stands in a box, line by line: its name, its detail, its numbers."""
    detail = wrapped(box.detail) if box.kind in ("kernel", "vertex", "input") else []
    return [*wrapped(box.title, most=2), *detail, *([box.note] if box.note else [])]


def plain(picture: Picture) -> str:
    """One line per box, indented by loops."""
    readers: dict[str, list[str]] = {}
    for arrow in picture.arrows:
        readers.setdefault(arrow.target, []).append(
            arrow.source + (" (next)" if arrow.back else "")
        )
    lines = [picture.title]
    for box in picture.boxes:
        reads = f" <- {', '.join(readers[box.id])}" if box.id in readers else ""
        note = f": {box.note}" if box.note else ""
        lines.append(f"{'  ' * len(box.loops)}{box.id} {box.title} [{box.kind}]{reads}{note}")
    return "\n".join(lines)


def dot(picture: Picture) -> str:
    """For Graphviz: `dot -Tsvg`."""
    lines = [
        "digraph dataflow {",
        f"  label={_quoted(picture.title)};",
        '  node [fontname="monospace", fontsize=10, style=rounded];',
        '  edge [fontname="monospace", fontsize=9];',
        *_clusters(picture, (), 1),
    ]
    for arrow in picture.arrows:
        options = [f"label={_quoted(arrow.note)}"] if arrow.note else []
        options += ["style=dashed", "constraint=false"] if arrow.back else []
        behind = f" [{', '.join(options)}]" if options else ""
        lines.append(f"  {_quoted(arrow.source)} -> {_quoted(arrow.target)}{behind};")
    return "\n".join([*lines, "}"])


def _clusters(picture: Picture, path: Path, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for box in picture.boxes:
        if box.loops == path:
            text = '"' + "".join(_escaped(line) + "\\l" for line in label(box)) + '"'
            shape = _SHAPES.get(box.kind, "box")
            yield f"{pad}{_quoted(box.id)} [shape={shape}, label={text}];"
    for inner, name in picture.loops.items():
        if inner[:-1] == path:
            yield f"{pad}subgraph {_quoted('cluster_' + '_'.join(inner))} {{"
            yield f"{pad}  label={_quoted(name)}; style=dashed;"
            yield from _clusters(picture, inner, depth + 1)
            yield f"{pad}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def mermaid(picture: Picture) -> str:
    """For Mermaid, which Markdown viewers draw."""
    lines = ["flowchart TD", *_subgraphs(picture, (), 1)]
    for arrow in picture.arrows:
        line = "-.->" if arrow.back else "-->"
        note = f'|"{_entities(arrow.note)}"|' if arrow.note else ""
        lines.append(f"  {_name(arrow.source)} {line}{note} {_name(arrow.target)}")
    return "\n".join(lines)


def _subgraphs(picture: Picture, path: Path, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for box in picture.boxes:
        if box.loops == path:
            text = "<br>".join(_entities(line) for line in label(box))
            left, right = ("([", "])") if box.kind in ("input", "output") else ("[", "]")
            yield f'{pad}{_name(box.id)}{left}"{text}"{right}'
    for inner, name in picture.loops.items():
        if inner[:-1] == path:
            yield f'{pad}subgraph {_name("_".join(inner))}["{_entities(name)}"]'
            yield from _subgraphs(picture, inner, depth + 1)
            yield f"{pad}end"


def _name(text: str) -> str:
    return "v_" + "".join(c if c.isalnum() else "_" for c in text)


def _entities(text: str) -> str:
    """Mermaid reads quotes, and tags, inside of quotes."""
    for character in '#&"<>`':
        text = text.replace(character, f"\0{ord(character)};")
    return text.replace("\0", "#")
