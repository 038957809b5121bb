"use strict";
// Charts: lines by uPlot, stacked errors as SVG, heat maps on a canvas. Each is drawn anew when the reader chooses.

let plots = [];
// Drawn when all figures stand where they will stay: a chart takes its width from its figure.
let waiting = [];
const later = (drawing) => waiting.push(drawing);
const ink = () => getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
const lines = () => getComputedStyle(document.documentElement).getPropertyValue("--line").trim();

function size(element, height = 300) {
  return { width: Math.max(260, element.clientWidth), height: innerWidth < 600 ? 240 : height };
}

const axis = (label, values, more = {}) => ({
  label, stroke: ink, grid: { stroke: lines, width: 1 }, ticks: { stroke: lines, width: 1 }, labelSize: 18, size: 56,
  font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
  values: values || ((_, splits) => splits.map((each) => (each === null ? "" : short(each)))), ...more,
});
function short(value) {
  if (Math.abs(value) >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  if (Math.abs(value) >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
  return String(+value.toPrecision(4));
}
// On a logarithmic axis only 1, 2, 5 of a decade are named.
const decades = (_, splits) => splits.map((each) => (each && [1, 2, 5].includes(+(each / 10 ** Math.floor(Math.log10(each) + 1e-9)).toFixed(3)) ? short(each) : ""));

// On a logarithmic x the measured points are named themselves, as far as they do not touch.
function apart(points) {
  const kept = [];
  for (const each of points) if (!kept.length || each / kept[kept.length - 1] >= 1.35) kept.push(each);
  return kept;
}

// `sets`: [{name, x: [], y: [], low: [], high: []}] on a common x, drawn with 95 % intervals as whiskers.
function lineChart(element, sets, { x, y, log = false, logX = false, ideal = false, height = 300, values = null, gaps = false }) {
  if (!sets.some((set) => set.y.some((each) => each !== null))) {
    element.append(make("p", { class: "empty" }, "No point has samples enough for this, or none is ranked."));
    return;
  }
  const all = [...new Set(sets.flatMap((set) => set.x))].sort((a, b) => a - b);
  const columns = sets.map((set) => { const at = new Map(set.x.map((each, n) => [each, set.y[n]])); return all.map((each) => { const v = at.get(each); return v === undefined || (log && v !== null && v <= 0) ? null : v; }); });
  const series = sets.map((set) => ({ label: set.label || set.name, name: set.name, stroke: () => set.colour || colour(set.name), width: 3, dash: dash(set.name), spanGaps: !gaps, points: { show: set.x.length < 40, size: 8 } }));
  const data = [all, ...columns];
  if (ideal) { data.push(all); series.push({ label: "all that was offered", stroke: lines, width: 2, dash: [2, 4], points: { show: false } }); }
  const whiskers = (u) => sets.forEach((set, n) => {
    if (!set.low || !u.series[n + 1].show) return;
    u.ctx.save(); u.ctx.strokeStyle = set.colour || colour(set.name); u.ctx.lineWidth = 2 * devicePixelRatio;
    set.x.forEach((at, k) => {
      if (set.low[k] === null || set.low[k] === undefined) return;
      const px = u.valToPos(at, "x", true), a = u.valToPos(set.low[k], "y", true), b = u.valToPos(set.high[k], "y", true), w = 4 * devicePixelRatio;
      u.ctx.beginPath(); u.ctx.moveTo(px, a); u.ctx.lineTo(px, b); u.ctx.moveTo(px - w, a); u.ctx.lineTo(px + w, a); u.ctx.moveTo(px - w, b); u.ctx.lineTo(px + w, b); u.ctx.stroke();
    });
    u.ctx.restore();
  });
  const one = all.length === 1;
  const plot = new uPlot({
    ...size(element, height),
    legend: { show: false }, focus: { alpha: 0.25 }, cursor: { focus: { prox: 24 }, drag: { x: true, y: false } },
    scales: { x: { time: false, distr: logX ? 3 : 1, range: one ? () => [all[0] * 0.5, all[0] * 1.5 || 1] : logX ? (_, low, high) => [low / 1.15, high * 1.15] : undefined }, y: log ? { distr: 3 } : { range: (_, low, high) => [0, high * 1.08 || 1] } },
    axes: [axis(x, values, { size: 40, ...(logX ? { splits: () => apart(all), filter: (_, splits) => splits } : {}) }), axis(y, log ? decades : null)],
    series: [{}, ...series], hooks: { draw: [whiskers], setCursor: [tip] },
  }, data, element);
  plot.root.setAttribute("role", "img"); plot.root.setAttribute("aria-label", `${y} by ${x}; the table below has the figures`);
  plot.tip = make("p", {}, " "); plot.units = { x, y }; element.after(plot.tip);
  plots.push(plot);
}

function tip(u) {
  const at = u.cursor.idx;
  if (!u.tip) return;
  if (at === null || at === undefined) { u.tip.textContent = " "; return; }
  const said = u.series.slice(1).map((series, n) => (series.name && u.data[n + 1][at] !== null && u.data[n + 1][at] !== undefined ? `${series.label} ${plain(u.data[n + 1][at])}` : null)).filter(Boolean);
  u.tip.textContent = `${plain(u.data[0][at])} ${u.units.x}: ${said.join(" · ")}`;
}

function highlight(name) {
  for (const plot of plots) {
    const at = name === null ? null : plot.series.findIndex((series) => series.name === name);
    plot.setSeries(at === null || at < 0 ? null : at, { focus: true });
  }
}

// Errors stacked by kind: a small chart for each server, with one scale for all.
function errorBars(element, servers, points, kinds) {
  const most = Math.max(...servers.flatMap((name) => points[name].map((row) => (row.failed_share || 0) * 100)), 0);
  if (!most) { element.append(make("p", { class: "empty" }, "No request failed at any ranked point.")); return; }
  const scale = Math.min(100, most * 1.1), box = make("div", { class: "bars" });
  for (const name of servers) {
    const rows = points[name], width = 300, height = 120, left = 34, step = (width - left) / Math.max(rows.length, 1);
    let inner = `<text x="0" y="10">${plain(scale)} %</text><text x="0" y="${height - 18}">0</text><line x1="${left}" y1="${height - 20}" x2="${width}" y2="${height - 20}" stroke="currentColor"/>`;
    rows.forEach((row, n) => {
      let y = height - 20;
      for (const kind of kinds) {
        const share = row.started ? (100 * (row.errors[kind] || 0)) / row.started : 0;
        const h = Math.min((share / scale) * (height - 28), y);
        if (h > 0) { y -= h; inner += `<rect x="${left + n * step + 2}" y="${y}" width="${Math.max(step - 4, 2)}" height="${h}" fill="${KINDS[kinds.indexOf(kind) % KINDS.length]}" stroke="currentColor" stroke-width=".5"><title>${kind.replace(/_/g, " ")}: ${plain(share)} %</title></rect>`; }
      }
      inner += `<text x="${left + (n + 0.5) * step}" y="${height - 6}" text-anchor="middle">${short(row.point)}</text>`;
    });
    const svg = make("div", {}); svg.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Errors of ${name}">${inner}</svg>`;
    box.append(make("div", {}, make("strong", {}, title(name)), svg));
  }
  element.append(box, make("div", { class: "keys" }, ...kinds.map((kind, n) => { const i = make("i"); i.style.background = KINDS[n % KINDS.length]; return make("span", {}, i, kind.replace(/_/g, " ")); })));
}

// One hue from paper to ink, so that it reads without colour: logarithm of the count.
function heatMap(element, data, edges) {
  const rows = edges.length - 1, columns = data.second.length, most = Math.max(...data.heat.flat(), 1);
  const used = [...Array(rows).keys()].filter((row) => data.heat.some((column) => column[row]));
  if (!used.length) { element.append(make("p", { class: "empty" }, "No reply in this point.")); return; }
  const low = Math.max(0, used[0] - 1), high = Math.min(rows, used[used.length - 1] + 2);
  const width = Math.max(260, element.clientWidth), height = 240, left = 60, bottom = 34, ratio = devicePixelRatio || 1;
  const canvas = make("canvas", { role: "img", "aria-label": "Response time over time: darker is more replies" });
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
  for (let row = low; row < high; row += Math.max(1, Math.round((high - low) / 7))) ctx.fillText(plain(edges[row] / 1000) + " ms", left - 6, height - bottom - (row - low) * h + 4);
  ctx.textAlign = "center";
  const every = Math.max(1, Math.ceil(columns / Math.floor((width - left) / 50)));
  for (let n = 0; n < columns; n += every) ctx.fillText(data.second[n] + " s", left + (n + 0.5) * w, height - bottom + 16);
  element.classList.add("heat"); element.append(canvas);
}

// Bars with whiskers, for one figure a server.
function rankBars(element, rows, unit) {
  const most = Math.max(...rows.map((row) => row.high ?? row.mid), 1), width = 700, bar = 26;
  let inner = "";
  rows.forEach((row, n) => {
    const y = n * bar + 4, scale = (value) => 220 + (value / most) * (width - 310), fill = colour(row.name);
    inner += `<text x="212" y="${y + 14}" text-anchor="end">${title(row.name).replace(/[<&]/g, "")}</text><rect x="220" y="${y}" width="${scale(row.mid) - 220}" height="18" fill="${fill}"/>`;
    if (row.low !== null) inner += `<path d="M${scale(row.low)} ${y + 9}H${scale(row.high)}M${scale(row.low)} ${y + 4}v10M${scale(row.high)} ${y + 4}v10" stroke="currentColor" stroke-width="2" fill="none"/>`;
    inner += `<text x="${scale(row.high ?? row.mid) + 6}" y="${y + 14}">${plain(row.mid)} ${unit}</text>`;
  });
  const box = make("div", { class: "scroll" }); box.innerHTML = `<svg viewBox="0 0 ${width} ${rows.length * bar + 8}" style="min-width:520px;width:100%" role="img" aria-label="One bar a server">${inner}</svg>`;
  element.append(box);
}
