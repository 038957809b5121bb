"use strict";
// What stands on the page, in its order: charts, tables, what was not measured, how it was done, the raw data.

const numbers = (rows, metric, part = "mid") => rows.map((row) => (row[metric] ? row[metric][part] : null));
const redraw = (changes) => { Object.assign(state, changes); writeAddress(); draw(); };

// What the page begins with: who, how much, how sure; and what makes that doubtful.
function answer() {
  const told = record().answer;
  if (!told.rows.length) return make("section", { id: "answer" }, make("p", { class: "said-first" }, told.said), ...told.doubts.map((each) => make("p", { class: "warning" }, each)));
  // Beside the bars: what else was measured at the same point.
  const more = [["replies_per_s", "replies/s"], ["p99_ms", "99 %, ms"], ["cpu_us_per_request", "CPU, µs a request"], ["pss_mib", "memory, MiB"], ["holds", "holds, requests/s"]]
    .filter(([key]) => key !== told.key && told.rows.some((row) => row[key] !== undefined && row[key] !== null));
  const failed = told.rows.some((row) => row.failed_share !== undefined);
  const heads = ["server", ...more.map(([, head]) => head), ...(failed ? ["failed"] : []), "rounds", "noisy"];
  const rows = told.rows.map((row) => [row.title, ...more.map(([key]) => row[key]), ...(failed ? [row.failed_share === null ? "–" : `${plain(100 * row.failed_share)} %`] : []), row.rounds === row.measured ? row.rounds : `${row.rounds} of ${row.measured}`, row.noisy || "–"]);
  const capacity = told.figure === "capacity" ? "The highest rate with at most 0.1 % errors and a 99th percentile of at most 100 ms, found by halving. " : "";
  const note = capacity + "Median over rounds, with its 95 % interval. “Told apart” is by rounds in which both ran, at 5 %." + (heads.includes("holds, requests/s") ? " A server holds a rate up to which at most 0.1 % of requests fail and the 99th percentile is at most 100 ms." : "");
  return make("section", { id: "answer" }, make("p", { class: "said-first" }, told.said), ...told.doubts.map((each) => make("p", { class: "warning" }, each)), answerBars(told), table(heads, rows), make("p", { class: "said" }, note));
}

function sweeps(grid) {
  const r = record(), shownNow = visible(), unit = r.manifest.unit;
  const noisy = (name) => r.points[name].map((row) => row.noisy);
  const sets = (metric) => shownNow.map((name) => ({ name, label: title(name), x: r.points[name].map((row) => row.point), y: numbers(r.points[name], metric), low: numbers(r.points[name], metric, "low"), high: numbers(r.points[name], metric, "high"), noisy: noisy(name) }));
  const rowsOf = (cell) => shownNow.flatMap((name) => r.points[name].map((row) => [title(name), row.point, ...cell(row)]));
  const chart = (heading, metric, options, note) => {
    const { element, plot } = figure(heading, { note, heads: ["server", unit, "median (95 % interval)", "rounds that count"], rows: rowsOf((row) => [within(row[metric]), `${row.ranked} of ${row.rounds}${row.noisy ? `, ${row.noisy} noisy` : ""}`]) });
    grid.append(element); later(() => lineChart(plot, sets(metric), { x: unit, gaps: true, ...options }));
  };
  chart("Reply rate", "replies/s", { y: "replies/s", ideal: r.manifest.scenario_kind === "sweep" }, "Median over rounds; whiskers are the 95 % interval. A hollow point was noisy in a round or more: something else used the machine.");
  const names = { 50: "median", 90: "90 %", 95: "95 %", 99: "99 %", 99.9: "99.9 %", max: "longest" };
  const picked = choice("Percentile", Object.entries(names), state.p, (p) => redraw({ p }));
  const times = figure("Response time", { controls: [picked], note: "From the planned start to the last byte; all rounds merged. A percentile stands only where ten samples lie beyond it.", heads: ["server", unit, ...Object.values(names).map((each) => each + ", ms"), "service time, 99 %, ms"], rows: rowsOf((row) => [...Object.keys(names).map((p) => milliseconds(row.response[p])), milliseconds(row.service["99"])]) });
  grid.append(times.element);
  later(() => lineChart(times.plot, shownNow.map((name) => ({ name, label: title(name), x: r.points[name].map((row) => row.point), y: r.points[name].map((row) => milliseconds(row.response[state.p])), noisy: noisy(name) })), { x: unit, y: `ms, ${names[state.p] || state.p}`, log: true, gaps: true }));
  const kinds = [...new Set(shownNow.flatMap((name) => r.points[name].flatMap((row) => Object.keys(row.errors))))].sort();
  const errors = figure("Errors by kind", { wide: true, note: `Share of requests that failed, by ${unit}. The same scale for all servers; kinds are told by hatches, ○ is noisy.`, heads: ["server", unit, "failed", "kinds"], rows: rowsOf((row) => [row.failed_share === null ? "–" : plain(100 * row.failed_share) + " %", Object.entries(row.errors).map(([kind, n]) => `${kind.replace(/_/g, " ")} ${plain(n)}`).join(", ") || "none"]) });
  grid.append(errors.element); later(() => errorBars(errors.plot, shownNow, r.points, kinds));
  const agreed = shownNow.flatMap((name) => r.points[name].filter((row) => row.tls).map((row) => [title(name), row.point, row.tls.handshakes, row.tls.resumed, ...["50", "99", "max"].map((p) => milliseconds(row.tls.times[p]))]));
  if (agreed.length) {
    const { element, plot } = figure("Handshakes of TLS", { wide: true, note: "Over all rounds; from connected to agreed, as the client sees it, its own share included. A resumed one goes on from an earlier connection, by a ticket." });
    plot.append(table(["server", unit, "handshakes", "resumed", "median, ms", "99 %, ms", "longest, ms"], agreed)); grid.append(element);
  }
  chart("CPU per request", "CPU us/request", { y: "µs" }, "User and system time of the whole tree of the server's processes, fronts included.");
  chart("Memory", "PSS MiB", { y: "MiB" }, "The most that a sample saw, over all processes, pages that are shared counted once.");
}

