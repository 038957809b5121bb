// The five views: what each shows, from what is known.

// How requests spend their time, in the order in which it passes.
const PHASES = [["receive", "f"], ["queue", "b"], ["gil", "c"], ["app", "a"], ["cpu", "a"], ["off", "e"], ["send", "d"]];
const MEANT = {
  receive: "receiving it", queue: "waiting for a thread", gil: "waiting for the interpreter", app: "in the application",
  cpu: "in the application, on a processor", off: "in the application, waiting for something", send: "sending the reply",
};
// Cells that are drawn of a worker, rows of a list, and points of a table.
const CELLS = 64, ROWS_SHOWN = 100, POINTS = 12;
const views = {};
// How many threads there are; an event loop has tasks, of which there is no number that there may be.
const most = (threads) => (threads ? number(threads) : "–");

// `app` as the two parts that it has, as far as they are known: of a part of all requests, which stands for all.
function split(seconds) {
  const measured = (seconds.cpu || 0) + (seconds.off || 0), rest = { ...seconds };
  if (measured > 0 && seconds.app > 0) {
    rest.cpu = (seconds.app * seconds.cpu) / measured;
    rest.off = seconds.app - rest.cpu;
    rest.app = 0;
  } else {
    rest.cpu = rest.off = 0;
  }
  return PHASES.map(([name, letter]) => [MEANT[name], letter, rest[name] || 0]);
}

function facts(host) {
  const known = new Map();
  return (pairs) => {
    for (const [name, value] of pairs) {
      if (!known.has(name)) {
        const shown = make("dd");
        host.append(make("div", {}, make("dt", {}, name), shown));
        known.set(name, shown);
      }
      known.get(name).textContent = value;
    }
  };
}

views.overview = (host) => {
  const told = make("dl", { class: "facts" }), say = facts(told);
  const rate = figure("Requests a second", "Replies that were complete, and those of them that failed.", [["at", ""], ["requests/s", "n"], ["failed/s", "n"]]);
  const times = figure("How long requests take", "From the first byte to the last: half, 95 and 99 of a hundred took at most so long.", [["at", ""], ["p50", "n"], ["p95", "n"], ["p99", "n"]]);
  const threads = figure("Threads, tasks", "", [["at", ""], ["inside", "n"], ["there are", "n"], ["waiting", "n"]]);
  const befell = tableOf("What befell the server in the last ten minutes, the newest first", [["mark", ""], ["at", ""], ["what", "text"], ["how often", "n"], ["for", "n"]]);
  const listed = make("figure", { class: "wide" }, make("figcaption", {}, make("h3", {}, "Reloads, deaths of workers, limits")),
    make("p", {}, "In the last ten minutes, as the charts have them by their letters."), befell.root);
  host.append(told, make("div", { class: "grid" }, rate.root, times.root, threads.root, listed));
  return (answer, now, then) => {
    const took = now.at - then.at;
    const buckets = bucketsBetween(now.phases.total, samples.length > 1 ? then.phases.total : null);
    say([
      ["Requests a second", took ? number((now.requests - then.requests) / took) : "–"], ["p50", span(quantile(buckets, 0.5))],
      ["p99", span(quantile(buckets, 0.99))], ["Failed a second", took ? number((now.failed - then.failed) / took) : "–"],
      ["Inside now", number(now.inside)], ["Waiting", number(now.queued)], ["Connections", number(now.connections)],
    ]);
    const points = timeline(), ago = points.map((one) => now.at - one.at), marked = marks(now);
    const share = (place) => points.map((one) => one.shares[place]);
    drawLines(rate, ago, [["requests", "a", points.map((one) => one.rate)], ["failed", "b", points.map((one) => one.failed)]], number, marked);
    drawLines(times, ago, [["p50", "a", share(0)], ["p95", "b", share(1)], ["p99", "c", share(2)]], span, marked);
    const bound = now.threads ? [["there are", "b", points.map((one) => one.threads)]] : [];
    threads.say(now.threads ? "Inside the application, of those that there are; and requests that wait for one." : "Tasks inside the application, as many as come; and requests that wait.");
    drawLines(threads, ago, [["inside", "a", points.map((one) => one.busy)], ...bound, ["waiting", "c", points.map((one) => one.queued)]], number, marked);
    befell.fill(marked.reverse().map(([, lasted, letter, words, count, wall]) => [letter, clock(wall), words, number(count), lasted > 0 ? span(lasted) : "–"]), past ? "nothing of these" : "not known");
    const every = Math.ceil(points.length / POINTS);
    const rows = points.filter((_, place) => (points.length - 1 - place) % every === 0).reverse();
    rate.fill(rows.map((one) => [clock(one.wall), number(one.rate), number(one.failed)]));
    times.fill(rows.map((one) => [clock(one.wall), ...one.shares.map(span)]));
    threads.fill(rows.map((one) => [clock(one.wall), number(one.busy), most(one.threads), number(one.queued)]));
  };
};

