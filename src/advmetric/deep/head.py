"""AMLHead: a learned metric on a network's features, trained on pairs and on their closed-form adversaries."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from .dense import dense_distances
from .functional import (
    adversarial_embeddings,
    candidates,
    margin_losses,
    pair_losses,
    paired_squared_distances,
    softmax_losses,
)
from .fused import labelled_pair_loss
from .relations import Listed, Related, from_labels, from_pairs, from_tuple

__all__ = ["LOSSES", "WEIGHTINGS", "AMLHead"]

LOSSES = ("pair", "softmax", "margin")
WEIGHTINGS = ("uniform", "active")
_EPSILON = 1e-6
Indices = tuple[Tensor, Tensor]
Squares = tuple[Tensor, Tensor | None]
_LISTED = 32
"""Pairs are measured one by one if there are fewer than one in this many entries of the matrix of all distances."""


class AMLHead(nn.Module):
    """A metric L and a threshold b on the features z of a network, with the adversarial loss as ``forward``.

    The squared distance of two points is d² = ‖L(z - z')‖². Minimised is, with ℓ = softplus, over the pairs of a batch

        pair:     1/(1+α) · Σ_i w_i [ ℓ(y_i(d_i² - b)) + α ℓ(y_i(d̃_i² - b)) ]
        softmax:  (N + αÑ)/(1+α),  N = -mean_i log Σ_{j∈S_i} e^{-d_ij²} / Σ_{j∈S_i∪D_i} e^{-d_ij²}
        margin:   (N + αÑ)/(1+α),  N = mean over i, j∈S_i, l∈D_i of ℓ(d_ij² - d_il² + 1)

    where y is +1 for similar and -1 for dissimilar pairs, the kinds share the weight w equally (see ``weighting``),
    S_i and D_i are the nearest points of the batch that are similar and dissimilar to i, and d̃ (in Ñ) is the distance
    after the adversary has moved the pair: d₊² = (h-h')ᵀK(h-h') for similar, d₋² = (h-h')ᵀK⁻¹(h-h') for dissimilar
    pairs, with h = Lz, K = I + LLᵀ/c and c = β·scale (see :mod:`advmetric.deep.functional`).

    Parameters
    ----------
    in_features : int
        d, number of features of the network.
    out_features : int, optional
        r, rows of L. None: d, starting at the identity; otherwise L starts with r random orthonormal rows.
    alpha : float, default=1.0
        Weight of the adversarial pairs. 0 switches the adversary off.
    beta : float, default=10.0
        Price of a move of the adversary, relative to the starting metric: at the start K = (1 + 1/β)I.
    loss : {"pair", "softmax", "margin"}, default="pair"
    scale : float, default=16.0
        The starting metric is M₀ = scale·I (of rank r) and the starting threshold b = scale: for features of length 1
        that is a cosine similarity of one half.
    weighting : {"uniform", "active"}, default="uniform"
        Of the pairs of one kind. "uniform": w = 1/(2N) for each of N pairs. "active": w = 1/(2S), S = Σσ(y(d² - b)) the
        number of pairs on the wrong side, smoothly counted, at least 1, a constant to the gradient; the adversarial
        pairs have their own S. Settled pairs then take no weight from the others, and the two kinds pull alike to the
        end. The value of the loss says less about progress then, b stays where it started, and σ(b - d²) is a
        probability with "uniform" only.
    normalize : bool, default=True
        Divide features by their length. Without it the network can make the adversary's moves negligible by making
        its features large.
    n_similar, n_dissimilar : int or None
        Greatest size of S_i and D_i for "softmax" and "margin". None: all of the batch for "softmax"; 3 and 20 for
        "margin", whose time and memory are O(n · n_similar · n_dissimilar).

    See Also
    --------
    AMLLoss : The same for pytorch-metric-learning.
    DeepAML : Network and head as one estimator.

    Notes
    -----
    O(nrd + n²r + r²d + r³) per batch of n points with labels, O(nrd + Nr + r²d + r³) for few listed pairs. Everything
    after the network is computed in single precision (or double, if the features are), under autocast as well.
    L and b are parameters: pass ``head.parameters()`` to the optimiser together with those of the network.

    References
    ----------
    Chen et al., "Adversarial metric learning", IJCAI 2018.

    Examples
    --------
    >>> head = AMLHead(8, out_features=4)
    >>> z, labels = torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2])
    >>> head(z, labels).shape                                                   # classes
    torch.Size([])
    >>> same = head(z.reshape(3, 2, 8), torch.tensor([1, 1, -1]))               # formed pairs (N, 2, d)
    >>> same = head(z, torch.tensor([1, -1]), pairs=torch.tensor([[0, 1], [2, 5]]))  # index pairs (N, 2)
    >>> head.transform(z).shape                                                 # Euclidean distances there are d
    torch.Size([6, 4])
    """

    weight: Tensor
    offset: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int | None = None,
        *,
        alpha: float = 1.0,
        beta: float = 10.0,
        loss: str = "pair",
        scale: float = 16.0,
        weighting: str = "uniform",
        normalize: bool = True,
        n_similar: int | None = None,
        n_dissimilar: int | None = None,
    ) -> None:
        super().__init__()
        rank = in_features if out_features is None else out_features
        if not 1 <= rank <= in_features:
            raise ValueError(f"out_features={rank} must be between 1 and in_features={in_features}.")
        if loss not in LOSSES:
            raise ValueError(f"loss={loss!r} is not known; use one of {', '.join(map(repr, LOSSES))}.")
        if not (math.isfinite(alpha) and alpha >= 0):
            raise ValueError(f"alpha={alpha!r} must be a finite number >= 0.")
        for name, value in (("beta", beta), ("scale", scale)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}={value!r} must be a finite number > 0.")
        if weighting not in WEIGHTINGS:
            raise ValueError(f"weighting={weighting!r} is not known; use one of {', '.join(map(repr, WEIGHTINGS))}.")
        for name, count in (("n_similar", n_similar), ("n_dissimilar", n_dissimilar)):
            if count is not None and count < 1:
                raise ValueError(f"{name}={count!r} must be a whole number >= 1, or None.")
        self.in_features, self.out_features = in_features, rank
        self.alpha, self.beta, self.scale = float(alpha), float(beta), float(scale)
        self.loss, self.weighting, self.normalize = loss, weighting, normalize
        self.n_similar = 3 if n_similar is None and loss == "margin" else n_similar
        self.n_dissimilar = 20 if n_dissimilar is None and loss == "margin" else n_dissimilar
        # In units of the starting metric, so that one learning rate suits both and the network.
        self.weight = nn.Parameter(torch.eye(rank, in_features))
        self.offset = nn.Parameter(torch.ones(()))
        if rank < in_features:
            nn.init.orthogonal_(self.weight)

    @property
    def L(self) -> Tensor:
        """The (r, d) components of the metric."""
        return self.weight * math.sqrt(self.scale)

    @property
    def b(self) -> Tensor:
        """The threshold of the squared distance: σ(b - d²) is the probability of "similar" of the pair loss."""
        return self.offset * self.scale

    @property
    def active(self) -> bool:
        """Whether the pairs on the wrong side share the weight of their kind."""
        return self.weighting == "active"

    @property
    def c(self) -> float:
        """Price of a move of the adversary."""
        return self.beta * self.scale

    def extra_repr(self) -> str:
        """The settings, for ``print``."""
        names = ("in_features", "out_features", "alpha", "beta", "loss", "scale", "weighting", "normalize")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    # --- the metric -------------------------------------------------------------------------------------

    def transform(self, embeddings: Tensor) -> Tensor:
        """h = Lz, (n, r): points whose Euclidean distances are the learned ones. In single precision at least."""
        if embeddings.ndim != 2 or embeddings.shape[1] != self.in_features:
            raise ValueError(f"embeddings must have shape (n, {self.in_features}), got {tuple(embeddings.shape)}.")
        with torch.autocast(embeddings.device.type, enabled=False):
            z = embeddings.to(self._dtype(embeddings))
            if self.normalize:
                z = functional.normalize(z, dim=1, eps=_EPSILON)
            return z @ self.L.to(z.dtype).T

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        *,
        pairs: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch, a 0-d tensor; 0 where the batch has no pair to learn from.

        Parameters
        ----------
        embeddings : (n, d) tensor, or (N, 2, d)
            Features of the network; (N, 2, d) are formed pairs, whose ``labels`` are +1 and -1.
        labels : (n,) tensor, optional
            Classes: all pairs of the batch are used, or all of a point of the batch and one of ``ref_emb``.
            With ``pairs``, or formed pairs: +1 (similar) and -1 (dissimilar) for each pair.
        indices_tuple : tuple of int tensors, optional
            Pairs (a1, p, a2, n) or triplets (a, p, n) as the miners of pytorch-metric-learning return them.
        ref_emb, ref_labels : (m, d) and (m,) tensors, optional
            Points that the second index of pairs refers to, in place of the batch.
        pairs : (N, 2) int tensor, optional
            Pairs of rows of ``embeddings``.
        """
        if embeddings.ndim == 3:
            n = len(embeddings)
            if embeddings.shape[1] != 2 or indices_tuple is not None or pairs is not None or ref_emb is not None:
                raise ValueError(
                    "embeddings of shape (N, 2, d) are pairs; give their labels (+1, -1) and nothing else."
                )
            pairs = torch.arange(2 * n, device=embeddings.device).reshape(n, 2)
            embeddings = embeddings.reshape(2 * n, -1)
        h = self.transform(embeddings)
        other = h if ref_emb is None else self.transform(ref_emb)
        if pairs is not None:
            relations = from_pairs(pairs, labels)
        elif indices_tuple is not None:
            relations = from_tuple(indices_tuple)
        elif labels is None:
            raise ValueError("give labels, pairs with labels, or indices_tuple: there is nothing to learn from.")
        else:
            same_points = ref_emb is None
            others = labels if same_points else ref_labels
            if others is None:
                raise ValueError("ref_emb needs ref_labels, unless indices_tuple is given.")
            labels, others = labels.to(h.device), others.to(h.device)
            if self.loss == "pair":
                return self.labelled_loss(h, other, labels, others)[0]
            return self._neighbor_loss(h, other, from_labels(labels, others, same_points))
        if self.loss == "pair":
            return self._listed_loss(h, other, relations)
        return self._neighbor_loss(h, other, relations.related(len(h), len(other)))

    def listed_losses(
        self, h: Tensor, other: Tensor, indices: Mapping[bool, Indices], *, labelled: bool = False
    ) -> dict[bool, Tensor]:
        """Losses (N,) of similar (True) and dissimilar (False) pairs (h[left], other[right]), to be added up.

        ``labelled`` says that similar are all pairs of one class, and dissimilar all others.
        """
        with torch.autocast(h.device.type, enabled=False):
            listed = sum(len(left) for left, _ in indices.values())
            measure = self._measure_listed if _LISTED * listed < len(h) * len(other) else self._measure_all
            return {
                similar: pair_losses(
                    *squares, 1.0 if similar else -1.0, self.b.to(h.dtype), self.alpha, active=self.active
                )
                for similar, squares in measure(h, other, indices, labelled).items()
            }

    def labelled_loss(self, h: Tensor, other: Tensor, labels: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """The pair loss of all pairs of h and ``other``, and the part of similar pairs in it."""
        with torch.autocast(h.device.type, enabled=False):
            L, b = self.L.to(h.dtype), self.b.to(h.dtype)
            if other is h and h.device.type == "cpu":
                return labelled_pair_loss(h, labels, L, b, self.c, self.alpha, active=self.active)
            related = from_labels(labels, others, other is h)
            similar, dissimilar = related.similar.to(h.dtype), related.dissimilar.to(h.dtype)
            squares = self._distances(h, other, similar)
            near, far = (
                0.5 * pair_losses(*squares, sign, b, self.alpha, mask=mask, active=self.active).sum()
                for sign, mask in ((1.0, similar), (-1.0, dissimilar))
            )
            return near + far, near

    # --- how ---------------------------------------------------------------------------------------------

    def _dtype(self, embeddings: Tensor) -> torch.dtype:
        return torch.float64 if torch.float64 in (embeddings.dtype, self.weight.dtype) else torch.float32

    def _views(self, h: Tensor, other: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Embeddings whose distances are real, pushed apart and pulled together; only the real ones if α = 0."""
        if self.alpha == 0.0:
            return (h,), (other,)
        if other is h:
            views = (h, *adversarial_embeddings(h, self.L.to(h.dtype), self.c))
            return views, views
        both = adversarial_embeddings(torch.cat([h, other]), self.L.to(h.dtype), self.c)
        return (h, *(moved[: len(h)] for moved in both)), (other, *(moved[len(h) :] for moved in both))

    def _listed_loss(self, h: Tensor, other: Tensor, listed: Listed) -> Tensor:
        losses = self.listed_losses(h, other, {True: listed.similar, False: listed.dissimilar})
        return 0.0 * h.sum() + 0.5 * (losses[True].sum() + losses[False].sum())

    def _measure_listed(
        self, h: Tensor, other: Tensor, indices: Mapping[bool, Indices], _: bool
    ) -> dict[bool, Squares]:
        """Real and adversarial squared distances of listed pairs, one by one."""
        views, others = self._views(h, other)
        measured = {}
        for similar, (left, right) in indices.items():
            chosen = (0,) if len(views) == 1 else (0, 1 if similar else 2)
            squares = [paired_squared_distances(views[k][left], others[k][right]) for k in chosen]
            measured[similar] = (squares[0], squares[1] if len(squares) > 1 else None)
        return measured

    def _measure_all(
        self, h: Tensor, other: Tensor, indices: Mapping[bool, Indices], labelled: bool
    ) -> dict[bool, Squares]:
        """The same, from matrices of all distances."""
        measured = {}
        matrices: Squares | None = None
        for similar, (left, right) in indices.items():
            if matrices is None or not labelled:  # a pair may be listed as similar and as dissimilar
                kinds = torch.full((len(h), len(other)), float(similar), dtype=h.dtype, device=h.device)
                if labelled:
                    kinds.zero_()[indices[True]] = 1.0
                    if other is h:
                        kinds.fill_diagonal_(1.0)
                matrices = self._distances(h, other, kinds)
            places = left * len(other) + right
            real, moved = matrices
            measured[similar] = (
                real.reshape(-1).index_select(0, places),
                None if moved is None else moved.reshape(-1).index_select(0, places),
            )
        return measured

    def _distances(self, h: Tensor, other: Tensor, similar: Tensor) -> tuple[Tensor, Tensor | None]:
        """Real and adversarial squared distances (n, m); ``similar`` is symmetric if ``other`` is h."""
        second = None if other is h else other
        return dense_distances(h, second, similar, self.L.to(h.dtype), self.c, adversary=self.alpha > 0.0)

    def _neighbor_loss(self, h: Tensor, other: Tensor, related: Related) -> Tensor:
        with torch.autocast(h.device.type, enabled=False):
            return self._loss_of_neighbors(*self._distances(h, other, related.similar.to(h.dtype)), related)

    def _loss_of_neighbors(self, real: Tensor, adversarial: Tensor | None, related: Related) -> Tensor:
        rows = torch.nonzero(related.similar.any(dim=1) & related.dissimilar.any(dim=1))[:, 0]
        if not len(rows):
            return 0.0 * real.sum()
        real = real[rows]
        near = candidates(real, related.similar[rows], self.n_similar)
        far = candidates(real, related.dissimilar[rows], self.n_dissimilar)
        losses_of = softmax_losses if self.loss == "softmax" else margin_losses
        loss = losses_of(near.of(real), far.of(real), near.exists, far.exists).mean()
        if adversarial is None:
            return loss
        moved = adversarial[rows]
        attacked = losses_of(near.of(moved), far.of(moved), near.exists, far.exists).mean()
        return (loss + self.alpha * attacked) / (1.0 + self.alpha)
