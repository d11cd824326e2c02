// Curves of the out-of-fold predictions of each class; several classes have names beside them.

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
    const { pic, x, y } = squarePicture(host, "ROC curve of the out-of-fold predictions", [0, 1],
      "false positive rate", "true positive rate");
    drawClassCurves(pic, x, y, data.roc, pic.bottom - 10);
  }
  return { draw: drawAll, mark() {} };
}

function reliabilityChart(host) {
  function drawAll() {
    const { pic, x, y } = squarePicture(host,
      "Observed frequencies against predicted probabilities", [0, 1],
      "predicted probability", "observed frequency");
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