function pointChoice(names) {
  const r = record(), points = [...new Set(names.flatMap((name) => r.points[name].map((row) => String(row.point))))].sort((a, b) => a - b);
  if (!points.includes(state.at)) state.at = points[points.length - 1] ?? null;
  return [points, choice("Point", points.map((each) => [each, `${plain(+each)} ${r.manifest.unit}`]), state.at, (at) => redraw({ at }))];
}

function details(grid) {
  const r = record(), names = visible();
  if (!names.some((name) => r.points[name].length)) return;
  const find = (name) => r.points[name].find((row) => String(row.point) === state.at);
  const spectrum = figure("Percentile spectrum", { controls: [pointChoice(names)[1]], note: "Right is rarer: “1 of 100” is the 99th percentile. Ends where ten samples are left.", heads: ["server", "slower than this: share", "ms"], rows: names.flatMap((name) => (find(name)?.spectrum || []).filter((_, n) => n % 6 === 0).map(([share, us]) => [title(name), plain(share), us / 1000])) });
  grid.append(spectrum.element);
  later(() => lineChart(spectrum.plot, names.filter(find).map((name) => ({ name, label: title(name), x: find(name).spectrum.map(([share]) => -Math.log10(share)), y: find(name).spectrum.map(([, us]) => us / 1000) })), { x: "share of requests that took longer", y: "ms", log: true, values: (_, splits) => splits.map((each) => (Number.isInteger(each) ? (each === 0 ? "all" : (innerWidth < NARROW ? "1/" : "1 of ") + short(10 ** each)) : "")) }));
  const timed = names.filter((name) => r.time[name][state.at]);
  if (!timed.includes(state.of)) state.of = timed[0] ?? null;
  if (state.of) {
    const data = r.time[state.of][state.at];
    const map = figure("Response time over time", { controls: [choice("Server", timed.map((each) => [each, title(each)]), state.of, (of) => redraw({ of })), pointChoice(names)[1]], note: "Darker is more replies, by logarithm; all rounds merged. A pause of the server is a stair.", heads: ["second", "median, ms", "99 %, ms", "replies", "failed"], rows: data.second.map((second, n) => [second, milliseconds(data.p50[n]), milliseconds(data.p99[n]), data.replies[n], data.failed[n]]) });
    grid.append(map.element); later(() => heatMap(map.plot, data, r.heat_edges_us));
  }
  const source = (name, samples) => (samples ? r.time[name][state.at].samples : r.time[name][state.at]);
  const charts = [["Response time, 99 %", "ms", "p99", false], ["Open connections", "connections", "open", false], ["Memory", "MiB (PSS)", "mib", true], ["CPU", "% of a processor", "cpu", true], ["Load of the machine", "load average", "load", true], ["Free memory of the machine", "MiB", "free", true]]
    .filter(([, , column]) => ["sessions", "sweep"].includes(r.manifest.scenario_kind) || ["mib", "cpu", "p99"].includes(column))
    .filter(([, , column, samples]) => timed.some((name) => source(name, samples)[column].filter((each) => each !== null).length > (samples ? 0 : 1)));
  if (!timed.length) return;
  const rows = timed.flatMap((name) => { const own = source(name, true); return own.t.map((at, n) => [title(name), at, own.mib[n], own.cpu[n], own.load[n], own.free[n]]).filter((_, n) => n % 10 === 0); });
  const { element, plot } = figure(`Over time, at ${plain(+state.at)} ${r.manifest.unit}`, { wide: true, controls: [pointChoice(names)[1]], note: "The round in the middle; the server's memory and processor time by five samples a second. Colours are those of the legend.", heads: ["server", "second", "memory, MiB", "CPU, %", "load average", "free, MiB"], rows });
  const box = make("div", { class: "multiples" });
  plot.append(box); grid.append(element);
  for (const [heading, y, column, samples] of charts) {
    const small = make("div", { class: "plot" });
    box.append(make("div", {}, make("h4", {}, heading), small));
    later(() => lineChart(small, timed.map((name) => ({ name, label: title(name), x: source(name, samples)[samples ? "t" : "second"], y: source(name, samples)[column].map((each) => (column === "p99" ? milliseconds(each) : each)) })), { x: "seconds", y, height: 170, log: column === "p99", unnamed: true }));
  }
}

