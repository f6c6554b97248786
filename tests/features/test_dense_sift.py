"""Dense SIFT: equal to OpenCV's descriptors, the same each time, errors that name the place; and what it is for."""

import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from advmetric.features import dense_sift, sift_pipeline
from advmetric.features.dense_sift import keypoint_grid
from advmetric.utils.optional import MissingDependencyError

LFW = Path(__file__).parents[3] / "shared" / "data" / "lfw.npz"


@pytest.fixture
def faces():
    """Smooth random images of LFW's size."""
    noise = np.random.default_rng(0).normal(size=(5, 62, 47))
    smooth = np.stack([cv2.GaussianBlur(image, (0, 0), 2) for image in noise])
    return np.clip(128 + 300 * smooth, 0, 255).astype(np.uint8)


def test_a_descriptor_is_that_of_a_direct_call_of_opencv(faces):
    x, y, width = keypoint_grid((62, 47), 10, (12, 18, 24))[30]
    keypoint = cv2.KeyPoint(x, y, width / 6, 0.0)
    _, expected = cv2.SIFT_create(sigma=0.55).compute(faces[2], [keypoint])
    plain = dense_sift(faces, root=False)[2].reshape(-1, 128)[30]
    np.testing.assert_array_equal(plain, expected[0])
    rooted = dense_sift(faces)[2].reshape(-1, 128)[30]
    np.testing.assert_allclose(rooted, np.sqrt(expected[0] / expected[0].sum()), rtol=1e-6)


def test_a_descriptor_sees_its_window_and_nothing_else(faces):
    """The window's width, against OpenCV's own arithmetic: pixels outside it (and the half bin that
    interpolation adds) change nothing; pixels inside do."""
    x, y, width = 23.0, 30.5, 16.0
    away = np.maximum(np.abs(np.arange(47) - x), np.abs(np.arange(62)[:, None] - y))
    index = int(np.flatnonzero((keypoint_grid((62, 47), 15.5, 16) == (x, y, width)).all(axis=1))[0])
    for reach, changed in ((width / 2 + width / 8 + 3, False), (width / 2 - 2, True)):
        other = np.where(away > reach, 255 - faces, faces)
        rows = [
            dense_sift(images, step=15.5, sizes=16)[:, 128 * index : 128 * (index + 1)] for images in (faces, other)
        ]
        assert (not np.array_equal(*rows)) == changed


@pytest.mark.parametrize("shape", [(62, 47), (64, 64), (32, 32), (24, 24), (25, 100)])
def test_windows_lie_inside_the_image_and_in_its_middle(shape):
    grid = keypoint_grid(shape, 10, (12, 18, 24))
    x, y, width = grid.T
    for place, length in ((x, shape[1]), (y, shape[0])):
        assert (place - width / 2 >= -0.5).all()
        assert (place + width / 2 <= length - 0.5).all()
        assert place.mean() == pytest.approx((length - 1) / 2)
    assert set(width) == {12, 18, 24}
    assert len(np.unique(grid, axis=0)) == len(grid)


def test_shape_dtype_and_norm_of_root_sift(faces):
    rows = dense_sift(faces)
    assert rows.shape == (5, 51 * 128)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows.reshape(5, 51, 128), axis=2), 1, rtol=1e-5)
    assert dense_sift(np.zeros((1, 64, 64), np.uint8)).shape == (1, 86 * 128)


def test_the_same_rows_each_time_alone_in_threads_and_over_blocks(faces):
    many = np.concatenate([faces] * 60)
    once = dense_sift(many)
    np.testing.assert_array_equal(dense_sift(many, n_jobs=2), once)
    np.testing.assert_array_equal(dense_sift(faces[3:4])[0], once[298])
    np.testing.assert_array_equal(dense_sift(list(faces)), once[:5])


def test_mirror_makes_an_image_and_its_mirror_image_equal(faces):
    np.testing.assert_array_equal(
        dense_sift(faces, mirror=True), dense_sift(np.ascontiguousarray(faces[:, :, ::-1]), mirror=True)
    )
    assert np.abs(dense_sift(faces) - dense_sift(faces[:, :, ::-1])).max() > 0.1


