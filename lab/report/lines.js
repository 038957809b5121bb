"use strict";
// Line charts by uPlot: each line is named at its end, each point says whether it was measured in noise.

let plots = [];
// Drawn when all figures stand where they will stay: a chart takes its width from its figure.
let waiting = [];
const later = (drawing) => waiting.push(drawing);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const ink = () => css("--ink");
const lines = () => css("--line");
const FONT = "12px system-ui, sans-serif";
const NARROW = 560;

function size(element, height = 300) {
  return { width: Math.max(200, Math.floor(element.clientWidth)), height: innerWidth < NARROW ? Math.min(height, 240) : height };
}

const axis = (label, values, more = {}) => ({
  label, stroke: ink, grid: { stroke: lines, width: 1 }, ticks: { stroke: lines, width: 1 }, labelSize: 18, size: 52,
  font: FONT, labelFont: FONT,
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
function apart(points, width) {
  const kept = [], least = (points[points.length - 1] / points[0]) ** (40 / Math.max(width, 120));
  for (const each of points) if (!kept.length || each / kept[kept.length - 1] >= Math.max(least, 1.35)) kept.push(each);
  return kept;
}

const measuring = document.createElement("canvas").getContext("2d");
function textWidth(text, font = FONT) { measuring.font = font; return measuring.measureText(text).width; }
function shortened(text, width) {
  if (textWidth(text) <= width) return text;
  let kept = text;
  while (kept.length > 1 && textWidth(kept + "…") > width) kept = kept.slice(0, -1);
  return kept.trimEnd() + "…";
}

// Names at the ends of their lines, pushed apart where they would touch; those of few pixels' height get none.
function named(u, sets, room) {
  const ratio = devicePixelRatio, step = 14, top = u.bbox.top / ratio, bottom = (u.bbox.top + u.bbox.height) / ratio;
  const ends = [];
  u.series.slice(1).forEach((series, n) => {
    if (!series.show || !series.label) return;
    const data = u.data[n + 1];
    let at = data.length - 1;
    while (at >= 0 && (data[at] === null || data[at] === undefined)) at--;
    if (at < 0) return;
    const y = u.valToPos(data[at], "y");
    ends.push({ text: series.label, y: y + top, wanted: y + top, x: u.valToPos(u.data[0][at], "x") + u.bbox.left / ratio, colour: n < sets.length ? sets[n].colour || colour(sets[n].name) : css("--soft"), alpha: series.alpha ?? 1 });
  });
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, n) => { if (n && end.y < ends[n - 1].y + step) end.y = ends[n - 1].y + step; });
  const over = ends.length ? ends[ends.length - 1].y - Math.max(bottom, top + step * (ends.length - 1)) : 0;
  for (let n = ends.length - 1, limit = Infinity; over > 0 && n >= 0; n--) { ends[n].y = Math.min(ends[n].y - (n === ends.length - 1 ? over : 0), limit); limit = ends[n].y - step; }
  u.ctx.save(); u.ctx.setLineDash([]);
  u.ctx.font = `${12 * ratio}px system-ui, sans-serif`; u.ctx.textBaseline = "middle"; u.ctx.textAlign = "left";
  const left = (u.bbox.left + u.bbox.width) / ratio + 8;
  for (const end of ends) {
    u.ctx.globalAlpha = end.alpha; u.ctx.fillStyle = end.colour; u.ctx.strokeStyle = end.colour; u.ctx.lineWidth = ratio;
    u.ctx.beginPath(); u.ctx.moveTo((end.x + 5) * ratio, end.wanted * ratio); u.ctx.lineTo((left - 2) * ratio, end.y * ratio); u.ctx.stroke();
    u.ctx.fillText(shortened(end.text, room), left * ratio, end.y * ratio);
  }
  u.ctx.restore();
  u.labels = ends.map((end) => end.text);
}

