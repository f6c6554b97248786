"""NeighborAML: candidates against brute force, the objective against loops, refreshes, awkward data."""

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from advmetric import GMML, NeighborAML, PairAML, load_dataset
from advmetric.algorithms.discriminative import candidates
from advmetric.algorithms.discriminative.candidates import choose_anchors, find_candidates
from advmetric.algorithms.discriminative.neighbor_problem import LOSSES, loss_of, pose_neighbors, start_of_points
from advmetric.algorithms.discriminative.problem import Problem
from advmetric.evaluation.robustness import attack_knn
from advmetric.metric.knn import knn_predict
from advmetric.pairs.scatter import all_pairs_scatter
from reference.discriminative import adversarial, mean_loss, scaled_start, squares


def clusters(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, d)) + 1.5 * np.eye(3)[y][:, :d]
    return X - X.mean(axis=0), y


# --- candidates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", [7, 1 << 14])
def test_candidates_are_the_nearest_of_both_kinds(pool, monkeypatch):
    monkeypatch.setattr(candidates, "_POOL", pool)
    monkeypatch.setattr(candidates, "_BLOCK_BYTES", 4000)
    X, y = clusters(n=700)
    anchors = np.arange(0, 700, 3)
    found = find_candidates(X, y, anchors, 4, 6)
    distances = cdist(X, X)
    np.fill_diagonal(distances, np.inf)
    for i, (a, near, far) in enumerate(zip(anchors, found.similar, found.dissimilar, strict=True)):
        order = np.argsort(distances[a])
        same = y[order] == y[a]
        assert near.tolist() == order[same & (order != a)][:4].tolist(), i
        assert far.tolist() == order[~same][:6].tolist()
    near, far = found.edges()
    assert (len(near), len(far)) == (4 * len(anchors), 6 * len(anchors))
    assert found.change(found) == 0.0
    assert 0.0 < found.change(find_candidates(X * [1.0, 5.0, 0.2], y, anchors, 4, 6)) < 1.0


def test_missing_candidates_are_marked():
    X, y = np.arange(7.0)[:, None], np.array([0, 0, 0, 1, 1, 2, 2])
    y[6] = 3
    found = find_candidates(X, y, np.arange(7), 2, 5)
    np.testing.assert_array_equal(found.similar, [[1, 2], [0, 2], [1, 0], [4, -1], [3, -1], [-1, -1], [-1, -1]])
    np.testing.assert_array_equal((found.dissimilar >= 0).sum(axis=1), [4, 4, 4, 5, 5, 5, 5])


def test_equal_distances_are_all_found():
    """Many ties: more entries within the bound than a row has room for."""
    X, y = np.zeros((600, 2)), np.arange(600) % 2
    found = find_candidates(X, y, np.arange(600), 3, 5)
    assert np.all(found.similar >= 0)
    assert np.all(y[found.similar] == y[:, None])
    assert np.all(found.similar != np.arange(600)[:, None])
    assert np.all(y[found.dissimilar] != y[:, None])


def test_anchors_keep_the_shares_of_the_classes():
    y = np.repeat([0, 1, 2], [700, 200, 100])
    chosen = choose_anchors(y, 100, np.random.RandomState(0))
    np.testing.assert_array_equal(np.bincount(y[chosen]), [70, 20, 10])
    assert len(np.unique(chosen)) == 100
    assert len(choose_anchors(y, None, np.random.RandomState(0))) == 1000
    assert len(choose_anchors(np.zeros(10**6, dtype=int), None, np.random.RandomState(0))) == 5000


