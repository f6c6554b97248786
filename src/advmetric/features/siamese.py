"""SiameseNet: a small convolutional network that learns an embedding of grey patches from pairs."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from advmetric.pairs.checks import check_index_pairs, check_pair_labels
from advmetric.utils.archive import read_archive, write_archive
from advmetric.utils.optional import require
from advmetric.utils.parameters import Choice, Real, Whole
from advmetric.utils.progress import get_logger, progress

from .holdout import split_pairs
from .images import check_grey_images, normalise_patches

__all__ = ["SiameseNet"]

_HELD_OUT = 0.15
_SMALLEST = 16


class SiameseNet(BaseEstimator):
    """An embedding of grey patches in which similar ones are close: two copies of one network, trained on pairs.

    Minimised is, over pairs at distance d of their embeddings (of unit length),

        contrastive: the mean of d² (similar) and max(0, margin - d)² (dissimilar)
        triplet: the mean of max(0, margin + d(a, s) - d(a, n)), where a, s are similar and a, n dissimilar

    Patches are normalised one by one (mean 0, variance 1). About 15 % of the pairs are held out, of points that
    training does not see where the pairs allow that; training stops when their loss has not fallen for ``patience``
    epochs, and the best weights are kept.

    Parameters
    ----------
    embedding : int, default=64
        Dimension of the embedding.
    margin : float, default=1.0
        Distance that dissimilar pairs are pushed to (of at most 2), or lead of similar ones over them.
    epochs : int, default=8
        Passes over the pairs at most.
    batch_size : int, default=128
        Pairs (triplets) a step.
    lr : float, default=2e-3
        First step length of Adam; it falls to 0 along a cosine over ``epochs``.
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
    weights_ : dict of arrays
        The network, by torch's names.
    image_shape_ : (int, int)
    history_ : dict
        "loss" and "held_out_loss", a number an epoch each.
    best_epoch_ : int
        Whose weights were kept, from 0.
    disjoint_ : bool
        Whether held-out pairs shared no point with the training pairs.

    Notes
    -----
    Needs torch: ``pip install "advmetric[deep]"``. Runs on the CPU: 90 000 weights, and 3000 patches
    a second and core in training, 32 x 32 pixels each.

    References
    ----------
    Hadsell, Chopra and LeCun, "Dimensionality reduction by learning an invariant mapping", CVPR 2006.
    """

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
        self.embedding = embedding
        self.margin = margin
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.loss = loss
        self.patience = patience
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, images: ArrayLike, pairs: ArrayLike, labels: ArrayLike) -> SiameseNet:
        """Train on index pairs (N, 2) of images (n, h, w), labelled +1 (similar) or -1 (dissimilar)."""
        self._check_params()
        images = check_grey_images(images)
        if min(images.shape[1:]) < _SMALLEST:
            raise ValueError(f"images are {images.shape[1:]} pixels; at least {_SMALLEST} x {_SMALLEST} are needed.")
        indices = np.column_stack(check_index_pairs(pairs, len(images)))
        kinds = check_pair_labels(labels, len(indices))
        for kind, name in ((1, "similar"), (-1, "dissimilar")):
            if np.sum(kinds == kind) < 2:
                raise ValueError(f"labels has one {name} pair; two are needed: one is held out.")
        network = _network()
        random = check_random_state(self.random_state)
        train, held, disjoint = split_pairs(indices, kinds, _HELD_OUT, random)
        if self.loss == "triplet" and len(network.triplets_of(indices[train], kinds[train], random)) == 0:
            raise ValueError('loss="triplet" needs similar and dissimilar pairs that share a point; there are none.')
        schedule = network.Schedule(self.loss, self.margin, self.epochs, self.batch_size, self.lr, self.patience)
        with network.seeded(int(random.randint(2**31))):
            weights, losses, held_losses, early = network.train(
                network.build(self.embedding),
                normalise_patches(images),
                (indices[train], kinds[train]),
                (indices[held], kinds[held]),
                schedule,
                random,
                lambda epochs: progress(epochs, len(epochs), "SiameseNet", enabled=bool(self.verbose)),
            )
        self.weights_ = weights
        self.image_shape_ = tuple(images.shape[1:])
        self.history_ = {"loss": losses, "held_out_loss": held_losses}
        self.best_epoch_ = int(np.argmin(held_losses))
        self.disjoint_ = disjoint
        if self.verbose:
            get_logger().info(
                f"SiameseNet {'stopped early' if early else 'ended'} after {len(losses)} epochs; "
                f"best {self.best_epoch_ + 1}, held-out loss {held_losses[self.best_epoch_]:.4f}; "
                f"{len(held)} pairs held out, {'of unseen points' if disjoint else 'of points seen in training'}"
            )
        return self

    def transform(self, images: ArrayLike) -> NDArray[np.float32]:
        """Embeddings (n, embedding) of images, each of length 1."""
        check_is_fitted(self, "weights_")
        images = check_grey_images(images)
        if images.shape[1:] != self.image_shape_:
            raise ValueError(f"images are {images.shape[1:]} pixels; the network was trained on {self.image_shape_}.")
        network = _network()
        return network.embed(network.restore(self.weights_), normalise_patches(images))

    def _check_params(self) -> None:
        for name in ("embedding", "epochs", "batch_size", "patience"):
            Whole(1)(name, getattr(self, name))
        Real(0.0, 2.0, open_low=True)("margin", self.margin)
        Real(0.0, open_low=True)("lr", self.lr)
        Choice("contrastive", "triplet")("loss", self.loss)

    # --- files: a zip of plain arrays with a checksum; no pickle ---------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to a file, atomically: a reader sees the old file or the whole new one."""
        check_is_fitted(self, "weights_")
        # Whole numbers of NumPy are none of JSON's.
        params = {
            name: value.item() if isinstance(value, np.generic) else value for name, value in self.get_params().items()
        }
        if not isinstance(params["random_state"], int):
            params["random_state"] = None
        fitted = {name: getattr(self, name) for name in ("image_shape_", "history_", "best_epoch_", "disjoint_")}
        names = list(self.weights_)  # in the order of the layers
        write_archive(path, "a network", {"params": params, "fitted": fitted, "names": names}, self.weights_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SiameseNet:
        """Read a network that :meth:`save` wrote.

        Raises
        ------
        ValueError
            If the file is not a network of advmetric, was changed or cut short, or comes from a newer version.
        """
        with read_archive(path, "a network") as (facts, weights):
            net = cls(**facts["params"])
            net.__dict__.update(facts["fitted"], weights_={name: weights[name] for name in facts["names"]})
            net.image_shape_ = tuple(net.image_shape_)
            return net


def _network() -> ModuleType:
    """Return the torch part, imported only now."""
    require("torch", "SiameseNet")
    from . import network

    return network
