// Curves of classes, of rows that were left out: each has a colour of its own, as far as there are
// colours, and a name beside it if there are several.

function unitPicture(host, label, across, up) {
  const side = clamp(host.clientWidth, 240, 460);
  const pic = picture(host, side, label, Math.max(host.clientWidth - side, 0) + MARGIN.right);
  const y = valueAxis(pic, 0, 1, up);
  const x = linear(0, 1, pic.left, pic.right);
  for (const value of ticks(0, 1, 5)) writeBelow(pic, x(value), value);
  nameBelow(pic, across);
  draw(pic.plot, `M${pic.left} ${pic.bottom}L${pic.right} ${pic.top}`, "diagonal");
  return { pic, x, y };
}

const classHue = (index) => (index < COLOURED ? `hue hue${index}` : "");

function drawClassCurves(pic, x, y, curves, corner) {
  curves.forEach((one, index) => {
    const points = one.x.map((value, k) => `${x(value).toFixed(1)} ${y(one.y[k]).toFixed(1)}`);
    draw(pic.plot, `M${points.join("L")}`, `line feature ${classHue(index)}`);
  });
  if (curves.length === 1) return;
  curves.forEach((one, index) => {
    const height = corner - LETTERS * (curves.length - 1 - index);
    const group = add(pic.root, "g", { class: `end ${classHue(index)}` });
    fit(write(group, pic.right - 6, height, one.name, "right"), 140);
  });
}

function rocChart(host) {
  function drawAll() {
    const { pic, x, y } = unitPicture(host, "ROC curve of rows left out, with the diagonal",
      "false positive rate", "true positive rate");
    drawClassCurves(pic, x, y, data.roc, pic.bottom - 10);
  }
  return { draw: drawAll, mark() {} };
}

function reliabilityChart(host) {
  function drawAll() {
    const { pic, x, y } = unitPicture(host,
      "Observed shares over predicted probabilities, with the diagonal",
      "predicted probability", "observed share");
    data.reliability.forEach((one, index) => one.x.forEach((value, k) => {
      const [low, high] = [-2, 2].map((side) => clamp(one.y[k] + side * one.stderr[k], 0, 1));
      draw(pic.plot, `M${x(value).toFixed(1)} ${y(low).toFixed(1)}V${y(high).toFixed(1)}`,
        `line feature thin ${classHue(index)}`);
      add(pic.plot, "circle", { cx: x(value), cy: y(one.y[k]), r: 3,
        class: `bin ${classHue(index)}` });
    }));
    drawClassCurves(pic, x, y, data.reliability, pic.bottom - 10);
  }
  return { draw: drawAll, mark() {} };
}
