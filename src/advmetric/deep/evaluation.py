"""How good embeddings are: the area under the ROC curve of their pairs, and their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from advmetric.utils.optional import require

__all__ = ["class_pairs", "embedded_distances", "labelled_auc", "retrieval_scores"]

_POINTS = 1000
_BLOCK = 1 << 16


def embedded_distances(embedded: NDArray[Any], pairs: NDArray[Any]) -> NDArray[np.float64]:
    """Euclidean distances (N,) of index pairs (N, 2), by blocks, in double precision; 0 for a point and itself."""
    distances = np.empty(len(pairs))
    for start in range(0, len(pairs), _BLOCK):
        block = pairs[start : start + _BLOCK]
        difference = embedded[block[:, 0]].astype(np.float64) - embedded[block[:, 1]]
        distances[start : start + _BLOCK] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return distances


def class_pairs(codes: NDArray[Any], seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """All pairs of the points, or of 1000 of them drawn evenly, and their labels +1 and -1."""
    chosen = np.arange(len(codes))
    if len(chosen) > _POINTS:
        chosen = np.sort(np.random.default_rng(seed).choice(len(codes), _POINTS, replace=False))
    left, right = np.triu_indices(len(chosen), 1)
    pairs = np.column_stack([chosen[left], chosen[right]])
    return pairs, np.where(codes[pairs[:, 0]] == codes[pairs[:, 1]], 1, -1)


def labelled_auc(embedded: NDArray[Any], codes: NDArray[Any]) -> float:
    """Area under the ROC curve of the distances of :func:`class_pairs`."""
    pairs, kinds = class_pairs(codes)
    return float(roc_auc_score(kinds, -embedded_distances(embedded, pairs)))


def retrieval_scores(embedded: NDArray[Any], codes: NDArray[Any]) -> dict[str, float]:
    """ "auc", "recall_at_1" and "map_at_r" of points among themselves.

    The last two are ``precision_at_1`` and ``mean_average_precision_at_r`` of pytorch-metric-learning's
    ``AccuracyCalculator``: the share of points whose nearest other point is of their class, and the mean precision at
    the R places that are its class's (Musgrave et al., "A metric learning reality check", ECCV 2020).
    """
    calculators = require("pytorch_metric_learning.utils.accuracy_calculator", "retrieval_scores")
    torch = require("torch", "retrieval_scores")
    names = ("precision_at_1", "mean_average_precision_at_r")
    calculator = calculators.AccuracyCalculator(
        include=names,
        k="max_bin_count",
        device=torch.device("cpu"),
        knn_func=_nearest,
        kmeans_func=_no_clusters,
    )
    found = calculator.get_accuracy(
        torch.as_tensor(np.asarray(embedded, dtype=np.float32)), torch.as_tensor(np.asarray(codes))
    )
    return {"auc": labelled_auc(embedded, codes), "recall_at_1": found[names[0]], "map_at_r": found[names[1]]}


def _nearest(query: Any, k: int, reference: Any, ref_includes_query: bool = False) -> tuple[Any, Any]:
    """Exact neighbours without faiss, for ``AccuracyCalculator``; a query is not its own neighbour."""
    from sklearn.neighbors import NearestNeighbors

    torch = require("torch", "retrieval_scores")
    search = NearestNeighbors(algorithm="brute").fit(reference.numpy())
    distances, indices = search.kneighbors(None if ref_includes_query else query.numpy(), k)
    return torch.from_numpy(distances), torch.from_numpy(indices)


def _no_clusters(*_: Any) -> Any:
    raise TypeError("no clustering is asked for.")
