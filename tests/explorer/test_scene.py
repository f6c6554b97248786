"""Which points and pairs the page shows."""

import numpy as np

from advmetric.explorer.scene import make_scene
from advmetric.pairs.data import Pairs


def test_few_points_are_all_shown_with_pairs_of_held_out_ones(cars):
    held_out = np.arange(0, 300, 5)
    scene = make_scene(cars, held_out, 5000, 0)
    np.testing.assert_array_equal(scene.X, cars.X)
    np.testing.assert_array_equal(np.flatnonzero(scene.held_out), held_out)
    assert scene.held_out[scene.left].all()
    assert scene.held_out[scene.right].all()
    np.testing.assert_array_equal(scene.kinds == 1, cars.y[scene.left] == cars.y[scene.right])
    ends = np.sort(np.column_stack([scene.left, scene.right]), axis=1)
    assert (ends[:, 0] < ends[:, 1]).all()
    assert len(np.unique(ends, axis=0)) == len(ends)


def test_of_many_points_a_stratified_sample_is_shown(cars):
    scene = make_scene(cars, np.arange(60), 100, 0)
    assert len(scene.X) == 100
    np.testing.assert_array_equal(scene.X, cars.X[scene.rows - 1])
    np.testing.assert_allclose(np.bincount(scene.classes) / 100, np.bincount(cars.y) / 300, atol=0.011)


def test_held_out_points_of_one_class_have_no_pairs_to_judge(cars):
    scene = make_scene(cars, np.flatnonzero(cars.y == 0)[:9], 5000, 0)
    assert len(scene.left) == 0


def test_equal_points_of_pairs_are_one_point(matches):
    scene = make_scene(matches, np.arange(80), 5000, 0)
    assert len(scene.X) == len(np.unique(matches.points, axis=0))
    assert len(scene.links) == 400
    shown = {tuple(np.r_[scene.X[a], scene.X[b], k]) for a, b, k in scene.links}
    assert shown == {
        tuple(np.r_[matches.X[a], matches.X[b], k])
        for a, b, k in zip(matches.left, matches.right, matches.y, strict=True)
    }
    assert len(scene.left) == 80


def test_names_lead_back_to_the_file(matches):
    formed = Pairs.formed(np.stack([matches.X[matches.left], matches.X[matches.right]], axis=1), matches.y)
    scene = make_scene(formed, np.arange(80), 5000, 0)
    for i in (0, 17, len(scene.X) - 1):
        row, side = int(scene.names[i][:-1]) - 1, scene.names[i][-1]
        end = (formed.left if side == "a" else formed.right)[row]
        np.testing.assert_array_equal(scene.X[i], formed.X[end])
        assert scene.rows[i] == row + 1


def test_held_out_pairs_are_shown_before_others(matches):
    scene = make_scene(matches, np.arange(100, 180), 200, 0)
    assert len(scene.links) == 100
    assert len(scene.left) == 80
