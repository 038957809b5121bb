// Charts, drawn as SVG at the width that there is; each is a figure with its table.

const SVG = "http://www.w3.org/2000/svg";

// An element with attributes and children. Text is text, whatever is in it.
function make(name, attributes = {}, ...children) {
  const drawn = ["svg", "path", "rect", "text", "line", "g", "title"].includes(name);
  const one = drawn ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) one.setAttribute(key, value);
  one.append(...children.filter((child) => child !== null));
  return one;
}

// A region that scrolls sideways, for a table that is wider than a phone; the keyboard reaches it.
function scrolling(label, ...children) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);
}

// A table of columns [title, class]; `fill` sets its rows, of which each is a list of cells.
function tableOf(label, columns) {
  const body = make("tbody");
  const head = columns.map(([title, kind]) => make("th", { scope: "col", class: kind || null }, title));
  const root = scrolling(label, make("table", {}, make("caption", { class: "unseen" }, label), make("thead", {}, make("tr", {}, ...head)), body));
  const cell = (value, kind) => {
    const [content, more] = Array.isArray(value) ? value : [value, ""];
    return make("td", { class: [kind, more].filter(Boolean).join(" ") || null }, content);
  };
  const fill = (rows, none = "nothing") => {
    const shown = rows.map((row) => make("tr", {}, ...row.map((value, place) => cell(value, columns[place][1]))));
    body.replaceChildren(...(shown.length ? shown : [make("tr", {}, make("td", { colspan: String(columns.length) }, none))]));
  };
  return { root, fill };
}

// A figure: its title, a word on it, room for the drawing, and the same as a table.
function figure(title, note, columns, kind = null) {
  const plot = make("div", { class: "plot" }), keys = make("ul", { class: "keys" });
  const table = tableOf(`${title}: table`, columns);
  const said = make("p", {}, note);
  const root = make("figure", { class: kind }, make("figcaption", {}, make("h3", {}, title)), said, plot, keys,
    make("details", {}, make("summary", {}, `${title} as a table`), table.root));
  const draw = (svg) => plot.replaceChildren(svg);
  return { root, draw, keys, fill: table.fill, width: () => Math.max(200, plot.clientWidth), title, say: (text) => { said.textContent = text; } };
}

function svgOf(width, height, label, ...children) {
  return make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);
}

// The smallest of 1, 2 and 5 times a power of ten that is not below.
function nice(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

const DASHES = { a: null, b: "7 3", c: "2 3" };

// Lines over time. `lines`: [name, letter of its colour, values], values where `times` (seconds before now) are. `marked`: what
// has befallen the server, as `marks` has it.
function drawLines(fig, times, lines, shown, marked) {
  const width = fig.width(), height = 170, left = 62, bottom = 22, top = 14;
  const most = nice(Math.max(0, ...lines.flatMap((line) => line[2]).filter((value) => value !== null)));
  const oldest = Math.max(10, ...times);
  const x = (ago) => left + (width - left - 6) * (1 - ago / oldest), y = (value) => top + (height - top - bottom) * (1 - value / most);
  const parts = [0, 0.5, 1].flatMap((share) => [
    make("line", { class: "axis", x1: left, x2: width, y1: y(most * share), y2: y(most * share) }),
    make("text", { x: left - 6, y: y(most * share) + 4, "text-anchor": "end" }, shown(most * share)),
  ]);
  for (const share of [1, 0.5, 0]) {
    const place = { 1: "start", 0.5: "middle", 0: "end" }[share];
    parts.push(make("text", { x: x(oldest * share), y: height - 5, "text-anchor": place }, share ? `${span(oldest * share)} ago` : "now"));
  }
  for (const [ago, lasted, letter, words, count] of marked.filter((one) => one[0] <= oldest)) {
    const from = x(ago).toFixed(1), wide = Math.max(1.5, x(ago - lasted) - x(ago)).toFixed(1);
    parts.push(make("g", { class: "mark" }, make("title", {}, `${words}, ${number(count)}`),
      make("line", { x1: from, x2: from, y1: top, y2: height - bottom }), make("rect", { x: from, y: height - bottom - 3, width: wide, height: 3 }),
      make("text", { x: from, y: top + 3, "text-anchor": "middle" }, letter)));
  }
  for (const [, letter, values] of lines) {
    let path = "", drawing = false;
    values.forEach((value, place) => {
      if (value !== null) path += `${drawing ? "L" : "M"}${x(times[place]).toFixed(1)} ${y(value).toFixed(1)}`;
      drawing = value !== null;
    });
    if (path) parts.push(make("path", { class: `line ${letter}`, d: path, "stroke-dasharray": DASHES[letter] }));
  }
  const now = lines.map(([name, , values]) => `${name} ${shown(values[values.length - 1])}`).join(", ");
  const told = marked.length ? `; ${plural(marked.length, "mark")} of what befell the server` : "";
  fig.draw(svgOf(width, height, `${fig.title}, now: ${now}${told}`, ...parts));
  fig.keys.replaceChildren(...lines.map(([name, letter, values]) => make("li", {},
    make("svg", { width: 26, height: 10, "aria-hidden": "true" }, make("path", { class: `line ${letter}`, d: "M0 5H26", "stroke-dasharray": DASHES[letter] })),
    ` ${name}: ${shown(values[values.length - 1])}`)));
}

// Parts of a whole, in one bar. `parts`: [name, letter of its colour, value].
function drawParts(parts, width, height, label) {
  const all = parts.reduce((sum, one) => sum + one[2], 0);
  let from = 0;
  const drawn = parts.filter((one) => one[2] > 0).flatMap(([name, letter, value]) => {
    const wide = (value / all) * width, begin = from;
    from += wide;
    return [make("rect", { class: `of-${letter} gap`, x: begin.toFixed(1), y: 0, width: wide.toFixed(1), height }, make("title", {}, `${name}: ${percent(value / all)}`))];
  });
  return svgOf(width, height, label, ...drawn);
}

// Bars with their names above them. `rows`: [name, share of the longest, words, letter of its colour].
function drawBars(fig, rows, label) {
  const width = fig.width(), step = 36;
  const drawn = rows.flatMap(([name, share, words, letter], place) => {
    // A name that is longer than there is room ends in dots, and is whole in the table.
    const room = Math.max(8, Math.floor((width - words.length * 6.6) / 6.8));
    return [
      make("text", { class: "name", x: 0, y: place * step + 12 }, name.length > room ? `${name.slice(0, room - 1)}…` : name),
      make("text", { x: width, y: place * step + 12, "text-anchor": "end" }, words),
      make("rect", { class: `of-${letter}`, x: 0, y: place * step + 17, width: Math.max(1, share * width).toFixed(1), height: 11 }),
    ];
  });
  fig.draw(svgOf(width, Math.max(1, rows.length * step), label, ...drawn));
}
