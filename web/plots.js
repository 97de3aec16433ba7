// The curves, by uPlot. A plot is made anew when the colours change, and else only gets new numbers.

import { count, percent, decimals, signed, table_behind } from "./text.js";

/* global uPlot */

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const kFont = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const kLabelled = 8; // up to so many workers have a colour and a label each

const plots = [];

class Plot {
  constructor(id, options) {
    this.figure = document.getElementById(id);
    this.box = this.figure.querySelector(".plot");
    this.options = options;
    this.data = null;
    plots.push(this);
    new ResizeObserver(() => this.fit()).observe(this.box);
    this.update_table = table_behind(this.figure, () => this.options.table(this.data ?? [[]]));
  }

  size() {
    return { width: this.box.clientWidth, height: this.box.clientHeight };
  }

  fit() {
    const { width, height } = this.size();
    if (this.plot && width > 0 && (this.plot.width !== width || this.plot.height !== height)) this.plot.setSize({ width, height });
  }

  show(data) {
    const same_lines = this.data?.length === data.length;
    this.data = data;
    this.update_table();
    if (data[0].length === 0) return;
    if (this.plot && same_lines) this.plot.setData(data);
    else this.make_anew();
  }

  make_anew() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.data || this.data[0].length === 0 || this.box.clientWidth === 0) return;
    const axis = { stroke: color("muted"), grid: { stroke: color("grid"), width: 1 }, ticks: { show: false }, font: kFont };
    const { series, value, range, hooks, room, wide } = this.options;
    this.plot = new uPlot(
      {
        ...this.size(),
        padding: [8, (plot) => Math.max(room_for_round(plot), room?.() ?? 0), 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: { x: { time: false }, y: { range } },
        axes: [
          { ...axis, size: 30, space: 70, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? count(tick) : "")) },
          { ...axis, size: wide ?? 46, gap: 6, values: (_, ticks) => ticks.map(value) },
        ],
        series: [{}, ...series(this.data)],
        hooks: hooks?.() ?? {},
        plugins: [readout(this.options.read)],
      },
      this.data,
      this.box,
    );
  }
}

/// A small note beside the cursor with what is there.
function readout(read) {
  const note = document.createElement("div");
  note.className = "note";
  note.hidden = true;
  return {
    hooks: {
      init: (plot) => plot.over.append(note),
      setCursor: (plot) => {
        const { idx, left } = plot.cursor;
        const text = idx == null || left < 0 ? "" : read(plot, idx);
        note.hidden = text === "";
        if (text === "") return;
        note.textContent = text;
        const beside = left + 12 + note.offsetWidth < plot.over.clientWidth ? left + 12 : left - 12 - note.offsetWidth;
        note.style.transform = `translate(${Math.max(0, beside)}px, 6px)`;
      },
    },
  };
}

/// On the right of the plot, for the half of its last round's number.
const room_for_round = (plot) => Math.max(12, 4 * count(plot.data?.[0]?.at(-1) ?? 0).length);

/// A little room above and below, and never less than `least` from top to bottom.
function range_with(least, floor = -Infinity, ceiling = Infinity) {
  return (_, low, high) => {
    if (low == null) return [0, 1];
    const room = Math.max(high - low, least) * 0.06;
    const missing = Math.max(0, least - (high - low)) / 2;
    return [Math.max(floor, low - room - missing), Math.min(ceiling, high + room + missing)];
  };
}

const few_points = (length) => ({ show: length < 60, size: 5 });
const accuracy_digits = (tick) => `${Number((100 * tick).toFixed(2))} %`;

export const accuracy = new Plot("accuracy-figure", {
  series: (data) => [{ stroke: color("blue"), width: 2, points: { ...few_points(data[0].length), fill: color("blue") } }],
  value: accuracy_digits,
  wide: 54,
  range: range_with(0.02, 0, 1),
  read: (plot, i) => `round ${count(plot.data[0][i])}: ${percent(plot.data[1][i], 2)}`,
  table: (data) => [["round", "test accuracy"], data[0].map((round, i) => [count(round), percent(data[1]?.[i], 2)]).reverse()],
});

export const loss = new Plot("loss-figure", {
  series: () => [
    { stroke: color("blue"), width: 1.75, spanGaps: false, points: { show: false } },
    { stroke: color("orange"), width: 2.5, dash: [6, 5], spanGaps: true, points: { show: false } },
  ],
  value: (tick) => String(Number(tick.toPrecision(4))),
  range: range_with(0.01, 0),
  read: (plot, i) => {
    const [rounds, training, test] = plot.data;
    const parts = [];
    if (training[i] != null) parts.push(`training ${decimals(training[i])}`);
    if (test[i] != null) parts.push(`test ${decimals(test[i])}`);
    return parts.length > 0 ? `round ${count(rounds[i])}: ${parts.join(", ")}` : "";
  },
  table: (data) => [
    ["round", "training loss", "test loss"],
    data[0].map((round, i) => [count(round), decimals(data[1]?.[i]), decimals(data[2]?.[i])]).reverse(),
  ],
});

// --- Every worker's weight -----------------------------------------------------------------------------

let workers = []; // as the page knows them
let chosen = null; // the worker that is pointed at