// Points: full where all rounds were quiet, hollow where something else used the machine in one of them. Whiskers are intervals.
function marked(u, sets, big) {
  const ratio = devicePixelRatio;
  sets.forEach((set, n) => {
    if (!u.series[n + 1].show) return;
    u.ctx.save(); u.ctx.setLineDash([]); u.ctx.globalAlpha = u.series[n + 1].alpha ?? 1;
    u.ctx.strokeStyle = set.colour || colour(set.name); u.ctx.fillStyle = u.ctx.strokeStyle; u.ctx.lineWidth = 2 * ratio;
    set.x.forEach((at, k) => {
      if (set.y[k] === null || set.y[k] === undefined) return;
      const px = u.valToPos(at, "x", true), w = 4 * ratio;
      if (set.low && set.low[k] !== null && set.low[k] !== undefined) {
        const a = u.valToPos(set.low[k], "y", true), b = u.valToPos(set.high[k], "y", true);
        u.ctx.beginPath(); u.ctx.moveTo(px, a); u.ctx.lineTo(px, b); u.ctx.moveTo(px - w, a); u.ctx.lineTo(px + w, a); u.ctx.moveTo(px - w, b); u.ctx.lineTo(px + w, b); u.ctx.stroke();
      }
      if (!big) return;
      const hollow = set.noisy && set.noisy[k];
      u.ctx.beginPath(); u.ctx.arc(px, u.valToPos(set.y[k], "y", true), 4.5 * ratio, 0, 2 * Math.PI);
      if (hollow) { u.ctx.fillStyle = css("--card"); u.ctx.fill(); u.ctx.stroke(); u.ctx.fillStyle = u.ctx.strokeStyle; } else u.ctx.fill();
    });
    u.ctx.restore();
  });
}

const spread = (points) => points.length > 1 && points[0] > 0 && points[points.length - 1] / points[0] > 8;

// `sets`: [{name, x: [], y: [], low: [], high: [], noisy: []}] on a common x.
function lineChart(element, sets, { x, y, log = false, ideal = false, height = 300, values = null, gaps = false, logX = null, unnamed = false }) {
  if (!sets.some((set) => set.y.some((each) => each !== null))) {
    element.append(make("p", { class: "empty" }, "No point has samples enough for this, or none is ranked."));
    return;
  }
  const all = [...new Set(sets.flatMap((set) => set.x))].sort((a, b) => a - b);
  const byLog = logX === null ? gaps && spread(all) : logX;
  const columns = sets.map((set) => { const at = new Map(set.x.map((each, n) => [each, set.y[n]])); return all.map((each) => { const v = at.get(each); return v === undefined || (log && v !== null && v <= 0) ? null : v; }); });
  const series = sets.map((set) => ({ label: set.label || set.name, name: set.name, stroke: () => set.colour || colour(set.name), width: 2.5, dash: dash(set.name), spanGaps: !gaps, points: { show: false } }));
  const data = [all, ...columns];
  if (ideal) { data.push(all); series.push({ label: "all offered", stroke: () => css("--soft"), width: 2, dash: [2, 4], points: { show: false } }); }
  const measures = size(element, height);
  // Names take a third of the width at most: on a phone they are shortened, and the legend has them whole.
  const room = unnamed ? 0 : Math.min(Math.max(...series.map((each) => textWidth(each.label))) + 4, Math.floor(measures.width * 0.32));
  const tallest = Math.max(0, ...sets.flatMap((set) => (set.high || []).filter((each) => each !== null && each !== undefined)));
  const one = all.length === 1;
  const plot = new uPlot({
    ...measures, padding: [14, unnamed ? 18 : room + 12, 0, 0],
    legend: { show: false }, focus: { alpha: 0.25 }, cursor: { focus: { prox: 24 }, drag: { x: true, y: false } },
    scales: { x: { time: false, distr: byLog ? 3 : 1, range: one ? () => [all[0] * 0.5, all[0] * 1.5 || 1] : byLog ? (_, low, high) => [low / 1.15, high * 1.15] : gaps ? (_, low, high) => [low - (high - low) * 0.04, high + (high - low) * 0.04] : undefined }, y: log ? { distr: 3 } : { range: (_, low, high) => [0, Math.max(high, tallest) * 1.08 || 1] } },
    axes: [axis(x, values, { size: 36, ...(byLog ? { splits: () => apart(all, measures.width - room), filter: (_, splits) => splits } : {}) }), axis(y, log ? decades : null)],
    series: [{}, ...series], hooks: { draw: [(u) => marked(u, sets, gaps), (u) => { if (!unnamed) named(u, sets, room); }], setCursor: [tip] },
  }, data, element);
  plot.root.setAttribute("role", "img"); plot.root.setAttribute("aria-label", `${y} by ${x}; the table below has the figures`);
  plot.noisy = sets.map((set) => set.noisy || null);
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
