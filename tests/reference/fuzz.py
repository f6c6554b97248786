"""Random data and random damage for the fuzz tests."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

import advmetric
from advmetric import AMLCV

ESTIMATORS = {method.name: method.estimator for method in advmetric.methods()} | {"AMLCV": AMLCV}
_QUICK = {"max_iter": 30}
SCALES = (1e-300, 1e-200, 1e-160, 1e-100, 1e-20, 1e-5, 1.0, 1e5, 1e20, 1e100, 1e150, 1e155, 1e200, 1e300)


@dataclass
class Case:
    """One random fit: a learner, and points with labels or pairs with labels."""

    seed: int
    name: str
    learner: Any
    X: Any
    y: NDArray[Any]
    traits: list[str]

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.name} on {' '.join(self.traits)}, X {self.X.shape}"


def random_case(seed: int, name: str | None = None) -> Case:
    """Return the case of a seed: random learner, shape, scale and flaws."""
    rng = np.random.default_rng(seed)
    name = name or str(rng.choice(list(ESTIMATORS)))
    learner = ESTIMATORS[name]()
    known = learner.get_params()
    learner.set_params(**{key: value for key, value in _QUICK.items() if key in known})
    if "random_state" in known:
        learner.set_params(random_state=0)
    if name == "AMLCV":
        learner.set_params(alphas=(0.0, 1.0), betas=(1.0,), ts=(0.25, 0.5), cv=2)
    on_pairs = "pairs" in learner.supervision and rng.random() < 0.4
    X, y, traits = random_points(rng)
    if on_pairs:
        N = int(rng.integers(1, 60))
        left, right = rng.integers(len(X), size=N), rng.integers(len(X), size=N)
        X, y = X[np.column_stack([left, right])], np.where(y[left] == y[right], 1, -1)
        traits.append("pairs")
    elif learner.accepts_sparse and rng.random() < 0.4:
        X = csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
        traits.append("sparse")
    return Case(seed, name, learner, X, y, traits)


def random_points(rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], list[str]]:
    """Return points with labels, of a random shape, with random flaws, and the names of the flaws."""
    n, d, c = int(rng.integers(2, 41)), int(rng.integers(1, 13)), int(rng.integers(2, 6))
    traits = []
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    y = rng.integers(c, size=n)
    X += rng.normal(size=(c, d))[y] * rng.choice([0.0, 1.0, 5.0])

    def happens(trait: str, probability: float = 0.15) -> bool:
        if rng.random() >= probability:
            return False
        traits.append(trait)
        return True

    if happens("few per class"):
        y = np.arange(n) // 2
    if happens("duplicates"):
        X = X[rng.integers(max(1, n // 3), size=n)]
    if happens("no spread in classes"):
        X = rng.normal(size=(int(y.max()) + 1, d))[y]
    if happens("constant columns"):
        X[:, rng.random(d) < 0.5] = rng.normal()
    if happens("collinear columns") and d > 1:
        X[:, 1] = X[:, 0]
    if happens("integers"):
        X = np.round(X)
    if happens("far from the origin"):
        X += 10.0 ** rng.integers(1, 10)
    if happens("columns of several scales"):
        X *= 10.0 ** rng.integers(-12, 13, size=d)
    if happens("outlier"):
        X[rng.integers(n)] *= 10.0 ** rng.integers(1, 160)
    scale = float(rng.choice(SCALES)) if happens("scale", 0.6) else 1.0
    with np.errstate(over="ignore"):
        X = np.clip(X * scale, -1.7e308, 1.7e308)
    traits[-1:] = [*traits[-1:], f"{scale:g}"] if scale != 1.0 else traits[-1:]
    if happens("float32"):
        X = np.clip(X, -3e38, 3e38).astype(np.float32)
    return X, y, traits


def flaw_of(case: Case) -> str | None:
    """Fit, and use, the learner of a case; return what went wrong, or None.

    A ValueError or TypeError is a proper end; a metric that is not finite, symmetric and positive semi-definite, a
    warning of NumPy or SciPy, and every other exception are not.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("error", ResourceWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            case.learner.fit(case.X, case.y)
        except (ValueError, TypeError) as error:
            if "NumPy" in str(error) or not str(error):
                return f"no message: {error!r}"
            case.traits.append("refused")
            return None
        except Exception as error:  # what the fuzz is for
            return f"fit: {type(error).__name__}: {error}"
        try:
            flaw = _metric_flaw(case)
        except (ValueError, TypeError) as error:
            return None if "out of the range of float" in str(error) else f"afterwards: {error}"
        except Exception as error:
            return f"afterwards: {type(error).__name__}: {error}"
    return flaw


def _metric_flaw(case: Case) -> str | None:
    learner = case.learner
    L = learner.components_
    if not np.isfinite(L.data if hasattr(L, "toarray") else L).all():
        return "components are not finite"
    M = learner.get_mahalanobis_matrix()
    if not np.isfinite(M).all():
        return "M is not finite"
    if not np.array_equal(M, M.T):
        return "M is not symmetric"
    unit = np.abs(M).max() or 1.0
    if np.linalg.eigvalsh(M / unit)[0] < -1e-10:
        return "M is not positive semi-definite"
    if case.X.ndim == 3:
        if not np.isfinite(learner.pair_distance(case.X)).all():
            return "distances are not finite"
        if not np.isfinite(learner.threshold_):
            return "threshold is not finite"
        if not np.isin(learner.predict(case.X), (-1, 1)).all() or not np.isfinite(learner.predict_proba(case.X)).all():
            return "predictions are flawed"
    elif not np.isfinite(learner.transform(case.X)).all():
        return "embedding is not finite"
    return None


# --- damaged files ----------------------------------------------------------------------------------------


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file's content with random damage of a random kind."""
    data = bytearray(content)
    kind = rng.integers(7)
    place = int(rng.integers(len(data)))
    if kind == 0:  # some bytes
        for _ in range(int(rng.integers(1, 9))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
    elif kind == 1:  # a byte of a header: a zip entry, an npy header, the directory
        marks = [
            mark for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY", b"{", b":") if mark in data
        ]
        starts = [data.index(mark) for mark in marks] or [0]
        for _ in range(int(rng.integers(1, 4))):
            near = int(rng.choice(starts)) + int(rng.integers(80))
            data[min(near, len(data) - 1)] = int(rng.integers(256))
    elif kind == 2:  # cut short
        del data[place:]
    elif kind == 3:  # bytes are missing
        del data[place : place + int(rng.integers(1, 200))]
    elif kind == 4:  # bytes too many
        data[place:place] = rng.bytes(int(rng.integers(1, 200)))
    elif kind == 5:  # zeros, as of a page that was never written
        length = min(len(data) - place, int(rng.integers(1, 600)))
        data[place : place + length] = bytes(length)
    else:  # two parts exchanged
        other = int(rng.integers(len(data)))
        first, second = sorted((place, other))
        data = data[:first] + data[second:] + data[first:second]
    return bytes(data)
