"""Verification sets as such: protocol, checks, drawn pairs, and the two that need no files."""

import numpy as np
import pytest

from advmetric.datasets import VerificationSet, list_verification, load_dataset, load_verification
from advmetric.datasets.verification import Development
from advmetric.datasets.verification.draw import balanced_pairs, disjoint_pairs, draw_again
from advmetric.datasets.verification.sets import share_nothing

NAMES = ["lfw", "pubfig", "mvs", "patches", "letters-unseen", "digits-unseen"]


def small_set(**changes):
    """Six images of three people; fold 0 has people 0 and 1, fold 1 has 1 and 2."""
    parts = {
        "name": "small",
        "X": np.zeros((6, 2, 2), dtype=np.uint8),
        "pairs": np.array([[0, 1], [0, 2], [2, 3], [3, 5]]),
        "labels": np.array([1, -1, 1, -1]),
        "folds": np.array([0, 0, 1, 1]),
        "identities": np.array([0, 0, 1, 1, 2, 2]),
        "development": None,
        "disjoint": False,
        **dict.fromkeys(("source", "licence", "citation", "note"), ""),
    }
    return VerificationSet(**parts | changes)


def test_every_fold_is_tested_once_and_never_trained_on_then():
    data = small_set()
    splits = [(train.tolist(), test.tolist()) for train, test in data.splits()]
    assert splits == [([2, 3], [0, 1]), ([0, 1], [2, 3])]
    assert data.is_images
    assert not small_set(X=np.zeros((6, 4))).is_images


def test_a_fixed_split_tests_one_fold():
    splits = [(train.tolist(), test.tolist()) for train, test in small_set(test_fold=1).splits()]
    assert splits == [([0, 1], [2, 3])]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": np.array([[0, 1], [0, 2], [2, 6], [3, 5]])}, r"pair 2 = \(2, 6\) is out of range: there are 6"),
        ({"pairs": np.array([[0, 1], [0, -1], [2, 3], [3, 5]])}, r"pair 1 = \(0, -1\) is out of range"),
        ({"pairs": np.zeros((4, 3), dtype=int)}, r"pairs must be an \(N, 2\) array"),
        ({"labels": np.array([1, 0, 1, -1])}, "pair 1 has the label 0"),
        ({"labels": np.array([1, -1, 1])}, "4 pairs have labels of shape"),
        ({"labels": np.array([1, -1, -1, -1])}, r"pair 2 = \(2, 3\) has the label -1, but its images show 1 and 1"),
        ({"labels": np.array([1, 1, 1, -1])}, r"pair 1 = \(0, 2\) has the label \+1, but its images show 0 and 1"),
        ({"identities": np.arange(5)}, "6 images have identities of shape"),
        ({"folds": np.array([0, 1, 0, 1])}, r"all pairs of fold 0 are of one kind \(same\)"),
        ({"folds": np.array([3, 3, 3, 3])}, "all pairs are in one fold"),
        ({"folds": np.array([0, 1])}, "4 pairs have folds of shape"),
        (
            {"development": Development(*[np.array([[0, 1]]), np.array([1])], *[np.array([[0, 9]]), np.array([-1])])},
            r"development test: pair 0 = \(0, 9\) is out of range",
        ),
    ],
)
def test_an_inconsistent_set_is_refused_by_pair_or_fold(changes, message):
    with pytest.raises(ValueError, match=message):
        small_set(**changes)


def test_folds_that_share_a_person_are_noticed():
    pairs, folds = np.array([[0, 1], [2, 3], [4, 5]]), np.array([0, 1, 1])
    assert share_nothing(np.array(list("aabbcc")), pairs, folds)
    assert not share_nothing(np.array(list("aabbca")), pairs, folds)


# --- drawn pairs ----------------------------------------------------------------------------------------