def test_constant_images_give_zeros_and_no_nan_on_the_way(faces):
    constant = np.full((2, 62, 47), 7, dtype=np.uint8)
    rows = dense_sift(np.concatenate([faces, constant]))
    assert (rows[5:] == 0).all()
    for training in (rows, rows[:5]):
        assert np.isfinite(sift_pipeline(3).fit(training).transform(rows)).all()


def test_progress_is_shown_when_asked_for(faces, capsys):
    dense_sift(faces)
    assert capsys.readouterr().err == ""
    dense_sift(faces, verbose=1)
    assert "dense SIFT" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("images", "options", "error", "message"),
    [
        (np.zeros((0, 62, 47), np.uint8), {}, ValueError, r"images is empty: its shape is \(0, 62, 47\)"),
        (np.zeros((62, 47), np.uint8), {}, ValueError, r"images must have shape .* pass images\[None\]"),
        (np.zeros((2, 62, 47, 3), np.uint8), {}, ValueError, "grey"),
        (np.zeros((2, 62, 47)), {}, TypeError, "images must be .* uint8, got float64"),
        (np.zeros((2, 62, 47), str), {}, TypeError, "images must be numbers"),
        (np.full((2, 62, 47), np.nan), {}, ValueError, "images contains nan at image 0, row 0, column 0"),
        ([np.zeros((9, 9)), np.zeros((9, 8))], {}, ValueError, r"image 1 is \(9, 8\), image 0 is \(9, 9\)"),
        (np.zeros((2, 20, 47), np.uint8), {}, ValueError, r"sizes has 24, wider than the images \(20 x 47"),
        (np.zeros((2, 62, 47), np.uint8), {"step": 0}, ValueError, "step=0"),
        (np.zeros((2, 62, 47), np.uint8), {"sizes": ()}, ValueError, "sizes is empty"),
        (np.zeros((2, 62, 47), np.uint8), {"sizes": (12, 2)}, ValueError, "sizes=2"),
        (np.zeros((2, 62, 47), np.uint8), {"sizes": ("a",)}, TypeError, "sizes must be a number"),
    ],
)
def test_bad_input_is_named(images, options, error, message):
    with pytest.raises(error, match=message):
        dense_sift(images, **options)


def test_without_opencv_the_error_says_what_to_install(faces, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingDependencyError, match=r'^dense_sift needs cv2: pip install "advmetric\[vision\]"'):
        dense_sift(faces)


def test_the_pipeline_depends_on_the_rows_it_was_fitted_on_only():
    rows = np.random.default_rng(0).normal(size=(80, 50)).astype(np.float32)
    first, second = (sift_pipeline(10).fit(rows[:40]).transform(part) for part in (rows, rows[:60]))
    np.testing.assert_allclose(first[:60], second, atol=1e-6)
    assert first.shape == (80, 10)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)
    whitened = sift_pipeline(10, unit=False).fit(rows[:40]).transform(rows[:40])
    np.testing.assert_allclose(whitened.std(axis=0, ddof=1), 1, rtol=1e-4)
    assert sift_pipeline(10, unit=False, whiten=False).fit(rows[:40]).transform(rows[:40]).std(axis=0).max() > 1.5


@pytest.mark.slow
@pytest.mark.skipif(not LFW.is_file(), reason="no ../shared/data beside the repository")
def test_on_faces_dense_sift_beats_pixels():
    """View 1 of LFW; all of its 1000 test pairs, the pipeline fitted on 600 training images."""
    with np.load(LFW) as lfw:
        pairs, labels = lfw["dev_test_pairs"], lfw["dev_test_labels"]
        training = np.unique(lfw["dev_train_pairs"])[:600]
        points, at = np.unique(pairs, return_inverse=True)
        images, training = lfw["X"][points], lfw["X"][training]
    at = at.reshape(pairs.shape)

    def auc(rows):
        rows = rows.astype(np.float64)
        return roc_auc_score(labels, -np.linalg.norm(rows[at[:, 0]] - rows[at[:, 1]], axis=1))

    pipeline = sift_pipeline(100).fit(dense_sift(training, mirror=True))
    pixels, learned = auc(images.reshape(len(images), -1)), auc(pipeline.transform(dense_sift(images, mirror=True)))
    assert pixels == pytest.approx(0.650, abs=0.001)
    assert learned > 0.83