# --- the problem ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "alpha"), [("margin", 1.5), ("softmax", 1.5), ("radius", 1.5), ("radius", 0.0)])
def test_the_objective_and_its_gradient_are_those_of_a_plain_loop(loss, alpha):
    X, y = clusters(n=25)
    beta, gamma, t, reg, unit = 2.0, 0.1, 0.2, 1e-2, 0.7
    start, graph = start_of_points(X, y, np.arange(25), 2, 4, t=t, reg=reg, prior=None, n_components=None)
    problem = pose_neighbors(start, graph, loss_of(loss, graph, unit=unit), alpha, beta, gamma)
    L = np.eye(3) + 0.3 * np.random.default_rng(1).normal(size=(3, 3))
    value, gradient, _ = problem.evaluate(L, 0.0)

    scatter = all_pairs_scatter(X, y)
    A, B = (S + reg * np.trace(S) / 3 * np.eye(3) for S in (scatter.A, scatter.B))

    def nearest_square(M):
        V = X[:, None] - X
        D = np.einsum("ijk,kl,ijl->ij", V, M, V)
        D[(y[:, None] != y) | np.eye(25, dtype=bool)] = np.inf
        return np.median(D.min(axis=1))

    M0, A, B = (torch.tensor(value) for value in scaled_start(A, B, t, nearest_square))
    factor = torch.tensor(L, requires_grad=True)
    components = factor @ torch.tensor(start.R)
    M, c, points = components.T @ components, beta * torch.trace(M0) / 3, torch.tensor(X)
    softplus, totals = torch.nn.functional.softplus, []
    for harder in (False, True):
        terms = []
        for i in range(25):
            to_near, to_far = (points[i] - points[found[i]] for found in (graph.similar, graph.dissimilar))
            S = adversarial(to_near, M, c, True) if harder else squares(to_near, M)
            D = adversarial(to_far, M, c, False) if harder else squares(to_far, M)
            if loss == "margin":
                terms += [softplus(s - d + 1) for s in S for d in D]
            elif loss == "radius":
                pairs = torch.cartesian_prod(*(torch.tensor(found[i]) for found in (graph.similar, graph.dissimilar)))
                steep = torch.linalg.norm((points[pairs[:, 0]] - points[pairs[:, 1]]) @ M, dim=1)
                radii = (D[None] - S[:, None]).ravel() / (2.0 * steep) * torch.sqrt(c / beta)
                terms += list(softplus(1.0 - radii / unit))
            else:
                own = torch.exp(-S).sum()
                terms.append(-torch.log(own / (own + torch.exp(-D).sum())))
        totals.append(sum(terms) / len(terms))
    expected = (totals[0] + alpha * totals[1]) / (1 + alpha) + gamma * mean_loss(M, M0, A, B)
    expected.backward()
    exact = 1e-8 if loss == "radius" else 1e-9  # the radii have a small number in their denominators
    assert value == pytest.approx(expected.item(), rel=exact)
    np.testing.assert_allclose(gradient, factor.grad, atol=1e-8 * np.abs(gradient).max())


# --- the estimator --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_never_rises_between_refreshes(loss, vehicle):
    learner = NeighborAML(loss=loss, n_refresh=3, tol=1e-4).fit(vehicle.X, vehicle.y)
    rounds = np.split(learner.objective_, learner.round_starts_[1:])
    assert len(rounds) == len(learner.round_starts_) == 4
    assert all(np.all(np.diff(values) <= 0.0) for values in rounds)
    assert learner.converged_
    assert len(learner.candidate_changes_) == 3
    assert learner.candidate_changes_[-1] < learner.candidate_changes_[0]


def test_refreshing_stops_when_it_changes_nothing_more():
    X, y = clusters(n=150)
    learner = NeighborAML(n_refresh=30, tol=1e-4).fit(X, y)
    assert learner.settled_
    assert learner.candidate_changes_[-1] <= 0.01
    assert len(learner.candidate_changes_) < 30
    assert not NeighborAML(n_refresh=0).fit(X, y).settled_


@pytest.mark.parametrize("loss", LOSSES)
def test_a_large_gamma_gives_the_metric_of_gmml(loss, vehicle):
    learner = NeighborAML(loss=loss, gamma=1e7, t=0.2).fit(vehicle.X, vehicle.y)
    M, expected = (fitted.get_mahalanobis_matrix() for fitted in (learner, GMML(t=0.2).fit(vehicle.X, vehicle.y)))
    np.testing.assert_allclose(M / np.trace(M), expected / np.trace(expected), atol=1e-5)


def test_the_radius_that_counts_is_relative_to_the_mean_one_under_the_start():
    X, y = clusters()
    M = GMML(t=0.1).fit(X, y).get_mahalanobis_matrix()
    distances = cdist(X, X, "mahalanobis", VI=M) ** 2
    np.fill_diagonal(distances, np.inf)
    radii = []
    for i, row in enumerate(distances):
        same, others = (sorted(np.flatnonzero(kind), key=lambda k: row[k])[:5] for kind in (y == y[i], y != y[i]))
        radii += [(row[k] - row[j]) / (2 * np.linalg.norm(M @ (X[j] - X[k]))) for j in same for k in others]
    for radius in (0.15, 1.0):
        expected = np.mean(np.logaddexp(0.0, 1.0 - np.array(radii) / (radius * np.mean(np.abs(radii)))))
        learner = NeighborAML(loss="radius", radius=radius, n_neighbors=5, alpha=0.0, n_refresh=0).fit(X, y)
        assert learner.objective_[0] == pytest.approx(expected, rel=1e-6)
        assert learner.objective_[-1] < learner.objective_[0]


def test_a_larger_radius_resists_longer_moves(vehicle):
    train, test = np.arange(846) % 4 > 0, np.arange(846) % 4 == 0
    errors = []
    for radius in (0.15, 1.0):
        L = NeighborAML(loss="radius", radius=radius, t=0.25).fit(vehicle.X[train], vehicle.y[train]).components_
        fooled = attack_knn(L, vehicle.X[train], vehicle.y[train], vehicle.X[test], vehicle.y[test], 0.2, 5)
        errors.append(np.mean(fooled))
    assert errors[1] < errors[0] - 0.05  # .439 and .547


