"""DeepAML: it learns what pixels do not show, from classes and from pairs, and its files are complete or refused."""

import warnings

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from advmetric import MetricIndex
from advmetric.deep import AMLHead, DeepAML
from advmetric.deep.backbones import small_cnn
from advmetric.deep.checkpoint import read_tensors, write_tensors
from advmetric.deep.evaluation import retrieval_scores
from advmetric.utils.archive import DamagedFileError

SMALL = {"epochs": 2, "embedding": 8, "batch_size": 32}


def shifted_digits():
    """scikit-learn's digits, each moved by up to two pixels on a larger ground, which pixels cannot see through."""
    digits, rng = load_digits(), np.random.default_rng(0)
    images = np.zeros((len(digits.target), 12, 12))
    for image, (row, column), digit in zip(
        images, rng.integers(0, 5, size=(len(images), 2)), digits.images, strict=True
    ):
        image[row : row + 8, column : column + 8] = digit
    return images, digits.target


@pytest.fixture(scope="module")
def digits():
    return shifted_digits()


@pytest.fixture(scope="module")
def table():
    """Six classes in two of ten columns, the others noise of twice the size."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 20)
    X = 2.0 * rng.normal(size=(120, 10))
    X[:, :2] = 3.0 * np.column_stack([np.cos(y), np.sin(y)]) + 0.3 * rng.normal(size=(120, 2))
    return X, y


@pytest.fixture(scope="module")
def pairs(table):
    """Index pairs of the table, half of them similar."""
    rng, (X, y) = np.random.default_rng(1), table
    left = rng.integers(len(X), size=240)
    pools = [np.flatnonzero((y == y[i]) == (k % 2 == 0)) for k, i in enumerate(left)]
    indices = np.column_stack([left, [rng.choice(pool[pool != i]) for pool, i in zip(pools, left, strict=True)]])
    return indices, np.where(y[indices[:, 0]] == y[indices[:, 1]], 1, -1)


@pytest.fixture(scope="module")
def model(table):
    return DeepAML(**SMALL).fit(*table)


def unit(d=10, r=6):
    return nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, r))


# --- learning -------------------------------------------------------------------------------------------------------


def narrow_cnn(shape):
    return small_cnn(shape, 64, width=16)


def recall_among_few(points, y, n=10):
    """Recall@1 among n images of each class, mean over 15 such galleries."""
    by_class = np.stack([np.flatnonzero(y == c)[: 15 * n].reshape(15, n) for c in np.unique(y)], axis=1)
    galleries = [rows.ravel() for rows in by_class]
    return np.mean([retrieval_scores(points[rows], y[rows])["recall_at_1"] for rows in galleries])


@pytest.mark.slow
def test_on_digits_never_seen_the_embedding_beats_pixels(digits):
    images, y = digits
    seen = y < 7
    model = DeepAML(backbone=narrow_cnn, epochs=8, lr=3e-3, early_stopping=False).fit(images[seen], y[seen])
    pixels, learned = images[~seen].reshape(sum(~seen), -1), model.transform(images[~seen])
    assert recall_among_few(learned, y[~seen]) > recall_among_few(pixels, y[~seen]) + 0.08
    assert model.score(images[~seen], y[~seen]) > 0.55 > 0.52 > retrieval_scores(pixels, y[~seen])["auc"]


@pytest.mark.parametrize("loss", ["pair", "softmax", "margin"])
def test_each_loss_learns_a_table(table, loss):
    X, y = table
    model = DeepAML(epochs=8, embedding=8, batch_size=40, lr=5e-3, loss=loss, early_stopping=False).fit(X, y)
    assert model.history_["loss"][-1] < 0.8 * model.history_["loss"][0]
    assert model.score(X, y) > 0.9


def test_index_pairs_and_formed_pairs_learn_the_same(table, pairs):
    (X, _), (indices, kinds) = table, pairs
    settings = {"epochs": 10, "embedding": 8, "batch_size": 64, "lr": 5e-3}
    by_index = DeepAML(preprocessor=X, **settings).fit(indices, kinds)
    assert by_index.score(indices, kinds) > roc_auc_score(
        kinds, -np.linalg.norm(np.diff(X[indices], axis=1)[:, 0], axis=1)
    )
    assert by_index.score(indices, kinds) > 0.85
    np.testing.assert_allclose(
        by_index.pair_distance(X[indices]), by_index.pair_distance(indices), rtol=1e-4, atol=1e-5
    )
    assert by_index.classes_.tolist() == [-1, 1]
    assert len(DeepAML(**SMALL).fit(X[indices], kinds).predict(X[indices[:3]])) == 3


def test_early_stopping_keeps_the_best_of_held_out_classes(table):
    model = DeepAML(epochs=30, patience=2, batch_size=32, embedding=8).fit(*table)
    scores = model.history_["score"]
    assert model.disjoint_
    assert model.best_epoch_ == int(np.argmax(scores))
    assert len(scores) == min(30, model.best_epoch_ + 3)


def test_few_classes_hold_out_points(table):
    X, y = table
    assert not DeepAML(**SMALL).fit(X[y < 3], y[y < 3]).disjoint_


@pytest.mark.parametrize("shape", [(12, 12), (9, 17), (20, 20), (12, 12, 3), (12, 12, 1)])
def test_images_of_many_shapes(shape):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(24, *shape), dtype=np.uint8)
    model = DeepAML(**SMALL | {"epochs": 1}).fit(images, np.repeat(["a", "b"], 12))
    assert model.transform(images[:3]).shape == (3, 8)
    assert model.input_shape_ == (shape[2] if len(shape) == 3 else 1, *shape[:2])


# --- decisions ------------------------------------------------------------------------------------------------------


def test_distances_decisions_and_probabilities_agree(model, table):
    X, _ = table
    formed = X[np.array([[0, 1], [0, 50], [3, 3]])]
    h = model.transform(X)
    np.testing.assert_allclose(model.pair_distance(formed)[1], np.linalg.norm(h[0] - h[50]), rtol=1e-4)
    assert model.pair_distance(formed)[2] == 0.0
    np.testing.assert_allclose(model.decision_function(formed), model.threshold_ - model.pair_distance(formed))
    assert (model.predict(formed) == np.where(model.pair_distance(formed) <= model.threshold_, 1, -1)).all()
    probability = model.predict_proba(formed)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert np.argmax(probability[:, 1]) == np.argmin(model.pair_distance(formed))
    assert (model.pair_score(formed) == -model.pair_distance(formed)).all()


def test_without_held_out_data_decisions_come_from_the_loss(table):
    X, y = table
    model = DeepAML(**SMALL, early_stopping=False).fit(X, y)
    b = model.learner_.criterion.b.item()
    assert model.threshold_ == pytest.approx(b**0.5)
    d = model.pair_distance(X[[[0, 30]]])
    assert model.predict_proba(X[[[0, 30]]])[0, 1] == pytest.approx(1 / (1 + np.exp(d[0] ** 2 - b)))
    assert model.history_["score"] == []


def test_thresholds_can_be_chosen(model, table, pairs):
    copy = DeepAML(preprocessor=table[0], **SMALL).fit(*pairs)
    copy.calibrate_threshold(*pairs, strategy="max_tpr", min_rate=0.99)
    assert np.mean(copy.predict(pairs[0][pairs[1] < 0]) == -1) >= 0.99


def test_neighbours_by_the_index(model, table):
    X, _ = table
    h = model.transform(X)
    distances, nearest = MetricIndex(model.get_metric()).add(h).query(h[:4], k=2)
    assert nearest[:, 0].tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(distances[0, 1], model.pair_distance(X[[[0, nearest[0, 1]]]])[0], rtol=1e-4)


@pytest.mark.parametrize("kind", ["exact", "ivf", "hnsw"])
def test_the_index_works_beside_pytorch_metric_learning(model, table, kind):
    """It imports faiss.contrib.torch_utils, which replaces faiss's search by one that takes no parameters."""
    pytest.importorskip("faiss.contrib.torch_utils")
    h = model.transform(table[0])
    index = MetricIndex(model.get_metric(), kind=kind).add(h)
    assert index.query(h[:4], k=1)[1][:, 0].tolist() == [0, 1, 2, 3]


