"""LFW and PubFig: folders in the layout of the originals, and npz files."""

import re
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import fetch_lfw_pairs

from advmetric.datasets import load_verification

PEOPLE = {"Ann_Ash": 3, "Bob_Bay": 2, "Cy_Cob": 2, "Dee_Dow": 3, "Eve_Elm": 2, "Flo_Fir": 2, "Gus_Gum": 2, "Hal_Hay": 2}
SAME = ["Ann_Ash\t1\t3", "Bob_Bay\t1\t2", "Cy_Cob\t2\t1", "Dee_Dow\t1\t2"]
DIFFERENT = ["Ann_Ash\t2\tBob_Bay\t1", "Bob_Bay\t2\tAnn_Ash\t1", "Cy_Cob\t1\tDee_Dow\t3", "Dee_Dow\t2\tCy_Cob\t2"]
VIEW2 = ["2\t2", *SAME[:2], *DIFFERENT[:2], *SAME[2:], *DIFFERENT[2:]]
TRAIN = ["2", "Eve_Elm\t1\t2", "Flo_Fir\t1\t2", "Eve_Elm\t1\tFlo_Fir\t1", "Eve_Elm\t2\tFlo_Fir\t2"]
TEST = ["1", "Gus_Gum\t1\t2", "Gus_Gum\t1\tHal_Hay\t2"]


def write_image(path, rng, shape=(250, 250, 3)):
    """Smooth noise: JPEG keeps it, and no two are alike."""
    coarse = rng.integers(0, 256, size=(10, 10, *shape[2:]), dtype=np.uint8)
    Image.fromarray(coarse).resize((shape[1], shape[0])).save(path, quality=95)


