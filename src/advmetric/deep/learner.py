"""A network with its criterion: from points to features, to a loss, and to embeddings."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .backbones import Standardize, build_backbone, feature_size, is_pretrained
from .batches import Batch
from .head import AMLHead
from .inputs import load_rows, statistics
from .training import seeded

__all__ = ["Learner", "Settings", "Unchanged", "choose_device", "embed"]

_BLOCK = 512


class Settings(Protocol):
    """What an estimator says about its network."""

    backbone: Any
    embedding: int
    n_components: int | None
    loss: str
    alpha: float
    beta: float
    scale: float
    weighting: str
    normalize: bool
    standardize: bool
    augment: Any
    device: str


class Learner(nn.Module):
    """Standardisation, backbone and criterion: all that is trained, saved and restored together.

    Parameters
    ----------
    inputs : Module
        Standardisation of points.
    network : Module
        Backbone, from points to features.
    criterion : Module
        Called with the features, labels and ``pairs=`` of a batch; its ``transform`` maps features to embeddings.
    """

    def __init__(self, inputs: nn.Module, network: nn.Module, criterion: nn.Module) -> None:
        super().__init__()
        self.inputs = inputs
        self.network = network
        self.criterion = criterion

    @classmethod
    def build(cls, settings: Settings, points: NDArray[Any], rows: NDArray[Any]) -> Learner:
        """A new learner for points, standardised by the statistics of ``rows``."""
        shape = tuple(points.shape[1:])
        c = (shape[0],) + (1,) * (len(shape) - 1)
        mean, scale = torch.zeros(c), torch.ones(c)
        if is_pretrained(settings.backbone):
            scale = scale * (255.0 if points.dtype == np.uint8 else 1.0)
        elif settings.standardize:
            mean, scale = statistics(points, rows)
        network = build_backbone(settings.backbone, shape, settings.embedding)
        return cls(Standardize(mean, scale), network, _head(settings, feature_size(network, shape)))

    @classmethod
    def empty(cls, settings: Settings, shape: tuple[int, ...], n_features: int) -> Learner:
        """A learner of the right layers, to load weights into; torch's generators are left alone."""
        c = (shape[0],) + (1,) * (len(shape) - 1)
        with seeded(0, torch.device("cpu")):
            network = build_backbone(settings.backbone, shape, settings.embedding, weights=False)
            return cls(Standardize(torch.zeros(c), torch.ones(c)), network, _head(settings, n_features))

    def features(self, points: Tensor) -> Tensor:
        """Features (m, d) of standardised points."""
        features: Tensor = self.network(points)
        return features.flatten(1)

    def forward(self, points: Tensor) -> Tensor:
        """Embeddings (m, r) of points."""
        embedded: Tensor = self.criterion.transform(self.features(self.inputs(points)))  # type: ignore[operator]
        return embedded

    def step_loss(self, points: NDArray[Any], batch: Batch, augment: Any = None) -> Tensor:
        """Loss of a batch of rows of points."""
        device = next(self.parameters()).device
        inputs = self.inputs(load_rows(points, batch.rows, device))
        if augment is not None:
            inputs = augment(inputs)
        labels = torch.from_numpy(np.asarray(batch.labels, dtype=np.int64)).to(device)
        more = {} if batch.pairs is None else {"pairs": torch.from_numpy(batch.pairs).to(device)}
        loss: Tensor = self.criterion(self.features(inputs), labels, **more)
        return loss


def _head(settings: Settings, n_features: int) -> AMLHead:
    rank = settings.n_components
    if rank is not None and rank > n_features:
        raise ValueError(f"n_components={rank} is more than the {n_features} features of the backbone.")
    return AMLHead(
        n_features,
        rank,
        alpha=settings.alpha,
        beta=settings.beta,
        loss=settings.loss,
        scale=settings.scale,
        weighting=settings.weighting,
        normalize=settings.normalize,
    )


class Unchanged(nn.Module):
    """A criterion whose embeddings are the features themselves, for a network that is only applied."""

    def transform(self, features: Tensor) -> Tensor:
        """The features."""
        return features


def embed(learner: nn.Module, points: NDArray[Any]) -> NDArray[np.float32]:
    """Embeddings of points, by blocks of 512, in ``eval`` mode."""
    device = next(learner.parameters()).device
    learner.eval()
    blocks = []
    with torch.inference_mode():
        for start in range(0, len(points), _BLOCK):
            block = learner(load_rows(points, slice(start, start + _BLOCK), device))
            blocks.append(block.float().cpu().numpy())
    return np.concatenate(blocks)


def choose_device(name: str) -> torch.device:
    """The device of a name; "auto" is CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={name!r} is not known to torch; use 'auto', 'cpu', 'cuda' or 'cuda:0'.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={name!r}, but torch finds no CUDA device here.")
    return device
