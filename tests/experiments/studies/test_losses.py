"""The study of losses with and without the adversary: equal effort, and plain words about the outcome."""

import numpy as np
import pytest

from advmetric.datasets import load_verification
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.studies import losses


def test_all_variants_choose_among_as_many_settings():
    for loss in losses.LOSSES:
        for quick, count in ((False, 16), (True, 4)):
            found = {variant: losses.candidates(loss, variant, quick) for variant in losses.VARIANTS}
            assert {len(settings) for settings in found.values()} == {count}
            assert {p["alpha"] for p in found["adversary"]} == {0.0, 1.0}
            assert {p["alpha"] for p in found["no adversary"] + found["early stopping"]} == {0.0}
            assert len({p["max_iter"] for p in found["early stopping"]}) == 4


def test_a_quick_run_is_one_split_of_one_set():
    tasks = losses.tasks(Plan(profile="quick"))
    assert {(t.dataset, t.trial) for t in tasks} == {("vehicle", 0)}
    assert len(tasks) == 9


def test_a_full_run_has_the_losses_on_neighbors_for_sets_and_the_loss_on_pairs_for_verification():
    tasks = losses.tasks(Plan(datasets=["vehicle", "letters-unseen"]))
    kinds = {
        name: {t.method.split(", ")[0] for t in tasks if t.dataset == name} for name in ("vehicle", "letters-unseen")
    }
    assert kinds == {"vehicle": {"margin", "softmax", "radius"}, "letters-unseen": {"pairs"}}
    assert {t.trial for t in tasks if t.dataset == "letters-unseen"} == set(range(20))
    assert len(tasks) == 20 * 9 + 20 * 3


def test_trials_go_through_all_folds_of_one_division_before_the_next():
    found = [losses.fold_of("letters-unseen", trial, None) for trial in (1, 4, 6)]
    classes = [set(data.identities[np.unique(data.pairs[test])]) for data, _, test in found]
    plain = load_verification("letters-unseen")
    first = list(plain.splits())
    for (_, train, test), fold in zip(found[:2], (1, 4), strict=True):
        assert np.array_equal(train, first[fold][0])
        assert np.array_equal(test, first[fold][1])
    assert not classes[0] & classes[1]
    data, train, test = found[2]
    assert not np.array_equal(data.pairs, plain.pairs)
    assert not classes[2] & set(data.identities[np.unique(data.pairs[train])])
    assert classes[2] != classes[0]


def test_a_second_division_of_patches_has_other_views_and_pairs(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "notredame_patches.npz", X=rng.integers(0, 256, (200, 32, 32), dtype=np.uint8))
    (first, *_), (data, train, test) = (losses.fold_of("patches", trial, tmp_path) for trial in (0, 5))
    assert data.X.shape == first.X.shape
    assert not np.array_equal(data.X, first.X)
    assert not np.array_equal(data.pairs, first.pairs)
    assert not np.isin(data.pairs[train], data.pairs[test]).any()


@pytest.mark.parametrize(
    ("dataset", "method"),
    [
        ("breast-cancer", "margin, adversary"),
        ("breast-cancer", "softmax, early stopping"),
        ("letters-unseen", "pairs, adversary"),
    ],
)
def test_a_run_reports_clean_and_attacked_error_and_the_choice(dataset, method):
    found = losses.run(Task("losses", dataset, method, 0, "quick"), None)
    assert 0.0 <= found["error"] <= found["attacked_error"] < (0.5 if dataset == "breast-cancer" else 0.9)
    assert found["params"] in losses.candidates(*method.split(", "), quick=True)


@pytest.mark.parametrize(
    ("variant", "strength"),
    [
        ("no adversary", lambda p: p["gamma"]),
        ("adversary", lambda p: (p["alpha"] / p["beta"], p["gamma"])),
        ("early stopping", lambda p: (-p["max_iter"], p["gamma"])),
    ],
)
def test_of_settings_that_cannot_be_told_from_the_best_the_most_regularised_is_chosen(variant, strength):
    settings = losses.candidates("softmax", variant)
    noise = np.array([[0.01], [-0.01], [0.02], [0.0], [-0.02]]) * np.linspace(0.0, 1.0, len(settings))
    assert strength(losses.choose(0.8 + noise, settings)) == max(map(strength, settings))
    worst = int(np.argmin([0.5 if p["t"] == settings[0]["t"] else 0.0 for p in settings]))
    lead = np.full(len(settings), 0.5)
    lead[worst] = 0.9
    assert losses.choose(noise + lead, settings) == settings[worst]


def test_points_move_by_a_share_of_their_spread():
    X = np.random.default_rng(0).normal(size=(1000, 4)) * [1.0, 2.0, 3.0, 4.0]
    centred = X - X.mean(axis=0)
    assert losses.spread(X) == pytest.approx(np.sqrt(np.mean(np.sum(centred**2, axis=1))))


def records(gaps, trials=10):
    """Records in which the adversary changes (clean, attacked) error by so much, by loss, beside noise."""
    rng = np.random.default_rng(0)
    found = []
    for loss in losses.LOSSES:
        for trial in range(trials):
            base = 0.2 + 0.01 * rng.random()
            for variant in losses.VARIANTS:
                clean, attacked = gaps[loss] if variant == "adversary" else (0.0, 0.0)
                noise = 1e-3 * rng.random(2)
                result = {"error": base + clean + noise[0], "attacked_error": 2 * base + attacked + noise[1]}
                result["params"] = {"alpha": float(variant == "adversary")}
                task = Task("losses", "vehicle", f"{loss}, {variant}", trial, "full")
                found.append(Record(task, result))
    return found


def test_the_section_says_where_the_adversary_helps_harms_or_does_nothing():
    gaps = {"pairs": (0.0, 0.0), "margin": (0.05, -0.1), "softmax": (-0.05, -0.1), "radius": (0.0, 0.0)}
    answer = losses.section(records(gaps)).answers[0]
    clean, attacked = answer.split("; ")
    assert "significantly lower on vehicle (softmax), significantly higher on vehicle (margin)" in clean
    assert "not told apart on 2 of 4" in clean
    assert "significantly lower on vehicle (margin), vehicle (softmax), significantly higher on none" in attacked


def test_few_splits_tell_nothing_and_half_finished_splits_do_not_count():
    gaps = dict.fromkeys(losses.LOSSES, (0.05, -0.1))
    assert "too few splits to tell" in losses.section(records(gaps, trials=3)).answers[0]
    kept = records(gaps)
    section = losses.section(kept[:-1])
    assert len(losses._values(losses._by_trial(kept[:-1]), "vehicle", "radius", "adversary", "error")) == 9
    assert "significantly" in section.answers[0]
