"""``python -m advmetric.experiments``: compare the methods on the bundled data and write a report."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from joblib import Parallel, delayed

from ..datasets import list_datasets
from ..progress import progress
from ..registry import methods
from .protocol import run
from .report import write_report

QUICK = {"max_rows": 1000, "max_pairs": 5000}
"""What --quick cuts the work down to."""


def main(arguments: list[str] | None = None) -> None:
    known = {method.name: method for method in methods()}
    bundled = [record.name for record in list_datasets() if record.bundled]
    parser = argparse.ArgumentParser(prog="python -m advmetric.experiments", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows and pairs a set: a few minutes")
    parser.add_argument("--datasets", nargs="+", choices=bundled, default=bundled, metavar="NAME")
    parser.add_argument("--methods", nargs="+", choices=list(known), default=list(known), metavar="NAME")
    parser.add_argument("--trials", type=int, default=5, help="random 80/20 splits (default 5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for report.html and results.csv")
    chosen = parser.parse_args(arguments)
    tasks = [(d, m, t) for d in chosen.datasets for t in range(chosen.trials) for m in chosen.methods]
    found = Parallel(n_jobs=chosen.jobs, return_as="generator_unordered")(
        delayed(run)(dataset, known[name], trial, seed=chosen.seed, **(QUICK if chosen.quick else {}))
        for dataset, name, trial in tasks
    )
    runs = sorted(progress(found, len(tasks), "runs"), key=lambda r: tasks.index((r.dataset, r.method, r.trial)))
    command = "python -m advmetric.experiments" + (" --quick" if chosen.quick else "") + f" --trials {chosen.trials}"
    limits = f"Quick mode: at most {QUICK['max_rows']} rows a set (stratified) and {QUICK['max_pairs']} drawn pairs."
    page = write_report(
        runs, chosen.out, command=f"{command} --seed {chosen.seed}", note=limits if chosen.quick else ""
    )
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
