"""SiameseNet: it learns what pixels do not show, the same each time, and its files are whole or refused."""

import json
from unittest import TestCase

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from advmetric.deep import SiameseNet
from advmetric.deep.batches import TripletBatches
from advmetric.deep.holdout import split_pairs
from advmetric.deep.siamese import ContrastiveCriterion
from advmetric.features.images import normalise_patches


def patches(n, seed):
    """n things seen twice, with a shift, another brightness and contrast, and noise; as many pairs of each kind."""
    rng = np.random.default_rng(seed)
    things = gaussian_filter(rng.normal(size=(n, 28, 28)), (0, 1.5, 1.5))
    views = np.empty((n, 2, 20, 20))
    for thing, view in np.ndindex(n, 2):
        x, y = rng.integers(0, 9, size=2)
        views[thing, view] = things[thing, y : y + 20, x : x + 20] * rng.uniform(100, 300) + rng.uniform(90, 160)
    images = np.clip(views + rng.normal(scale=5, size=views.shape), 0, 255).astype(np.uint8).reshape(-1, 20, 20)
    at = np.arange(2 * n).reshape(n, 2)
    pairs = np.concatenate([at, np.column_stack([at[:, 0], np.roll(at[:, 1], 1)])])
    return images, pairs, np.repeat([1, -1], n)


def auc(points, pairs, labels):
    points = points.reshape(len(points), -1).astype(np.float64)
    return roc_auc_score(labels, -np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1))


SMALL = {"epochs": 2, "embedding": 8}


@pytest.fixture(scope="module")
def data():
    return patches(60, seed=0)


@pytest.fixture(scope="module")
def net(data):
    return SiameseNet(**SMALL).fit(*data)


@pytest.mark.parametrize(("loss", "margin"), [("contrastive", 1.0), ("triplet", 0.5)])
def test_on_unseen_things_the_embedding_beats_pixels(loss, margin):
    images, pairs, labels = patches(300, seed=1)
    net = SiameseNet(loss=loss, margin=margin, epochs=12, batch_size=64).fit(*patches(400, seed=0))
    pixels, normalised = auc(images, pairs, labels), auc(normalise_patches(images), pairs, labels)
    assert auc(net.transform(images), pairs, labels) > max(pixels, normalised) + 0.05


def test_the_criteria_are_their_formulas():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(6, 4))
    u = z / np.linalg.norm(z, axis=1, keepdims=True)
    pairs, labels = np.array([[0, 1], [2, 3], [0, 4], [3, 5]]), np.array([1, 1, -1, -1])
    d = np.linalg.norm(u[pairs[:, 0]] - u[pairs[:, 1]], axis=1)
    expected = np.mean(np.where(labels > 0, d, np.maximum(1.0 - d, 0)) ** 2)
    call = (torch.from_numpy(z), torch.from_numpy(labels), torch.from_numpy(pairs))
    assert ContrastiveCriterion(1.0)(*call).item() == pytest.approx(expected, rel=1e-5)
    hinges = [max(0.0, 0.5 + d[0] - d[2]), max(0.0, 0.5 + d[1] - d[3])]  # shared points: 0, and 3
    assert ContrastiveCriterion(0.5, triplet=True)(*call).item() == pytest.approx(np.mean(hinges), rel=1e-5)


def test_shape_dtype_and_length_of_embeddings(net, data):
    embedded = net.transform(data[0])
    assert embedded.shape == (120, 8)
    assert embedded.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embedded, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(net.transform(data[0][7:8]), embedded[7:8], atol=1e-5)


@pytest.mark.parametrize("shape", [(16, 16), (33, 21), (64, 64)])
def test_images_of_other_sizes_work(shape):
    images = np.random.default_rng(0).integers(0, 256, size=(8, *shape), dtype=np.uint8)
    pairs, labels = np.arange(8).reshape(4, 2), [1, 1, -1, -1]
    assert SiameseNet(**SMALL).fit(images, pairs, labels).transform(images).shape == (8, 8)


@pytest.mark.parametrize("loss", ["contrastive", "triplet"])
def test_the_same_seed_gives_the_same_weights_and_another_one_others(data, loss):
    torch.manual_seed(1)
    first = SiameseNet(**SMALL, loss=loss, random_state=3).fit(*data)
    torch.manual_seed(2)
    np.random.seed(5)
    second = clone(first).fit(*data)
    for name, weight in first.learner_.state_dict().items():
        assert torch.equal(weight, second.learner_.state_dict()[name])
    assert first.history_ == second.history_
    other = clone(first).set_params(random_state=4).fit(*data)
    assert np.abs(other.transform(data[0]) - first.transform(data[0])).max() > 0.01


def test_more_threads_change_rounding_only(net, data):
    torch.set_num_threads(2)
    np.testing.assert_allclose(clone(net).fit(*data).transform(data[0]), net.transform(data[0]), atol=1e-2)


