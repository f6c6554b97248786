"""Adversarial pairs against numerical minimisers and maximisers, and what they do to distances."""

import numpy as np
import pytest
from scipy.optimize import minimize

from advmetric import AML
from advmetric.algorithms.aml.adversary import make_adversary
from advmetric.linalg.spd import spd_factor
from reference import paper
from reference.matrices import random_spd

pytestmark = pytest.mark.numerical


@pytest.fixture
def rng():
    return np.random.default_rng(2018)


def pairs_against(M, pairs, y, beta, adversary="derived"):
    """Adversarial pairs of an AML whose metric is M."""
    learner = AML(beta=beta, adversary=adversary)
    learner.components_ = spd_factor(M)
    learner.n_features_in_ = len(M)
    return learner.adversarial_pairs(pairs, y)


def some_pairs(rng, d, n_pairs=6):
    y = np.where(np.arange(n_pairs) % 2, -1, 1)
    return rng.standard_normal((n_pairs, 2, d)) + rng.standard_normal(d), y


def minimiser(function, start):
    """Numerical minimiser of a smooth convex function of a pair, from a start that is not the pair."""
    shape = start.shape
    found = minimize(lambda z: function(z.reshape(shape)), start.ravel(), method="BFGS", options={"gtol": 1e-7})
    return found.x.reshape(shape)


