"use strict";
// Charts that are no lines: stacked errors and bars as SVG, heat maps on a canvas. Each is drawn anew when the reader chooses.

// Kinds of errors have no colour, for colours are servers: greys and hatches, which print, too.
const HATCHES = [
  '<rect width="8" height="8" fill="currentColor" fill-opacity=".85"/>',
  '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4" stroke="currentColor" stroke-width="1.6"/>',
  '<rect width="8" height="8" fill="currentColor" fill-opacity=".4"/>',
  '<path d="M-2 6l4 4M0 0l8 8M6-2l4 4" stroke="currentColor" stroke-width="1.6"/>',
  '<circle cx="2" cy="2" r="1.4" fill="currentColor"/><circle cx="6" cy="6" r="1.4" fill="currentColor"/>',
  '<path d="M0 2h8M0 6h8" stroke="currentColor" stroke-width="1.4"/>',
  '<path d="M2 0v8M6 0v8" stroke="currentColor" stroke-width="1.4"/>',
  '<path d="M0 0l8 8M8 0l-8 8" stroke="currentColor" stroke-width="1.1"/>',
];
const hatch = (n) => `url(#hatch-${n % HATCHES.length})`;
function hatches() {
  if (document.getElementById("hatches")) return;
  const box = make("div", { id: "hatches", "aria-hidden": "true" });
  box.innerHTML = `<svg width="0" height="0"><defs>${HATCHES.map((inner, n) => `<pattern id="hatch-${n}" width="8" height="8" patternUnits="userSpaceOnUse">${inner}</pattern>`).join("")}</defs></svg>`;
  document.body.append(box);
}

// Errors stacked by kind: a small chart for each server, with one scale for all.
function errorBars(element, servers, points, kinds) {
  const most = Math.max(...servers.flatMap((name) => points[name].map((row) => (row.failed_share || 0) * 100)), 0);
  if (!most) { element.append(make("p", { class: "empty" }, "No request failed at any ranked point.")); return; }
  hatches();
  const scale = Math.min(100, most * 1.1), box = make("div", { class: "bars" });
  for (const name of servers) {
    const rows = points[name], width = 300, height = 120, left = 34, step = (width - left) / Math.max(rows.length, 1);
    let inner = `<text x="0" y="10">${plain(scale)} %</text><text x="0" y="${height - 18}">0</text><line x1="${left}" y1="${height - 20}" x2="${width}" y2="${height - 20}" stroke="currentColor"/>`;
    rows.forEach((row, n) => {
      let y = height - 20;
      for (const kind of kinds) {
        const share = row.started ? (100 * (row.errors[kind] || 0)) / row.started : 0;
        const h = Math.min((share / scale) * (height - 28), y);
        if (h > 0) { y -= h; inner += `<rect x="${left + n * step + 2}" y="${y}" width="${Math.max(step - 4, 2)}" height="${h}" fill="${hatch(kinds.indexOf(kind))}" stroke="currentColor" stroke-width=".8"><title>${kind.replace(/_/g, " ")}: ${plain(share)} %</title></rect>`; }
      }
      inner += `<text x="${left + (n + 0.5) * step}" y="${height - 6}" text-anchor="middle">${short(row.point)}${row.noisy ? " ○" : ""}</text>`;
    });
    const svg = make("div", {}); svg.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Errors of ${name}">${inner}</svg>`;
    box.append(make("div", {}, make("strong", {}, title(name)), svg));
  }
  element.append(box, make("div", { class: "keys" }, ...kinds.map((kind, n) => { const i = make("i"); i.innerHTML = `<svg width="14" height="14"><rect width="14" height="14" fill="${hatch(n)}" stroke="currentColor"/></svg>`; return make("span", {}, i, kind.replace(/_/g, " ")); })));
}

