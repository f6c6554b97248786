"""DeepAML: a network and a metric on its features, trained on class labels or on pairs, as an estimator."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import nn

from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.pairs.checks import check_pair_labels
from advmetric.utils.parameters import (
    ANYTHING,
    Choice,
    Constraint,
    Flag,
    Optional,
    Real,
    Whole,
    check_parameters,
    check_seed,
    check_verbosity,
)

from .decisions import NetworkDecisions
from .evaluation import embedded_distances, labelled_auc
from .fitting import Supervision, fit_learner, supervise_classes, supervise_pairs
from .head import LOSSES, WEIGHTINGS
from .identity import training_identity
from .inputs import check_network_points, form_pairs, is_formed
from .learner import choose_device, embed
from .saving import load_model, save_model

__all__ = ["DeepAML"]


def _check_amp(name: str, value: Any) -> None:
    if not isinstance(value, bool) and value != "auto":
        raise ValueError(f"{name}={value!r} must be 'auto', True or False.")


class DeepAML(NetworkDecisions, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A network and a Mahalanobis metric on its features, trained against the closed-form adversary.

    Minimised is the loss of :class:`~advmetric.deep.AMLHead` over class-balanced batches, or over batches of given
    pairs, half of them similar. Some classes (or pairs, of points that training does not see) are held out: training
    stops when the ROC AUC of their distances no longer rises, the best weights are kept, and the threshold and the
    probabilities come from them.

    Parameters
    ----------
    backbone : None, str, Module or callable, default=None
        None: a small CNN ("cnn") for images, two hidden layers ("mlp") for tables. "torchvision:NAME" or "timm:NAME":
        a pretrained network without its classifier. A module is copied and trained from its present weights. A
        callable gets the shape of a point, (d,) or (c, h, w), and returns a module. Its output is (n, features).
    embedding : int, default=64
        Number of features of "cnn" and "mlp".
    n_components : int, optional
        Rows of the metric's L. None: as many as there are features.
    loss : {"pair", "softmax", "margin"}, default="pair"
        Pairs need "pair".
    alpha, beta, scale, weighting, normalize :
        Weight of the adversary, price of its moves, starting metric, weights of pairs, and whether features have
        length 1: as for :class:`~advmetric.deep.AMLHead`.
    epochs : int, default=30
        Passes over the points (or over the pairs of the rarer kind) at most.
    batch_size : int, default=128
        Points (or pairs) in a step.
    per_class : int, default=8
        Points of a class in a batch; more where there are few classes.
    lr, weight_decay : float
        Of AdamW. The rate rises over 20 steps and falls to 0 along a cosine. L, b, biases and normalisation do not
        decay.
    early_stopping : bool, default=True
        Without it nothing is held out, all epochs are run, the threshold is √b and the probability σ(b - d²).
    validation_fraction : float, default=0.15
        Share of the classes to hold out, two at least; of fewer than five classes, the share of their points instead.
    patience : int, default=8
        Epochs without a better score before training stops.
    standardize : bool, default=True
        Standardise features (channels of images) by their mean and deviation in the training data, before the
        backbone. Pretrained networks have their own; their images are bytes, or numbers of 0 to 1.
    augment : callable, optional
        Gets a batch of standardised points, (m, d) or (m, c, h, w), and returns one to train on. Draw from torch's
        global generator: it is seeded and part of a checkpoint.
    device : str, default="auto"
        "auto": "cuda" if there is one, else "cpu".
    amp : "auto" or bool, default="auto"
        Mixed precision (autocast) of the network. "auto": on CUDA only.
    checkpoint : path, optional
        A file to save the state of training in, and to continue from if it exists. On the CPU the result is the same
        bits as without interruption. It needs ``random_state`` to be an int.
    checkpoint_every : int, default=100
        Steps between two savings; there is one after each epoch, too.
    preprocessor : array-like, optional
        Points that index pairs (N, 2) refer to.
    random_state : int, RandomState or None, default=0
        Seed of weights, batches and split.
    verbose : int, default=0
        1 shows a progress bar and logs how training ended.

    Attributes
    ----------
    learner_ : Learner
        The network (``learner_.network``) and the head (``learner_.criterion``), on the CPU, in ``eval`` mode.
    threshold_ : float
        Pairs no farther apart are called similar.
    calibration_ : (slope, intercept)
        Of the log-odds of "similar" as a function of d².
    history_ : dict
        "loss" and "score" (ROC AUC on held-out data) by epoch.
    best_epoch_ : int
        Whose weights were kept, from 0.
    classes_ : array
        Class labels, or [-1, 1] after pairs.
    disjoint_ : bool
        Whether the held-out data are of classes (points, for pairs) that training has not seen.
    input_shape_ : tuple
        Shape of a point, (d,) or (c, h, w).

    See Also
    --------
    AMLHead : The metric alone, for training loops of your own.

    Notes
    -----
    With the default CNN, training takes about 0.5 ms of one CPU core per image of 28 x 28 pixels.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> model = DeepAML(epochs=1, embedding=8).fit(digits.images[:300], digits.target[:300])
    >>> model.transform(digits.images[:2]).shape
    (2, 8)
    """

    _constraints: ClassVar[Mapping[str, Constraint | Callable[..., None]]] = {
        "backbone": ANYTHING,
        "embedding": Whole(1),
        "n_components": Optional(Whole(1)),
        "loss": Choice(*LOSSES),
        "alpha": Real(0.0),
        "beta": Real(0.0, open_low=True),
        "scale": Real(0.0, open_low=True),
        "weighting": Choice(*WEIGHTINGS),
        "normalize": Flag(),
        "epochs": Whole(1),
        "batch_size": Whole(2),
        "per_class": Whole(2),
        "lr": Real(0.0, open_low=True),
        "weight_decay": Real(0.0),
        "early_stopping": Flag(),
        "validation_fraction": Real(0.0, 0.5, open_low=True),
        "patience": Whole(1),
        "standardize": Flag(),
        "augment": ANYTHING,
        "device": ANYTHING,
        "amp": _check_amp,
        "checkpoint": ANYTHING,
        "checkpoint_every": Whole(1),
        "preprocessor": ANYTHING,
        "random_state": check_seed,
        "verbose": check_verbosity,
    }

    def __init__(
        self,
        *,
        backbone: str | nn.Module | Callable[[tuple[int, ...]], nn.Module] | None = None,
        embedding: int = 64,
        n_components: int | None = None,
        loss: str = "pair",
        alpha: float = 1.0,
        beta: float = 10.0,
        scale: float = 16.0,
        weighting: str = "uniform",
        normalize: bool = True,
        epochs: int = 30,
        batch_size: int = 128,
        per_class: int = 8,
        lr: float = 1e-3,
        weight_decay: float = 1e-2,
        early_stopping: bool = True,
        validation_fraction: float = 0.15,
        patience: int = 8,
        standardize: bool = True,
        augment: Callable[[torch.Tensor], torch.Tensor] | None = None,
        device: str = "auto",
        amp: str | bool = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100,
        preprocessor: ArrayLike | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.backbone, self.embedding, self.n_components = backbone, embedding, n_components
        self.loss, self.alpha, self.beta = loss, alpha, beta
        self.scale, self.weighting, self.normalize = scale, weighting, normalize
        self.epochs, self.batch_size, self.per_class = epochs, batch_size, per_class
        self.lr, self.weight_decay = lr, weight_decay
        self.early_stopping, self.validation_fraction, self.patience = early_stopping, validation_fraction, patience
        self.standardize, self.augment = standardize, augment
        self.device, self.amp = device, amp
        self.checkpoint, self.checkpoint_every = checkpoint, checkpoint_every
        self.preprocessor, self.random_state, self.verbose = preprocessor, random_state, verbose

    # --- fitting ----------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike) -> DeepAML:
        """Train the network and its metric.

        Parameters
        ----------
        X : array-like
            Points with classes: a table (n, d), or images (n, h, w) or (n, h, w, c). Pairs: (N, 2, ...) formed, or
            (N, 2) row numbers of ``preprocessor``.
        y : array-like
            Class labels of the points, or +1 (similar) and -1 (dissimilar) for pairs.
        """
        check_parameters(self.get_params(deep=False), self._constraints)
        if y is None:
            raise ValueError("DeepAML requires y to be passed, but the target y is None.")
        random = check_random_state(self.random_state)
        if self._holds_pairs(X):
            points, pairs = form_pairs(X, self.preprocessor)
            data: Supervision = supervise_pairs(points, pairs, check_pair_labels(y, len(pairs)), self, random)
            classes = np.array([-1, 1])
        else:
            points = check_network_points(X, "X")
            labels = column_or_1d(y, warn=True)
            classes, codes = np.unique(labels, return_inverse=True)
            data = supervise_classes(points, codes, self, random)
        seed = int(random.randint(2**31))
        identity = "" if self.checkpoint is None else training_identity(self, points, y, X)
        fitted = fit_learner(self, data, seed, identity)
        self.classes_, self.disjoint_ = classes, data.disjoint
        self.input_shape_ = tuple(points.shape[1:])
        self.n_features_in_ = int(np.prod(self.input_shape_))
        self.learner_, self.history_, self.best_epoch_ = fitted.learner, fitted.history, fitted.best_epoch
        self.threshold_, self.calibration_ = fitted.threshold, fitted.calibration
        return self

    def _check_fitted(self) -> None:
        check_is_fitted(self, "learner_")

    def _holds_pairs(self, X: Any) -> bool:
        return is_formed(X) or (self.preprocessor is not None and np.asarray(X).ndim == 2)

    # --- the metric -------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        criterion: Any = self.learner_.criterion
        return int(criterion.out_features)

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Embeddings (n, r) of points, h = Lz: their Euclidean distances are the learned ones."""
        self._check_fitted()
        return self._embed(check_network_points(X, "X", self.input_shape_))

    def _embed(self, points: NDArray[Any]) -> NDArray[np.float32]:
        device = choose_device(self.device)
        embedded = embed(self.learner_.to(device), points)
        self.learner_.cpu()
        return embedded

    def pair_distance(self, pairs: ArrayLike) -> NDArray[np.float64]:
        """Learned distance (not squared) of pairs: (N, 2, ...) formed, or (N, 2) row numbers of ``preprocessor``."""
        self._check_fitted()
        points, indices = form_pairs(pairs, self.preprocessor, self.input_shape_)
        needed, places = np.unique(indices, return_inverse=True)
        return embedded_distances(self._embed(points[needed]), places.reshape(-1, 2))

    def get_metric(self) -> Mahalanobis:
        """The metric of the embeddings that :meth:`transform` returns: Euclidean, with the threshold.

        ``MetricIndex(model.get_metric()).add(model.transform(X))`` finds neighbours.
        """
        self._check_fitted()
        return Mahalanobis(np.eye(self._n_features_out), self.threshold_)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Area under the ROC curve on labelled pairs, or on all pairs of points with classes (of 1000 of them)."""
        self._check_fitted()
        if self._holds_pairs(X):
            distances = self.pair_distance(X)
            return float(roc_auc_score(check_pair_labels(y, len(distances)), -distances))
        return labelled_auc(self.transform(X), np.unique(column_or_1d(y), return_inverse=True)[1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags

    # --- files: safetensors with a JSON header; no pickle -----------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, atomically and without pickle.

        Of a backbone that is a module or a callable, only the weights are in the file: give it to :meth:`load` again.
        Neither ``preprocessor`` nor ``augment`` is saved.
        """
        self._check_fitted()
        save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, backbone: Any = None) -> DeepAML:
        """Read a model that :meth:`save` wrote.

        Parameters
        ----------
        path : path
        backbone : Module or callable, optional
            For a model whose backbone was one: a network of the same layers, with any weights.

        Raises
        ------
        ValueError
            If the file is not such a model, was changed or cut short, is of a newer version, or needs ``backbone``.
        """
        return load_model(cls, path, backbone)