// Of loads that run beside one another: how long the first waits for the others.
function starves(grid) {
  const r = record(), names = visible();
  if (!names.some((name) => r.points[name].some((row) => row.beside.length))) return;
  const control = pointChoice(names)[1], at = (name) => r.points[name].find((row) => String(row.point) === state.at);
  const said = (row) => [`${within(row["replies/s"])} replies/s`, ...row.beside.map((other) => `${other.name}: ${within(other.rate)} replies/s, 99 % within ${plain(milliseconds(other.response["99"]))} ms`)].join("; ");
  const rows = names.filter((name) => at(name)?.response["99"]).map((name) => ({ name, us: at(name).response["99"], said: said(at(name)) })).sort((a, b) => a.us - b.us);
  if (!rows.length) return;
  const { element, plot } = figure("Who starves", { wide: true, controls: [control], note: "How long 99 of 100 requests of the fast view take beside the slow one; the scale is by powers of ten. All rounds merged." });
  plot.append(waitBars(rows)); grid.append(element);
}

function compare(grid) {
  const r = record(), names = visible();
  const best = (name) => r.points[name].filter((row) => row["replies/s"]).reduce((a, row) => (!a || row["replies/s"].mid > a["replies/s"].mid ? row : a), null);
  if (r.manifest.history.length) {
    const { element, plot } = figure("The article's figures beside ours", { wide: true, note: r.manifest.source + ". History, on machines of that day; neither a target nor comparable in absolute terms." });
    const ours = (name) => { const top = r.points[name] ? best(name) : null; return top ? `${within(top["replies/s"])} at ${plain(top.point)} ${r.manifest.unit}` : "not measured here"; };
    plot.append(table(["server", `the article: ${r.manifest.history_unit}`, "ours: replies/s at the point with the highest median"], r.manifest.history.map((row) => [title(row.server), row.value, ours(row.server)])));
    grid.append(element);
  }
  const mixed = names.flatMap((name) => r.points[name].flatMap((row) => row.beside.map((other) => [title(name), row.point, within(row["replies/s"]), milliseconds(row.response["99"]), other.name, within(other.rate), milliseconds(other.response["99"]), other.failed])));
  if (mixed.length) {
    const { element, plot } = figure("Beside one another", { wide: true });
    plot.append(table(["server", "connections", "fast: replies/s", "fast: 99 %, ms", "beside", "its replies/s", "its 99 %, ms", "its failures"], mixed)); grid.append(element);
  }
  const proved = names.flatMap((name) => r.points[name].filter((row) => row.hits !== null).map((row) => [title(name), row.point, row.started, row.replies, row.hits, row.hits >= row.replies && row.hits <= row.started ? make("span", { class: "yes" }, "proved") : make("span", { class: "no" }, "not proved")]));
  if (proved.length) {
    const { element, plot } = figure("Did Python run for each reply?", { wide: true, note: "The application appends a byte to a file for each call; the file's size is compared with the count of the client." });
    plot.append(table(["server", "point", "requests sent", "good replies", "calls of the application", ""], proved)); grid.append(element);
  }
}

