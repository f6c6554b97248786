"""A training step with AMLHead or AMLLoss against one with the contrastive loss of pytorch-metric-learning.

Same backbone, batch of 512, 128 dimensions, one thread. The steps take turns, so that what else the machine does counts
alike; ratios of medians. Bar: AMLHead and AMLLoss at most 1.3 times the contrastive loss.

Run: python benchmarks/deep/step.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from pytorch_metric_learning.losses import ContrastiveLoss
from torch import Tensor, nn

from advmetric.deep import AMLHead, AMLLoss
from advmetric.deep.backbones import small_cnn, small_mlp

BATCH, DIMENSIONS, PER_CLASS = 512, 128, 8
BAR, BOUND = 1.3, ("AMLHead", "AMLLoss")
BACKBONES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "small CNN, 28 x 28": (lambda: small_cnn((1, 28, 28), DIMENSIONS), (1, 28, 28)),
    "MLP, 784": (lambda: small_mlp((784,), DIMENSIONS), (784,)),
}
CRITERIA: dict[str, Callable[[], nn.Module]] = {
    "contrastive (PML)": ContrastiveLoss,
    "AMLHead": lambda: AMLHead(DIMENSIONS),
    "AMLHead, rank 32": lambda: AMLHead(DIMENSIONS, 32),
    "AMLHead, no adversary": lambda: AMLHead(DIMENSIONS, alpha=0.0),
    "AMLHead, softmax": lambda: AMLHead(DIMENSIONS, loss="softmax"),
    "AMLHead, margin": lambda: AMLHead(DIMENSIONS, loss="margin"),
    "AMLLoss": lambda: AMLLoss(DIMENSIONS),
}


def make_step(
    build: Callable[[], nn.Module], criterion: nn.Module, points: Tensor, labels: Tensor
) -> Callable[[], None]:
    """One step of AdamW on a network of its own, as a function without arguments."""
    torch.manual_seed(0)
    network = build()
    optimizer = torch.optim.AdamW([*network.parameters(), *criterion.parameters()], lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss = criterion(network(points), labels)
        loss.backward()
        optimizer.step()

    return step


def medians(steps: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each step over rounds in which they take turns; two untimed rounds come first."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 2):
        for name, step in steps.items():
            started = time.process_time()
            step()
            if number >= 2:
                times[name].append(time.process_time() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    """Print the table; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    labels = torch.arange(BATCH // PER_CLASS).repeat_interleave(PER_CLASS)
    missed = False
    for title, (build, shape) in BACKBONES.items():
        points = torch.randn(BATCH, *shape, generator=torch.Generator().manual_seed(0))
        steps = {name: make_step(build, make(), points, labels) for name, make in CRITERIA.items()}
        found = medians(steps, rounds)
        base = found["contrastive (PML)"]
        print(f"{title}: batch {BATCH}, {DIMENSIONS} dimensions, {PER_CLASS} of a class, 1 thread")
        for name, seconds in found.items():
            bar = f"   bar {BAR}" if name in BOUND else ""
            print(f"  {name:24s} {1e3 * seconds:8.1f} ms   {seconds / base:5.2f} x{bar}")
        missed |= any(found[name] > BAR * base for name in BOUND)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
