"""Planes of an embedding."""

import numpy as np
import pytest

from advmetric.evaluation.planes import PLANES, best_plane


def hidden_plane(rng, n_classes=3):
    """Classes that differ in the last two of six coordinates, of which others vary more."""
    y = np.repeat(np.arange(n_classes), 40)
    Z = rng.normal(size=(len(y), 6)) * np.array([5.0, 4.0, 3.0, 1.0, 0.3, 0.3])
    Z[:, 4:] += np.column_stack([np.cos(2.1 * y), np.sin(2.1 * y)]) * 2.0
    return Z, y


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_plane_in_which_classes_differ_is_found(n_classes):
    Z, y = hidden_plane(np.random.default_rng(0), n_classes)
    plane = best_plane(Z, y)
    assert plane.name == "discriminant"
    assert plane.error < 0.05
    assert best_plane(Z, y, "components").error > 0.3


@pytest.mark.parametrize("kind", PLANES)
def test_axes_are_orthonormal_so_that_distances_are_projections(kind):
    Z, y = hidden_plane(np.random.default_rng(1))
    axes = best_plane(Z, y, kind).axes
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)


def test_no_plane_is_better_than_the_best():
    Z, y = hidden_plane(np.random.default_rng(2))
    assert best_plane(Z, y).error == min(best_plane(Z, y, kind).error for kind in PLANES)


@pytest.mark.parametrize("Z", [np.zeros((6, 3)), np.repeat(np.eye(3), 2, axis=0), np.arange(18.0).reshape(6, 3)])
def test_degenerate_points_have_a_plane(Z):
    plane = best_plane(Z, np.array([0, 0, 1, 1, 2, 2]))
    assert plane.axes.shape == (2, 3)
    assert np.isfinite(plane.axes).all()


def test_many_points_are_judged_by_a_sample():
    rng = np.random.default_rng(0)
    plane = best_plane(rng.normal(size=(3000, 3)), rng.integers(2, size=3000))
    assert 0.3 < plane.error < 0.7


def test_two_points_have_a_plane():
    assert best_plane(np.eye(2, 3), np.array([0, 1])).error in (0.0, 1.0)
