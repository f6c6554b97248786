"""AMLLoss: the adversarial pair loss as a loss of pytorch-metric-learning."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from advmetric.utils.optional import require

from .head import AMLHead

require("pytorch_metric_learning", "AMLLoss")

from pytorch_metric_learning import losses as pml_losses  # noqa: E402
from pytorch_metric_learning import reducers  # noqa: E402
from pytorch_metric_learning.distances import LpDistance  # noqa: E402
from pytorch_metric_learning.utils import common_functions, loss_and_miner_utils  # noqa: E402

__all__ = ["AMLLoss", "CrossBatchMemory"]


class AMLLoss(pml_losses.BaseMetricLossFunction):
    """The pair loss of :class:`~advmetric.deep.AMLHead` with reducers, miners, ``ref_emb`` and a cross-batch memory.

    The loss of a pair is [ℓ(y(d² - b)) + α ℓ(y(d̃² - b))] / (1 + α), ℓ = softplus, with d² = ‖L(z - z')‖² and d̃² the
    squared distance after the closed-form adversary; its two terms are multiplied by N/S of ``weighting``. Similar and
    dissimilar pairs are reduced separately ("pos_loss" and "neg_loss", mean by default) and each has weight one half:
    with the mean the value is that of ``AMLHead.forward``.

    Parameters
    ----------
    embedding_size : int
        d, size of the embeddings.
    out_features : int, optional
        r, rows of L. None: d.
    alpha, beta, scale, weighting :
        As for :class:`~advmetric.deep.AMLHead`.
    distance : LpDistance, optional
        Only ``normalize_embeddings`` of it is used, and p must be 2; the distance itself is the learned one.
        Default: ``LpDistance()``, which normalises.
    **kwargs
        ``reducer``, ``embedding_regularizer``, ``collect_stats`` … of every loss of pytorch-metric-learning.

    See Also
    --------
    AMLHead : The layer behind it.

    Notes
    -----
    L and b are parameters of the loss, as the proxies of ``ProxyAnchorLoss`` are: give ``loss.parameters()`` to an
    optimiser, too. If they are not given to one, L stays the identity and the adversary scales all distances alike.
    Measure with ``loss.transform(embeddings)``, in which the learned distance is the Euclidean one.

    Examples
    --------
    >>> import torch
    >>> loss = AMLLoss(embedding_size=8)
    >>> z, labels = torch.randn(6, 8, requires_grad=True), torch.tensor([0, 0, 1, 1, 2, 2])
    >>> loss(z, labels).backward()
    """

    def __init__(
        self,
        embedding_size: int,
        out_features: int | None = None,
        *,
        alpha: float = 1.0,
        beta: float = 10.0,
        scale: float = 16.0,
        weighting: str = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(self.distance, LpDistance) or self.distance.p != 2:
            raise ValueError(f"distance must be an LpDistance with p=2, got {self.distance!r}.")
        normalize = bool(self.distance.normalize_embeddings)
        self.head = AMLHead(
            embedding_size,
            out_features,
            alpha=alpha,
            beta=beta,
            scale=scale,
            weighting=weighting,
            normalize=normalize,
        )
        self.alpha, self.beta, self.scale = self.head.alpha, self.head.beta, self.head.scale
        self.add_to_recordable_attributes(list_of_names=["alpha", "beta", "scale"], is_stat=False)

    def transform(self, embeddings: Tensor) -> Tensor:
        """h = Lz, (n, r): points whose Euclidean distances are the learned ones."""
        return self.head.transform(embeddings)

    def compute_loss(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        indices_tuple: tuple[Tensor, ...] | None,
        ref_emb: Tensor,
        ref_labels: Tensor | None,
    ) -> dict[str, dict[str, Any]]:
        """Losses of the pairs by kind, for the reducer."""
        common_functions.labels_or_indices_tuple_required(labels, indices_tuple)
        h = self.head.transform(embeddings)
        other = h if ref_emb is embeddings else self.head.transform(ref_emb)
        losses = self.zero_losses()
        if indices_tuple is None and self._takes_means():
            assert labels is not None
            assert ref_labels is not None
            total, part = (x.to(embeddings.dtype) for x in self.head.labelled_loss(h, other, labels, ref_labels))
            # The two are added: that the whole gradient passes through one of them changes nothing.
            for name, value in (("pos_loss", part), ("neg_loss", total - part)):
                losses[name] = {"losses": value, "indices": None, "reduction_type": "already_reduced"}
            return losses
        a1, p, a2, n = loss_and_miner_utils.convert_to_pairs(indices_tuple, labels, ref_labels)
        indices = {True: (a1, p), False: (a2, n)}
        values = self.head.listed_losses(h, other, indices, labelled=indices_tuple is None)
        for similar, name, kind in ((True, "pos_loss", "pos_pair"), (False, "neg_loss", "neg_pair")):
            count = len(values[similar])
            if count:
                # Reducers add to tensors of the embeddings' type.
                losses[name] = {
                    "losses": (0.5 * count * values[similar]).to(embeddings.dtype),
                    "indices": indices[similar],
                    "reduction_type": kind,
                }
        return losses

    def _takes_means(self) -> bool:
        """Whether the reducer takes the mean of each kind of pairs and adds them: then no pair need be listed."""
        parts = getattr(self.reducer, "reducers", {})
        return type(self.reducer) is reducers.MultipleReducers and all(
            name in parts and type(parts[name]) is reducers.MeanReducer for name in self._sub_loss_names()
        )

    def _sub_loss_names(self) -> list[str]:
        return ["pos_loss", "neg_loss"]


class CrossBatchMemory(pml_losses.CrossBatchMemory):
    """``CrossBatchMemory`` of pytorch-metric-learning, which refuses losses that it does not know by name.

    See Also
    --------
    AMLLoss : The loss to wrap.

    Examples
    --------
    >>> import torch
    >>> from advmetric.deep import AMLLoss
    >>> memory = CrossBatchMemory(AMLLoss(4), embedding_size=4, memory_size=32)
    >>> bool(torch.isfinite(memory(torch.randn(8, 4), torch.arange(8) % 2)))
    True
    """

    @staticmethod
    def supported_losses() -> list[str]:
        """Names of the losses that it can wrap."""
        return [*pml_losses.CrossBatchMemory.supported_losses(), "AMLLoss"]