views.time = (host) => {
  const phases = figure("Phases", "", [["phase", ""], ["share", "n"], ["requests", "n"], ["mean", "n"], ["p50", "n"], ["p95", "n"], ["p99", "n"]], "wide");
  const routes = figure("Routes by thread time", "", [["route", "path"], ["thread time", "n"], ["requests/s", "n"], ["mean", "n"], ["on a processor", "n"], ["failed", "n"]], "wide");
  host.append(make("div", { class: "grid" }, phases.root, routes.root));
  return (answer, now, then) => {
    const none = { count: 0, seconds: 0, buckets: [] };
    const lately = samples.length > 1 && now.requests > then.requests;
    const old = (name) => (lately ? then.phases[name] : none);
    const seconds = {};
    for (const name of Object.keys(now.phases)) seconds[name] = now.phases[name].seconds - old(name).seconds;
    const parts = split(seconds), all = parts.reduce((sum, one) => sum + one[2], 0);
    const when = lately ? `Of the last ${span(now.at - then.at)}.` : "Since the start, as nothing was asked lately.";
    phases.say(`Where requests spend their time, from the first byte to the last. ${when} What waits in the application waits for a database, another server, a lock, or its turn at the interpreter.`);
    const told = parts.filter((one) => one[2] > 0);
    phases.draw(drawParts(told, phases.width(), 34, `Phases: ${told.map((one) => `${one[0]} ${percent(one[2] / all)}`).join(", ") || "nothing yet"}`));
    phases.keys.replaceChildren(...told.map(([name, letter, value]) => make("li", {},
      make("svg", { width: 12, height: 12, "aria-hidden": "true" }, make("rect", { class: `of-${letter}`, width: 12, height: 12 })), ` ${name}: ${percent(value / all)}`)));
    phases.fill(PHASES.map(([name]) => {
      const buckets = bucketsBetween(now.phases[name], old(name)), count = now.phases[name].count - old(name).count;
      const share = parts.find((one) => one[0] === MEANT[name])[2];
      return [MEANT[name], all && share ? percent(share / all) : "–", number(count), count ? span(seconds[name] / count) : "–", ...[0.5, 0.95, 0.99].map((part) => span(quantile(buckets, part)))];
    }));
    const found = routesBetween(now, then), took = now.at - then.at;
    routes.say(answer.contents ? `Which route the threads work for${found.lately ? `, in the last ${span(took)}` : ", since the start"}.` : "Routes are shown with the token.");
    drawBars(routes, found.list.slice(0, 10).map((one) => [one.name, one.share, `${percent(one.share)}, ${span(one.mean)} each`, "a"]),
      `Routes by thread time: ${found.list.slice(0, 3).map((one) => `${one.name} ${percent(one.share)}`).join(", ") || "none"}`);
    routes.fill(found.list.map((one) => [one.name, percent(one.share), found.lately ? number(one.requests / took) : "–", span(one.mean),
      one.cpu === null || !one.seconds ? "–" : percent(Math.min(1, one.cpu / one.seconds)), one.errors ? [number(one.errors), "bad"] : "0"]), "no route yet");
  };
};

views.workers = (host) => {
  const told = make("dl", { class: "facts" }), say = facts(told);
  const cells = figure("Threads of each worker", "Each cell is a thread, greenlet or task: R is inside a request, L in one that takes long, and an empty one is free.",
    [["process", ""], ["inside", "n"], ["of", "n"], ["waiting", "n"], ["connections", "n"], ["requests", "n"], ["refused", "n"], ["overdue", "n"], ["errors", "n"]], "wide");
  host.append(told, make("div", { class: "grid" }, cells.root));
  return (answer) => {
    const { server, exits } = answer, late = answer.slow_request || 5;
    say([
      ["Serving", `${number(server.ready)} of ${number(server.wanted)}`], ["Generation", number(server.generation)], ["Started since the start", number(server.starts)],
      ["Reloads", `${number(server.reloads_done)}${server.reloads_failed ? `, ${number(server.reloads_failed)} given up` : ""}`],
      ["Why workers ended", Object.entries(exits).map(([why, count]) => `${why} ${number(count)}`).join(", ") || "none has"],
    ]);
    const drawn = answer.workers.flatMap((worker) => {
      const running = [...worker.running].sort((one, other) => other.seconds - one.seconds);
      const free = Math.max(0, Math.min(worker.threads, CELLS) - running.length);
      const shown = running.slice(0, CELLS).map((one) => {
        const isLate = one.seconds >= late;
        return make("span", { class: `cell ${isLate ? "late" : "busy"}`, title: `${one.request || "a request"}, ${span(one.seconds)}` }, isLate ? "L" : "R");
      });
      const empty = Array.from({ length: free }, () => make("span", { class: "cell" }));
      const longest = running.length ? `; the longest: ${running[0].request || "a request"}, ${span(running[0].seconds)}` : "";
      const slow = running.filter((one) => one.seconds >= late).length;
      const label = `process ${worker.pid}: ${number(worker.busy)}${worker.threads ? ` of ${number(worker.threads)}` : ""} inside, ${number(slow)} for long${longest}`;
      return [make("p", { class: "worker" }, label), make("div", { class: "cells", role: "img", "aria-label": label }, ...shown, ...empty)];
    });
    cells.draw(make("div", {}, ...drawn));
    cells.fill(answer.workers.map((one) => [String(one.pid), number(one.busy), most(one.threads), one.queued ? [number(one.queued), "bad"] : "0",
      ...["connections", "requests", "refused", "timeouts", "errors"].map((name) => number(one[name]))]), "no worker");
  };
};

