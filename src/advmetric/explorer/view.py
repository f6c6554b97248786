"""What the page shows, as facts that JSON can hold; arrays of floats are packed in base64."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from advmetric.algorithms.registry import Method
from advmetric.evaluation.planes import best_plane
from advmetric.evaluation.roc import roc_measures
from advmetric.evaluation.scores import K, euclidean, scale_of
from advmetric.io.preparation import Preparation
from advmetric.metric.knn import knn_predict
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.metric.threshold import best_threshold
from advmetric.pairs.data import LabelledPoints, Pairs, Samples
from advmetric.pairs.samplers import BalancedPairs
from advmetric.utils.typing import Indices, Matrix, Vector
from advmetric.workflows.fit import Fitted, fit_samples, learn
from advmetric.workflows.judge import compare, draw_queries
from advmetric.workflows.splits import hold_out
from advmetric.workflows.stages import stage

from .scene import Scene, make_scene

__all__ = ["make_view"]

POINTS = 5000
"""Points that are shown at most."""
FLOATS = 1_500_000
"""Coordinates that the page holds at most: about 8 MB."""
FEATURES = 400
"""Features that are listed at most, those with the largest weights."""
NEIGHBORS = 8
TABLE = 25
"""Classes of the confusion matrix at most, those with most errors."""
MATRIX = 30
"""Features of the picture of M at most."""


@dataclass(frozen=True)
class _Learned:
    """The learned distance and the Euclidean one, with the samples as features."""

    fitted: Fitted
    method: Method
    data: Samples
    train: Indices
    held_out: Indices
    metric: Mahalanobis
    plain: Mahalanobis
    scale: Vector
    standardize: bool
    seed: int


def make_view(
    method: Method,
    fixed: dict[str, Any],
    samples: Samples,
    *,
    title: str,
    names: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    preparation: Preparation | None = None,
    groups: NDArray | None = None,
    tuned: bool = True,
    share: float = 0.2,
    standardize: bool = True,
    seed: int = 0,
) -> dict[str, Any]:
    """Learn a metric on a part of the samples and return what there is to see of it.

    The metric is not learned again on all samples: what is shown of held-out samples is out of sample.

    Parameters
    ----------
    method, fixed, samples, names, preparation, groups, tuned, share, standardize, seed
        As for :func:`advmetric.workflows.fit.fit_samples`; ``share`` must not be 0.
    title : str
        Of the page.
    classes : sequence of str, optional
        Names of the classes, by code.
    """
    fitted = fit_samples(
        method,
        fixed,
        samples,
        names=names,
        preparation=preparation,
        groups=groups,
        tuned=tuned,
        share=share,
        standardize=standardize,
        refit=False,
        seed=seed,
    )
    data = samples
    if preparation is not None and fitted.metric.preparation is not None:
        used = Preparation.of_facts(fitted.metric.preparation)
        data = replace(samples, X=used.encode(samples.X, preparation.levels))
    train, held_out = hold_out(samples.labels, share, seed, groups)
    points = data.take(train).points
    scale = scale_of(points) if standardize else np.ones(data.X.shape[1])
    known = _Learned(
        fitted,
        fitted.method or method,
        data,
        train,
        held_out,
        fitted.metric,
        euclidean(scale),
        scale,
        standardize,
        seed,
    )
    d, r = data.X.shape[1], fitted.metric.components.shape[0]
    scene = make_scene(data, held_out, max(2, min(POINTS, FLOATS // (min(d, FEATURES) + r))), seed)
    with stage("Looking for neighbours and a plane"):
        view = {
            "title": title,
            "kind": data.kind,
            "answer": _answer(known),
            "facts": _facts(known, scene),
            "scores": _scores(known),
            "method": known.method.name,
            "classes": None if classes is None else [str(name) for name in classes],
            "points": _points(known, scene),
            "planes": _planes(known, scene),
            "features": _features(known, scene),
            "pairs": _pairs(known, scene),
        }
        if isinstance(data, LabelledPoints):
            view["confusion"] = _confusion(known, scene)
    return view


def _pack(values: NDArray[np.floating]) -> str:
    """Return an array as base64 of little-endian single-precision numbers, row after row."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def _answer(known: _Learned) -> str:
    """Say in a sentence what the learned distance is worth on held-out samples."""
    scores = known.fitted.scores
    judged = known.fitted.sampled or known.fitted.test
    rival, verdict = compare(scores, judged)
    mine, plain = next(iter(scores.values())), scores[rival]
    beside = f"the Euclidean distance of {rival.removeprefix('Euclidean, ')} features"
    if "error" in mine:
        return (
            f"On {judged} held-out rows, {K} nearest neighbours under the learned distance are wrong in "
            f"{100 * mine['error']:.1f} % of the cases, under {beside} in {100 * plain['error']:.1f} %: {verdict}."
        )
    return (
        f"On {judged} held-out pairs, a same pair is nearer than a different one in {100 * mine['roc_auc']:.1f} % of "
        f"the cases under the learned distance, in {100 * plain['roc_auc']:.1f} % under {beside}: {verdict}."
    )


