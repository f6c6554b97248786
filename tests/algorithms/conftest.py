"""What the tests of several methods share: standardised wine."""

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler


class Points(NamedTuple):
    """Points with classes."""

    X: np.ndarray
    y: np.ndarray


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return Points(StandardScaler().fit_transform(X), y)
