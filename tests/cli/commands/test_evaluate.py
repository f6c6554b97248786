"""``advmetric evaluate``: no row is its own neighbour, and large files are sampled."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

from advmetric import Mahalanobis, load_dataset
from advmetric.workflows import judge

VEHICLE = load_dataset("vehicle")


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch, done):
    monkeypatch.chdir(tmp_path)
    pandas.DataFrame(VEHICLE.X, columns=VEHICLE.feature_names).assign(kind=VEHICLE.y).to_csv("v.csv", index=False)
    done("fit", "v.csv", "--label", "kind", "--method", "GMML", "--no-tune")
    return tmp_path


def test_the_same_rows_as_train_are_left_out_one_by_one(done, work):
    options = ("v.metric.npz", "v.csv", "--label", "kind", "--json")
    alone = json.loads(done("evaluate", *options))
    np.savez("copy.npz", X=VEHICLE.X, kind=VEHICLE.y.astype(str))
    for train in ("v.csv", "copy.npz"):
        found = json.loads(done("evaluate", *options, "--train", train))
        assert found["scores"] == alone["scores"]
        assert found["how"] == f"leave-one-out (the rows of {train} are the same)"
    assert alone["scores"]["learned"]["error"] > 0.2  # its own neighbour: about half of that


def test_the_same_pairs_as_train_are_said_to_be_the_same(done):
    left, right = np.random.default_rng(0).integers(846, size=(2, 300))
    same = np.where(VEHICLE.y[left] == VEHICLE.y[right], 1, -1)
    np.savez("pairs.npz", X=VEHICLE.X, pairs=np.column_stack([left, right]), y=same)
    assert "the very same ones" in done("evaluate", "v.metric.npz", "pairs.npz", "--train", "pairs.npz")


def test_a_metric_without_a_threshold_is_said_to_have_none(done):
    pair = ["a_x", "b_x", "same"]
    pandas.DataFrame([[1, 2, 1], [1, 9, -1], [3, 3, 1]], columns=pair).to_csv("pairs.csv", index=False)
    for threshold, said in ((None, "no threshold is saved with the metric"), (2.0, "threshold saved with the metric")):
        Mahalanobis(np.eye(1), threshold, ("x",)).save("one.npz")
        out = done("evaluate", "one.npz", "pairs.csv", "--pairs", "same")
        assert out.startswith(f"3 pairs of pairs.csv, {said}\n")


def test_many_points_are_sampled_and_it_says_so(done, monkeypatch):
    monkeypatch.setattr(judge, "DISTANCES", 0)
    monkeypatch.setattr(judge, "QUERIES", 100)
    assert done("evaluate", "v.metric.npz", "v.csv", "--label", "kind").startswith(
        "a random sample of 100 of 846 points of v.csv, leave-one-out"
    )
    found = json.loads(done("evaluate", "v.metric.npz", "v.csv", "--label", "kind", "--json"))
    assert found["judged"] == 100
