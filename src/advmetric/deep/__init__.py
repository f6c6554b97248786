"""Adversarial metric learning on neural networks (extra ``deep``: torch, safetensors, pytorch-metric-learning).

:class:`AMLHead` is a layer with a learned metric and the pair loss with its closed-form adversary, :class:`AMLLoss` the
same as a loss of pytorch-metric-learning, :class:`DeepAML` a scikit-learn estimator that trains a network with it, and
:class:`SiameseNet` an embedding of grey patches learned from pairs.
Nothing here is imported by ``import advmetric``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from advmetric.utils.optional import require

require("torch", "advmetric.deep")

from .estimator import DeepAML  # noqa: E402
from .head import AMLHead  # noqa: E402
from .siamese import SiameseNet  # noqa: E402

if TYPE_CHECKING:
    from .loss import AMLLoss, CrossBatchMemory

__all__ = ["AMLHead", "AMLLoss", "CrossBatchMemory", "DeepAML", "SiameseNet"]


def __getattr__(name: str) -> Any:
    # The losses need pytorch-metric-learning, which the head and the estimator do without.
    if name in ("AMLLoss", "CrossBatchMemory"):
        return getattr(import_module(".loss", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