/// A suspect is orange, the chosen one strong; the others are blue, and pale where they are many.
function stroke_of(worker) {
  if (workers[worker]?.suspected) return color("orange");
  if (workers[worker]?.state === "gone") return color("grey");
  return color(chosen === worker || workers.length <= kLabelled ? "blue" : "pale-blue");
}

/// Where they are many, one pixel: without a graphics card wider lines take two to eight times as long to draw.
function width_of(worker) {
  if (chosen === worker) return 3;
  return workers.length <= kLabelled || workers[worker]?.suspected ? 1.75 : 1;
}

/// The names at the ends of the lines, moved apart where they would cover each other.
function draw_labels(plot) {
  const labelled = plot.data.slice(1).flatMap((line, worker) => {
    const wanted = workers.length <= kLabelled || worker === chosen || workers[worker]?.suspected;
    const last = line.findLastIndex((weight) => weight != null);
    return wanted && last >= 0 && workers[worker] ? [{ worker, y: plot.valToPos(line[last], "y", true) }] : [];
  });
  labelled.sort((a, b) => a.y - b.y);
  const ratio = uPlot.pxRatio;
  for (let i = 1; i < labelled.length; ++i) labelled[i].y = Math.max(labelled[i].y, labelled[i - 1].y + 13 * ratio);
  const over = (labelled.at(-1)?.y ?? 0) - (plot.bbox.top + plot.bbox.height);
  if (over > 0) {
    labelled.at(-1).y -= over;
    for (let i = labelled.length - 2; i >= 0; --i) labelled[i].y = Math.min(labelled[i].y, labelled[i + 1].y - 13 * ratio);
  }
  const context = plot.ctx;
  context.save();
  context.font = kFont.replace("12px", `${12 * ratio}px`);
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const { worker, y } of labelled) {
    context.fillStyle = stroke_of(worker);
    context.globalAlpha = chosen == null || chosen === worker ? 1 : 0.35;
    context.fillText(short_name(workers[worker].name), plot.bbox.left + plot.bbox.width + 6 * ratio, y);
  }
  context.restore();
}

const short_name = (name) => (name.length > 12 ? `${name.slice(0, 11)}…` : name);

/// Below zero a worker's signs are taken for their opposite.
function draw_zero(plot) {
  const y = plot.valToPos(0, "y", true);
  if (y < plot.bbox.top || y > plot.bbox.top + plot.bbox.height) return;
  const context = plot.ctx;
  context.save();
  context.strokeStyle = color("muted");
  context.lineWidth = uPlot.pxRatio;
  context.beginPath();
  context.moveTo(plot.bbox.left, y);
  context.lineTo(plot.bbox.left + plot.bbox.width, y);
  context.stroke();
  context.restore();
}

const weights = new Plot("weights-figure", {
  series: (data) =>
    data.slice(1).map((_, worker) => ({
      stroke: () => stroke_of(worker),
      width: width_of(worker),
      alpha: 1,
      points: { ...few_points(10 * data[0].length), fill: () => stroke_of(worker) }, // so that one alone is seen
      spanGaps: false,
    })),
  value: (tick) => signed(tick).replace(/\.?0+$/, "") || "0",
  range: (_, low, high) => (low == null ? [-0.1, 1] : range_with(0.1)(_, Math.min(low, 0), high)),
  room: () => Math.min(90, 16 + 7 * Math.max(0, ...labels().map((name) => name.length))),
  hooks: () => ({ drawClear: [draw_zero], draw: [draw_labels] }),
  read: (plot, i) => {
    const worker = chosen ?? nearest(plot, i);
    const weight = worker == null ? null : plot.data[worker + 1][i];
    return weight == null ? "" : `round ${count(plot.data[0][i])}: ${workers[worker].name} ${signed(weight)}`;
  },
  table: (data) => [
    ["round", ...workers.map((worker) => worker.name)],
    data[0].map((round, i) => [count(round), ...data.slice(1).map((line) => signed(line[i]))]).reverse(),
  ],
});

const labels = () => workers.filter((worker) => workers.length <= kLabelled || worker.suspected).map((worker) => short_name(worker.name));

function nearest(plot, i) {
  const at = plot.posToVal(plot.cursor.top, "y");
  let best = null;
  for (let worker = 0; worker < workers.length; ++worker) {
    const weight = plot.data[worker + 1]?.[i];
    if (weight != null && (best == null || Math.abs(weight - at) < Math.abs(plot.data[best + 1][i] - at))) best = worker;
  }
  return best;
}

let labels_before = "";

export function show_weights(data, all_workers) {
  workers = all_workers;
  const names = labels().join();
  if (names !== labels_before) {
    labels_before = names;
    weights.data = null; // the room for the names is another
  }
  weights.show(data);
}

/// Points at a worker in the plot, or at none.
export function choose(worker) {
  chosen = worker;
  const plot = weights.plot;
  if (!plot) return;
  plot.series.forEach((series, i) => {
    if (i === 0) return;
    series.alpha = chosen == null || chosen === i - 1 ? 1 : 0.2;
    series.width = width_of(i - 1);
  });
  plot.redraw(false);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((plot) => plot.make_anew()));