# --- scikit-learn ---------------------------------------------------------------------------------------------------


def test_clone_and_parameters():
    model = DeepAML(backbone=unit(), alpha=0.5, epochs=3)
    copy = clone(model)
    assert copy.get_params()["alpha"] == 0.5
    assert copy.backbone is not model.backbone
    assert copy.set_params(beta=2.0).beta == 2.0
    assert "DeepAML" in repr(copy)


class TransformOnly(DeepAML):
    """DeepAML without what takes pairs."""

    predict = predict_proba = decision_function = property(doc="hidden")


PREDICT = "predict, predict_proba and decision_function take pairs of points, not points"
NOT_APPLICABLE = dict.fromkeys(
    [
        "check_n_features_in_after_fitting",
        "check_estimators_dtypes",
        "check_dtype_object",
        "check_estimators_nan_inf",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_dict_unchanged",
        "check_fit_idempotent",
        "check_fit2d_predict1d",
    ],
    PREDICT,
)
"""Checks of scikit-learn that do not apply to DeepAML: they pass points to ``predict``."""
CHECKED = {"epochs": 1, "embedding": 4, "batch_size": 16, "early_stopping": False}


@pytest.mark.parametrize("estimator_type", [DeepAML, TransformOnly])
def test_scikit_learns_checks_pass_but_those_that_predict_from_points(estimator_type):
    expected = NOT_APPLICABLE if estimator_type is DeepAML else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(
            estimator_type(**CHECKED), expected_failed_checks=expected, on_skip=None, on_fail=None
        )
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed
    if estimator_type is DeepAML:
        assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(NOT_APPLICABLE)


