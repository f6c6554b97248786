"""Statistics of labelled points by class: enough for the scatter of all of their pairs, and they add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.arrays import convert_like
from advmetric.utils.typing import Matrix, Vector

from .class_products import FAR, ClassProducts, rows_of
from .data import BLOCK_BYTES, Scatter

__all__ = ["PointStatistics", "Within", "class_scatter"]

Within = Callable[[NDArray[Any]], Any]
"""Weights of the classes ↦ the weighted sum of their scatter matrices."""

_CACHED_BYTES = 1 << 19
"""What stays in the processor's cache."""
_FIRST = 1 << 12
"""Points whose mean is the first origin."""
_MOST_BYTES = 1 << 34


@dataclass
class PointStatistics:
    """Counts n_c, means μ_c and centred scatters S_c of each class: all that all pairs of points come to.

    Means are kept relative to an origin inside each class, so that they round at the scale of its spread, not
    of its distance from 0. Memory: one (d, d) matrix per class, since the weight of S_c in the sum
    over pairs (n_c) is known at the end only.

    See Also
    --------
    PairStatistics : Of labelled pairs.
    advmetric.AML.fit_statistics : Learns from them.

    Examples
    --------
    >>> import numpy as np
    >>> from advmetric import AML, load_dataset
    >>> X, y = load_dataset("vehicle").X, load_dataset("vehicle").y
    >>> two = PointStatistics.of(X[:400], y[:400]).merge(PointStatistics.of(X[400:], y[400:]))
    >>> M = AML().fit_statistics(two).get_mahalanobis_matrix()
    >>> bool(np.allclose(M, AML().fit(X, y).get_mahalanobis_matrix(), rtol=1e-6))
    True
    """

    classes: NDArray[Any]
    """(c,) sorted labels."""
    counts: NDArray[np.int64]
    """(c,)"""
    origins: Matrix
    """(c, d)"""
    means: Matrix
    """(c, d), relative to the origins."""
    scatters: NDArray[np.float64]
    """(c, d, d)"""

    _products: ClassProducts | None = field(default=None, init=False, repr=False, compare=False)

    kind: ClassVar[str] = "points"

    def __getstate__(self) -> dict[str, Any]:
        """Without the buffers."""
        return {**self.__dict__, "_products": None}

    @classmethod
    def empty(cls, n_features: int, classes: NDArray[Any]) -> PointStatistics:
        """No points yet."""
        c, d = len(classes), n_features
        if 8 * c * d * d > _MOST_BYTES:
            raise ValueError(
                f"statistics of {c} classes and {d} features would take {8e-9 * c * d * d:.3g} GB, a (d, d) matrix a "
                "class; reduce the features first, for example with sklearn.decomposition.IncrementalPCA."
            )
        return cls(classes, np.zeros(c, np.int64), np.zeros((c, d)), np.zeros((c, d)), np.zeros((c, d, d)))

    @classmethod
    def of(cls, X: Any, y: NDArray[Any], classes: NDArray[Any] | None = None) -> PointStatistics:
        """Statistics of labelled points; ``classes`` may name more than occur."""
        return cls.empty(X.shape[1], np.unique(y if classes is None else classes)).update(X, y)

    def update(self, X: Any, y: NDArray[Any]) -> PointStatistics:
        """Add labelled points, in place: O(nd²), one matrix product per class and block. Classes may be new."""
        code = self._codes(y)
        n, d = X.shape
        c = len(self.classes)
        if not ClassProducts.worthwhile(c, d, n):
            step = _block_rows(c, d)
            for start in range(0, n, step):
                self._add_block(rows_of(X, slice(start, start + step)), code[start : start + step])
            return self
        products = self._products
        if products is None or products.n_classes != c:
            products = ClassProducts(c, d)
        if self.counts.any():  # more batches may follow: keep the buffers for them
            self._products = products
        for start in range(0, n, products.stretch):
            rows = slice(start, start + products.stretch)
            self._add_stretch(X[rows], code[rows], products)
        return self

    def _add_stretch(self, X: Any, code: NDArray[np.integer], products: ClassProducts) -> None:
        """Squares about one origin for all classes, which costs a pass less; classes far from it are done apart."""
        centres, origin = self._centres(X)
        spread = np.einsum("cii->ci", self.scatters)
        apart = np.any(self.counts[:, None] * centres**2 > FAR * spread, axis=1) & (self.counts > 1)
        found = products.of(X, code, origin, ~apart)
        apart |= found.cancelled
        for c in np.flatnonzero(~apart & (found.counts > 0)):
            m, seen = int(found.counts[c]), int(self.counts[c])
            mean = found.sums[c] / m
            if not seen:
                self.origins[c] = origin + mean
            gap = ((origin - self.origins[c]) - self.means[c]) + mean
            self.scatters[c] += found.squares[c]
            self.scatters[c] -= np.outer(found.sums[c], mean)
            self._move(int(c), m, gap)
        if apart.any():
            chosen = np.flatnonzero(apart[code])
            step = _block_rows(len(self.classes), X.shape[1])
            for start in range(0, len(chosen), step):
                rows = chosen[start : start + step]
                self._add_block(rows_of(X, rows), code[rows])

    def _centres(self, X: Any) -> tuple[Matrix, Vector]:
        """Return the class means so far, (c, d), relative to an origin amid them (or amid the first points), and it."""
        total = int(self.counts.sum())
        if not total:
            return np.zeros_like(self.means), rows_of(X, slice(0, _FIRST)).mean(axis=0, dtype=np.float64)
        base = self.origins[np.argmax(self.counts)]
        centres = (self.origins - base) + self.means
        middle = (self.counts / total) @ centres
        return np.where(self.counts[:, None] > 0, centres - middle, 0.0), base + middle

    def _move(self, c: int, m: int, gap: Vector) -> None:
        """Chan's update: m points of class c came, with their mean at ``gap`` from that of those before."""
        seen = int(self.counts[c])
        if seen:
            self.scatters[c] += np.outer(gap * (seen * m / (seen + m)), gap)
        self.means[c] += gap * (m / (seen + m))
        self.counts[c] = seen + m

    def _codes(self, y: NDArray[Any]) -> NDArray[np.integer]:
        """Place of each label among the classes, which grow by new labels."""
        code = _places(self.classes, y)
        if code is None:
            grown = self._aligned(_united(self.classes, np.unique(y)))
            self.classes, self.counts = grown.classes, grown.counts
            self.origins, self.means, self.scatters = grown.origins, grown.means, grown.scatters
            code = np.searchsorted(self.classes, y)
        # NumPy sorts numbers of 8 and 16 bits by radix, several times faster than longer ones.
        c = len(self.classes)
        return code.astype(np.uint8 if c < 1 << 8 else np.uint16, copy=False) if c < 1 << 16 else code

    def _add_block(self, X: Matrix, code: NDArray[np.integer]) -> None:
        """Add points class by class, each about the mean of its class so far, whatever its distance from others."""
        order = np.argsort(code, kind="stable")
        sizes = np.bincount(code, minlength=len(self.classes))
        room = np.empty((sizes.max(), X.shape[1]), X.dtype)  # written to again and again: new pages would cost more
        start = 0
        for c in np.flatnonzero(sizes):
            m, seen = int(sizes[c]), int(self.counts[c])
            # Class by class, so that the rows stay in the cache for all that is done to them. About the mean so far, in
            # double precision: exact for points that are far from 0 but close to each other.
            rows = np.take(X, order[start : start + m], axis=0, out=room[:m], mode="clip")
            if not seen:
                self.origins[c] = rows.mean(axis=0, dtype=np.float64)
            centre = self.origins[c] + self.means[c]
            Z = np.subtract(rows, centre, out=rows if rows.dtype == np.float64 else None)
            start += m
            gap = np.ones(m) @ Z / m
            if m > 1:
                product = Z.T @ Z
                if np.any(gap**2 * m > 0.5 * np.diagonal(product)):  # the mean has moved: subtract before squaring
                    Z -= gap
                    gap += np.ones(m) @ Z / m  # the rounding error of a sum of many points far from the origin
                    self.scatters[c] += Z.T @ Z
                else:
                    self.scatters[c] += product
                    self.scatters[c] -= np.outer(m * gap, gap)
            gap += (centre - self.origins[c]) - self.means[c]  # what the sum above rounded off
            self._move(int(c), m, gap)

    def _aligned(self, classes: NDArray[Any]) -> PointStatistics:
        """The same statistics, with arrays of their own, over a superset of the classes."""
        place = np.searchsorted(classes, self.classes)
        wide = PointStatistics.empty(self.n_features, classes)
        wide.counts[place], wide.origins[place] = self.counts, self.origins
        wide.means[place], wide.scatters[place] = self.means, self.scatters
        return wide

    def merge(self, other: PointStatistics) -> PointStatistics:
        """Statistics of both sets of points together; neither is changed."""
        if not isinstance(other, PointStatistics) or self.n_features != other.n_features:
            raise ValueError(
                f"statistics of points with {self.n_features} features do not merge with {_described(other)}."
            )
        classes = _united(self.classes, other.classes)
        merged, added = self._aligned(classes), other._aligned(classes)
        for c in np.flatnonzero(added.counts):
            m, seen = int(added.counts[c]), int(merged.counts[c])
            if not seen:
                merged.origins[c] = added.origins[c]
            gap = (added.origins[c] - merged.origins[c]) + (added.means[c] - merged.means[c])
            merged.scatters[c] += added.scatters[c] + np.outer(gap * (seen * m / (seen + m)), gap)
            merged.means[c] += gap * (m / (seen + m))
            merged.counts[c] = seen + m
        return merged

    def scaled(self, factors: Vector) -> PointStatistics:
        """Statistics of the same points with feature j multiplied by ``factors[j]``."""
        scatters = self.scatters * factors
        scatters *= factors[:, None]
        origins, means = self.origins * factors, self.means * factors
        return PointStatistics(self.classes, self.counts.copy(), origins, means, scatters)

    def __sizeof__(self) -> int:
        """Bytes: what schedulers weigh moving it by."""
        return self.origins.nbytes + self.means.nbytes + self.scatters.nbytes

    @property
    def n_features(self) -> int:
        """d."""
        return int(self.means.shape[1])

    @property
    def missing(self) -> str | None:
        """What is still needed before a metric can be learned."""
        if np.count_nonzero(self.counts) < 2:
            return "points of at least two classes"
        return None if self.counts.max() > 1 else "a class with at least two members"

    def scatter(self) -> Scatter:
        """Scatter of all pairs: see :func:`~advmetric.pairs.scatter.all_pairs_scatter`. O(cd²)."""
        if self.missing:
            raise ValueError(f"no metric can be learned yet: it needs {self.missing}.")
        return class_scatter(self.within, self.centred_means, self.counts)

    def within(self, weights: NDArray[Any]) -> Matrix:
        """Return Σ_c w_c S_c."""
        total: Matrix = np.tensordot(np.asarray(weights, dtype=float), self.scatters, axes=1)
        return total

    @property
    def centred_means(self) -> Matrix:
        """Return the class means, (c, d), relative to a point of the largest class."""
        return (self.origins - self.origins[np.argmax(self.counts)]) + self.means


