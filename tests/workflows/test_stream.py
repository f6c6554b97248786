"""``advmetric fit --chunk-rows``: what is learned in parts is what is learned in memory, and memory stays small."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from sklearn.datasets import load_wine

from advmetric import Mahalanobis, load_dataset, methods
from advmetric.workflows import stream

WINE, VEHICLE = load_wine(), load_dataset("vehicle")
POINTS = np.ascontiguousarray(VEHICLE.X)
KINDS = np.array(["bus", "opel", "saab", "van"])[VEHICLE.y]
NAMES = [f"f{j}" for j in range(13)]
RNG = np.random.default_rng(0)
DRAWN = RNG.integers(0, 120, (400, 2))  # of 178 wines: some are in no pair, and must not count
SAME = np.where(WINE.target[DRAWN[:, 0]] == WINE.target[DRAWN[:, 1]], 1, -1)
LABELS = {"points": "--label", "pairs": "--pairs"}


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """Each test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fitted(cli):
    """Run ``fit``, which must succeed and say nothing on stderr; return the metric."""

    def run(*arguments):
        code, _, err = cli("fit", *arguments, "--out", "found.npz", "--force")
        assert (code, err) == (0, "")
        return Mahalanobis.load("found.npz")

    return run


@pytest.fixture
def refused(cli, work):
    """Run ``fit``, which must fail with a code, in one line, and leave no new file; return the line."""

    def run(code, *arguments):
        before = sorted(path.name for path in work.iterdir())
        got, out, err = cli("fit", *arguments)
        assert (got, out, len(err.splitlines())) == (code, "", 1), err
        assert sorted(path.name for path in work.iterdir()) == before
        return err.strip()

    return run


def write_table(name, columns):
    if name.endswith("parquet"):
        pyarrow.parquet.write_table(pyarrow.table(columns), name, row_group_size=100)
        return
    with open(name, "w", encoding="utf-8") as file:
        file.write(",".join(columns) + "\n")
        for row in zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True):
            file.write(",".join(map(str, row)) + "\n")


def formed_columns(pairs=WINE.data[DRAWN], same=SAME):
    sides = {f"{side}_{name}": pairs[:, i, j] for i, side in enumerate("ab") for j, name in enumerate(NAMES)}
    return {**sides, "same": same, "note": [f"n{i}" for i in range(len(same))]}


def write(what):
    """A file of the kind, and the options to read it with."""
    kind, suffix = what.split(".")
    save = np.savez_compressed if kind.endswith("compressed") else np.savez
    if suffix == "npz":
        if kind.startswith("points"):
            save(what, X=POINTS, y=KINDS, feature_names=VEHICLE.feature_names)
        elif kind.startswith("columns"):
            save(what, X=np.asfortranarray(VEHICLE.X), y=KINDS)
        elif kind.startswith("formed"):
            save(what, pairs=WINE.data[DRAWN].astype(np.float32), y=SAME)
        else:
            save(what, pairs=DRAWN, X=WINE.data, y=SAME)
        return (what,)
    if kind == "points":
        write_table(what, dict(zip(VEHICLE.feature_names, VEHICLE.X.T, strict=True)) | {"class": KINDS, "id": KINDS})
        return (what, "--label", "class", "--drop", "id")
    write_table(what, formed_columns())
    return (what, "--pairs", "same")


FILES = [
    "points.npz",
    "points_compressed.npz",
    "columns.npz",
    "points.csv",
    "points.parquet",
    "formed.npz",
    "formed_compressed.npz",
    "formed.csv",
    "formed.parquet",
    "indices.npz",
]


