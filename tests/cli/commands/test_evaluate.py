"""``advmetric evaluate``: no row is its own neighbour, and large files are sampled."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

from advmetric import load_dataset
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


def test_many_points_are_sampled_and_it_says_so(done, monkeypatch):
    monkeypatch.setattr(judge, "DISTANCES", 0)
    monkeypatch.setattr(judge, "QUERIES", 100)
    assert done("evaluate", "v.metric.npz", "v.csv", "--label", "kind").startswith(
        "a random sample of 100 of 846 points of v.csv, leave-one-out"
    )
    found = json.loads(done("evaluate", "v.metric.npz", "v.csv", "--label", "kind", "--json"))
    assert found["judged"] == 100