// One hue from paper to ink, so that it reads without colour: logarithm of the count.
function heatMap(element, data, edges) {
  const rows = edges.length - 1, columns = data.second.length, most = Math.max(...data.heat.flat(), 1);
  const used = [...Array(rows).keys()].filter((row) => data.heat.some((column) => column[row]));
  if (!used.length) { element.append(make("p", { class: "empty" }, "No reply in this point.")); return; }
  const low = Math.max(0, used[0] - 1), high = Math.min(rows, used[used.length - 1] + 2);
  const labels = edges.map((each) => (each >= 1e6 ? +(each / 1e6).toPrecision(2) + " s" : +(each / 1000).toPrecision(2) + " ms"));
  const width = Math.max(200, Math.floor(element.clientWidth)), height = 240, left = 14 + Math.max(...labels.slice(low, high + 1).map((each) => textWidth(each))), bottom = 34, ratio = devicePixelRatio || 1;
  const canvas = make("canvas", { role: "img", "aria-label": "Response time over time: darker is more replies" });
  element.dataset.left = left;
  canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = height + "px";
  const ctx = canvas.getContext("2d"); ctx.scale(ratio, ratio);
  const w = (width - left) / columns, h = (height - bottom) / (high - low);
  data.heat.forEach((column, n) => column.forEach((count, row) => {
    if (!count || row < low || row >= high) return;
    const share = 0.12 + 0.88 * (Math.log(count + 1) / Math.log(most + 1));
    ctx.fillStyle = isDark() ? `rgba(140,208,245,${share})` : `rgba(0,70,130,${share})`;
    ctx.fillRect(left + n * w, height - bottom - (row - low + 1) * h, Math.ceil(w), Math.ceil(h));
  }));
  ctx.fillStyle = ink(); ctx.font = "12px system-ui, sans-serif"; ctx.textAlign = "right";
  for (let row = low; row < high; row += Math.max(1, Math.round((high - low) / 7))) ctx.fillText(labels[row], left - 6, height - bottom - (row - low) * h + 4);
  ctx.textAlign = "center";
  const every = Math.max(1, Math.ceil(columns / Math.floor((width - left) / 50)));
  for (let n = 0; n < columns; n += every) ctx.fillText(data.second[n] + " s", left + (n + 0.5) * w, height - bottom + 16);
  element.classList.add("heat"); element.append(canvas);
}

// Who, how much, how sure: a bar for each server with its interval, one scale for all. Boxes and no SVG: they fold on a phone.
function answerBars(told) {
  const most = Math.max(...told.rows.map((row) => row.high ?? row.mid), 1e-9), list = make("ol", { class: "answer" });
  told.rows.forEach((row, n) => {
    const share = (value) => `${Math.max(0, (100 * value) / most).toFixed(2)}%`;
    const bar = make("div", { class: "bar", "aria-hidden": "true" }), fill = make("i");
    fill.style.width = share(row.mid); fill.style.background = colour(row.server); bar.append(fill);
    if (row.low !== null) { const span = make("b"); span.style.left = share(row.low); span.style.width = `calc(${share(row.high - row.low)} + 1px)`; bar.append(span); }
    const much = make("span", { class: "much" }, make("strong", {}, plain(row.mid)), ` ${told.words}`, row.low === null ? "" : make("span", { class: "soft" }, ` (${plain(row.low)} – ${plain(row.high)})`));
    const marks = [n === 0 ? "" : stands(row), row.noisy ? `○ noisy in ${row.noisy} of ${row.measured} rounds` : "", row.lower_bound ? "at least: the load engine was at its limit" : ""].filter(Boolean);
    list.append(make("li", { "data-name": row.server }, make("span", { class: "who" }, row.title), bar, much, make("span", { class: "sure" }, marks.join(" · "))));
  });
  return list;
}
// How long requests take, shortest first, by powers of ten: what starves takes a thousand times as long, and what does not is to be seen beside it.
function waitBars(rows) {
  const times = rows.map((row) => Math.log10(row.us)), least = Math.min(...times) - 0.3, span = Math.max(...times) - least;
  const list = make("ol", { class: "answer waits" });
  rows.forEach((row, n) => {
    const bar = make("div", { class: "bar", "aria-hidden": "true" }), fill = make("i");
    fill.style.width = `${((100 * (times[n] - least)) / span).toFixed(2)}%`; fill.style.background = colour(row.name); bar.append(fill);
    list.append(make("li", { "data-name": row.name }, make("span", { class: "who" }, title(row.name)), bar, make("span", { class: "much" }, make("strong", {}, plain(milliseconds(row.us))), " ms"), make("span", { class: "sure" }, row.said)));
  });
  return list;
}
function stands(row) {
  if (row.ratio === null || row.ratio === undefined) return row.verdict || "";
  const times = `${plain(row.ratio)} × the first`;
  if (row.sure === null) return `${times}: too few rounds to tell`;
  return row.sure ? `${times}: told apart` : `${times}: cannot be told apart`;
}
