// The charts of a report, drawn as SVG from the numbers in the page.
//
// What the page says of the chosen iterate is there without this script. Text from the data only
// ever becomes textContent or an attribute, so that no name of a column can become markup.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const VIRIDIS = ["#fde725", "#b5de2b", "#6ece58", "#35b779", "#1f9e89", "#26828e", "#31688e",
    "#3e4989", "#482878", "#440154"]
    .map((colour) => [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16)));
  const BARS = 8, LINES = 20, COLOURED = 5, SHADES = 48;
  const MARGIN = { left: 56, right: 14, top: 30, bottom: 44 };

  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const last = data.iterates.length - 1;
  const [chosenRow, chosenAt] = data.chosen;
  // `at` is the index of the iterate that is looked at, `pinned` the one to return to when the
  // mouse leaves a chart; `row` is the strength whose curve is shown, `over` the one that is
  // pointed at; `line` is a coefficient.
  const state = { row: chosenRow, over: null, at: chosenAt, pinned: chosenAt, line: -1, log: true };
  const charts = []; // each can `draw` itself anew, and `mark` the iterate that is looked at

  // ---- numbers, in the same words as page.py -------------------------------------------------

  const known = (value) => value !== null && Number.isFinite(value);
  const magnitude = (size) => Math.floor(Math.log10(size));
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const grouped = (digits) => digits.replace(/^(\D?)(\d+)/, (_, sign, whole) =>
    sign.replace("-", "−") + whole.replace(/\B(?=(\d{3})+$)/g, ","));

  function figure(value, stderr = null, of = value) {
    if (!known(value)) return "–";
    const size = Math.abs(of);
    if (size && !(size >= 1e-4 && size < 1e7)) {
      return value.toExponential(3).replace("+", "").replaceAll("-", "−");
    }
    const places = [0];
    for (const [k, s] of [[3, size], [1, stderr]]) if (s > 0) places.push(k - magnitude(s));
    return grouped(value.toFixed(Math.min(Math.max(...places), 10)));
  }

  function plusMinus(value, stderr) {
    if (!known(value) || !known(stderr)) return figure(value);
    return `${figure(value, stderr)} ± ${figure(stderr, stderr, value)}`;
  }

  const count = (value) => grouped(String(value));
  const short = (value) => (value && !(Math.abs(value) >= 1e-4 && Math.abs(value) < 1e6)
    ? value.toExponential().replace("+", "").replaceAll("-", "−") : grouped(String(value)));
  const riskAt = (row, at) => plusMinus(data.risk[row][at], data.stderr[row][at]);

  function quantile(values, share) {
    const sorted = values.filter(known).sort((a, b) => a - b);
    return sorted.length ? sorted[Math.round(share * (sorted.length - 1))] : null;
  }
  const least = (values) => quantile(values, 0);
  const most = (values) => quantile(values, 1);

  // ---- drawing -------------------------------------------------------------------------------

  function add(parent, name, attributes = {}, text = null) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    return parent.appendChild(node);
  }
  const draw = (parent, d, kind) => add(parent, "path", { d, class: kind });
  const write = (parent, x, y, text, kind = "") => add(parent, "text", { x, y, class: kind }, text);
  const upright = (pic, x) => `M${x} ${pic.top}V${pic.bottom}`;
  const level = (pic, y) => `M${pic.left} ${y}H${pic.right}`;
  const linear = (low, high, from, to) => (value) =>
    from + (to - from) * (value - low) / (high - low || 1);

  // An empty picture as wide as its place, with a `plot` within that curves cannot leave.
  function picture(host, height, label, right = MARGIN.right) {
    const width = Math.max(host.clientWidth, 240);
    const focused = host.contains(document.activeElement);
    host.replaceChildren();
    const root = add(host, "svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
      "aria-label": label });
    const box = { left: MARGIN.left, right: width - right, top: MARGIN.top,
      bottom: height - MARGIN.bottom };
    const [across, down] = [box.right - box.left, box.bottom - box.top];
    const axes = add(root, "g");
    const plot = add(root, "svg", { x: box.left, y: box.top, width: across, height: down,
      viewBox: `${box.left} ${box.top} ${across} ${down}` });
    return { root, axes, plot, focused, width, ...box };
  }

  function ticks(low, high, wanted) {
    const rough = (high - low) / wanted || 1;
    const power = 10 ** magnitude(rough);
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
    return found.map((value) => Number(value.toPrecision(12)));
  }

  // Where iterates are: early ones matter most, so that by default the axis is that of log(1 + t).
  function timeAxis(pic) {
    const bend = state.log ? Math.log1p : (t) => t;
    const end = data.iterates[last];
    const scale = linear(0, bend(end), pic.left, pic.right);
    const places = data.iterates.map((t) => scale(bend(t)));
    const round = [0, ...[0, 1, 2, 3, 4, 5, 6].flatMap((k) => [1, 2, 5].map((m) => m * 10 ** k))];
    let free = -Infinity;
    for (const t of state.log ? round : ticks(0, end, (pic.right - pic.left) / 90)) {
      const x = scale(bend(t));
      if (t > end || x < free) continue;
      free = x + 16 + 8 * short(t).length;
      draw(pic.axes, `M${x} ${pic.bottom}v5`, "tick");
      write(pic.axes, x, pic.bottom + 19, short(t), "middle");
    }
    write(pic.axes, pic.right, pic.bottom + 36, "iterate", "right");
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

  function valueAxis(pic, low, high, name) {
    const y = linear(low, high, pic.bottom, pic.top);
    for (const value of ticks(low, high, (pic.bottom - pic.top) / 56)) {
      draw(pic.axes, level(pic, y(value)), "grid");
      write(pic.axes, pic.left - 8, y(value) + 4, short(value), "right");
    }
    pic.title = write(pic.axes, 0, pic.top - 12, name);
    return (value) => clamp(y(value), -1e4, 1e4);
  }

  function curve(x, y, values) {
    let d = "", pen = "M";
    values.forEach((value, index) => {
      if (known(value)) d += `${pen}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = known(value) ? "L" : "M";
    });
    return d;
  }

  // ---- looking at another iterate ------------------------------------------------------------

  function look(changes, pin = false) {
    const anew = "row" in changes && changes.row !== state.row;
    Object.assign(state, changes);
    if (pin) state.pinned = state.at;
    if (anew) charts.forEach((chart) => chart.draw());
    charts.forEach((chart) => chart.mark());
    showPanel(state);
    say(state);
  }

  // The mouse, a finger or the arrow keys; `find` says what is at a point of the picture.
  function follow(pic, find) {
    const { root } = pic;
    const point = (event) => {
      const box = root.getBoundingClientRect();
      const unit = pic.width / box.width; // not 1 where the picture has been made to fit
      return find((event.clientX - box.left) * unit, (event.clientY - box.top) * unit);
    };
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -last,
      End: last };
    const slider = { tabindex: 0, role: "slider", class: "live", "aria-valuemin": data.iterates[0],
      "aria-valuemax": data.iterates[last] };
    for (const [key, value] of Object.entries(slider)) root.setAttribute(key, value);
    root.addEventListener("pointermove", (e) => look(point(e), e.pointerType !== "mouse"));
    root.addEventListener("pointerdown", (e) => look(point(e), true));
    root.addEventListener("pointerleave", () => look({ at: state.pinned, line: -1, over: null }));
    root.addEventListener("keydown", (event) => {
      if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      look({ at: clamp(state.at + steps[event.key], 0, last), over: null }, true);
    });
    if (pic.focused) root.focus({ preventScroll: true });
    return point;
  }

  // what is read out to those who do not see the charts
  function say({ row, at }) {
    for (const root of document.querySelectorAll("svg.live")) {
      root.setAttribute("aria-valuenow", data.iterates[at]);
      root.setAttribute("aria-valuetext",
        `Iterate ${data.iterates[at]}: estimated risk ${riskAt(row, at)}`);
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
      strength: figure(data.strengths[row]),
      note: !isChosenRow ? "Coefficients are kept for the chosen strength only."
        : bars.length ? "" : "All are zero.",
    };
    for (const [name, text] of Object.entries(texts)) field(name).textContent = text;
    field("chosen").hidden = !(isChosenRow && at === chosenAt);
    field("bars").replaceChildren(...bars);
    byId("back").hidden = isChosenRow && pinned === chosenAt;
    byId("strength-note").textContent = data.strengths.length === 1 ? "" : `Strength ${
      texts.strength}${isChosenRow ? ", the chosen one" : "; dotted, the risk of the chosen one"}`;
  }

  const largest = most(data.coefficients.flat().map(Math.abs));

  function barsAt(at) {
    const pairs = (data.coefficients[at] || []).map((value, index) => [value, data.names[index]]);
    pairs.sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    return pairs.slice(0, BARS).filter(([value]) => value).map(([value, name]) => {
      const item = document.createElement("li");
      const label = item.appendChild(document.createElement("span"));
      label.textContent = label.title = name;
      const svg = add(item, "svg", { class: "bar", viewBox: "0 0 100 12",
        preserveAspectRatio: "none", "aria-hidden": "true" });
      const length = 50 * value / largest;
      draw(svg, "M50 0V12", "zero");
      add(svg, "rect", { x: 50 + Math.min(length, 0), y: 1, width: Math.abs(length), height: 10 });
      item.appendChild(document.createElement("b")).textContent = figure(value);
      return item;
    });
  }

  // ---- the risk of every iterate -------------------------------------------------------------

  // The first iterates can be far worse than all others. The frame is made for the later ones and
  // for what is around the minimum; those that are beyond may leave it.
  function riskLimits(axis, pic, risk, stderr, train) {
    const low = least(risk);
    if (low === null) return [0, 1];
    const spots = Array.from({ length: 65 }, (_, k) =>
      risk[axis.nearest(pic.left + k * (pic.right - pic.left) / 64)]);
    const error = stderr[risk.indexOf(low)] || 0;
    const reach = Math.max(16 * error, Math.min(1.3 * (quantile(spots, 0.92) - low),
      5 * (quantile(spots, 0.75) - low)), 1e-6 * Math.abs(low));
    const peak = most(risk.map((r, t) => (known(r) ? r + 2 * (stderr[t] || 0) : null)));
    const top = Math.max(Math.min(peak, low + reach), data.risk[chosenRow][chosenAt] ?? low);
    const floor = Math.min(low - 2 * error, least(train) ?? low);
    const bottom = Math.max(floor, low - 1.5 * Math.max(top - low, 4 * error));
    const pad = 0.04 * (top - bottom) || 1;
    return [bottom - pad, top + pad];
  }

  function band(x, y, risk, stderr) {
    const there = [...risk.keys()].filter((t) => known(risk[t]) && known(stderr[t]));
    const side = (sign) => (t) =>
      `${x(t).toFixed(1)} ${y(risk[t] + sign * 2 * stderr[t]).toFixed(1)}`;
    const around = [...there.map(side(1)), ...there.reverse().map(side(-1))];
    return around.length ? `M${around.join("L")}Z` : "";
  }

  function riskChart(host) {
    let pic, axis, y, cross, dot;
    function drawAll() {
      const [risk, stderr, train] = [data.risk, data.stderr, data.train].map((a) => a[state.row]);
      pic = picture(host, host.clientWidth < 560 ? 300 : 400, "Estimated risk of every iterate");
      axis = timeAxis(pic);
      const [low, high] = riskLimits(axis, pic, risk, stderr, train);
      y = valueAxis(pic, low, high, data.testLoss);
      draw(pic.plot, band(axis.x, y, risk, stderr), "band");
      draw(pic.plot, curve(axis.x, y, train), "line train");
      draw(pic.plot, curve(axis.x, y, risk), "line estimate");
      if (known(risk[0]) && risk[0] > high) add(pic.title, "tspan", { dx: 14, class: "estimate" },
        `↑ ${figure(risk[0])} at iterate ${data.iterates[0]}`);
      markChoice(data.risk[chosenRow][chosenAt]);
      cross = draw(pic.plot, "", "cross");
      dot = add(pic.plot, "circle", { r: 4.5, class: "dot" });
      follow(pic, (x) => ({ at: axis.nearest(x) }));
    }
    function markChoice(value) {
      if (!known(value)) return;
      if (state.row !== chosenRow) { // its risk alone: it is no iterate of this curve
        draw(pic.plot, level(pic, y(value)), "choice thin");
        return;
      }
      const x = axis.x(chosenAt);
      draw(pic.plot, upright(pic, x), "choice");
      add(pic.plot, "circle", { cx: x, cy: y(value), r: 5.5, class: "choice-dot" });
    }
    function mark() {
      const x = axis.x(state.at), value = data.risk[state.row][state.at];
      const away = state.row !== chosenRow || state.at !== chosenAt;
      cross.setAttribute("d", away ? upright(pic, x) : "");
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", known(value) ? y(value) : -1e4);
      dot.setAttribute("visibility", away ? "visible" : "hidden");
    }
    return { draw: drawAll, mark };
  }

  // ---- every strength ------------------------------------------------------------------------

  function shade(share) {
    const place = share * (VIRIDIS.length - 1);
    const index = Math.min(Math.floor(place), VIRIDIS.length - 2);
    return `rgb(${VIRIDIS[index].map((from, k) =>
      Math.round(from + (VIRIDIS[index + 1][k] - from) * (place - index)))})`;
  }

  function surfaceChart(host) {
    const note = byId("surface-note");
    const rows = data.strengths.length;
    const low = least(data.risk.flat()), high = quantile(data.risk.flat(), 0.8);
    // the root spreads the colours near the minimum, where surfaces are flat
    const colourOf = (risk) => Math.round(SHADES * Math.sqrt(clamp((risk - low) / (high - low || 1),
      0, 1))) / SHADES;
    const depth = clamp(Math.round(280 / rows), 12, 44);
    const every = Math.ceil(16 / depth);
    let pic, axis, outline, ring;
    const middle = (row) => pic.top + (row + 0.5) * depth;
    const cell = (parent, x, y, width, height, share) => add(parent, "rect", { x, y, width, height,
      fill: shade(share), class: "cell" });
    function drawAll() {
      pic = picture(host, MARGIN.top + depth * rows + MARGIN.bottom,
        "Estimated risk of every iterate for every strength of the penalty");
      axis = timeAxis(pic);
      write(pic.axes, 0, pic.top - 12, "strength");
      data.strengths.forEach((strength, row) => {
        paint(row);
        if (row % every) return;
        write(pic.axes, pic.left - 8, middle(row) + 4, Number(strength.toPrecision(2)), "right");
      });
      drawKey();
      outline = add(pic.root, "rect", { x: pic.left, width: pic.right - pic.left, height: depth,
        class: "outline" });
      add(pic.root, "circle", { cx: axis.x(chosenAt), cy: middle(chosenRow), r: 6,
        class: "choice-dot" });
      ring = add(pic.root, "circle", { r: 6, class: "ring" });
      const rowAt = (y) => clamp(Math.floor((y - pic.top) / depth), 0, rows - 1);
      const point = follow(pic, (x, y) => ({ at: axis.nearest(x), over: rowAt(y) }));
      pic.root.addEventListener("click", (event) => {
        const { at, over } = point(event);
        look({ at, row: over, over: null }, true);
      });
      pic.root.addEventListener("keydown", (event) => {
        const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        look({ row: clamp(state.row + step, 0, rows - 1), over: null }, true);
      });
    }
    // runs of the same colour are one rectangle each
    function paint(row) {
      let from = pic.left, colour = null;
      for (let x = pic.left; x <= pic.right; x++) {
        const risk = data.risk[row][axis.nearest(x + 0.5)];
        const next = x < pic.right && known(risk) ? colourOf(risk) : null;
        if (next === colour) continue;
        if (colour !== null) cell(pic.plot, from, pic.top + row * depth, x - from, depth, colour);
        [from, colour] = [x, next];
      }
    }
    function drawKey() {
      const width = pic.width < 480 ? 70 : 110, left = pic.right - width - 72;
      for (let k = 0; k < width; k += 2) cell(pic.axes, left + k, 9, 2, 10, k / width);
      write(pic.axes, left - 6, pic.top - 12, figure(low), "right");
      write(pic.axes, left + width + 6, pic.top - 12, `≥ ${figure(high)}`);
    }
    function mark() {
      const row = state.over ?? state.row;
      outline.setAttribute("y", pic.top + state.row * depth);
      ring.setAttribute("cx", axis.x(state.at));
      ring.setAttribute("cy", middle(row));
      note.textContent = `Strength ${figure(data.strengths[row])}, iterate ${
        count(data.iterates[state.at])}: estimated risk ${riskAt(row, state.at)}`;
    }
    return { draw: drawAll, mark };
  }

  // ---- coefficients --------------------------------------------------------------------------

  function pathsChart(host) {
    const note = byId("paths-note");
    const names = data.names.slice(0, LINES);
    const series = names.map((_, index) => data.coefficients.map((values) => values[index]));
    const low = Math.min(0, least(series.flat())), high = Math.max(0, most(series.flat()));
    const pad = 0.04 * (high - low) || 1;
    const hue = (index) => (index < COLOURED ? `hue hue${index}` : "");
    let pic, axis, y, cross, lines, ends;
    function drawAll() {
      const narrow = host.clientWidth < 560;
      pic = picture(host, narrow ? 320 : 400, "Coefficients along the path", narrow ? 96 : 180);
      axis = timeAxis(pic);
      y = valueAxis(pic, low - pad, high + pad, "per standard deviation");
      draw(pic.axes, level(pic, y(0)), "zero");
      draw(pic.plot, upright(pic, axis.x(chosenAt)), "choice");
      lines = series.map((values, index) => draw(pic.plot, curve(axis.x, y, values),
        `line feature ${hue(index)}`));
      pic.plot.append(...lines.slice().reverse()); // the largest on top
      ends = label(narrow ? 11 : 20);
      cross = draw(pic.plot, "", "cross");
      follow(pic, (px, py) => {
        const at = axis.nearest(px);
        const gaps = series.map((values) => Math.abs(y(values[at]) - py));
        const gap = Math.min(...gaps);
        return { at, line: gap < 24 ? gaps.indexOf(gap) : -1 };
      });
    }
    // ends of lines, the largest first, as long as there is room
    function label(length) {
      const taken = [];
      return names.map((name, index) => {
        const place = y(series[index][last]) + 4;
        const crowded = taken.some((other) => Math.abs(other - place) < 14);
        if (!crowded) taken.push(place);
        const letters = [...name];
        const text = letters.length > length ? `${letters.slice(0, length - 1).join("")}…` : name;
        return write(pic.root, pic.right + 8, place, text,
          `end ${hue(index)} ${crowded ? "crowded" : ""}`);
      });
    }
    function mark() {
      const { at, line } = state;
      cross.setAttribute("d", at === chosenAt ? "" : upright(pic, axis.x(at)));
      pic.root.classList.toggle("picked", line >= 0);
      for (const nodes of [lines, ends]) {
        nodes.forEach((node, index) => node.classList.toggle("on", index === line));
      }
      note.textContent = line < 0 ? "Point at a line for its name."
        : `${names[line]}: ${figure(series[line][at])} at iterate ${count(data.iterates[at])}`;
    }
    return { draw: drawAll, mark };
  }

  // ---- residuals -----------------------------------------------------------------------------

  // Errors can have heavy tails: the frame holds nearly all, and the others sit at its edge.
  function residualsChart(host) {
    const both = data.raw.map((raw, k) => [raw, data.corrected[k]]).filter((p) => p.every(known));
    const sizes = both.flat().map(Math.abs);
    const limit = Math.min(most(sizes) ?? 1, 2 * quantile(sizes, 0.95) || 1) * 1.04;
    const inside = (value) => clamp(value, -limit, limit);
    const beyond = both.filter((pair) => pair.some((value) => Math.abs(value) > limit)).length;
    function drawAll() {
      const side = clamp(host.clientWidth, 240, 460);
      const pic = picture(host, side, "Corrected against raw residuals, with the diagonal",
        Math.max(host.clientWidth - side, 0) + MARGIN.right);
      const y = valueAxis(pic, -limit, limit, "corrected residual");
      const x = linear(-limit, limit, pic.left, pic.right);
      for (const value of ticks(-limit, limit, 5)) {
        write(pic.axes, x(value), pic.bottom + 19, short(value), "middle");
      }
      write(pic.axes, pic.right, pic.bottom + 36, "raw residual", "right");
      draw(pic.plot, `M${pic.left} ${pic.bottom}L${pic.right} ${pic.top}`, "diagonal");
      for (const [raw, corrected] of both) {
        add(pic.plot, "circle", { cx: x(inside(raw)), cy: y(inside(corrected)), r: 2.6,
          class: "point" });
      }
      byId("residuals-note").textContent = `${count(both.length)} rows${beyond
        ? `, ${count(beyond)} of them beyond the frame and drawn at its edge` : ""}`;
    }
    return { draw: drawAll, mark() {} };
  }

  // ---- buttons -------------------------------------------------------------------------------

  function press(id, action) {
    const button = byId(id);
    button.hidden = false;
    button.addEventListener("click", () => action(button));
  }

  // A page from a file may have no storage; the theme then lasts as long as the page.
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

  function redraw() {
    charts.forEach((chart) => chart.draw());
    look({});
  }

  const makers = { risk: riskChart, surface: surfaceChart, paths: pathsChart,
    residuals: residualsChart };
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
    if (window.innerWidth === width) return; // the bars of a phone's browser come and go
    width = window.innerWidth;
    window.requestAnimationFrame(redraw);
  });
})();