def test_a_fit_that_fails_leaves_the_model_as_it_was(table):
    X, y = table
    model = DeepAML(**SMALL).fit(X, y)
    before, h = dict(vars(model)), model.transform(X)
    with pytest.raises(FloatingPointError, match="lower lr"):
        model.set_params(lr=1e30).fit(X[:, :5], y % 3)
    model.set_params(lr=1e-3)
    assert all(vars(model)[name] is value for name, value in before.items() if name.endswith("_"))
    np.testing.assert_array_equal(model.transform(X), h)


def test_every_parameter_has_its_constraint():
    assert set(DeepAML._constraints) == set(DeepAML().get_params())
    with pytest.raises(TypeError, match="normalize must be True or False"):
        DeepAML(normalize=1).fit([[0.0]], [0])
    with pytest.raises(ValueError, match="amp='on' must be"):
        DeepAML(amp="on").fit([[0.0]], [0])


def test_a_grid_search_tunes_the_adversary(table):
    X, y = table
    search = GridSearchCV(DeepAML(**SMALL), {"alpha": [0.0, 1.0]}, cv=StratifiedKFold(2)).fit(X, y)
    assert set(search.cv_results_["param_alpha"]) == {0.0, 1.0}
    assert np.isfinite(search.best_score_)


def test_in_a_pipeline(table):
    X, y = table
    pipeline = make_pipeline(DeepAML(**SMALL), KNeighborsClassifier(3)).fit(X, y)
    assert pipeline.predict(X[:5]).shape == (5,)
    names = DeepAML(**SMALL).fit(X, y).get_feature_names_out()
    assert names[0] == "deepaml0"
    assert len(names) == 8


