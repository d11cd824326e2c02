// Contributions of columns: a curve or points for each, and heat maps of the strongest products.

const dateOf = (days) => new Date(days * 864e5).toISOString().slice(0, 10);
// The height of a panel, what slanted names of levels add, and widths beside it.
const PANEL = 200, SLANTED = 52, BESIDE = 46, NAMES = 104;

// Places of the values of a column on an axis, and labels of some of them.
function columnAxis({ kind, period, at }, from, to, wanted) {
  if (kind === "level") {
    const step = (to - from) / at.length;
    const places = at.map((_, k) => from + (k + 0.5) * step);
    return { places, edges: [...places.map((x) => x - step / 2), to],
      labels: at.map((name, k) => [places[k], name]) };
  }
  const [low, high] = [at[0], at.at(-1)];
  const scale = linear(low, high, from, to);
  const places = at.map(scale);
  const middles = places.slice(1).map((x, k) => (x + places[k]) / 2);
  const labels = labelled(kind, period, low, high, wanted);
  return { places, edges: [from, ...middles, to],
    labels: labels.map(([value, text]) => [scale(value), text]) };
}

function labelled(kind, period, low, high, wanted) {
  if (kind === "date") {
    const [first, final] = [low, high].map((day) => new Date(day * 864e5).getUTCFullYear());
    const years = ticks(first, final + 1, wanted).filter((year) => year % 1 === 0)
      .map((year) => [Date.UTC(year, 0) / 864e5, String(year)])
      .filter(([day]) => day >= low && day <= high);
    if (years.length > 1) return years;
    return ticks(low, high, Math.max(wanted / 2, 1)).map((day) => [day, dateOf(day)]);
  }
  const step = Math.max(1, Math.floor(period / 4));
  const values = period ? Array.from({ length: 1 + period / step }, (_, k) => k * step)
    : ticks(low, high, wanted);
  // 2010 may be a year
  return values.map((value) => [value, short(value).replace(/^(−?\d),(\d{3})$/, "$1$2")]);
}

// Labels below, without those for which there is no room.
function writeAllBelow(pic, labels) {
  let free = -Infinity;
  for (const [x, text] of labels) {
    const half = 3.8 * text.length;
    if (x - half < free) continue;
    free = x + half + 6;
    write(pic.axes, x, pic.bottom + 19, text, "middle");
  }
}

const valueOf = ({ kind, at }, k) => (kind === "level" ? at[k]
  : kind === "date" ? dateOf(at[k]) : figure(at[k]));
const signed = (value) => `${value > 0 ? "+" : ""}${figure(value)}`;

// A picture for each item, side by side as far as there is room; `about` tells what is pointed at.
function panels(host, items, note, kind, drawOne) {
  const grid = document.createElement("div");
  grid.className = `panels ${kind}`;
  host.replaceChildren(grid);
  byId(note).textContent = "Hover over a panel to read its values.";
  for (const item of items) {
    const { pic, about } = drawOne(grid.appendChild(document.createElement("div")), item);
    const tell = (event) => {
      const box = pic.root.getBoundingClientRect(), unit = pic.width / box.width;
      byId(note).textContent = about((event.clientX - box.left) * unit,
        (event.clientY - box.top) * unit);
    };
    pic.root.addEventListener("pointermove", tell);
    pic.root.addEventListener("pointerdown", tell);
  }
}

function title(pic, text, name) {
  text.textContent = name;
  set(text, { class: "panel-title" });
  fit(text, pic.width - 8);
}

