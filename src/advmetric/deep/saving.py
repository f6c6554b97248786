"""Files of fitted estimators: safetensors with a JSON header; no pickle."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from advmetric.utils.archive import DamagedFileError, damage_reported

from .checkpoint import prefixed, read_tensors, without_prefix, write_tensors
from .learner import Learner

__all__ = ["load_model", "save_model"]

_FITTED = ("input_shape_", "n_features_in_", "threshold_", "calibration_", "history_", "best_epoch_", "disjoint_")
_NOT_SAVED = ("preprocessor", "augment", "checkpoint")


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted ``DeepAML``: see its ``save``."""
    classes = np.asarray(model.classes_)
    facts = {
        "params": _plain_params(model),
        "own_backbone": model.backbone is not None and not isinstance(model.backbone, str),
        "fitted": {name: getattr(model, name) for name in _FITTED},
        "classes": {"values": classes.tolist(), "dtype": classes.dtype.str},
        "n_features": model.learner_.criterion.in_features,
    }
    write_tensors(path, "a network", facts, prefixed("learner", model.learner_.state_dict()))


def _plain_params(model: Any) -> dict[str, Any]:
    params = model.get_params(deep=False) | dict.fromkeys(_NOT_SAVED)
    for name, kinds in (("backbone", str), ("random_state", (int, np.integer))):
        params[name] = params[name] if isinstance(params[name], kinds) else None
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}


def load_model(cls: Any, path: str | os.PathLike[str], backbone: Any = None) -> Any:
    """Read a ``DeepAML``: see its ``load``."""
    facts, tensors = read_tensors(path, "a network")
    # A checksum proves only that the file is as it was written: facts that make no sense are damage as well.
    with damage_reported(path, "a network saved by advmetric"):
        own_backbone = bool(facts["own_backbone"])
        model = cls(**facts["params"])
        fitted = {name: facts["fitted"][name] for name in _FITTED}
        model.__dict__.update(fitted, input_shape_=tuple(fitted["input_shape_"]))
        model.calibration_ = _pair_of_numbers(fitted["calibration_"])
        model.threshold_ = float(fitted["threshold_"])
        model.classes_ = np.array(facts["classes"]["values"], dtype=np.dtype(facts["classes"]["dtype"]))
        n_features = int(facts["n_features"])
        if not own_backbone:
            model.learner_ = Learner.empty(model, model.input_shape_, n_features)
    if own_backbone:
        if backbone is None:
            raise ValueError(f"{path} has the weights of a backbone of your own; give the network as backbone.")
        model.backbone = backbone
        model.learner_ = Learner.empty(model, model.input_shape_, n_features)
    try:
        model.learner_.load_state_dict(without_prefix("learner", tensors))
    except RuntimeError as error:
        raise DamagedFileError(f"the weights in {path} do not fit the backbone: {error}") from error
    model.learner_.eval()
    return model


def _pair_of_numbers(values: Any) -> tuple[float, float]:
    first, second = values
    return float(first), float(second)
