"""``transform`` and ``distance``: standard output, and names that are missing."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from advmetric import Mahalanobis


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Mahalanobis(2 * np.eye(2), None, ("x", "z")).save("m.npz")
    pandas.DataFrame({"id": ["007"], "x": [1.0], "z": [2.0], "class": ["a"]}).to_csv("t.csv", index=False)
    return tmp_path


def test_transform_writes_to_standard_output(done, work):
    expected = "id,class,z0,z1\n007,a,2.0,4.0\n"
    assert done("transform", "m.npz", "t.csv") == done("transform", "m.npz", "t.csv", "--out", "-") == expected
    done("transform", "m.npz", "t.csv", "--out", "o.csv")
    assert (work / "o.csv").read_text() == expected


def test_an_existing_file_is_not_replaced_without_force(done, refused, work):
    pandas.DataFrame({"a_x": [1.0], "a_z": [2.0], "b_x": [0.0], "b_z": [0.0]}).to_csv("pairs.csv", index=False)
    for command in (("transform", "m.npz", "t.csv"), ("distance", "m.npz", "pairs.csv")):
        (work / "o.csv").write_text("old")
        assert "o.csv is there already: give --force" in refused(1, *command, "--out", "o.csv")
        done(*command, "--out", "o.csv", "--force")
        assert (work / "o.csv").read_text() == done(*command)


def test_a_missing_feature_does_not_suggest_the_label_or_another_feature(refused):
    pandas.DataFrame({"x": [1.0], "zz": [1.0], "class": ["a"]}).to_csv("other.csv", index=False)
    said = refused(1, "transform", "m.npz", "other.csv", "--label", "class")
    assert said.endswith("other.csv has no column 'z', which the metric needs. Did you mean 'zz'?")
    Mahalanobis(np.eye(2), None, ("x", "klass")).save("k.npz")
    said = refused(1, "transform", "k.npz", "other.csv", "--label", "class")
    assert said.endswith("has no column 'klass', which the metric needs.")


def test_a_table_in_place_of_a_metric_is_called_a_table(refused):
    said = refused(1, "transform", "t.csv", "t.csv")
    assert "t.csv is not a metric but a table" in said
    assert "pickle" not in said


def test_values_of_a_wrong_number_or_kind_are_refused(refused):
    assert "3 values given, the metric is for 2" in refused(2, "distance", "m.npz", "--a", "1,2,3", "--b", "1,2")
    assert "'red' is not a number" in refused(2, "distance", "m.npz", "--a", "1,red", "--b", "1,2")
    assert "infinite" in refused(2, "distance", "m.npz", "--a", "1,inf", "--b", "1,2")
    assert "missing" in refused(2, "distance", "m.npz", "--a", "1,", "--b", "1,2")
