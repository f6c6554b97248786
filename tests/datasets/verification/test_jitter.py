"""Patches: the layout of Photo Tourism, and pairs made by jitter."""

import itertools
import re
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from advmetric.datasets import load_verification
from advmetric.datasets.verification import Jitter
from advmetric.datasets.verification.jitter import make_views, origins
from advmetric.datasets.verification.phototourism import read_patches

PAIRS = "m50_100000_100000_0.txt"
SCENES = ("liberty", "notredame", "yosemite")
LINES = ["0 0 0 2 0 0 0", "3 1 0 300 150 0 0", "511 255 0 510 255 0 0", "2 0 0 511 255 0 0"]
"""Same, different, same, different: of 512 patches, two per point."""
STILL = Jitter(shift=0, rotation=0, scale=0, contrast=0, brightness=0)


def points_of(n):
    """Points 0 0 1 1 2 2 …, but patch 2 shows point 0 and patch 1 point 1."""
    points = np.arange(n) // 2
    points[[1, 2]] = [1, 0]
    return points


def write_scene(folder, seed, n=512, lines=LINES):
    """Bitmaps of 16 x 16 patches; info.txt; a pair file. Returns the patches."""
    folder.mkdir(parents=True)
    patches = np.random.default_rng(seed).integers(0, 256, size=(n, 64, 64), dtype=np.uint8)
    for k in range(-(-n // 256)):
        sheet = np.zeros((1024, 1024), dtype=np.uint8)
        for i, patch in enumerate(patches[256 * k : 256 * (k + 1)]):
            row, column = divmod(i, 16)
            sheet[64 * row : 64 * row + 64, 64 * column : 64 * column + 64] = patch
        Image.fromarray(sheet).save(folder / f"patches{k:04d}.bmp")
    (folder / "info.txt").write_text("".join(f"{point} 0\n" for point in points_of(n)))
    (folder / PAIRS).write_text("\n".join(lines) + "\n")
    return patches


@pytest.fixture
def mvs(tmp_path):
    folder = tmp_path / "mvs"
    return folder, {scene: write_scene(folder / scene, seed) for seed, scene in enumerate(SCENES)}


def test_patches_of_pairs_come_from_the_right_place_of_the_right_bitmap(mvs):
    folder, patches = mvs
    data = load_verification("mvs", folder=folder)
    assert data.X.shape == (18, 64, 64)  # of 3 x 512: only those that a pair names
    assert data.X.dtype == np.uint8
    named = [[0, 2], [3, 300], [511, 510], [2, 511]]
    for fold, scene in enumerate(SCENES):
        np.testing.assert_array_equal(data.X[data.pairs[data.folds == fold]], patches[scene][named])
    assert data.labels.tolist() == [1, -1, 1, -1] * 3
    assert data.disjoint
    assert data.source == "folder"


def test_two_scenes_train_and_yosemite_is_tested(mvs):
    folder, _ = mvs
    data = load_verification("mvs", data_home=folder.parent)
    ((train, test),) = data.splits()
    assert (train.tolist(), test.tolist()) == (list(range(8)), list(range(8, 12)))
    assert not set(data.identities[data.pairs[train]].ravel()) & set(data.identities[data.pairs[test]].ravel())
    ((train, test),) = load_verification("mvs", folder=folder, test_scene="liberty").splits()
    assert test.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="test_scene must be one of liberty, notredame, yosemite, got 'trevi'"):
        load_verification("mvs", folder=folder, test_scene="trevi")


def test_points_of_different_scenes_are_different(mvs):
    data = load_verification("mvs", folder=mvs[0])
    first = data.identities[data.pairs[[0, 4, 8], 0]]  # point 0 of each
    assert len(set(first.tolist())) == 3


def test_the_last_bitmap_need_not_be_full_and_lines_may_have_six_fields(tmp_path):
    lines = ["0 0 0 2 0 0", "3 1 0 256 128 0"]
    patches = [write_scene(tmp_path / scene, 0, n=257, lines=lines) for scene in SCENES]
    data = load_verification("mvs", folder=tmp_path)
    np.testing.assert_array_equal(data.X[data.pairs[1, 1]], patches[0][256])


def test_another_pair_file_can_be_named(mvs):
    folder, _ = mvs
    for scene in SCENES:
        (folder / scene / "m50_1000_1000_0.txt").write_text("\n".join(LINES[:2]))
    assert len(load_verification("mvs", folder=folder, pairs_file="m50_1000_1000_0.txt").pairs) == 6


def test_reading_needs_one_bitmap_beside_the_patches(tmp_path):
    expected = write_scene(tmp_path / "scene", 0, n=8 * 256)
    out = np.empty_like(expected)
    read_patches(tmp_path / "scene", np.arange(256), out[:256])  # what Pillow sets up once does not count
    tracemalloc.start()
    read_patches(tmp_path / "scene", np.arange(len(expected)), out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(out, expected)
    assert peak < 5 * 2**20  # 8 MB of patches


def cut(path, count):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))