def test_the_margin_problem_has_one_optimum_for_given_candidates(vehicle):
    """Convex: from two starts, the same metric."""
    from advmetric.algorithms.discriminative.solver import minimize

    X, y = vehicle.X[:200, :6], vehicle.y[:200]
    start, graph = start_of_points(X, y, np.arange(200), 3, 10, t=0.1, reg=1e-3, prior=None, n_components=None)
    near, far = graph.edges()
    problem = Problem(start, near, far, LOSSES["margin"](graph.similar >= 0, graph.dissimilar >= 0), 1.0, 3.0, 0.03)
    first = minimize(problem, np.eye(6), tol=1e-8, max_iter=5000)
    second = minimize(problem, np.eye(6) + 0.4 * np.random.default_rng(0).normal(size=(6, 6)), tol=1e-8, max_iter=5000)
    expected = first.x[0].T @ first.x[0]
    np.testing.assert_allclose(second.x[0].T @ second.x[0], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_the_scale_of_the_features_divides_the_components(scale, vehicle):
    expected = NeighborAML().fit(vehicle.X, vehicle.y)
    learner = NeighborAML().fit(vehicle.X * scale, vehicle.y)
    np.testing.assert_allclose(
        learner.components_ * scale, expected.components_, atol=1e-3 * expected.components_.max()
    )


def test_it_separates_neighbours_better_than_its_start(vehicle):
    def leave_one_out(learner):
        Z = learner.fit(vehicle.X, vehicle.y).transform(vehicle.X)
        D = cdist(Z, Z)
        np.fill_diagonal(D, np.inf)
        return np.mean(vehicle.y[D.argmin(axis=1)] != vehicle.y)

    assert leave_one_out(NeighborAML()) < leave_one_out(GMML(t=0.1)) < leave_one_out(GMML())


def test_awkward_classes_and_features_just_work(vehicle):
    X, y = vehicle.X[:80].copy(), vehicle.y[:80].copy()
    y[0] = 9  # alone in its class
    X[:, 3], X[:, 4] = 1.0, X[:, 5]
    X[10:20] = X[10]
    for settings in ({}, {"loss": "margin"}, {"loss": "radius"}, {"n_components": 3}):
        learner = NeighborAML(**settings).fit(X, y)
        assert learner.converged_
        assert np.isfinite(learner.components_).all()
    two = NeighborAML().fit(X[:8], [0, 0, 1, 1, 2, 2, 3, 3])  # fewer rows than features, two per class
    assert two.components_.shape == (18, 18)
    assert NeighborAML(n_components=2).fit(X[:8], [0, 0, 1, 1, 2, 2, 3, 3]).components_.shape == (2, 18)
    same = NeighborAML().fit(np.ones((6, 3)), [0, 0, 0, 1, 1, 1])
    assert np.isfinite(same.components_).all()


@pytest.mark.parametrize("n", [120, 12], ids=["many rows", "fewer rows than features"])
def test_a_principal_subspace_is_that_of_a_pca_before_the_fit(vehicle, n):
    X, y = vehicle.X[:n], vehicle.y[:n]
    pca = PCA(4).fit(X)
    learner = NeighborAML(n_components=4, subspace="principal", reg=0.0).fit(X, y)
    before = NeighborAML(reg=0.0).fit(pca.transform(X), y)
    expected = pca.components_.T @ before.get_mahalanobis_matrix() @ pca.components_
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), expected, atol=1e-4 * np.abs(expected).max())
    ours, discriminant = learner.components_, NeighborAML(n_components=4).fit(X, y).components_
    outside = np.eye(18) - pca.components_.T @ pca.components_
    assert np.linalg.norm(ours @ outside) < 1e-6 * np.linalg.norm(ours)
    assert np.linalg.norm(discriminant @ outside) > 1e-2 * np.linalg.norm(discriminant)


def test_with_many_features_principal_components_do_not_fit_noise():
    data = load_dataset("mnist-4000")
    X, y = data.X.astype(float), data.y
    errors = {}
    for subspace in ("discriminant", "principal"):
        Z = NeighborAML(n_components=60, subspace=subspace).fit(X[::4], y[::4]).transform(X)
        errors[subspace] = np.mean(knn_predict(Z[::4], y[::4], Z[2::8], 5) != y[2::8])
    assert errors["principal"] < 0.5 * errors["discriminant"]  # .078 and .256


