"""ARML: the radius of a triplet, its gradient, and what the learned metric is for."""

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from advmetric import ARML, load_dataset
from advmetric.algorithms.arml import LOSSES, evaluate, maximise_radii
from advmetric.evaluation.robustness import certified_radius
from advmetric.pairs.triplets import nearest_impostors, target_neighbors

pytestmark = pytest.mark.numerical


def sample(n=40, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = rng.standard_normal((n, d)) + np.eye(3, d)[y]
    y[:2] = [7, 8]  # alone in their classes
    return X, y


def radius(x, near, far, M):
    """As in the paper, without the cut at 0; x, near and far are NumPy's or PyTorch's."""
    gap = (x - far) @ M @ (x - far) - (x - near) @ M @ (x - near)
    return gap / (2 * ((near - far) @ M @ M @ (near - far)) ** 0.5)


def test_the_radius_is_the_distance_from_the_plane_on_which_both_are_equally_near():
    rng = np.random.default_rng(1)
    L = rng.standard_normal((3, 3))
    M = L.T @ L
    for x, near, far in rng.standard_normal((20, 3, 3)):
        eps = -evaluate(L, (near - x)[None], (far - x)[None])[0]
        assert eps == pytest.approx(radius(x, near, far, M), rel=1e-12)
        normal = M @ (far - near)
        along = rng.standard_normal(3)
        along -= (along @ normal) / (normal @ normal) * normal
        for moved in (x + eps * normal / np.linalg.norm(normal) + step * along for step in (0.0, 1.0)):
            # A plane with this normal, so that no move that is shorter gets there.
            assert np.sum((L @ (moved - near)) ** 2) == pytest.approx(np.sum((L @ (moved - far)) ** 2), rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_value_and_gradient_are_those_of_autograd(loss):
    X, near, far = np.random.default_rng(2).standard_normal((3, 50, 4))
    L = np.random.default_rng(3).standard_normal((4, 4))
    factor = torch.tensor(L, requires_grad=True)
    M = factor.T @ factor
    radii = torch.stack([radius(*map(torch.tensor, rows), M) for rows in zip(X, near, far, strict=True)]) / 0.3
    expected = (-radii if loss == "negative" else torch.nn.functional.softplus(-radii)).mean()
    expected.backward()
    value, gradient = evaluate(L, near - X, far - X, LOSSES[loss], 0.3)
    assert value == pytest.approx(expected.item(), rel=1e-12)
    np.testing.assert_allclose(gradient, factor.grad, atol=1e-13)
    assert evaluate(7.0 * L, near - X, far - X, LOSSES[loss], 0.3)[0] == pytest.approx(value, rel=1e-12)


@pytest.mark.slow  # torch.optim takes seconds to import
def test_the_steps_are_those_of_adam():
    # One neighbour of each kind, never looked for anew: nothing is random.
    X, y = sample(30)
    options = {"n_neighbors": 1, "n_refresh": 0, "step_size": 0.01}
    L, objective = maximise_radii(X, y, n_steps=20, random_state=np.random.RandomState(0), **options)
    rows = np.flatnonzero(target_neighbors(X, y, 1)[:, 0] >= 0)
    assert len(rows) < len(X)
    near = torch.tensor(X[target_neighbors(X, y, 1)[rows, 0]])
    far, points = torch.tensor(X[nearest_impostors(X, y, 1)[rows, 0]]), torch.tensor(X[rows])
    factor = torch.eye(4, dtype=torch.float64, requires_grad=True)
    adam, losses = torch.optim.Adam([factor], lr=0.01), []
    for _ in range(20):
        M = factor.T @ factor
        loss = -torch.stack([radius(*rows, M) for rows in zip(points, near, far, strict=True)]).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    # Radii are in units of the first ones here; Adam does not care, but for its guard against 0/0.
    np.testing.assert_allclose(np.array(objective) / objective[0], np.array(losses) / losses[0], atol=1e-5)
    np.testing.assert_allclose(L, factor.detach(), atol=1e-5)
    assert objective[-1] < objective[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_equal_points_of_two_classes_and_the_scale_of_the_features(loss):
    X, y = sample(60)
    X[10:14] = X[20]
    y[10:14] = [0, 1, 2, 0]
    found = ARML(loss=loss, n_steps=100, random_state=0).fit(X, y)
    assert np.isfinite(found.components_).all()
    scaled = ARML(loss=loss, n_steps=100, random_state=0).fit(1024.0 * X, y)
    np.testing.assert_allclose(scaled.components_ * 1024.0, found.components_, rtol=1e-9)


def test_certified_radii_of_unseen_points_grow():
    data = load_dataset("vehicle")
    X, y = StandardScaler().fit_transform(data.X), np.unique(data.y, return_inverse=True)[1]
    train, test = slice(0, None, 2), slice(1, None, 2)
    found = ARML(n_steps=500, random_state=0).fit(X[train], y[train])
    euclidean, robust = (
        np.mean(certified_radius(L, X[train], y[train], X[test], y[test], 5) > 0.2)
        for L in (np.eye(X.shape[1]), found.components_)
    )
    assert robust > euclidean + 0.02
