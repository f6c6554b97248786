// Pictures, in the colours of the page.

const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c"];
const SYMBOLS = ["circle", "triangle-up", "square", "cross", "x", "diamond", "triangle-down", "star"];
const narrow = window.matchMedia("(max-width: 48rem)"), coarse = window.matchMedia("(pointer: coarse)");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const webgl = (() => {
  try { return Boolean(document.createElement("canvas").getContext("webgl")); } catch { return false; }
})();

// The buttons are listed: by default there may be one that sends the data to a server.
const config = (...modes) => ({
  responsive: true, displaylogo: false, scrollZoom: false, showSendToCloud: false,
  modeBarButtons: [[...modes, "zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
});

function layout(extra) {
  const axis = (own) => ({
    gridcolor: color("line"), zerolinecolor: color("line"), linecolor: color("line"), automargin: true, ...own,
    // Without a standoff the title is placed on the border, whatever the margin.
    title: { standoff: 8, ...own?.title },
  });
  return {
    paper_bgcolor: color("page"), plot_bgcolor: color("page"), font: { color: color("ink"), size: 12 },
    margin: { l: 45, r: 12, t: 34, b: 48 }, showlegend: false, hoverlabel: { namelength: -1 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: color("faint"), activecolor: color("accent") },
    ...extra, xaxis: axis(extra.xaxis), yaxis: axis(extra.yaxis),
  };
}

// Points of one class (or, for pairs, of one part) are one trace.
const groups = (() => {
  const of = points.classes ?? points.held_out;
  const found = new Map();
  of.forEach((code, i) => { if (!found.has(code)) found.set(code, []); found.get(code).push(i); });
  return [...found.keys()].sort((a, b) => a - b).map((code) => ({
    name: points.classes ? className(code) : code ? "held out" : "learned from", members: found.get(code),
    color: COLORS[code % COLORS.length], symbol: SYMBOLS[Math.floor(code / COLORS.length) % SYMBOLS.length],
  }));
})();

const pointName = (i) => `${view.kind === "pairs" ? "point" : "row"} ${points.names[i]}`;
const hover = (i) => plain(pointName(i)) + (points.classes ? `<br>${plain(className(points.classes[i]))}` : "")
  + (points.held_out[i] ? "<br>held out" : "");

function drawPlane(id) {
  const plane = view.planes[id];
  const traces = groups.map((group) => ({
    type: webgl ? "scattergl" : "scatter", mode: "markers", name: plain(group.name),
    x: group.members.map((i) => plane.x[i]), y: group.members.map((i) => plane.y[i]),
    customdata: group.members, text: group.members.map(hover), hoverinfo: "text",
    marker: { color: group.color, symbol: group.symbol, size: n > 2000 ? 4 : 6, opacity: 0.75 },
    unselected: { marker: { opacity: 0.08 } },
  }));
  const many = groups.length > 12;
  return Plotly.react(id, traces, layout({
    dragmode: coarse.matches ? false : "lasso", showlegend: !many, hovermode: "closest", uirevision: "kept",
    legend: { orientation: "h", y: -0.06, yanchor: "top", font: { size: 11 } },
    xaxis: { showticklabels: false, zeroline: false, scaleanchor: "y" }, yaxis: { showticklabels: false, zeroline: false },
    margin: { l: 12, r: 12, t: 34, b: 12 },
  }), config("lasso2d"));
}

// The chosen point, its neighbours and (of pairs) its partners in one picture: as shapes, since a change of traces would
// draw all points anew.
function markPoint(id, point) {
  const plane = view.planes[id], shapes = [];
  const mark = (i, type, radius, line, fillcolor) => shapes.push({
    type, xsizemode: "pixel", ysizemode: "pixel", xanchor: plane.x[i], yanchor: plane.y[i],
    x0: -radius, x1: radius, y0: -radius, y1: radius, line, fillcolor,
  });
  if (point !== null) {
    for (const [a, b, kind] of points.links) {
      if (a !== point && b !== point) continue;
      shapes.push({
        type: "line", x0: plane.x[a], y0: plane.y[a], x1: plane.x[b], y1: plane.y[b],
        line: { color: color(kind === 1 ? "same" : "different"), width: 1.5, dash: kind === 1 ? "solid" : "dot" },
      });
    }
    for (const other of neighbours(point, "euclidean")) mark(other.point, "rect", 7, { color: color("euclidean"), width: 2 });
    for (const other of neighbours(point, "learned")) mark(other.point, "circle", 6, { color: color("learned"), width: 2.5 });
    mark(point, "circle", 8, { color: color("page"), width: 2 }, color("ink"));
  }
  return Plotly.relayout(id, { shapes });
}

// Show a selection (a set of points, or null for none) in one picture.
function markSelection(id, selection) {
  const inside = groups.map((group) => selection
    ? group.members.flatMap((i, place) => selection.has(i) ? [place] : []) : null);
  return Plotly.restyle(id, { selectedpoints: inside }, groups.map((_, i) => i));
}

function drawWeights() {
  const count = Math.min(features.names.length, 20), names = features.names.slice(0, count).map(plain);
  return Plotly.react("weights", [{
    type: "bar", orientation: "h", y: names.map((_, i) => i), x: features.weights.slice(0, count), text: names,
    hovertemplate: "%{text}: %{x:.3g}<extra></extra>", textposition: "none", marker: { color: color("learned") },
  }], layout({
    yaxis: { autorange: "reversed", tickvals: names.map((_, i) => i), ticktext: names.map(short) },
    xaxis: { title: { text: "weight (Euclidean: 1)" }, rangemode: "tozero" },
    shapes: [{ type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, line: { color: color("euclidean"), dash: "dash", width: 1.5 } }],
  }), config());
}

const short = (name) => name.length > 16 ? `${name.slice(0, 15)}…` : name;

function drawMatrix() {
  const { names, M } = features.matrix, ticks = names.map((_, i) => i), shown = names.map((name) => short(plain(name)));
  const limit = Math.max(...M.flat().map(Math.abs)) || 1;
  const labels = { tickvals: ticks, ticktext: shown, tickfont: { size: names.length > 15 ? 9 : 11 } };
  return Plotly.react("matrix", [{
    type: "heatmap", z: M, zmin: -limit, zmax: limit, colorbar: { thickness: 12, outlinewidth: 0 },
    colorscale: [[0, color("negative")], [0.5, color("page")], [1, color("positive")]],
    text: M.map((row, i) => row.map((_, j) => `${plain(names[i])}, ${plain(names[j])}`)),
    hovertemplate: "%{text}: %{z:.3g}<extra></extra>",
  }], layout({ xaxis: { ...labels, tickangle: -90 }, yaxis: { ...labels, autorange: "reversed" } }), config());
}

const curves = pairs ? { learned: rocCurve("learned"), euclidean: rocCurve("euclidean") } : null;

function drawRoc() {
  const curve = (name, title, dash) => ({
    type: "scatter", mode: "lines", ...curves[name], name: `${title}, area ${pairs[name].auc.toFixed(3)}`,
    line: { color: color(name), width: 2, dash }, hovertemplate: "%{y:.1%} found at %{x:.1%} false alarms<extra></extra>",
  });
  return Plotly.react("roc", [
    curve("learned", "learned", "solid"), curve("euclidean", "Euclidean", "dash"),
    { type: "scatter", mode: "markers", x: [], y: [], showlegend: false, hoverinfo: "skip", marker: { size: 12, color: color("ink") } },
  ], layout({
    showlegend: true, legend: { x: 0.98, y: 0.04, xanchor: "right", yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
    xaxis: { title: { text: "false alarms" }, range: [-0.01, 1.01], tickformat: ".0%" },
    yaxis: { title: { text: "found" }, range: [-0.01, 1.02], tickformat: ".0%" },
  }), config());
}

function drawHistogram() {
  const distances = pairs.learned.distances, top = Math.max(...distances) || 1, count = 40;
  const bars = (kind, name, hue) => {
    const heights = new Array(count).fill(0);
    let total = 0;
    distances.forEach((d, i) => {
      if (pairs.kinds[i] !== kind) return;
      heights[Math.min(count - 1, Math.floor(count * d / top))] += 1;
      total += 1;
    });
    return {
      type: "bar", name, x: heights.map((_, i) => (i + 0.5) * top / count), y: heights.map((h) => h / total),
      width: top / count, marker: { color: color(hue), opacity: 0.6 }, hovertemplate: `%{y:.1%}<extra>${name}</extra>`,
    };
  };
  return Plotly.react("histogram", [bars(1, "same", "same"), bars(-1, "different", "different")], layout({
    barmode: "overlay", showlegend: true, legend: { x: 0.98, y: 0.98, xanchor: "right", bgcolor: "rgba(0,0,0,0)" },
    xaxis: { title: { text: "learned distance" }, rangemode: "tozero" }, yaxis: { title: { text: "share of the kind" }, tickformat: ".0%" },
  }), config());
}

function markThreshold(threshold, found) {
  const line = { type: "line", x0: threshold, x1: threshold, yref: "paper", y0: 0, y1: 1, line: { color: color("ink"), width: 2 } };
  return Promise.all([
    Plotly.restyle("roc", { x: [[found.alarms]], y: [[found.recall]] }, [2]),
    Plotly.relayout("histogram", { shapes: [line] }),
  ]);
}