def test_by_default_many_features_are_reduced_to_principal_components():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(170, 160)) * 0.98 ** np.arange(160), np.arange(170) % 3
    even = rng.normal(size=(900, 240))  # 150 of 240 components of about the same variance hold less than 90 % of it
    quick = {"tol": 1e3}
    held = PCA().fit(even).explained_variance_ratio_.cumsum()
    learner = NeighborAML(**quick).fit(even, np.arange(900) % 3)
    assert len(learner.components_) == 1 + np.searchsorted(held, 0.9) > 180
    given = NeighborAML(n_components=150, subspace="principal", **quick).fit(X, y)
    np.testing.assert_array_equal(NeighborAML(**quick).fit(X, y).components_, given.components_)
    assert NeighborAML(**quick).fit(X[:, :150], y).components_.shape == (150, 150)
    assert NeighborAML(**quick).fit(X[:40], y[:40]).components_.shape == (160, 160)  # 39 directions
    assert NeighborAML(n_components=None, **quick).fit(X, y).components_.shape == (160, 160)
    with pytest.raises(ValueError, match="n_components='most' is not known"):
        NeighborAML(n_components="most").fit(X, y)


def test_running_out_of_iterations_warns(vehicle):
    with pytest.warns(ConvergenceWarning, match="NeighborAML did not converge"):
        NeighborAML(max_iter=1, n_refresh=0, tol=1e-8).fit(vehicle.X, vehicle.y)


def test_few_anchors_give_a_metric_close_to_that_of_all_points(vehicle):
    some = NeighborAML(n_anchors=400, random_state=0).fit(vehicle.X, vehicle.y).get_mahalanobis_matrix()
    every = NeighborAML().fit(vehicle.X, vehicle.y).get_mahalanobis_matrix()
    assert np.vdot(some, every) > 0.9 * np.linalg.norm(some) * np.linalg.norm(every)


def test_memory_grows_with_the_candidates_not_with_the_square_of_the_points():
    rng = np.random.default_rng(0)
    n = 6000
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, 5)) + np.eye(5)[y]
    tracemalloc.start()
    NeighborAML(n_refresh=1, tol=0.1).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 8 * n * n


@pytest.mark.parametrize("loss", LOSSES)
def test_few_anchors_in_parts_give_the_metric_of_all_rows_at_once(loss, vehicle, monkeypatch):
    learner = NeighborAML(loss=loss, n_anchors=100, random_state=0)
    monkeypatch.setattr("advmetric.learners.parts._LOCAL_BYTES", 100 * 8 * 18)
    found = learner.fit(vehicle.X, vehicle.y).get_mahalanobis_matrix()
    monkeypatch.setattr("advmetric.algorithms.discriminative.neighbor_aml.chooses_few", lambda n, n_anchors: False)
    expected = learner.fit(vehicle.X, vehicle.y).get_mahalanobis_matrix()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize(
    "learner",
    [NeighborAML(loss="margin", n_anchors=200, n_refresh=1, tol=0.1), PairAML(pairs=2000, tol=0.1, random_state=0)],
    ids=str,
)
def test_memory_mapped_points_in_single_precision_are_not_copied(learner, tmp_path):
    n, d = 150_000, 50
    y = np.arange(n) % 3
    rows = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    rows[:, :3] += np.eye(3, dtype=np.float32)[y]
    np.save(tmp_path / "X.npy", rows)
    del rows
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    tracemalloc.start()
    learner.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * n * d, "of the file; a copy in double precision would take twice this"
    assert learner.get_mahalanobis_matrix().shape == (d, d)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "loss='hinge' is not known"),
        ({"beta": 0.0}, "beta=0.0 must be"),
        ({"alpha": -1.0}, "alpha=-1.0 must be"),
        ({"radius": 0.0}, "radius=0.0 must be"),
        ({"n_neighbors": 0}, "n_neighbors=0 must be"),
        ({"n_components": 19}, "n_components=19 is more than the 18 features"),
    ],
)
def test_bad_parameters_are_named(settings, message, vehicle):
    with pytest.raises(ValueError, match=message):
        NeighborAML(**settings).fit(vehicle.X, vehicle.y)


def test_with_radii_no_step_could_cross_a_singular_factor(monkeypatch):
    """On labels that say little about the points, the solver tries such steps."""
    tried, evaluate = [], Problem.evaluate
    monkeypatch.setattr(Problem, "evaluate", lambda self, L, b: tried.append(L) or evaluate(self, L, b))
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((200, 6)), rng.integers(0, 2, 200)
    NeighborAML(loss="radius", gamma=0.01, n_refresh=0, tol=1e-3).fit(X, y)
    nearest = [
        min(np.linalg.norm(L @ np.linalg.inv(before) - np.eye(6), 2) for before in tried[:place])
        for place, L in enumerate(tried)
        if place
    ]
    assert max(nearest) < 1.0
