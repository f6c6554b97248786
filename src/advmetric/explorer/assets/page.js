// The page at work: what is chosen, selected and set, and what shows it.

const element = (id) => document.getElementById(id);
const state = { point: null, selection: null, threshold: null, pair: null };

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Fill a table: cells are text, numbers or elements.
function fill(table, caption, head, rows) {
  table.replaceChildren();
  if (caption) table.append(make("caption", caption));
  const top = table.createTHead().insertRow();
  for (const name of head) top.append(make("th", name, { scope: "col" }));
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const cell of row) {
      const place = line.insertCell();
      if (cell instanceof Node) place.append(cell); else place.textContent = cell;
    }
  }
  return body;
}

function button(text, label, action) {
  const made = make("button", text, { type: "button", "aria-label": label });
  made.addEventListener("click", action);
  return made;
}

// --- points -------------------------------------------------------------------------------------------------------

function describe(i) {
  const part = points.held_out[i] ? "held out" : "learned from";
  return `${pointName(i)}${points.classes ? `, ${className(points.classes[i])}` : ""} (${part})`;
}

function choosePoint(point) {
  state.point = point;
  element("neighbours").hidden = point === null;
  element("chosen").replaceChildren();
  if (point === null) { showPair(null); markPoint("before", null); markPoint("after", null); return; }
  element("row").value = points.rows[point];
  const predicted = view.confusion ? view.confusion.predicted.learned[point] : -1;
  const taken = predicted >= 0 ? `; its neighbours in training say ${className(predicted)}` : "";
  const shared = neighbours(point, "learned").filter((a) => neighbours(point, "euclidean").some((b) => a.point === b.point));
  element("chosen").append(make("p", `Chosen: ${describe(point)}${taken}. The two distances share ${shared.length} of ${points.learned.k} neighbours.`));
  for (const [name, title] of [["learned", "Learned distance"], ["euclidean", "Euclidean distance"]]) {
    const head = ["compare with", ...(points.classes ? ["class"] : []), "distance"];
    const body = fill(element(`near-${name}`), title, head, neighbours(point, name).map((other) => [
      button(pointName(other.point), `Compare with ${pointName(other.point)}`, () => showPair([point, other.point], true)),
      ...(points.classes ? [className(points.classes[other.point])] : []), brief(other.distance),
    ]));
    if (points.classes) neighbours(point, name).forEach((other, i) => {
      if (points.classes[other.point] !== points.classes[point]) body.rows[i].cells[1].className = "other";
    });
  }
  showPair([point, neighbours(point, "learned")[0].point]);
  markPoint("before", point);
  markPoint("after", point);
}

function showPair(pair, move = false) {
  state.pair = pair;
  element("pair").hidden = pair === null;
  if (pair === null) return;
  const [a, b] = pair, found = compare(a, b);
  element("pair-title").textContent = `${pointName(a)} and ${pointName(b)}`;
  element("pair-note").textContent = `Learned distance ${brief(found.learned)}, Euclidean ${brief(found.euclidean)}. `
    + "Shares are of the squared distance; a negative share offsets others.";
  const rows = found.rows.sort((u, v) => Math.abs(v.share) - Math.abs(u.share)).slice(0, 12);
  const most = Math.max(...rows.map((row) => Math.abs(row.share)), 1e-9);
  fill(element("differences"), "", ["feature", points.names[a], points.names[b], "difference in sd", "share, Euclidean", "share, learned"],
    rows.map((row) => {
      const cell = make("span", ""), bar = make("span", "", { class: row.share < 0 ? "share negative" : "share", "aria-hidden": "true" });
      bar.style.width = `${(4 * Math.abs(row.share) / most).toFixed(2)}rem`;
      cell.append(bar, percent(row.share));
      return [features.names[row.feature], brief(valueOf(a, row.feature)), brief(valueOf(b, row.feature)), row.delta.toFixed(2), percent(row.plain), cell];
    }));
  if (move) { element("pair-title").focus(); }
}

function select(selection, how) {
  state.selection = selection;
  element("selected").hidden = !selection;
  element("selection").textContent = selection ? `${selection.size} of ${n} points selected${how ? `: ${how}` : ""}.` : "";
  if (selection) describeSelection([...selection]);
}