def add_line(path, line):
    path.write_text(path.read_text() + line + "\n")


def replace_bitmap(path, shape):
    Image.fromarray(np.zeros(shape, dtype=np.uint8)).save(path)


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("info.txt", lambda path: cut(path, 256), r"has fewer lines than patches: 256, but 2 bitmaps hold 257 to 512"),
        ("info.txt", lambda path: add_line(path, "9 0"), "has more lines than patches: 513"),
        ("info.txt", lambda path: cut(path, 0), "is empty"),
        ("info.txt", lambda path: path.write_text("0 0\nx 0\n"), "line 2: expected integers, got 'x 0'"),
        ("info.txt", lambda path: path.write_text("0 0\n\n1 0\n"), "line 2: the line is empty"),
        (PAIRS, lambda path: path.write_text("0 0 0 2\n"), "line 1: expected 6 or 7 integers, got '0 0 0 2'"),
        (PAIRS, lambda path: add_line(path, "0 0 0 two 0 0 0"), "line 5: expected 6 or 7 integers"),
        (PAIRS, lambda path: add_line(path, "0 0 0 512 0 0 0"), "line 5: patch 512 .* no such patch: info.txt has 512"),
        (PAIRS, lambda path: add_line(path, "-1 0 0 5 2 0 0"), "line 5: patch -1 .* no such patch"),
        (PAIRS, lambda path: add_line(path, "0 0 0 5 9 0 0"), "line 5: patch 5 of point 9: info.txt says another"),
        (PAIRS, lambda path: cut(path, 1), r"all pairs are of one kind \(same\)"),
        ("patches0001.bmp", lambda path: replace_bitmap(path, (1024, 512)), "is 512 x 1024 pixels; .* 1024 x 1024"),
        ("patches0001.bmp", lambda path: path.write_bytes(b""), "is empty"),
        ("patches0001.bmp", lambda path: path.write_bytes(path.read_bytes()[:5000]), "cannot be read"),
    ],
)
def test_a_bad_file_of_a_scene_is_named(mvs, file, damage, message):
    path = mvs[0] / "notredame" / file
    damage(path)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}[,:]? {message}"):
        load_verification("mvs", folder=mvs[0])


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("info.txt", "there is no file .*liberty/info.txt"),
        (PAIRS, f"there is no file .*liberty/{PAIRS}"),
        ("patches0000.bmp", "there is no patches0000.bmp in .*liberty, though there is patches0001.bmp"),
    ],
)
def test_an_absent_file_of_a_scene_is_named(mvs, file, message):
    (mvs[0] / "liberty" / file).unlink()
    with pytest.raises(FileNotFoundError, match=message):
        load_verification("mvs", folder=mvs[0])


def test_an_absent_scene_is_named(mvs):
    (mvs[0] / "yosemite").rename(mvs[0] / "trevi")
    with pytest.raises(FileNotFoundError, match="no folder of the scene 'yosemite'"):
        load_verification("mvs", folder=mvs[0])


# --- jitter ---------------------------------------------------------------------------------------------


@pytest.fixture
def smooth():
    """Patches of 32 x 32 with structure, each unlike the others."""
    coarse = np.random.default_rng(0).integers(40, 216, size=(40, 6, 6), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(patch).resize((32, 32))) for patch in coarse])


