"""A training that was killed and continued ends with the same bits as one that was not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from advmetric.deep import DeepAML
from advmetric.deep.checkpoint import read_tensors

SETTINGS = {"epochs": 30, "embedding": 8, "batch_size": 24, "patience": 30, "checkpoint_every": 2, "random_state": 3}
SCRIPT = """
import sys, torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from test_training import SETTINGS, data
from advmetric.deep import DeepAML
DeepAML(**SETTINGS, checkpoint=sys.argv[2]).fit(*data())
"""


def data():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 20)
    return rng.normal(size=(120, 7)) + y[:, None] * rng.normal(size=7), y


def weights(model):
    return {name: value.numpy() for name, value in model.learner_.state_dict().items()}


def assert_same_bits(model, other):
    ours, theirs = weights(model), weights(other)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].tobytes() == theirs[name].tobytes(), name
    assert model.history_ == other.history_
    assert model.threshold_ == other.threshold_
    assert model.calibration_ == other.calibration_


@pytest.fixture(scope="module")
def undisturbed():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    model = DeepAML(**SETTINGS).fit(*data())
    torch.set_num_threads(before)
    return model


def version(path):
    """Changes with each write: a checkpoint is replaced, not rewritten."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def kill_after(path, versions):
    """Start training, and kill -9 it after the given number of new checkpoints; return how many were seen."""
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(Path(__file__).parent), str(path)])
    last, seen = version(path), 0
    try:
        while seen < versions and process.poll() is None:
            now = version(path)
            if now != last:
                last, seen = now, seen + 1
            time.sleep(0.0005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    return seen


@pytest.mark.slow
def test_killed_at_a_random_moment_and_continued(undisturbed, tmp_path):
    path = tmp_path / "training.safetensors"
    random = np.random.default_rng()  # another moment in each run of the tests
    kill_after(path, int(random.integers(1, 12)))
    assert 0 < read_tensors(path, "a checkpoint")[0]["progress"]["step"] < 30 * 3
    assert_same_bits(DeepAML(**SETTINGS, checkpoint=path).fit(*data()), undisturbed)


def test_a_finished_training_is_not_repeated(undisturbed, tmp_path):
    path = tmp_path / "training.safetensors"
    first = DeepAML(**SETTINGS, checkpoint=path).fit(*data())
    assert_same_bits(first, undisturbed)
    before = version(path)
    assert_same_bits(DeepAML(**SETTINGS, checkpoint=path).fit(*data()), undisturbed)
    assert version(path) == before


class Interrupt(Exception):
    pass


@pytest.mark.parametrize("kind", ["classes", "pairs", "no early stopping"])
@pytest.mark.parametrize("at", [1, 5, 8])
def test_stopped_between_checkpoints_and_continued(tmp_path, kind, at):
    X, y = data()
    settings = SETTINGS | {"epochs": 4, "checkpoint_every": 3}
    if kind == "pairs":
        rng = np.random.default_rng(0)
        pairs = rng.integers(len(X), size=(150, 2))
        settings["preprocessor"] = X
        X, y = pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    settings["early_stopping"] = kind != "no early stopping"
    calls = iter(range(10**6))

    def jitter(batch):
        return batch + 0.1 * torch.randn_like(batch)

    def interrupted(batch):
        if next(calls) == at:
            raise Interrupt
        return jitter(batch)

    with pytest.raises(Interrupt):
        DeepAML(**settings, augment=interrupted, checkpoint=tmp_path / "c").fit(X, y)
    torch.rand(7)  # what happens to the global generator meanwhile does not matter
    continued = DeepAML(**settings, augment=jitter, checkpoint=tmp_path / "c").fit(X, y)
    assert_same_bits(continued, DeepAML(**settings, augment=jitter).fit(X, y))


def test_checkpoints_of_other_trainings_are_refused(tmp_path):
    X, y = data()
    path, settings = tmp_path / "c", SETTINGS | {"epochs": 1}
    DeepAML(**settings, checkpoint=path).fit(X, y)
    for others, points in (({"alpha": 0.5}, X), ({"embedding": 9}, X), ({}, X + 1)):
        with pytest.raises(ValueError, match="other data or settings"):
            DeepAML(**settings | others, checkpoint=path).fit(points, y)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ValueError, match="damaged"):
        DeepAML(**settings, checkpoint=path).fit(X, y)
    with pytest.raises(ValueError, match="random_state to be an int"):
        DeepAML(**settings | {"random_state": None}, checkpoint=tmp_path / "d").fit(X, y)
