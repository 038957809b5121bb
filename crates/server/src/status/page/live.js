// The page lives: it asks every two seconds while somebody sees it, and shows the view that is chosen.

const EVERY = 2000, SAY_EVERY = 10000, PATIENCE = 8000, PAST_EVERY = 10000;
const at = (id) => document.getElementById(id);
const tabs = [...at("tabs").children], update = {};
let token = "", timer = 0, asking = false, paused = false, failedSince = null, answered = 0, saidAt = 0, saidLast = "", pastAt = 0, pastFates = "", seenFates = "";
try { token = sessionStorage.getItem("forehand-token") || ""; } catch { /* a browser that keeps nothing */ }

const chosen = () => (tabs.find((tab) => tab.getAttribute("aria-selected") === "true") || tabs[0]).getAttribute("aria-controls");

function choose(name, focus = false) {
  // Other places of the page are in its address, too.
  const known = tabs.some((tab) => tab.getAttribute("aria-controls") === name) ? name : chosen();
  for (const tab of tabs) {
    const mine = tab.getAttribute("aria-controls") === known;
    tab.setAttribute("aria-selected", String(mine));
    tab.tabIndex = mine ? 0 : -1;
    at(tab.getAttribute("aria-controls")).hidden = !mine;
    if (mine && focus) tab.focus();
  }
  show();
}

// The view is a part of the address, so that it can be sent to somebody, and Back leads back.
function go(name, focus = false) {
  if (location.hash !== `#${name}`) history.pushState(null, "", `#${name}`);
  choose(name, focus);
}

// What is wrong, and once in a while the same for who hears the page.
function tell() {
  const now = samples[samples.length - 1], found = latest ? findings(latest, now, before(LATELY)) : [];
  if (failedSince) found.unshift([true, `No answer since ${clock(failedSince / 1000)}: what is shown is older. Does the server run?`, null]);
  if (!found.length) found.push([false, "Nothing that shows here.", null]);
  const list = at("findings"), held = list.contains(document.activeElement);
  // A line that stays is only written anew, so that a click or the focus on its link is not lost.
  found.forEach(([bad, text, view], place) => {
    let line = list.children[place];
    if (!line || line.dataset.view !== (view || "")) {
      const fresh = make("li", { "data-view": view || "" }, make("span"), " ", view ? make("a", { href: `#${view}` }, "Look") : null);
      if (line) line.replaceWith(fresh);
      else list.append(fresh);
      line = fresh;
    }
    line.className = bad ? "bad" : "";
    line.firstChild.textContent = text;
    if (view) line.lastChild.setAttribute("aria-label", `Look at ${at(`tab-${view}`).textContent}: ${text}`);
  });
  while (list.children.length > found.length) list.lastChild.remove();
  if (held && !list.contains(document.activeElement)) at("wrong").focus();
  at("wrong").classList.toggle("bad", found.some((one) => one[0]));
  const words = found.map((one) => one[1]).join(" ");
  if (performance.now() - saidAt > SAY_EVERY && words.replace(/[\d.,]+/g, "") !== saidLast) {
    at("said").textContent = words;
    [saidAt, saidLast] = [performance.now(), words.replace(/[\d.,]+/g, "")];
  }
}

function show() {
  if (!latest) return;
  const { server, build } = latest, now = samples[samples.length - 1], name = chosen();
  at("target").textContent = build.target || "Forehand";
  document.title = `${build.target || ""} – Forehand`;
  const state = server.stopping ? "stopping" : server.up ? "serving" : "starting";
  at("state").textContent = `${state} for ${span(latest.now - server.started)}; Forehand ${build.version || ""}, Python ${build.python || ""}, process ${server.pid}, ${plural(server.ready, "worker")}`;
  at("live").textContent = failedSince ? "stale" : paused ? `paused at ${clock(latest.now)}` : `live, ${clock(latest.now)}`;
  at("token-form").hidden = latest.contents;
  // A view is made when it is first seen, and from then on only filled.
  update[name] ??= views[name](at(name));
  update[name](latest, now, before(LATELY));
  document.documentElement.dataset.answers = String(answered);
}

// Of what befalls a server another number each time.
const fates = ({ server, exits, limits }) => JSON.stringify([server.reloads_done, server.reloads_failed, exits, limits.map((one) => one.counters)]);

// What was before this page was opened, or while nobody saw it, and what has befallen the server: the server has kept it.
async function askForPast(headers) {
  const [last, now] = samples.slice(-2), isGap = !now || now.at - last.at > GAP, before = seenFates || fates(latest);
  seenFates = fates(latest);
  // What the answer before this one has told is in the history by now.
  const isDue = pastFates !== before && performance.now() - pastAt > PAST_EVERY;
  if (!latest.contents || (past && !isGap && !isDue)) return;
  try {
    const reply = await fetch("history.json", { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (reply.ok) remember(await reply.json());
  } catch { /* with the next answer */ }
  [pastAt, pastFates] = [performance.now(), before];
}

async function ask() {
  clearTimeout(timer);
  if (asking || document.hidden || paused) return;
  asking = true;
  try {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const reply = await fetch("status.json", { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (reply.status === 403 && token) {
      token = "";
      keepToken();
      at("token-said").textContent = "That is not the token.";
    } else if (!reply.ok) {
      throw new Error(String(reply.status));
    } else {
      keep(await reply.json());
      await askForPast(headers);
      failedSince = null;
      answered += 1;
    }
  } catch {
    failedSince ??= Date.now();
  } finally {
    asking = false;
  }
  show();
  tell();
  timer = setTimeout(ask, EVERY);
}

function keepToken() {
  try {
    if (token) sessionStorage.setItem("forehand-token", token);
    else sessionStorage.removeItem("forehand-token");
  } catch { /* it is kept for as long as the page is */ }
}

at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = at("token").value.trim(), sent = /^[\x20-\x7e]*$/.test(given);
  // What no header can carry would look like a server that does not answer.
  token = sent ? given : "";
  at("token").value = "";
  at("token-said").textContent = sent ? "" : "That is not the token.";
  keepToken();
  ask();
});
at("tabs").addEventListener("click", (event) => {
  const tab = event.target.closest("[role=tab]");
  if (tab) go(tab.getAttribute("aria-controls"));
});
at("tabs").addEventListener("keydown", (event) => {
  const place = tabs.indexOf(document.activeElement), last = tabs.length - 1;
  const to = { ArrowRight: place < last ? place + 1 : 0, ArrowLeft: place > 0 ? place - 1 : last, Home: 0, End: last }[event.key];
  if (to === undefined || place < 0) return;
  event.preventDefault();
  go(tabs[to].getAttribute("aria-controls"), true);
});
at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  show();
  ask();
});
function isDark() {
  const own = document.documentElement.dataset.theme;
  return own ? own === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
function paint(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  at("theme").textContent = isDark() ? "Light" : "Dark";
  at("theme").setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
}
at("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("forehand-theme", theme); } catch { /* for this visit */ }
  paint(theme);
});
let kept = null;
try { kept = localStorage.getItem("forehand-theme"); } catch { /* none */ }
paint(kept === "dark" || kept === "light" ? kept : null);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint(null));
addEventListener("popstate", () => choose(location.hash.slice(1)));
addEventListener("resize", show);
document.addEventListener("visibilitychange", ask);
choose(location.hash.slice(1));
ask();
