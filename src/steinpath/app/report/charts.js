// The charts. Each can `draw` itself, and `mark` the iteration that is inspected.
//
// `data` holds the numbers and `state` what is inspected; both are defined in page.js.

const VIRIDIS = ["#fde725", "#b5de2b", "#6ece58", "#35b779", "#1f9e89", "#26828e", "#31688e",
  "#3e4989", "#482878", "#440154"]
  .map((colour) => [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16)));
const LINES = 20, COLOURED = 5, SHADES = 48, LETTERS = 14; // LETTERS: the height of a line

// ---- risk along the iterations ---------------------------------------------------------------

// The first iterations can be far worse than all others. The frame is made for the later ones and
// for the neighbourhood of the minimum; others may leave it.
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
    const height = isPrinting() ? 210 : host.clientWidth < 560 ? 300 : 400;
    pic = picture(host, height, "Estimated risk of each iteration");
    axis = timeAxis(pic, data.iterates, state.log);
    const [low, high] = riskLimits(axis, pic, risk, stderr, train);
    y = valueAxis(pic, low, high, data.test_loss);
    draw(pic.plot, band(axis.x, y, risk, stderr), "band");
    draw(pic.plot, curve(axis.x, y, train), "line train");
    draw(pic.plot, curve(axis.x, y, risk), "line estimate");
    if (known(risk[0]) && risk[0] > high) {
      add(pic.title, "tspan", { dx: 14, class: "estimate" })
        .textContent = `↑ ${figure(risk[0])} at iteration ${data.iterates[0]}`;
    }
    markChoice(data.risk[chosenRow][chosenAt]);
    cross = draw(pic.plot, "", "cross");
    dot = add(pic.plot, "circle", { r: 4.5, class: "dot" });
    follow(pic, (x) => ({ at: axis.nearest(x) }));
  }
  function markChoice(value) {
    if (!known(value)) return;
    if (state.row !== chosenRow) { // its risk alone: it is no point of this curve
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
    set(cross, { d: away ? upright(pic, x) : "" });
    set(dot, { cx: x, cy: known(value) ? y(value) : -1e4,
      visibility: away ? "visible" : "hidden" });
  }
  return { draw: drawAll, mark };
}

// ---- risk for each alpha ---------------------------------------------------------------------

function shade(share) {
  const place = share * (VIRIDIS.length - 1);
  const index = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return `rgb(${VIRIDIS[index].map((from, k) =>
    Math.round(from + (VIRIDIS[index + 1][k] - from) * (place - index)))})`;
}

