"""Ablations: which adversary, which solver, how many pairs, how much label noise, how robust."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ..aml import AML, AMLCV
from ..baselines.gmml import GMML
from ..supervision import RandomPairs
from .protocol import PROFILES, Plan, Split, contenders, knn_error, made, split_of, tuned
from .robustness import robustness_curve
from .store import Task

__all__ = ["EXPERIMENTS"]

SMALL_SETS = ("breast-cancer", "vehicle", "german-credit", "image-segment")
ALPHAS, BETAS = (0.1, 1.0, 10.0, 100.0), (0.01, 0.1, 1.0)

# --- the adversary as derived, as printed, and gone ----------------------------------------------------------

ADVERSARIES: dict[str, Callable[[], Any]] = {
    "none (GMML)": GMML,
    "derived": AML,
    "printed": lambda: AML(adversary="printed"),
    "expanding": lambda: AML(adversary="expanding"),
}


def adversary_tasks(plan: Plan) -> list[Task]:
    return plan.tasks("adversary", SMALL_SETS, list(ADVERSARIES), trials=10)


def run_adversary(task: Task) -> dict[str, Any]:
    """Error at the paper's t = 1/2, alpha = beta = 1."""
    parts = split_of(task)
    return {"error": knn_error(ADVERSARIES[task.method]().fit(parts.X_train, parts.y_train), parts)}


# --- the solvers ---------------------------------------------------------------------------------------------

SOLVERS = ("geodesic", "projected-gradient", "alternating")


def solver_tasks(plan: Plan) -> list[Task]:
    return plan.tasks("solvers", ("vehicle",), SOLVERS, trials=5)


def run_solver(task: Task) -> dict[str, Any]:
    """Error, objective, iterations and time of one solver on the same problem."""
    parts = split_of(task)
    learner = AML(solver=task.method, pairs=2000, random_state=task.trial)
    started = time.perf_counter()
    learner.fit(parts.X_train, parts.y_train)
    seconds = time.perf_counter() - started
    return {
        "error": knn_error(learner, parts),
        "objective": float(learner.objective_[-1]),
        "n_iter": int(learner.n_iter_),
        "converged": bool(learner.converged_),
        "fit_seconds": seconds,
    }


# --- few pairs, noisy pairs ----------------------------------------------------------------------------------

FEW = (1000, 40, 10, 3)
NOISE = (0.0, 0.05, 0.1, 0.2)
METHODS = ("GMML", "AML")


def few_tasks(plan: Plan) -> list[Task]:
    return plan.tasks("few-pairs", ("vehicle", "image-segment"), [f"{m} {k}" for k in FEW for m in METHODS], trials=10)


def noise_tasks(plan: Plan) -> list[Task]:
    names = [f"{m} {100 * share:g} %" for share in NOISE for m in METHODS]
    return plan.tasks("noise", ("vehicle", "image-segment"), names, trials=10)


def run_few(task: Task) -> dict[str, Any]:
    """Error when each class pair has only so many training pairs; t = 1/2, AML's alpha and beta by cross-validation."""
    name, count = task.method.split(" ")
    return _from_pairs(task, name, int(count), 0.0)


def run_noise(task: Task) -> dict[str, Any]:
    """Error when a share of 40 c (c - 1) training pairs has the wrong label."""
    name, share, _ = task.method.split(" ")
    return _from_pairs(task, name, 40, float(share) / 100.0)


def _from_pairs(task: Task, name: str, per_class_pair: int, flipped: float) -> dict[str, Any]:
    parts = split_of(task)
    c = parts.n_classes
    pairs = RandomPairs(per_class_pair * c * (c - 1)).sample(parts.X_train, parts.y_train, task.trial)
    index, labels = np.column_stack([pairs.left, pairs.right]), pairs.labels.copy()
    rng = np.random.default_rng([task.seed, task.trial, 5])
    wrong = rng.permutation(len(labels))[: round(flipped * len(labels))]
    labels[wrong] *= -1
    learner: Any = GMML(preprocessor=parts.X_train)
    params: dict[str, Any] = {}
    if name == "AML":
        cv = StratifiedKFold(3, shuffle=True, random_state=task.trial)
        learner = AMLCV(alphas=ALPHAS, betas=BETAS, ts=(0.5,), cv=cv, preprocessor=parts.X_train)
    learner.fit(index, labels)
    if name == "AML":
        params = {key: learner.best_params_[key] for key in ("alpha", "beta")}
    return {"error": knn_error(learner, parts), "params": params}


# --- robustness ----------------------------------------------------------------------------------------------

EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)


def _family() -> dict[str, Callable[[], Any]]:
    """AML over adversary, alpha, beta and t; GMML over t and the strength of its prior."""
    found: dict[str, Callable[[], Any]] = {}

    def add(name: str, make: Callable[..., Any], **params: Any) -> None:
        found[f"{name} " + " ".join(f"{key}={value:g}" for key, value in params.items())] = lambda: make(**params)

    for t in (0.1, 0.25, 0.5):
        for reg in (1e-3, 1e-1, 1.0):
            add("GMML", GMML, t=t, reg=reg)
        for adversary in ("derived", "printed", "expanding"):
            for alpha in (1.0, 100.0):
                for beta in (0.1, 1.0):
                    add(
                        f"AML-{adversary}",
                        lambda adversary=adversary, **params: AML(adversary=adversary, **params),
                        t=t,
                        alpha=alpha,
                        beta=beta,
                    )
    return found


FAMILY = _family()


def robustness_tasks(plan: Plan) -> list[Task]:
    others = [name for name in (plan.methods or contenders()) if name not in ("AML", "GMML")]
    return plan.tasks("robustness", ("vehicle",), [*FAMILY, *others], trials=5)


def run_robustness(task: Task) -> dict[str, Any]:
    """Errors and pair AUC when every test point may move by up to eps standard deviations."""
    parts = split_of(task)
    learner = _robustness_learner(task, parts)
    pairs = RandomPairs(1000).sample(parts.X_test, parts.y_test, task.trial)
    curve = robustness_curve(
        learner.components_,
        parts.X_train,
        parts.y_train,
        parts.X_test,
        parts.y_test,
        EPSILONS,
        parts.X_test[pairs.left] - parts.X_test[pairs.right],
        pairs.labels,
    )
    return {
        "error": knn_error(learner, parts),
        "attacked_error": curve.attacked_error.tolist(),
        "uncertified": curve.uncertified.tolist(),
        "worst_auc": curve.pair_auc.tolist(),
    }


def _robustness_learner(task: Task, parts: Split) -> Any:
    if task.method in FAMILY:
        return FAMILY[task.method]().fit(parts.X_train, parts.y_train)
    profile, method = PROFILES[task.profile], contenders()[task.method]
    if not method.grid:
        return made(method, {}, pairs=profile.max_pairs, random_state=task.trial).fit(parts.X_train, parts.y_train)
    learner, _ = tuned(
        method,
        parts.X_train,
        parts.y_train,
        pairs=profile.max_pairs,
        tune_rows=profile.tune_rows,
        tune_pairs=profile.tune_pairs,
        thin=profile.thin,
        random_state=task.trial,
    )
    return learner


EXPERIMENTS = {
    "adversary": (adversary_tasks, run_adversary),
    "solvers": (solver_tasks, run_solver),
    "few-pairs": (few_tasks, run_few),
    "noise": (noise_tasks, run_noise),
    "robustness": (robustness_tasks, run_robustness),
}
