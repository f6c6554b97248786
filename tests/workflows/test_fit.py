"""The workflow of ``fit``: nothing that is judged on was learned from, and given parameters hold everywhere."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from advmetric import AMLCV, GMML, ITML, Mahalanobis
from advmetric.io.preparation import Preparation, Rule
from advmetric.pairs.data import LabelledPoints, Pairs
from advmetric.workflows import fit as module
from advmetric.workflows import judge as judging
from advmetric.workflows.fit import calibrate, fit_samples, tune
from advmetric.workflows.parameters import find_method
from advmetric.workflows.splits import hold_out

WINE = load_wine()
POINTS = LabelledPoints(WINE.data, WINE.target)
GMML_METHOD = find_method("GMML")


def test_a_given_parameter_is_used_and_saved():
    scaler = StandardScaler().fit(WINE.data)
    for params in ({"reg": 0.1, "t": 0.3}, {"reg": 0.1}):
        found = fit_samples(GMML_METHOD, params, POINTS, share=0.0)
        assert found.params["reg"] == 0.1
        by_hand = GMML(**found.params).fit(scaler.transform(WINE.data), WINE.target)
        np.testing.assert_allclose(found.metric.components * scaler.scale_, by_hand.components_, rtol=1e-9)


def test_average_false_is_tuned_with():
    found = fit_samples(find_method("AML"), {"average": False}, POINTS, share=0.0)
    assert found.params["average"] is False
    assert len(found.params) > 1


def test_given_pairs_are_used_in_the_search(monkeypatch):
    seen = []
    learn = ITML._learn

    def watched(self, data, **extra):
        seen.append(self.pairs)
        return learn(self, data, **extra)

    monkeypatch.setattr(ITML, "_learn", watched)
    best, _ = tune(find_method("ITML"), {"pairs": 300}, POINTS, True, 0)
    assert best["pairs"] == 300
    assert set(seen) == {300}
    assert len(seen) >= 6


def test_levels_and_fills_are_of_the_training_part_and_in_the_end_of_all(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    raw = np.column_stack([rng.normal(size=80) + y, rng.integers(3, size=80), y + rng.normal(size=80)])
    raw[rng.random(80) < 0.2, 0] = np.nan
    base = Preparation((Rule("x", None, 0.0), Rule("kind", ("a", "b", "c"), "a"), Rule("z", None, 0.0)))
    learned_on = []
    learn = Preparation.learn

    def watched(self, rows):
        learned_on.append(np.array(rows))
        return learn(self, rows)

    monkeypatch.setattr(Preparation, "learn", watched)
    found = fit_samples(GMML_METHOD, {}, LabelledPoints(raw, y), preparation=base, tuned=False)
    train, _ = hold_out(y, 0.2, 0)
    np.testing.assert_array_equal(learned_on[0], raw[train])
    np.testing.assert_array_equal(learned_on[1], raw)
    assert len(learned_on) == 2
    kept = Preparation.of_facts(json.loads(json.dumps(found.metric.preparation)))
    assert kept == learn(base, raw)
    assert found.metric.feature_names == ("x", "kind=a", "kind=b", "kind=c", "z")
    part = fit_samples(GMML_METHOD, {}, LabelledPoints(raw, y), preparation=base, tuned=False, refit=False)
    assert Preparation.of_facts(part.metric.preparation) == learn(base, raw[train])


def test_groups_stay_together_in_split_folds_and_calibration(monkeypatch):
    rng = np.random.default_rng(0)
    people = rng.normal(size=(30, 4))
    groups = np.repeat(np.arange(30), 6)
    X = people[groups] + 0.1 * rng.normal(size=(180, 4))
    y = (people[:, 0] > 0).astype(int)[groups]
    X = np.column_stack([X, groups])  # so that the rows can be told below
    seen = []
    best = module.best_params

    def watched(learner, parts, *rest, **more):
        seen.extend((set(learn.X[:, -1]), set(judge.X[:, -1])) for learn, judge in parts)
        return best(learner, parts, *rest, **more)

    monkeypatch.setattr(module, "best_params", watched)
    found = fit_samples(GMML_METHOD, {}, LabelledPoints(X, y), groups=groups, standardize=False)
    assert len(seen) == 3
    assert not any(learn & judge for learn, judge in seen)
    mixed = fit_samples(GMML_METHOD, {}, LabelledPoints(X, y), standardize=False)
    # A neighbour of the same person gives the class away; of another person, it does not.
    assert mixed.scores["GMML"]["error"] < found.scores["GMML"]["error"]
    pairs = Pairs(X, np.arange(0, 180, 2), np.arange(1, 180, 2), np.where(groups[::2] % 2, 1, -1))
    folds = []
    learn = module.learn
    monkeypatch.setattr(
        module, "learn", lambda m, p, s, *rest: folds.append(set(s.points[:, -1])) or learn(m, p, s, *rest)
    )
    calibrated = calibrate(Mahalanobis(np.eye(5)), GMML_METHOD, {}, pairs, False, 0, groups[::2])
    assert calibrated.calibration is not None
    assert all(len(fold) < 30 for fold in folds)


def test_many_rows_are_tuned_and_judged_on_a_sample_and_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(module, "TUNED", 60)
    monkeypatch.setattr(judging, "DISTANCES", 0)
    monkeypatch.setattr(judging, "QUERIES", 20)
    sizes = []
    best = module.best_params

    def watched(learner, parts, *rest, **more):
        sizes.extend(len(learn) + len(judge) for learn, judge in parts)
        return best(learner, parts, *rest, **more)

    monkeypatch.setattr(module, "best_params", watched)
    found = fit_samples(GMML_METHOD, {}, POINTS)
    assert sizes == [60, 60, 60]
    assert found.how.endswith("cross-validation of a random sample of 60 rows")
    assert (found.sampled, found.test) == (20, 36)
    assert "sample of 60 rows" in capsys.readouterr().err


def test_everything_that_takes_long_is_a_stage(monkeypatch):
    titles = []

    class Seen(module.Stage):
        def __init__(self, title, total=None):
            titles.append(title)
            super().__init__(title, total)

    monkeypatch.setattr("advmetric.workflows.stages.Stage", Seen)
    drawn = np.random.default_rng(0).integers(0, 178, (200, 2))
    same = np.where(WINE.target[drawn[:, 0]] == WINE.target[drawn[:, 1]], 1, -1)
    fit_samples(GMML_METHOD, {}, Pairs(WINE.data, drawn[:, 0], drawn[:, 1], same))
    assert [title.split()[0] for title in titles] == ["Tuning", "Fitting", "Judging", "Fitting", "Calibrating"]


def test_too_few_rows_to_tune_are_said_to_be_too_few():
    few = LabelledPoints(np.random.default_rng(0).normal(size=(6, 2)), np.repeat([0, 1, 2], 2))
    with pytest.raises(ValueError, match=r"too few rows to tune: no fold has two rows of one class.*--no-tune"):
        fit_samples(GMML_METHOD, {}, few, share=0.0)
    with pytest.raises(ValueError, match="6 points in 3 classes are too few for cross-validation"):
        AMLCV().fit(few.X, few.y)
    with pytest.raises(ValueError, match="3 points in 2 classes are too few for cross-validation"):
        AMLCV().fit(few.X[:3], [0, 0, 1])


@pytest.mark.parametrize("options", [(), ("--no-standardize",), ("--chunk-rows", 20)])
@pytest.mark.parametrize("size", [1e200, 1e305])
def test_a_column_whose_squares_overflow_is_named(cli, tmp_path, size, options):
    rows = [f"{x},{size * z},{kind}" for (x, z), kind in zip(WINE.data[:, :2].tolist(), WINE.target, strict=True)]
    (tmp_path / "big.csv").write_text("\n".join(["x,big,class", *rows]))
    arguments = ("fit", tmp_path / "big.csv", "--label", "class", "--method", "GMML", "--no-tune", *options)
    code, _, err = cli(*arguments, "--out", tmp_path / "m.npz")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "the squares of the values of column 'big' overflow" in err


def test_large_values_whose_squares_do_not_overflow_are_no_error():
    found = [fit_samples(GMML_METHOD, {}, replace(POINTS, X=s * WINE.data), tuned=False).scores for s in (1, 1e148)]
    assert found[0]["GMML"] == found[1]["GMML"]