def class_scatter(within: Within, means: Any, counts: NDArray[np.integer]) -> Scatter:
    """Scatter of all pairs of points from statistics of their classes: O(cd²).

    With S_c the scatter of class c about its mean μ_c, n_c its size and μ the overall mean,

        Σ_similar = Σ_c n_c S_c,   Σ_dissimilar = Σ_c (n - n_c) S_c + n Σ_c n_c (μ_c - μ)(μ_c - μ)ᵀ,

    each a sum of positive terms.

    Parameters
    ----------
    within : callable
        (c,) weights w ↦ Σ_c w_c S_c.
    means : (c, d) array
        Class means, relative to any origin.
    counts : (c,) integer array
        Class sizes.
    """
    sizes = [int(size) for size in counts]  # Python's integers do not overflow
    n = sum(sizes)
    n_similar = sum(size * (size - 1) for size in sizes) // 2
    n_dissimilar = n * (n - 1) // 2 - n_similar
    weights = np.asarray(counts, dtype=float)
    local = convert_like(weights, means)
    gaps = means - local @ means / n
    similar = within(weights)
    balanced = bool(np.all(weights == weights[0]))
    mixed = similar * float((n - weights[0]) / weights[0]) if balanced else within(n - weights)
    dissimilar = mixed + n * (gaps.T * local) @ gaps
    return Scatter(similar / n_similar, dissimilar / n_dissimilar, n_similar, n_dissimilar)