@pytest.mark.parametrize("beta", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("label", [1, -1])
def test_derived_pairs_minimise_the_confusion_cost(rng, beta, label):
    for d in (2, 3):
        M = random_spd(rng, d, condition=10.0, scale=2.0)
        pairs, y = some_pairs(rng, d, 4)
        closed_form = pairs_against(M, pairs, y, beta)
        for pair, found in zip(pairs[y == label], closed_form[y == label], strict=True):

            def cost(Z, pair=pair, M=M):
                return paper.confusion(M, [Z], [pair], [label], beta)

            best = minimiser(cost, pair + rng.standard_normal(pair.shape))
            assert np.abs(found - best).max() < 2e-5
            assert cost(found) <= cost(best) * (1 + 1e-12)


@pytest.mark.parametrize("beta", [1e-4, 1e-2, 1.0, 1e2, 1e4])
def test_derived_pairs_are_those_of_equation_9(rng, beta):
    for d, condition in ((1, 1.0), (4, 10.0), (7, 1e4)):
        M = random_spd(rng, d, condition, scale=3.0)
        pairs, y = some_pairs(rng, d)
        expected = paper.adversarial_pairs(M, pairs, y, beta)
        assert np.abs(pairs_against(M, pairs, y, beta) - expected).max() < 1e-10
        assert np.array_equal(
            pairs_against(M, pairs, y, beta, "printed"),
            pairs_against(M, pairs, y, beta),
        )


@pytest.mark.parametrize("excess", [1.2, 3.0, 50.0])
@pytest.mark.parametrize("label", [1, -1])
def test_expanding_pairs_maximise_their_gain(rng, excess, label):
    for d in (2, 3):
        M = random_spd(rng, d, condition=10.0, scale=2.0)
        beta = excess * 2 * np.linalg.eigvalsh(M)[-1]
        pairs, y = some_pairs(rng, d, 4)
        closed_form = pairs_against(M, pairs, y, beta, "expanding")
        for pair, found in zip(pairs[y == label], closed_form[y == label], strict=True):

            def loss(Z, pair=pair, M=M, beta=beta):
                return -paper.expanding_gain(M, Z, pair, label, beta)

            best = minimiser(loss, pair + rng.standard_normal(pair.shape))
            assert np.abs(found - best).max() < 5e-5 * max(1.0, np.abs(found).max())
            assert loss(found) <= loss(best) + 1e-10 * abs(loss(best))


def test_below_its_bound_the_expanding_adversary_could_win_without_end(rng):
    """β < 2λ_max: the farther the pair is pulled apart along the top eigenvector, the more it gains."""
    M = random_spd(rng, 3)
    lam, U = np.linalg.eigh(M)
    top = U[:, -1]
    pair = np.array([0.1 * top, -0.1 * top])
    for beta, grows in ((1.9 * lam[-1], True), (2.1 * lam[-1], False)):
        gains = [
            paper.expanding_gain(M, pair + s * np.array([top, -top]), pair, 1, beta) for s in (1.0, 10.0, 100.0, 1000.0)
        ]
        assert (np.diff(gains[-2:]) > 0) == grows
    assert make_adversary("expanding", 1.0, 2.0).bound == 1.0


@pytest.mark.parametrize("adversary", ["derived", "printed", "expanding"])
def test_adversarial_pairs_keep_their_midpoints(rng, adversary):
    M = random_spd(rng, 4)
    pairs, y = some_pairs(rng, 4)
    moved = pairs_against(M, pairs, y, 5.0, adversary)
    assert np.abs(moved.sum(axis=1) - pairs.sum(axis=1)).max() < 1e-14


def test_derived_similar_pairs_are_contracted_not_expanded(rng):
    """Erratum 4: Fig. 2 draws adversarial similar pairs far apart; the minimiser of Eq. 3 brings them closer.

    Closer in the plain sense and under M: for the metric they are easier, not harder, than the real ones.
    """
    for beta in (1e-3, 0.1, 1.0, 10.0, 1e3):
        M = random_spd(rng, 5, condition=100.0, scale=3.0)
        pairs, y = some_pairs(rng, 5, 40)
        moved = pairs_against(M, pairs, y, beta)
        for pair, adversarial in zip(pairs, moved, strict=True):
            assert np.linalg.norm(adversarial[0] - adversarial[1]) < np.linalg.norm(pair[0] - pair[1])
            assert paper.distance(M, *adversarial) < paper.distance(M, *pair)


def test_derived_dissimilar_pairs_shrink_by_one_factor(rng):
    M = random_spd(rng, 4, scale=7.0)
    pairs, y = some_pairs(rng, 4)
    moved = pairs_against(M, pairs, y, 3.0)[y == -1]
    before = pairs[y == -1]
    assert np.allclose(moved[:, 0] - moved[:, 1], 3.0 / 5.0 * (before[:, 0] - before[:, 1]), rtol=1e-13)


def test_the_expanding_adversary_makes_both_kinds_of_pairs_harder(rng):
    M = random_spd(rng, 5, condition=100.0)
    pairs, y = some_pairs(rng, 5, 40)
    moved = pairs_against(M, pairs, y, 2.5, "expanding")
    for pair, adversarial, label in zip(pairs, moved, y, strict=True):
        farther = paper.distance(M, *adversarial) > paper.distance(M, *pair)
        assert farther == (label == 1)


def test_a_high_price_keeps_the_adversary_at_the_real_pairs(rng):
    M = random_spd(rng, 4)
    pairs, y = some_pairs(rng, 4)
    for adversary in ("derived", "printed", "expanding"):
        assert np.abs(pairs_against(M, pairs, y, 1e12, adversary) - pairs).max() < 1e-8


def test_directions_that_a_low_rank_metric_does_not_see_are_left_alone(rng):
    Q, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    learner = AML(beta=0.5)
    learner.components_ = Q[:, :2].T * [[2.0], [0.3]]
    learner.n_features_in_ = 5
    pairs, y = some_pairs(rng, 5)
    moved = learner.adversarial_pairs(pairs, y) @ Q
    assert np.allclose(moved[..., 2:], (pairs @ Q)[..., 2:], rtol=0, atol=1e-14)
    scale = (moved[:, 0] - moved[:, 1]) / ((pairs[:, 0] - pairs[:, 1]) @ Q)
    lam = np.array([4.0, 0.09])
    assert np.allclose(scale[y == 1, :2], 0.5 * lam**2 / (2 + 0.5 * lam**2), rtol=1e-12)


def test_the_loss_of_a_pair_is_what_its_stretch_says(rng):
    """f_S(λ) = λ + αλu(λ)² and f_D(λ) = 1/λ + αw(λ)²/λ, for stretches u and w."""
    lam, alpha = np.array([0.01, 0.3, 1.0, 2.2]), 0.7
    for name in ("derived", "expanding"):
        adversary = make_adversary(name, alpha, 6.0)
        u, w = adversary.stretch_similar(lam), adversary.stretch_dissimilar(lam)
        assert np.allclose(adversary.similar.value(lam), lam + alpha * lam * u**2, rtol=1e-14)
        assert np.allclose(adversary.dissimilar.value(lam), (1 + alpha * w**2) / lam, rtol=1e-14)


def test_an_adversary_of_weight_zero_is_no_adversary():
    lam = np.array([0.01, 0.3, 1.0, 2.2])
    for name in ("derived", "printed", "expanding"):
        adversary = make_adversary(name, 0.0, 6.0)
        assert np.allclose(adversary.similar.value(lam), lam, rtol=1e-15)
        assert np.allclose(adversary.dissimilar.value(lam), 1 / lam, rtol=1e-15)
        assert adversary.start_weight() == 1.0


def test_an_unknown_adversary_is_refused_by_name():
    with pytest.raises(ValueError, match="'gentle' is not known; use one of 'derived', 'printed', 'expanding'"):
        make_adversary("gentle", 1.0, 1.0)