@pytest.mark.parametrize("what", FILES)
@pytest.mark.parametrize("options", [(), ("--no-standardize", "--method", "GMML")], ids=["scaled", "raw"])
def test_in_parts_the_metric_is_that_of_memory(fitted, what, options):
    file = write(what)
    expected = fitted(*file, *options, "--no-tune", "--test", 0)
    for rows in (1000, 77):  # all at once; neither number of rows is a multiple of 77
        found = fitted(*file, *options, "--chunk-rows", rows)
        np.testing.assert_allclose(found.matrix, expected.matrix, rtol=0, atol=1e-10 * np.abs(expected.matrix).max())
        assert found.feature_names == expected.feature_names
        assert (found.threshold is None) == (expected.threshold is None) == what.startswith(("points", "columns"))
        if found.threshold is not None:
            assert found.threshold == pytest.approx(expected.threshold, rel=1e-10)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_part_may_be_of_one_row_and_of_one_kind(fitted, rows):
    for what, n in (("points", 40), ("formed", 30), ("indices", 30)):
        y = np.arange(n) // (n // 2)  # sorted
        if what == "points":
            np.savez("small.npz", X=WINE.data[:n], y=y)
        elif what == "formed":
            np.savez("small.npz", pairs=WINE.data[DRAWN[:n]], y=2 * y - 1)
        else:
            np.savez("small.npz", pairs=DRAWN[:n], X=WINE.data, y=2 * y - 1)
        expected = fitted("small.npz", "--no-tune", "--test", 0).matrix
        found = fitted("small.npz", "--chunk-rows", rows).matrix
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_features_of_any_scale_place_or_spread_are_standardised_as_in_memory(fitted):
    X = WINE.data * np.logspace(-6, 6, 13)
    X += 1e4 * X.std(axis=0)
    X[:, 3] = 0.1  # constant
    np.savez("odd.npz", X=X, y=WINE.target)
    expected = fitted("odd.npz", "--no-tune", "--test", 0).components
    found = fitted("odd.npz", "--chunk-rows", 50)
    unit = np.sqrt(np.diag(expected.T @ expected))
    np.testing.assert_allclose(
        found.matrix / np.outer(unit, unit), expected.T @ expected / np.outer(unit, unit), atol=1e-10
    )


def test_euclidean_in_parts_has_the_threshold_of_memory(fitted):
    file = write("indices.npz")
    expected = fitted(*file, "--method", "Euclidean", "--no-tune", "--test", 0)
    found = fitted(*file, "--method", "euclidean", "--chunk-rows", 77)
    np.testing.assert_allclose(found.components, expected.components, rtol=1e-12)
    assert found.threshold == pytest.approx(expected.threshold, rel=1e-10)
    np.savez("points.npz", X=WINE.data, y=WINE.target)
    np.testing.assert_allclose(
        fitted("points.npz", "--method", "Euclidean", "--chunk-rows", 77).components, np.diag(1 / WINE.data.std(axis=0))
    )


def test_probabilities_are_of_pairs_out_of_fold_however_the_file_is_cut(fitted):
    file = write("formed.npz")
    memory = fitted(*file, "--no-tune", "--test", 0)
    first, second = (fitted(*file, "--chunk-rows", rows) for rows in (77, 400))
    np.testing.assert_allclose(first.calibration, second.calibration, rtol=1e-8)
    # Other folds than in memory, so the same only about as far as five folds and five others agree.
    distances = np.quantile([memory(a, b) for a, b in WINE.data[DRAWN]], [0.1, 0.5, 0.9])
    np.testing.assert_allclose(first.probability(distances), memory.probability(distances), atol=0.05)
    # Noise: on the pairs learned from the distance would tell them apart, out of fold it does not.
    rng = np.random.default_rng(1)
    np.savez("noise.npz", pairs=rng.normal(size=(60, 2, 40)), y=np.repeat([1, -1], 30))
    noise = fitted("noise.npz", "--chunk-rows", 7)
    fitted_on = [noise(a, b) for a, b in np.load("noise.npz")["pairs"]]
    assert np.ptp(noise.probability(np.quantile(fitted_on, [0.1, 0.9]))) < 0.5


