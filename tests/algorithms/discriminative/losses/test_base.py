"""Losses: values against plain loops, derivatives against autograd, the signs that the adversary relies on."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from advmetric.algorithms.discriminative.losses import (
    LogisticPairs,
    LogisticTriplets,
    Margin,
    Radius,
    Softmax,
    softplus,
)
from advmetric.algorithms.discriminative.losses.base import softplus_sum

rng = np.random.default_rng(0)
SIMILAR = rng.random((7, 3)) < 0.7
SIMILAR[2] = False  # a point that is alone in its class
DISSIMILAR = rng.random((7, 5)) < 0.8
LOSSES = {
    "pairs": (LogisticPairs(), 6, 9),
    "triplets": (LogisticTriplets(), 8, 8),
    "margin": (Margin(SIMILAR, DISSIMILAR), SIMILAR.sum(), DISSIMILAR.sum()),
    "softmax": (Softmax(SIMILAR, DISSIMILAR), SIMILAR.sum(), DISSIMILAR.sum()),
    "radius": (Radius(SIMILAR, DISSIMILAR, unit=0.4), SIMILAR.sum(), DISSIMILAR.sum()),
}
ACROSS = rng.exponential(1.0, LOSSES["radius"][0].count)
"""‖M(x_j - x_l)‖² of each triplet."""


def evaluated(name, near, far, b=0.0, across=ACROSS):
    return LOSSES[name][0](near, far, b, *([across] if name == "radius" else []))


def plain(name, near, far, b, across):
    """Each loss by loops, in torch."""
    ell = torch.nn.functional.softplus
    if name == "pairs":
        return 0.5 * sum(ell(d - b) for d in near) / len(near) + 0.5 * sum(ell(b - d) for d in far) / len(far)
    if name == "triplets":
        return sum(ell(p - n) for p, n in zip(near, far, strict=True)) / len(near)
    near, far = iter(near), iter(far)
    rows = [
        ([next(near) for _ in range(s.sum())], [next(far) for _ in range(d.sum())])
        for s, d in zip(SIMILAR, DISSIMILAR, strict=True)
    ]
    if name == "margin":
        terms = [ell(p - n + 1) for S, D in rows for p in S for n in D]
        return sum(terms) / len(terms)
    if name == "radius":
        slopes = iter(across)
        radii = [(n - p) / (2.0 * torch.sqrt(next(slopes))) for S, D in rows for p in S for n in D]
        return sum(ell(1.0 - radius / 0.4) for radius in radii) / len(radii)
    terms = []
    for S, D in rows:
        if S:
            own = sum(torch.exp(-d) for d in S)
            terms.append(-torch.log(own / (own + sum(torch.exp(-d) for d in D))))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_derivatives_are_those_of_a_plain_loop(name):
    loss, n_near, n_far = LOSSES[name]
    near, far = rng.exponential(2.0, n_near), rng.exponential(3.0, n_far)
    found = evaluated(name, near, far, 0.7)
    near_, far_, across = (torch.tensor(values, requires_grad=True) for values in (near, far, ACROSS))
    b = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    expected = plain(name, near_, far_, b, across)
    expected.backward()
    exact = {"atol": 1e-14}
    if name == "radius":  # a little is added to across
        exact = {"rtol": 1e-6}
        np.testing.assert_allclose(found.across, across.grad, **exact)
    assert found.value == pytest.approx(expected.item(), rel=1e-6 if name == "radius" else 1e-12)
    np.testing.assert_allclose(found.near, near_.grad, **exact)
    np.testing.assert_allclose(found.far, far_.grad, **exact)
    assert found.threshold == pytest.approx(float(b.grad) if b.grad is not None else 0.0, abs=1e-14)
    assert loss.has_threshold == (name == "pairs")


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_rises_with_near_and_falls_with_far_distances_of_any_size(name):
    _, n_near, n_far = LOSSES[name]
    for size in (0.0, 1e-300, 1.0, 1e4, 1e150):
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            near, far = size * rng.random(n_near), size * rng.random(n_far)
            found = evaluated(name, near, far, 1.0, size * ACROSS)
        assert np.isfinite(found.value)
        assert np.all(found.near >= 0.0)
        assert np.all(found.far <= 0.0)


def test_the_margin_loss_does_not_depend_on_the_size_of_its_blocks(monkeypatch):
    from advmetric.algorithms.discriminative.losses import margin

    loss, n_near, n_far = LOSSES["margin"]
    near, far = rng.exponential(2.0, n_near), rng.exponential(3.0, n_far)
    whole = loss(near, far)
    monkeypatch.setattr(margin, "_BLOCK_BYTES", 1)
    for one, other in zip(whole[:3], loss(near, far)[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_points_without_any_candidate_leave_a_loss_of_zero():
    nothing = np.zeros((3, 2), dtype=bool)
    for kind, more in ((Margin, ()), (Softmax, ()), (Radius, (0.0, np.empty(0)))):
        found = kind(nothing, nothing)(np.empty(0), np.empty(0), *more)
        assert found.value == 0.0
        assert len(found.near) == len(found.far) == 0


def test_softplus_is_exact_at_both_ends():
    value, slope = softplus(np.array([-1e4, -40.0, 0.0, 40.0, 1e4]))
    np.testing.assert_allclose(value, [0.0, np.exp(-40.0), np.log(2.0), 40.0, 1e4], rtol=1e-15)
    np.testing.assert_allclose(slope, [0.0, np.exp(-40.0), 0.5, 1.0, 1.0], rtol=1e-15)


def test_sums_of_many_terms_do_not_overflow():
    z = rng.normal(size=(2500, 1, 2))  # a product of 2500 factors of up to 2 would
    value, slope = softplus_sum(z)
    assert value == pytest.approx(np.logaddexp(0.0, z).sum(), rel=1e-12)
    np.testing.assert_allclose(slope, 1.0 / (1.0 + np.exp(-z)), rtol=1e-13)
    assert softplus_sum(np.zeros((2500, 1, 1)))[0] == pytest.approx(2500 * np.log(2.0), rel=1e-12)


def test_a_radius_is_the_length_of_the_smallest_move_that_makes_two_points_equally_near():
    L = rng.normal(size=(3, 3))
    x, same, other = rng.normal(size=(3, 3))
    near, far, across = (np.sum(v**2) for v in (L @ (x - same), L @ (x - other), L.T @ L @ (same - other)))
    one = np.ones((1, 1), dtype=bool)
    (radius,) = Radius(one, one).radii(np.array([near]), np.array([far]), np.array([across]))

    def gap(move):
        return np.sum((L @ (x + move - same)) ** 2) - np.sum((L @ (x + move - other)) ** 2)

    found = minimize(
        lambda move: move @ move, np.ones(3), constraints={"type": "eq", "fun": gap}, options={"ftol": 1e-14}
    )
    assert gap(found.x) == pytest.approx(0.0, abs=1e-9)  # older releases do not call this ftol met
    assert abs(radius) == pytest.approx(np.linalg.norm(found.x), rel=1e-4)
    assert np.sign(radius) == np.sign(far - near)