views.requests = (host) => {
  const ended = [["ended", ""], ["request", "path"], ["status", ""], ["took", "n"], ["where", ""], ["in words", "text"], ["process", ""]];
  const running = tableOf("Requests that are inside now", [["inside for", "n"], ["request", "path"], ["process", ""]]);
  const lists = { failed: tableOf("Requests that failed, the newest first", ended), slow: tableOf("Slow requests, the newest first", ended), others: tableOf("Some of the others, the newest first", ended) };
  const card = (title, table) => make("figure", { class: "wide" }, make("figcaption", {}, make("h3", {}, title)), table.root);
  host.append(make("div", { class: "grid" }, card("Inside now", running), card("Failed", lists.failed), card("Slow", lists.slow), card("Some of the others", lists.others)));
  const row = (one) => {
    const parts = split(one.phases).filter((part) => part[2] > 0);
    const words = parts.filter((part) => part[2] >= one.phases.total / 50).map((part) => `${part[0]} ${span(part[2])}`).join(", ");
    // The looks at it: its file and line.
    const request = one.where ? make("div", {}, one.request, make("div", { class: "stood" }, one.where)) : one.request;
    return [clock(one.ended), request, isFailed(one) ? [one.error ? `${one.status || "none"} ${one.error}${one.died ? ` by ${one.died}` : ""}` : String(one.status), "bad"] : String(one.status), span(one.phases.total),
      drawParts(parts, 110, 14, words || "no time"), words, one.pid ? String(one.pid) : "gone"];
  };
  return (answer) => {
    const late = answer.slow_request || 5;
    const inside = answer.workers.flatMap((worker) => worker.running.map((one) => [one, worker.pid])).sort((one, other) => other[0].seconds - one[0].seconds);
    running.fill(inside.slice(0, ROWS_SHOWN).map(([one, pid]) => [one.seconds >= late ? [span(one.seconds), "bad"] : span(one.seconds), one.request || "shown with the token", String(pid)]), "none");
    const kept = [...(answer.ended || [])].reverse(), none = answer.contents ? "none" : "shown with the token";
    lists.failed.fill(kept.filter(isFailed).map(row), none);
    lists.slow.fill(kept.filter((one) => one.remarkable && !isFailed(one)).map(row), none);
    lists.others.fill(kept.filter((one) => !one.remarkable && !isFailed(one)).map(row), none);
  };
};

views.limits = (host) => {
  const reached = figure("Limits that were reached", "", [["option", ""], ["since the start", "n"], ["lately", "n"], ["what happens there", "text"], ["why it is so", "text"]], "wide");
  const counted = figure("Everything that was counted", "docs/settings.md says what each is.", [["counter", ""], ["since the start", "n"], ["lately", "n"]], "wide");
  host.append(make("div", { class: "grid" }, reached.root, counted.root));
  return (answer, now, then) => {
    const came = difference(now.counters, then.counters), sum = (names, of) => names.reduce((all, name) => all + (of[name] || 0), 0);
    const rows = answer.limits.map((one) => {
      const names = Object.keys(one.counters);
      return { ...one, all: sum(names, now.counters), late: sum(names, came) };
    }).sort((one, other) => other.late - one.late || other.all - one.all);
    reached.say(rows.length ? "With the options that set them. Lately is the last minute; limits that share a counter share its number." : "None was reached since the start.");
    const most = Math.max(1, ...rows.map((one) => one.all));
    drawBars(reached, rows.slice(0, 12).map((one) => [one.option, one.all / most, `${number(one.all)}${one.late ? `, lately ${number(one.late)}` : ""}`, one.late ? "b" : "f"]),
      `Limits that were reached: ${rows.slice(0, 3).map((one) => `${one.option} ${number(one.all)}`).join(", ") || "none"}`);
    reached.fill(rows.map((one) => [one.option, number(one.all), one.late ? [number(one.late), "bad"] : "0", one.answer, one.reason]), "none was reached");
    const names = Object.keys(now.counters), top = Math.max(1, ...Object.values(now.counters));
    drawBars(counted, names.sort((one, other) => now.counters[other] - now.counters[one]).slice(0, 6).map((name) => [name, now.counters[name] / top, number(now.counters[name]), "f"]), "The largest counters");
    counted.fill(names.sort().map((name) => [name, number(now.counters[name]), number(came[name] || 0)]));
  };
};
