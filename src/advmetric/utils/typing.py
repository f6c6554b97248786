"""Types used across the package."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Indices", "Matrix", "Vector"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Indices = NDArray[np.integer]
