"""What the adversary does to the spectrum of the metric and to pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advmetric.algorithms.aml import AML
from advmetric.algorithms.gmml import GMML
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import split
from advmetric.experiments.report.content import Drawing, Paragraph
from advmetric.experiments.report.drawing import subplots
from advmetric.pairs.data import Pairs
from advmetric.pairs.samplers import BalancedPairs
from advmetric.plots import plot_adversarial_pairs, plot_spectrum
from advmetric.utils.typing import Matrix

from .synthetic import leading_plane

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

LEARNERS: dict[str, Callable[[], Any]] = {
    "GMML": GMML,
    "AML, alpha = 1": AML,
    "AML, alpha = 100": lambda: AML(alpha=100.0),
}


def tasks(plan: Plan) -> list[Task]:
    """Return a task per learner: one trial shows it."""
    return plan.tasks("mechanism", ["vehicle"], list(LEARNERS), trials=1)


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Return the spectrum of the metric and, for AML, some pairs and their adversarial ones in the leading plane."""
    parts = split(task.dataset, task.trial, seed=task.seed, max_rows=2000, data_home=data_home)
    learner = LEARNERS[task.method]().fit(parts.X_train, parts.y_train)
    found: dict[str, Any] = {"spectrum": (np.linalg.svd(learner.components_, compute_uv=False) ** 2).tolist()}
    if isinstance(learner, AML):
        pairs = BalancedPairs(24).sample(parts.X_train, parts.y_train, 0)
        plane = leading_plane(parts.X_train)
        found["pairs"] = np.round(parts.X_train[pairs.indices] @ plane.T, 4).tolist()
        moved: Matrix = learner.adversarial_pairs(pairs, pairs.labels) @ plane.T
        found["adversarial"] = np.round(moved, 4).tolist()
        found["labels"] = pairs.labels.tolist()
    return found


def section(records: Sequence[Record]) -> Section:
    """Return the figure."""
    results = {r.task.method: r.result for r in records}
    return Section(
        "What the metric does",
        [
            Paragraph(
                "AML flattens the top of GMML's spectrum. The paper's adversary pulls both kinds of pairs together; "
                "docs/paper-notes.md, erratum 4, explains why that differs from the paper's Fig. 2."
            ),
            Drawing(
                lambda: _figure(results),
                "Vehicle. Left: eigenvalues. Right: real pairs (lines), adversarial (crosses).",
            ),
        ],
    )


def _figure(results: dict[str, dict[str, Any]]) -> Figure:
    figure, axes = subplots(2, 2, (4.4, 3.4))
    spectra = {name: np.array(found["spectrum"]) for name, found in results.items()}
    plot_spectrum(spectra, ax=axes[0], title="spectrum of M")
    for found in results.values():
        if "pairs" in found:
            pairs = Pairs.formed(np.array(found["pairs"]), np.array(found["labels"]))
            plot_adversarial_pairs(pairs, np.array(found["adversarial"]), np.eye(2), ax=axes[1], title="pairs")
            break
    return figure


STUDY = Study("mechanism", "synthetic", tasks, run, section)