def _facts(known: _Learned, scene: Scene) -> list[str]:
    """List how the metric was learned and what is shown."""
    fitted, kind = known.fitted, known.data.kind
    things = "rows" if kind == "points" else kind
    settings = ", ".join(f"{name}={value}" for name, value in fitted.params.items())
    found = [
        f"{known.method.name}: {settings or 'defaults'} ({fitted.how}).",
        f"Learned from {fitted.train} {things}, {fitted.test} held out (seed {known.seed}).",
    ]
    total = len(known.data) if kind == "points" else len(known.train) + len(known.held_out)
    shown = len(scene.X) if kind == "points" else len(scene.links)
    if shown < total:
        found.append(f"Of {total} {kind}, a random sample of {shown} is shown.")
    if known.data.X.shape[1] > FEATURES:
        found.append(f"Of {known.data.X.shape[1]} features, the {FEATURES} with the largest weights are listed.")
    return found


def _scores(known: _Learned) -> dict[str, Any]:
    headers = {"error": "5-NN error", "roc_auc": "ROC AUC", "accuracy": "accuracy"}
    rows = known.fitted.scores
    columns = list(next(iter(rows.values())))
    return {
        "head": ["distance", *(headers[column] for column in columns)],
        "rows": [[name, *(row[column] for column in columns)] for name, row in rows.items()],
    }


def _points(known: _Learned, scene: Scene) -> dict[str, Any]:
    found: dict[str, Any] = {
        "names": scene.names,
        "rows": scene.rows.tolist(),
        "held_out": scene.held_out.astype(int).tolist(),
        "classes": None if scene.classes is None else scene.classes.tolist(),
        "links": scene.links.tolist(),
    }
    k = min(NEIGHBORS, len(scene.X) - 1)
    for name, metric in (("learned", known.metric), ("euclidean", known.plain)):
        Z = metric.transform(scene.X - scene.X.mean(axis=0))
        distances, nearest = NearestNeighbors(n_neighbors=k).fit(Z).kneighbors()
        found[name] = {"nearest": nearest.tolist(), "distances": _pack(distances), "k": k}
    return found


def _planes(known: _Learned, scene: Scene) -> dict[str, Any]:
    """Two pictures of the points: the plane of largest variance, and one learned for two dimensions."""
    before = known.plain.transform(scene.X - scene.X.mean(axis=0))
    codes = np.zeros(len(before), dtype=int) if scene.classes is None else scene.classes
    if before.shape[1] > 2:
        before = before @ best_plane(before, codes, "principal").axes.T
    after, how = _learned_plane(known, scene, codes)
    return {
        "before": {"x": _pack(_axis(before, 0)), "y": _pack(_axis(before, 1)), "how": "principal components"},
        "after": {"x": _pack(_axis(after, 0)), "y": _pack(_axis(after, 1)), "how": how},
    }


def _learned_plane(known: _Learned, scene: Scene, codes: NDArray[np.integer]) -> tuple[Matrix, str]:
    """Return the points on a plane learned by the same method, or on the best one of the embedding."""
    Z = known.metric.transform(scene.X - scene.X.mean(axis=0))
    if Z.shape[1] <= 2:
        return Z, "the learned embedding"
    if "n_components" in known.method.estimator().get_params():
        params = known.fitted.params | {"n_components": 2}
        flat = learn(known.method, params, known.data.take(known.train), known.standardize, known.seed)
        return flat.transform(scene.X - scene.X.mean(axis=0)), f"{known.method.name} learned for two dimensions"
    plane = best_plane(Z, codes, "best" if scene.classes is not None else "principal")
    return Z @ plane.axes.T, f"{plane.name} plane of the learned embedding"


