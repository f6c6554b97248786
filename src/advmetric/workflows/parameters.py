"""Methods by name, and their parameters from text."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from advmetric.algorithms.registry import SEARCH, Method, methods
from advmetric.learners.base import MetricLearner
from advmetric.utils.errors import UsageError
from advmetric.utils.suggestions import did_you_mean

__all__ = ["find_method", "make_learner", "parse_params"]

_NOT_FOR_USERS = ("preprocessor", "random_state", "verbose")
"""Parameters that workflows set themselves."""


def find_method(name: str) -> Method:
    """The method of that name, whatever the case."""
    known = {method.name.lower(): method for method in (*methods(), SEARCH)}
    if name.lower() not in known:
        names = [method.name for method in known.values()]
        raise UsageError(
            f"there is no method {name!r}.{did_you_mean(name, names)} Known: {', '.join(names)}", "--method"
        )
    return known[name.lower()]


def parse_params(method: Method, given: Sequence[str]) -> dict[str, Any]:
    """Parameters from NAME=VALUE; a value is read as Python's (1e-3, None, (5, 95)), else taken as text."""
    known = [name for name in method.estimator().get_params() if name not in _NOT_FOR_USERS]
    fixed: dict[str, Any] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            default = method.estimator().get_params().get(item) if item in known else None
            example = f"{item}={1 if default is None else default}" if item in known else "NAME=VALUE"
            why = f"{item} needs a value" if item in known else f"{item!r} is not NAME=VALUE"
            hint = "" if item in known else did_you_mean(item, known)
            raise UsageError(f"{why}: --param {example}.{hint}", "--param")
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(
                f"{method.name} has no parameter {name!r}.{did_you_mean(name, known)} ({takes})", "--param"
            )
        try:
            fixed[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            fixed[name] = text
    try:
        method.estimator(**fixed)._check_params()
    except (ValueError, TypeError) as error:
        raise UsageError(str(error), "--param") from None
    return fixed


def make_learner(method: Method, params: dict[str, Any], seed: int) -> MetricLearner:
    """Return the method's learner, not fitted yet."""
    learner = method.estimator(**params)
    if "random_state" in learner.get_params():
        learner.set_params(random_state=seed)
    return learner