function durability(grid) {
  const r = record(), names = visible();
  if (!r.faults.length) return;
  const expected = Object.fromEntries(r.manifest.faults.map((each) => [each.target, each.expected]));
  const { element, plot } = figure("Durability: what goes wrong, and whom it costs", { wide: true, note: "Harmless requests go on meanwhile; collateral is what of them was lost. `worst` is the longest of them." });
  for (const target of Object.keys(expected)) {
    const rows = r.faults.filter((row) => row.target === target && names.includes(row.server));
    if (!rows.length) continue;
    plot.append(make("h3", {}, target), make("p", { class: "said" }, "Expected: " + expected[target]), table(["server", "who asked for it got", "collateral losses", "worst, ms", "answers again", "processes replaced", "memory grew, MiB", "the machine"], rows.map((row) => [title(row.server), row.told.join("; "),
      Object.entries(row.collateral).map(([kind, n]) => `${kind.replace(/_/g, " ")} ${n}`).join(", ") + (Object.keys(row.collateral).length ? ` of ${row.started}` : "none"), row.worst_ms,
      row.back_s === null ? make("span", { class: "no" }, row.died.length ? "never: " + row.died.join("; ") : "not within 5 s") : make("span", { class: "yes" }, row.back_s < 0.1 ? "at once" : `after ${row.back_s} s`), row.replaced, row.grown_mib, row.marks.join("; ") || "quiet"])));
  }
  grid.append(element);
}

