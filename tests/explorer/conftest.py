"""Samples to explore: small, with names that would break a page that trusts them."""

import numpy as np
import pytest

from advmetric import load_dataset
from advmetric.explorer.view import make_view
from advmetric.pairs.data import LabelledPoints, Pairs
from advmetric.workflows.parameters import find_method

CLASSES = ["</script><b>bus</b>", "opel & co", 'saab "9"', "van"]
NAMES = ["<i>compactness</i>", *(f"f{j}" for j in range(1, 18))]


def pairs_of(X, y, count, seed=0):
    rng = np.random.default_rng(seed)
    left = rng.integers(len(X), size=count)
    right = (left + rng.integers(1, len(X), size=count)) % len(X)
    return Pairs(X, left, right, np.where(y[left] == y[right], 1, -1))


@pytest.fixture(scope="session")
def cars():
    data = load_dataset("vehicle")
    return LabelledPoints(data.X[:300].astype(float), data.y[:300])


@pytest.fixture(scope="session")
def matches(cars):
    return pairs_of(cars.X, cars.y, 400)


@pytest.fixture(scope="session")
def point_view(cars):
    return make_view(
        find_method("GMML"), {"t": 0.1}, cars, title="The metric of <cars>", names=NAMES, classes=CLASSES, tuned=False
    )


@pytest.fixture(scope="session")
def pair_view(matches):
    return make_view(find_method("GMML"), {}, matches, title="The metric of pairs", names=NAMES, tuned=False)
