"""Deep AML beside the losses of pytorch-metric-learning on digits-unseen: one JSON line for each method and seed.

Seed s uses fold s mod 5, whose two digits no training sees; settings are chosen on two of the other eight.

Run: python benchmarks/deep/unseen.py --seeds 0 1 --steps 100 > digits-unseen.jsonl
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch

from advmetric.datasets.verification.unseen import load_digits
from advmetric.deep.comparison import CONTENDERS, Budget, as_rows, compare


def main() -> None:
    """Print results as they come."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--methods", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    data = load_digits(None)
    for seed in chosen.seeds:
        classes = np.unique(data.identities[data.pairs[data.folds == seed % 5]])
        for name in chosen.methods:
            started = time.process_time()
            budget = Budget(steps=chosen.steps)
            (row,) = as_rows(compare(data.X, data.identities, classes, contenders=[name], budget=budget, seed=seed))
            seconds = round(time.process_time() - started, 1)
            print(json.dumps({**row, "test_classes": classes.tolist(), "cpu_seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
