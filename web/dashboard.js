// The dashboard's page: takes the events of the run and shows them. src/report/dashboard_state.h says what
// they are.

import { count, percent, decimals, signed, bytes, duration, ago, set_text, make } from "./text.js";
import { accuracy, loss, show_weights, choose } from "./plots.js";
import { show_heat_map } from "./heat_map.js";

const kSilence = 8; // seconds without an event after which the connection is taken for dead
const kAgain = 2; // seconds until it is tried again
const kLately = 6; // lines
const kFew = 8; // workers, whose table is lower than the map
const kMany = 20; // workers, of which the table shows only a part at a time

const element = (id) => document.getElementById(id);
const write = (id, text) => set_text(element(id), text);

let run = null; // what stays
let now = null; // how it stands
let rows = []; // of the history: round, loss, rounds a second, weights
let tests = []; // round, accuracy, loss

// --- Events --------------------------------------------------------------------------------------------

let source = null;
let heard_at = 0;

function connect() {
  source?.close();
  source = new EventSource("/events");
  heard_at = Date.now();
  source.addEventListener("whole", (event) => {
    const all = JSON.parse(event.data);
    run = all.run;
    rows = all.rows;
    tests = all.tests;
    take(all);
  });
  source.addEventListener("news", (event) => {
    const news = JSON.parse(event.data);
    if (!run) return;
    if (news.row) rows[news.row.at] = news.row.numbers;
    for (const test of news.tests ?? []) tests[test.at] = test.numbers;
    take(news);
  });
  source.addEventListener("error", lost);
}

function take(event) {
  heard_at = Date.now();
  tell_changes(event.now);
  now = event.now;
  if (event.heat_map) show_heat_map(event.heat_map);
  show_connection();
  wanted ||= requestAnimationFrame(show);
}

function show_connection(is_lost = false) {
  const pill = element("connection");
  const over = now && (now.phase === "finished" || now.phase === "stopped");
  pill.dataset.state = over ? "finished" : is_lost ? "lost" : "live";
  set_text(pill.firstChild, over ? now.phase : is_lost ? "connection lost, trying again" : now.phase === "starting" ? "starting" : "live");
  document.body.classList.toggle("stale", is_lost && !over);
}

/// A browser tries again by itself where the server was cut off, but not where it was refused.
function lost() {
  show_connection(true);
  if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000 * kAgain);
}

setInterval(() => {
  if (source.readyState !== EventSource.CLOSED && Date.now() - heard_at > 1000 * kSilence) {
    show_connection(true);
    connect();
  }
}, 1000);

// --- How it stands -------------------------------------------------------------------------------------

let wanted = 0; // a frame was asked for

function show() {
  wanted = 0;
  show_run();
  show_standing();
  show_workers();
  show_curves();
}

function show_run() {
  write("title", run.title || "signvote");
  write("about", run.about);
  write("remark", run.remark);
  element("remark").hidden = run.remark === "";
  const short = now.test?.accuracy == null ? "" : `${percent(now.test.accuracy)} · `;
  document.title = `${short}round ${count(now.done)} of ${count(run.rounds)} · ${run.title}`;
}

function show_standing() {
  const { test, best } = now;
  const has_accuracy = test?.accuracy != null;
  write("accuracy", has_accuracy ? percent(test.accuracy, 2) : "–");
  write("best", !test ? "no test yet" : has_accuracy ? `best ${percent(best.accuracy, 2)} in round ${count(best.round)}` : "what is trained has no classes");
  write("tested", has_accuracy ? `round ${count(test.round)}` : "");
  write("loss", decimals(now.loss));
  write("test-loss", test ? `test loss ${decimals(test.loss)}` : "no test yet");
  write("round", count(now.done));
  write("rounds", `of ${count(run.rounds)}`);
  element("progress").value = run.rounds > 0 ? now.done / run.rounds : 0;
  write("speed", speed());
  const sent = now.wire.up + now.wire.down;
  write("wire", sent > 0 ? bytes(sent) : "–");
  write("times", sent > 0 ? `${Number((now.wire.float32 / sent).toPrecision(3))}× less` : "");
  write("float32", sent > 0 ? `float32 would have taken ${bytes(now.wire.float32)}` : "nothing sent yet");
  element("wire-bar").hidden = sent === 0;
  element("wire-bar").style.width = now.wire.float32 > 0 ? `${(100 * sent) / now.wire.float32}%` : "0";
}

function speed() {
  if (now.phase === "finished") return "finished";
  if (now.phase === "stopped") return "stopped; can be resumed";
  if (now.phase === "starting") return "not begun";
  if (!now.rate) return now.done > 0 ? "no round lately" : "waits for the first round";
  const pace = now.rate >= 1 ? `${now.rate.toFixed(1)} rounds/s` : `${(1 / now.rate).toFixed(1)} s a round`;
  return now.left > 0 ? `${pace}, ${duration(now.left)} left` : pace;
}

function show_curves() {
  const tested = tests.filter((test) => test[1] != null);
  element("accuracy-figure").hidden = tests.length > 0 && tested.length === 0;
  accuracy.show([tested.map((test) => test[0]), tested.map((test) => test[1])]);
  loss.show(merge_losses());
  element("weights-figure").classList.toggle("nothing", !run.learns);
  if (!run.learns) return;
  const from = Math.max(0, rows.findIndex((row) => row.slice(3).some((weight) => weight != null)));
  const columns = [0, ...now.workers.map((_, worker) => worker + 3)];
  if (!rows.some((row) => row.slice(3).some((weight) => weight != null))) return;
  show_weights(columns.map((column) => rows.slice(from).map((row) => row[column])), now.workers);
}