// The classes of the selected points, and the features in which they differ most from the others.
function describeSelection(chosen) {
  const p = features.names.length, inside = new Set(chosen), box = element("selected");
  box.replaceChildren();
  if (points.classes) {
    const counts = new Map();
    for (const i of chosen) counts.set(points.classes[i], (counts.get(points.classes[i]) ?? 0) + 1);
    const table = box.appendChild(document.createElement("table"));
    fill(table, "Classes of the selected points", ["class", "points"], [...counts].sort((a, b) => b[1] - a[1]).map(([code, count]) => [className(code), count]));
  }
  if (!chosen.length || chosen.length === n) return;
  const gaps = features.names.map((name, j) => {
    let here = 0, there = 0;
    for (let i = 0; i < n; i++) { if (inside.has(i)) here += features.values[i * p + j]; else there += features.values[i * p + j]; }
    return { name, gap: here / chosen.length - there / (n - chosen.length) };
  }).sort((a, b) => Math.abs(b.gap) - Math.abs(a.gap)).slice(0, 6);
  const table = box.appendChild(document.createElement("table"));
  fill(table, "Where they differ from the others on average", ["feature", "difference in sd"], gaps.map((row) => [row.name, row.gap.toFixed(2)]));
}

let quiet = false; // while pictures are changed by the page, their own events say nothing new
async function showSelection(selection, how, from = null) {
  select(selection, how);
  quiet = true;
  try {
    for (const id of ["before", "after"]) {
      if (id !== from) await Plotly.relayout(id, { selections: [] });
      if (id !== from || !selection) await markSelection(id, selection);
    }
  } finally { quiet = false; }
}

function clearAll() { showSelection(null, ""); choosePoint(null); element("row").value = ""; }

function step(by, wanted = () => true) {
  let i = state.point ?? (by > 0 ? -1 : n);
  for (let tried = 0; tried < n; tried++) {
    i = (i + by + n) % n;
    if (wanted(i)) { choosePoint(i); return; }
  }
}

const isError = (i) => view.confusion
  ? view.confusion.predicted.learned[i] >= 0 && view.confusion.predicted.learned[i] !== points.classes[i]
  : pairs !== null && pairs.kinds.some((kind, q) => (pairs.left[q] === i || pairs.right[q] === i)
    && (pairs.learned.distances[q] <= state.threshold) !== (kind === 1));

function nearestRow(row) {
  let best = 0;
  points.rows.forEach((r, i) => { if (Math.abs(r - row) < Math.abs(points.rows[best] - row)) best = i; });
  return best;
}

// --- decisions ----------------------------------------------------------------------------------------------------

function setThreshold(threshold) {
  state.threshold = threshold;
  const found = decisions("learned", threshold), { same, different } = found.counts;
  element("threshold-value").textContent = brief(threshold);
  element("threshold").setAttribute("aria-valuetext", `${brief(threshold)}: ${percent(found.recall)} found, ${percent(found.alarms)} false alarms`);
  element("rates").textContent = `${percent(found.recall)} of the same pairs are found, with ${percent(found.alarms)} false alarms; `
    + `precision ${percent(found.precision)}, accuracy ${percent(found.accuracy)}. At as many false alarms, the Euclidean distance finds `
    + `${percent(recallAt(curves.euclidean, found.alarms))}.`;
  fill(element("counts"), "", ["held-out pairs", "called same", "called different"], [["same", ...same], ["different", ...different]]);
  return markThreshold(threshold, found);
}

function showHardest(id, kind) {
  fill(element(id), "", ["pair", "learned", "Euclidean"], hardest(kind, 10).map((i) => {
    const a = pairs.left[i], b = pairs.right[i], name = `${pointName(a)} and ${pointName(b)}`;
    return [button(name, `Show ${name}`, () => { choosePoint(a); showPair([a, b], true); }),
      brief(pairs.learned.distances[i]), brief(pairs.euclidean.distances[i])];
  }));
}

