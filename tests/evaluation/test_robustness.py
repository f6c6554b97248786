"""Test-time robustness: worst pairs against independent optimisers, k-NN attack and certificate against the truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize, minimize_scalar
from sklearn.metrics import roc_auc_score

from advmetric import GMML
from advmetric.evaluation import field, robustness, worst_pairs
from advmetric.evaluation.robustness import attack_knn, certified_knn, certified_radius, robustness_curve
from advmetric.evaluation.worst_pairs import worst_pair_auc, worst_pair_distances
from advmetric.experiments.protocol import split
from advmetric.metric.knn import knn_predict

EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)


def metric(kind: str, d: int, rng: np.random.Generator) -> np.ndarray:
    """Components of a metric: "full" and "low" rank, values "spread" over twelve decades, two equal at the top."""
    if kind == "full":
        return rng.normal(size=(d, d))
    if kind == "low":
        return rng.normal(size=(max(1, d // 2), d))
    U, Q = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    values = np.logspace(-6, 6, d) if kind == "spread" else np.r_[2.0, 2.0, rng.uniform(0.1, 1.0, size=d - 2)]
    return (U * values) @ Q.T


KINDS = ["full", "low", "spread", "twin"]


def mixed_pairs(L: np.ndarray, rng: np.random.Generator, n: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Ordinary, short and zero differences, and some without a component in the top eigenspace (the hard case)."""
    d = L.shape[1]
    V = rng.normal(size=(n, d))
    V[::4] *= 0.05
    V[1] = V[2] = 0.0
    top = np.linalg.svd(L)[2][:2]
    V[3:7] -= V[3:7] @ top.T @ top
    return V, np.where(np.arange(n) % 2 == 0, 1, -1)


# --- pairs: against optimisers that know nothing of eigenvectors ----------------------------------------------


