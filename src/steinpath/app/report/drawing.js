// Formatted numbers, and SVG pictures with axes. Nothing here depends on what is drawn.
//
// Text is only assigned to textContent or attributes: no column name can become markup.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 56, right: 14, top: 30, bottom: 44 };

// ---- numbers, formatted as in page.py --------------------------------------------------------

const known = (value) => value !== null && Number.isFinite(value);
const magnitude = (size) => Math.floor(Math.log10(size));
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const grouped = (digits) => digits.replace(/^(\D?)(\d+)/, (_, sign, whole) =>
  sign.replace("-", "−") + whole.replace(/\B(?=(\d{3})+$)/g, ","));
const scientific = (value, digits) =>
  value.toExponential(digits).replace("+", "").replaceAll("-", "−");

function figure(value, stderr = null, of = value) {
  if (!known(value)) return "–";
  const size = Math.abs(of);
  if (size && !(size >= 1e-4 && size < 1e7)) return scientific(value, 3);
  const places = [0];
  for (const [k, s] of [[3, size], [1, stderr]]) if (s > 0) places.push(k - magnitude(s));
  return grouped(value.toFixed(Math.min(Math.max(...places), 10)));
}

function plusMinus(value, stderr) {
  if (!known(value) || !known(stderr)) return figure(value);
  return `${figure(value, stderr)} ± ${figure(stderr, stderr, value)}`;
}

const count = (value) => (known(value) ? grouped(String(value)) : "–");

function short(value) {
  const size = Math.abs(value);
  return size && !(size >= 1e-4 && size < 1e6) ? scientific(value) : count(value);
}

// Omits the middle of a long name: its end may distinguish it from others.
function shorten(name, length) {
  const letters = [...name];
  if (letters.length <= length) return name;
  const head = Math.floor((length - 1) * 2 / 3);
  return `${letters.slice(0, head).join("").trimEnd()}…${
    letters.slice(head + 1 - length).join("").trimStart()}`;
}

function quantile(values, share) {
  const sorted = values.filter(known).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.round(share * (sorted.length - 1))] : null;
}
const least = (values) => quantile(values, 0);
const most = (values) => quantile(values, 1);

// ---- elements --------------------------------------------------------------------------------

function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}
const add = (parent, name, attributes = {}) =>
  parent.appendChild(set(document.createElementNS(SVG, name), attributes));
const draw = (parent, d, kind) => add(parent, "path", { d, class: kind });

function write(parent, x, y, text, kind = "") {
  const node = add(parent, "text", { x, y, class: kind });
  node.textContent = text;
  return node;
}

function fit(text, width) {
  const name = text.textContent;
  let length = Math.min([...name].length, 40);
  while (length > 3 && text.getComputedTextLength() > width) {
    text.textContent = shorten(name, length--);
  }
}

// An empty picture as wide as its place, with a `plot` within that curves cannot leave.
function picture(host, height, label, right = MARGIN.right, margin = {}) {
  const { left, top, bottom } = { ...MARGIN, ...margin };
  const width = Math.max(host.clientWidth, 240);
  const focused = host.contains(document.activeElement);
  host.replaceChildren();
  const root = add(host, "svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": label });
  const box = { left, right: width - right, top, bottom: height - bottom };
  const [across, down] = [box.right - box.left, box.bottom - box.top];
  const axes = add(root, "g");
  const plot = add(root, "svg", { x: box.left, y: box.top, width: across, height: down,
    viewBox: `${box.left} ${box.top} ${across} ${down}` });
  return { root, axes, plot, focused, width, ...box };
}

const upright = (pic, x) => `M${x} ${pic.top}V${pic.bottom}`;
const level = (pic, y) => `M${pic.left} ${y}H${pic.right}`;

function curve(x, y, values) {
  let d = "", pen = "M";
  values.forEach((value, index) => {
    if (known(value)) d += `${pen}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = known(value) ? "L" : "M";
  });
  return d;
}

// Moves places as little as possible so that they are `gap` apart, between two limits.
function spread(places, gap, low, high) {
  const order = [...places.keys()].sort((a, b) => places[a] - places[b]);
  const blocks = []; // sums and counts of those that move together
  order.forEach((index, k) => {
    let [sum, size] = [places[index] - k * gap, 1];
    while (blocks.length && blocks.at(-1)[0] / blocks.at(-1)[1] > sum / size) {
      const [more, others] = blocks.pop();
      [sum, size] = [sum + more, size + others];
    }
    blocks.push([sum, size]);
  });
  const free = blocks.flatMap(([sum, size]) => Array(size).fill(sum / size));
  const top = Math.max(low, high - gap * (order.length - 1));
  const moved = [];
  order.forEach((index, k) => { moved[index] = clamp(free[k], low, top) + k * gap; });
  return moved;
}

// ---- axes ------------------------------------------------------------------------------------

const linear = (low, high, from, to) => (value) =>
  from + (to - from) * (value - low) / (high - low || 1);

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** magnitude(rough);
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
  return found.map((value) => Number(value.toPrecision(12)));
}

const writeBelow = (pic, x, value) => write(pic.axes, x, pic.bottom + 19, short(value), "middle");
const writeBeside = (pic, y, text) => write(pic.axes, pic.left - 8, y + 4, text, "right");
const nameBelow = (pic, name) => write(pic.axes, pic.right, pic.bottom + 36, name, "right");
const nameAbove = (pic, name) => write(pic.axes, 0, pic.top - 12, name);

// The axis of iterations t; by default log(1 + t), since early iterations matter most.
function timeAxis(pic, iterates, log) {
  const bend = log ? Math.log1p : (t) => t;
  const end = iterates[iterates.length - 1];
  const scale = linear(0, bend(end), pic.left, pic.right);
  const places = iterates.map((t) => scale(bend(t)));
  const round = [0, ...[0, 1, 2, 3, 4, 5, 6].flatMap((k) => [1, 2, 5].map((m) => m * 10 ** k))];
  let free = -Infinity;
  for (const t of log ? round : ticks(0, end, (pic.right - pic.left) / 90)) {
    const x = scale(bend(t));
    if (t > end || x < free) continue;
    free = x + 16 + 8 * short(t).length;
    draw(pic.axes, `M${x} ${pic.bottom}v5`, "tick");
    writeBelow(pic, x, t);
  }
  nameBelow(pic, "iteration");
  return { x: (index) => places[index], nearest: (x) => nearest(places, x) };
}

function nearest(places, x) {
  let low = 0, high = places.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (places[middle] < x) low = middle; else high = middle;
  }
  return x - places[low] <= places[high] - x ? low : high;
}

function valueAxis(pic, low, high, name, gap = 56) {
  const y = linear(low, high, pic.bottom, pic.top);
  for (const value of ticks(low, high, (pic.bottom - pic.top) / gap)) {
    draw(pic.axes, level(pic, y(value)), "grid");
    writeBeside(pic, y(value), short(value));
  }
  pic.title = nameAbove(pic, name);
  return (value) => clamp(y(value), -1e4, 1e4);
}
