"""Write docs/results.md from results folders: the summary of what was measured, with commit and command.

    python tools/results_doc.py FOLDER [FOLDER ...] --commit HASH

Folders are those of `advmetric reproduce`; their results are put together. Sections that they have nothing for stay as
they are, each with the commit that it was measured at.
"""

from __future__ import annotations

import argparse
import platform
import re
from pathlib import Path

import numpy as np

from advmetric.experiments import ablation, synthetic
from advmetric.experiments.figures import matrix
from advmetric.experiments.store import Record, Store
from advmetric.experiments.tables import LEVEL, Table1, verification_sentences

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Results

Measured with the full profile (`advmetric reproduce --data-home DIR`, seed 0) on two shared cores, one BLAS thread a
process. Written by tools/results_doc.py; the report of `make reproduce` shows the same in quick form. ERML and DRIFT
are reconstructions from abstracts; sets with over 100 features are reduced to 50 principal components.
"""
ORDER = (
    "Table 1",
    "Verification",
    "Synthetic",
    "Sensitivity",
    "Fewer pairs",
    "Wrong labels",
    "Adversaries",
    "Robustness",
)
"""How the titles of the sections begin."""


def plus_minus(values: np.ndarray, digits: int = 3) -> str:
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if len(values) else "–"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


def rows(head: list[str], body: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table1(records: list[Record]) -> str:
    table = Table1(tuple(records))
    body = []
    for m in table.methods:
        cells = [m]
        for d in table.datasets:
            text, paper = plus_minus(table.values(d, m)), table.in_paper(d, m)
            if len(table.values(d, m)) and m == table.best(d):
                text = f"**{text}**"
            if len(table.values(d, m)) and table.p_values[d, m] < LEVEL:
                text += " †"
            cells.append(text + (f" ({paper[0]:.3f})" if paper else ""))
        names, ranks, _ = table.ranked
        body.append([*cells, f"{ranks[names.index(m)]:.1f}" if m in names else ""])
    trials = ", ".join(f"{d} {len(table.trials(d))}" for d in table.datasets)
    sentences = "\n".join(f"* {line}" for line in table.sentences())
    departures = "\n".join(f"* {line}" for line in table.departures())
    seconds = sum(record.seconds for record in records)
    return f"""## Table 1: 5-NN error

Mean ± sd over random 80/20 splits (number of splits: {trials}); the paper's mean in brackets.
Bold: lowest; †: significantly above it (paired Wilcoxon, Holm, 5 %). These runs took
{seconds / 3600:.1f} hours of one core.

{rows(["method", *table.datasets, "rank"], body)}

{sentences}

Where our means are not the paper's, beyond two of the larger standard deviations (ours minus the paper's):

{departures or "* nowhere"}
"""


def verification(records: list[Record]) -> str:
    parts = []
    for dataset in dict.fromkeys(r.task.dataset for r in records):
        here = [r for r in records if r.task.dataset == dataset]
        done = [{r.task.trial for r in here if r.task.method == m} for m in {r.task.method for r in here}]
        here = [r for r in here if r.task.trial in set.intersection(*done)]
        names = sorted({r.task.method for r in here}, key=lambda m: -matrix(here, "auc", method=m).mean())
        folds = len({r.task.trial for r in here})
        body = [
            [m, *(plus_minus(matrix(here, k, method=m)) for k in ("auc", "eer", "accuracy", "fpr95"))] for m in names
        ]
        parts.append(
            f"### {dataset} ({folds} folds)\n\n"
            + rows(["method", "AUC", "EER", "accuracy", "FPR at 95 %"], body)
            + "\n"
        )
    sentences = "\n".join(f"* {line}" for line in verification_sentences(records))
    seconds = sum(record.seconds for record in records)
    return f"""## Verification

Mean ± sd over test folds. The times of these runs, on shared cores, add up to {seconds / 3600:.1f} hours.

{sentences}