@pytest.fixture
def lfw(tmp_path):
    """What fetch_lfw_pairs leaves behind, with eight people."""
    rng = np.random.default_rng(0)
    home = tmp_path / "lfw_home"
    for person, count in PEOPLE.items():
        (home / "lfw_funneled" / person).mkdir(parents=True)
        for i in range(1, count + 1):
            write_image(home / "lfw_funneled" / person / f"{person}_{i:04d}.jpg", rng)
    for name, lines in (("pairs.txt", VIEW2), ("pairsDevTrain.txt", TRAIN), ("pairsDevTest.txt", TEST)):
        (home / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def change_line(path, number, line):
    lines = path.read_text().splitlines()
    lines[number - 1] = line
    path.write_text("\n".join(lines) + "\n")


def test_lfw_folder_agrees_with_scikit_learn(lfw):
    data = load_verification("lfw", folder=lfw)
    view1 = data.development
    assert data.X.shape == (18, 62, 47)
    assert data.X.dtype == np.uint8
    for subset, pairs, labels in (
        ("10_folds", data.pairs, data.labels),
        ("train", view1.train_pairs, view1.train_labels),
        ("test", view1.test_pairs, view1.test_labels),
    ):
        theirs = fetch_lfw_pairs(subset=subset, data_home=lfw, download_if_missing=False)
        assert theirs.pairs.shape == (len(pairs), 2, 62, 47)
        np.testing.assert_array_equal(labels == 1, theirs.target == 1)
        # Theirs is not rounded to grey levels.
        assert np.abs(data.X[pairs] - 255.0 * theirs.pairs).max() < 0.5 + 1e-3
        assert theirs.pairs.std() > 0.1


def test_lfw_folder_has_view_2_in_folds_and_everybody_in_order(lfw):
    data = load_verification("lfw", folder=lfw / "lfw_home")
    assert data.identities.tolist() == [person for person, count in PEOPLE.items() for _ in range(count)]
    assert data.pairs.tolist() == [[0, 2], [3, 4], [1, 3], [4, 0], [6, 5], [7, 8], [5, 9], [8, 6]]
    assert data.labels.tolist() == [1, 1, -1, -1] * 2
    assert data.folds.tolist() == [0] * 4 + [1] * 4
    assert data.development.train_pairs.tolist() == [[10, 11], [12, 13], [10, 12], [11, 13]]
    assert data.development.test_labels.tolist() == [1, -1]
    assert data.disjoint
    assert data.source == "folder"
    assert [(len(train), len(test)) for train, test in data.splits()] == [(4, 4), (4, 4)]


def test_lfw_home_in_the_data_home_is_found(lfw, monkeypatch):
    monkeypatch.setenv("ADVMETRIC_DATA", str(lfw))
    assert load_verification("lfw").source == "data home"


def test_lfw_folds_that_share_a_person_are_not_called_disjoint(lfw):
    change_line(lfw / "lfw_home" / "pairs.txt", 8, "Cy_Cob\t1\tAnn_Ash\t3")
    assert not load_verification("lfw", folder=lfw).disjoint


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (1, "ten\t300", "expected the number of folds and of pairs"),
        (1, "2\t0", "expected the number of folds and of pairs"),
        (2, "Ann_Ash\t1", r"expected 'name<tab>i<tab>j' \(same\), got \['Ann_Ash', '1'\]"),
        (2, "Ann_Ash\t1\tBob_Bay\t1", r"expected 'name<tab>i<tab>j' \(same\)"),
        (2, "Ann_Ash 1 3", r"expected 'name<tab>i<tab>j' \(same\)"),
        (4, "Ann_Ash\t1\t2", r"expected 'name<tab>i<tab>name<tab>j' \(different\)"),
        (4, "Ann_Ash\t1\t\t2", r"expected 'name<tab>i<tab>name<tab>j' \(different\)"),
        (5, "Ann_Ash\t1\tAnn_Ash\t2", "a different pair names 'Ann_Ash' twice"),
        (3, "Nobody\t1\t2", "there is no person 'Nobody' in .*lfw_funneled"),
        (7, "Dee_Dow\t1\t4", "person 'Dee_Dow' has no image '4'"),
        (7, "Dee_Dow\t0\t1", "person 'Dee_Dow' has no image '0'"),
        (7, "Dee_Dow\t1\tx", "person 'Dee_Dow' has no image 'x'"),
    ],
)
def test_a_bad_line_of_a_pairs_file_is_named(lfw, number, line, message):
    path = lfw / "lfw_home" / "pairs.txt"
    change_line(path, number, line)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}, line {number}: {message}"):
        load_verification("lfw", folder=lfw)


def test_a_pairs_file_cut_short_is_noticed(lfw):
    path = lfw / "lfw_home" / "pairsDevTrain.txt"
    path.write_text("\n".join(TRAIN[:4]))
    with pytest.raises(ValueError, match=r"pairsDevTrain.txt, line 4: the file ends after 3 pairs, .* promises 4"):
        load_verification("lfw", folder=lfw)
    path.write_text("")
    with pytest.raises(ValueError, match=r"pairsDevTrain.txt is empty"):
        load_verification("lfw", folder=lfw)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"pairsDevTrain.txt is not a text file"):
        load_verification("lfw", folder=lfw)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"no pairs file .*pairsDevTrain.txt"):
        load_verification("lfw", folder=lfw)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"no image at all"), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:2000]), "cannot be read .*cut short"),
        (lambda path: write_image(path, np.random.default_rng(0), (64, 60, 3)), "is 60 x 64 pixels; .* 250 x 250"),
    ],
)
def test_a_bad_image_is_named(lfw, damage, message):
    path = lfw / "lfw_home" / "lfw_funneled" / "Bob_Bay" / "Bob_Bay_0002.jpg"
    damage(path)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} {message}"):
        load_verification("lfw", folder=lfw)


def test_a_person_without_images_and_a_folder_without_people_are_named(lfw, tmp_path):
    (lfw / "lfw_home" / "lfw_funneled" / "Zoe_Zed").mkdir()
    with pytest.raises(ValueError, match="person 'Zoe_Zed' has no image file"):
        load_verification("lfw", folder=lfw)
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(FileNotFoundError, match="elsewhere has no folder lfw_funneled or "):
        load_verification("lfw", folder=tmp_path / "elsewhere")