def test_without_pairs_enough_there_are_no_probabilities(fitted):
    np.savez("few.npz", pairs=RNG.normal(size=(20, 2, 2)), y=np.repeat([1, -1], [1, 19]))
    assert fitted("few.npz", "--chunk-rows", 3).calibration is None


def test_more_pairs_than_the_sample_keeps_are_said_to_be_sampled(cli):
    rng = np.random.default_rng(0)
    n = 10_500
    y = np.where(rng.random(n) < 0.5, 1, -1)
    np.savez("many.npz", pairs=np.stack([np.zeros((n, 2)), rng.normal(size=(n, 2)) * (2 - y)[:, None]], 1), y=y)
    code, out, _ = cli("fit", "many.npz", "--chunk-rows", 1000)
    assert code == 0
    assert "(chosen on a random sample of 10000)" in out
    _, out, _ = cli("fit", "many.npz", "--no-tune", "--test", 0, "--out", "whole.npz")
    assert "sample" not in out
    sampled, whole = Mahalanobis.load("many.metric.npz"), Mahalanobis.load("whole.npz")
    np.testing.assert_allclose(sampled.matrix, whole.matrix, rtol=1e-9)
    assert sampled.threshold == pytest.approx(whole.threshold, rel=0.1)


def test_what_is_printed_is_what_is_printed_in_memory(cli):
    file = write("points.csv")
    _, memory, _ = cli("fit", *file, "--no-tune", "--test", 0)
    _, found, _ = cli("fit", *file, "--chunk-rows", 77, "--force")
    assert found == memory
    expected = json.loads(cli("fit", *file, "--no-tune", "--test", 0, "--json", "--force")[1])
    found = json.loads(cli("fit", *file, "--chunk-rows", 77, "--test", 0, "--no-tune", "--json", "--force")[1])
    assert found == expected | {"chunk_rows": 77}
    assert found["fitted_on"] == found["train"] == 846


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--tune",), "advmetric evaluate"),
        (("--test", "0.2"), "advmetric evaluate"),
        (("--chunk-rows", "0"), "--chunk-rows"),
        (("--param", "rank=3"), "rank needs all rows"),
        (("--param", "pairs=300"), "pairs='all'"),
        *(
            (("--method", method.name), "Euclidean, GMML, AML can")
            for method in methods()
            if method.name not in ("AML", "GMML", "Euclidean")
        ),
    ],
)
def test_what_cannot_be_learned_in_parts_is_a_wrong_command(refused, options, said):
    assert said in refused(2, "nowhere.csv", "--label", "class", "--chunk-rows", 10, *options)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_flaws_of_tables_are_at_the_row_of_the_file(refused, suffix):
    name = f"bad.{suffix}"
    line = " (line 212)" if suffix == "csv" else ""

    def columns(column, value):
        found = formed_columns()
        found[column] = [*found[column][:210], value, *found[column][211:]]
        write_table(name, found)
        options = (name, "--pairs", "same", "--missing", "refuse")
        said = refused(1, *options, "--chunk-rows", 100)
        assert said == refused(1, *options)  # as in memory
        return said

    assert f"bad.{suffix}, row 211{line}, column 'b_f2': the value is missing" in columns("b_f2", float("nan"))
    assert f"row 211{line}, column 'b_f2': the value is infinite" in columns("b_f2", float("inf"))
    assert f"row 211{line}, column 'same': the label of a pair" in columns("same", 0)
    if suffix == "csv":
        assert f"row 211{line}, column 'a_f0': 'wide' is not a number" in columns("a_f0", "wide")
        write_table(name, {"x": [1, 2, 3], "class": ["a", "b", ""]})
        assert "row 3 (line 4), column 'class': the label is missing" in refused(
            1, name, "--label", "class", "--chunk-rows", 2
        )