""" + "\n".join(parts)


def frontier(records: list[Record], place: int) -> list[str]:
    """Settings of each kind that no other of the kind beats in both errors, and all other methods, by clean error."""
    names = {r.task.method for r in records}
    clean = {m: matrix(records, "error", method=m).mean() for m in names}
    attacked = {m: matrix(records, "attacked_error", method=m)[:, place].mean() for m in names}

    def beaten(name: str) -> bool:
        kind = name.split(" ")[0]
        return name in ablation.FAMILY and any(
            other != name
            and other.split(" ")[0] == kind
            and clean[other] <= clean[name]
            and attacked[other] <= attacked[name]
            for other in names
        )

    return sorted((name for name in names if not beaten(name)), key=lambda m: clean[m])


def others(by_name: dict[str, list[Record]]) -> str:
    parts = []
    if "synthetic" in by_name:
        records = by_name["synthetic"]
        body = [[m, *(plus_minus(matrix(records, k, method=m)) for k in ("error", "auc"))] for m in synthetic.LEARNERS]
        parts.append("## Synthetic (Fig. 3)\n\n" + rows(["", "5-NN error", "pair AUC"], body) + "\n")
    if "sensitivity" in by_name:
        records = by_name["sensitivity"]
        body = []
        for p in ("alpha", "beta"):
            values, test = matrix(records, "values", method=p)[0], matrix(records, "test", method=p)
            body += [[f"{p} = {v:g}", plus_minus(test[:, i], 4)] for i, v in enumerate(values) if i % 2 == 0]
        parts.append("## Sensitivity on MNIST (Fig. 5), test error\n\n" + rows(["", "5-NN error"], body) + "\n")
    for name, steps in (("few-pairs", ablation.FEW), ("noise", [f"{100 * s:g} %" for s in ablation.NOISE])):
        if name in by_name:
            records = by_name[name]
            datasets = sorted({r.task.dataset for r in records})
            body = [
                [
                    f"{d}, {s}",
                    *(plus_minus(matrix(records, "error", dataset=d, method=f"{m} {s}")) for m in ("GMML", "AML")),
                ]
                for d in datasets
                for s in steps
            ]
            title = "Fewer pairs (times c(c − 1))" if name == "few-pairs" else "Wrong labels"
            parts.append(f"## {title}\n\n" + rows(["", "GMML", "AML"], body) + "\n")
    if "adversary" in by_name:
        records = by_name["adversary"]
        datasets = sorted({r.task.dataset for r in records})
        body = [
            [m, *(plus_minus(matrix(records, "error", dataset=d, method=m), 4) for d in datasets)]
            for m in ablation.ADVERSARIES
        ]
        parts.append("## Adversaries (t = 1/2, alpha = beta = 1), 5-NN error\n\n" + rows(["", *datasets], body) + "\n")
    if "robustness" in by_name:
        records = by_name["robustness"]
        place = ablation.EPSILONS.index(0.2)
        names = frontier(records, place)
        body = [
            [
                m,
                plus_minus(matrix(records, "error", method=m)),
                *(
                    plus_minus(matrix(records, k, method=m)[:, place])
                    for k in ("attacked_error", "uncertified", "worst_auc")
                ),
            ]
            for m in names
        ]
        head = ["metric", "clean error", "attacked", "not certified", "worst-case AUC"]
        parts.append(
            "## Robustness on vehicle, eps = 0.2\n\nOf GMML (over t and prior) and of AML with each adversary (over "
            "alpha, beta and t) those settings that no other of the same kind beats in both clean and attacked error; "
            "the other methods tuned for clean error.\n\n" + rows(head, body) + "\n"
        )
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--commit", required=True)
    options = parser.parse_args()
    by_name: dict[str, list[Record]] = {}
    for folder in options.folders:
        for record in Store(folder).records().values():
            if not record.failure and record.task.profile == "full":
                by_name.setdefault(record.task.experiment, []).append(record)
    found = ""
    if "table1" in by_name:
        found += table1(by_name["table1"]) + "\n"
    if "verification" in by_name:
        found += verification(by_name["verification"]) + "\n"
    found += others(by_name)
    target = ROOT / "docs" / "results.md"
    written = sections(target.read_text(encoding="utf-8")) if target.exists() else {}
    measured = f"*Measured at commit {options.commit}, Python {platform.python_version()}.*"
    for title, body in sections(found).items():
        written[title] = f"{measured}\n\n{body.strip()}"
    text = HEAD + "".join(f"\n## {title}\n\n{written[title].strip()}\n" for title in sorted(written, key=place))
    target.write_text(text, encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """What stands under each heading of the second level."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def place(title: str) -> int:
    """Where a section stands in the page."""
    return next(i for i, start in enumerate(ORDER) if title.startswith(start))


if __name__ == "__main__":
    main()