def test_without_pillow_the_extra_is_named(lfw, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=re.escape('pip install "advmetric[vision]"')):
        load_verification("lfw", folder=lfw)


def test_reading_writes_nothing(lfw):
    before = sorted(lfw.rglob("*"))
    load_verification("lfw", folder=lfw)
    change_line(lfw / "lfw_home" / "pairs.txt", 2, "broken")
    with pytest.raises(ValueError):
        load_verification("lfw", folder=lfw)
    assert sorted(lfw.rglob("*")) == before


# --- npz ------------------------------------------------------------------------------------------------


def faces():
    """Arrays as in lfw.npz: four people with two images each, folds of two people."""
    return {
        "X": np.random.default_rng(0).integers(0, 256, size=(8, 6, 5), dtype=np.uint8),
        "y": np.repeat(np.arange(4, dtype=np.int32), 2),
        "pairs": np.array([[0, 1], [0, 2], [4, 5], [5, 7]], dtype=np.int32),
        "pair_labels": np.array([1, 0, 1, 0], dtype=np.int8),
        "folds": np.array([0, 0, 1, 1], dtype=np.int8),
        "dev_train_pairs": np.array([[2, 3], [3, 4]], dtype=np.int32),
        "dev_train_labels": np.array([1, 0], dtype=np.int8),
        "dev_test_pairs": np.array([[6, 7], [6, 1]], dtype=np.int32),
        "dev_test_labels": np.array([1, 0], dtype=np.int8),
    }


@pytest.mark.parametrize(("name", "file"), [("lfw", "lfw.npz"), ("pubfig", "pubfig83.npz")])
def test_an_npz_file_comes_back_as_it_was_written(tmp_path, name, file):
    arrays = faces()
    np.savez_compressed(tmp_path / file, **arrays)
    data = load_verification(name, data_home=tmp_path)
    np.testing.assert_array_equal(data.X, arrays["X"])
    np.testing.assert_array_equal(data.identities, arrays["y"])
    np.testing.assert_array_equal(data.pairs, arrays["pairs"])
    np.testing.assert_array_equal(data.folds, arrays["folds"])
    assert data.labels.tolist() == [1, -1, 1, -1]
    assert {part.dtype for part in (data.pairs, data.labels, data.folds)} == {np.dtype(np.int64)}
    assert data.source == "data home"
    assert data.disjoint
    if name == "lfw":
        assert data.development.train_labels.tolist() == [1, -1]
        np.testing.assert_array_equal(data.development.test_pairs, arrays["dev_test_pairs"])


@pytest.mark.parametrize("options", [{"seed": 1}, {"n_folds": 2}, {"n_pairs": 4}, {"pairs_file": "pairs.txt"}])
def test_a_file_with_its_own_pairs_is_not_read_as_if_others_were_generated(tmp_path, options):
    np.savez_compressed(tmp_path / "pubfig83.npz", **faces())
    with pytest.raises(ValueError, match=r"pubfig83\.npz holds its own pairs"):
        load_verification("pubfig", data_home=tmp_path, **options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folds": None}, "it has no array 'folds'"),
        ({"dev_test_labels": None}, "it has no array 'dev_test_labels'"),
        ({"X": np.zeros((8, 6, 5))}, "X must be n x h x w grey images .* dtype float64"),
        ({"y": np.arange(7)}, r"y must be 8 integers, got shape \(7,\)"),
        ({"y": np.arange(8.0)}, "y must be 8 integers, .* dtype float64"),
        ({"pairs": np.array([[0, 1], [0, 2], [4, 8], [5, 7]])}, r"pair 2 = \(4, 8\) is out of range: there are 8"),
        ({"pairs": np.zeros((4, 3), dtype=int)}, "pairs must be N x 2 integers"),
        (
            {"pair_labels": np.array([1, 2, 1, 0])},
            r"pair_labels must be 1 \(same\) and 0 \(different\), got \[0, 1, 2\]",
        ),
        ({"pair_labels": np.array([1, 1, 1, 0])}, r"pair 1 = \(0, 2\) has the label \+1, but its images show 0 and 1"),
        ({"folds": np.array([0, 1, 0, 1])}, r"all pairs of fold 0 are of one kind \(same\)"),
        ({"dev_train_pairs": np.array([[2, 3], [3, 99]])}, r"dev_train_pairs: pair 1 = \(3, 99\) is out of range"),
    ],
)
def test_a_bad_npz_file_is_named_with_what_is_wrong(tmp_path, changes, message):
    path = tmp_path / "lfw.npz"
    np.savez_compressed(path, **{name: value for name, value in (faces() | changes).items() if value is not None})
    with pytest.raises(ValueError, match=message) as caught:
        load_verification("lfw", data_home=tmp_path)
    assert str(path) in str(caught.value)