function showConfusion(name) {
  const { classes, tables, predicted } = view.confusion, table = element(`confusion-${name}`);
  const rows = classes.map((code, i) => [className(code), ...classes.map((other, j) => {
    const count = tables[name][i][j];
    if (!count) return "";
    const how = `${className(code)} taken for ${className(other)}, ${name === "learned" ? "learned" : "Euclidean"} distance`;
    return button(String(count), `${count}: ${how}`, () => {
      const chosen = new Set(Array.from({ length: n }, (_, p) => p).filter((p) => points.classes[p] === code && predicted[name][p] === other));
      showSelection(chosen, how);
    });
  })]);
  const body = fill(table, classes.length < view.classes.length ? `The ${classes.length} classes with most errors` : "",
    ["class", ...classes.map(className)], rows);
  [...body.rows].forEach((row, i) => { row.cells[i + 1].className = "right"; });
}

// --- start --------------------------------------------------------------------------------------------------------

function draw() {
  const drawn = [drawPlane("before"), drawPlane("after"), drawWeights(), drawMatrix()];
  if (pairs) drawn.push(drawRoc(), drawHistogram());
  return Promise.all(drawn).then(async () => {
    for (const id of ["before", "after"]) {
      await markPoint(id, state.point);
      if (state.selection) await markSelection(id, state.selection);
    }
    if (pairs) await setThreshold(state.threshold);
  });
}

function begin() {
  element("title").textContent = view.title;
  element("answer").textContent = view.answer;
  element("before-title").textContent = `Before: Euclidean distance (${view.planes.before.how})`;
  element("after-title").textContent = `After: ${view.planes.after.how}`;
  element("matrix-title").textContent = features.matrix.names.length < features.total
    ? `M, the ${features.matrix.names.length} features with the largest weights` : "M, for features in standard deviations";
  for (const fact of view.facts) element("facts").append(make("li", fact));
  fill(element("scores"), "", view.scores.head, view.scores.rows.map(([name, ...row]) => [name, ...row.map(brief)]));
  fill(element("weight-table"), "", ["feature", "weight"], features.names.map((name, j) => [name, features.weights[j].toFixed(3)]));
  element("row-label").textContent = view.kind === "pairs" ? "Pair (row of the file)" : "Row of the file";
  element("row").addEventListener("change", (event) => { if (event.target.value) choosePoint(nearestRow(Number(event.target.value))); });
  element("previous").addEventListener("click", () => step(-1));
  element("next").addEventListener("click", () => step(1));
  element("next-error").addEventListener("click", () => step(1, isError));
  element("clear").addEventListener("click", clearAll);
  if (view.confusion) {
    element("confusion").hidden = false;
    for (const name of ["learned", "euclidean"]) showConfusion(name);
  }
  if (pairs) {
    element("decisions").hidden = element("hardest").hidden = false;
    element("pairs-note").textContent = pairs.drawn
      ? `${pairs.kinds.length} random pairs of held-out rows; "same" is "of the same class".` : `${pairs.kinds.length} held-out pairs.`;
    const slider = element("threshold"), top = Math.max(...pairs.learned.distances, pairs.learned.threshold) || 1;
    slider.min = 0; slider.max = top; slider.step = top / 1000; slider.value = pairs.learned.threshold;
    state.threshold = pairs.learned.threshold;
    slider.addEventListener("input", () => setThreshold(Number(slider.value)));
    element("best").addEventListener("click", () => { slider.value = pairs.learned.threshold; setThreshold(pairs.learned.threshold); });
    showHardest("hardest-same", 1);
    showHardest("hardest-different", -1);
  }
  return draw().then(() => {
    for (const id of ["before", "after"]) {
      element(id).on("plotly_click", (event) => { const i = event.points[0].customdata; if (Number.isInteger(i)) choosePoint(i); });
      element(id).on("plotly_selected", (event) => {
        if (quiet || !event) return;
        const chosen = new Set(event.points.map((p) => p.customdata).filter(Number.isInteger));
        showSelection(chosen.size ? chosen : null, "by lasso", id);
      });
      element(id).on("plotly_deselect", () => { if (!quiet) showSelection(null, ""); });
    }
    dark.addEventListener("change", draw);
    document.body.dataset.ready = "true";
  });
}

begin();