def test_the_same_seed_gives_the_same_bits_and_leaves_torch_alone(table):
    X, y = table
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first = DeepAML(**SMALL).fit(X, y).transform(X)
    assert torch.equal(torch.rand(3), expected)
    assert not torch.are_deterministic_algorithms_enabled()
    assert np.array_equal(first, DeepAML(**SMALL).fit(X, y).transform(X))
    assert not np.array_equal(first, DeepAML(**SMALL, random_state=1).fit(X, y).transform(X))


def test_mixed_precision_on_the_cpu(table):
    X, y = table
    model = DeepAML(epochs=8, embedding=8, batch_size=40, lr=5e-3, amp=True, device="cpu").fit(X, y)
    assert model.transform(X).dtype == np.float32
    assert model.score(X, y) > 0.8


# --- backbones ------------------------------------------------------------------------------------------------------


def test_own_modules_are_copied_and_callables_called(table):
    X, y = table
    own = unit()
    before = own[0].weight.clone()
    model = DeepAML(backbone=own, **SMALL).fit(X, y)
    assert torch.equal(own[0].weight, before)
    assert not torch.equal(model.learner_.network[0].weight, before)
    assert model.transform(X).shape == (120, 6)
    seen = []
    DeepAML(backbone=lambda shape: seen.append(shape) or unit(shape[0]), **SMALL).fit(X, y)
    assert seen == [(10,)]


def test_augmentation_sees_batches_in_training_only(table):
    X, y = table
    sizes = []

    def jitter(batch):
        sizes.append(tuple(batch.shape))
        return batch + 0.1 * torch.randn_like(batch)

    model = DeepAML(**SMALL, augment=jitter).fit(X, y)
    count = len(sizes)
    model.transform(X)
    assert count == len(sizes) > 0


def test_unknown_and_unfit_backbones_are_named(table):
    X, y = table
    with pytest.raises(ValueError, match="'cnn', 'mlp', 'torchvision:NAME'"):
        DeepAML(backbone="resnet").fit(X, y)
    with pytest.raises(ValueError, match="needs images"):
        DeepAML(backbone="cnn").fit(X, y)
    with pytest.raises(ValueError, match="grey or colour images"):
        DeepAML(backbone="torchvision:resnet18").fit(X, y)
    with pytest.raises(TypeError, match=r"must return an nn\.Module"):
        DeepAML(backbone=lambda shape: 3).fit(X, y)
    with pytest.raises(ValueError, match=r"into \(2, d\)"):
        DeepAML(backbone=nn.Sequential(nn.Linear(10, 2), nn.Flatten(0))).fit(X, y)


# --- files ----------------------------------------------------------------------------------------------------------


def test_what_is_saved_comes_back(model, table, tmp_path):
    X, _ = table
    model.save(tmp_path / "model.safetensors")
    back = DeepAML.load(tmp_path / "model.safetensors")
    assert np.array_equal(back.transform(X), model.transform(X))
    formed = X[[[0, 1], [0, 50]]]
    assert np.array_equal(back.predict_proba(formed), model.predict_proba(formed))
    for name in (
        "threshold_",
        "calibration_",
        "history_",
        "best_epoch_",
        "disjoint_",
        "input_shape_",
        "n_features_in_",
    ):
        assert getattr(back, name) == getattr(model, name)
    assert back.classes_.tolist() == model.classes_.tolist()
    assert back.get_params() == model.get_params()


def test_a_model_of_an_own_module_needs_it_again(table, tmp_path):
    X, y = table
    model = DeepAML(backbone=unit(), n_components=3, **SMALL).fit(X, np.array(list("abcdef"))[y])
    model.save(tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match="give the network as backbone"):
        DeepAML.load(tmp_path / "own.safetensors")
    back = DeepAML.load(tmp_path / "own.safetensors", backbone=unit())
    assert np.array_equal(back.transform(X), model.transform(X))
    assert back.classes_.tolist() == list("abcdef")