def test_global_state_of_torch_and_numpy_is_untouched(data):
    torch.manual_seed(7)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    for kind in (False, True):
        torch.use_deterministic_algorithms(kind, warn_only=True)
        SiameseNet(**SMALL).fit(*data).transform(data[0])
        assert torch.are_deterministic_algorithms_enabled() == kind
    torch.use_deterministic_algorithms(False)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)


def test_training_stops_early_and_keeps_the_best_weights():
    """Labels at random: the held-out loss cannot fall for long."""
    images, pairs, labels = patches(60, seed=0)
    labels = np.random.default_rng(0).permutation(labels)
    net = SiameseNet(embedding=8, epochs=40, patience=2, lr=1e-2).fit(images, pairs, labels)
    held = net.history_["held_out_loss"]
    assert len(held) == len(net.history_["loss"]) < 40
    assert net.best_epoch_ == int(np.argmin(held)) == len(held) - 3
    # The kept weights have the least loss on the very pairs that were held out, each kind with half of the weight.
    _, rows, _ = split_pairs(pairs, labels, 0.15, np.random.RandomState(0))
    u, v = net.transform(images)[pairs[rows].T]
    distance = np.linalg.norm(u - v, axis=1)
    near, far = distance[labels[rows] > 0], distance[labels[rows] < 0]
    loss = 0.5 * np.mean(near**2) + 0.5 * np.mean(np.maximum(0, 1 - far) ** 2)
    assert loss == pytest.approx(min(held), rel=1e-4)


def test_brightness_and_contrast_do_not_matter(net, data):
    images = data[0].astype(np.float64)
    np.testing.assert_allclose(net.transform(3 * images + 40), net.transform(images), atol=1e-4)


def test_constant_and_huge_images_give_finite_embeddings(net, data):
    images = np.stack([np.full((20, 20), 0.1), np.zeros((20, 20)), data[0][0] * 1e30, data[0][0] * 1e-30])
    embedded = net.transform(images)
    assert np.isfinite(embedded).all()
    np.testing.assert_array_equal(embedded[0], embedded[1])
    np.testing.assert_allclose(embedded[2], embedded[3], atol=1e-4)
    pairs = [(0, 1), (0, 1), (0, 2), (1, 3)]
    assert np.isfinite(SiameseNet(**SMALL).fit(images, pairs, [1, 1, -1, -1]).transform(images)).all()


def test_progress_and_log_are_shown_when_asked_for(data, net, capsys):
    capsys.readouterr()
    with TestCase().assertLogs("advmetric", "INFO") as log:
        clone(net).set_params(verbose=1).fit(*data)
    assert "SiameseNet [" in capsys.readouterr().err
    assert "pairs held out, of unseen points" in "".join(log.output)


# --- held-out pairs and triplets ---------------------------------------------------------------------------


def test_held_out_pairs_share_no_point_with_the_others():
    _, pairs, labels = patches(200, seed=0)
    train, held, disjoint = split_pairs(pairs, labels, 0.15, np.random.RandomState(0))
    assert disjoint
    assert not np.intersect1d(pairs[train], pairs[held]).size
    assert np.sum(labels[train] > 0) + np.sum(labels[held] > 0) == 200  # no similar pair is lost
    assert 0.1 < np.mean(np.isin(np.flatnonzero(labels > 0), held)) <= 0.15
    assert {*labels[held]} == {*labels[train]} == {-1, 1}


def test_where_all_points_are_linked_pairs_are_split_at_random():
    pairs = np.column_stack([np.arange(40), np.arange(1, 41)])
    labels = np.r_[np.ones(38), -1, -1].astype(int)
    train, held, disjoint = split_pairs(pairs, labels, 0.15, np.random.RandomState(0))
    assert not disjoint
    assert sorted([*train, *held]) == list(range(40))
    assert {*labels[held]} == {*labels[train]} == {-1, 1}


def test_triplets_are_made_of_given_pairs_only():
    _, pairs, labels = patches(30, seed=0)
    batches = TripletBatches(pairs, labels, 25, seed=0)
    triplets = np.concatenate([batches.triplets(step) for step in range(batches.steps_per_epoch)])
    similar, dissimilar = ({frozenset(pair) for pair in pairs[labels == kind].tolist()} for kind in (1, -1))
    assert len(triplets) == len(np.unique(triplets[:, :2], axis=0)) == 60  # similar pairs in both orders, once
    for anchor, near, far in triplets.tolist():
        assert {anchor, near} in similar
        assert {anchor, far} in dissimilar
    batch = batches.batch(2)
    assert (np.split(batch.rows[batch.pairs], 2)[0] == batches.triplets(2)[:, :2]).all()
    assert (np.split(batch.rows[batch.pairs], 2)[1] == batches.triplets(2)[:, [0, 2]]).all()


# --- files ------------------------------------------------------------------------------------------------


