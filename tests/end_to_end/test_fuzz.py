"""Random fits and damaged files end in finite metrics, ValueError or TypeError.

`make fuzz` runs the full numbers; ADVMETRIC_FUZZ multiplies them (0.1 for a tenth).
"""

import json
import os
import warnings

import numpy as np
import pytest

from advmetric import AML, Mahalanobis, MetricIndex
from advmetric.datasets.files import read_npz
from advmetric.datasets.registry import REGISTRY
from advmetric.experiments.engine.store import Record, Store, Task
from advmetric.features.cache import cached
from advmetric.io.contents import Reading
from advmetric.io.npz import members
from advmetric.io.samples import read_points
from advmetric.utils.archive import DamagedFileError, read_arrays
from reference.fuzz import ESTIMATORS, damaged, flaw_of, random_case

FITS, FILES = (round(float(os.environ.get("ADVMETRIC_FUZZ", "1")) * number) for number in (5000, 2000))


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_random_fits_end_in_a_metric_or_a_refusal(name):
    count = -(-FITS // len(ESTIMATORS))
    first = 1_000_000 * (1 + list(ESTIMATORS).index(name))
    flaws = []
    for seed in range(first, first + count):
        case = random_case(seed, name)
        flaw = flaw_of(case)
        if flaw:
            flaws.append(f"{case}: {flaw}")
    assert not flaws, "\n".join(flaws)


@pytest.mark.parametrize("seed", range(40))
def test_some_random_fits_end_in_a_metric_or_a_refusal(seed):
    case = random_case(seed)
    assert flaw_of(case) is None, case


@pytest.mark.parametrize("seed", [155, 252, 302, 431, 542, 938, 10198, 10697, 12233, 13397, 31007])
def test_cases_that_once_went_wrong(seed):
    case = random_case(seed)
    assert flaw_of(case) is None, case


# --- damaged files ----------------------------------------------------------------------------------------


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 4)), np.repeat([0, 1, 2], 20)


def write_metric(path, points):
    learned = AML().fit(*points)
    learned.calibrate_threshold(np.stack([points[0][:30], points[0][30:]], axis=1), [1, -1] * 15)
    learned.get_metric().save(path)
    return Mahalanobis.load


def write_index(kind):
    def write(path, points):
        engine = "sklearn" if kind == "sklearn" else "faiss"
        if engine == "faiss":
            pytest.importorskip("faiss")
        metric = AML().fit(*points).get_metric()
        MetricIndex(metric, kind="exact" if engine == "sklearn" else kind, engine=engine).add(points[0]).save(path)

        def use(path):
            return MetricIndex.load(path).query(points[0][:3], 2)

        return use

    return write


def write_dataset(compressed):
    def write(path, points):
        info = REGISTRY["vehicle"]
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(info.n, info.d)), np.arange(info.n) % info.c
        (np.savez_compressed if compressed else np.savez)(path, X=X, y=y)
        return lambda path: read_npz(path, info)

    return write


def write_members(path, points):
    np.savez(path, X=points[0], y=points[1])

    def use(path):
        with members(path) as arrays:
            for array in arrays.values():
                list(array.blocks(7))
            if "X" in arrays:
                arrays["X"].on_disk()[np.arange(3)]

    return use


def write_network(path, points):
    pytest.importorskip("torch")
    from advmetric.deep.siamese import SiameseNet

    net = SiameseNet(random_state=0)
    net.image_shape_, net.history_, net.best_epoch_, net.disjoint_ = (32, 32), [{"loss": 0.5}], 0, True
    net.learner_ = net._build(net.image_shape_)
    net.save(path)
    return SiameseNet.load


def write_deep(path, points):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    from advmetric.deep import DeepAML

    DeepAML(epochs=1, random_state=0).fit(points[0].astype(np.float32), points[1]).save(path)
    return DeepAML.load


def write_arrays_of_text(path, points):
    np.savez(path, names=np.array(["a", "b"]), X=points[0].astype(np.float32), y=points[1].astype(str))
    return read_arrays