function manifest(grid) {
  const r = record(), m = r.manifest;
  const box = (heading, ...inside) => { const { element, plot } = figure(heading, { wide: true }); plot.append(...inside); grid.append(element); };
  const absent = r.servers.filter((each) => each.why || each.verified === null || each.verified?.why || each.verified?.differences.length);
  if (absent.length) box("Not measured, and why", table(["server", "why"], absent.map((each) => [each.title || each.server, each.why || each.verified?.why || (each.verified ? "answers wrongly: " + each.verified.differences.join("; ") : "the run ended before its turn")])));
  if (r.lost.length) box("Lost, and what would not end", table(["server", "round", "what happened", "last words"], r.lost.map((each) => [title(each.server), each.round, each.why, each.log || "–"])));
  const word = { true: make("span", { class: "yes" }, "kept"), false: make("span", { class: "no" }, "not kept"), null: "does not apply" };
  box("Checklist", make("p", { class: "said" }, "We wrote one of the contestants. What a sceptic should ask of a comparison, and what this record answers:"), table(["", "", ""], r.checks.map((each) => [word[String(each.fine)].cloneNode ? word[String(each.fine)].cloneNode(true) : word[String(each.fine)], each.what, each.said])));
  if (r.hosts.length) box("Hosts of the load", make("p", { class: "said" }, "Each drove its part of every point, from one planned moment on; clocks by round trips to the lab, within half of the quickest. Histograms are merged bucket for bucket."), table(["host", "engine", "processors", "system", "points", "started", "replies", "failed", "clock known to, ms", "began off plan by at most, ms", "verdicts"], r.hosts.map((each) => [each.host + (each.here ? " (this very machine)" : ""), each.engine, each.processors, `${each.machine}, ${each.kernel}`, each.points, each.started ?? "–", each.replies ?? "–", each.failed ?? "–", `± ${each.uncertainty_ms ?? each.uncertainty_s * 1000}`, each.off_plan_ms ?? "–", Object.entries(each.verdicts || {}).map(([verdict, n]) => `${verdict.replace(/_/g, " ")} ${n}`).join(", ")])));
  const words = (each, wanted) => Object.entries(each.verified?.capabilities || {}).filter(([, yes]) => yes === wanted).map(([name]) => r.abilities[name] || name.replace(/_/g, " ")).join(", ");
  const can = (each) => [words(each, true) && `does: ${words(each, true)}`, words(each, false) && `does not: ${words(each, false)}`].filter(Boolean).join("; ") || "–";
  box("Servers", table(["server", "name", "era", "flavour", "workers", "Python", "versions", "what it does, seen", "start, s"], r.servers.filter((each) => each.title).map((each) => [each.title, each.server, each.era, each.flavour, each.workers, each.python || "–", each.versions.join(" ") || each.pinned.join(" ") || "the system's", can(each), r.starts[each.server]])));
  const marks = measured().flatMap((name) => r.points[name].flatMap((row) => row.marks.map((mark) => [title(name), row.point, mark])));
  if (marks.length) { const all = make("details", {}, make("summary", {}, `${marks.length} marks`), table(["server", "point", "mark"], marks)); box("Noise, steadiness, and what is not ranked", all); }
  const empty = (value) => value === null || value === undefined || value === "" || (typeof value === "object" && !Object.values(value).some((each) => !empty(each)));
  const flat = (value) => (Array.isArray(value) ? value.map(flat).join(", ") : value && typeof value === "object" ? Object.entries(value).filter(([, each]) => !empty(each)).map(([key, each]) => `${key.replace(/_/g, " ")} ${flat(each)}`).join("; ") : String(value));
  const noise = m.machine.noise_at_start, quiet = noise ? `load ${plain(noise.load)}, ${plain(noise.time_wait)} connections in TIME_WAIT` : "";
  const told = [["record", r.id], ["ended", r.ended], ["profile", `${m.profile}: ${m.rounds} rounds, ${m.seconds} s a point, warm-up ${m.warmup_s} s`], ["application", flat(m.setting)], ["load", flat(m.load)], ["it speaks", r.speaks], ["engine", m.engine], ...Object.entries(m.machine).map(([key, value]) => (key === "noise_at_start" ? ["before it began", quiet] : [key.replace(/_/g, " "), flat(value)]))];
  box("Manifest", table(["what", ""], told.filter(([, value]) => !empty(value))));
  const download = (name, type, content) => make("button", { type: "button", onclick: async () => { const url = URL.createObjectURL(new Blob([await content()], { type })); make("a", { href: url, download: name }).click(); setTimeout(() => URL.revokeObjectURL(url), 1000); } }, name);
  const raw = [...document.querySelectorAll("script.raw")].find((each) => each.dataset.name === r.id);
  const unpack = async () => new Response(new Blob([Uint8Array.from(atob(raw.textContent.trim()), (c) => c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  box("Raw data", make("p", { class: "said" }, r.raw_note), raw && raw.textContent.trim() ? download(`${r.id}.jsonl`, "application/jsonl", unpack) : "", " ", download(`${r.id}-figures.json`, "application/json", () => JSON.stringify(r)));
}

function legend() {
  const box = document.getElementById("legend");
  box.replaceChildren(...measured().map((name) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    line.setAttribute("width", "28"); line.setAttribute("height", "10"); line.setAttribute("aria-hidden", "true");
    line.innerHTML = `<line x1="0" y1="5" x2="28" y2="5" stroke="${colour(name)}" stroke-width="5" stroke-dasharray="${dash(name).join(" ")}"/>`;
    const press = () => { state.off.has(name) ? state.off.delete(name) : state.off.add(name); writeAddress(); draw(); document.querySelector(`#legend [data-name="${CSS.escape(name)}"]`)?.focus(); };
    return make("button", { type: "button", "data-name": name, "aria-pressed": String(!state.off.has(name)), onclick: press, onmouseenter: () => highlight(name), onmouseleave: () => highlight(null), onfocus: () => highlight(name), onblur: () => highlight(null) }, line, title(name));
  }));
}

function draw() {
  plots.forEach((plot) => plot.destroy()); plots = [];
  applyTheme();
  const r = record(), m = r.manifest, main = document.getElementById("main"), at = scrollY;
  document.getElementById("tabs").replaceChildren(...(DATA.length > 1 ? DATA.map((each, n) => make("button", { type: "button", "aria-current": n === state.s ? "page" : null, onclick: () => redraw({ s: n, at: null, of: null }) }, `${each.manifest.letter ? each.manifest.letter + " " : ""}${each.manifest.title}`)) : []));
  legend();
  const grid = make("div", { class: "grid" });
  main.replaceChildren(make("h2", {}, `${m.letter ? m.letter + ": " : ""}${m.title}`), make("p", { class: "question" }, m.question), m.expected ? make("p", { class: "said" }, "Expected: " + m.expected) : "", m.source && m.source !== "ours" ? make("p", { class: "said" }, "Source: " + m.source) : "", answer(), grid);
  if (measured().some((name) => r.points[name].length)) sweeps(grid);
  starves(grid); compare(grid); durability(grid); details(grid); manifest(grid);
  for (const drawing of waiting.splice(0)) drawing();
  scrollTo(0, at);
  document.documentElement.dataset.drawn = String(plots.length);
}

readAddress();
draw();
document.getElementById("theme").addEventListener("click", () => redraw({ theme: isDark() ? "light" : "dark" }));
addEventListener("hashchange", () => { readAddress(); draw(); });
// By the room that there is, and not by the window: a scroll bar that comes, or a window that is narrowed while it opens.
let wide = document.getElementById("main").clientWidth, due = false;
new ResizeObserver(() => {
  const now = document.getElementById("main").clientWidth;
  if (due || now === wide) return;
  due = true;
  requestAnimationFrame(() => { due = false; wide = document.getElementById("main").clientWidth; draw(); });
}).observe(document.getElementById("main"));
addEventListener("beforeprint", () => { if (isDark()) { document.documentElement.dataset.theme = "light"; } });