def test_a_saved_network_comes_back(net, data, tmp_path):
    net.save(tmp_path / "net.npz")
    loaded = SiameseNet.load(tmp_path / "net.npz")
    np.testing.assert_array_equal(loaded.transform(data[0]), net.transform(data[0]))
    assert loaded.get_params() == net.get_params()
    assert (loaded.history_, loaded.best_epoch_, loaded.image_shape_) == (net.history_, net.best_epoch_, (20, 20))
    loaded.save(tmp_path / "again.npz")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["again.npz", "net.npz"]
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "net.npz").read_bytes()
    with np.load(tmp_path / "net.npz", allow_pickle=False) as archive:  # no pickle inside
        assert all(not archive[name].dtype.hasobject for name in archive.files)


def test_numbers_of_numpy_and_generators_can_be_saved(data, tmp_path):
    net = SiameseNet(embedding=np.int64(8), epochs=1, random_state=np.random.RandomState(0)).fit(*data)
    net.save(tmp_path / "net.npz")
    assert SiameseNet.load(tmp_path / "net.npz").get_params()["embedding"] == 8


def test_a_file_cut_short_or_changed_is_refused(net, tmp_path):
    path = tmp_path / "net.npz"
    net.save(path)
    content = path.read_bytes()
    for length in (0, 1, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"net.npz is not a network saved by advmetric, or it is damaged"):
            SiameseNet.load(path)
    path.write_bytes(content[:20000] + bytes([content[20000] ^ 1]) + content[20001:])
    with pytest.raises(ValueError, match="damaged"):
        SiameseNet.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"format": "other"}, "another format"), ({"best_epoch": 9}, "checksum"), ({"version": 2}, "newer advmetric")],
)
def test_a_changed_header_is_refused(net, tmp_path, change, message):
    path = tmp_path / "net.npz"
    net.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays.pop("header"))) | change
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    with pytest.raises(ValueError, match=message):
        SiameseNet.load(path)


# --- bad input ----------------------------------------------------------------------------------------------

IMAGES = np.random.default_rng(0).normal(size=(6, 16, 16))
HOLED = IMAGES.copy()
HOLED[4, 2, 1] = np.nan
PAIRS, LABELS = np.array([(0, 1), (2, 3), (0, 2), (1, 3)]), np.array([1, 1, -1, -1])


@pytest.mark.parametrize(
    ("images", "pairs", "labels", "error", "message"),
    [
        (IMAGES[:0], PAIRS, LABELS, ValueError, r"images is empty: its shape is \(0, 16, 16\)"),
        (IMAGES[0], PAIRS, LABELS, ValueError, "images must have shape"),
        (IMAGES[:, :15], PAIRS, LABELS, ValueError, r"images are \(15, 16\) pixels; at least 16 x 16"),
        (HOLED, PAIRS, LABELS, ValueError, "images contains nan at image 4, row 2, column 1"),
        (IMAGES.astype(complex), PAIRS, LABELS, TypeError, "images must be numbers"),
        (IMAGES, PAIRS + 3, LABELS, ValueError, r"pair 1 is \(5, 6\), out of range"),
        (IMAGES, PAIRS.astype(float), LABELS, TypeError, "pairs must be integers"),
        (IMAGES, PAIRS, LABELS[:3], ValueError, "3 labels for 4 pairs"),
        (IMAGES, PAIRS, [1, 1, 0, 0], ValueError, "pair 2 is 0"),
        (IMAGES, PAIRS, [1, 1, 1, 1], ValueError, "no dissimilar pair"),
        (IMAGES, PAIRS, [1, -1, -1, -1], ValueError, "labels has one similar pair"),
    ],
)
def test_bad_input_is_named(images, pairs, labels, error, message):
    with pytest.raises(error, match=message):
        SiameseNet(epochs=1).fit(images, pairs, labels)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"embedding": 0}, "embedding=0"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"patience": 0}, "patience=0"),
        ({"margin": 0}, "margin=0"),
        ({"margin": 3.0}, "margin=3.0"),
        ({"lr": -1.0}, "lr=-1.0"),
        ({"loss": "other"}, "loss='other' is not known"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        SiameseNet(**params).fit(IMAGES, PAIRS, LABELS)


def test_triplets_that_cannot_be_formed_are_said_so():
    with pytest.raises(ValueError, match='loss="triplet" needs'):
        SiameseNet(loss="triplet").fit(np.concatenate([IMAGES, IMAGES]), np.arange(8).reshape(4, 2), LABELS)


def test_a_diverging_loss_is_said_so(data):
    with pytest.raises(FloatingPointError, match="lower lr"):
        SiameseNet(lr=1e30, epochs=3).fit(*data)


def test_transform_wants_a_fit_and_images_of_the_same_size(net):
    with pytest.raises(NotFittedError):
        SiameseNet().transform(IMAGES)
    with pytest.raises(ValueError, match=r"images are \(16, 16\) pixels; the network was trained on \(20, 20\)"):
        net.transform(IMAGES)