def test_drawn_pairs_are_balanced_labelled_right_and_different_from_each_other():
    classes = np.random.default_rng(0).integers(7, size=60)
    pairs, labels = balanced_pairs(classes, 300, np.random.default_rng(1), "here")
    assert len(pairs) == 300
    assert labels.sum() == 0
    np.testing.assert_array_equal(classes[pairs[:, 0]] == classes[pairs[:, 1]], labels == 1)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert len(np.unique(np.sort(pairs, axis=1), axis=0)) == 300
    assert 0 < (labels[:150] == 1).sum() < 150  # in no order


def test_every_pair_can_be_drawn_and_no_more_than_there_are():
    classes = np.array([0, 1, 0, 2, 1, 0])  # 4 same pairs, 11 different ones
    seen = set()
    for seed in range(40):
        pairs, labels = balanced_pairs(classes, 100, np.random.default_rng(seed), "here")
        assert np.bincount(labels + 1).tolist() == [4, 0, 4]
        seen |= {frozenset(pair) for pair in pairs.tolist()}
    assert seen == {frozenset((i, j)) for i in range(6) for j in range(i)}


def test_same_pairs_are_drawn_uniformly():
    """A class of 9 has 36 pairs and one of 2 has 1: it is drawn once in 37 times, not every second time."""
    classes = np.repeat([0, 1], [9, 2])
    hits = 0
    for seed in range(500):
        pairs, labels = balanced_pairs(classes, 2, np.random.default_rng(seed), "here")
        hits += int(classes[pairs[labels == 1][0, 0]])
    assert 3 <= hits <= 30


@pytest.mark.parametrize(
    ("classes", "kind"), [(np.arange(5), "same"), (np.zeros(5, dtype=int), "different"), (np.array([1]), "same")]
)
def test_a_kind_of_pair_that_does_not_exist_is_named(classes, kind):
    with pytest.raises(ValueError, match=f"here: there is no {kind} pair"):
        balanced_pairs(classes, 10, np.random.default_rng(0), "here")


def test_folds_of_drawn_pairs_share_no_class_and_use_every_class():
    classes = np.repeat(np.arange(11), 5)
    pairs, labels, folds = disjoint_pairs(classes, 4, 30, 0, "here")
    assert share_nothing(classes, pairs, folds)
    assert np.bincount(folds).tolist() == [30] * 4
    assert [labels[folds == fold].sum() for fold in range(4)] == [0] * 4
    assert set(classes[pairs].ravel()) == set(range(11))


def test_too_many_folds_are_refused_with_the_number_that_fits():
    with pytest.raises(ValueError, match=r"5 classes .* too few for n_folds=3; .* at most n_folds=2"):
        disjoint_pairs(np.repeat(np.arange(5), 4), 3, 10, 0, "here")
    with pytest.raises(TypeError, match=r"n_folds must be an integer, got 2\.5"):
        disjoint_pairs(np.repeat(np.arange(5), 4), 2.5, 10, 0, "here")
    with pytest.raises(ValueError, match="n_pairs must be at least 2, got 1"):
        disjoint_pairs(np.repeat(np.arange(5), 4), 2, 1, 0, "here")


# --- bundled data ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dataset", "shape", "dtype"),
    [
        ("letters-unseen", "letters", (20000, 16), np.float64),
        ("digits-unseen", "mnist-4000", (4000, 28, 28), np.uint8),
    ],
)
def test_tested_classes_are_in_no_training_pair(name, dataset, shape, dtype):
    data, whole = load_verification(name), load_dataset(dataset)
    assert data.X.shape == shape
    assert data.X.dtype == dtype
    assert data.is_images == (len(shape) == 3)
    np.testing.assert_array_equal(data.X.reshape(len(data.X), -1), whole.X)
    np.testing.assert_array_equal(data.identities, whole.y)
    assert data.disjoint
    assert data.source == "bundled"
    assert (data.licence, data.citation) == (whole.licence, whole.citation)
    assert data.development is None
    tested = []
    for train, test in data.splits():
        seen, unseen = (set(data.identities[data.pairs[part]].ravel()) for part in (train, test))
        assert not seen & unseen
        assert len(test) == 2000
        assert len(train) == 8000
        assert data.labels[test].sum() == 0
        tested += unseen
    assert sorted(tested) == list(range(len(whole.target_names)))
    np.testing.assert_array_equal(
        data.labels == 1, data.identities[data.pairs[:, 0]] == data.identities[data.pairs[:, 1]]
    )