/// Rows and tests on one axis of rounds.
function merge_losses() {
  const both = new Map(rows.map((row) => [row[0], [row[1], null]]));
  for (const [round, , test_loss] of tests)
    if (test_loss != null) both.set(round, [both.get(round)?.[0] ?? undefined, test_loss]);
  const rounds = [...both.keys()].sort((a, b) => a - b);
  // undefined is a round that has no row, over which the line goes on; null is a gap.
  return [rounds, rounds.map((round) => both.get(round)[0]), rounds.map((round) => both.get(round)[1] ?? undefined)];
}

// --- Workers -------------------------------------------------------------------------------------------

const kStates = { present: "present", late: "late", gone: "gone", awaited: "not here yet", suspected: "suspected" };
const kMarks = { new: "new", guesses: "guesses" };
const table = element("workers").querySelector("tbody");
let pinned = null; // the worker whose line was chosen by a click

function symbol(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#${name}`);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

function make_row(worker) {
  const cell = (name, label) => make("td", { role: "cell", class: name, ...(label ? { "data-label": label } : {}) });
  const button = make("button", { type: "button", "aria-pressed": "false", title: "Show its line alone" });
  const row = make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }, button));
  row.append(cell("whether"), cell("number seen", "seen"), cell("number", "batch"), cell("number", "error"), cell("number", "weight"), cell("number", "say"));
  row.lastChild.append(make("div", { class: "say" }, make("b", { class: "share" }), make("span", {}, make("i"))));
  button.addEventListener("click", () => {
    pinned = pinned === worker ? null : worker;
    choose(pinned);
    show_workers();
  });
  row.addEventListener("pointerenter", () => choose(worker));
  row.addEventListener("pointerleave", () => choose(pinned));
  return row;
}

function show_workers() {
  while (table.rows.length > now.workers.length) table.lastChild.remove();
  while (table.rows.length < now.workers.length) table.append(make_row(table.rows.length));
  element("workers-card").classList.toggle("many", now.workers.length > kMany);
  element("workers-section").classList.toggle("few", now.workers.length <= kFew);
  element("workers-section").classList.toggle("unlearnt", !run.learns);
  const most = Math.max(...now.workers.map((worker) => worker.say ?? 0), 1e-9);
  now.workers.forEach((worker, m) => show_worker(table.rows[m], worker, m, most));
  show_roll();
}

function show_worker(row, worker, m, most) {
  const away = worker.state === "gone" || worker.state === "awaited";
  row.className = [worker.state, worker.suspected ? "suspected" : "", pinned === m ? "chosen" : ""].join(" ");
  const [name, whether, seen, batch, error_rate, weight, say] = row.children;
  set_text(name.firstChild, worker.name);
  name.firstChild.setAttribute("aria-pressed", String(pinned === m));
  const mark = worker.wrong_model ? "wrong model" : worker.state === "awaited" ? "" : kMarks[worker.mark] ?? "";
  const states = [worker.state, worker.suspected ? "suspected" : "", mark].join();
  if (whether.dataset.states !== states) {
    whether.dataset.states = states;
    whether.replaceChildren(make("span", { class: `state ${worker.state}` }, symbol(worker.state), kStates[worker.state]));
    if (worker.suspected) whether.append(make("span", { class: "state suspected" }, symbol("suspected"), kStates.suspected));
    if (mark) whether.append(make("span", { class: "state remark" }, mark));
  }
  set_text(seen, worker.seen == null ? "–" : worker.seen < 3 && !away ? "now" : ago(worker.seen));
  set_text(batch, worker.batch ? String(Number(worker.batch.toFixed(1))) : "–");
  set_text(error_rate, worker.error_rate == null ? "–" : percent(worker.error_rate));
  set_text(weight, signed(worker.weight));
  set_text(say.querySelector(".share"), percent(worker.say));
  say.querySelector("i").style.width = `${(100 * (worker.say ?? 0)) / most}%`;
}

function show_roll() {
  const parts = Object.entries(kStates).flatMap(([state, word]) => {
    const many = now.workers.filter((worker) => (state === "suspected" ? worker.suspected : worker.state === state)).length;
    return many > 0 ? [`${many} ${word}`] : [];
  });
  const vote = !run.learns ? "" : now.weighted ? "votes are weighted" : "all votes count the same so far";
  write("roll", [...parts, vote].filter((part) => part !== "").join(" · "));
}

const is_connected = (worker) => worker.state === "present" || worker.state === "late";

/// Lists what became of workers. A screen reader hears this, and nothing else that changes by itself.
function tell_changes(next) {
  if (!now || now.workers.length !== next.workers.length) return;
  const lines = [];
  next.workers.forEach((worker, m) => {
    const before = now.workers[m];
    if (worker.state !== before.state && worker.state === "gone") lines.push(`${worker.name} is gone`);
    if (is_connected(worker) && before.state === "gone") lines.push(`${worker.name} is back`);
    if (is_connected(worker) && before.state === "awaited") lines.push(`${worker.name} has come`);
    if (worker.suspected && !before.suspected) lines.push(`${worker.name} is suspected`);
  });
  if (now.phase !== next.phase && next.phase === "finished") lines.push("the run has finished");
  const list = document.querySelector("#lately ol");
  const time = new Date().toLocaleTimeString("en-GB");
  for (const line of lines) list.prepend(make("li", {}, make("time", {}, time), line));
  while (list.children.length > kLately) list.lastChild.remove();
  element("lately").hidden = list.children.length === 0;
}

connect();
