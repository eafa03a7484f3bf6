"""A picture as one HTML file that needs no network: the graph, its numbers, its iterations.

The wheel zooms, dragging moves, a click on a box shows all of its SQL. For every recursive table
there is a plot of the rows that each iteration added; arrow keys, buttons and a slider step
through them.
"""

from __future__ import annotations

import json
from html import escape

from tidewheel.planner.picture import Picture
from tidewheel.planner.picture_svg import svg

_STYLE = """
body { margin: 0; font: 14px system-ui, sans-serif; color: #1d2733; display: flex; height: 100vh }
#graph { flex: 1; overflow: hidden; cursor: grab; min-width: 0 }
#graph svg { width: 100%; height: 100%; display: block }
#side { width: 380px; overflow: auto; padding: 12px 16px; border-left: 1px solid #d5dce4;
  background: #f7f9fb; box-sizing: border-box }
#side h1 { font-size: 16px; margin: 0 0 8px } #side h2 { font-size: 14px; margin: 18px 0 4px }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #fff; border: 1px solid #d5dce4;
  padding: 8px; font: 12px ui-monospace, "DejaVu Sans Mono", monospace; margin: 4px 0 }
.vertex-box { cursor: pointer } .vertex-box.chosen .box { stroke-width: 3px }
.plot { background: #fff; border: 1px solid #d5dce4; width: 100%; height: 130px; display: block }
.plot rect { fill: #8fb3d9 } .plot rect.now { fill: #d0582a } .plot rect.past { fill: #3f74ad }
.step { display: flex; gap: 6px; align-items: center; margin-top: 4px }
.step input { flex: 1; min-width: 0 } .told { margin: 4px 0; font-variant-numeric: tabular-nums }
.hint { color: #66737f; font-size: 12px }
""".strip()

_SCRIPT = """
const data = JSON.parse(document.getElementById('data').textContent);
const drawing = document.querySelector('#graph svg'), area = document.getElementById('graph');
let [x, y, w, h] = drawing.getAttribute('viewBox').split(' ').map(Number);
drawing.setAttribute('preserveAspectRatio', 'xMidYMin meet');
const view = () => drawing.setAttribute('viewBox', `${x} ${y} ${w} ${h}`);
const place = event => new DOMPoint(event.clientX, event.clientY)
  .matrixTransform(drawing.getScreenCTM().inverse());
area.addEventListener('wheel', event => {
  event.preventDefault();
  const at = place(event), by = event.deltaY > 0 ? 1.15 : 1 / 1.15;
  x = at.x - (at.x - x) * by; y = at.y - (at.y - y) * by; w *= by; h *= by; view();
}, {passive: false});
let held = null;
area.addEventListener('pointerdown', event => { held = place(event); });
addEventListener('pointerup', () => { held = null; });
addEventListener('pointermove', event => {
  if (held) { const at = place(event); x += held.x - at.x; y += held.y - at.y; view(); }
});
const chosen = document.getElementById('chosen');
drawing.addEventListener('click', event => {
  const box = event.target.closest('.vertex-box');
  for (const other of drawing.querySelectorAll('.chosen')) other.classList.remove('chosen');
  chosen.textContent = box ? data.boxes[box.id] : '';
  if (box) box.classList.add('chosen');
});
const number = n => n.toLocaleString('en');
const steppers = [];
for (const [table, steps] of Object.entries(data.iterations)) {
  const section = document.createElement('section');
  section.innerHTML = '<h2></h2><svg class="plot" preserveAspectRatio="none"></svg>' +
    '<div class="step"><button class="less">◀</button><input type="range" min="0" value="0">' +
    '<button class="more">▶</button><button class="play">play</button></div><p class="told"></p>';
  section.querySelector('h2').textContent = `${table}: ${number(steps.length)} iterations`;
  document.getElementById('loops').append(section);
  const plot = section.querySelector('.plot'), slider = section.querySelector('input');
  const most = Math.max(1, ...steps.map(step => step[1]));
  plot.setAttribute('viewBox', `0 0 ${steps.length} 100`);
  const bars = steps.map((step, i) => {
    const bar = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    const high = step[1] ? Math.max(1, 96 * step[1] / most) : 0;
    for (const [name, value] of [['x', i + .08], ['width', .84], ['y', 100 - high],
      ['height', high]]) bar.setAttribute(name, value);
    plot.append(bar);
    return bar;
  });
  slider.max = steps.length - 1;
  const sums = []; let sum = 0;
  for (const step of steps) sums.push(sum += step[1]);
  const show = to => {
    const at = Math.max(0, Math.min(steps.length - 1, to));
    slider.value = at;
    bars.forEach((bar, i) => {
      bar.setAttribute('class', i < at ? 'past' : i === at ? 'now' : ''); });
    section.querySelector('.told').textContent = `counter ⟨${steps[at][0].join(', ')}⟩: ` +
      `${number(steps[at][1])} new rows, ${number(sums[at])} so far`;
  };
  const step = by => show(Number(slider.value) + by);
  slider.addEventListener('input', () => show(Number(slider.value)));
  section.querySelector('.less').addEventListener('click', () => step(-1));
  section.querySelector('.more').addEventListener('click', () => step(1));
  plot.addEventListener('click', event => {
    const frame = plot.getBoundingClientRect();
    show(Math.floor((event.clientX - frame.left) / frame.width * steps.length));
  });
  let timer = null;
  const play = section.querySelector('.play');
  play.addEventListener('click', () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = 'play'; return; }
    if (Number(slider.value) === steps.length - 1) show(0);
    play.textContent = 'stop';
    timer = setInterval(() => {
      step(1);
      if (Number(slider.value) === steps.length - 1) play.click();
    }, Math.max(30, 4000 / steps.length));
  });
  steppers.push(step);
  show(0);
}
addEventListener('keydown', event => {
  const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  if (by && event.target.type !== 'range') for (const step of steppers) step(by);
});
""".strip()


def html(picture: Picture) -> str:
    """The whole file."""
    boxes = {
        box.id: "\n\n".join(part for part in (box.title, box.detail, box.note) if part)
        for box in picture.boxes
    }
    data = json.dumps({"boxes": boxes, "iterations": picture.iterations}, ensure_ascii=False)
    # nothing in a text may end the element that it stands in
    data = data.replace("<", "\\u003c")
    title = escape(picture.title)
    hint = "Wheel: zoom. Drag: move. Click a box: all of it."
    if picture.iterations:
        hint += " Arrow keys: step through the iterations."
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style></head><body>",
            f'<div id="graph">{svg(picture)}</div>',
            f'<div id="side"><h1>{title}</h1><p class="hint">{hint}</p>',
            '<pre id="chosen"></pre><div id="loops"></div></div>',
            f'<script type="application/json" id="data">{data}</script>',
            f"<script>{_SCRIPT}</script>",
            "</body></html>",
        ]
    )