def projected_gradient(
    L: np.ndarray, V: np.ndarray, radius: float, signs: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Best ‖L(v + δ)‖ for each row v over 20 starts: ascent (sign = 1) or descent (-1) on its square."""
    M, v, sign = L.T @ L, V[:, None], signs[:, None, None]
    delta = rng.normal(size=(len(V), 20, V.shape[1]))
    delta *= radius / np.linalg.norm(delta, axis=-1, keepdims=True)
    step = 0.5 / np.linalg.norm(M, 2)
    for _ in range(4000):
        delta = delta + sign * step * 2.0 * (v + delta) @ M
        delta *= np.minimum(1.0, radius / np.maximum(np.linalg.norm(delta, axis=-1, keepdims=True), radius))
    return signs * np.max(signs[:, None] * np.linalg.norm((v + delta) @ L.T, axis=-1), axis=1)


@pytest.mark.parametrize("kind", ["full", "low", "twin"])
@pytest.mark.parametrize("d", [2, 4])
def test_worst_pairs_are_those_of_projected_gradient(kind, d):
    rng = np.random.default_rng(d)
    L = metric(kind, d, rng)
    V, labels = mixed_pairs(L, rng, 12)
    expected = projected_gradient(L, V, 0.6, labels, rng)
    found = worst_pair_distances(L, V, labels, 0.3)
    assert np.all(labels * found >= labels * expected - 1e-10)
    # Descent on a flat bottom is slow.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-5)


@pytest.mark.parametrize("kind", ["full", "low", "twin"])
def test_worst_pairs_are_those_of_scipys_slsqp(kind):
    rng = np.random.default_rng(7)
    L, radius = metric(kind, 4, rng), 0.8
    M = L.T @ L
    V, labels = mixed_pairs(L, rng, 12)
    ball = {"type": "ineq", "fun": lambda e: radius**2 - e @ e, "jac": lambda e: -2.0 * e}
    for v, y, found in zip(V, labels, worst_pair_distances(L, V, labels, 0.4), strict=True):

        def loss(e, v=v, y=y):
            return -y * (v + e) @ M @ (v + e), -y * 2.0 * M @ (v + e)

        starts = rng.normal(scale=radius / 2.0, size=(8, 4))
        solved = [
            minimize(loss, e, jac=True, method="SLSQP", constraints=[ball], options={"ftol": 1e-15}) for e in starts
        ]
        # SLSQP may leave the ball by its tolerance: back to it.
        inside = [e.x * min(1.0, radius / max(np.linalg.norm(e.x), radius)) for e in solved]
        best = -y * min(loss(e)[0] for e in inside)
        assert y * found**2 >= y * best - 1e-12
        assert found**2 == pytest.approx(best, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eps", [1e-6, 0.01, 0.2, 0.5, 30.0])
def test_worst_pairs_meet_the_dual_bound(kind, eps):
    """Strong duality: max = min over μ >= λ_max, min = max over μ >= 0 of Σ ± λ μ a²/(μ ∓ λ) ± μ r²."""
    rng = np.random.default_rng(3)
    L, radius = metric(kind, 6, rng), 2.0 * eps
    V, labels = mixed_pairs(L, rng)
    sigma, Ut = np.linalg.svd(L)[1:]
    lam = np.zeros(6)
    lam[: len(sigma)] = (sigma / sigma[0]) ** 2
    A = V @ Ut.T
    for a, y, found in zip(A, labels, worst_pair_distances(L, V, labels, eps) / sigma[0], strict=True):
        # In the logarithm of the multiplier, by scipy's Brent method from every decade.
        def dual(t, a=a, y=y):
            nu = 10.0**t
            if y > 0:
                return np.sum(lam * (1.0 + nu) * a**2 / (1.0 - lam + nu)) + (1.0 + nu) * radius**2
            return radius**2 * nu - np.sum(lam * nu / (lam + nu) * a**2)

        grid = np.arange(-34.0, 10.0)
        start = grid[np.argmin([dual(t) for t in grid])]
        bound = minimize_scalar(dual, bounds=(start - 1.0, start + 1.0), method="bounded", options={"xatol": 1e-12}).fun
        # In the metric's own unit: what lies below 1e-8 of the top scale squared is rounding.
        assert found**2 == pytest.approx(max(y * bound, 0.0), rel=1e-8, abs=1e-15 * (a @ a + radius**2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eps", [0.0, 0.01, 0.2, 0.5])
def test_worst_pairs_obey_the_crude_bound_and_go_the_right_way(kind, eps):
    rng = np.random.default_rng(5)
    L = metric(kind, 7, rng)
    V, labels = mixed_pairs(L, rng, 200)
    plain, top = np.linalg.norm(V @ L.T, axis=1), np.linalg.norm(L, 2)
    change = labels * (worst_pair_distances(L, V, labels, eps) - plain)
    assert np.all(change >= -1e-12 * top)
    assert np.all(change <= 2.0 * eps * top * (1.0 + 1e-12))
    if eps == 0.0:
        np.testing.assert_array_equal(change, 0.0)
    else:
        # v = 0: the similar pair is drawn out along the top eigenvector, the dissimilar one stays closed.
        np.testing.assert_allclose(change[2], 2.0 * eps * top, rtol=1e-12)
        assert change[1] == 0.0


@pytest.mark.parametrize("a", [0.0, 0.6, 1.4999, 1.5, 1.5001, 3.0])
@pytest.mark.parametrize("leak", [0.0, 1e-300, 1e-17, 1e-9])
def test_the_hard_case_has_its_closed_form(a, leak):
    """λ = (4, 1), v = (0, a), r = 1/2: δ = (√(r² - a²/9), a/3) while a <= 3r, and (0, r) from there on."""
    L = np.diag([2.0, 1.0])
    expected = np.sqrt(4.0 * (0.25 - a**2 / 9.0) + (4.0 * a / 3.0) ** 2) if a <= 1.5 else a + 0.5
    (found,) = worst_pair_distances(L, np.array([[leak, a]]), np.array([1]), 0.25)
    np.testing.assert_allclose(found, expected, rtol=1e-14 + 10.0 * leak)


def test_the_secular_equation_is_solved_across_boundary_layers():
    """c_1 → 0 hides the root behind a layer of width c_1, in which Newton's steps alone are as short as the layer."""
    excess = np.array([[1e-8, 1e-5, 1e-3, 0.1, 10.0]]).T
    for first in (1e-200, 1e-30, 1e-12, 1e-6, 1e-2):
        c = np.hstack([np.full_like(excess, first), np.sqrt((1.0 + excess) / 2.0), np.sqrt((1.0 + excess) / 2.0)])
        gap = np.array([0.0, 1.0, 1.0])
        nu = worst_pairs._secular_root(c, gap, max_iter=25)
        np.testing.assert_allclose(np.linalg.norm(c / (nu[:, None] + gap), axis=1), 1.0, rtol=1e-14)


def test_a_dissimilar_pair_is_closed_exactly_when_it_can_be():
    L = np.array([[3.0, 0.0, 0.0], [0.0, 1e-3, 0.0]])
    # 100 lies in the null space: it neither needs to be closed nor helps.
    V = np.array([[0.3, 0.4, 100.0], [0.3, 0.41, 100.0], [0.0, 0.0, 100.0]])
    found = worst_pair_distances(L, V, -np.ones(3), 0.25)
    assert found[0] == found[2] == 0.0
    assert 0.0 < found[1] < 0.01 * 1e-3 + 1e-12


def test_no_metric_no_distance():
    np.testing.assert_array_equal(worst_pair_distances(np.zeros((2, 3)), np.ones((4, 3)), np.ones(4), 0.5), 0.0)


def test_worst_pair_auc_is_that_of_the_worst_distances():
    rng = np.random.default_rng(1)
    L, V = metric("full", 5, rng), rng.normal(size=(300, 5))
    labels = np.where(np.linalg.norm(V @ L.T, axis=1) + rng.normal(size=300) < 4.0, 1, -1)
    aucs = [worst_pair_auc(L, V, labels, eps) for eps in EPSILONS]
    assert aucs[0] == roc_auc_score(labels, -np.linalg.norm(V @ L.T, axis=1))
    assert np.all(np.diff(aucs) < 0.0)
    far, near = worst_pair_distances(L, V, np.ones(300), 0.2), worst_pair_distances(L, V, -np.ones(300), 0.2)
    wins = np.mean(far[labels > 0][:, None] < near[labels < 0])
    assert aucs[EPSILONS.index(0.2)] == pytest.approx(wins, abs=1e-12)


# --- k-NN: exact answers in small cases -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "low", "twin"])
def test_two_points_give_both_sides_the_exact_radius(kind):
    """One point of each class and k = 1: the decision flips at the hyperplane, (d_j² - d_s²) / 2‖M(x_j - x_s)‖ away."""
    rng = np.random.default_rng(0)
    L = metric(kind, 5, rng)
    for _ in range(20):
        points, x = rng.normal(size=(2, 5)), rng.normal(size=(1, 5))
        d = np.sum(((points - x) @ L.T) ** 2, axis=1)
        right = np.array([np.argmin(d)])
        exact = np.ptp(d) / (2.0 * np.linalg.norm(L.T @ L @ (points[1] - points[0])))
        data = (L, points, np.arange(2), x, right)
        assert certified_radius(*data, k=1) == pytest.approx(exact, rel=1e-6)
        assert not attack_knn(*data, 0.999999 * exact, k=1).any()
        assert attack_knn(*data, 1.000001 * exact, k=1, steps=1).all()
        assert attack_knn(*data, 1.000001 * exact, k=1, steps=8).all()


def worst_on_the_line(z, y, t, label, reach, k=5):
    """Is there a misclassified place in [t - reach, t + reach]? Between two crossings nothing changes."""
    crossings = (z[:, None] + z)[np.triu_indices(len(z), 1)] / 2.0
    inside = np.sort(crossings[np.abs(crossings - t) < reach])
    edges = np.r_[t - reach, inside, t + reach]
    places = np.r_[t, (edges[1:] + edges[:-1]) / 2.0]
    return bool(np.any(knn_predict(z[:, None], y, places[:, None], k) != label))


@pytest.mark.parametrize("eps", [0.01, 0.05, 0.2])
def test_on_a_line_the_worst_case_lies_between_attack_and_certificate(eps):
    """A metric of rank one makes the game one-dimensional, where the worst case can be listed."""
    rng = np.random.default_rng(2)
    X, test = rng.normal(size=(60, 3)), rng.normal(size=(80, 3))
    direction = np.array([0.6, 0.0, 0.8])
    # Classes alternate along the line, with noise.
    y, label = (np.floor(1.5 * (P @ direction) + 0.2 * rng.normal(size=len(P))).astype(int) % 3 for P in (X, test))
    exact = np.array(
        [worst_on_the_line(X @ direction, y, t, c, eps) for t, c in zip(test @ direction, label, strict=True)]
    )
    fooled = attack_knn(7.0 * direction[None], X, y, test, label, eps)
    certified = certified_knn(7.0 * direction[None], X, y, test, label, eps)
    assert not np.any(fooled & ~exact)
    assert not np.any(certified & exact)
    assert exact.sum() - fooled.sum() <= 2
    assert certified.sum() >= 10
    assert 0.1 < exact.mean() < 0.95


@pytest.mark.parametrize("n_classes", [2, 4])
def test_in_the_plane_a_grid_search_finds_little_more_than_the_attack_and_nothing_certified(n_classes):
    rng = np.random.default_rng(n_classes)
    centres = 1.6 * np.array([[0.0, 0.0], [1.0, 0.5], [0.0, 1.0], [1.0, -1.0]])[:n_classes]
    y, label = np.arange(200) % n_classes, np.arange(120) % n_classes
    X, test = centres[y] + rng.normal(size=(200, 2)), centres[label] + rng.normal(size=(120, 2))
    L, eps = metric("full", 2, rng), 0.2
    grid = np.stack(np.meshgrid(*[np.linspace(-eps, eps, 41)] * 2), axis=-1).reshape(-1, 2)
    grid = grid[np.linalg.norm(grid, axis=1) <= eps]
    places = ((test[:, None] + grid) @ L.T).reshape(-1, 2)
    searched = np.any(knn_predict(X @ L.T, y, places).reshape(len(test), -1) != label[:, None], axis=1)
    fooled, certified = (side(L, X, y, test, label, eps) for side in (attack_knn, certified_knn))
    assert not np.any(certified & (searched | fooled))
    assert np.mean(fooled[searched]) >= 0.93
    plain = np.mean(knn_predict(X @ L.T, y, test @ L.T) != label)
    assert plain + 0.05 < searched.mean() < 0.9


def certified_by_loops(L, X, y, x, label, eps, k=5):
    """Both rules of the certificate, point by point."""
    M = L.T @ L
    d = np.array([(p - x) @ M @ (p - x) for p in X])

    def ahead(j, s):
        return d[j] - d[s] <= 2.0 * eps * np.linalg.norm(M @ (X[j] - X[s]))

    order = np.argsort(d)
    own = [i for i in order if y[i] == label][: k // 2 + 1]
    others = [j for j in order if y[j] != label]
    if len(own) == k // 2 + 1 and all(sum(ahead(j, s) for j in others) <= k - len(own) for s in own):
        return True
    inside, outside = order[:k], order[k:]
    kept = sum(y[t] == label and not any(ahead(j, t) for j in outside) for t in inside)
    for rival in set(y) - {label}:
        most = sum(y[t] == rival for t in inside)
        most += sum(y[j] == rival and any(ahead(j, t) for t in inside) for j in outside)
        if most > kept or (most == kept and rival < label):
            return False
    return True


@pytest.mark.parametrize("kind", ["full", "low"])
@pytest.mark.parametrize("k", [1, 4, 5])
def test_the_certificate_is_its_two_rules(kind, k):
    rng = np.random.default_rng(k)
    y, label = np.arange(40) % 3, np.arange(40) % 3
    X, test = (rng.normal(size=(40, 4)) + 0.8 * np.eye(4)[c] for c in (y, label))
    # A class of two can never have a majority of five.
    y = np.r_[y, 3, 3]
    X = np.r_[X, X[:2] + 0.1]
    L = metric(kind, 4, rng)
    seen = set()
    for eps in (0.0, 0.01, 0.05, 0.2):
        expected = [certified_by_loops(L, X, y, x, c, eps, k) for x, c in zip(test, label, strict=True)]
        np.testing.assert_array_equal(certified_knn(L, X, y, test, label, eps, k), expected)
        seen |= set(expected)
    assert seen == {True, False}


def test_a_tie_is_lost_by_the_certificate_and_decided_by_index_for_the_attack():
    """x = 0 is as far from both points: k-NN takes the first, the certificate does not trust it."""
    X, y, test = np.array([[1.0], [-1.0]]), np.array([0, 1]), np.zeros((1, 1))
    assert not attack_knn(np.eye(1), X, y, test, np.array([0]), 0.0, k=1).any()
    assert not certified_knn(np.eye(1), X, y, test, np.array([0]), 0.0, k=1).any()
    # Equal points of two classes: 0/0 in the critical radius.
    assert not certified_knn(np.eye(1), np.ones((2, 1)), y, test, np.array([0]), 0.0, k=1).any()


def test_a_tie_up_to_rounding_is_lost_too():
    rng = np.random.default_rng(0)
    for label in np.tile([[0], [1]], (20, 1)):
        L, x, u = rng.normal(size=(4, 5)), rng.normal(size=(1, 5)), rng.normal(size=(1, 5))
        assert not certified_knn(L, np.r_[x + u, x - u], np.array([0, 1]), x, label, 0.0, k=1).any()


def test_a_class_too_small_for_a_majority_is_not_given_one():
    """Two points of class 1, then class 0 alone: three votes of five, however far away they are."""
    X, y = np.array([[0.0], [0.1], [0.3], [100.0], [101.0], [102.0]]), np.array([1, 1, 0, 0, 0, 0])
    assert certified_radius(np.eye(1), X, y, np.zeros((1, 1)), np.array([1])) == 0.0


def test_one_class_cannot_be_fooled_and_a_class_without_points_always_is():
    rng = np.random.default_rng(0)
    X, test, label = rng.normal(size=(9, 2)), rng.normal(size=(2, 2)), np.array([0, 2])
    data = (np.eye(2), X, np.zeros(9, dtype=int), test, label)
    np.testing.assert_array_equal(attack_knn(*data, 5.0), [False, True])
    np.testing.assert_array_equal(certified_radius(*data), [np.inf, 0.0])


# --- k-NN on real data ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vehicle():
    parts = split("vehicle", 0)
    return parts.X_train, parts.y_train, parts.X_test, parts.y_test


def vehicle_metric(kind, vehicle):
    if kind == "GMML":
        return GMML().fit(*vehicle[:2]).components_
    if kind == "GMML-5":
        return GMML(n_components=5).fit(*vehicle[:2]).components_
    return metric(kind, vehicle[0].shape[1], np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["GMML", "GMML-5", "low", "spread"])
def test_nothing_certified_is_fooled_and_both_start_from_the_plain_error(kind, vehicle):
    L = vehicle_metric(kind, vehicle)
    X, y, test, label = vehicle
    wrong = knn_predict(X @ L.T, y, test @ L.T) != label
    radius = certified_radius(L, *vehicle)
    np.testing.assert_array_equal(attack_knn(L, *vehicle, 0.0), wrong)
    # No two of vehicle's points are equally near to a third, so there is no tie for the certificate to lose.
    np.testing.assert_array_equal(radius == 0.0, wrong)
    for eps in EPSILONS:
        fooled, certified = attack_knn(L, *vehicle, eps), certified_knn(L, *vehicle, eps)
        np.testing.assert_array_equal(certified, radius > eps)
        assert not np.any(certified & fooled)
        assert np.all(fooled[wrong])


def test_the_bounds_on_vehicle_are_close_and_the_attack_bites(vehicle):
    L = vehicle_metric("GMML", vehicle)
    fooled, certified = attack_knn(L, *vehicle, 0.1), certified_knn(L, *vehicle, 0.1)
    assert np.mean(~certified) - np.mean(fooled) < 0.06
    assert np.mean(fooled) > np.mean(attack_knn(L, *vehicle, 0.0)) + 0.05
    # Random directions are no attack.
    noise = np.random.default_rng(0).normal(size=(12, *vehicle[2].shape))
    noise *= 0.1 / np.linalg.norm(noise, axis=2, keepdims=True)
    tried = [attack_knn(L, *vehicle[:2], vehicle[2] + shift, vehicle[3], 0.0) for shift in noise]
    assert np.mean(fooled) > np.mean(np.any(tried, axis=0)) + 0.02
    assert not np.any(np.any(tried, axis=0) & certified)


def test_more_steps_and_each_kind_of_step_pay(vehicle):
    """Steps are nested, so success can only grow with them; re-picking and short steps are what later ones add."""
    L = vehicle_metric("GMML", vehicle)
    found = [attack_knn(L, *vehicle, 0.5, steps=steps) for steps in (1, 2, 12)]
    assert np.all(found[0] <= found[1])
    assert np.all(found[1] <= found[2])
    assert found[0].sum() < found[1].sum() < found[2].sum() - 5


@pytest.mark.parametrize("block", [1, 3000, 1 << 16])
def test_blocks_change_nothing(monkeypatch, vehicle, block):
    L = vehicle_metric("GMML", vehicle)
    fooled, radius = attack_knn(L, *vehicle, 0.2), certified_radius(L, *vehicle)
    monkeypatch.setattr(field, "_BLOCK", block)
    np.testing.assert_array_equal(attack_knn(L, *vehicle, 0.2), fooled)
    np.testing.assert_allclose(certified_radius(L, *vehicle), radius, rtol=1e-9)


def vehicle_pairs(vehicle, n=2000):
    rng = np.random.default_rng(0)
    left, right = rng.integers(len(vehicle[2]), size=(2, n))
    pairs = np.stack([vehicle[2][left], vehicle[2][right]], axis=1)
    return pairs, np.where(vehicle[3][left] == vehicle[3][right], 1, -1)


@pytest.mark.parametrize("kind", ["GMML", "GMML-5", "spread"])
def test_the_curve_does_not_depend_on_the_scale_or_the_origin(kind, vehicle):
    L, (pairs, labels) = vehicle_metric(kind, vehicle), vehicle_pairs(vehicle)
    curve = robustness_curve(L, *vehicle, EPSILONS, pairs, labels)
    X, y, test, label = vehicle
    for factor, shift in ((10.0, 0.0), (1e-100, 0.0), (1.0, 1e6)):
        other = robustness_curve(factor * L, X + shift, y, test + shift, label, EPSILONS, pairs + shift, labels)
        for name in ("attacked_error", "uncertified"):
            np.testing.assert_array_equal(getattr(other, name), getattr(curve, name))
        # Pairs at all but the same distance may swap by rounding.
        np.testing.assert_allclose(other.pair_auc, curve.pair_auc, atol=1e-5)


def test_the_curve_collects_the_three_measures(vehicle):
    L, (pairs, labels) = vehicle_metric("GMML", vehicle), vehicle_pairs(vehicle)
    curve = robustness_curve(L, *vehicle, EPSILONS, pairs, labels)
    V = pairs[:, 0] - pairs[:, 1]
    fooled = [attack_knn(L, *vehicle, eps) for eps in EPSILONS]
    np.testing.assert_array_equal(curve.attacked_error, np.mean(np.logical_or.accumulate(fooled), axis=1))
    np.testing.assert_array_equal(curve.uncertified, [np.mean(~certified_knn(L, *vehicle, eps)) for eps in EPSILONS])
    np.testing.assert_array_equal(curve.pair_auc, [worst_pair_auc(L, V, labels, eps) for eps in EPSILONS])
    np.testing.assert_array_equal(curve.epsilons, EPSILONS)
    assert np.all(curve.attacked_error <= curve.uncertified)
    assert curve.attacked_error[0] == curve.uncertified[0]
    assert np.all(np.diff(curve.attacked_error) > 0.0)
    again = robustness_curve(L, *vehicle, EPSILONS, V, labels)
    np.testing.assert_array_equal(again.pair_auc, curve.pair_auc)


def test_a_point_once_fooled_stays_fooled_on_the_curve(monkeypatch, vehicle):
    """An attack may miss at a larger radius what it found at a smaller one; the curve may not."""
    fickle = {0.0: 0, 0.1: 7, 0.2: 3}

    def attack(field, rows, eps, steps):
        return rows % 10 == fickle[eps]

    monkeypatch.setattr(robustness, "_attack", attack)
    curve = robustness_curve(np.eye(18), *vehicle, list(fickle), *vehicle_pairs(vehicle, 50))
    np.testing.assert_allclose(curve.attacked_error, [0.1, 0.2, 0.3])


@pytest.mark.numerical
def test_points_and_labels_are_taken_in_any_form(vehicle):
    X_train, y_train, X_test, y_test = vehicle
    L, names = GMML().fit(X_train, y_train).components_, np.array(["bus", "opel", "saab", "van"])
    radius, attacked = certified_radius(L, *vehicle), attack_knn(L, *vehicle, 0.1)
    forms = (X_train.tolist(), names[y_train], pd.DataFrame(X_test), pd.Series(names[y_test]))
    # Forms differ in the order of their numbers in memory, so sums are rounded differently.
    np.testing.assert_allclose(certified_radius(L.tolist(), *forms), radius, rtol=1e-9, atol=1e-12)
    assert np.sum(attack_knn(L, *forms, 0.1) != attacked) <= 1
    unknown = np.where(np.arange(len(y_test)) == 0, "tram", names[y_test])
    assert certified_radius(L, X_train, names[y_train], X_test, unknown)[0] == 0.0
    assert attack_knn(L, X_train, names[y_train], X_test, unknown, 0.1)[0]
    with pytest.raises(ValueError, match="X_test contains NaN at row 0, column 0"):
        certified_radius(L, X_train, y_train, X_test * np.nan, y_test)
    with pytest.raises(ValueError, match="X_test has 17 features, but the metric is expecting 18"):
        certified_radius(L, X_train, y_train, X_test[:, 1:], y_test)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        certified_radius(L, X_train, y_train[1:], X_test, y_test)


def test_radii_and_neighbours_that_make_no_sense_are_refused(vehicle):
    L = np.eye(18)
    for eps in (-0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match="not a radius"):
            attack_knn(L, *vehicle, eps)
        with pytest.raises(ValueError, match="not a radius"):
            certified_knn(L, *vehicle, eps)
        with pytest.raises(ValueError, match="not a radius"):
            worst_pair_distances(L, vehicle[2], vehicle[3], eps)
    with pytest.raises(ValueError, match="neighbours are wanted"):
        certified_knn(L, *vehicle, 0.1, k=677)
    with pytest.raises(ValueError, match="not decrease"):
        robustness_curve(L, *vehicle, [0.1, 0.0], vehicle[2], vehicle[3])