def _places(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.integer] | None:
    """Place of each label among sorted classes; None if one is not there."""
    c = len(classes)
    if not c:
        return None
    if (
        classes.dtype == y.dtype == np.int64 and int(classes[-1]) - int(classes[0]) < 1 << 15
    ):  # a table, faster than a search
        if y.min() < classes[0] or y.max() > classes[-1]:
            return None
        table = np.full(int(classes[-1] - classes[0]) + 1, c, np.uint16)
        table[classes - classes[0]] = np.arange(c)
        code: NDArray[np.integer] = table[y - classes[0]]
        return code if code.max() < c else None
    code = np.minimum(np.searchsorted(classes, y), c - 1)
    return code if np.all(classes[code] == y) else None


def _block_rows(n_classes: int, d: int) -> int:
    """Rows to work on at a time: those of one class fill the cache, or outweigh adding a (d, d) matrix for them."""
    row = 8 * max(1, d)
    return int(min(n_classes * max(_CACHED_BYTES // row, d), 4 * BLOCK_BYTES // row)) + 1


def _united(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Sorted union of labels; numbers and text do not mix (NumPy would turn the former into text)."""
    if len(first) and len(second) and (first.dtype.kind in "OSU") != (second.dtype.kind in "OSU"):
        raise ValueError(f"labels of type {second.dtype} do not go with the earlier ones of type {first.dtype}.")
    return np.union1d(first, second) if len(first) else np.unique(second)


def _described(other: object) -> str:
    kind, width = getattr(other, "kind", type(other).__name__), getattr(other, "n_features", None)
    return kind if width is None else f"those of {kind} with {width}"
