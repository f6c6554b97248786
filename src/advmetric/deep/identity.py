"""What identifies a training: the settings and data that a checkpoint must have been made from."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .inputs import content_digest

__all__ = ["training_identity"]

_NOT_IN_IDENTITY = ("checkpoint", "checkpoint_every", "verbose", "preprocessor", "backbone", "augment")


def training_identity(estimator: Any, *data: Any) -> str:
    """Return the SHA-256 of the data and of the settings that change the result.

    The backbone is not part of it, nor is ``augment``: the weights at the start are added to it later, and what
    ``augment`` does cannot be known.
    """
    seed = estimator.random_state
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise ValueError("checkpoint needs random_state to be an int: another seed is another training.")
    params = estimator.get_params(deep=False)
    kept = {name: value for name, value in params.items() if name not in _NOT_IN_IDENTITY}
    return content_digest(*data, np.array(json.dumps(kept, sort_keys=True, default=str)))
