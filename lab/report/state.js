"use strict";
// What the reader has chosen, kept in the address so that it can be shared: scenario, hidden servers, percentile, point, server.
// The colours are Okabe and Ito's, without yellow, which paper swallows; lines beyond the eighth are dashed.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#6B7280"];
const DARK = ["#4AA8E8", "#FF8A4C", "#2CC79A", "#E79BC6", "#F2B83A", "#8CD0F5", "#B795D6", "#AEB6C1"];
const DASHES = [[], [10, 6], [3, 5], [14, 5, 3, 5]];

const state = { s: 0, off: new Set(), p: "99", at: null, of: null, theme: null };

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const number = DATA.findIndex((each) => each.id === words.get("s"));
  state.s = number < 0 ? 0 : number;
  state.off = new Set((words.get("off") || "").split(",").filter(Boolean));
  state.p = words.get("p") || "99";
  state.at = words.get("at");
  state.of = words.get("of");
  state.theme = words.get("theme");
}

function writeAddress() {
  const words = new URLSearchParams();
  if (DATA.length > 1) words.set("s", DATA[state.s].id);
  if (state.off.size) words.set("off", [...state.off].join(","));
  if (state.p !== "99") words.set("p", state.p);
  for (const key of ["at", "of", "theme"]) if (state[key]) words.set(key, state[key]);
  history.replaceState(null, "", "#" + words.toString());
}

const isDark = () => document.documentElement.dataset.theme === "dark";
function applyTheme() {
  const wanted = state.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = wanted;
}

const record = () => DATA[state.s];
const measured = () => record().servers.map((each) => each.server).filter((name) =>
  record().points[name].length || record().capacity[name] || record().faults.some((row) => row.server === name));
const visible = () => measured().filter((name) => !state.off.has(name));
const colour = (name) => { const at = measured().indexOf(name); return (isDark() ? DARK : COLOURS)[at % COLOURS.length]; };
const dash = (name) => DASHES[Math.floor(measured().indexOf(name) / COLOURS.length) % DASHES.length];
const title = (name) => { const found = record().servers.find((each) => each.server === name); return found && found.title ? found.title + (name.includes(":") ? " × " + name.split(":")[1] : "") : name; };

// Numbers as people read them.
function plain(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return size === 0 ? "0" : value.toPrecision(3).replace(/\.?0+$/, "");
}
const milliseconds = (us) => (us === null || us === undefined ? null : us / 1000);
function within(estimate) {
  if (!estimate) return "–";
  return plain(estimate.mid) + (estimate.low === null ? "" : ` (${plain(estimate.low)} – ${plain(estimate.high)})`);
}

// Elements without a template language.
function make(name, more = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(more)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function table(heads, rows) {
  const numeric = heads.map((_, n) => rows.length > 0 && rows.every((row) => typeof row[n] === "number" || /^[–\d.,%\s()]+$/.test(String(row[n] ?? "–"))) && n > 0);
  const wide = (length) => (length > 120 ? "longest" : length > 32 ? "long" : "");
  const cell = (kind, content, n) => make(kind, { class: numeric[n] ? "n" : kind === "td" ? wide(String(content?.textContent ?? content ?? "").length) : "", scope: kind === "th" ? "col" : null },
    content instanceof Node ? content : typeof content === "number" ? plain(content) : String(content ?? "–"));
  return make("div", { class: "scroll", tabindex: "0" }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((each, n) => cell("th", each, n)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((each, n) => cell("td", each, n)))))));
}

function choice(label, options, value, changed) {
  const select = make("select", { "aria-label": label, onchange: () => changed(select.value) },
    ...options.map(([key, text]) => make("option", { value: key }, text)));
  select.value = value;
  return select;
}

function figure(heading, { controls = [], note = "", rows = null, heads = null, wide = false } = {}) {
  const plot = make("div", { class: "plot" });
  const element = make("figure", { class: wide ? "wide" : "" },
    make("figcaption", {}, make("h3", {}, heading), ...controls), plot,
    note ? make("p", {}, note) : null,
    rows ? make("details", {}, make("summary", {}, "The same as a table"), table(heads, rows)) : null);
  return { element, plot };
}
