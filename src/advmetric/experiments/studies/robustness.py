"""Robustness: every test point may move by at most eps; errors under attack, certificates, worst-case pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advmetric.algorithms.aml import AML
from advmetric.algorithms.gmml import GMML
from advmetric.evaluation.robustness import robustness_curve
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import contenders, fit_tuned, knn_error, split_of
from advmetric.experiments.report.content import Drawing, Paragraph, Table, mean_and_sd, values_of
from advmetric.experiments.report.drawing import subplots
from advmetric.pairs.samplers import RandomPairs
from advmetric.plots.axes import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EPSILONS", "FAMILY", "STUDY"]

SHOWN = 0.2
"""The eps of tables and figures."""
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


def tasks(plan: Plan) -> list[Task]:
    """Return a task per setting or tuned method, and trial."""
    others = [name for name in (plan.methods or contenders()) if name not in ("AML", "GMML")]
    return plan.tasks("robustness", ("vehicle",), [*FAMILY, *others], trials=5)


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Return errors and pair AUC when every test point may move by up to eps standard deviations."""
    parts = split_of(task, data_home)
    if task.method in FAMILY:
        learner = FAMILY[task.method]().fit(parts.X_train, parts.y_train)
    else:
        learner, _ = fit_tuned(contenders()[task.method], parts, task)
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


def section(records: Sequence[Record]) -> Section:
    """Return a table of the settings that no other of their family beats, and a figure of all."""
    place = EPSILONS.index(SHOWN)
    rows = [
        [
            name,
            mean_and_sd(values_of(records, "error", method=name)),
            *(
                mean_and_sd(values_of(records, key, method=name)[:, place])
                for key in ("attacked_error", "uncertified", "worst_auc")
            ),
        ]
        for name in frontier(records, place)
    ]
    return Section(
        "Robustness on vehicle",
        [
            Paragraph(
                "Every test point may move by at most eps (Euclidean, in standard deviations). Pair AUC: the exact "
                "worst case of every pair. 5-NN: errors found by projected gradient (at least so many), and the share "
                "of points without a certificate (at most so many). Of GMML (over t and prior) and of AML with each "
                "adversary (over alpha, beta and t) those settings that no other of the same kind beats in both clean "
                f"and attacked error; the other methods tuned for clean error. eps = {SHOWN:g}."
            ),
            Table(["metric", "clean error", "attacked error", "not certified", "worst-case AUC"], rows),
            Drawing(
                lambda: _figure(records, place),
                "Each dot is a setting (mean over trials): AML over adversary, alpha, beta and t; GMML over t and "
                "prior; squares are the other methods, tuned for clean error.",
            ),
        ],
    )


def frontier(records: Sequence[Record], place: int) -> list[str]:
    """Return the settings of each kind that no other of the kind beats in both errors, and all other methods."""
    names = {r.task.method for r in records}
    clean = {m: values_of(records, "error", method=m).mean() for m in names}
    attacked = {m: values_of(records, "attacked_error", method=m)[:, place].mean() for m in names}

    def beaten(name: str) -> bool:
        kind = name.split(" ")[0]
        return name in FAMILY and any(
            other != name
            and other.split(" ")[0] == kind
            and clean[other] <= clean[name]
            and attacked[other] <= attacked[name]
            for other in names
        )

    return sorted((name for name in names if not beaten(name)), key=lambda m: (clean[m], m))


def _figure(records: Sequence[Record], place: int) -> Figure:
    """Return clean error against attacked error, and against worst-case AUC."""
    figure, axes = subplots(2, 2, (4.5, 3.6))
    kinds = ("GMML", "AML-derived", "AML-printed", "AML-expanding")
    for name in sorted({r.task.method for r in records}):
        kind = name.split(" ")[0]
        clean = values_of(records, "error", method=name).mean()
        attacked = values_of(records, "attacked_error", method=name)[:, place].mean()
        auc = values_of(records, "worst_auc", method=name)[:, place].mean()
        color = COLORS[kinds.index(kind)] if kind in kinds else "#999999"
        marker = "o" if kind in kinds else "s"
        for ax, value in ((axes[0], attacked), (axes[1], auc)):
            ax.scatter(clean, value, s=22, marker=marker, color=color, alpha=0.8, linewidths=0)
            if kind not in kinds:
                ax.annotate(name, (clean, value), fontsize=6, xytext=(3, 2), textcoords="offset points")
    for kind, color in zip(kinds, COLORS, strict=False):
        axes[0].scatter([], [], color=color, label=kind, s=22)
    axes[0].legend(frameon=False, fontsize="x-small")
    axes[0].set(xlabel="5-NN error, nothing moved", ylabel=f"5-NN error under attack, eps = {SHOWN:g}")
    axes[1].set(xlabel="5-NN error, nothing moved", ylabel=f"pair AUC, worst case, eps = {SHOWN:g}")
    return figure


STUDY = Study("robustness", "ablation", tasks, run, section)
