"""Neighbours among millions of points under a learned metric, by faiss, or by scikit-learn where it is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import column_or_1d

from advmetric.utils.archive import read_archive, write_archive
from advmetric.utils.parameters import Choice, Whole
from advmetric.utils.typing import Matrix, Vector

from . import faiss_stage
from .checks import check_points
from .frame import Frame, embed, linear_metric
from .knn import Indices, certified_nearest, majority, rounded_squares
from .mahalanobis import Mahalanobis

__all__ = ["MetricIndex"]

_ROWS = 1 << 14
"""Rows that are centred and embedded at once."""
_SAMPLE = 1 << 16
"""Rows that the centre is taken from; k-means gets more if it needs them."""
_LIMIT = {"faiss": 1e15, "sklearn": 1e150}
"""Spreads that a point may be away from the centre: the engine can still add up the squares."""
_SETTINGS = ("nlist", "nprobe", "n_links", "ef_construction", "ef_search")


class MetricIndex:
    """The nearest of many points under a learned metric.

    Points are centred and go raw into a faiss index whose first stage is the linear transform L. Without faiss
    scikit-learn's brute force answers the same questions, more slowly.

    Parameters
    ----------
    metric : Mahalanobis or fitted learner
        As it is now: a learner fitted again later changes nothing here.
    kind : {"exact", "ivf", "hnsw"}, default="exact"
        "exact": faiss proposes in single precision, the proposals are ordered in double precision, and a bound on the
        rounding certifies that none is missing (see :func:`~advmetric.metric.knn.certified_nearest`): the answers are
        those of brute force in double precision. "ivf": looks only into the ``nprobe`` of ``nlist`` cells nearest to
        a query. "hnsw": walks a graph of neighbours; slow to build.
    engine : {"auto", "faiss", "sklearn"}, default="auto"
        "auto" is faiss if it is installed. "sklearn" is exact for every ``kind``.
    nlist : int, optional
        Cells of "ivf". None: 4√n for the n points of the first ``add`` (or ``train``), fewer where it is small.
    nprobe : int, optional
        Cells of "ivf" that a query looks into, more for a better recall. None: one in 32, at least 8.
    n_links, ef_construction : int
        Of "hnsw": links of a point, and points looked at when one is added.
    ef_search : int
        Of "hnsw": points looked at by a query, more for a better recall.

    See Also
    --------
    Mahalanobis : The distance itself.

    Notes
    -----
    ``engine`` afterwards names the one in use; ``nprobe`` and ``ef_search`` may be set at any time.
    Memory: "exact" 12·n·r bytes (8·n·r with scikit-learn), "ivf" 4·n·r, "hnsw" 4·n·(r + 2·n_links), for r rows of L.
    Distances of "ivf" and "hnsw" have the precision of float32, relative to the distance from the centre, which is the
    mean of the points of the first ``add`` or ``train``; an offset of all points costs no digit.

    Examples
    --------
    >>> index = MetricIndex(Mahalanobis([[1, 0], [0, 10]])).add([[0, 0], [3, 0], [0, 1]])
    >>> distances, indices = index.query([[0, 0.1]], k=2)
    >>> indices.tolist(), distances.round(6).tolist()
    ([[0, 1]], [[1.0, 3.162278]])
    """

    def __init__(
        self,
        metric: Any,
        *,
        kind: str = "exact",
        engine: str = "auto",
        nlist: int | None = None,
        nprobe: int | None = None,
        n_links: int = 32,
        ef_construction: int = 80,
        ef_search: int = 64,
    ) -> None:
        Choice("exact", "ivf", "hnsw")("kind", kind)
        Choice("auto", "faiss", "sklearn")("engine", engine)
        self.metric = linear_metric(metric)
        self.kind = kind
        self.engine = faiss_stage.choose(engine, kind)
        self.nlist, self.nprobe, self.ef_search = nlist, nprobe, ef_search
        self.n_links, self.ef_construction = n_links, ef_construction
        self._check_settings()
        self._frame: Frame | None = None
        self._rounding = 0.0
        self._n = 0
        self._index: Any = None
        self._buffer: Matrix = np.empty((0, self.metric.components.shape[0]))

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        r, d = self.metric.components.shape
        return f"MetricIndex({len(self)} points, {d} -> {r} features, kind={self.kind!r}, engine={self.engine!r})"

    # --- points -----------------------------------------------------------------------------------------

    def train(self, X: ArrayLike) -> MetricIndex:
        """Fix the centre, and the cells of "ivf", from a sample of the points, without adding it.

        For when the first points to be added are not typical of all; then give ``nlist``, which is otherwise chosen
        for the number of points seen here.
        """
        if len(self):
            raise ValueError("the index has points already; train comes before the first add.")
        self._train(self._check_points(X, "X"))
        return self

    def add(self, X: ArrayLike) -> MetricIndex:
        """Add points, by blocks; they are numbered from 0 in the order in which they come.

        A float32 or float64 array, which may be memory-mapped, is not copied as a whole.
        """
        points = self._check_points(X, "X")
        frame = self._frame or self._train(points)
        frame.check_reach(points, "X", self.metric, _LIMIT[self.engine])
        if self._searches_exactly:
            self._reserve(len(points))
        for rows in _blocks(len(points)):
            scaled = frame(points[rows])
            if self._searches_exactly:
                embedded = embed(self.metric, scaled)
                self._buffer[self._n : self._n + len(scaled)] = embedded
            if self.engine == "faiss":
                single = scaled.astype(np.float32)
                if self._searches_exactly:
                    relative = self._gaps(single, embedded) / (1 + np.linalg.norm(embedded, axis=1))
                    self._rounding = max(self._rounding, float(relative.max()))
                self._index.add(single)
            self._n += len(scaled)
        return self

    def _train(self, points: Matrix) -> Frame:
        nlist = self.nlist or max(1, min(round(4 * len(points) ** 0.5), len(points) // 39))
        clusters = self.engine == "faiss" and self.kind == "ivf"
        if clusters and nlist > len(points):
            raise ValueError(f"nlist={nlist} cells need as many points to be trained on; got {len(points)}.")
        size = max(_SAMPLE, 64 * nlist if clusters else 0)
        if len(points) > size:
            points = points[np.sort(np.random.default_rng(0).choice(len(points), size, replace=False))]
        frame = Frame.of(points, self.metric)
        if self.engine == "faiss":
            frame.check_reach(points, "X", self.metric, _LIMIT[self.engine])
            settings = {"nlist": nlist, "n_links": self.n_links, "ef_construction": self.ef_construction}
            self._index = faiss_stage.build(self.metric.dense_components, self.kind, **settings)
            if clusters:
                self._index.train(frame(points).astype(np.float32))
        self._frame = frame
        return frame

    def _reserve(self, more: int) -> None:
        """Room for more points: just enough at first, then by halves, so that many small adds cost no more than one."""
        needed = self._n + more
        if needed > len(self._buffer):
            grown = np.empty((max(needed, 3 * self._n // 2), self._buffer.shape[1]))
            grown[: self._n] = self._buffer[: self._n]
            self._buffer = grown

    # --- neighbours -------------------------------------------------------------------------------------

    def query(self, Q: ArrayLike, k: int = 5) -> tuple[Matrix, Indices]:
        """The k nearest points of each row of Q.

        Returns
        -------
        distances : (m, k) float64 array
            Not squared, nearest first.
        indices : (m, k) int64 array
            Numbers of the points, in the order in which they were added. Of points at equal distance "exact" names
            the first added first; equal points are at equal distance, and at 0 from themselves.
        """
        Whole(1)("k", k)
        self._check_settings()
        if self._frame is None or not len(self):
            raise ValueError("the index is empty; add points before asking for neighbours.")
        if k > len(self):
            raise ValueError(f"k={k} neighbours were asked for, but the index has {len(self)} points.")
        queries = self._check_points(Q, "Q")
        self._frame.check_reach(queries, "Q", self.metric, _LIMIT[self.engine])
        distances, indices = np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.int64)
        # A block's candidates are held at once; thousands of queries a block keep faiss's matrix products large.
        for rows in _blocks(len(queries), max(1, min(4096, (1 << 22) // k))):
            scaled = self._frame(queries[rows])
            if self._searches_exactly:
                distances[rows], indices[rows] = self._exact(scaled, k)
            else:
                settings: dict[str, Any] = {"nprobe": self.nprobe, "ef_search": self.ef_search}
                squares, indices[rows] = faiss_stage.search(self._index, scaled.astype(np.float32), k, **settings)
                distances[rows] = np.sqrt(np.maximum(squares, 0.0))
        distances *= self._frame.scale
        return distances, indices

    def classify(self, Q: ArrayLike, y: ArrayLike, k: int = 5) -> NDArray[Any]:
        """Majority label of the k nearest points of each row of Q; ties go to the smaller label.

        ``y`` has the labels of the points, in the order in which they were added.
        """
        labels = column_or_1d(y)
        if len(labels) != len(self):
            raise ValueError(f"y has {len(labels)} labels for the {len(self)} points of the index.")
        classes, codes = np.unique(labels, return_inverse=True)
        return classes[majority(codes[self.query(Q, k)[1]], len(classes))]

    def _exact(self, scaled: Matrix, k: int) -> tuple[Matrix, Indices]:
        points, queries = self._buffer[: self._n], embed(self.metric, scaled)
        norms, precision = np.linalg.norm(queries, axis=1), np.float32 if self.engine == "faiss" else np.float64
        if self.engine == "faiss":
            single = scaled.astype(np.float32)
            gaps = self._gaps(single, queries)
        else:
            brute = NearestNeighbors(algorithm="brute").fit(points)
            gaps = np.zeros(len(queries))

        def propose(rows: Indices, width: int) -> tuple[Matrix, Indices]:
            if self.engine == "faiss":
                return faiss_stage.search(self._index, single[rows], width)
            distances, indices = brute.kneighbors(queries[rows], width)
            return distances**2, indices

        def bound(rows: Indices, radii: Vector) -> Vector:
            # A point z within the radius has ‖z‖ <= ‖q‖ + radius, which bounds how far its embedding is rounded.
            reach = radii + gaps[rows] + self._rounding * (1 + norms[rows] + radii)
            return rounded_squares(norms[rows] + gaps[rows], reach, points.shape[1], precision)

        return certified_nearest(points, queries, k, propose, bound)

    # --- files ------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to one file, atomically and without pickle."""
        settings = {name: getattr(self, name) for name in _SETTINGS}
        facts = {
            "kind": self.kind,
            "engine": self.engine,
            "settings": {name: None if value is None else int(value) for name, value in settings.items()},
            "n": self._n,
            "scale": self._frame and self._frame.scale,
            "rounding": self._rounding,
            "metric": {name: getattr(self.metric, name) for name in ("threshold", "feature_names", "calibration")},
        }
        arrays: dict[str, NDArray[Any]] = {
            "components": self.metric.dense_components,
            "points": self._buffer[: self._n],
        }
        if self._frame is not None:
            arrays["centre"] = self._frame.centre
        if self._index is not None:
            arrays["index"] = faiss_stage.serialize(self._index)
        write_archive(path, "an index", facts, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MetricIndex:
        """Read an index that :meth:`save` wrote; more points may be added to it.

        An exact index can be read without faiss, and is then searched by scikit-learn. The checksum guards against
        damage, not against malice: read only files of those you trust, for faiss takes its bytes as they are.

        ValueError if the file is not an index of advmetric, was changed or cut short, or comes from a newer version;
        ImportError if it is an approximate index of faiss, and faiss is missing.
        """
        with read_archive(path, "an index") as (facts, arrays):
            metric = Mahalanobis(arrays["components"], **facts["metric"])
            engine = "auto" if facts["engine"] == "faiss" and facts["kind"] == "exact" else facts["engine"]
            index = cls(metric, kind=facts["kind"], engine=engine, **facts["settings"])
            index._restore(facts, arrays)
        return index

    def _restore(self, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take over points and faiss index of a file, after a check of its facts against its arrays."""
        r, d = self.metric.components.shape
        n, points, scale = int(facts["n"]), arrays["points"], facts["scale"]
        wanted = n if self._searches_exactly else 0
        if n < 0 or points.shape != (wanted, r) or points.dtype != np.float64 or not np.isfinite(points).all():
            raise ValueError(f"{points.shape} points do not match n={n}, r={r}")
        if ("centre" in arrays) != (scale is not None) or (n and scale is None):
            raise ValueError("centre and scale do not match")
        if "centre" in arrays:
            centre = arrays["centre"]
            if centre.shape != (d,) or not np.isfinite(centre).all() or not 0.0 < float(scale) < np.inf:
                raise ValueError("centre or scale is not finite, or of another size")
            self._frame = Frame(centre, float(scale))
        self._n, self._buffer, self._rounding = n, points, float(facts["rounding"])
        if not 0.0 <= self._rounding < np.inf:
            raise ValueError(f"rounding={self._rounding} is not a finite number >= 0")
        if self.engine == "faiss" and "index" not in arrays and self._frame is not None:
            raise ValueError("the index of faiss is missing")
        if self.engine == "faiss" and "index" in arrays:
            self._index = faiss_stage.restore(arrays["index"])
            if (self._index.d, self._index.ntotal) != (d, n):
                raise ValueError(f"faiss has {self._index.ntotal} points of {self._index.d} features, not {n} of {d}")

    # --- checks -----------------------------------------------------------------------------------------

    def _check_points(self, X: ArrayLike, name: str) -> Matrix:
        return check_points(X, name, self.metric.components.shape[1], self.metric.feature_names)

    @property
    def _searches_exactly(self) -> bool:
        return self.kind == "exact" or self.engine == "sklearn"

    def _check_settings(self) -> None:
        for name in _SETTINGS:
            if getattr(self, name) is not None:
                Whole(1)(name, getattr(self, name))

    def _gaps(self, single: NDArray[np.float32], embedded: Matrix) -> Vector:
        """How far faiss's embedding is from the one in double precision, twice: it may sum in another order."""
        gaps: Vector = 2 * np.linalg.norm(faiss_stage.transform(self._index, single) - embedded, axis=1)
        return gaps


def _blocks(n: int, step: int = _ROWS) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, n, step))