def view(patch, side=20, **change):
    names = ("down", "right", "degrees", "scale", "contrast", "brightness")
    return make_views(patch[None], np.array([0]), np.array([[change.get(name, 0.0) for name in names]]), side)[0]


def test_without_change_a_view_is_the_centre_of_its_patch(smooth):
    np.testing.assert_array_equal(view(smooth[0]), smooth[0, 6:26, 6:26])
    np.testing.assert_array_equal(view(smooth[0], side=32), smooth[0])


def test_a_shift_by_pixels_moves_the_content_down_and_right(smooth):
    moved = view(smooth[0], down=3 / 32, right=-2 / 32)
    np.testing.assert_array_equal(moved, smooth[0, 3:23, 8:28])


def test_a_quarter_turn_goes_clockwise(smooth):
    np.testing.assert_array_equal(view(smooth[0], degrees=90), np.rot90(smooth[0], -1)[6:26, 6:26])


def test_twice_the_scale_shows_the_inner_half(smooth):
    """Pixels 1, 3, 5 … of a linear ramp seen twice as large are those between its pixels."""
    ramp = np.broadcast_to(np.arange(32, dtype=np.uint8) * 8, (32, 32)).copy()
    wide = view(ramp, scale=np.log(2), side=16).astype(float)
    np.testing.assert_allclose(np.diff(wide, axis=1), 4, atol=1)
    np.testing.assert_allclose(wide.mean(), ramp.mean(), atol=0.6)


def test_lighting_changes_contrast_about_the_mean_and_adds_brightness(smooth):
    plain, lit = (view(smooth[0], contrast=c, brightness=b).astype(float) for c, b in ((0, 0), (-0.3, 20)))
    np.testing.assert_allclose(lit, (plain - plain.mean()) * np.exp(-0.3) + plain.mean() + 20, atol=0.51)
    bright = view(smooth[0], brightness=400)
    assert (bright == 255).all()  # and not wrapped


@pytest.mark.parametrize("n", [32, 33, 64])
@pytest.mark.parametrize("jitter", [Jitter(), Jitter(0.1, 30, 0.2), Jitter(0.02, 80, 0.0), STILL])
def test_views_never_leave_their_patch_and_could_hardly_be_larger(n, jitter):
    side = jitter.view_side(n)
    assert side % 2 == n % 2

    def reach(side):
        turns = np.linspace(-1, 1, 33) * jitter.rotation
        ends = itertools.product(*[(-b, b) for b in (jitter.shift, jitter.shift)], turns, (-jitter.scale, jitter.scale))
        places = np.stack([origins(np.array([*end, 0, 0]), side, n) for end in ends])
        return np.abs(places - (n - 1) / 2).max()

    assert reach(side) <= (n - 1) / 2 + 1e-9
    assert reach(side + 2) > (n - 1) / 2 - 0.6  # turns lie on a grid, and not all extremes meet in one corner


def test_same_pairs_are_views_of_one_patch_and_folds_share_none(smooth):
    data = load_verification("patches", patches=smooth, jitter=STILL, n_folds=4, n_pairs=30)
    assert data.X.shape == (160, 32, 32)
    assert data.identities is None
    assert data.disjoint
    assert data.source == "array"
    point = np.array([np.flatnonzero((smooth == image).all(axis=(1, 2)))[0] for image in data.X])
    assert np.bincount(point).tolist() == [4] * 40
    np.testing.assert_array_equal(point[data.pairs[:, 0]] == point[data.pairs[:, 1]], data.labels == 1)
    assert (data.pairs[:, 0] != data.pairs[:, 1]).all()
    assert np.bincount(data.folds).tolist() == [30] * 4
    for train, test in data.splits():
        assert not set(point[data.pairs[train]].ravel()) & set(point[data.pairs[test]].ravel())


def test_views_are_deterministic_and_differ_from_each_other(smooth):
    options = {"patches": smooth, "n_folds": 4, "n_pairs": 30}
    first, again = load_verification("patches", **options), load_verification("patches", **options)
    other = load_verification("patches", **options, seed=1)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.pairs, again.pairs)
    assert not np.array_equal(first.X, other.X)
    assert first.X.shape == (160, 20, 20)
    assert len(np.unique(first.X.reshape(160, -1), axis=0)) == 160


