"""The training loop: AdamW along a cosine, early stopping, checkpoints that continue bit by bit."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .batches import Batch, Batches
from .checkpoint import prefixed, read_tensors, without_prefix, write_tensors

__all__ = ["Checkpoint", "Plan", "Progress", "one_thread", "seeded", "train"]

State = dict[str, Tensor]


@dataclass(frozen=True)
class Plan:
    """How to train.

    ``epochs`` have ``steps_per_epoch`` steps of AdamW each. The learning rate rises to ``lr`` over ``warmup`` steps and
    falls to 0 along a cosine. Weights of two or more dimensions decay, biases, normalisation and the modules named in
    ``no_decay`` do not; the latter have the learning rate ``lr * criterion_rate``. Gradients are clipped to the norm
    ``clip``. Training stops after ``patience`` epochs without a better score; None: never.
    """

    epochs: int
    steps_per_epoch: int
    lr: float
    weight_decay: float = 1e-4
    warmup: int = 20
    clip: float = 10.0
    patience: int | None = None
    no_decay: tuple[str, ...] = ("criterion",)
    criterion_rate: float = 1.0
    amp: bool = False

    def rate(self, step: int) -> float:
        """Learning rate of a step."""
        total = self.epochs * self.steps_per_epoch
        return self.lr * min(1.0, (step + 1) / max(1, self.warmup)) * 0.5 * (1.0 + math.cos(math.pi * step / total))


@dataclass
class Progress:
    """How far training is, and what was seen on the way."""

    step: int = 0
    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    sum_of_losses: float = 0.0
    best_epoch: int = -1
    finished: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save, and what the file must have been made from (``identity``)."""

    path: str | os.PathLike[str]
    every: int
    identity: str


