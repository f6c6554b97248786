"""Pretrained networks by name: what is loaded, and what is said where it cannot be."""

import sys
import types
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torch import nn

from advmetric.deep import DeepAML
from advmetric.deep.backbones import feature_size, pretrained, small_cnn, small_mlp
from advmetric.utils.optional import MissingDependencyError


class Classifier(nn.Module):
    """A network with a last layer, as torchvision's are."""

    def __init__(self, last="fc"):
        super().__init__()
        self.body = nn.Conv2d(3, 5, 3)
        setattr(self, last, nn.Linear(5, 1000))
        self.last = last

    def forward(self, x):
        return getattr(self, self.last)(self.body(x).mean(dim=(2, 3)))


@pytest.fixture
def torchvision(monkeypatch):
    """A stand-in for torchvision that records how it is asked."""
    calls = []

    def get_model(name, weights):
        calls.append((name, weights))
        if name == "far_away" and weights:
            raise URLError("no route to host")
        return Classifier("classifier" if name == "other" else "fc")

    package, models = types.ModuleType("torchvision"), types.ModuleType("torchvision.models")
    models.get_model, models.list_models = get_model, lambda: ["resnet18", "other", "far_away"]
    package.models, package.__path__ = models, []
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    return calls


@pytest.fixture
def timm(monkeypatch):
    package = types.ModuleType("timm")
    package.list_models = lambda: ["tiny"]
    package.create_model = lambda name, pretrained, num_classes: nn.Sequential(nn.Flatten(), nn.LazyLinear(7))
    monkeypatch.setitem(sys.modules, "timm", package)


@pytest.mark.parametrize(("name", "channels"), [("resnet18", 3), ("resnet18", 1), ("other", 3)])
def test_torchvision_networks_lose_their_classifier_and_get_their_weights(torchvision, name, channels):
    network = pretrained(f"torchvision:{name}", (channels, 8, 8))
    assert torchvision == [(name, "DEFAULT")]
    assert feature_size(network, (channels, 8, 8)) == 5


def test_timm_networks(timm):
    assert feature_size(pretrained("timm:tiny", (3, 8, 8)), (3, 8, 8)) == 7


def test_bytes_and_fractions_give_the_same_features(torchvision, tmp_path):
    rng = np.random.default_rng(0)
    images, y = rng.integers(0, 256, size=(12, 8, 8, 3), dtype=np.uint8), np.repeat([0, 1], 6)
    settings = {"backbone": "torchvision:resnet18", "epochs": 1, "early_stopping": False}
    models = [DeepAML(**settings).fit(data, y) for data in (images, images.astype(np.float32) / 255.0)]
    np.testing.assert_allclose(models[0].transform(images), models[1].transform(images / 255.0), rtol=1e-3, atol=1e-4)
    models[0].save(tmp_path / "m")
    torchvision.clear()
    np.testing.assert_array_equal(DeepAML.load(tmp_path / "m").transform(images), models[0].transform(images))
    assert torchvision == [("resnet18", None)]  # no download for weights that are in the file


def test_weights_that_cannot_be_had_are_explained(torchvision):
    with pytest.raises(ConnectionError, match=r"no route to host.*checkpoints"):
        pretrained("torchvision:far_away", (3, 8, 8))
    with pytest.raises(ValueError, match="no network 'resnet19'"):
        pretrained("torchvision:resnet19", (3, 8, 8))


@pytest.mark.parametrize("source", ["torchvision", "timm"])
def test_missing_libraries_are_named(monkeypatch, source):
    class Missing:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == source:
                raise ModuleNotFoundError(f"No module named {source!r}", name=source)

    for name in [name for name in sys.modules if name.partition(".")[0] == source]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    with pytest.raises(MissingDependencyError, match=f"pip install {source}"):
        pretrained(f"{source}:resnet18", (3, 8, 8))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 28, 28), (1, 64, 40), (2, 5, 5)])
def test_the_small_cnn_takes_images_of_any_size(shape):
    assert small_cnn(shape, 6)(torch.zeros(2, *shape)).shape == (2, 6)


def test_the_small_mlp():
    assert small_mlp((3,), 6)(torch.zeros(2, 3)).shape == (2, 6)