def test_flaws_of_arrays_are_at_the_row_of_the_file(refused):
    def said(**arrays):
        np.savez("bad.npz", **arrays)
        return refused(1, "bad.npz", "--chunk-rows", 100)

    X, pairs, indices, y = POINTS.copy(), WINE.data[DRAWN], DRAWN.copy(), SAME.copy()
    X[731, 4] = np.nan
    assert "bad.npz, X contains NaN at row 731, column 4" in said(X=X, y=KINDS)
    pairs[399, 1, 2] = np.inf
    assert "bad.npz, pairs contains inf at pair 399, point 1, feature 2" in said(pairs=pairs, y=y)
    points = WINE.data.copy()
    points[177, 0] = np.nan  # of no pair
    assert "bad.npz, X contains NaN at row 177, column 0" in said(pairs=indices, X=points, y=y)
    indices[201, 1] = 178
    assert "pair 201 is" in said(pairs=indices, X=WINE.data, y=y)
    y[305] = 0
    assert "y of pair 305 is 0" in said(pairs=DRAWN, X=WINE.data, y=y)
    assert "y of pair 305 is 0" in said(pairs=WINE.data[DRAWN], y=y)


def test_files_without_what_a_metric_needs_are_refused_as_in_memory(refused):
    def same(*file):
        said = refused(1, *file, "--chunk-rows", 2)
        assert said == refused(1, *file, "--no-tune", "--test", 0)
        return said

    np.savez("bad.npz", X=np.eye(4), y=np.arange(4))
    assert "no classes" in same("bad.npz")
    np.savez("bad.npz", X=np.eye(4), y=np.zeros(4, int))
    assert "only one class (0)" in same("bad.npz")
    np.savez("bad.npz", pairs=np.ones((3, 2, 2)), y=np.ones(3))
    assert "bad.npz: no pair has the label -1 (different)" in same("bad.npz")
    np.savez("bad.npz", X=np.eye(4), y=np.zeros(3))
    assert "no array 'y' of 4 labels" in same("bad.npz")
    np.savez("bad.npz", X=np.eye(4)[:, :0], y=np.arange(4) % 2)
    assert "no feature columns" in same("bad.npz")
    np.savez("bad.npz", pairs=np.ones((0, 2, 2)), y=np.ones(0))
    assert "no array pairs" in same("bad.npz")
    write_table("bad.csv", {"class": ["a", "b"]})
    assert "no feature columns" in same("bad.csv", "--label", "class")
    assert "no column 'kind'" in same("bad.csv", "--label", "kind")
    for name in ("bad.csv", "bad.parquet"):
        write_table(name, {"x": np.empty(0), "class": np.empty(0)})
        assert "no rows" in same(name, "--label", "class")
    assert "No such file" in same("nowhere.npz")
    np.savez("objects.npz", X=np.eye(4), y=np.array([{}, 1, 2, 3], dtype=object))
    assert "objects.npz is not" in refused(1, "objects.npz", "--chunk-rows", 2)


def test_damage_is_found_wherever_it_is(refused, work):
    for name in ("points.npz", "columns.npz", "formed.npz", "indices.npz"):
        write(name)
        content = bytearray((work / name).read_bytes())
        content[len(content) // 2] ^= 1  # a bit of a number
        (work / name).write_bytes(content)
        assert f"{name} is not" in refused(1, name, "--chunk-rows", 100)
    for name in ("bad.npz", "bad.parquet"):
        (work / name).write_bytes(b"not an archive")
        assert f"{name} is not" in refused(1, name, "--label", "y", "--chunk-rows", 100)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("X.npy", b"no array")
    (work / "bad.npz").write_bytes(stream.getvalue())
    assert "bad.npz is not" in refused(1, "bad.npz", "--chunk-rows", 100)


def test_compressed_points_of_index_pairs_say_how_to_save_them(refused):
    np.savez_compressed("packed.npz", pairs=DRAWN, X=WINE.data, y=SAME)
    assert "np.savez" in refused(1, "packed.npz", "--chunk-rows", 100)
    np.savez_compressed("packed.npz", X=np.asfortranarray(VEHICLE.X), y=KINDS)
    assert "np.savez" in refused(1, "packed.npz", "--chunk-rows", 100)


# --- progress and memory --------------------------------------------------------------------------------------


def test_a_long_run_says_how_far_it_is(cli, monkeypatch):
    monkeypatch.setattr(stream, "_QUIET", 0.0)
    monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic=lambda: 0.0))
    code, _, err = cli("fit", *write("points.npz"), "--chunk-rows", 100)
    assert code == 0
    assert err.startswith("Read 100 of 846 rows, 0 s, ")
    assert len(err.splitlines()) == 1  # the next one after a while
    assert cli("fit", *write("points.csv"), "--chunk-rows", 100, "--force")[2].startswith("Read 100 rows, 0 s")


