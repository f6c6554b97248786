"""``advmetric verify`` with two files: the columns of both are carried along."""

from __future__ import annotations

import io

import numpy as np
import pandas
import pytest

from advmetric import Mahalanobis


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Mahalanobis(np.eye(2), 1.0, ("x", "z")).save("m.npz")
    return tmp_path


def test_ids_of_both_files_are_carried(done):
    pandas.DataFrame({"id": ["p1", "p2"], "x": [0, 1], "z": [0, 0]}).to_csv("probe.csv", index=False)
    pandas.DataFrame({"x": [0, 5], "z": [0, 0], "id": ["g7", "g8"], "note": ["n", "m"]}).to_csv(
        "gallery.csv", index=False
    )
    found = pandas.read_csv(io.StringIO(done("verify", "m.npz", "probe.csv", "gallery.csv")))
    assert found.columns.tolist() == ["a_id", "b_id", "b_note", "distance", "decision"]
    assert found.to_numpy().tolist() == [["p1", "g7", "n", 0.0, 1], ["p2", "g8", "m", 4.0, -1]]
    pandas.DataFrame({"id": ["only"], "x": [0], "z": [0]}).to_csv("one.csv", index=False)
    found = pandas.read_csv(
        io.StringIO(done("verify", "m.npz", "one.csv", "gallery.csv", "--drop", "id", "--out", "-"))
    )
    assert found.columns.tolist() == ["b_note", "distance", "decision"]


def test_an_existing_file_is_not_replaced_without_force(done, refused, work):
    pandas.DataFrame({"x": [0], "z": [0]}).to_csv("one.csv", index=False)
    (work / "o.csv").write_text("old")
    command = ("verify", "m.npz", "one.csv", "one.csv")
    assert "o.csv is there already: give --force" in refused(1, *command, "--out", "o.csv")
    done(*command, "--out", "o.csv", "--force")
    assert (work / "o.csv").read_text() == done(*command)


@pytest.mark.parametrize("threshold", ["-1", "nan"])
def test_a_threshold_is_a_distance(refused, threshold):
    assert "not a distance" in refused(2, "verify", "m.npz", "one.csv", "one.csv", "--threshold", threshold)
