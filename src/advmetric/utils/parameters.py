"""Constraints on the parameters of estimators.

Each estimator has a table ``_constraints`` beside its constructor, one entry per parameter. All estimators check their
parameters with the same code, :func:`check_parameters`, which raises TypeError or ValueError and names the parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.utils import check_random_state

__all__ = [
    "ANYTHING",
    "Choice",
    "Constraint",
    "Flag",
    "Optional",
    "Real",
    "Whole",
    "check_parameters",
    "check_seed",
    "check_verbosity",
]


class Constraint(Protocol):
    """A condition on the value of a parameter."""

    def __call__(self, name: str, value: Any) -> None:
        """Raise TypeError or ValueError if ``value`` violates the condition."""


@dataclass(frozen=True)
class Real:
    """A finite number in [low, high]; ``open_low`` and ``open_high`` exclude the ends."""

    low: float = -np.inf
    high: float = np.inf
    open_low: bool = False
    open_high: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise TypeError(f"{name} must be a number, got {value!r}.")
        below = value < self.low or (self.open_low and value == self.low)
        above = value > self.high or (self.open_high and value == self.high)
        if not np.isfinite(value) or below or above:
            bounds = []
            if self.low > -np.inf:
                bounds.append(f"{'>' if self.open_low else '>='} {self.low:g}")
            if self.high < np.inf:
                bounds.append(f"{'<' if self.open_high else '<='} {self.high:g}")
            raise ValueError(f"{name}={value!r} must be a finite number{' ' * bool(bounds)}{' and '.join(bounds)}.")


@dataclass(frozen=True)
class Whole:
    """An integer >= low."""

    low: int

    def __call__(self, name: str, value: Any) -> None:
        Real(self.low)(name, value)
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name}={value!r} must be a whole number (an int).")


class Choice:
    """One of several strings."""

    def __init__(self, *values: str) -> None:
        self.values = values

    def __call__(self, name: str, value: Any) -> None:
        if not (isinstance(value, str) and value in self.values):
            raise ValueError(f"{name}={value!r} is not known; use one of {', '.join(map(repr, self.values))}.")


class Flag:
    """True or False."""

    def __call__(self, name: str, value: Any) -> None:
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be True or False, got {value!r}.")


@dataclass(frozen=True)
class Optional:
    """None, or a value that meets another constraint."""

    constraint: Constraint

    def __call__(self, name: str, value: Any) -> None:
        if value is not None:
            self.constraint(name, value)


def ANYTHING(name: str, value: Any) -> None:
    """No constraint: the value is checked where it is used."""


def check_seed(name: str, value: Any) -> None:
    """None, an integer that is a seed, or a RandomState: what scikit-learn's check_random_state takes."""
    try:
        check_random_state(value)
    except ValueError as error:
        raise ValueError(
            f"{name}={value!r} cannot be used to seed a numpy.random.RandomState; use None, an integer from 0 to "
            "2**32 - 1, or a RandomState."
        ) from error


def check_verbosity(name: str, value: Any) -> None:
    """True, False, or an integer >= 0."""
    if not isinstance(value, (bool, np.bool_)):
        Whole(0)(name, value)


def check_parameters(values: Mapping[str, Any], constraints: Mapping[str, Constraint | Callable[..., None]]) -> None:
    """Check each parameter against its constraint.

    Raises
    ------
    TypeError, ValueError
        The value of a parameter has the wrong type or is out of range.
    KeyError
        A parameter has no entry in the table, or the table has an entry for no parameter.
    """
    if set(values) != set(constraints):
        raise KeyError(f"the table of constraints does not match the parameters: {set(values) ^ set(constraints)}")
    for name, constraint in constraints.items():
        constraint(name, values[name])
