// What is known of the server: answers of status.json, and what has come between two of them.

// So many seconds are kept, and over so many rates are told where nothing else is said.
const KEPT = 600, LATELY = 60;
const samples = [];
let latest = null;
// What the server has kept of the minutes before; none: it was not asked, or does not say.
let past = null;
// Answers that are so many seconds apart have a gap between them, of which the server knows more; and where two of its
// points are, nothing happened in between.
const GAP = 5, REST = 2.5;

// Of an answer what is compared with later ones.
function sampleOf(answer) {
  const sum = (name) => answer.workers.reduce((all, one) => all + one[name], 0);
  return {
    at: answer.monotonic, wall: answer.now, requests: answer.requests, failed: answer.failed, phases: answer.phases,
    routes: answer.routes || {}, counters: answer.counters, errors: answer.errors, exits: answer.exits,
    busy: sum("busy"), threads: sum("threads"), queued: sum("queued"), connections: sum("connections"), inside: answer.inside,
  };
}

function keep(answer) {
  // Another server, or the same one started again: nothing before it is of the same numbers.
  if (latest && (latest.server.pid !== answer.server.pid || answer.requests < latest.requests)) {
    samples.length = 0;
    past = null;
  }
  latest = answer;
  samples.push(sampleOf(answer));
  while (samples.length > 2 && samples[0].at < answer.monotonic - KEPT) samples.shift();
}

// Keeps an answer of history.json, with points where a time begins and ends in which nothing happened.
function remember({ columns, points, since, now, monotonic, marks }) {
  const place = Object.fromEntries(columns.map((name, at) => [name, at])), known = [], ahead = now - monotonic;
  const rests = (point, at) => ({ ...point, at, wall: at + ahead, rate: 0, failed: 0, shares: [null, null, null] });
  const add = (one) => {
    const last = known[known.length - 1];
    if (last && one.at - last.at > REST) known.push(rests(last, last.at + 1), rests(last, one.at - 1));
    known.push(one);
  };
  for (const row of points) {
    const value = (name) => row[place[name]], at = value("at");
    const one = {
      at, wall: at + ahead, rate: value("requests"), failed: value("failed"), shares: ["p50", "p95", "p99"].map(value),
      busy: value("busy"), threads: value("threads"), queued: value("queued"),
    };
    add(at < since ? rests(one, since) : one);
  }
  if (known.length) add(rests(known[known.length - 1], monotonic - 0.001));
  past = { known, marks: marks.map((one) => ({ ...one, wall: one.from + ahead })) };
}

// A point for each time that something is known of, the oldest first: what this page has seen, and where it saw nothing
// what the server has kept. Quantiles are those of ten seconds each, as few requests are in less.
function timeline() {
  const own = samples.map((one, place) => {
    const last = place ? samples[place - 1] : null, older = last ? before(10, place) : null;
    const late = older ? bucketsBetween(one.phases.total, older.phases.total) : [];
    const each = (name) => (last && one.at > last.at ? (one[name] - last[name]) / (one.at - last.at) : null);
    return {
      at: one.at, from: last ? last.at : -Infinity, wall: one.wall, rate: each("requests"), failed: each("failed"),
      shares: [0.5, 0.95, 0.99].map((share) => quantile(late, share)), busy: one.busy, threads: one.threads, queued: one.queued,
    };
  });
  if (!past) return own;
  const gaps = own.filter((one) => one.at - one.from > GAP), oldest = own[own.length - 1].at - KEPT;
  const kept = past.known.filter((point) => point.at >= oldest && gaps.some((one) => point.at > one.from && point.at < one.at));
  // What came in a gap, all in one, is told better by those points; the last of them stands for the moment after it.
  const alone = ({ rate, failed, shares }) => ({ rate, failed, shares });
  const last = (one) => kept.filter((point) => point.at > one.from && point.at < one.at).pop();
  const told = own.map((one) => (gaps.includes(one) && last(one) ? { ...one, ...alone(last(one)) } : one));
  return [...kept, ...told].sort((one, other) => one.at - other.at);
}

