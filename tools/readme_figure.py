"""Draw the pictures of the README and of the start page from the records of Table 1: python tools/readme_figure.py.

The numbers are also in the text of the PNG files, where tests/repository/test_docs.py compares them with the records.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from results_doc import kept_records

FOLDER = Path(__file__).parent.parent / "docs" / "images"
PICTURES = {"errors.png": ("#111111", "#ffffff"), "errors-dark.png": ("#e8e8e8", "#131416")}
"""Ink and paper."""
SETS = {
    "german credit": "german-credit-numeric",
    "vehicle": "vehicle",
    "isolet": "isolet",
    "mnist-4000": "mnist-4000",
    "letters": "letters",
    "image-segment": "image-segment",
    "breast cancer": "breast-cancer",
}


def errors_of(method: str) -> dict[str, dict[int, float]]:
    """Return the errors of a method by set and split."""
    found: dict[str, dict[int, float]] = {}
    for task, record in kept_records().items():
        if task.experiment == "table1" and task.method == method:
            found.setdefault(task.dataset, {})[task.trial] = record.result["error"]
    return found


def percentages() -> dict[str, list[float]]:
    """Return the mean errors of both distances by name of the set, on the splits that both have."""
    plain, learned = errors_of("Euclidean"), errors_of("AMLCV")
    found = {}
    for name, dataset in SETS.items():
        both = sorted(plain[dataset].keys() & learned[dataset].keys())
        found[name] = [round(100 * float(np.mean([e[dataset][i] for i in both])), 1) for e in (plain, learned)]
    return found


def draw(name: str, errors: dict[str, list[float]]) -> None:
    """Draw the errors of both distances, in the colours of one picture."""
    ink, paper = PICTURES[name]
    settings = {"font.size": 13, "text.color": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink}
    with plt.rc_context(settings):
        figure, ax = plt.subplots(figsize=(5.6, 3.7), layout="constrained", facecolor=paper)
        ax.set(facecolor=paper, xlabel="5-NN error on unseen points, %", xlim=(0, 40), yticks=range(len(errors)))
        ax.set_yticklabels(errors)
        for place, (before, after) in enumerate(errors.values()):
            ax.plot([before, after], [place, place], color="#888888", lw=2, zorder=1)
            ax.scatter(before, place, s=110, facecolor=paper, edgecolor="#888888", lw=2, label="Euclidean distance")
            ax.scatter(after, place, s=60, color="#d55e00", label="distance chosen by AMLCV")
            ax.text(max(before, after) + 1.3, place, f"{before:.1f} → {after:.1f}", va="center", fontsize=11)
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        ax.spines["bottom"].set_color(ink)
        ax.tick_params(length=0)
        ax.invert_yaxis()
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(handles[:2], labels[:2], loc="outside upper center", ncols=2, frameon=False, fontsize=11)
        figure.savefig(FOLDER / name, dpi=130, metadata={"Description": json.dumps(errors)})
        plt.close(figure)


if __name__ == "__main__":
    for picture in PICTURES:
        draw(picture, percentages())
