"""From data and settings to a trained learner: what is held out, batches, training, threshold and probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from advmetric.metric.threshold import best_threshold, fit_probability
from advmetric.utils.progress import get_logger, progress

from .batches import Batches, ClassBatches, PairBatches
from .evaluation import class_pairs, embedded_distances
from .holdout import split_pairs
from .inputs import content_digest
from .learner import Learner, choose_device, embed
from .training import Checkpoint, Plan, seeded, train

__all__ = [
    "Fitted",
    "Supervision",
    "fit_learner",
    "fit_log_odds",
    "hold_out_classes",
    "supervise_classes",
    "supervise_pairs",
]

Rows = NDArray[np.intp]
_FEW_CLASSES = 5


@dataclass(frozen=True)
class Supervision:
    """Points with what training sees of them and what it does not.

    Parameters
    ----------
    points : array (n, ...)
    rows : (m,) int array
        Points that are trained on.
    batches : Batches
        Their batches, without the seed being part of it.
    held_pairs, held_labels : (N, 2) and (N,) arrays
        Pairs to judge by; empty without early stopping.
    disjoint : bool
        Whether they are of classes (points, for given pairs) that training does not see.
    """

    points: NDArray[Any]
    rows: Rows
    batches: Batches
    held_pairs: NDArray[Any]
    held_labels: NDArray[Any]
    disjoint: bool


@dataclass(frozen=True)
class Fitted:
    """A trained learner, on the CPU, with its decisions."""

    learner: Learner
    history: dict[str, list[float]]
    best_epoch: int
    threshold: float
    calibration: tuple[float, float]


def supervise_classes(points: NDArray[Any], codes: NDArray[Any], settings: Any, random: Any) -> Supervision:
    """Training and held-out points of classes 0 … C-1."""
    if len(codes) != len(points):
        raise ValueError(f"y has {len(codes)} labels for {len(points)} points.")
    sizes = np.bincount(codes)
    if len(sizes) < 2:
        raise ValueError("y has only one class; at least two are needed to learn a metric.")
    if sizes.max() < 2:
        raise ValueError("every class in y has only one member, so there is no similar pair to learn from.")
    seed = int(random.randint(2**31))
    held, disjoint = np.zeros(len(codes), dtype=bool), False
    if settings.early_stopping:
        held, disjoint = hold_out_classes(codes, settings.validation_fraction, random)
    kept = np.where(held, -1, codes)
    if np.bincount(kept[kept >= 0]).max(initial=0) < 2:
        raise ValueError("y leaves no class with two points to train on; set early_stopping=False.")
    pairs, labels = np.empty((0, 2), dtype=np.intp), np.empty(0, dtype=int)
    if held.any():
        rows = np.flatnonzero(held)
        pairs, labels = class_pairs(codes[rows], seed)
        pairs = rows[pairs]
        if len(np.unique(labels)) < 2:
            raise ValueError("the held-out points have pairs of one kind only; raise validation_fraction.")
    batches = ClassBatches(kept, settings.batch_size, settings.per_class, seed)
    return Supervision(points, np.flatnonzero(~held), batches, pairs, labels, disjoint)


def hold_out_classes(codes: NDArray[Any], fraction: float, random: Any) -> tuple[NDArray[np.bool_], bool]:
    """Mask of the points to hold out, and whether they are whole classes.

    Of five classes or more, a share of them (two at least, with a similar pair among them) is held out; of fewer, two
    points or more of each class with four or more.
    """
    sizes = np.bincount(codes)
    order = random.permutation(len(sizes))
    wanted = max(2, round(fraction * len(sizes)))
    if len(sizes) >= _FEW_CLASSES:
        # A class with a similar pair first, and one left for training.
        order = order[np.argsort(sizes[order] < 2, kind="stable")]
        chosen = order[:wanted]
        if np.delete(sizes, chosen).max() >= 2:
            return np.isin(codes, chosen), True
    held = np.zeros(len(codes), dtype=bool)
    for c in range(len(sizes)):
        members = random.permutation(np.flatnonzero(codes == c))
        if len(members) >= 4:
            held[members[: max(2, round(fraction * len(members)))]] = True
    return held, False


def supervise_pairs(
    points: NDArray[Any], pairs: NDArray[Any], labels: NDArray[Any], settings: Any, random: Any
) -> Supervision:
    """Training and held-out pairs; see :func:`~advmetric.deep.holdout.split_pairs`."""
    if settings.loss != "pair":
        raise ValueError(f"loss={settings.loss!r} needs points with class labels; use loss='pair' for pairs.")
    seed = int(random.randint(2**31))
    chosen, held, disjoint = np.arange(len(pairs)), np.empty(0, dtype=np.intp), False
    if settings.early_stopping:
        for kind, name in ((1, "similar"), (-1, "dissimilar")):
            if np.sum(labels == kind) < 2:
                raise ValueError(f"y has one {name} pair; two are needed, for one is held out (early_stopping).")
        chosen, held, disjoint = split_pairs(pairs, labels, settings.validation_fraction, random)
    batches = PairBatches(pairs[chosen], labels[chosen], settings.batch_size, seed)
    return Supervision(points, np.unique(pairs[chosen]), batches, pairs[held], labels[held], disjoint)


def fit_learner(settings: Any, data: Supervision, seed: int, identity: str) -> Fitted:
    """Build, train and calibrate; ``settings`` is the estimator."""
    device = choose_device(settings.device)
    amp = device.type == "cuda" if settings.amp == "auto" else bool(settings.amp)
    with seeded(seed, device):
        learner = Learner.build(settings, data.points, data.rows).to(device)
        plan = Plan(
            epochs=settings.epochs,
            steps_per_epoch=data.batches.steps_per_epoch,
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            patience=settings.patience if len(data.held_pairs) else None,
            amp=amp,
        )
        done = train(
            learner,
            lambda batch: learner.step_loss(data.points, batch, settings.augment),
            data.batches,
            plan,
            evaluate=(lambda: _auc(learner, data)) if len(data.held_pairs) else None,
            checkpoint=_checkpoint(settings, identity, learner),
            bar=lambda epochs: _bar(settings, epochs),
        )
        threshold, calibration = _decisions(learner, data)
    if settings.verbose:
        early = len(done.losses) < settings.epochs
        held = f"held-out AUC {done.scores[done.best_epoch]:.4f}" if done.scores else "nothing held out"
        get_logger().info(
            f"{type(settings).__name__} {'stopped early' if early else 'ended'} after {len(done.losses)} epochs; "
            f"best {done.best_epoch + 1}, {held}"
        )
    history = {"loss": done.losses, "score": done.scores}
    return Fitted(learner.cpu(), history, done.best_epoch, threshold, calibration)


def _bar(settings: Any, epochs: range) -> Iterator[int]:
    return progress(epochs, len(epochs), type(settings).__name__, enabled=bool(settings.verbose))


def _checkpoint(settings: Any, identity: str, learner: Learner) -> Checkpoint | None:
    if settings.checkpoint is None:
        return None
    # The weights at the start stand for a backbone that cannot be named.
    weights = [value.cpu().numpy() for value in learner.state_dict().values()]
    return Checkpoint(settings.checkpoint, settings.checkpoint_every, content_digest(np.array(identity), *weights))


def _held_distances(learner: Learner, data: Supervision) -> NDArray[np.float64]:
    rows, places = np.unique(data.held_pairs, return_inverse=True)
    return embedded_distances(embed(learner, data.points[rows]), places.reshape(-1, 2))


def _auc(learner: Learner, data: Supervision) -> float:
    return float(roc_auc_score(data.held_labels, -_held_distances(learner, data)))


def _decisions(learner: Learner, data: Supervision) -> tuple[float, tuple[float, float]]:
    """Threshold and log-odds from the held-out pairs, as many of each kind; from b if nothing is held out."""
    if not len(data.held_pairs):
        b = float(torch.as_tensor(learner.criterion.b).detach().clamp_min(0.0))
        return b**0.5, (-1.0, b)
    distances, labels = _held_distances(learner, data), data.held_labels
    chosen = _balanced(labels)
    return best_threshold(distances[chosen], labels[chosen]), fit_log_odds(distances, labels)


def fit_log_odds(distances: NDArray[Any], labels: NDArray[Any]) -> tuple[float, float]:
    """Return (slope, intercept) of the log-odds of "similar" in d², on as many pairs of each kind."""
    chosen = _balanced(labels)
    return fit_probability(distances[chosen] ** 2, labels[chosen])


def _balanced(labels: NDArray[Any]) -> Rows:
    """All pairs of the rarer kind, and as many of the other, drawn."""
    kinds = [np.flatnonzero(labels == kind) for kind in (1, -1)]
    random, count = np.random.default_rng(0), min(map(len, kinds))
    return np.sort(np.concatenate([random.permutation(rows)[:count] for rows in kinds]))
