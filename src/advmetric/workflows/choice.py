"""Choice of the method itself: what AMLCV chooses, as a method of the registry with its parameters."""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray

from advmetric.algorithms.amlcv import AMLCV
from advmetric.algorithms.registry import Method, methods
from advmetric.pairs.data import Pairs, Samples

__all__ = ["choose_method"]

_METHOD_OF_LOSS = {
    "euclidean": "Euclidean",
    "geometric": "AML",
    "pairs": "PairAML",
    "margin": "NeighborAML",
    "softmax": "NeighborAML",
    "radius": "NeighborAML",
}


def choose_method(
    fixed: dict[str, Any], samples: Samples, seed: int, groups: NDArray | None = None
) -> tuple[Method, dict[str, Any], str]:
    """Return the method and parameters that AMLCV chooses, and a phrase that says so.

    Parameters
    ----------
    fixed : dict
        Parameters of AMLCV that are given.
    samples : LabelledPoints or Pairs
        With standardised features.
    seed : int
    groups : (n,) array, optional
        Rows of one group are never on both sides of a split.
    """
    search = AMLCV(**fixed).set_params(random_state=seed, verbose=int(sys.stderr.isatty()))
    if isinstance(samples, Pairs):
        search.set_params(preprocessor=samples.X).fit(samples.indices, samples.labels, groups=groups)
    else:
        search.fit(samples.X, samples.labels, groups=groups)
    params = dict(search.best_params_)
    name = _METHOD_OF_LOSS[search.best_loss_]
    if name == "NeighborAML":
        params["loss"] = search.best_loss_
    method = next(m for m in methods() if m.name == name)
    n, folds = len(search.cv_results_["params"]), sum(name.startswith("split") for name in search.cv_results_)
    return method, params, f"loss {search.best_loss_}, chosen among {n} settings in {folds}-fold cross-validation"
