"""Methods compared on sets over paired trials: numbers, significance, CSV, LaTeX and sentences."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from advmetric.evaluation.significance import (
    average_ranks,
    critical_difference,
    holm,
    p_values_against_best,
    paired_p_value,
    spread,
)
from advmetric.experiments.engine.store import Record

from .paper import DATASET_IN_PAPER, TABLE_1

__all__ = ["ENOUGH", "LEVEL", "Comparison"]

LEVEL = 0.05
ENOUGH = 6
"""With fewer splits no difference, however large, is significant by Wilcoxon's test at 5 %."""


def _listed(names: Iterable[str], order: Iterable[str]) -> list[str]:
    """Names in the given order, unknown ones last."""
    places = {name: place for place, name in enumerate(order)}
    return sorted(set(names), key=lambda name: (places.get(name, len(places)), name))


@dataclass(frozen=True)
class Comparison:
    """The errors of all methods on all sets.

    Parameters
    ----------
    records : tuple of Record
    set_order, method_order : tuples of str
        Order of columns and rows; others come last.
    """

    records: tuple[Record, ...]
    set_order: tuple[str, ...] = ()
    method_order: tuple[str, ...] = ()

    @cached_property
    def datasets(self) -> list[str]:
        """Return the sets, in order."""
        return _listed((record.task.dataset for record in self.records), self.set_order)

    @cached_property
    def methods(self) -> list[str]:
        """Return the methods, in order."""
        return _listed((record.task.method for record in self.records), self.method_order)

    @cached_property
    def _by_trial(self) -> dict[tuple[str, str], dict[int, Record]]:
        found: dict[tuple[str, str], dict[int, Record]] = {}
        for record in self.records:
            if not record.failure:
                key = (record.task.dataset, record.task.method)
                found.setdefault(key, {})[record.task.trial] = record
        return found

    def trials(self, dataset: str) -> list[int]:
        """Trials that every method which finished any has finished: comparisons are paired."""
        done = [set(self._by_trial[dataset, m]) for m in self.methods if (dataset, m) in self._by_trial]
        return sorted(set.intersection(*done)) if done else []

    def values(self, dataset: str, method: str, key: str = "error") -> NDArray[np.float64]:
        """One number a paired trial; empty where the method failed."""
        found = self._by_trial.get((dataset, method), {})
        return np.array([found[trial].result[key] for trial in self.trials(dataset) if trial in found], dtype=float)

    def mean(self, dataset: str, method: str) -> float:
        """Return the mean error, rounded so that equal means compare as equal; NaN where there is none."""
        values = self.values(dataset, method)
        return round(float(values.mean()), 12) if len(values) else float("nan")

    def spread(self, dataset: str, method: str) -> float:
        values = self.values(dataset, method)
        return float(spread(values)) if len(values) else 0.0

    @cached_property
    def p_values(self) -> dict[tuple[str, str], float]:
        """Holm-adjusted, against the best on each set."""
        found = {}
        for dataset in self.datasets:
            errors = {m: self.values(dataset, m) for m in self.methods if len(self.values(dataset, m))}
            if errors:
                found.update({(dataset, m): p for m, p in p_values_against_best(errors).items()})
        return found

    def best(self, dataset: str) -> list[str]:
        """Return the methods with the lowest mean error: one, or several that are equal."""
        means = {m: self.mean(dataset, m) for m in self.methods if len(self.values(dataset, m))}
        return [m for m, mean in means.items() if mean == min(means.values())]

    @cached_property
    def rankable(self) -> list[str]:
        """Methods with results on every set that most methods have results on."""
        present = [m for m in self.methods if any(method == m for _, method in self._by_trial)]
        by_set = [{m for m in present if len(self.values(d, m))} for d in self.datasets]
        common = [found for found in by_set if 2 * len(found) > len(present)]
        return [m for m in present if all(m in found for found in common)]

    @cached_property
    def complete(self) -> list[str]:
        """Sets on which all rankable methods have results."""
        return [d for d in self.datasets if self.rankable and all(len(self.values(d, m)) for m in self.rankable)]

    @cached_property
    def ranked(self) -> tuple[list[str], NDArray[np.float64], float]:
        """Rankable methods, their average ranks over the complete sets, and the critical difference."""
        names = self.rankable
        if not self.complete or len(names) < 2:
            return [], np.empty(0), float("nan")
        means = np.array([[self.mean(d, m) for m in names] for d in self.complete])
        return names, average_ranks(means), critical_difference(len(names), len(self.complete))

    def chosen(self, dataset: str, method: str) -> str:
        """The parameters chosen most often."""
        found = self._by_trial.get((dataset, method), {})
        counts = Counter(
            " ".join(f"{k}={v}" for k, v in found[t].result["params"].items())
            for t in self.trials(dataset)
            if t in found
        )
        if not counts or not counts.most_common(1)[0][0]:
            return "–"
        choice, count = counts.most_common(1)[0]
        return f"{choice} ({count})"

    def in_paper(self, dataset: str, method: str) -> tuple[float, float] | None:
        return TABLE_1.get((DATASET_IN_PAPER.get(dataset, ""), method))

    # --- as text ------------------------------------------------------------------------------------------

    def csv(self) -> str:
        """Return one line per set and method."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["dataset", "method", "trials", "mean", "sd", "p_holm", "paper_mean", "paper_sd", "chosen"])
        for d in self.datasets:
            for m in self.methods:
                values, paper = self.values(d, m), self.in_paper(d, m) or ("", "")
                numbers = [
                    f"{self.mean(d, m):.6f}",
                    f"{self.spread(d, m):.6f}",
                    f"{self.p_values.get((d, m), 1.0):.4g}",
                ]
                writer.writerow(
                    [
                        _csv(d),
                        _csv(m),
                        len(values),
                        *(numbers if len(values) else ["", "", ""]),
                        *paper,
                        _csv(self.chosen(d, m)),
                    ]
                )
        return out.getvalue()

    def tex(self) -> str:
        """A booktabs table: best in bold, a dagger where the difference to the best is significant."""
        head = " & ".join(["Method", *map(_tex, self.datasets)])
        lines = [f"\\begin{{tabular}}{{l{'c' * len(self.datasets)}}}", "\\toprule", head + " \\\\", "\\midrule"]
        for m in self.methods:
            cells = []
            for d in self.datasets:
                if not len(self.values(d, m)):
                    cells.append("--")
                    continue
                cell = f"{self.mean(d, m):.3f} \\pm {self.spread(d, m):.3f}".replace("0.", ".")
                cell = f"\\mathbf{{{cell}}}" if m in self.best(d) else cell
                mark = "^{\\dagger}" if self.p_values[d, m] < LEVEL else ""
                cells.append(f"${cell}{mark}$")
            lines.append(" & ".join([_tex(m), *cells]) + " \\\\")
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"

    def headline(self) -> str:
        """The answer in one sentence: what learning is worth, by the errors averaged over the complete sets."""
        names, ranks, _ = self.ranked
        if not {"AML", "Euclidean"} <= set(names):
            return ""
        errors = {m: float(np.mean([self.mean(d, m) for d in self.complete])) for m in names}
        best = min(zip(ranks, errors.values(), names, strict=True))[2]
        lowest, plain = min(names, key=lambda m: (errors[m], m != best)), errors["Euclidean"]
        sets = "one set" if len(self.complete) == 1 else f"{len(self.complete)} sets"
        others = "" if lowest == best else f", {100 * errors[lowest]:.1f} % with {lowest}, which errs least on average"
        others += "" if "AML" in (best, lowest) else f", {100 * errors['AML']:.1f} % with the paper's AML"
        if best == "Euclidean" or errors[best] >= plain:
            return (
                f"Learning the distance does not pay here: over {sets}, 5-NN errs in {100 * errors['AML']:.1f} % of "
                f"the cases with AML and in {100 * plain:.1f} % with the Euclidean distance."
            )
        pays = "pays" if all(len(self.trials(d)) >= ENOUGH for d in self.complete) else "seems to pay"
        return (
            f"Learning the distance {pays}: over {sets}, 5-NN errs in {100 * errors[best]:.1f} % of the cases with "
            f"{best}, the best by average rank{others}, and {100 * plain:.1f} % with the Euclidean distance."
        )

    def sentences(self) -> list[str]:
        """The answer in words: who wins where, by how much, is it significant."""
        names, ranks, difference = self.ranked
        if not names:
            return ["No set has results of all methods yet."]
        found = []
        order = [names[i] for i in np.argsort(ranks, kind="stable")]
        best = ", ".join(f"{name} ({ranks[names.index(name)]:.1f})" for name in order[:3])
        found.append(
            f"By average rank over {len(self.complete)} sets the best are {best}; ranks closer than "
            f"{difference:.1f} cannot be told apart (Nemenyi, 5 %)."
        )
        if "AML" in names:
            first = [d for d in self.complete if "AML" in self.best(d)]
            equals = {d: [m for m in self.best(d) if m != "AML"] for d in first}
            won = [f"{d}, equal with {' and '.join(same)}" if same else d for d, same in equals.items()]
            few = [d for d in self.complete if d not in first and len(self.trials(d)) < ENOUGH]
            told = [d for d in self.complete if d not in first and d not in few]
            close = [d for d in told if self.p_values[d, "AML"] >= LEVEL]
            worse = [f"{d} ({self.best(d)[0]})" for d in told if d not in close]
            found.append(
                f"AML has the lowest mean error on {len(first)} of {len(self.complete)} sets"
                + (f" ({'; '.join(won)})" if won else "")
                + (f"; not significantly above the lowest on {', '.join(close)}" if close else "")
                + (f"; significantly above it on {', '.join(worse)}" if worse else "")
                + (f"; too few splits to tell on {', '.join(few)}" if few else "")
                + "."
            )
        for rival in ("GMML", "Euclidean"):
            if {"AML", rival} <= set(names):
                found.append(self._duel(rival))
        return found

    def _duel(self, rival: str) -> str:
        """AML against one rival, set by set."""
        gaps = {d: self.values(d, "AML") - self.values(d, rival) for d in self.complete}
        means = [float(gap.mean()) for gap in gaps.values()]
        p_values = holm(np.array([paired_p_value(gap) for gap in gaps.values()]))
        lower = [d for d, mean, p in zip(gaps, means, p_values, strict=True) if p < LEVEL and mean < 0.0]
        higher = [d for d, mean, p in zip(gaps, means, p_values, strict=True) if p < LEVEL and mean > 0.0]
        return (
            f"AML against {rival}: {np.mean(means):+.4f} in error on average, from {min(means):+.4f} to "
            f"{max(means):+.4f}; significantly lower on {', '.join(lower) or 'none'}, significantly higher on "
            f"{', '.join(higher) or 'none'}."
        )

    def departures(self) -> list[str]:
        """Where our numbers are not the paper's, beyond two of the larger standard deviations."""
        found = []
        for d in (d for d in self.datasets if len(self.trials(d)) > 1):
            far = []
            for m in self.methods:
                paper = self.in_paper(d, m)
                if paper is None or not len(self.values(d, m)):
                    continue
                gap = self.mean(d, m) - paper[0]
                if abs(gap) > 2.0 * max(self.spread(d, m), paper[1]):
                    far.append(f"{m} {gap:+.3f}")
            if far:
                found.append(f"{d}: {', '.join(far)}")
        return found


def _tex(text: str) -> str:
    """Return text that LaTeX shows as it is."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in text)


def _csv(text: str) -> str:
    """Return text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in "=+-@\t\r" else text
