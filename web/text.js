// Numbers and times as people read them, and text that is only written where it changed.

const whole = new Intl.NumberFormat("en");

export const count = (number) => whole.format(number);

export const percent = (share, digits = 1) => (share == null ? "–" : `${(100 * share).toFixed(digits)} %`);

export function decimals(number) {
  if (number == null) return "–";
  if (number !== 0 && Math.abs(number) < 0.001) return number.toExponential(1);
  return Math.abs(number) >= 1000 ? number.toPrecision(4) : number.toFixed(3);
}

export function signed(number) {
  return number == null ? "–" : (number < 0 ? "−" : "") + Math.abs(number).toFixed(3);
}

export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (number >= 999.5 && unit + 1 < units.length) {
    number /= 1000;
    ++unit;
  }
  return `${unit === 0 || number >= 100 ? Math.round(number) : number.toPrecision(3)} ${units[unit]}`;
}

export function duration(seconds) {
  const all = Math.round(seconds);
  const [hours, minutes] = [Math.floor(all / 3600), Math.floor(all / 60) % 60];
  if (hours >= 48) return `${Math.round(hours / 24)} days`;
  if (hours > 0) return `${hours} h ${String(minutes).padStart(2, "0")} min`;
  return minutes > 0 ? `${minutes} min ${String(all % 60).padStart(2, "0")} s` : `${all} s`;
}

/// Short, as for a column: "12 s", "3 min".
export function ago(seconds) {
  if (seconds < 100) return `${Math.round(seconds)} s`;
  return seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

export function set_text(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/// An element with attributes and children, which may be texts.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function table(head, rows) {
  const cells = (tag, texts) => make("tr", {}, ...texts.map((text) => make(tag, {}, text)));
  return make("table", {}, make("thead", {}, cells("th", head)), make("tbody", {}, ...rows.map((row) => cells("td", row))));
}

/// Keeps a table behind a picture: made when it is opened, and anew while it is open.
export function table_behind(figure, head_and_rows) {
  const details = figure.querySelector("details");
  const box = details.querySelector(".scroll");
  const update = () => {
    if (!details.open) return;
    const top = box.scrollTop;
    box.replaceChildren(table(...head_and_rows()));
    box.scrollTop = top;
  };
  details.addEventListener("toggle", update);
  return update;
}
