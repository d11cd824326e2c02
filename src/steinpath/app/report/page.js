// The page: its numbers, the iteration that is inspected, its panel, and the buttons.
//
// The numbers of the selected iteration are part of the page without this script.

const BARS = 8, NAME_LENGTH = 64;

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const last = data.iterates.length - 1;
const [chosenRow, chosenAt] = data.chosen;
const largest = most(data.coefficients.flat().map(Math.abs));
// `at` is the index of the iteration that is inspected, `pinned` the one to return to when the
// mouse leaves a chart; `row` is the alpha whose curve is shown, `over` the one that is
// pointed at; `line` is a coefficient.
const state = { row: chosenRow, over: null, at: chosenAt, pinned: chosenAt, line: -1, log: true };
const charts = [];

// ---- inspecting another iteration ------------------------------------------------------------

function look(changes, pin = false) {
  const anew = "row" in changes && changes.row !== state.row;
  Object.assign(state, changes);
  if (pin) state.pinned = state.at;
  if (anew) charts.forEach((chart) => chart.draw());
  charts.forEach((chart) => chart.mark());
  showPanel(state);
  say(state);
}

// Mouse, touch and keyboard; `find` returns what is at a point of the picture, and `more` has keys
// other than those that move to another iteration.
function follow(pic, find, more = {}) {
  const { root } = pic;
  const point = (event) => {
    const box = root.getBoundingClientRect();
    const unit = pic.width / box.width; // not 1 if the picture is scaled to fit
    return find((event.clientX - box.left) * unit, (event.clientY - box.top) * unit);
  };
  const step = (by) => () => ({ at: clamp(state.at + by, 0, last) });
  const keys = { ArrowLeft: step(-1), ArrowRight: step(1), PageDown: step(-10), PageUp: step(10),
    Home: step(-last), End: step(last), ...more };
  set(root, { tabindex: 0, role: "slider", class: "live", "aria-valuemin": data.iterates[0],
    "aria-valuemax": data.iterates[last] });
  root.addEventListener("pointermove", (e) => look(point(e), e.pointerType !== "mouse"));
  root.addEventListener("pointerdown", (e) => look(point(e), true));
  root.addEventListener("pointerleave", () => look({ at: state.pinned, line: -1, over: null }));
  root.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    look({ ...keys[event.key](), over: null }, true);
  });
  if (pic.focused) root.focus({ preventScroll: true });
  return point;
}

const riskAt = (row, at) => plusMinus(data.risk[row][at], data.stderr[row][at]);

// for screen readers
function say({ row, at }) {
  for (const root of document.querySelectorAll("svg.live")) {
    set(root, { "aria-valuenow": data.iterates[at],
      "aria-valuetext": `Iteration ${data.iterates[at]}: estimated risk ${riskAt(row, at)}` });
  }
}

function showPanel({ row, at, pinned }) {
  const isChosenRow = row === chosenRow;
  const field = (name) => document.querySelector(`#panel [data-field="${name}"]`);
  const bars = isChosenRow ? barsAt(at) : [];
  const texts = {
    iterate: count(data.iterates[at]),
    risk: riskAt(row, at),
    train: figure(data.train[row][at]),
    nonzeros: count(data.nonzeros[row][at]),
    alpha: figure(data.alphas[row]),
    note: !isChosenRow ? "Coefficients are available for the selected alpha only."
      : bars.length ? "" : "All are zero.",
  };
  for (const [name, text] of Object.entries(texts)) field(name).textContent = text;
  field("chosen").hidden = !(isChosenRow && at === chosenAt);
  field("bars").replaceChildren(...bars);
  byId("back").hidden = isChosenRow && pinned === chosenAt;
  byId("alpha-note").textContent = data.alphas.length === 1 ? "" : `Alpha ${
    texts.alpha}${isChosenRow ? " (selected)" : "; dotted: risk of the selected model"}`;
}

function barsAt(at) {
  const pairs = (data.coefficients[at] || []).map((value, index) => [value, data.coefficient_names[index]]);
  pairs.sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
  return pairs.slice(0, BARS).filter(([value]) => value).map(([value, name]) => {
    const item = document.createElement("li");
    const label = item.appendChild(document.createElement("span"));
    label.title = name;
    for (const part of shorten(name, NAME_LENGTH).match(/[^_=./:-]*[_=./:-]|[^_=./:-]+/g) || []) {
      label.append(part, document.createElement("wbr")); // where the name may be broken
    }
    const svg = add(item, "svg", { class: "span bar", "aria-hidden": "true" });
    const end = `${50 + 47 * value / largest}%`;
    add(svg, "line", { class: "zero", x1: "50%", x2: "50%", y1: 0, y2: "100%" });
    add(svg, "line", { class: "reach", x1: "50%", x2: end, y1: "50%", y2: "50%" });
    item.appendChild(document.createElement("b")).textContent = figure(value);
    return item;
  });
}

// ---- buttons ---------------------------------------------------------------------------------

function press(id, action) {
  const button = byId(id);
  button.hidden = false;
  button.addEventListener("click", () => action(button));
}

// A page opened from a file may have no storage; the theme is then not kept.
function stored(value) {
  try {
    if (value) localStorage.setItem("steinpath-theme", value);
    return localStorage.getItem("steinpath-theme");
  } catch {
    return null;
  }
}

function setUpTheme() {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const other = () => ((root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark"
    ? "light" : "dark");
  const name = () => { byId("theme").textContent = other() === "dark" ? "Dark" : "Light"; };
  if (["light", "dark"].includes(stored())) root.dataset.theme = stored();
  press("theme", () => {
    root.dataset.theme = other();
    stored(root.dataset.theme);
    name();
  });
  dark.addEventListener("change", name);
  name();
}

function copy(button) {
  const select = () => window.getSelection().selectAllChildren(byId("command"));
  const done = () => {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  if (!navigator.clipboard) select();
  else navigator.clipboard.writeText(byId("command").textContent).then(done, select);
}

const isPrinting = () => document.documentElement.classList.contains("printing");

function redraw() {
  charts.forEach((chart) => chart.draw());
  look({});
}

// ---- start -----------------------------------------------------------------------------------

const makers = { risk: riskChart, surface: surfaceChart, predicted: predictedChart,
  errors: errorsChart, roc: rocChart, reliability: reliabilityChart, paths: pathsChart,
  residuals: residualsChart, curves: curvesChart, surfaces: surfacesChart };
for (const [id, make] of Object.entries(makers)) {
  const host = byId(`${id}-plot`);
  if (host) charts.push(make(host));
}
setUpTheme();
press("copy", copy);
press("back", () => look({ row: chosenRow, at: chosenAt, over: null }, true));
press("axis", (button) => {
  state.log = !state.log;
  button.textContent = state.log ? "Linear axis" : "Logarithmic axis";
  redraw();
});
redraw();
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return; // the toolbars of mobile browsers change the height
  width = window.innerWidth;
  window.requestAnimationFrame(redraw);
});
for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(event, () => {
    document.documentElement.classList.toggle("printing", printing);
    redraw();
  });
}
