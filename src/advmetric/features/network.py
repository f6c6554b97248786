"""The Siamese network in torch: layers, losses, training. Imported by ``siamese`` when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Schedule", "build", "embed", "restore", "seeded", "train", "triplets_of"]

Weights = dict[str, NDArray[Any]]
_BLOCK = 512
_DROPOUT = 0.3


@dataclass(frozen=True)
class Schedule:
    """How to train: the loss with its margin, and the settings of the descent."""

    loss: str
    margin: float
    epochs: int
    batch_size: int
    lr: float
    patience: int


def build(embedding: int) -> nn.Sequential:
    """Three convolutions and a linear map: 24 000 + 1025 x embedding weights; images of 16 x 16 pixels or more."""
    layers: list[nn.Module] = []
    # Halved at once: at full size the first layer alone would take as long as the others together.
    for inside, outside, width, stride in ((1, 16, 5, 2), (16, 32, 3, 2), (32, 64, 3, 1)):
        layers += [
            nn.Conv2d(inside, outside, width, stride=stride, padding=width // 2, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
        ]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(_DROPOUT), nn.Linear(64 * 16, embedding)
    )


def restore(weights: Weights) -> nn.Sequential:
    """The network of given weights."""
    with seeded(0):  # building draws weights, which must not be seen outside
        net = build(len(list(weights.values())[-1]))  # the bias of the linear map
    net.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return net


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch seeded and deterministic inside; its global generator and settings as before afterwards."""
    before, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    # The CPU's generator alone: torch.manual_seed would seed those of GPUs too, which fork_rng does not restore.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warn)


def embed(net: nn.Module, patches: NDArray[np.float32]) -> NDArray[np.float32]:
    """Embeddings of normalised patches, by blocks, with the statistics of training; unit length."""
    net.eval()
    with torch.no_grad():
        blocks = [_unit(net, patches[at : at + _BLOCK]).numpy() for at in range(0, len(patches), _BLOCK)]
    return np.concatenate(blocks)


def _unit(net: nn.Module, patches: NDArray[np.float32]) -> Tensor:
    return functional.normalize(net(torch.from_numpy(patches).unsqueeze(1)), dim=1)


def triplets_of(pairs: NDArray[Any], labels: NDArray[Any], random: np.random.RandomState) -> NDArray[Any]:
    """(anchor, similar, dissimilar): similar pairs in both orders, each with a dissimilar partner of its anchor."""
    similar, dissimilar = (np.vstack([part, part[:, ::-1]]) for part in (pairs[labels > 0], pairs[labels < 0]))
    dissimilar = dissimilar[np.argsort(dissimilar[:, 0], kind="stable")]
    first, last = (np.searchsorted(dissimilar[:, 0], similar[:, 0], side=side) for side in ("left", "right"))
    similar, first, last = (part[last > first] for part in (similar, first, last))
    drawn = first + (random.random_sample(len(first)) * (last - first)).astype(np.intp)
    return np.column_stack([similar, dissimilar[drawn, 1]])


def train(
    net: nn.Sequential,
    patches: NDArray[np.float32],
    training: tuple[NDArray[Any], NDArray[Any]],
    held_out: tuple[NDArray[Any], NDArray[Any]],
    schedule: Schedule,
    random: np.random.RandomState,
    bar: Callable[[range], Iterator[int]],
) -> tuple[Weights, list[float], list[float], bool]:
    """Train by Adam; return the weights of the epoch with the least held-out loss, both losses by epoch, and whether
    it stopped early: ``patience`` epochs without a lower held-out loss."""
    optimizer = torch.optim.Adam(net.parameters(), lr=schedule.lr, weight_decay=1e-4)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, schedule.epochs)
    share = float(np.mean(training[1] > 0))
    losses: list[float] = []
    held_losses: list[float] = []
    best: Weights = {}
    for epoch in bar(range(schedule.epochs)):
        losses.append(_epoch(net, patches, training, schedule, optimizer, random))
        decay.step()
        held_losses.append(_held_out_loss(net, patches, held_out, share, schedule))
        if not np.isfinite(losses[-1] + held_losses[-1]):
            raise FloatingPointError(f"the loss of epoch {epoch + 1} is not finite; lower lr={schedule.lr}.")
        if held_losses[-1] <= min(held_losses):
            best = {name: value.detach().cpu().numpy().copy() for name, value in net.state_dict().items()}
        if epoch - int(np.argmin(held_losses)) >= schedule.patience:
            return best, losses, held_losses, True
    return best, losses, held_losses, False


def _epoch(
    net: nn.Sequential,
    patches: NDArray[np.float32],
    training: tuple[NDArray[Any], NDArray[Any]],
    schedule: Schedule,
    optimizer: torch.optim.Optimizer,
    random: np.random.RandomState,
) -> float:
    """One pass over the pairs or triplets; the mean loss."""
    pairs, labels = training
    tuples = pairs if schedule.loss == "contrastive" else triplets_of(pairs, labels, random)
    order = random.permutation(len(tuples))
    net.train()
    total = 0.0
    for start in range(0, len(order), schedule.batch_size):
        batch = order[start : start + schedule.batch_size]
        # One pass for all sides: batch normalisation then sees the same statistics for each.
        sides = _unit(net, patches[tuples[batch].T.ravel()]).reshape(tuples.shape[1], len(batch), -1)
        if schedule.loss == "contrastive":
            similar = torch.from_numpy(labels[batch] > 0)
            loss = _contrastive(_distance(sides[0], sides[1]), similar, schedule.margin)
        else:
            near, far = _distance(sides[0], sides[1]), _distance(sides[0], sides[2])
            loss = functional.relu(schedule.margin + near - far).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += float(loss.detach()) * len(batch)
    return total / len(order)


def _distance(u: Tensor, v: Tensor) -> Tensor:
    # The square root has no gradient at 0, where a point meets its copy.
    return (u - v).square().sum(dim=1).clamp_min(1e-10).sqrt()


def _contrastive(distance: Tensor, similar: Tensor, margin: float) -> Tensor:
    return torch.where(similar, distance, functional.relu(margin - distance)).square().mean()


def _held_out_loss(
    net: nn.Sequential,
    patches: NDArray[np.float32],
    held_out: tuple[NDArray[Any], NDArray[Any]],
    share: float,
    schedule: Schedule,
) -> float:
    """Contrastive: the loss, with similar pairs having the ``share`` that they have in training. Triplet: the hinge
    over similar against dissimilar pairs, which need share no point (held-out pairs seldom do)."""
    pairs, labels = held_out
    points, at = np.unique(pairs, return_inverse=True)
    embedded = torch.from_numpy(embed(net, patches[points]))
    left, right = torch.from_numpy(at.reshape(pairs.shape)).T
    distance, similar = _distance(embedded[left], embedded[right]), torch.from_numpy(labels > 0)
    if schedule.loss == "contrastive":
        # Few dissimilar pairs have both points held out: unweighted, the loss would ask for collapse.
        by_kind = [float(_contrastive(distance[kind], similar[kind], schedule.margin)) for kind in (similar, ~similar)]
        return share * by_kind[0] + (1 - share) * by_kind[1]
    near, far = (torch.sort(distance[kind]).values for kind in (similar, ~similar))
    # At most 1000 quantiles of each kind: their differences are a matrix.
    near, far = (part[:: max(1, len(part) // 1000)] for part in (near, far))
    return float(functional.relu(schedule.margin + near[:, None] - far[None, :]).mean())
