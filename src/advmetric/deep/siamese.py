"""SiameseNet as a use of this package: the contrastive and the triplet loss on its training loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional

from advmetric.features.images import check_grey_images, normalise_patches
from advmetric.pairs.checks import check_index_pairs, check_pair_labels
from advmetric.utils.archive import read_archive, write_archive
from advmetric.utils.parameters import (
    Choice,
    Constraint,
    Real,
    Whole,
    check_parameters,
    check_seed,
    check_verbosity,
)
from advmetric.utils.progress import get_logger, progress

from .backbones import small_cnn
from .batches import PairBatches, TripletBatches
from .evaluation import embedded_distances
from .holdout import split_pairs
from .learner import Learner, embed
from .training import Plan, seeded, train

__all__ = ["ContrastiveCriterion", "SiameseNet"]

_HELD_OUT = 0.15
_SMALLEST = 16
_CPU = torch.device("cpu")


class ContrastiveCriterion(nn.Module):
    """The mean of d² over similar pairs and max(0, margin - d)² over dissimilar ones; embeddings have length 1.

    With ``triplet``, the mean of max(0, margin + d(a, s) - d(a, n)), where the i-th similar pair (a, s) and the i-th
    dissimilar pair (a, n) share their point a, as in :class:`~advmetric.deep.batches.TripletBatches`.
    """

    def __init__(self, margin: float = 1.0, *, triplet: bool = False) -> None:
        super().__init__()
        self.margin, self.triplet = margin, triplet

    def transform(self, features: Tensor) -> Tensor:
        """Features of length 1."""
        return functional.normalize(features.float(), dim=1)

    def forward(self, features: Tensor, labels: Tensor, pairs: Tensor) -> Tensor:
        """Loss of index pairs (N, 2) with labels +1 and -1."""
        z = self.transform(features)
        # The square root has no gradient at 0, where a point meets its copy.
        distance = (z[pairs[:, 0]] - z[pairs[:, 1]]).square().sum(dim=1).clamp_min(1e-10).sqrt()
        similar = labels > 0
        if not self.triplet:
            return torch.where(similar, distance, functional.relu(self.margin - distance)).square().mean()
        return functional.relu(self.margin + distance[similar] - distance[~similar]).mean()


class SiameseNet(BaseEstimator):
    """An embedding of grey patches in which similar ones are close: two copies of one network, trained on pairs.

    Minimised is, over pairs at distance d of their embeddings (of unit length),

        contrastive: the mean of d² (similar) and max(0, margin - d)² (dissimilar)
        triplet: the mean of max(0, margin + d(a, s) - d(a, n)), where a, s are similar and a, n dissimilar

    Patches are normalised one by one (mean 0, variance 1). About 15 % of the pairs are held out, of points that
    training does not see where the pairs allow that; training stops when their contrastive loss has not fallen for
    ``patience`` epochs, and the best weights are kept.

    Parameters
    ----------
    embedding : int, default=64
        Dimension of the embedding.
    margin : float, default=1.0
        Distance that dissimilar pairs are pushed to (of at most 2), or lead of similar ones over them.
    epochs : int, default=8
        Passes over the pairs at most.
    batch_size : int, default=128
        Pairs (half of them similar) or triplets per step.
    lr : float, default=2e-3
        Learning rate of AdamW; it rises over 20 steps and falls to 0 along a cosine over ``epochs``.
    loss : {"contrastive", "triplet"}, default="contrastive"
        "triplet" needs similar and dissimilar pairs that share a point.
    patience : int, default=3
        Epochs without progress on the held-out pairs before training stops.
    random_state : int, RandomState or None, default=0
        Seed of weights, order and split. Torch's global generator is neither used nor changed.
    verbose : int, default=0
        1 shows a progress bar and logs how training ended.

    Attributes
    ----------
    learner_ : Learner
        The network, on the CPU, in ``eval`` mode.
    image_shape_ : (int, int)
    history_ : dict
        "loss" and "held_out_loss" by epoch; in the latter each kind of pairs has half of the weight.
    best_epoch_ : int
        Whose weights were kept, from 0.
    disjoint_ : bool
        Whether held-out pairs shared no point with the training pairs.

    See Also
    --------
    DeepAML : A network with a learned metric on top.

    References
    ----------
    Hadsell, Chopra and LeCun, "Dimensionality reduction by learning an invariant mapping", CVPR 2006.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> patches = rng.random((40, 16, 16)).astype(np.float32)
    >>> pairs, same = np.stack([np.arange(40), (np.arange(40) + 1) % 40], axis=1), np.tile([1, -1], 20)
    >>> net = SiameseNet(epochs=1).fit(patches, pairs, same)
    >>> net.transform(patches).shape
    (40, 64)
    """

    _constraints: ClassVar[Mapping[str, Constraint | Callable[..., None]]] = {
        "embedding": Whole(1),
        "margin": Real(0.0, 2.0, open_low=True),
        "epochs": Whole(1),
        "batch_size": Whole(1),
        "lr": Real(0.0, open_low=True),
        "loss": Choice("contrastive", "triplet"),
        "patience": Whole(1),
        "random_state": check_seed,
        "verbose": check_verbosity,
    }

    def __init__(
        self,
        *,
        embedding: int = 64,
        margin: float = 1.0,
        epochs: int = 8,
        batch_size: int = 128,
        lr: float = 2e-3,
        loss: str = "contrastive",
        patience: int = 3,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.embedding, self.margin = embedding, margin
        self.epochs, self.batch_size, self.lr = epochs, batch_size, lr
        self.loss, self.patience = loss, patience
        self.random_state, self.verbose = random_state, verbose

    def fit(self, images: ArrayLike, pairs: ArrayLike, labels: ArrayLike) -> SiameseNet:
        """Train on index pairs (N, 2) of images (n, h, w), labelled +1 (similar) or -1 (dissimilar)."""
        check_parameters(self.get_params(), self._constraints)
        grey = check_grey_images(images)
        if min(grey.shape[1:]) < _SMALLEST:
            raise ValueError(f"images are {grey.shape[1:]} pixels; at least {_SMALLEST} x {_SMALLEST} are needed.")
        indices = np.column_stack(check_index_pairs(pairs, len(grey))).astype(np.intp)
        kinds = check_pair_labels(labels, len(indices))
        for kind, name in ((1, "similar"), (-1, "dissimilar")):
            if np.sum(kinds == kind) < 2:
                raise ValueError(f"labels has one {name} pair; two are needed: one is held out.")
        random = check_random_state(self.random_state)
        chosen, held, disjoint = split_pairs(indices, kinds, _HELD_OUT, random)
        points = normalise_patches(grey)[:, None]
        drawn = TripletBatches if self.loss == "triplet" else PairBatches
        batches = drawn(indices[chosen], kinds[chosen], self.batch_size, int(random.randint(2**31)))
        with seeded(int(random.randint(2**31)), _CPU):
            learner = self._build(tuple(grey.shape[1:]))
            done = train(
                learner,
                lambda batch: learner.step_loss(points, batch),
                batches,
                Plan(self.epochs, batches.steps_per_epoch, self.lr, patience=self.patience),
                evaluate=lambda: -_held_out_loss(learner, points, indices[held], kinds[held], self.margin),
                bar=lambda epochs: progress(epochs, len(epochs), "SiameseNet", enabled=bool(self.verbose)),
            )
        self.learner_, self.image_shape_, self.disjoint_ = learner, tuple(grey.shape[1:]), disjoint
        self.history_ = {"loss": done.losses, "held_out_loss": [-score for score in done.scores]}
        self.best_epoch_ = done.best_epoch
        if self.verbose:
            early = len(done.losses) < self.epochs
            get_logger().info(
                f"SiameseNet {'stopped early' if early else 'ended'} after {len(done.losses)} epochs; "
                f"best {done.best_epoch + 1}, held-out loss {-done.scores[done.best_epoch]:.4f}; "
                f"{len(held)} pairs held out, {'of unseen points' if disjoint else 'of points seen in training'}"
            )
        return self

    def _build(self, shape: tuple[int, ...]) -> Learner:
        network = small_cnn((1, *shape), self.embedding, width=16)
        return Learner(nn.Identity(), network, ContrastiveCriterion(self.margin, triplet=self.loss == "triplet"))

    def transform(self, images: ArrayLike) -> NDArray[np.float32]:
        """Embeddings (n, embedding) of images, each of length 1."""
        check_is_fitted(self, "learner_")
        grey = check_grey_images(images)
        if grey.shape[1:] != self.image_shape_:
            raise ValueError(f"images are {grey.shape[1:]} pixels; the network was trained on {self.image_shape_}.")
        return embed(self.learner_, normalise_patches(grey)[:, None])

    # --- files: a zip of plain arrays with a checksum; no pickle ---------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to a file, atomically: a reader sees the old file or the whole new one."""
        check_is_fitted(self, "learner_")
        # JSON knows no numbers of NumPy.
        params = {
            name: value.item() if isinstance(value, np.generic) else value for name, value in self.get_params().items()
        }
        if not isinstance(params["random_state"], int):
            params["random_state"] = None
        fitted = {name: getattr(self, name) for name in ("image_shape_", "history_", "best_epoch_", "disjoint_")}
        weights = {name: value.numpy() for name, value in self.learner_.state_dict().items()}
        write_archive(path, "a network", {"params": params, "fitted": fitted}, weights)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SiameseNet:
        """Read a network that :meth:`save` wrote.

        Raises
        ------
        DamagedFileError
            If the file is not a network of advmetric, was changed or cut short, or comes from a newer version.
        """
        with read_archive(path, "a network") as (facts, weights):
            net = cls(**facts["params"])
            net.__dict__.update(facts["fitted"])
            net.image_shape_ = tuple(net.image_shape_)
            with seeded(0, _CPU):  # building draws weights, which must not be seen outside
                net.learner_ = net._build(net.image_shape_)
            net.learner_.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
            net.learner_.eval()
            return net


def _held_out_loss(
    learner: Learner, points: NDArray[Any], pairs: NDArray[Any], kinds: NDArray[Any], margin: float
) -> float:
    """The contrastive loss, each kind of pairs with half of the weight: few dissimilar ones may be held out."""
    rows, at = np.unique(pairs, return_inverse=True)
    distances = embedded_distances(embed(learner, points[rows]), at.reshape(-1, 2))
    near, far = distances[kinds > 0], np.maximum(margin - distances[kinds < 0], 0.0)
    return float(0.5 * np.mean(near**2) + 0.5 * np.mean(far**2))
