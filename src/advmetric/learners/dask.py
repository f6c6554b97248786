"""The same learners on Dask collections: statistics on the workers, the solve on the client.

AML, GMML and Euclidean need of the data only statistics that merge exactly (:mod:`advmetric.pairs.pair_statistics`).
Each chunk of X and y is reduced to its statistics on the worker that has it; those of one worker are merged there, and
then those of all workers with each other. The client sees the sum, never a row. With P statistics (c·d² numbers for c
classes), P numbers per worker move, whatever the number of rows. ``transform`` and ``pair_distance`` map chunks lazily,
for every learner.

Nothing here is called directly: ``fit``, ``transform`` and ``pair_distance`` hand Dask collections over. The functions
use the learner's methods only, so that the base class can import this module.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from advmetric.utils.arrays import is_lazy
from advmetric.utils.optional import require

from .chunks import active_client, aligned, array, split, standing, starts, whole_rows
from .input import check_preprocessor, needed_rows, uses_all_pairs

__all__ = ["fit", "pair_distance", "points_on_workers", "record_features", "statistics", "transform"]

_FAN_IN = 4
"""How many statistics are merged at once: more would wait in memory, fewer would be more tasks."""


# --- learning -------------------------------------------------------------------------------------------


def fit(learner: Any, X: Any, y: Any) -> Any:
    """Learn from Dask collections what ``fit`` learns from the same data in memory."""
    if hasattr(learner, "_fit_collections"):
        return learner._fit_collections(*split(X, y))
    if not learner.accepts_batches:
        raise TypeError(
            f"{type(learner).__name__} needs all rows at once; of Dask collections AML, PairAML, NeighborAML, GMML and "
            "Euclidean learn. "
            "If the data fit in memory, gather them: fit(X.compute(), y.compute())."
        )
    X, y = split(X, y)
    found = statistics(learner, X, y)
    fresh = learner._unfitted()
    missing = "any rows" if found is None else fresh._missing(found)
    if missing:
        raise ValueError(f"X and y do not have what a metric is learned from: {missing}.")
    fresh._take_statistics(found)
    record_features(fresh, X, found)
    fresh._settle(found)
    return fresh


def record_features(learner: Any, X: Any, found: Any) -> None:
    """Set the number and the names of the features."""
    # Statistics without scatter matrices have no features: ask the data.
    learner.n_features_in_ = int(array(X, "X").shape[-1]) if found.kind == "points" else found.n_features
    names = list(getattr(X, "columns", []))
    if names and all(isinstance(name, str) for name in names):  # else there are none, as in scikit-learn
        learner.feature_names_in_ = np.asarray(names, dtype=object)


def statistics(learner: Any, X: Any, y: Any) -> Any:
    """Statistics of Dask collections, reduced on the cluster: for ``learner.fit_statistics``, or to merge with others.

    Parameters
    ----------
    learner : Gatherer
        Says, by ``preprocessor``, what X holds; not changed.
    X : dask array (n, d), (N, 2, d) or (N, 2), or dask dataframe
    y : dask array or series, array-like, or the name of a column of the dataframe X
    """
    da = require("dask.array")
    if learner.accepts_batches:
        try:
            uses_all_pairs(learner)
        except AttributeError as error:
            raise ValueError(str(error)) from None
    learner._check_params()
    X, y = split(X, y)
    if y is None:
        raise ValueError(f"{type(learner).__name__} requires y to be passed, but the target y is None.")
    if not is_lazy(X):
        raise TypeError("y is a Dask collection, but X is in memory; pass y.compute(), or X as a Dask array too.")
    rows, labels = aligned(array(X, "X"), y)
    blank = learner._unfitted()
    blank.preprocessor = None
    parts = da.map_blocks(
        _statistics_of_chunk,
        rows,
        standing(labels, rows.ndim),
        learner=require("dask").delayed(blank),
        points=points_on_workers(learner),
        firsts=starts(rows.chunks[0]),
        dtype=object,
        meta=np.empty((0,) * rows.ndim, dtype=object),
        chunks=((1,) * rows.numblocks[0], *[(1,)] * (rows.ndim - 1)),
    )
    return _reduced(list(parts.to_delayed().ravel()))


def _statistics_of_chunk(
    X: Any, y: Any, learner: Any, points: Any, firsts: list[int] | None, block_id: tuple[int, ...] = ()
) -> Any:
    """On a worker: check a chunk as a batch is checked, and return its statistics, in an array as Dask wants it."""
    found = np.empty((1,) * X.ndim, dtype=object)
    place = f"chunk {block_id[0]} of X" + (f" (from row {firsts[block_id[0]]})" if firsts else "")
    if X.shape[0] != y.shape[0]:
        raise ValueError(
            f"{place} has {X.shape[0]} rows, but that of y has {y.shape[0]}; if both hold as many in all, call "
            "compute_chunk_sizes() on the two arrays, so that y can be cut as X is."
        )
    if X.shape[0]:
        batch = copy.copy(learner)
        batch.preprocessor = points
        try:
            batch._absorb(X, y.ravel(), None)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{place}, counted within it: {error}") from None
        found[(0,) * X.ndim] = batch.statistics_
    return found


def _merged(parts: list[Any]) -> Any:
    """Statistics of several chunks; None of none."""
    some = [part for part in (p.item() if isinstance(p, np.ndarray) else p for p in parts) if part is not None]
    return functools.reduce(lambda first, second: first.merge(second), some) if some else None


def _reduced(parts: list[Any]) -> Any:
    """Merge delayed statistics: in a tree, where they are."""
    client = active_client()
    if client is not None:
        return _reduced_in_place(client, parts)
    delayed = require("dask").delayed
    while len(parts) > 1:
        parts = [delayed(_merged)(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    return _merged([parts[0].compute()])


def _reduced_in_place(client: Any, parts: list[Any]) -> Any:
    """Merge on each worker what is there, as it comes; then the workers' sums in a tree.

    Dask's own tree joins neighbouring chunks, which different workers have: their statistics would all travel. All are
    futures that know their history, so that what a lost worker had is made again on another.
    """

    def merge(group: list[Any], worker: str | None) -> Any:
        # Before chunks that wait, so that statistics do not pile up.
        where = {"workers": [worker], "allow_other_workers": True} if worker else {}
        return client.submit(_merged, group, pure=False, priority=1, **where)

    held: dict[str, list[Any]] = defaultdict(list)
    stream = require("distributed").as_completed(client.compute(parts))
    for batch in stream.batches():
        places = client.who_has(batch)
        for future in batch:
            if future.status in ("error", "cancelled"):
                future.result()  # raises what the worker raised
            worker = next(iter(places.get(future.key, ())), "")
            held[worker].append(future)
            if len(held[worker]) == _FAN_IN:
                stream.add(merge(held.pop(worker), worker))
    sums = [merge(group, worker) for worker, group in held.items()]
    while len(sums) > 1:
        sums = [merge(sums[i : i + _FAN_IN], None) for i in range(0, len(sums), _FAN_IN)]
    return sums[0].result()


# --- lazily mapped --------------------------------------------------------------------------------------


def transform(learner: Any, X: Any) -> Any:
    """Dask array of the embedded rows of a Dask array or dataframe."""
    learner._check_fitted()
    if _gives_frames(learner):
        raise ValueError(
            "set_output to dataframes would gather a Dask collection; use set_output(transform='default')."
        )
    if hasattr(X, "columns"):
        validate_data(learner, X._meta, reset=False, skip_check_array=True)  # the names
    rows = whole_rows(array(X, "X"))
    if rows.ndim != 2 or rows.shape[1] != learner.n_features_in_:
        raise ValueError(
            f"X has shape {rows.shape}, but {type(learner).__name__} is expecting (n, {learner.n_features_in_}): "
            f"{learner.n_features_in_} features."
        )
    r = learner._n_features_out
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    return rows.map_blocks(
        _transformed,
        learner=require("dask").delayed(_light(learner)),
        dtype=dtype,
        chunks=(rows.chunks[0], (r,)),
        meta=np.empty((0, 0), dtype),
    )


def _gives_frames(learner: Any) -> bool:
    """Whether ``transform`` answers with dataframes (set_output): asked with one row, the public way to know."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return hasattr(learner.transform(np.zeros((1, learner.n_features_in_))), "columns")