function curvesChart(host) {
  const ends = data.curves.flatMap(({ effect, stderr }) => effect.flatMap((value, k) =>
    [-2, 2].map((side) => value + side * (stderr[k] ?? 0))));
  const all = data.curves.flatMap(({ effect }) => effect);
  const [bottom, top] = frameOf([...ends, 0]); // large standard errors may leave it
  const low = Math.min(bottom, least(all)), high = Math.max(top, most(all));
  function drawOne(place, { x, effect, stderr, levels }) {
    const room = Math.max(place.clientWidth, 240) - BESIDE - MARGIN.right;
    const slanted = x.kind === "level"
      && Math.max(...x.at.map((name) => name.length)) * 8 > room / x.at.length;
    const extra = slanted ? SLANTED : 0;
    const height = isPrinting() ? 150 : PANEL;
    const pic = picture(place, height + extra, `Contribution of ${x.name}`, MARGIN.right,
      { left: BESIDE, bottom: 30 + extra });
    const y = valueAxis(pic, low, high, "", height / 6);
    title(pic, pic.title, x.name + (levels ? ` (${x.at.length} of ${levels} levels)` : ""));
    const axis = columnAxis(x, pic.left, pic.right, room / 45);
    draw(pic.axes, level(pic, y(0)), "zero");
    if (!slanted) writeAllBelow(pic, axis.labels);
    for (const [at, text] of slanted ? axis.labels : []) {
      const node = write(pic.axes, at + 4, pic.bottom + 12, shorten(text, 13), "slanted");
      set(node, { transform: `rotate(-65 ${at + 4} ${pic.bottom + 12})` });
    }
    const across = (k) => axis.places[k];
    if (x.kind === "level") {
      effect.forEach((value, k) => {
        const [from, to] = [-2, 2].map((side) => y(value + side * (stderr[k] ?? 0)));
        draw(pic.plot, `M${across(k)} ${from}V${to}`, "line estimate");
        add(pic.plot, "circle", { cx: across(k), cy: y(value), r: 4, class: "dot" });
      });
    } else {
      draw(pic.plot, band(across, y, effect, stderr), "band");
      draw(pic.plot, curve(across, y, effect), "line estimate");
    }
    return { pic, about(at) {
      const k = nearest(axis.places, at);
      return `${x.name} = ${valueOf(x, k)}: ${signed(effect[k])}${
        known(stderr[k]) ? ` ± ${figure(stderr[k])}` : ""}`;
    } };
  }
  return { draw() { panels(host, data.curves, "curves-note", "", drawOne); }, mark() {} };
}

function surfacesChart(host) {
  function drawOne(place, { x, y, effect }) {
    const left = y.kind === "number" ? 66 : NAMES;
    const pic = picture(place, isPrinting() ? 220 : 280, `Products of ${x.name} and ${y.name}`,
      MARGIN.right, { left });
    title(pic, nameAbove(pic, ""), y.name);
    const below = nameBelow(pic, "");
    title(pic, below, x.name);
    set(below, { class: "panel-title right" });
    const across = columnAxis(x, pic.left, pic.right, (pic.right - pic.left) / 50);
    const up = columnAxis(y, pic.bottom, pic.top, (pic.bottom - pic.top) / 45);
    const width = (pic.right - pic.left) / x.at.length - 6; // of the name of a level
    if (x.kind !== "level") writeAllBelow(pic, across.labels);
    else for (const [at, text] of across.labels) {
      fit(write(pic.axes, at, pic.bottom + 19, text, "middle"), width);
    }
    for (const [at, text] of up.labels) fit(writeBeside(pic, at, text), left - 10);
    const [right, above] = [across.edges, up.edges].map((edges) => edges.map(Math.round));
    effect.forEach((row, j) => row.forEach((value, k) => {
      const share = Math.min(1, Math.abs(value) / (data.limit || 1));
      if (share < 0.004) return;
      add(pic.plot, "rect", { x: right[k], y: above[j + 1], width: right[k + 1] - right[k],
        height: above[j] - above[j + 1], class: `cell ${value > 0 ? "positive" : "negative"}`,
        "fill-opacity": share.toFixed(3) });
    }));
    add(pic.axes, "rect", { x: pic.left, y: pic.top, width: pic.right - pic.left,
      height: pic.bottom - pic.top, class: "frame" });
    return { pic, about(at, down) {
      const k = nearest(across.places, at);
      const j = y.at.length - 1 - nearest([...up.places].reverse(), down);
      return `${x.name} = ${valueOf(x, k)}, ${y.name} = ${valueOf(y, j)}: ${signed(effect[j][k])}`;
    } };
  }
  return { draw() { panels(host, data.surfaces, "surfaces-note", "wide", drawOne); }, mark() {} };
}