def _axis(points: Matrix, axis: int) -> Vector:
    return points[:, axis] if axis < points.shape[1] else np.zeros(len(points))


def _features(known: _Learned, scene: Scene) -> dict[str, Any]:
    """The features in units of their standard deviations, their weights, and M."""
    d = known.data.X.shape[1]
    L = known.metric.dense_components * known.scale
    weights = np.einsum("ij,ij->j", L, L)
    listed = np.argsort(-weights, kind="stable")[:FEATURES]
    names = known.metric.feature_names or tuple(str(j + 1) for j in range(d))
    centre = known.data.points.mean(axis=0)
    drawn = np.sort(listed[:MATRIX])
    return {
        "names": [names[j] for j in listed],
        "weights": (weights[listed] / (weights.mean() or 1.0)).tolist(),
        "scale": known.scale[listed].tolist(),
        "centre": centre[listed].tolist(),
        "values": _pack(((scene.X - centre) / known.scale)[:, listed]),
        "components": _pack(L[:, listed]),
        "embedded": _pack(known.metric.transform(scene.X - centre)),
        "rank": len(L),
        "total": d,
        "matrix": {"names": [names[j] for j in drawn], "M": (L[:, drawn].T @ L[:, drawn]).tolist()},
    }


def _pairs(known: _Learned, scene: Scene) -> dict[str, Any] | None:
    """The held-out pairs under both distances, with the threshold that is best on training pairs."""
    if len(np.unique(scene.kinds)) < 2:
        return None
    judged = Pairs(scene.X, scene.left, scene.right, scene.kinds)
    training = known.data.take(known.train)
    if isinstance(training, LabelledPoints):
        training = BalancedPairs(4000).sample(training.X, training.labels, known.seed)
    found: dict[str, Any] = {
        "left": scene.left.tolist(),
        "right": scene.right.tolist(),
        "kinds": scene.kinds.tolist(),
        "drawn": known.data.kind == "points",
    }
    for name, metric in (("learned", known.metric), ("euclidean", known.plain)):
        distances = metric.pair_distance(judged)
        threshold = best_threshold(metric.pair_distance(training), training.labels)
        found[name] = {
            "distances": _pack(distances),
            "threshold": threshold,
            "auc": roc_measures(scene.kinds, distances, threshold)["auc"],
        }
    return found


def _confusion(known: _Learned, scene: Scene) -> dict[str, Any]:
    """Which class is taken for which by the nearest training rows, of the held-out rows that are judged."""
    drawn = draw_queries(len(known.held_out), len(known.train), known.seed)
    judged = known.held_out if drawn is None else known.held_out[drawn]
    train, test = known.data.take(known.train), known.data.take(judged)
    count = int(known.data.labels.max()) + 1
    tables, predicted = {}, {}
    place = np.full(len(known.data), -1)
    place[judged] = np.arange(len(test))
    for name, metric in (("learned", known.metric), ("euclidean", known.plain)):
        centre = train.X.mean(axis=0)
        Z, queries = (metric.transform(part.X - centre) for part in (train, test))
        labels = knn_predict(Z, train.labels, queries, min(K, len(train)))
        table = np.zeros((count, count), dtype=int)
        np.add.at(table, (test.labels, labels), 1)
        tables[name] = table
        shown = place[scene.rows - 1]
        predicted[name] = np.where(shown >= 0, labels[shown], -1).tolist()
    wrong = sum(table.sum(axis=0) + table.sum(axis=1) - 2 * np.diag(table) for table in tables.values())
    listed = np.sort(np.argsort(-np.asarray(wrong), kind="stable")[:TABLE])
    return {
        "classes": listed.tolist(),
        "tables": {name: table[np.ix_(listed, listed)].tolist() for name, table in tables.items()},
        "predicted": predicted,
    }