def _transformed(X: Any, learner: Any) -> Any:
    return learner.transform(X) if X.shape[0] else np.empty((0, learner._n_features_out), X.dtype)


def pair_distance(learner: Any, pairs: Any) -> Any:
    """Dask array of the distances of a Dask array of pairs or of index pairs."""
    learner._check_fitted()
    rows = whole_rows(array(pairs, "pairs"))
    if not (rows.ndim == 3 or (rows.ndim == 2 and learner.preprocessor is not None)):
        raise ValueError(f"pairs must have shape (N, 2, d), or (N, 2) with preprocessor; got {rows.shape}.")
    return rows.map_blocks(
        _distances,
        learner=require("dask").delayed(_light(learner)),
        points=points_on_workers(learner) if rows.ndim == 2 else None,
        dtype=np.float64,
        drop_axis=list(range(1, rows.ndim)),
        meta=np.empty(0),
    )


def _distances(pairs: Any, learner: Any, points: Any) -> Any:
    if not pairs.shape[0]:
        return np.empty(0)
    learner = copy.copy(learner)
    learner.preprocessor = points
    needed = needed_rows(points, pairs)  # looks at no other row
    return learner.pair_distance(pairs if needed is None else needed)


def _light(learner: Any) -> Any:
    """What workers need of a fitted learner: no statistics, no points; names were checked on the client."""
    light = copy.copy(learner)
    light.preprocessor = None
    for name in ("statistics_", "feature_names_in_"):
        if hasattr(light, name):
            delattr(light, name)
    return light


def points_on_workers(learner: Any) -> Any:
    """The preprocessor's points, checked once and sent to each worker once; None without."""
    if learner.preprocessor is None:
        return None
    if is_lazy(learner.preprocessor):
        raise TypeError("preprocessor goes to every worker as a whole: pass it in memory, preprocessor=X.compute().")
    if callable(learner.preprocessor):
        raise TypeError("preprocessor must be an array of points for index pairs in a Dask collection.")
    points = check_preprocessor(learner)
    client = active_client()
    # Without hash: a name of its own, that does not vanish when another's copy of the same points is let go.
    return require("dask").delayed(points) if client is None else client.scatter(points, broadcast=True, hash=False)