WRITERS = {
    "metric": write_metric,
    "exact index": write_index("exact"),
    "ivf index": write_index("ivf"),
    "sklearn index": write_index("sklearn"),
    "dataset": write_dataset(True),
    "plain dataset": write_dataset(False),
    "members": write_members,
    "network": write_network,
    "deep model": write_deep,
    "arrays": write_arrays_of_text,
}


def run_damaged(name, count, tmp_path, points):
    """Read damaged copies; return how many were refused."""
    path = tmp_path / "file.npz"
    use = WRITERS[name](path, points)
    use(path)
    content = path.read_bytes()
    refused = 0
    for seed in range(count):
        path.write_bytes(damaged(content, np.random.default_rng(seed)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                use(path)
        except Exception as error:
            refused += 1
            # Sound arrays that are not the dataset are a plain ValueError.
            proper = isinstance(error, (DamagedFileError, ValueError) if "dataset" in name else DamagedFileError)
            if not proper or path.name not in str(error):
                pytest.fail(f"damage {seed} of {name}: {type(error).__name__}: {error}")
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files_are_refused_by_one_error(name, tmp_path, points):
    assert run_damaged(name, FILES, tmp_path, points) > FILES // 2


@pytest.mark.parametrize("name", ["metric", "sklearn index", "members"])
def test_some_damaged_files_are_refused_by_one_error(name, tmp_path, points):
    assert run_damaged(name, 60, tmp_path, points) > 30


TABLES = {
    "points.csv": "name,a,b,class\n" + "".join(f'"row, {i}",{i / 7:.4f},{-i},{"xyz"[i % 3]}\n' for i in range(40)),
    "points.tsv": "a\tb\tclass\n" + "".join(f"{i / 7:.4f}\t{-i}\t{'xyz'[i % 3]}\n" for i in range(40)),
}


def read_damaged_tables(name, count, tmp_path):
    """Read damaged text; what is not refused must be a table of finite numbers. Return how many were refused."""
    content = TABLES[name].encode()
    path = tmp_path / name
    refused = 0
    for seed in range(count):
        path.write_bytes(damaged(content, np.random.default_rng(seed)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # damaged columns look odd, and are said to
                found = read_points(path, "class", Reading(drop=("name",) if name == "points.csv" else ()))
        except ValueError as error:
            refused += 1
            if path.name not in str(error):
                pytest.fail(f"damage {seed} of {name}: the message does not name the file: {error}")
        except Exception as error:
            pytest.fail(f"damage {seed} of {name}: {type(error).__name__}: {error}")
        else:
            assert np.isfinite(found.preparation.encode(found.X)).all(), seed
            assert len(found.X) == len(found.y), seed
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_damaged_tables_are_refused_by_name_or_read(name, tmp_path):
    assert read_damaged_tables(name, FILES, tmp_path) > FILES // 4


@pytest.mark.parametrize("name", TABLES)
def test_some_damaged_tables_are_refused_by_name_or_read(name, tmp_path):
    assert read_damaged_tables(name, 40, tmp_path) > 10


@pytest.mark.slow
def test_damaged_caches_are_computed_again(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    expected = images.mean(axis=(1, 2))
    cached(tmp_path, "means", images, {}, lambda: expected)
    (path,) = tmp_path.glob("*.npz")
    content = path.read_bytes()
    for seed in range(FILES):
        path.write_bytes(damaged(content, np.random.default_rng(seed)))
        found = cached(tmp_path, "means", images, {}, lambda: expected)
        np.testing.assert_array_equal(found, expected, err_msg=str(seed))


@pytest.mark.slow
def test_damaged_results_lose_only_the_damaged_lines(tmp_path):
    store = Store(tmp_path)
    tasks = [Task("table1", "vehicle", method, trial) for method in ("AML", "GMML") for trial in range(5)]
    for task in tasks:
        store.append(Record(task, {"error": 0.25}, seconds=0.1))
    (path,) = [file for file in tmp_path.iterdir() if file.suffix == ".jsonl"]
    content = path.read_bytes()
    assert len(content.splitlines()) == len(tasks)
    assert json.loads(content.splitlines()[0])
    for seed in range(FILES):
        path.write_bytes(damaged(content, np.random.default_rng(seed)))
        records, _ = Store(tmp_path).read()
        assert len(records) <= len(tasks) + 2, seed
        Store(tmp_path).remaining(tasks)