function surfaceChart(host) {
  const note = byId("surface-note");
  const rows = data.alphas.length;
  const low = least(data.risk.flat()), high = quantile(data.risk.flat(), 0.8);
  // the root spreads the colours near the minimum, where surfaces are flat
  const colourOf = (risk) => Math.round(SHADES * Math.sqrt(clamp((risk - low) / (high - low || 1),
    0, 1))) / SHADES;
  const depthOf = (height) => clamp(Math.round(height / rows), 6, 44);
  let pic, axis, outline, ring, depth;
  const rowWithin = (row) => clamp(row, 0, rows - 1);
  const middle = (row) => pic.top + (row + 0.5) * depth;
  const cell = (parent, x, y, width, height, share) => add(parent, "rect", { x, y, width, height,
    fill: shade(share), class: "cell" });
  function drawAll() {
    depth = depthOf(isPrinting() ? 120 : 280);
    const every = Math.ceil(16 / depth);
    pic = picture(host, MARGIN.top + depth * rows + MARGIN.bottom,
      "Estimated risk of each iteration for each alpha");
    axis = timeAxis(pic, data.iterates, state.log);
    nameAbove(pic, "alpha");
    data.alphas.forEach((alpha, row) => {
      paint(row);
      if (row % every === 0) writeBeside(pic, middle(row), Number(alpha.toPrecision(2)));
    });
    drawKey();
    outline = add(pic.root, "rect", { x: pic.left, width: pic.right - pic.left, height: depth,
      class: "outline" });
    add(pic.root, "circle", { cx: axis.x(chosenAt), cy: middle(chosenRow), r: 6,
      class: "choice-dot" });
    ring = add(pic.root, "circle", { r: 6, class: "ring" });
    const rowAt = (y) => rowWithin(Math.floor((y - pic.top) / depth));
    const point = follow(pic, (x, y) => ({ at: axis.nearest(x), over: rowAt(y) }), {
      ArrowUp: () => ({ row: rowWithin(state.row - 1) }),
      ArrowDown: () => ({ row: rowWithin(state.row + 1) }),
    });
    pic.root.addEventListener("click", (event) => {
      const { at, over } = point(event);
      look({ at, row: over, over: null }, true);
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
    set(outline, { y: pic.top + state.row * depth });
    set(ring, { cx: axis.x(state.at), cy: middle(row) });
    note.textContent = `Alpha ${figure(data.alphas[row])}, iteration ${
      count(data.iterates[state.at])}: estimated risk ${riskAt(row, state.at)}`;
  }
  return { draw: drawAll, mark };
}

// ---- coefficients ----------------------------------------------------------------------------

function pathsChart(host) {
  const note = byId("paths-note");
  const names = data.coefficient_names.slice(0, LINES);
  const series = names.map((_, index) => data.coefficients.map((values) => values[index]));
  const low = Math.min(0, least(series.flat())), high = Math.max(0, most(series.flat()));
  const pad = 0.04 * (high - low) || 1;
  const hue = (index) => (index < COLOURED ? `hue hue${index}` : "");
  let pic, axis, y, cross, lines, ends;
  function drawAll() {
    const narrow = host.clientWidth < 560;
    const beside = narrow ? 104 : 190;
    const height = isPrinting() ? 240 : narrow ? 320 : 400;
    pic = picture(host, height, "Coefficients along the iterations", beside);
    axis = timeAxis(pic, data.iterates, state.log);
    y = valueAxis(pic, low - pad, high + pad, "per standard deviation");
    draw(pic.axes, level(pic, y(0)), "zero");
    draw(pic.plot, upright(pic, axis.x(chosenAt)), "choice");
    lines = series.map((values, index) => draw(pic.plot, curve(axis.x, y, values),
      `line feature ${hue(index)}`));
    pic.plot.append(...lines.slice().reverse()); // the largest on top
    ends = label(beside - 18);
    cross = draw(pic.plot, "", "cross");
    follow(pic, (px, py) => {
      const at = axis.nearest(px);
      const gaps = series.map((values) => Math.abs(y(values[at]) - py));
      const gap = Math.min(...gaps);
      return { at, line: gap < 24 ? gaps.indexOf(gap) : -1 };
    });
  }
  // Names beside the ends of lines, for as many of the largest as there is room for. The others
  // are shown when their lines are pointed at.
  function label(width) {
    const [top, bottom] = [pic.top - 4, pic.bottom + 4];
    const room = Math.floor((bottom - top) / LETTERS) + 1;
    const tips = series.map((values) => y(values[last]));
    const places = spread(tips.slice(0, room), LETTERS, top, bottom);
    return names.map((name, index) => {
      const place = places[index] ?? tips[index];
      const group = add(pic.root, "g", { class: `end ${hue(index)} ${
        index < room ? "" : "crowded"}` });
      draw(group, `M${pic.right + 1} ${tips[index]}L${pic.right + 14} ${place}`, "leader");
      fit(write(group, pic.right + 18, place + 4, name), width);
      return group;
    });
  }
  function mark() {
    const { at, line } = state;
    set(cross, { d: at === chosenAt ? "" : upright(pic, axis.x(at)) });
    pic.root.classList.toggle("picked", line >= 0);
    for (const nodes of [lines, ends]) {
      nodes.forEach((node, index) => node.classList.toggle("on", index === line));
    }
    note.textContent = line < 0 ? "Hover over a line to see its name."
      : `${names[line]}: ${figure(series[line][at])} at iteration ${count(data.iterates[at])}`;
  }
  return { draw: drawAll, mark };
}

// ---- out-of-fold predictions and residuals ---------------------------------------------------

const finitePairs = (first, second) =>
  first.map((value, k) => [value, second[k]]).filter((pair) => pair.every(known));

// A frame that holds nearly all values, and all of them unless a few are far from the rest.
function frameOf(values) {
  const [low, high] = [least(values) ?? 0, most(values) ?? 1];
  const [from, to] = [quantile(values, 0.02) ?? 0, quantile(values, 0.98) ?? 1];
  const reach = (to - from) / 4;
  const [bottom, top] = [Math.max(low, from - reach), Math.min(high, to + reach)];
  const pad = 0.04 * (top - bottom) || Math.abs(top) || 1;
  return [bottom - pad, top + pad];
}

const sideOf = (host) => clamp(host.clientWidth, 240, isPrinting() ? 270 : 460);

// A square frame with the same limits on both axes, and its diagonal.
function squarePicture(host, label, [low, high], across, up) {
  const side = sideOf(host);
  const pic = picture(host, side, label, Math.max(host.clientWidth - side, 0) + MARGIN.right);
  const y = valueAxis(pic, low, high, up);
  const x = linear(low, high, pic.left, pic.right);
  for (const value of ticks(low, high, 5)) writeBelow(pic, x(value), value);
  nameBelow(pic, across);
  draw(pic.plot, `M${pic.left} ${pic.bottom}L${pic.right} ${pic.top}`, "diagonal");
  return { pic, x, y };
}

// Points outside the frame are drawn at its edge.
function scatterChart(host, { points, frame, all, label, across, up, note }) {
  const inside = (value) => clamp(value, ...frame);
  const outside = points.filter((pair) => pair.some((value) => value !== inside(value))).length;
  const shown = points.length < all ? `${count(points.length)} of ${count(all)}`
    : count(points.length);
  function drawAll() {
    const { pic, x, y } = squarePicture(host, label, frame, across, up);
    for (const [right, above] of points) {
      add(pic.plot, "circle", { cx: x(inside(right)), cy: y(inside(above)), r: 2.6,
        class: "point" });
    }
    byId(note).textContent = `${shown} rows${
      outside ? `, ${count(outside)} outside the frame and drawn at its edge` : ""}`;
  }
  return { draw: drawAll, mark() {} };
}

function predictedChart(host) {
  const points = finitePairs(data.predicted, data.actual);
  return scatterChart(host, { points, frame: frameOf(points.flat()), all: data.left_out_rows,
    label: "Actual values against out-of-fold predictions", across: "predicted", up: "actual",
    note: "predicted-note" });
}

function residualsChart(host) {
  const points = finitePairs(data.raw, data.corrected);
  const sizes = points.flat().map(Math.abs);
  const limit = Math.min(most(sizes) ?? 1, 2 * quantile(sizes, 0.95) || 1) * 1.04;
  return scatterChart(host, { points, frame: [-limit, limit], all: points.length,
    label: "Corrected residuals against training residuals", across: "training residual",
    up: "corrected residual", note: "residuals-note" });
}

// A histogram with about 1.5 √n bars, 40 at most.
function errorsChart(host) {
  const residuals = finitePairs(data.actual, data.predicted).map(([y, yhat]) => y - yhat);
  const [low, high] = frameOf(residuals);
  const bars = clamp(Math.ceil(1.5 * Math.sqrt(residuals.length)), 5, 40);
  const counts = Array(bars).fill(0);
  for (const value of residuals) {
    counts[clamp(Math.floor(bars * (value - low) / (high - low)), 0, bars - 1)]++;
  }
  const beyond = residuals.filter((value) => value < low || value > high).length;
  const [q5, q25, middle, q75, q95] = data.quantiles;
  function drawAll() {
    const pic = picture(host, sideOf(host), "Histogram of out-of-fold residuals");
    const y = valueAxis(pic, 0, 1.06 * (most(counts) || 1), "rows");
    const x = linear(low, high, pic.left, pic.right);
    for (const [from, to] of [[q5, q95], [q25, q75]]) {
      const [left, right] = [x(clamp(from, low, high)), x(clamp(to, low, high))];
      add(pic.plot, "rect", { x: left, y: pic.top, width: right - left,
        height: pic.bottom - pic.top, class: "band" });
    }
    const width = (pic.right - pic.left) / bars;
    counts.forEach((number, k) => {
      add(pic.plot, "rect", { x: pic.left + k * width + 0.5, y: y(number),
        width: Math.max(width - 1, 0.5), height: pic.bottom - y(number), class: "column" });
    });
    draw(pic.plot, upright(pic, x(middle)), "choice");
    for (const value of ticks(low, high, (pic.right - pic.left) / 90)) {
      writeBelow(pic, x(value), value);
    }
    nameBelow(pic, "actual − predicted");
    const say = (value) => figure(value, null, q95 - q5 || value);
    byId("errors-note").textContent = `Median ${say(middle)}; half of the rows between ${
      say(q25)} and ${say(q75)}, 90% between ${say(q5)} and ${say(q95)}${
      beyond ? `; ${count(beyond)} outside the frame, in the outermost bars` : ""}`;
  }
  return { draw: drawAll, mark() {} };
}
