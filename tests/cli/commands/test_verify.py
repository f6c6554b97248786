"""``advmetric verify`` with two files: the columns of both are carried along."""

from __future__ import annotations

import io

import numpy as np
import pandas

from advmetric import Mahalanobis


def test_ids_of_both_files_are_carried(done, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Mahalanobis(np.eye(2), 1.0, ("x", "z")).save("m.npz")
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
