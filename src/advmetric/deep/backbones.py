"""Networks from points to features: a small CNN, an MLP, pretrained ones by name, or the user's own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from advmetric.utils.optional import require

__all__ = ["Standardize", "build_backbone", "feature_size", "is_pretrained", "pretrained", "small_cnn", "small_mlp"]

Shape = tuple[int, ...]
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_SOURCES = ("torchvision", "timm")


class Standardize(nn.Module):
    """(x - mean) / scale, feature by feature or channel by channel; the two are buffers, saved with the network."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", scale.float())

    def forward(self, x: Tensor) -> Tensor:
        """Standardised input of the same shape."""
        return (x - self.mean) / self.scale


class _RepeatChannels(nn.Module):
    """Grey images as colour ones, for networks that were trained on these."""

    def forward(self, x: Tensor) -> Tensor:
        return x.expand(-1, 3, -1, -1)


def small_cnn(input_shape: Shape, embedding: int = 64, width: int = 32) -> nn.Sequential:
    """Three convolutions with batch normalisation, pooling to 4 x 4 and a linear map.

    Parameters
    ----------
    input_shape : (c, h, w)
    embedding : int
        Number of features.
    width : int
        Channels of the first convolution; the others have twice as many.

    Notes
    -----
    25·c·width + 54·width² + 32·width·embedding weights, about: 122 000 at the defaults.
    The first convolution halves images of more than 16 pixels: at full size it would take as long as the rest.
    """
    c, h, w = input_shape
    large = min(h, w) > 16
    layers: list[nn.Module] = []
    for inside, outside, size, stride in (
        (c, width, 5 if large else 3, 2 if large else 1),
        (width, 2 * width, 3, 2),
        (2 * width, 2 * width, 3, 1),
    ):
        layers += [
            nn.Conv2d(inside, outside, size, stride=stride, padding=size // 2, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * width, embedding))


def small_mlp(input_shape: Shape, embedding: int = 64, width: int = 256) -> nn.Sequential:
    """Two hidden layers with batch normalisation and a linear map; ``input_shape`` is (d,)."""
    d = input_shape[0]
    layers: list[nn.Module] = []
    for inside in (d, width):
        layers += [nn.Linear(inside, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(width, embedding))


def build_backbone(
    backbone: str | nn.Module | Callable[[Shape], nn.Module] | None,
    input_shape: Shape,
    embedding: int,
    *,
    weights: bool = True,
) -> nn.Module:
    """The network that ``backbone`` stands for, as a new object.

    Parameters
    ----------
    backbone : None, str, Module or callable
        None: "cnn" for images and "mlp" for tables. "torchvision:NAME" or "timm:NAME": a pretrained network without
        its classifier. A module is copied. A callable gets ``input_shape`` and returns a module.
    input_shape : (d,) or (c, h, w)
    embedding : int
        Number of features of "cnn" and "mlp".
    weights : bool
        Whether pretrained networks get their weights; False when others will be loaded into them.
    """
    if backbone is None:
        backbone = "mlp" if len(input_shape) == 1 else "cnn"
    if isinstance(backbone, nn.Module):
        return copy.deepcopy(backbone)
    if backbone == "cnn" or backbone == "mlp":
        if (backbone == "mlp") != (len(input_shape) == 1):
            wanted = "a table (n, d)" if backbone == "mlp" else "images (n, h, w) or (n, h, w, c)"
            raise ValueError(f"backbone={backbone!r} needs {wanted}; the points have shape {input_shape}.")
        return small_mlp(input_shape, embedding) if backbone == "mlp" else small_cnn(input_shape, embedding)
    if is_pretrained(backbone):
        assert isinstance(backbone, str)
        return pretrained(backbone, input_shape, weights=weights)
    if isinstance(backbone, str) or not callable(backbone):
        raise ValueError(
            f"backbone={backbone!r} is not known; use 'cnn', 'mlp', 'torchvision:NAME', 'timm:NAME', an nn.Module or "
            "a callable that makes one."
        )
    made = backbone(input_shape)
    if not isinstance(made, nn.Module):
        raise TypeError(f"backbone must return an nn.Module, got {type(made).__name__}.")
    return made


def is_pretrained(backbone: Any) -> bool:
    """Whether ``backbone`` names a network of torchvision or timm."""
    return isinstance(backbone, str) and backbone.partition(":")[0] in _SOURCES and ":" in backbone


def pretrained(name: str, input_shape: Shape, *, weights: bool = True) -> nn.Module:
    """A network of torchvision or timm with the weights of ImageNet, without its classifier.

    Images have values of 0 to 1 (or bytes, see :class:`~advmetric.deep.DeepAML`); grey ones are repeated.

    Raises
    ------
    ConnectionError
        If the weights are not on this machine and cannot be downloaded.
    """
    if len(input_shape) != 3 or input_shape[0] not in (1, 3):
        raise ValueError(f"backbone={name!r} needs grey or colour images, got points of shape {input_shape}.")
    source, _, model = name.partition(":")
    library = _library(source, name)
    if model not in library.list_models():
        raise ValueError(f"{source} has no network {model!r}; see {source}.{_LISTING[source]}().")
    try:
        if source == "timm":
            network: nn.Module = library.create_model(model, pretrained=weights, num_classes=0)
        else:
            network = library.get_model(model, weights="DEFAULT" if weights else None)
            _drop_classifier(network, name)
    except (OSError, RuntimeError) as error:  # urllib's, Hugging Face's; timm's without huggingface_hub
        if not weights:
            raise
        raise ConnectionError(
            f"the weights of {name!r} are not on this machine and could not be downloaded ({error}). Put the file into "
            f"{torch.hub.get_dir()}/checkpoints (torchvision) or the Hugging Face cache (timm), or pass backbone an "
            "nn.Module with its weights loaded."
        ) from error
    mean, scale = (torch.tensor(values).reshape(3, 1, 1) for values in _IMAGENET)
    stages: list[nn.Module] = [] if input_shape[0] == 3 else [_RepeatChannels()]
    return nn.Sequential(*stages, Standardize(mean, scale), network)


_LISTING = {"torchvision": "models.list_models", "timm": "list_models"}


def _library(source: str, name: str) -> Any:
    """The module that makes the networks of a source."""
    try:
        return require("torchvision.models" if source == "torchvision" else "timm", f"backbone={name!r}")
    except RuntimeError as error:  # its operators are compiled for another version of torch
        raise ImportError(
            f"torchvision does not fit torch {torch.__version__} ({error}); install its match."
        ) from error


def _drop_classifier(network: nn.Module, name: str) -> None:
    for last in ("fc", "classifier", "heads", "head"):
        if isinstance(getattr(network, last, None), nn.Module):
            setattr(network, last, nn.Identity())
            return
    raise ValueError(f"{name!r} is not a classifier of images: it has no last layer to take away.")


def feature_size(network: nn.Module, input_shape: Shape) -> int:
    """Number of features of a network, from a pass of two zeros; ValueError if they are not (n, d)."""
    training = network.training
    network.eval()
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    with torch.no_grad():
        features = network(torch.zeros((2, *input_shape), device=device))
    network.train(training)
    if not isinstance(features, Tensor) or features.ndim < 2 or len(features) != 2:
        found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"the backbone must turn (2, {', '.join(map(str, input_shape))}) into (2, d), got {found}.")
    return int(features.flatten(1).shape[1])
