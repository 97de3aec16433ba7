// The heat map: worker by layer, or worker by worker. The mouse or the arrow keys point at a cell, whose
// value is then told below.

import { percent, set_text, table_behind } from "./text.js";

const figure = document.getElementById("map-figure");
const canvas = figure.querySelector("canvas");
const title = document.getElementById("map-title");
const remark = document.getElementById("map-remark");
const told = document.getElementById("map-cell");
const [low, high] = [document.getElementById("map-low"), document.getElementById("map-high")];
const kFont = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

let map = null;
let cell = null; // [row, column] that is pointed at
let geometry = null;

const kHighest = 40; // a cell
const kTop = 6; // for the upper half of the first label, where cells are lower than letters

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/// One half has the middle colour, the reach above and below it the ends'.
function painter() {
  const [bottom, middle, top] = ["map-low", "map-middle", "map-high"].map((name) => rgb(color(name)));
  const [below, above] = map.low_is_good ? [bottom, top] : [top, bottom];
  const none = color("map-none");
  return (thousandths) => {
    if (thousandths == null) return none;
    const far = Math.max(-1, Math.min(1, (thousandths / 1000 - 0.5) / map.reach));
    const end = far < 0 ? below : above;
    const mixed = middle.map((part, i) => Math.round(part + Math.abs(far) * (end[i] - part)));
    return `rgb(${mixed.join()})`;
  };
}

/// What can be read on that color: dark or white, whichever has the greater contrast.
function ink_on(paint) {
  const [red, green, blue] = paint.match(/\d+/g).map((part) => (part / 255) ** 2.2); // "rgb(1,2,3)"
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.21 ? "#1a1f26" : "#ffffff";
}

const value_at = (row, column) => map.values[row * map.columns.length + column];

function describe(row, column) {
  const thousandths = value_at(row, column);
  const value = thousandths == null ? "not known" : percent(thousandths / 1000);
  return `${map.rows[row]} × ${map.columns[column]}: ${value}`;
}

/// As many labels as there is room for.
const every = (size, room) => Math.max(1, Math.ceil(room / size));

function draw() {
  if (!map || map.rows.length === 0) return;
  const width = canvas.clientWidth;
  if (width === 0) return;
  const [rows, columns] = [map.rows.length, map.columns.length];
  const context = canvas.getContext("2d");
  context.font = `12px ${kFont}`;
  const label = (text, most) => {
    if (context.measureText(text).width <= most) return text;
    while (text.length > 1 && context.measureText(`${text}…`).width > most) text = text.slice(0, -1);
    return `${text}…`;
  };
  const longest = (texts) => Math.max(...texts.map((text) => context.measureText(text).width));
  const left = Math.ceil(Math.min(longest(map.rows), width * 0.34)) + 8;
  const cell_width = (width - left) / columns;
  const cell_height = Math.max(4, Math.min(kHighest, rows === columns ? Math.min(cell_width, 420 / rows) : 420 / rows));
  const flat = longest(map.columns) + 6 <= cell_width * (cell_width < 14 ? every(cell_width, 22) : 1);
  const bottom = flat ? 20 : Math.ceil(Math.min(longest(map.columns), 90)) + 10;
  const height = Math.ceil(kTop + rows * cell_height + bottom);
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  context.scale(ratio, ratio);
  context.translate(0, kTop);
  const paint = painter();
  const gap = Math.min(cell_width, cell_height) > 7 ? 1 : 0;
  const told_in_cells = cell_width > 40 && cell_height > 18;
  context.font = `12px ${kFont}`;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (let row = 0; row < rows; ++row)
    for (let column = 0; column < columns; ++column) {
      const [x, y, value] = [left + column * cell_width, row * cell_height, value_at(row, column)];
      const painted = paint(value);
      context.fillStyle = painted;
      context.fillRect(x, y, cell_width - gap, cell_height - gap);
      if (!told_in_cells || value == null) continue;
      context.fillStyle = ink_on(painted);
      context.fillText(percent(value / 1000), x + (cell_width - gap) / 2, y + (cell_height - gap) / 2);
    }
  context.fillStyle = color("muted");
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (let row = 0; row < rows; row += every(cell_height, 14))
    context.fillText(label(map.rows[row], left - 8), left - 8, (row + 0.5) * cell_height);
  for (let column = 0; column < columns; column += every(cell_width, flat ? 22 : 14)) {
    context.save();
    context.translate(left + (column + 0.5) * cell_width, rows * cell_height + (flat ? 11 : 6));
    if (flat) context.textAlign = "center";
    else context.rotate(-Math.PI / 2);
    context.fillText(label(map.columns[column], flat ? Infinity : bottom - 8), 0, 0);
    context.restore();
  }
  geometry = { left, cell_width, cell_height };
  if (cell) {
    context.strokeStyle = color("ink");
    context.lineWidth = 2;
    context.strokeRect(left + cell[1] * cell_width, cell[0] * cell_height, cell_width - gap, cell_height - gap);
  }
}

function point_at(row, column) {
  const inside = row >= 0 && column >= 0 && row < map.rows.length && column < map.columns.length;
  cell = inside ? [row, column] : null;
  if (cell) set_text(told, describe(row, column));
  draw();
}

canvas.addEventListener("pointermove", (event) => {
  if (!geometry) return;
  const column = Math.floor((event.offsetX - geometry.left) / geometry.cell_width);
  point_at(Math.floor((event.offsetY - kTop) / geometry.cell_height), column);
});
canvas.addEventListener("pointerleave", () => map && point_at(-1, -1));
canvas.addEventListener("blur", () => map && point_at(-1, -1));
canvas.addEventListener("keydown", (event) => {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step || !map) return;
  event.preventDefault();
  const [row, column] = cell ? [cell[0] + step[0], cell[1] + step[1]] : [0, 0];
  point_at(Math.max(0, Math.min(map.rows.length - 1, row)), Math.max(0, Math.min(map.columns.length - 1, column)));
});

new ResizeObserver(draw).observe(figure);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

const update_table = table_behind(figure, () => [
  [map?.row_title ?? "", ...(map?.columns ?? [])],
  (map?.rows ?? []).map((name, row) => [
    name,
    ...map.columns.map((_, column) => (value_at(row, column) == null ? "–" : percent(value_at(row, column) / 1000))),
  ]),
]);

export function show_heat_map(next) {
  map = next;
  figure.classList.toggle("nothing", map.rows.length === 0);
  set_text(title, map.title);
  set_text(remark, map.remark);
  set_text(low, percent(0.5 - map.reach, 0));
  set_text(high, percent(0.5 + map.reach, 0));
  const scale = figure.querySelector(".scale");
  scale.style.setProperty("--from", map.low_is_good ? "var(--map-low)" : "var(--map-high)");
  scale.style.setProperty("--to", map.low_is_good ? "var(--map-high)" : "var(--map-low)");
  if (cell && cell[0] < map.rows.length && cell[1] < map.columns.length) set_text(told, describe(...cell));
  draw();
  update_table();
}