def test_pixels_tell_same_from_different_but_not_perfectly(smooth):
    data = load_verification("patches", patches=smooth, n_folds=2, n_pairs=200)
    images = data.X.reshape(len(data.X), -1).astype(float)
    distance = np.linalg.norm(images[data.pairs[:, 0]] - images[data.pairs[:, 1]], axis=1)
    same, different = distance[data.labels == 1], distance[data.labels == -1]
    assert np.median(same) < np.median(different)
    assert same.min() > 0


def test_the_note_says_that_the_pairs_are_made(smooth):
    note = load_verification("patches", patches=smooth, n_folds=2, seed=7).note
    assert note.startswith("Made pairs, not observed ones: 4 views of each of 40 unlabelled patches")
    assert "seed 7" in note


def test_patches_from_image_files_and_from_a_scene(tmp_path, smooth):
    folder = tmp_path / "files"
    folder.mkdir()
    for i, patch in enumerate(smooth):
        Image.fromarray(patch).save(folder / f"{i:03d}.png")
    data = load_verification("patches", folder=folder, jitter=STILL, n_folds=2, n_points=30)
    np.testing.assert_array_equal(data.X[::4], smooth[:30])
    assert data.source == "folder"
    scene = write_scene(tmp_path / "scene", 0)
    data = load_verification("patches", folder=tmp_path / "scene", jitter=STILL, n_folds=2, n_points=50)
    first_of_its_point = [0, 1, *range(4, 100, 2)]
    np.testing.assert_array_equal(data.X[::4], scene[first_of_its_point])


def test_bad_patches_are_refused(tmp_path, smooth):
    folder = tmp_path / "files"
    folder.mkdir()
    with pytest.raises(ValueError, match=r"there is no image file in .*files"):
        load_verification("patches", folder=folder)
    Image.fromarray(smooth[0]).save(folder / "a.png")
    Image.fromarray(smooth[0, :, :20]).save(folder / "b.png")
    with pytest.raises(ValueError, match=r"b\.png is 20 x 32 pixels, but a\.png is 32 x 32"):
        load_verification("patches", folder=folder)
    with pytest.raises(ValueError, match="patches must be square, got 32 x 20"):
        load_verification("patches", patches=smooth[:, :, :20])
    with pytest.raises(ValueError, match=r"patches: X must be n x h x w grey images .* dtype float64"):
        load_verification("patches", patches=smooth / 255)
    with pytest.raises(ValueError, match="too small for this jitter"):
        load_verification("patches", patches=smooth, jitter=Jitter(shift=0.5))
    with pytest.raises(ValueError, match="rotation must be finite and not negative, got -1"):
        Jitter(rotation=-1)
    with pytest.raises(ValueError, match="either folder or patches"):
        load_verification("patches", patches=smooth, folder=folder)
    np.savez(tmp_path / "notredame_patches.npz", Y=smooth)
    with pytest.raises(ValueError, match=r"notredame_patches\.npz is not an npz file .*it has no array 'X'"):
        load_verification("patches", data_home=tmp_path)


def test_an_exact_copy_is_no_different_patch(smooth):
    doubled = np.concatenate([smooth[:20], smooth[:25]])
    data = load_verification("patches", patches=doubled, jitter=STILL, n_folds=2, n_views=2)
    np.testing.assert_array_equal(data.X[::2], smooth[:25])


def test_a_patch_of_16_bits_is_refused(tmp_path):
    Image.fromarray(np.full((32, 32), 40000, dtype=np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(ValueError, match=r"deep\.png cannot be read \(mode I;16: more than 8 bits"):
        load_verification("patches", folder=tmp_path)


def test_a_scene_without_points_is_not_taken_for_unlabelled_patches(tmp_path):
    write_scene(tmp_path / "scene", 0, n=256)
    (tmp_path / "scene" / "info.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"no info\.txt in .* it is unknown which"):
        load_verification("patches", folder=tmp_path / "scene")


@pytest.mark.slow
def test_the_shared_patches_give_ten_thousand_pairs(shared):
    data = load_verification("patches", data_home=shared)
    assert data.X.shape == (12000, 20, 20)
    assert np.bincount(data.folds).tolist() == [2000] * 5
    assert data.source == "data home"
