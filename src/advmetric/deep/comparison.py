"""AML beside the losses of pytorch-metric-learning: same network, batches, optimiser and steps, tuned alike.

Every contender is a criterion on the features of one backbone with the same number of settings to try. They are tried
on classes held out of the training classes; the best is trained on all of these and judged on the test classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from advmetric.utils.optional import require

from .backbones import Standardize, feature_size, small_cnn, small_mlp
from .batches import ClassBatches
from .evaluation import labelled_auc
from .fitting import hold_out_classes
from .head import AMLHead
from .inputs import statistics
from .learner import Learner, Unchanged, embed
from .training import Plan, seeded, train

__all__ = ["CONTENDERS", "Budget", "Contender", "penultimate", "train_contender", "tune"]

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Budget:
    """What all contenders share.

    Parameters
    ----------
    steps, batch_size, per_class : int
        Steps of AdamW, points in a batch, points of a class in it.
    lr, weight_decay : float
    embedding, width : int
        Of the backbone: :func:`~advmetric.deep.backbones.small_cnn` for images; ``small_mlp`` for tables, which has its
        own width.
    held_out : float
        Share of the training classes that settings are tried on.
    trials : int or None
        Settings of each contender to try; None: all (each has four).
    """

    steps: int = 300
    batch_size: int = 96
    per_class: int = 12
    lr: float = 2e-3
    weight_decay: float = 1e-2
    embedding: int = 64
    width: int = 16
    held_out: float = 0.25
    trials: int | None = None


@dataclass(frozen=True)
class Contender:
    """A criterion with the settings to try.

    Parameters
    ----------
    name : str
    build : callable (n_features, n_classes, settings) -> Module
        Its ``forward(features, labels)`` is the loss, its ``transform(features)`` the embeddings.
    settings : sequence of mappings
    rate : float
        Factor of the learning rate of the criterion's own parameters. 100 for proxies, as Kim et al. have it.
    """

    name: str
    build: Callable[[int, int, Settings], nn.Module]
    settings: Sequence[Settings] = field(default_factory=tuple)
    rate: float = 1.0


class _Library(nn.Module):
    """A loss of pytorch-metric-learning, with a miner, as a criterion; embeddings have length 1."""

    def __init__(self, loss: nn.Module, miner: nn.Module | None = None) -> None:
        super().__init__()
        self.loss, self.miner = loss, miner

    def transform(self, features: Tensor) -> Tensor:
        return functional.normalize(features.float(), dim=1)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        mined = None if self.miner is None else self.miner(features, labels)
        value: Tensor = self.loss(features, labels, mined)
        return value


def _pml() -> Any:
    return require("pytorch_metric_learning.losses", "the comparison")


def _miners() -> Any:
    return require("pytorch_metric_learning.miners", "the comparison")


def _aml(n_features: int, _: int, settings: Settings) -> nn.Module:
    return AMLHead(n_features, **settings)


def _triplet(_: int, __: int, settings: Settings) -> nn.Module:
    miner = _miners().TripletMarginMiner(margin=settings["margin"], type_of_triplets="semihard")
    return _Library(_pml().TripletMarginLoss(**settings), miner)


def _proxy_anchor(n_features: int, n_classes: int, settings: Settings) -> nn.Module:
    return _Library(_pml().ProxyAnchorLoss(n_classes, n_features, **settings))


_PAIR: list[dict[str, Any]] = [
    {"weighting": "uniform", "beta": 10.0, "scale": 16.0},
    {"weighting": "active", "beta": 30.0, "scale": 64.0},
    {"weighting": "uniform", "beta": 10.0, "scale": 4.0},
    {"weighting": "active", "beta": 10.0, "scale": 16.0},
]
"""Settings of the pair loss, with and without adversary; how they were chosen: benchmarks/deep/NOTES.md."""

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender("aml", _aml, _PAIR),
        Contender("aml, no adversary", _aml, [{**settings, "alpha": 0.0} for settings in _PAIR]),
        Contender(
            "aml softmax",
            _aml,
            [{"loss": "softmax", "beta": beta, "scale": scale} for beta in (10.0, 30.0) for scale in (16.0, 64.0)],
        ),
        Contender(
            "aml softmax, no adversary",
            _aml,
            [{"loss": "softmax", "alpha": 0.0, "scale": scale} for scale in (4.0, 16.0, 32.0, 64.0)],
        ),
        Contender(
            "contrastive",
            lambda _, __, settings: _Library(_pml().ContrastiveLoss(**settings)),
            [{"neg_margin": margin} for margin in (0.6, 0.8, 1.0, 1.2)],
        ),
        Contender("triplet, semihard", _triplet, [{"margin": margin} for margin in (0.05, 0.1, 0.2, 0.4)]),
        Contender(
            "multi-similarity",
            lambda _, __, settings: _Library(
                _pml().MultiSimilarityLoss(**settings), _miners().MultiSimilarityMiner(epsilon=0.1)
            ),
            [{"alpha": a, "beta": b, "base": 0.5} for a in (2.0, 10.0) for b in (10.0, 50.0)],
        ),
        Contender(
            "supcon",
            lambda _, __, settings: _Library(_pml().SupConLoss(**settings)),
            [{"temperature": temperature} for temperature in (0.05, 0.1, 0.3, 1.0)],
        ),
        Contender(
            "proxy-anchor",
            _proxy_anchor,
            [{"margin": m, "alpha": a} for m in (0.1, 0.3) for a in (8.0, 32.0)],
            rate=100.0,
        ),
    )
}
"""The methods compared; each has four settings."""


def train_contender(
    contender: Contender,
    settings: Settings,
    points: NDArray[Any],
    codes: NDArray[Any],
    budget: Budget,
    seed: int,
) -> Learner:
    """Train a contender on all points with codes >= 0; the last weights, on the CPU.

    Parameters
    ----------
    points : (n, d) or (n, c, h, w) array
    codes : (n,) int array
        Classes; -1 for points that are not used.
    seed : int
        Of the weights and the batches: the same for all contenders.
    """
    rows = np.flatnonzero(codes >= 0)
    codes = codes.copy()
    codes[rows] = np.unique(codes[rows], return_inverse=True)[1]
    cpu = torch.device("cpu")
    with seeded(seed, cpu):
        shape = tuple(points.shape[1:])
        tabular = len(shape) == 1
        network = small_mlp(shape, budget.embedding) if tabular else small_cnn(shape, budget.embedding, budget.width)
        if not tabular:  # a fifth less time on a CPU
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        inputs = Standardize(*statistics(points, rows))
        criterion = contender.build(feature_size(network, shape), int(codes.max()) + 1, settings)
        learner = Learner(inputs, network, criterion)
        plan = Plan(
            epochs=1,
            steps_per_epoch=budget.steps,
            lr=budget.lr,
            weight_decay=budget.weight_decay,
            criterion_rate=contender.rate,
        )
        batches = ClassBatches(codes, budget.batch_size, budget.per_class, seed)
        train(learner, lambda batch: learner.step_loss(points, batch), batches, plan)
    return learner


def tune(
    contender: Contender, points: NDArray[Any], codes: NDArray[Any], budget: Budget, seed: int
) -> list[tuple[Settings, float]]:
    """ROC AUC of each setting on classes held out of ``codes``, best first; the same classes for all contenders."""
    kept = np.flatnonzero(codes >= 0)
    plain = np.unique(codes[kept], return_inverse=True)[1]
    held, _ = hold_out_classes(plain, budget.held_out, np.random.RandomState(seed))
    seen = np.full(len(codes), -1)
    seen[kept[~held]] = plain[~held]
    judged = kept[held]
    scored = []
    for settings in contender.settings[: budget.trials]:
        learner = train_contender(contender, settings, points, seen, budget, seed)
        scored.append((settings, labelled_auc(embed(learner, points[judged]), plain[held])))
    return sorted(scored, key=lambda entry: -entry[1])


def penultimate(learner: Learner, points: NDArray[Any]) -> NDArray[np.float32]:
    """Features (n, d) that a trained network computes before its last layer."""
    layers: Any = learner.network
    return embed(Learner(learner.inputs, nn.Sequential(*layers[:-1]), Unchanged()), points)