def test_an_npz_file_cut_short_is_named(tmp_path):
    path = tmp_path / "lfw.npz"
    np.savez_compressed(path, **faces())
    whole = path.read_bytes()
    for content in (whole[:-60], whole[: len(whole) // 2], b""):
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=rf"{re.escape(str(path))} is not an npz file of plain arrays, or it is damaged"
        ):
            load_verification("lfw", data_home=tmp_path)


# --- PubFig ---------------------------------------------------------------------------------------------


@pytest.fixture
def pubfig(tmp_path):
    """Six people by name with spaces, three or four images of various sizes, numbers with holes."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "people"
    for p, person in enumerate(("Al Ant", "Bo Bee", "Cat Cow", "Don Doe", "Ed Emu", "Fay Fox")):
        (folder / person).mkdir(parents=True)
        for i in (1, 4, 7, 12)[: 3 + p % 2]:
            write_image(folder / person / f"{i}.jpg", rng, (80 + 5 * p, 100, 3)[: 3 - p % 2])
    (folder / ".cache").mkdir()
    (folder / "readme.txt").write_text("not a person")
    return folder


def test_pubfig_folder_is_grey_and_64_by_64(pubfig):
    data = load_verification("pubfig", folder=pubfig, n_folds=3, n_pairs=10)
    assert data.X.shape == (21, 64, 64)
    assert data.X.dtype == np.uint8
    assert data.identities.tolist()[:4] == ["Al Ant"] * 3 + ["Bo Bee"]
    with Image.open(pubfig / "Al Ant" / "4.jpg") as image:
        theirs = np.asarray(image.resize((64, 64)), dtype=float).mean(axis=2)
    np.testing.assert_allclose(data.X[1], theirs, atol=0.5)
    with Image.open(pubfig / "Bo Bee" / "12.jpg") as image:
        assert image.mode == "L"
        np.testing.assert_array_equal(data.X[4], np.asarray(image.resize((64, 64))))


def test_pubfig_pairs_are_generated_in_folds_without_a_common_person(pubfig):
    data = load_verification("pubfig", folder=pubfig, n_folds=3, n_pairs=10)
    assert data.disjoint
    assert len(list(data.splits())) == 3
    for train, test in data.splits():
        assert not set(data.identities[data.pairs[train]].ravel()) & set(data.identities[data.pairs[test]].ravel())
        assert data.labels[test].sum() == 0
        assert len(test) == 10
    again = load_verification("pubfig", folder=pubfig, n_folds=3, n_pairs=10)
    other = load_verification("pubfig", folder=pubfig, n_folds=3, n_pairs=10, seed=1)
    np.testing.assert_array_equal(again.pairs, data.pairs)
    assert not np.array_equal(other.pairs, data.pairs)
    assert "enerated" in data.note


def test_the_ordered_protocol_trains_on_the_first_80_percent(pubfig):
    data = load_verification("pubfig", folder=pubfig, protocol="ordered", n_folds=3, n_pairs=10)
    ((train, test),) = data.splits()
    np.testing.assert_array_equal(train, np.arange(24))
    np.testing.assert_array_equal(test, np.arange(24, 30))
    assert not data.disjoint
    assert "80 %" in data.note


def test_too_few_people_for_the_folds_are_refused(pubfig):
    with pytest.raises(ValueError, match=r"people: 6 classes \(people, points\) are too few for n_folds=10"):
        load_verification("pubfig", folder=pubfig)
    with pytest.raises(ValueError, match="protocol must be 'disjoint' or 'ordered', got 'random'"):
        load_verification("pubfig", folder=pubfig, protocol="random")


PUBFIG_PAIRS = [
    "# PubFig Dataset v1.2 - pubfig_full.txt",
    "2\t1",
    "Al Ant\t1\t7",
    "Al Ant\t4\tBo Bee\t12",
    "Cat Cow\t4.jpg\t1",
    "Cat Cow\t7\tDon Doe\t01",
]


def test_a_pairs_file_names_images_by_number_or_file(pubfig, tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("\n".join(PUBFIG_PAIRS))
    data = load_verification("pubfig", folder=pubfig, pairs_file=path)
    # Rows are ordered by file name: 1, 4, 7 or 1, 12, 4, 7.
    assert data.pairs.tolist() == [[0, 2], [1, 4], [8, 7], [9, 10]]
    assert data.folds.tolist() == [0, 0, 1, 1]
    assert data.disjoint


def test_a_pairs_file_whose_folds_share_a_person_is_not_disjoint(pubfig, tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("\n".join([*PUBFIG_PAIRS[:-1], "Cat Cow\t7\tBo Bee\t1"]))
    with pytest.raises(ValueError, match=r"pairs\.txt: 'Bo Bee' is in the pairs of two folds"):
        load_verification("pubfig", folder=pubfig, pairs_file=path)
    # Of four pairs the last alone is tested, and it is of one kind.
    with pytest.raises(ValueError, match=r"protocol='ordered': all pairs of fold 1 are of one kind \(different\)"):
        load_verification("pubfig", folder=pubfig, pairs_file=path, protocol="ordered")


def test_an_image_number_that_two_files_have_is_refused(pubfig, tmp_path):
    write_image(pubfig / "Al Ant" / "new-7.jpg", np.random.default_rng(1))
    path = tmp_path / "pairs.txt"
    path.write_text("\n".join(PUBFIG_PAIRS))
    with pytest.raises(ValueError, match=r"line 3: image '7' of 'Al Ant' can be any of 7\.jpg, new-7\.jpg"):
        load_verification("pubfig", folder=pubfig, pairs_file=path)


def test_a_pairs_file_does_not_go_with_an_npz_file(tmp_path):
    np.savez_compressed(tmp_path / "pubfig83.npz", **faces())
    with pytest.raises(ValueError, match=r"pubfig83\.npz holds its own pairs"):
        load_verification("pubfig", data_home=tmp_path, pairs_file="pairs.txt")


# --- the real thing -------------------------------------------------------------------------------------


def test_the_shared_lfw_has_the_official_protocol(shared):
    data = load_verification("lfw", data_home=shared)
    assert data.X.shape == (13233, 62, 47)
    assert len(np.unique(data.identities)) == 5749
    assert np.bincount(data.folds).tolist() == [600] * 10
    assert all(data.labels[data.folds == fold].sum() == 0 for fold in range(10))
    assert data.disjoint
    assert (len(data.development.train_labels), len(data.development.test_labels)) == (2200, 1000)
    assert data.development.train_labels.sum() == data.development.test_labels.sum() == 0


def test_the_shared_pubfig_is_disjoint_and_can_be_split_in_order(shared):
    data = load_verification("pubfig", data_home=shared)
    assert data.X.shape == (12178, 64, 64)
    assert len(np.unique(data.identities)) == 83
    assert np.bincount(data.folds).tolist() == [2000] * 10
    assert data.disjoint
    ((train, test),) = load_verification("pubfig", data_home=shared, protocol="ordered").splits()
    assert (len(train), len(test), test[0]) == (16000, 4000, 16000)