def test_damaged_files_are_refused(model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[-5] ^= 1
    for flawed in (content[:100], content[:-10], b"", b"no such thing", bytes(flipped)):
        path.write_bytes(flawed)
        with pytest.raises(ValueError, match=r"damaged|checksum"):
            DeepAML.load(path)
    with pytest.raises(FileNotFoundError):
        DeepAML.load(tmp_path / "absent.safetensors")


@pytest.mark.parametrize(
    "forged",
    [
        {"params": {"no_such": 1}},
        {"params": []},
        {"own_backbone": None, "fitted": {}},
        {"fitted": None},
        {"classes": {"values": [0, 1], "dtype": "no type"}},
        {"n_features": "many"},
        {"n_features": 7},
    ],
    ids=str,
)
def test_facts_that_make_no_sense_are_damage_even_with_a_right_checksum(forged, model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    facts, tensors = read_tensors(path, "a network")
    write_tensors(path, "a network", facts | forged, tensors)
    with pytest.raises(DamagedFileError, match=r"model\.safetensors"):
        DeepAML.load(path)


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"alpha": -1.0}, ValueError, "alpha=-1"),
        ({"beta": 0}, ValueError, "beta=0"),
        ({"epochs": 0}, ValueError, "epochs=0"),
        ({"batch_size": 2.5}, TypeError, "batch_size=2.5"),
        ({"loss": "triplet"}, ValueError, "loss='triplet'"),
        ({"validation_fraction": 0.9}, ValueError, "validation_fraction=0.9"),
        ({"n_components": 99}, ValueError, "n_components=99"),
        ({"device": "nowhere"}, ValueError, "device='nowhere'"),
    ],
)
def test_bad_settings_are_named(table, settings, error, message):
    with pytest.raises(error, match=message):
        DeepAML(**SMALL | settings).fit(*table)


def test_bad_data_are_named(table, pairs):
    X, y = table
    model = DeepAML(**SMALL)
    with pytest.raises(ValueError, match="only one class"):
        model.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="only one member"):
        model.fit(X, np.arange(len(X)))
    with pytest.raises(ValueError, match="3 labels for 120 points"):
        model.fit(X, y[:3])
    flawed = X.copy()
    flawed[4, 2] = np.nan
    with pytest.raises(ValueError, match="row 4, column 2"):
        model.fit(flawed, y)
    with pytest.raises(ValueError, match="image 2"):
        model.fit(np.where(np.arange(6)[:, None, None] == 2, np.inf, np.zeros((6, 8, 8))), [0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=r"got \(3,\)"):
        model.fit(np.ones(3), [0, 1, 1])
    with pytest.raises(TypeError, match="Sparse data was passed"):
        model.fit(csr_array(X), y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        model.fit(X + 1j, y)
    with pytest.raises(ValueError, match="target y is None"):
        model.fit(X, None)
    with pytest.raises(ValueError, match="out of range"):
        DeepAML(preprocessor=X, **SMALL).fit(pairs[0] + 100, pairs[1])
    with pytest.raises(ValueError, match="class labels; use loss='pair'"):
        DeepAML(preprocessor=X, loss="margin", **SMALL).fit(*pairs)
    with pytest.raises(ValueError, match=r"\+1 \(similar\)"):
        DeepAML(preprocessor=X, **SMALL).fit(pairs[0], np.zeros(len(pairs[0])))
    for method in (model.transform, model.predict, model.predict_proba):
        with pytest.raises(NotFittedError):
            method(X)


def test_points_of_another_shape_are_refused(model, table):
    with pytest.raises(ValueError, match="has 9 features, but DeepAML is expecting 10"):
        model.transform(table[0][:, :9])
    with pytest.raises(ValueError, match=r"shape \(1, 5, 2\), but the network is expecting \(10,\)"):
        model.transform(table[0][:3].reshape(3, 5, 2))
    with pytest.raises(ValueError, match="no preprocessor"):
        model.pair_distance([[0, 1]])


def test_the_head_is_an_amlhead(model):
    assert isinstance(model.learner_.criterion, AMLHead)