def train(
    learner: nn.Module,
    step_loss: Callable[[Batch], Tensor],
    batches: Batches,
    plan: Plan,
    *,
    evaluate: Callable[[], float] | None = None,
    checkpoint: Checkpoint | None = None,
    bar: Callable[[range], Iterator[int]] = iter,
) -> Progress:
    """Train all parameters of ``learner``; at the end it has the weights of the best epoch.

    Parameters
    ----------
    learner : Module
        Network and criterion together: whatever has parameters.
    step_loss : callable
        The loss of a batch. Called under autocast if ``plan.amp``.
    batches : Batches
        Which batch a step gets; a function of the step.
    plan : Plan
    evaluate : callable, optional
        Score of the present weights on held-out data, greater is better; called after each epoch, in ``eval`` mode.
        None: the last weights are kept.
    checkpoint : Checkpoint, optional
        If the file exists, training continues from it.
    bar : callable
        Wraps the range of epochs, to show how far it is.

    Returns
    -------
    progress : Progress
        ``losses`` and ``scores`` by epoch.

    Notes
    -----
    On the CPU, with the same number of threads, a training that was killed and continued ends with the same bits as one
    that was not: the file has the weights, the best weights, the optimiser, torch's random state and the step, and the
    learning rate and the batch follow from the step. Call it inside :func:`seeded`.
    """
    optimizer = _optimizer(learner, plan)
    device = next(learner.parameters()).device
    low = torch.float16 if device.type == "cuda" and not torch.cuda.is_bf16_supported() else torch.bfloat16
    scaler = torch.amp.GradScaler(device.type, enabled=plan.amp and low is torch.float16)
    progress, best = Progress(), _copy(learner)
    if checkpoint is not None and Path(checkpoint.path).exists():
        progress, best = _resume(checkpoint, learner, optimizer, scaler, best)
    total = plan.epochs * plan.steps_per_epoch
    for epoch in bar(range(progress.step // plan.steps_per_epoch, plan.epochs)):
        if progress.finished:
            break
        learner.train()
        while progress.step < min(total, (epoch + 1) * plan.steps_per_epoch):
            for group in optimizer.param_groups:
                group["lr"] = plan.rate(progress.step) * group["factor"]
            with torch.autocast(device.type, dtype=low, enabled=plan.amp):
                loss = step_loss(batches.batch(progress.step))
            optimizer.zero_grad()
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(learner.parameters(), plan.clip)
            scaler.step(optimizer)
            scaler.update()
            value = float(loss.detach())
            if not math.isfinite(value):
                raise FloatingPointError(f"the loss of step {progress.step} is {value}; lower lr={plan.lr}.")
            progress.sum_of_losses += value
            progress.step += 1
            inside = progress.step % plan.steps_per_epoch
            if checkpoint is not None and inside and progress.step % checkpoint.every == 0:
                _save(checkpoint, progress, learner, best, optimizer, scaler)
        best = _end_epoch(progress, plan, learner, best, evaluate)
        if checkpoint is not None:
            _save(checkpoint, progress, learner, best, optimizer, scaler)
    learner.load_state_dict(best)
    learner.eval()
    return progress


def _end_epoch(
    progress: Progress, plan: Plan, learner: nn.Module, best: State, evaluate: Callable[[], float] | None
) -> State:
    """Record the epoch that ended, decide whether it was the last; the best weights so far."""
    progress.losses.append(progress.sum_of_losses / plan.steps_per_epoch)
    progress.sum_of_losses = 0.0
    epoch = len(progress.losses) - 1
    if evaluate is None:
        best, progress.best_epoch = _copy(learner), epoch
    else:
        learner.eval()
        progress.scores.append(evaluate())
        if progress.best_epoch < 0 or progress.scores[-1] > progress.scores[progress.best_epoch]:
            best, progress.best_epoch = _copy(learner), epoch
    waited = plan.patience is not None and epoch - progress.best_epoch >= plan.patience
    progress.finished = waited or epoch + 1 == plan.epochs
    return best


def _copy(learner: nn.Module) -> State:
    return {name: value.detach().clone() for name, value in learner.state_dict().items()}


def _optimizer(learner: nn.Module, plan: Plan) -> torch.optim.AdamW:
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in learner.named_parameters():
        if parameter.requires_grad:
            special = name.partition(".")[0] in plan.no_decay
            decay = 0.0 if special or parameter.ndim < 2 else plan.weight_decay
            groups.setdefault((decay, plan.criterion_rate if special else 1.0), []).append(parameter)
    return torch.optim.AdamW(
        [{"params": group, "weight_decay": decay, "factor": factor} for (decay, factor), group in groups.items()],
        lr=plan.lr,
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch with one thread inside: the bits of a result depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Torch seeded inside, and deterministic on the CPU; its global generators and settings as before afterwards."""
    before, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        else:
            torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warn)


# --- checkpoints --------------------------------------------------------------------------------------------


def _save(
    checkpoint: Checkpoint, progress: Progress, learner: nn.Module, best: State, optimizer: Any, scaler: Any
) -> None:
    state = optimizer.state_dict()["state"]
    tensors = {
        **prefixed("learner", learner.state_dict()),
        **prefixed("best", best),
        **{f"optimizer.{i}.{name}": value for i, slots in state.items() for name, value in slots.items()},
        "random.cpu": torch.get_rng_state(),
    }
    device = next(learner.parameters()).device
    if device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(device)
    facts = {"identity": checkpoint.identity, "progress": asdict(progress), "scaler": scaler.state_dict()}
    write_tensors(checkpoint.path, "a checkpoint", facts, tensors)


def _resume(
    checkpoint: Checkpoint, learner: nn.Module, optimizer: Any, scaler: Any, best: State
) -> tuple[Progress, State]:
    facts, tensors = read_tensors(checkpoint.path, "a checkpoint")
    if facts["identity"] != checkpoint.identity:
        raise ValueError(
            f"the checkpoint {checkpoint.path} is of a training with other data or settings; "
            "delete it, or give this training another file."
        )
    learner.load_state_dict(without_prefix("learner", tensors))
    slots: dict[int, dict[str, Tensor]] = {}
    for name, value in without_prefix("optimizer", tensors).items():
        place, _, slot = name.partition(".")
        slots.setdefault(int(place), {})[slot] = value
    optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})
    scaler.load_state_dict(facts["scaler"])
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"])
    stored = without_prefix("best", tensors)
    return Progress(**facts["progress"]), {name: stored[name].to(value.device) for name, value in best.items()}
