"""The threshold that separates similar from dissimilar pairs, against a look at every threshold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from advmetric.metric.threshold import best_threshold, fit_probability


def rates(distances, y, threshold):
    similar = distances <= threshold
    return np.mean(similar[y == 1]), np.mean(~similar[y == -1])


def merit(distances, y, threshold, strategy, min_rate=None, beta=1.0):
    """The criterion at one threshold, from its definition; -1 where it is not allowed."""
    tpr, tnr = rates(distances, y, threshold)
    tp, fp = tpr * np.sum(y == 1), (1 - tnr) * np.sum(y == -1)
    if strategy == "accuracy":
        return (tp + np.sum(y == -1) - fp) / len(y)
    if strategy == "f_beta":
        precision = tp / (tp + fp) if tp + fp else 0.0
        return (1 + beta**2) * precision * tpr / (beta**2 * precision + tpr) if precision + tpr else 0.0
    wanted, kept = (tpr, tnr) if strategy == "max_tpr" else (tnr, tpr)
    return wanted if kept >= min_rate - 1e-9 else -1.0


def brute_force(distances, y, **how):
    below, above = distances.min() - 1.0, distances.max() + 1.0
    return max(merit(distances, y, threshold, **how) for threshold in [below, *distances, above])


@st.composite
def labelled_distances(draw):
    n = draw(st.integers(2, 30))
    coarse = draw(st.booleans())
    values = st.integers(0, 5).map(float) if coarse else st.floats(0, 1e6, allow_subnormal=False)
    distances = np.array(draw(st.lists(values, min_size=n, max_size=n)))
    y = np.array(draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n)))
    y[:2] = (1, -1)
    return distances, y


@settings(max_examples=150, deadline=None)
@given(labelled_distances())
def test_accuracy_is_the_best_of_all_thresholds(data):
    found = best_threshold(*data)
    assert np.isfinite(found)
    assert merit(*data, found, "accuracy") == pytest.approx(brute_force(*data, strategy="accuracy"))


@settings(max_examples=150, deadline=None)
@given(labelled_distances(), st.sampled_from([0.25, 1.0, 3.0]))
def test_f_beta_is_the_best_of_all_thresholds(data, beta):
    found = best_threshold(*data, "f_beta", beta=beta)
    assert merit(*data, found, "f_beta", beta=beta) == pytest.approx(brute_force(*data, strategy="f_beta", beta=beta))


@settings(max_examples=150, deadline=None)
@given(labelled_distances(), st.sampled_from(["max_tpr", "max_tnr"]), st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]))
def test_one_rate_is_the_best_of_all_thresholds_that_keep_the_other(data, strategy, min_rate):
    found = best_threshold(*data, strategy, min_rate=min_rate)
    best = brute_force(*data, strategy=strategy, min_rate=min_rate)
    assert best >= 0.0
    assert merit(*data, found, strategy, min_rate) == pytest.approx(best)


def test_among_equally_good_thresholds_the_other_rate_is_as_good_as_can_be():
    distances, y = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([1, 1, -1, -1, 1])
    # A true positive rate of 2/3 is had from 2 to 4; only the first keeps every dissimilar pair out.
    assert best_threshold(distances, y, "max_tpr", min_rate=0.0) == 5.0
    assert best_threshold(distances, y, "max_tpr", min_rate=0.5) == 2.5
    # All dissimilar pairs are kept out up to 3; the largest such cut finds the most similar ones.
    assert best_threshold(distances, y, "max_tnr", min_rate=0.0) == 2.5


def test_the_threshold_lies_half_way_between_pairs():
    assert best_threshold(np.array([1.0, 4.0]), np.array([1, -1])) == 2.5


def test_a_threshold_below_all_pairs_calls_none_similar():
    for distances in (np.array([1.0, 2.0, 2.0]), np.array([0.0, 0.0, 0.0]), np.array([5e-324, 1.0, 1.0])):
        found = best_threshold(distances, np.array([-1, -1, 1]), "max_tnr", min_rate=0.0)
        assert np.isfinite(found)
        assert not np.any(distances <= found)


def test_neighbouring_floats_are_kept_apart():
    for low in (1.0, np.nextafter(1.0, 2.0), 3.7, 1e-300, 1e300):
        high = np.nextafter(low, np.inf)
        found = best_threshold(np.array([low, high]), np.array([1, -1]))
        assert low <= found < high


def test_equal_distances_are_never_separated():
    found = best_threshold(np.array([1.0, 1.0, 1.0, 2.0]), np.array([1, -1, 1, -1]))
    assert 1.0 <= found < 2.0


def test_the_order_of_the_pairs_does_not_matter():
    rng = np.random.default_rng(0)
    distances, y = rng.random(50), np.where(rng.random(50) < 0.5, 1, -1)
    order = rng.permutation(50)
    assert best_threshold(distances, y) == best_threshold(distances[order], y[order])


def test_bad_settings_are_refused():
    distances, y = np.array([1.0, 2.0]), np.array([1, -1])
    with pytest.raises(ValueError, match=r"strategy='youden' is not known; use one of 'accuracy', 'f_beta'"):
        best_threshold(distances, y, "youden")
    for min_rate, message in (
        (None, "needs min_rate in"),
        (-0.1, "min_rate=-0.1"),
        (1.1, "min_rate=1.1"),
        (np.nan, "nan"),
    ):
        for strategy in ("max_tpr", "max_tnr"):
            with pytest.raises(ValueError, match=message):
                best_threshold(distances, y, strategy, min_rate=min_rate)
    for beta in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=rf"beta={beta} must be a finite number >= 0"):
            best_threshold(distances, y, "f_beta", beta=beta)


def test_probabilities_are_calibrated_on_data_that_follow_the_model():
    rng = np.random.default_rng(0)
    distances = rng.gamma(3.0, 0.7, size=20_000)
    truth = 1 / (1 + np.exp(2.0 * distances - 3.0))
    y = np.where(rng.random(len(distances)) < truth, 1, -1)
    slope, intercept = fit_probability(distances, y)
    assert slope == pytest.approx(-2.0, abs=0.1)
    assert intercept == pytest.approx(3.0, abs=0.15)
    # The unit of the distance does not matter.
    assert fit_probability(1e6 * distances, y)[0] == pytest.approx(1e-6 * slope, rel=1e-3)


def test_a_useless_distance_gives_the_share_of_similar_pairs():
    distances, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([-1, -1, 1, -1])
    slope, intercept = fit_probability(np.concatenate([distances, [9.0]]), np.concatenate([y, [1]]))
    assert slope == 0.0
    assert 1 / (1 + np.exp(-intercept)) == pytest.approx(0.4)


@pytest.mark.numerical
@pytest.mark.parametrize("shift", [0.5, 1.0, 30.0])
def test_the_log_odds_are_those_of_scikit_learns_logistic_regression(shift):
    rng = np.random.default_rng(1)
    y = np.where(rng.random(500) < 0.3, 1, -1)
    distances = np.abs(rng.standard_normal(500) + shift * (y == -1))  # at 30, all pairs are told apart
    unit = distances.mean()
    model = LogisticRegression(C=1e3, tol=1e-10, max_iter=10_000).fit((distances / unit)[:, None], y)
    expected = model.coef_[0, 0] / unit, model.intercept_[0]
    np.testing.assert_allclose(fit_probability(distances, y), expected, rtol=1e-4)
