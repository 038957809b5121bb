// What is wrong, the worst first: what somebody who is woken at night has to know.

// A mean of so many seconds is a slow route, and from so many failures of a hundred on a route is told as failing.
const SLOW_MEAN = 1, FAILING = 0.05;
// So many failed ones status.json tells of, the newest.
const MOST_FAILED = 100;
// A kept request tells of itself for so many seconds.
const RECENT = 300;
// A certificate that ends within so many seconds is told of, or in the last quarter of its time where that is less.
const ENDS_SOON = 14 * 86400;

// Which option decides about what was refused.
const REFUSALS = {
  queue_full: ["too many waited", "--limit-queue"],
  queue_timeout: ["they had waited too long, or would have", "--queue-timeout"],
  timeout: ["they were overdue", "--request-timeout"],
};

function ofServer(answer, add) {
  const { health, server } = answer, missing = server.wanted - server.ready;
  if (!health.supervised) add(true, "The supervisor shows no sign of life: it is stuck, stopped, or gone.", "workers");
  if (!health.started) add(true, "No worker has been ready yet.", "workers");
  if (health.stuck) add(true, `${number(health.stuck)} of ${plural(answer.workers.length, "worker")} finish nothing, though requests wait.`, "workers");
  if (server.stopping) add(false, "The server is stopping.", "workers");
  else if (health.started && missing > 0) add(server.ready === 0, `${number(server.ready)} of ${plural(server.wanted, "worker")} serve.`, "workers");
}

// What `forehand status` tells of the server itself as well.
function ofItself({ now, server }, add) {
  if (server.reload_given_up_at && !server.up) add(true, "The application has not come up, and a change of its files is waited for (--reload): the log says why.", "workers");
  else if (server.reload_given_up_at) add(true, `The last reload was given up at ${clock(server.reload_given_up_at)}, and the code before it serves: the log says why.`, "workers");
  if (server.log_failed) add(true, "The log cannot be written.", null);
  else if (server.log_lines_lost) add(true, `Nobody reads the log: ${plural(server.log_lines_lost, "line was", "lines were")} lost.`, null);
  const rest = server.certificate_expires - now;
  if (server.certificate_unused) add(true, "Certificates have changed and cannot be used, those before them are: the log says why.", null);
  else if (server.certificate_expires && rest <= Math.min(ENDS_SOON, server.certificate_lasts / 4)) {
    const at = new Date(server.certificate_expires * 1000).toISOString().slice(0, 16).replace("T", " ");
    add(true, `The certificate ${rest <= 0 ? "has expired" : "expires"} at ${at} UTC.`, null);
  }
}

function ofThreads(answer, add) {
  const late = answer.slow_request || 5;
  const running = answer.workers.flatMap((worker) => worker.running.map((one) => ({ ...one, pid: worker.pid })));
  const stuck = running.filter((one) => one.seconds >= late && !one.sending).sort((one, other) => other.seconds - one.seconds);
  if (stuck.length) {
    const which = stuck[0].request ? `${stuck[0].request}, ` : "";
    add(true, `${plural(stuck.length, "request is", "requests are")} inside for ${span(late)} or longer; the longest: ${which}${span(stuck[0].seconds)}, process ${stuck[0].pid}.`, "requests");
  }
  // Of four threads one may be kept for quick requests, and another one for slow ones beside such that take longer (`lanes/rule.rs`).
  const full = answer.workers.filter((one) => one.threads > 0 && one.busy + 2 * Math.floor(one.threads / 4) >= one.threads && one.queued > one.limited);
  const kept = full.reduce((all, one) => all + Math.max(0, one.threads - one.busy), 0);
  const waiting = full.reduce((all, one) => all + one.queued - one.limited, 0);
  if (full.length) add(true, `Every thread${kept ? ` but ${number(kept)} for quicker requests` : ""} of ${full.length === answer.workers.length ? "every worker" : plural(full.length, "worker")} is taken, and ${plural(waiting, "request waits", "requests wait")}.`, "workers");
}

// Of requests that were kept; and where those are not shown, of counts that have grown since.
function ofRefusals(answer, then, add) {
  const recent = (answer.ended || []).filter((one) => one.ended >= answer.now - RECENT);
  const grown = difference(answer.errors, then.errors);
  const counted = answer.contents ? {} : grown;
  if (answer.contents) for (const one of recent) if (one.error) counted[one.error] = (counted[one.error] || 0) + 1;
  for (const [error, [why, option]] of Object.entries(REFUSALS)) {
    if (counted[error]) add(true, `${plural(counted[error], "request was", "requests were")} refused or cut in the last minutes: ${why} (${option}).`, "limits");
  }
  const failed = recent.filter((one) => (one.status >= 500 || one.error === "cut_off") && !REFUSALS[one.error]);
  if (failed.length) {
    const last = failed[failed.length - 1];
    // No more are told: of those before them nothing is known here.
    const more = failed.length >= MOST_FAILED ? " or more" : "";
    add(true, `${number(failed.length)}${more} ${failed.length === 1 ? "request has" : "requests have"} failed in the last minutes; the last: ${last.request}, ${last.error === "cut_off" ? "cut off" : last.status} at ${clock(last.ended)}.`, "requests");
  }
}

// Of workers that have ended though nobody asked them to.
function ofDeaths(answer, then, add) {
  const unasked = (exits) => Object.entries(exits).filter(([why]) => /^(signal|status|oom|never)/.test(why)).map(([why, count]) => `${why} ${number(count)}`).join(", ");
  const lately = unasked(difference(answer.exits, then.exits)), ever = unasked(answer.exits);
  const inside = (answer.errors.worker_died || 0) - (then.errors.worker_died || 0);
  const died = inside ? ` ${plural(inside, "request was", "requests were")} inside.` : "";
  if (lately) add(true, `Workers have ended unasked lately: ${lately}.${died}`, "workers");
  else if (ever) add(false, `Since the start workers have ended unasked: ${ever}.`, "workers");
}

function ofRoutes(now, then, add) {
  const { lately, list } = routesBetween(now, then);
  if (!lately) return;
  for (const one of list.filter((one) => one.errors / one.requests >= FAILING && one.errors > 1).slice(0, 3)) {
    add(true, `${one.name} fails: ${number(one.errors)} of ${number(one.requests)} lately.`, "time");
  }
  for (const one of list.filter((one) => one.mean >= SLOW_MEAN).slice(0, 3)) {
    add(false, `${one.name} is slow: ${span(one.mean)} on average, ${percent(one.share)} of all thread time.`, "time");
  }
}

// All of it, as [is it bad, text, view]. `then`: the sample of a minute ago.
function findings(answer, now, then) {
  const bad = [], less = [];
  const add = (isBad, text, view) => (isBad ? bad : less).push([isBad, text, view]);
  ofServer(answer, add);
  ofItself(answer, add);
  ofThreads(answer, add);
  ofDeaths(answer, then, add);
  ofRefusals(answer, then, add);
  ofRoutes(now, then, add);
  return [...bad, ...less];
}