def test_a_seed_gives_the_same_pairs_and_another_seed_others():
    first, again, other = (load_verification("digits-unseen", seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.pairs, again.pairs)
    np.testing.assert_array_equal(first.folds, again.folds)
    assert not np.array_equal(first.pairs, other.pairs)
    assert first.note != other.note


def test_pairs_of_a_set_are_drawn_again_in_other_folds():
    data = load_verification("letters-unseen")
    again = draw_again(data, 1)
    np.testing.assert_array_equal(again.X, data.X)
    assert np.bincount(again.folds).tolist() == np.bincount(data.folds).tolist()
    assert share_nothing(again.identities, again.pairs, again.folds)
    first, second = ({frozenset(d.identities[d.pairs[d.folds == k].ravel()]) for k in range(5)} for d in (data, again))
    assert not first & second
    assert "seed 1" in again.note
    with pytest.raises(ValueError, match="'small': pairs cannot be drawn without identities"):
        draw_again(small_set(identities=None), 1)


def test_folds_and_pairs_can_be_chosen():
    data = load_verification("letters-unseen", n_folds=13, n_pairs=50)
    assert np.bincount(data.folds).tolist() == [50] * 13


# --- the loader -----------------------------------------------------------------------------------------


def test_all_sets_are_listed_with_what_they_need():
    assert list(list_verification()) == NAMES
    assert all(needs and "\n" not in needs for needs in list_verification().values())


@pytest.mark.parametrize("name", ["lfw", "pubfig", "mvs", "patches"])
def test_a_set_that_is_nowhere_says_what_to_do(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"'{name}': no data home is set\. .*folder="):
        load_verification(name)
    with pytest.raises(FileNotFoundError, match=rf"'{name}': the data home {tmp_path} has n.* folder="):
        load_verification(name, data_home=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*absent"):
        load_verification(name, folder=tmp_path / "absent")


def test_wrong_names_and_options_are_refused_with_the_right_ones(tmp_path):
    with pytest.raises(ValueError, match=r"no verification set 'digits_unseen'\. Did you mean 'digits-unseen'\?"):
        load_verification("digits_unseen")
    with pytest.raises(TypeError, match="name must be a string"):
        load_verification(3)
    with pytest.raises(TypeError, match="'letters-unseen' has no option 'protocol'; it takes n_folds, n_pairs, seed"):
        load_verification("letters-unseen", protocol="ordered")
    with pytest.raises(TypeError, match="'lfw' has no option 'seed'; it takes no options"):
        load_verification("lfw", seed=1)
    with pytest.raises(ValueError, match=r"folder: .*'letters-unseen' .* reads no folder"):
        load_verification("letters-unseen", folder=tmp_path)


def test_a_file_of_another_format_under_an_allowed_name_is_not_handed_to_its_plugin(tmp_path, monkeypatch):
    from PIL import EpsImagePlugin

    from advmetric.datasets.verification.images import open_image

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("Ghostscript was started"))
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    for name, content in (("a.png", eps), ("b.jpg", eps), ("c.bmp", b"GIF89a" + bytes(20)), ("d.png", b"%PDF-1.4\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"image file .*{name} cannot be read"):
            open_image(tmp_path / name)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp"])
def test_the_allowed_formats_are_read_whatever_the_name(tmp_path, suffix):
    from PIL import Image

    from advmetric.datasets.verification.images import read_grey

    Image.fromarray(np.full((4, 5), 7, np.uint8)).save(tmp_path / f"a.{suffix}")
    (tmp_path / f"a.{suffix}").rename(tmp_path / "b.png")
    np.testing.assert_array_equal(read_grey(tmp_path / "b.png"), np.full((4, 5), 7))
