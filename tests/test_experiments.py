"""The comparison behind `make reproduce`: protocol, report, and the command that runs them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from advmetric import load_dataset, methods
from advmetric.experiments.__main__ import main
from advmetric.experiments.protocol import run, split, tuned
from advmetric.registry import Method

BY_NAME = {method.name: method for method in methods()}


def test_scaling_is_fitted_on_the_training_part_only():
    parts = split("vehicle", 0)
    np.testing.assert_allclose(parts.X_train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(parts.X_train.std(axis=0), 1.0, rtol=1e-12)
    assert np.abs(parts.X_test.mean(axis=0)).max() > 1e-3
    assert len(parts.X_test) == pytest.approx(0.2 * 846, abs=1)


def test_wide_sets_are_reduced_to_fifty_components_and_subsets_are_stratified():
    parts = split("mnist-4000", 0, max_rows=500)
    assert parts.X_train.shape == (400, 50)
    assert np.bincount(np.concatenate([parts.y_train, parts.y_test])).tolist() == [50] * 10


def test_trials_differ_and_are_reproducible():
    first, again, other = split("vehicle", 0), split("vehicle", 0), split("vehicle", 1)
    np.testing.assert_array_equal(first.X_test, again.X_test)
    assert not np.array_equal(first.y_test, other.y_test)


def test_tuning_picks_the_best_of_the_grid_by_cross_validation():
    data = load_dataset("vehicle")
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    gmml = BY_NAME["GMML"]
    _, chosen = tuned(Method("GMML", gmml.estimator, "", "", {"t": (1.0, 0.1)}), X, data.y)
    assert chosen == {"t": 0.1}


@pytest.mark.parametrize("name", ["Euclidean", "GMML", "AML"])
def test_a_run_reports_its_error_and_parameters(name):
    found = run("vehicle", BY_NAME[name], 0)
    assert 0.05 < found.error < 0.4
    assert set(found.params) == set(BY_NAME[name].grid)
    assert found.note == ""


def test_the_command_writes_a_self_contained_report(tmp_path, capsys):
    arguments = ["--quick", "--datasets", "breast-cancer", "vehicle", "--trials", "2", "--jobs", "1"]
    arguments += ["--methods", "Euclidean", "GMML", "AML"]
    main([*arguments, "--out", str(tmp_path / "one")])
    main([*arguments, "--out", str(tmp_path / "two")])
    assert "report.html" in capsys.readouterr().out
    page = (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    assert not re.search(r"(src|href)=['\"]https?:", page)
    for cell in ("breast-cancer", "vehicle", "Euclidean", "GMML", "AML"):
        assert cell in page

    def errors(name):
        rows = (tmp_path / name / "results.csv").read_text(encoding="utf-8").splitlines()
        assert len(rows) == 1 + 2 * 2 * 3
        return [row.split(",")[:4] for row in rows]

    assert errors("one") == errors("two")
