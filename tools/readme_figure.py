"""Draw the pictures of the README and of the start page from the records of Table 1: python tools/readme_figure.py."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from results_doc import kept_records

FOLDER = Path(__file__).parent.parent / "docs" / "images"
SETS = {
    "german credit": "german-credit-numeric",
    "vehicle": "vehicle",
    "isolet": "isolet/all",
    "mnist-4000": "mnist-4000",
    "letters": "letters",
    "image-segment": "image-segment",
    "breast cancer": "breast-cancer",
}


def mean_errors(method: str) -> dict[str, dict[int, float]]:
    """Return the errors of a method by set and split."""
    found: dict[str, dict[int, float]] = {}
    for task, record in kept_records().items():
        if task.experiment == "table1" and task.method == method:
            found.setdefault(task.dataset, {})[task.trial] = record.result["error"]
    return found


def draw(name: str, ink: str, paper: str) -> None:
    """Draw the mean errors on the splits that both distances have."""
    plain, learned = mean_errors("Euclidean"), mean_errors("AMLCV")
    settings = {"font.size": 13, "text.color": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink}
    with plt.rc_context(settings):
        figure, ax = plt.subplots(figsize=(5.6, 3.7), layout="constrained", facecolor=paper)
        ax.set(facecolor=paper, xlabel="5-NN error on unseen points, %", xlim=(0, 38), yticks=range(len(SETS)))
        ax.set_yticklabels(SETS)
        for place, dataset in enumerate(SETS.values()):
            both = sorted(plain[dataset].keys() & learned[dataset].keys())
            before, after = (100 * np.mean([errors[dataset][i] for i in both]) for errors in (plain, learned))
            ax.plot([before, after], [place, place], color="#888888", lw=2, zorder=1)
            ax.scatter(before, place, s=60, facecolor=paper, edgecolor="#888888", lw=2, label="Euclidean distance")
            ax.scatter(after, place, s=70, color="#d55e00", label="distance chosen by AMLCV")
            ax.text(max(before, after) + 1.0, place, f"{before:.1f} → {after:.1f}", va="center", fontsize=11)
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        ax.spines["bottom"].set_color(ink)
        ax.tick_params(length=0)
        ax.invert_yaxis()
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(handles[:2], labels[:2], loc="outside upper center", ncols=2, frameon=False, fontsize=11)
        figure.savefig(FOLDER / name, dpi=130)
        plt.close(figure)


if __name__ == "__main__":
    draw("errors.png", "#111111", "#ffffff")
    draw("errors-dark.png", "#e8e8e8", "#131416")