// What has befallen the server in that time: [seconds before now, for so long, letter, words, how often, when].
const BEFELL = { reload: ["R", "reload"], reload_given_up: ["G", "reload that was given up"], death: ["X", "worker that ended unasked"], limit: ["L", "limit that was reached"] };
function marks(now) {
  const known = (past ? past.marks : []).filter((one) => one.kind in BEFELL && one.until >= now.at - KEPT);
  return known.map((one) => {
    const [letter, words] = BEFELL[one.kind];
    return [Math.min(KEPT, now.at - one.from), one.until - one.from, letter, one.what ? `${words}: ${one.what}` : words, one.count, one.wall];
  });
}

// The oldest sample that is at most so many seconds old, and is not the newest.
function before(seconds, end = samples.length - 1) {
  const from = samples[end].at - seconds - 0.5;
  let place = end;
  while (place > 0 && samples[place - 1].at >= from) place -= 1;
  return place < end ? samples[place] : samples[Math.max(0, end - 1)];
}

// Of two objects of numbers what came between them, where something did.
function difference(now, then) {
  const found = {};
  for (const [name, count] of Object.entries(now)) if (count > (then[name] || 0)) found[name] = count - (then[name] || 0);
  return found;
}

// The distribution of what came between two answers, as [longest time, count] in their order.
function bucketsBetween(now, then) {
  const old = new Map(then ? then.buckets : []);
  return now.buckets.map(([end, count]) => [end, count - (old.get(end) || 0)]).filter(([, count]) => count > 0);
}

// The time that this share of them took at most. Buckets are sixteenths of doublings: their middle is 0.98 of their end.
function quantile(buckets, share) {
  const wanted = Math.max(1, Math.ceil(share * buckets.reduce((all, one) => all + one[1], 0)));
  let seen = 0;
  for (const [end, count] of buckets) {
    seen += count;
    if (seen >= wanted) return end * 0.98;
  }
  return null;
}

function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toPrecision(3).replace(/\.0+$/, "")} ms`;
  if (seconds < 120) return `${seconds.toPrecision(3)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0 || Number.isInteger(value)) return value.toLocaleString("en");
  return value < 10 ? value.toPrecision(2) : Math.round(value).toLocaleString("en");
}

const percent = (share) => `${share < 0.0995 && share > 0 ? (share * 100).toFixed(1) : Math.round(share * 100)} %`;
const plural = (count, word, more = `${word}s`) => `${number(count)} ${count === 1 ? word : more}`;
const clock = (wall) => new Date(wall * 1000).toTimeString().slice(0, 8);

// Whether a request that was kept has failed.
const isFailed = (one) => one.status >= 500 || one.error !== "";

// Routes by what they have taken of the threads between two samples: those with most first. Without a request lately,
// since the start.
function routesBetween(now, then) {
  const since = (old) => {
    const list = [];
    for (const [name, route] of Object.entries(now.routes)) {
      const was = old[name] || { requests: 0, errors: 0, seconds: 0, cpu_seconds: 0 };
      const requests = route.requests - was.requests;
      const cpu = route.cpu_seconds === null ? null : route.cpu_seconds - (was.cpu_seconds || 0);
      if (requests > 0) list.push({ name, requests, errors: route.errors - was.errors, seconds: Math.max(0, route.seconds - was.seconds), cpu });
    }
    const all = list.reduce((sum, one) => sum + one.seconds, 0);
    for (const one of list) Object.assign(one, { share: all ? one.seconds / all : 0, mean: one.seconds / one.requests });
    return list.sort((one, other) => other.seconds - one.seconds);
  };
  const lately = since(then.routes);
  return lately.length ? { lately: true, list: lately } : { lately: false, list: since({}) };
}