# The limit is on what the process allocates. (What it has resident counts pages of a mapped file as well, which the
# system takes back when it needs them, and ru_maxrss even counts those of the process that started it.)
LIMITED = """
import re, resource, sys
from pathlib import Path
from advmetric.cli import main
options = ["--chunk-rows", "8000", "--method", "GMML"]
kinds = sys.argv[1:]
for kind in kinds:
    assert main(["fit", f"{kind}-small.npz", *options]) == 0
used = 1024 * int(re.search(r"VmData:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + 110_000_000,) * 2)
sys.exit(max(main(["fit", f"{kind}-large.npz", *options]) for kind in kinds))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "kinds", [("points",), pytest.param(("columns", "formed", "indices"), marks=pytest.mark.slow)], ids="+".join
)
def test_a_file_larger_than_the_memory_that_is_left(work, kinds):
    rng = np.random.default_rng(0)
    some = rng.random((4000, 64), dtype=np.float32)
    for size, n in (("small", 40_000), ("large", 480_000)):
        rows = np.tile(some, (n // 4000, 1))
        files = {
            "points": {"X": rows, "y": rng.integers(2, size=n)},
            "columns": {"X": np.asfortranarray(rows), "y": rng.integers(2, size=n)},
            "formed": {"pairs": rows.reshape(-1, 2, 64), "y": rng.choice([-1, 1], n // 2)},
            "indices": {"pairs": rng.integers(n, size=(n // 4, 2)), "X": rows, "y": rng.choice([-1, 1], n // 4)},
        }
        for kind in kinds:
            np.savez(f"{kind}-{size}.npz", **files[kind])
            assert size == "small" or os.path.getsize(f"{kind}-{size}.npz") > 120e6
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LIMITED, *kinds]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr
    for kind in kinds:
        assert Mahalanobis.load(f"{kind}-large.metric.npz").matrix.shape == (64, 64)
        (work / f"{kind}-large.npz").unlink()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_parquet_is_read_neither_whole_nor_ahead(work):
    column = np.random.default_rng(0).random(500_000)
    files = {"small": (20_000, 20_000), "groups": (500_000, 20_000), "one": (500_000, 500_000)}
    for name, (n, group) in files.items():
        table = pyarrow.table({f"f{j}": column[:n] for j in range(26)} | {"class": np.arange(n) % 2})
        settings = {"compression": "none", "use_dictionary": ["class"], "row_group_size": group}
        pyarrow.parquet.write_table(table, f"{name}.parquet", **settings)
        assert name == "small" or os.path.getsize(f"{name}.parquet") > 100e6
    code = """
import re
from pathlib import Path
from advmetric.cli import main
for name in ("small", "groups", "one"):
    assert main(["fit", f"{name}.parquet", "--label", "class", "--chunk-rows", "10000", "--method", "GMML"]) == 0
    print("peak", re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr
    small, *large = (int(line.split()[1]) * 1024 for line in done.stdout.splitlines() if line.startswith("peak"))
    assert len(large) == 2
    assert max(large) < small + 50e6
    for name in ("groups", "one"):
        (work / f"{name}.parquet").unlink()
