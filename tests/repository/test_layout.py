"""The layout: tests mirror the source tree, modules are short, and the examples of CONTRIBUTING.md work."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

from advmetric import methods
from advmetric.algorithms import registry
from advmetric.experiments import catalogue
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.reproduce import reproduce
from advmetric.learners.tuning import best_params
from advmetric.pairs.data import LabelledPoints

ROOT = Path(__file__).resolve().parents[2]
SOURCE, TESTS = ROOT / "src" / "advmetric", ROOT / "tests"
OTHERS = ("contract", "repository", "reference", "end_to_end")
"""Folders of tests that do not mirror one module."""
ROOT_MODULES = {"__init__", "__main__", "plots", "streaming"}


def test_tests_mirror_the_tree():
    for path in TESTS.rglob("test_*.py"):
        place = path.relative_to(TESTS)
        if place.parts[0] in OTHERS:
            continue
        module = SOURCE / place.parent / place.stem.removeprefix("test_")
        assert module.with_suffix(".py").exists() or (module / "__init__.py").exists(), f"{place} mirrors no module"


def test_every_folder_of_the_source_has_tests():
    for folder in (path.parent for path in SOURCE.glob("*/__init__.py")):
        assert list((TESTS / folder.name).rglob("test_*.py")), f"no test for {folder}"


def test_the_root_holds_public_names_only():
    assert {path.stem for path in SOURCE.glob("*.py")} <= ROOT_MODULES


def test_no_module_is_longer_than_400_lines():
    long = {str(p): n for p in SOURCE.rglob("*.py") if (n := len(p.read_text(encoding="utf-8").splitlines())) > 400}
    assert not long


def example(name):
    """Return the code block of CONTRIBUTING.md after a comment with this name."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- {name} -->\n```python\n(.*?)```", text, flags=re.DOTALL).group(1)


@pytest.mark.parametrize("name", ["method", "study"])
def test_the_examples_take_about_twenty_lines(name):
    assert len(example(name).splitlines()) <= 22


def test_a_stranger_adds_a_method(monkeypatch):
    names = {"Method": registry.Method}
    exec(example("method"), names)
    row = eval(example("row"), names)
    monkeypatch.setattr(registry, "_METHODS", (*registry._METHODS, row))
    assert methods()[-1].name == "Whitening"
    X, y = load_wine(return_X_y=True)
    learner = row.estimator().fit(X, y)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    learner = row.estimator(reg=1e-6).fit(X, y)
    np.testing.assert_allclose(np.cov(learner.transform(X).T), np.eye(13), atol=0.01)
    assert best_params(row.estimator(), LabelledPoints(X, y), row.grid)["reg"] in row.grid["reg"]
    with pytest.raises(ValueError, match=r"reg=0\.0 must be a finite number > 0"):
        row.estimator(reg=0.0).fit(X, y)


def test_a_stranger_adds_an_experiment(monkeypatch, tmp_path):
    names = {}
    exec(example("study"), names)
    monkeypatch.setitem(catalogue.STUDIES, "raw", names["STUDY"])
    for name in list(catalogue.STUDIES):
        if name != "raw":
            monkeypatch.delitem(catalogue.STUDIES, name)
    page = reproduce(tmp_path, Plan(profile="quick"), ["ablation"])
    assert "<p>Euclidean: 0.2" in page.read_text(encoding="utf-8")
