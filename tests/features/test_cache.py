"""The cache: found by content, rebuilt when damaged, whole whatever happens."""

import os
import time
from pathlib import Path
from unittest import TestCase

import numpy as np
import pytest

from advmetric.features import cached
from advmetric.features.cache import cache_folder
from reference.processes import quick_start

IMAGES = np.arange(4 * 6 * 5, dtype=np.uint8).reshape(4, 6, 5)
SETTINGS = {"step": 4, "sizes": (8, 12), "root": True}


class Compute:
    """Counts its calls."""

    def __init__(self, images=IMAGES):
        self.calls, self.images = 0, images

    def __call__(self):
        self.calls += 1
        return self.images.reshape(len(self.images), -1).astype(np.float32) * 1.5


def file_in(folder):
    (path,) = folder.iterdir()
    return path


def test_a_hit_computes_nothing_and_gives_equal_features(tmp_path):
    compute = Compute()
    first = cached(tmp_path / "new" / "folder", "f", IMAGES, SETTINGS, compute)
    again = cached(tmp_path / "new" / "folder", "f", IMAGES.copy(), dict(reversed(SETTINGS.items())), compute)
    assert compute.calls == 1
    assert again.dtype == np.float32
    np.testing.assert_array_equal(first, again)
    # Neither the memory layout nor NumPy's own numbers make other content.
    settings = SETTINGS | {"step": np.int64(4), "sizes": np.array([8, 12])}
    cached(tmp_path / "new" / "folder", "f", np.asfortranarray(IMAGES), settings, compute)
    assert compute.calls == 1


@pytest.mark.parametrize(
    ("name", "images", "settings"),
    [
        ("f", IMAGES, SETTINGS | {"step": 5}),
        ("f", IMAGES, {}),
        ("g", IMAGES, SETTINGS),
        ("f", np.where(IMAGES == 7, 8, IMAGES).astype(np.uint8), SETTINGS),
        ("f", IMAGES.reshape(4, 5, 6), SETTINGS),
        ("f", IMAGES.astype(np.int8), SETTINGS),
    ],
)
def test_other_content_is_a_miss(tmp_path, name, images, settings):
    cached(tmp_path, "f", IMAGES, SETTINGS, Compute())
    compute = Compute(images)
    cached(tmp_path, name, images, settings, compute)
    assert compute.calls == 1


def test_a_file_cut_short_anywhere_is_rebuilt_and_logged(tmp_path):
    good = cached(tmp_path, "f", IMAGES, SETTINGS, Compute())
    path = file_in(tmp_path)
    content = path.read_bytes()
    for length in [0, 1, 30, len(content) // 2, len(content) - 30, len(content) - 1]:
        path.write_bytes(content[:length])
        compute = Compute()
        with TestCase().assertLogs("advmetric", "WARNING") as log:
            np.testing.assert_array_equal(cached(tmp_path, "f", IMAGES, SETTINGS, compute), good)
        assert compute.calls == 1
        assert "damaged" in log.output[0]
        assert str(path) in log.output[0]
        assert path.stat().st_size == len(content)


def test_a_changed_byte_never_changes_features(tmp_path):
    good = cached(tmp_path, "f", IMAGES, SETTINGS, Compute())
    path = file_in(tmp_path)
    content, rebuilt = path.read_bytes(), 0
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        compute = Compute()
        np.testing.assert_array_equal(cached(tmp_path, "f", IMAGES, SETTINGS, compute), good)
        rebuilt += compute.calls
    assert rebuilt > len(content) // 7 // 2  # the rest are bytes of the archive that say nothing: dates, permissions


def test_features_of_other_content_under_the_name_are_noticed(tmp_path):
    cached(tmp_path, "f", IMAGES, SETTINGS, Compute())
    first = file_in(tmp_path)
    cached(tmp_path, "f", IMAGES + 1, SETTINGS, Compute(IMAGES + 1))
    (second,) = set(tmp_path.iterdir()) - {first}
    first.write_bytes(second.read_bytes())
    compute = Compute()
    cached(tmp_path, "f", IMAGES, SETTINGS, compute)
    assert compute.calls == 1


def _work(folder, barrier, results):
    images = np.full((2000, 20, 20), 3, dtype=np.uint8)
    barrier.wait()
    for _ in range(5):
        features = cached(folder, "f", images, {}, lambda: np.full((2000, 400), 2.5, dtype=np.float32))
        if features.shape != (2000, 400) or not (features == 2.5).all():
            results.put("wrong")
        for path in Path(folder).glob("f-*"):
            path.unlink(missing_ok=True)
    results.put("done")


def test_processes_at_once_never_see_or_leave_a_flawed_file(tmp_path):
    context = quick_start()
    barrier, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_work, args=(str(tmp_path), barrier, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert [results.get(timeout=300) for _ in workers] == ["done", "done"]
    for worker in workers:
        worker.join(timeout=300)
        assert worker.exitcode == 0
    assert not list(tmp_path.glob(".*"))


def test_a_failed_compute_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        cached(tmp_path, "f", IMAGES, SETTINGS, lambda: 1 / 0)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_the_cache_only(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with TestCase().assertLogs("advmetric", "WARNING") as log:
        features = cached(tmp_path / "file", "f", IMAGES, SETTINGS, Compute())
    np.testing.assert_array_equal(features, Compute()())
    assert "not kept" in log.output[-1]


def test_old_leftovers_of_killed_processes_are_removed_and_new_ones_kept(tmp_path):
    cached(tmp_path, "f", IMAGES, SETTINGS, Compute())
    path = file_in(tmp_path)
    old, new = (tmp_path / f".{path.name}.{name}.part" for name in ("old", "new"))
    for leftover in (old, new):
        leftover.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    path.unlink()
    cached(tmp_path, "f", IMAGES, SETTINGS, Compute())
    assert set(tmp_path.iterdir()) == {path, new}


def test_default_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "advmetric"
    cached(None, "f", IMAGES, SETTINGS, Compute())
    assert file_in(tmp_path / "advmetric").name.startswith("f-")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "advmetric"


@pytest.mark.parametrize(
    ("name", "images", "settings", "compute", "error", "message"),
    [
        ("a/b", IMAGES, {}, Compute(), ValueError, "name='a/b'"),
        ("..", IMAGES, {}, Compute(), ValueError, "name"),
        ("f", IMAGES[:0], {}, Compute(), ValueError, "images is empty"),
        ("f", np.array([None]), {}, Compute(), TypeError, "images"),
        ("f", IMAGES, {"a": object()}, Compute(), TypeError, "settings"),
        ("f", IMAGES, {}, lambda: np.zeros((3, 2)), ValueError, r"compute must return .* \(4\), got shape \(3, 2\)"),
        ("f", IMAGES, {}, lambda: np.array([None] * 4), ValueError, "compute .* object"),
    ],
)
def test_bad_input_is_named(tmp_path, name, images, settings, compute, error, message):
    with pytest.raises(error, match=message):
        cached(tmp_path, name, images, settings, compute)
    assert not list(tmp_path.iterdir())
