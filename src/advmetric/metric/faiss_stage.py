"""What :class:`~advmetric.metric.index.MetricIndex` asks of faiss, imported only when it is used.

An index is an IndexPreTransform: a LinearTransform that holds L, then an index of the embedded points.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.optional import MissingDependencyError, require
from advmetric.utils.typing import Matrix
from advmetric.utils.warning import warn

from .knn import Indices

__all__ = ["build", "choose", "faiss_module", "restore", "search", "serialize", "transform"]

Single = NDArray[np.float32]


@cache
def faiss_module() -> Any:
    """Return faiss; raise MissingDependencyError if it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # SWIG's, on newer Pythons
        return require("faiss", 'engine="faiss"')


def choose(engine: str, kind: str) -> str:
    """The engine to use: what was asked for, and faiss or scikit-learn for "auto"."""
    if engine == "sklearn":
        return engine
    try:
        faiss_module()
    except MissingDependencyError:
        if engine == "faiss":
            raise
        if kind != "exact":
            warn(
                f'faiss is missing (pip install "advmetric[faiss]"): instead of kind={kind!r}, scikit-learn searches '
                "through all points, exactly but slowly."
            )
        return "sklearn"
    return "faiss"


def build(L: Matrix, kind: str, *, nlist: int, n_links: int, ef_construction: int) -> Any:
    """An empty index of points that L embeds; "ivf" is still to be trained."""
    faiss = faiss_module()
    r, d = L.shape
    embed = faiss.LinearTransform(d, r, False)
    faiss.copy_array_to_vector(np.ascontiguousarray(L, dtype=np.float32).ravel(), embed.A)
    embed.is_trained = True
    if kind == "exact":
        stage = faiss.IndexFlatL2(r)
    elif kind == "hnsw":
        stage = faiss.IndexHNSWFlat(r, n_links)
        stage.hnsw.efConstruction = ef_construction
    else:
        stage = faiss.IndexIVFFlat(faiss.IndexFlatL2(r), r, nlist)
        # The sample is chosen by the caller; faiss would print a warning where it thinks it small.
        stage.cp.min_points_per_centroid = 1
    return faiss.IndexPreTransform(embed, stage)


def transform(index: Any, points: Single) -> Single:
    """The embedded points as faiss rounds them."""
    return faiss_module().downcast_VectorTransform(index.chain.at(0)).apply(points)


def search(
    index: Any, queries: Single, k: int, *, nprobe: int | None = None, ef_search: int = 16
) -> tuple[Matrix, Indices]:
    """Squared distances and indices of the k nearest points that an index of any kind finds; there are always k.

    ``nprobe`` is for IVF (None: one cell in 32, at least 8), ``ef_search`` for HNSW. They go with the call rather than
    into the index, which several threads may share.
    """
    faiss = faiss_module()
    stage = faiss.downcast_index(index.index)
    settings, everywhere, every = None, stage, None
    if isinstance(stage, faiss.IndexIVF):
        settings = faiss.SearchParametersIVF(nprobe=min(int(nprobe or max(8, stage.nlist // 32)), stage.nlist))
        every = faiss.SearchParametersIVF(nprobe=stage.nlist)
    elif isinstance(stage, faiss.IndexHNSW):
        settings, everywhere = faiss.SearchParametersHNSW(efSearch=int(max(ef_search, k))), stage.storage
    parameters = faiss.SearchParametersPreTransform(index_params=settings) if settings else None
    if isinstance(stage, faiss.IndexFlat) and len(queries) >= 20:
        return _search_flat(index, queries, k)
    squares, indices = _search_with(index, queries, k, parameters)
    # Cells with fewer than k points together, or a graph in pieces: such queries look at every point.
    short = np.flatnonzero(indices[:, -1] < 0)
    if len(short):
        squares[short], indices[short] = _search_with(everywhere, transform(index, queries[short]), k, every)
    return squares, indices


def _search_with(index: Any, queries: Single, k: int, parameters: Any) -> tuple[Matrix, Indices]:
    """Search with parameters.

    ``faiss.contrib.torch_utils``, which pytorch-metric-learning imports, replaces ``search`` by a function that takes
    none, and keeps the original as ``search_numpy``.
    """
    search = getattr(index, "search_numpy", index.search)
    found: tuple[Matrix, Indices] = search(queries, k, params=parameters)
    return found


def _search_flat(index: Any, queries: Single, k: int) -> tuple[Matrix, Indices]:
    """The search through all points, with a share of the queries for each thread.

    Left to itself faiss starts its threads anew for every small matrix product, and they wait for each other: four
    times slower for 500 queries on a busy machine. The number of threads is the one that faiss is set to.
    """
    faiss = faiss_module()
    shares = np.array_split(queries, min(faiss.omp_get_max_threads(), len(queries)))

    def one(share: Single) -> tuple[Matrix, Indices]:
        faiss.omp_set_num_threads(1)  # OpenMP keeps this number for each thread of the caller by itself
        return _search_with(index, share, k, None)

    with _matrix_products(), ThreadPoolExecutor(len(shares)) as pool:
        found = list(pool.map(one, shares))
    return np.concatenate([squares for squares, _ in found]), np.concatenate([indices for _, indices in found])


@contextmanager
def _matrix_products() -> Iterator[None]:
    """Let faiss compare blocks by matrix products, as older versions did for 20 queries and more.

    Version 1.15 reads all points anew for each query unless there are thousands of queries: with half a million
    points and 500 queries five times slower. The switch is faiss's own for the whole process, and put back.
    """
    switches = faiss_module().cvar
    before = switches.distance_compute_blas_threshold
    try:
        switches.distance_compute_blas_threshold = min(20, before)
        yield
    finally:
        switches.distance_compute_blas_threshold = before


def serialize(index: Any) -> NDArray[np.uint8]:
    """The index as bytes, in faiss's own format."""
    return faiss_module().serialize_index(index)


def restore(content: NDArray[np.uint8]) -> Any:
    """The index that :func:`serialize` wrote."""
    return faiss_module().deserialize_index(content)
