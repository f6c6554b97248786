"use strict";
// The data of the page, and what is computed from them. Nothing here touches the page.

const view = JSON.parse(document.getElementById("data").textContent);
const unpack = (text) => new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

const points = view.points, features = view.features, pairs = view.pairs, n = points.names.length;
for (const plane of Object.values(view.planes)) { plane.x = unpack(plane.x); plane.y = unpack(plane.y); }
for (const name of ["learned", "euclidean"]) {
  points[name].distances = unpack(points[name].distances);
  if (pairs) pairs[name].distances = unpack(pairs[name].distances);
}
features.values = unpack(features.values);
features.components = unpack(features.components);
features.embedded = unpack(features.embedded);

const className = (code) => view.classes ? view.classes[code] : "";
const brief = (value) => value === null ? "–" : String(Number(Number(value).toPrecision(4)));
const percent = (share) => Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–";

// The neighbours of a point under a distance, nearest first.
function neighbours(point, name) {
  const found = points[name], k = found.k;
  return found.nearest[point].map((other, i) => ({ point: other, distance: found.distances[point * k + i] }));
}

// Both distances of two points, and what each feature adds to their squares, as shares. A feature's share of the learned
// distance is δ_j (Mδ)_j / δᵀMδ: the shares of all features add up to 1, and one that offsets others is negative.
function compare(a, b) {
  const p = features.names.length, r = features.rank;
  const z = Array.from({ length: r }, (_, i) => features.embedded[a * r + i] - features.embedded[b * r + i]);
  const learned = z.reduce((sum, v) => sum + v * v, 0);
  const rows = [];
  let listed = 0;
  for (let j = 0; j < p; j++) {
    const delta = features.values[a * p + j] - features.values[b * p + j];
    let gradient = 0;
    for (let i = 0; i < r; i++) gradient += features.components[i * p + j] * z[i];
    listed += delta * delta;
    rows.push({ feature: j, delta, share: learned ? delta * gradient / learned : 0, square: delta * delta });
  }
  // With features that are not listed, the Euclidean sum lacks theirs; its shares are then of the listed ones.
  for (const row of rows) row.plain = listed ? row.square / listed : 0;
  return { learned: Math.sqrt(learned), euclidean: Math.sqrt(listed), rows };
}

const valueOf = (point, j) =>
  features.values[point * features.names.length + j] * features.scale[j] + features.centre[j];

// Counts of decisions "same if distance <= threshold" on held-out pairs.
function decisions(name, threshold) {
  const counts = { same: [0, 0], different: [0, 0] };
  pairs.kinds.forEach((kind, i) => {
    const called = pairs[name].distances[i] <= threshold ? 0 : 1;
    counts[kind === 1 ? "same" : "different"][called] += 1;
  });
  const [hit, miss] = counts.same, [alarm, right] = counts.different;
  return {
    counts, recall: hit / (hit + miss), alarms: alarm / (alarm + right), precision: hit / (hit + alarm),
    accuracy: (hit + right) / pairs.kinds.length,
  };
}

// ROC curve: rates after each distinct distance, from (0, 0) on.
function rocCurve(name) {
  const distances = pairs[name].distances;
  const order = Array.from(distances.keys()).sort((i, j) => distances[i] - distances[j]);
  const total = pairs.kinds.filter((kind) => kind === 1).length;
  const x = [0], y = [0];
  let hits = 0, alarms = 0;
  order.forEach((i, place) => {
    if (pairs.kinds[i] === 1) hits += 1; else alarms += 1;
    if (place + 1 < order.length && distances[order[place + 1]] === distances[i]) return;
    x.push(alarms / (pairs.kinds.length - total));
    y.push(hits / total);
  });
  return { x, y };
}

// The recall of a ROC curve at a rate of false alarms, between its points by a line.
function recallAt(curve, rate) {
  let i = curve.x.findIndex((x) => x > rate);
  if (i < 0) return 1;
  if (i === 0) return curve.y[0];
  const share = (rate - curve.x[i - 1]) / (curve.x[i] - curve.x[i - 1]);
  return curve.y[i - 1] + share * (curve.y[i] - curve.y[i - 1]);
}

// Held-out pairs by how wrong the learned distance is about them.
function hardest(kind, count) {
  const distances = pairs.learned.distances;
  return Array.from(distances.keys()).filter((i) => pairs.kinds[i] === kind)
    .sort((i, j) => kind * (distances[j] - distances[i])).slice(0, count);
}
