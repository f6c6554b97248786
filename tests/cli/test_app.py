"""The command line: every command on real files, every error as one line with its exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from advmetric import AML, GMML, Mahalanobis, list_datasets, load_dataset, methods
from advmetric.cli import main

ONE_THREAD = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
QUICK = ("--method", "GMML", "--no-tune")


def write_csv(path, header, rows, delimiter=","):
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


VEHICLE = load_dataset("vehicle")
WINE = load_wine()
KINDS = np.array(["bus", "opel", "saab", "van"])[VEHICLE.y]


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """Each test works in a folder of its own, with vehicle.csv there."""
    monkeypatch.chdir(tmp_path)
    write_csv(
        "vehicle.csv",
        [*VEHICLE.feature_names, "class"],
        [[*x, kind] for x, kind in zip(VEHICLE.X.tolist(), KINDS.tolist(), strict=True)],
    )
    return tmp_path


def pairs_of(X, y, n, seed):
    """n similar and n dissimilar pairs of rows, and their labels."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(X), (50 * n, 2))
    drawn = drawn[drawn[:, 0] != drawn[:, 1]]
    same = y[drawn[:, 0]] == y[drawn[:, 1]]
    chosen = np.concatenate([drawn[same][:n], drawn[~same][:n]])
    return chosen, np.repeat([1, -1], n)


PAIRS, SAME = pairs_of(WINE.data, WINE.target, 60, 0)


@pytest.fixture
def pair_file():
    """wine.csv: pairs of wines by a_… and b_…, labels in `same`, and an id."""
    names = [name.replace("/", " ") for name in WINE.feature_names]
    return write_csv(
        "wine.csv",
        [*(f"a_{name}" for name in names), "same", *(f"b_{name}" for name in names), "id"],
        [
            [*WINE.data[i].tolist(), label, *WINE.data[j].tolist(), f"p{row}"]
            for row, ((i, j), label) in enumerate(zip(PAIRS.tolist(), SAME.tolist(), strict=True))
        ],
    )


# --- fit --------------------------------------------------------------------------------------------------


def test_the_saved_metric_on_raw_data_is_the_learner_on_standardised_data(done):
    out = done("fit", "vehicle.csv", "--label", "class", "--no-tune", "--param", "t=0.1")
    scaler = StandardScaler().fit(VEHICLE.X)
    by_hand = AML(t=0.1).fit(scaler.transform(VEHICLE.X), VEHICLE.y).transform(scaler.transform(VEHICLE.X))
    metric = Mahalanobis.load("vehicle.metric.npz")
    assert metric.feature_names == tuple(VEHICLE.feature_names)
    for i, j in ((0, 1), (17, 402), (845, 3)):
        assert metric(VEHICLE.X[i], VEHICLE.X[j]) == pytest.approx(np.linalg.norm(by_hand[i] - by_hand[j]), rel=1e-9)
    assert "folded" in out
    assert "fitted again on all 846 points" in out


def test_the_error_that_fit_prints_is_that_of_scikit_learn_on_the_same_split(done):
    found = json.loads(done("fit", "vehicle.csv", "--label", "class", *QUICK, "--seed", 3, "--json"))
    parts = train_test_split(VEHICLE.X, VEHICLE.y, test_size=0.2, stratify=VEHICLE.y, random_state=3)
    raw = KNeighborsClassifier(5, algorithm="brute").fit(parts[0], parts[2]).score(parts[1], parts[3])
    scaler = StandardScaler().fit(parts[0])
    train, test = scaler.transform(parts[0]), scaler.transform(parts[1])
    scaled = KNeighborsClassifier(5, algorithm="brute").fit(train, parts[2]).score(test, parts[3])
    gmml = GMML().fit(train, parts[2])
    learned = KNeighborsClassifier(5).fit(gmml.transform(train), parts[2]).score(gmml.transform(test), parts[3])
    assert found["scores"]["Euclidean, raw"]["error"] == pytest.approx(1 - raw)
    assert found["scores"]["Euclidean, standardised"]["error"] == pytest.approx(1 - scaled)
    assert found["scores"]["GMML"]["error"] == pytest.approx(1 - learned)
    assert (found["train"], found["test"], found["fitted_on"]) == (676, 170, 846)


def test_fit_tunes_by_default_and_beats_euclidean_on_vehicle(done):
    found = json.loads(done("fit", "vehicle.csv", "--label", "class", "--param", "beta=1", "--json"))
    assert set(found["params"]) == {"t", "beta", "alpha"}
    assert found["params"]["beta"] == 1
    assert found["params"]["t"] < 0.5  # small t wins on vehicle; untuned it is 1/2
    assert found["scores"]["AML"]["error"] < found["scores"]["Euclidean, standardised"]["error"] - 0.05


@pytest.mark.parametrize(("method", "tuned"), [("GMML", "t"), ("rvml", "lam")])
def test_other_methods_are_tuned_over_their_grid(done, method, tuned):
    found = json.loads(done("fit", "vehicle.csv", "--label", "class", "--method", method, "--json"))
    grid = next(m.grid for m in methods() if m.name == method.upper())
    assert found["params"][tuned] in grid[tuned]


@pytest.mark.parametrize("method", ["AML", "GMML", "ITML"])
def test_fit_on_pairs_saves_metric_and_threshold(done, pair_file, method):
    found = json.loads(done("fit", pair_file, "--pairs", "same", "--method", method, "--json"))
    metric = Mahalanobis.load("wine.metric.npz")
    assert metric.threshold == found["threshold"] > 0
    assert metric.feature_names == tuple(name.replace("/", " ") for name in WINE.feature_names)
    assert found["scores"][method]["roc_auc"] > found["scores"]["Euclidean, raw"]["roc_auc"] + 0.1
    assert 0.5 < found["scores"][method]["accuracy"] <= 1


def test_refit_uses_all_rows_and_no_refit_the_training_part(done):
    done("fit", "vehicle.csv", "--label", "class", *QUICK, "--no-refit", "--no-standardize", "--out", "part.npz")
    out = done("fit", "vehicle.csv", "--label", "class", *QUICK, "--no-standardize", "--test", 0, "--out", "all.npz")
    train = train_test_split(VEHICLE.X, VEHICLE.y, test_size=0.2, stratify=VEHICLE.y, random_state=0)
    expected = GMML().fit(train[0], train[2]).get_mahalanobis_matrix()
    np.testing.assert_allclose(Mahalanobis.load("part.npz").matrix, expected, rtol=1e-6)
    whole = GMML().fit(VEHICLE.X, VEHICLE.y).get_mahalanobis_matrix()
    np.testing.assert_allclose(Mahalanobis.load("all.npz").matrix, whole, rtol=1e-6)
    assert "held-out" not in out
    assert "folded" not in out


def test_the_seed_decides_everything(done):
    def metric(seed):
        done(
            "fit",
            "vehicle.csv",
            "--label",
            "class",
            "--method",
            "ITML",
            "--no-tune",
            "--param",
            "pairs=300",
            "--seed",
            seed,
        )
        return Mahalanobis.load("vehicle.metric.npz").components

    first, again, other = metric(1), metric(1), metric(2)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_npz_files_of_points_pairs_and_index_pairs(done):
    np.savez("points.npz", X=VEHICLE.X, y=VEHICLE.y)
    np.savez("formed.npz", pairs=WINE.data[PAIRS], y=SAME)
    np.savez("indices.npz", pairs=PAIRS, X=WINE.data, y=SAME)
    done("fit", "vehicle.csv", "--label", "class", *QUICK)
    for name in ("points", "formed", "indices"):
        done("fit", f"{name}.npz", *QUICK, "--no-standardize" if name != "points" else "--standardize")
    points, text = Mahalanobis.load("points.metric.npz"), Mahalanobis.load("vehicle.metric.npz")
    np.testing.assert_array_equal(points.components, text.components)
    assert points.feature_names is None
    formed, indices = Mahalanobis.load("formed.metric.npz"), Mahalanobis.load("indices.metric.npz")
    np.testing.assert_allclose(formed.matrix, indices.matrix, rtol=1e-6)
    assert formed.threshold == pytest.approx(indices.threshold)


def test_parquet_gives_what_csv_gives(done):
    import pyarrow
    import pyarrow.parquet

    columns = {name: VEHICLE.X[:, i] for i, name in enumerate(VEHICLE.feature_names)}
    table = pyarrow.table({**columns, "class": pyarrow.array(KINDS.tolist()).dictionary_encode()})
    pyarrow.parquet.write_table(table, "cars.parquet")
    done("fit", "vehicle.csv", "--label", "class", *QUICK)
    done("fit", "cars.parquet", "--label", "class", *QUICK)
    expected = Mahalanobis.load("vehicle.metric.npz").components
    np.testing.assert_array_equal(Mahalanobis.load("cars.metric.npz").components, expected)
    done("transform", "cars.metric.npz", "cars.parquet", "--out", "embedded.parquet")
    embedded = pyarrow.parquet.read_table("embedded.parquet")
    assert embedded.column("class").to_pylist() == KINDS.tolist()
    np.testing.assert_allclose(embedded.column("z0").to_numpy(), VEHICLE.X @ expected[0])


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_delimiter_is_found_out(done, delimiter):
    rows = [[*x, kind, f"a, {kind}"] for x, kind in zip(VEHICLE.X.tolist(), KINDS.tolist(), strict=True)]
    write_csv("other.csv", [*VEHICLE.feature_names, "class", "note"], rows, delimiter)
    done("fit", "other.csv", "--label", "class", "--drop", "note", *QUICK)
    done("fit", "vehicle.csv", "--label", "class", *QUICK)
    expected = Mahalanobis.load("vehicle.metric.npz").components
    np.testing.assert_array_equal(Mahalanobis.load("other.metric.npz").components, expected)


def test_fit_says_when_nothing_is_gained(done):
    rng = np.random.default_rng(0)
    np.savez("noise.npz", X=rng.normal(size=(200, 3)), y=rng.permutation(np.arange(200) % 2))
    losses = [done("fit", "noise.npz", *QUICK, "--seed", seed).count("No gain over") for seed in range(4)]
    assert sum(losses) >= 1
    assert "No gain" not in done("fit", "vehicle.csv", "--label", "class", "--method", "GMML")


def test_a_solver_that_does_not_converge_warns_in_one_line(cli):
    options = ("--method", "LMNN", "--no-tune", "--param", "max_iter=1", "--test", 0)
    code, _, err = cli("fit", "vehicle.csv", "--label", "class", *options)
    assert code == 0
    assert err.startswith("warning: LMNN did not converge")
    assert len(err.splitlines()) == 1


def test_warnings_for_developers_are_not_shown(cli, monkeypatch):
    class Both(UserWarning, DeprecationWarning):
        """What pyparsing warns with, of which Matplotlib 3.9 calls old names."""

    def warn(*_, **__):
        warnings.warn("call it otherwise", Both, stacklevel=1)
        return ()

    monkeypatch.setattr("advmetric.cli.commands.listing.all_methods", warn)
    assert cli("methods")[2] == ""


# --- transform, distance, evaluate --------------------------------------------------------------------------


@pytest.fixture
def metric(done):
    """The metric of vehicle.csv, saved as vehicle.metric.npz."""
    done("fit", "vehicle.csv", "--label", "class", *QUICK)
    return Mahalanobis.load("vehicle.metric.npz")


def test_transform_finds_columns_by_name_and_carries_the_others(done, metric):
    order = np.random.default_rng(0).permutation(18)
    header = ["id", *(VEHICLE.feature_names[i] for i in order), "class"]
    rows = [[f"№{n}", *x[order].tolist(), kind] for n, (x, kind) in enumerate(zip(VEHICLE.X, KINDS, strict=True))]
    write_csv("mixed.csv", header, rows)
    done("transform", "vehicle.metric.npz", "mixed.csv", "--out", "embedded.csv")
    found = read_csv("embedded.csv")
    assert list(found[0]) == ["id", "class", *(f"z{i}" for i in range(18))]
    assert [row["id"] for row in found[:2]] == ["№0", "№1"]
    Z = np.array([[float(row[f"z{i}"]) for i in range(18)] for row in found])
    for i, j in ((0, 1), (5, 800)):
        assert np.linalg.norm(Z[i] - Z[j]) == pytest.approx(metric(VEHICLE.X[i], VEHICLE.X[j]), rel=1e-9)


def test_transform_writes_npz_that_fit_reads(done, metric):
    done("transform", "vehicle.metric.npz", "vehicle.csv", "--label", "class", "--out", "embedded.npz")
    with np.load("embedded.npz") as found:
        np.testing.assert_allclose(found["X"], VEHICLE.X @ metric.components.T)
        assert found["y"].tolist() == KINDS.tolist()
    done("fit", "embedded.npz", *QUICK)


def test_distance_of_pairs_with_decisions(done, pair_file):
    done("fit", pair_file, "--pairs", "same", *QUICK)
    metric = Mahalanobis.load("wine.metric.npz")
    expected = [metric(WINE.data[i], WINE.data[j]) for i, j in PAIRS]
    printed = done("distance", "wine.metric.npz", pair_file)
    done("distance", "wine.metric.npz", pair_file, "--out", "distances.csv")
    found = read_csv("distances.csv")
    assert printed.encode() == Path("distances.csv").read_bytes()
    assert list(found[0]) == ["same", "id", "distance", "decision"]
    np.testing.assert_allclose([float(row["distance"]) for row in found], expected, rtol=1e-9)
    decided = [int(row["decision"]) for row in found]
    assert decided == np.where(np.array(expected) <= metric.threshold, 1, -1).tolist()
    assert np.mean(decided == SAME) > 0.7
    np.savez("unlabelled.npz", pairs=PAIRS, X=WINE.data)
    done("distance", "wine.metric.npz", "unlabelled.npz", "--out", "distances.npz")
    with np.load("distances.npz") as arrays:
        np.testing.assert_allclose(arrays["distance"], expected, rtol=1e-9)


def test_distance_of_two_rows_and_of_two_points(done, metric):
    expected = metric(VEHICLE.X[0], VEHICLE.X[16])
    rows = done("distance", "vehicle.metric.npz", "vehicle.csv", "--a", 1, "--b", 17)
    values = [",".join(map(repr, VEHICLE.X[i].tolist())) for i in (0, 16)]
    points = done("distance", "vehicle.metric.npz", "--a", values[0], "--b", values[1])
    assert rows == points
    assert float(rows.split()[1]) == pytest.approx(expected, rel=1e-12)


def test_verify_gives_distance_decision_and_a_probability_that_falls_with_the_distance(done, pair_file):
    done("fit", pair_file, "--pairs", "same", *QUICK)
    metric = Mahalanobis.load("wine.metric.npz")
    done("verify", "wine.metric.npz", pair_file, "--out", "verdicts.csv")
    found = read_csv("verdicts.csv")
    assert list(found[0]) == ["same", "id", "distance", "decision", "probability"]
    distances = np.array([float(row["distance"]) for row in found])
    probabilities = np.array([float(row["probability"]) for row in found])
    slope, intercept = metric.calibration
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-slope * distances - intercept)), rtol=1e-9)
    assert np.all(np.diff(probabilities[np.argsort(distances)]) <= 0)
    # Calibrated: of pairs with a probability above a half, more than a half are the same.
    assert np.mean(SAME[probabilities > 0.5] == 1) > 0.5 > np.mean(SAME[probabilities < 0.5] == 1)
    done("verify", "wine.metric.npz", pair_file, "--probability", "0.9", "--out", "sure.csv")
    sure = np.array([int(row["decision"]) for row in read_csv("sure.csv")])
    np.testing.assert_array_equal(sure, np.where(probabilities >= 0.9, 1, -1))
    done("verify", "wine.metric.npz", pair_file, "--threshold", "0", "--out", "never.csv")
    assert {row["decision"] for row in read_csv("never.csv")} <= {"-1"}


def test_verify_compares_two_files_row_by_row_or_one_row_with_all(done, refused, pair_file, metric):
    done("fit", pair_file, "--pairs", "same", *QUICK)
    learned = Mahalanobis.load("wine.metric.npz")
    for name, rows in (("a.npz", WINE.data[:4]), ("b.npz", WINE.data[100:104]), ("one.npz", WINE.data[:1])):
        np.savez(name, X=rows)

    def distances(*files):
        return [float(line.split(",")[0]) for line in done("verify", "wine.metric.npz", *files).splitlines()[1:]]

    facing = [learned(u, v) for u, v in zip(WINE.data[:4], WINE.data[100:104], strict=True)]
    np.testing.assert_allclose(distances("a.npz", "b.npz"), facing, rtol=1e-9)
    np.testing.assert_allclose(distances("one.npz", "b.npz"), [learned(WINE.data[0], v) for v in WINE.data[100:104]])
    np.savez("three.npz", X=WINE.data[:3])
    assert "three.npz has 3 rows" in refused(1, "verify", "wine.metric.npz", "three.npz", "b.npz")
    assert "no threshold" in refused(
        1, "verify", "vehicle.metric.npz", "vehicle.csv", "vehicle.csv", "--label", "class"
    )
    assert "no probabilities" in refused(2, "verify", "vehicle.metric.npz", "vehicle.csv", "--probability", "0.5")
    assert "one of the two" in refused(
        2, "verify", "vehicle.metric.npz", "a.npz", "--probability", "0.5", "--threshold", "1"
    )


def test_evaluate_leaves_one_out_or_looks_among_train(done, metric):
    found = json.loads(done("evaluate", "vehicle.metric.npz", "vehicle.csv", "--label", "class", "--json"))["scores"]
    rulers = {
        "learned": metric.transform(VEHICLE.X),
        "Euclidean, raw": VEHICLE.X,
        "Euclidean, standardised": StandardScaler().fit_transform(VEHICLE.X),
    }
    for name, Z in rulers.items():
        distances = cdist(Z, Z) + np.diag(np.full(846, np.inf))
        votes = np.eye(4)[VEHICLE.y[np.argsort(distances, axis=1)[:, :5]]].sum(axis=1)
        expected = np.mean(votes.argmax(axis=1) != VEHICLE.y)
        assert found[name]["error"] == pytest.approx(expected, abs=3 / 846)  # equal distances: raw features are whole
    np.savez("train.npz", X=VEHICLE.X[:600], y=KINDS[:600])
    np.savez("test.npz", X=VEHICLE.X[600:], y=KINDS[600:])
    options = ("vehicle.metric.npz", "test.npz", "--train", "train.npz", "--json")
    among = json.loads(done("evaluate", *options))["scores"]
    raw = KNeighborsClassifier(5, algorithm="brute").fit(VEHICLE.X[:600], KINDS[:600])
    assert among["Euclidean, raw"]["error"] == pytest.approx(1 - raw.score(VEHICLE.X[600:], KINDS[600:]), abs=1 / 246)


def test_evaluate_on_pairs_is_the_area_under_the_curve(done, pair_file):
    done("fit", pair_file, "--pairs", "same", *QUICK)
    metric = Mahalanobis.load("wine.metric.npz")
    distances = np.array([metric(WINE.data[i], WINE.data[j]) for i, j in PAIRS])
    found = json.loads(done("evaluate", "wine.metric.npz", pair_file, "--pairs", "same", "--json"))["scores"]
    assert found["learned"]["roc_auc"] == pytest.approx(roc_auc_score(SAME, -distances))
    decided = np.where(distances <= metric.threshold, 1, -1)
    assert found["learned"]["accuracy"] == pytest.approx(np.mean(decided == SAME))
    assert found["Euclidean, raw"]["accuracy"] is None
    options = ("--pairs", "same", "--train", pair_file, "--json")
    trained = json.loads(done("evaluate", "wine.metric.npz", pair_file, *options))["scores"]
    assert trained["Euclidean, raw"]["accuracy"] >= 0.5
    assert trained["learned"]["roc_auc"] == found["learned"]["roc_auc"]


# --- lists ------------------------------------------------------------------------------------------------


def test_datasets_and_methods_list_all(done):
    table, known = done("datasets"), json.loads(done("datasets", "--json"))
    assert [row["name"] for row in known] == [info.name for info in list_datasets()]
    assert len(table.splitlines()) == len(known) + 1
    assert "OpenML 300" in next(line for line in table.splitlines() if line.startswith("isolet"))
    table, known = done("methods"), json.loads(done("methods", "--json"))
    assert [row["name"] for row in known] == [*(method.name for method in methods()), "AMLCV"]
    assert [line.split()[0] for line in table.splitlines()[1:]] == [row["name"] for row in known]
    details = done("methods", "--verbose")
    for method in methods():
        assert f"\n  reference: {method.paper}\n" in details  # nothing cut, and one line


def test_methods_fit_a_terminal_of_80_columns(done, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    table, details = (re.sub(r"\x1b\[\d+m", "", done("methods", *options)) for options in ((), ("--verbose",)))
    assert len(table.strip().splitlines()) == 2 + len(methods()) + 1  # a line each
    for line in (*table.splitlines(), *details.splitlines()):
        assert len(line) <= 80
    words = {word for method in methods() for word in method.paper.split()}
    assert words <= set(details.split())


@pytest.mark.parametrize(
    "command", ["fit", "evaluate", "transform", "distance", "verify", "datasets", "methods", "reproduce", "report"]
)
def test_every_command_has_help_with_examples(done, command):
    page = done(command, "--help")
    assert f"\n    advmetric {command} " in page + " " or f"\n    advmetric {command}\n" in page
    assert command in done("--help")


def test_the_exit_codes_are_documented(done):
    page = done("--help")
    assert all(f"\n    {code} " in page for code in (0, 1, 2, 130))


# --- bad input --------------------------------------------------------------------------------------------


def changed(row, column, value, name="bad.csv"):
    """A copy of vehicle.csv with one value changed; the row is counted from 1."""
    rows = [[*x, kind] for x, kind in zip(VEHICLE.X.tolist(), KINDS.tolist(), strict=True)]
    header = [*VEHICLE.feature_names, "class"]
    rows[row - 1][header.index(column)] = value
    return write_csv(name, header, rows)


FIT = ("fit", "vehicle.csv", "--label", "class")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*FIT, "--method", "AMLL"), "Did you mean 'AML'?"),
        ((*FIT, "--param", "alhpa=1"), "Did you mean 'alpha'?"),
        ((*FIT, "--param", "alpha"), "alpha needs a value: --param alpha=1.0"),
        ((*FIT, "--param", "speed"), "'speed' is not NAME=VALUE"),
        ((*FIT, "--param", "alpha=-1"), "alpha=-1"),
        ((*FIT, "--param", "t=large"), "t must be a number"),
        ((*FIT, "--test", "1"), "--test"),
        ((*FIT, "--seed", "-1"), "--seed"),
        ((*FIT, "--pairs", "same"), "--label / --pairs"),
        ((*FIT, "--out", "metric.csv"), ".npz"),
        (("fit", "vehicle.csv"), "--label / --pairs"),
        (("fit", "vehicle.ods", "--label", "class"), ".csv"),
        (("fit", "vehicle.csv", "--label", "class", "--delimiter", "ab"), "--delimiter"),
        (("fit", "vehicle.csv", "--pairs", "class", "--method", "LMNN"), "not from pairs"),
        (("distance", "vehicle.metric.npz", "--a", "1"), "give both"),
        (("fit",), "DATA"),
        (("fitt",), "fit"),
        (("fit", "--no-such"), "--no-such"),
    ],
)
def test_a_wrong_command_exits_with_2(refused, arguments, said):
    assert said in refused(2, *arguments)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("a,b,class\n", "no rows"),
        ("1,2,3\n4,5,6\n", "no header"),
        ("a,a,class\n1,2,x\n", "two columns called 'a'"),
        (",a,class\n0,2,x\n", "column 1 has no name"),
        ("a,b,class\n1,2,x\n1,2\n", "line 3 has 2 values"),
        ("a,b,class\n1,2,x\n\n1,2,\n", "row 2 (line 4), column 'class': the label is missing"),
        ("a;b;class\n1;2,5;x\n1;2;y\n", "decimals with a point"),
        ("a,b,class\n1,2,x\n3,4,x\n", "only one class"),
        ("a,class\n1,0.5\n2,0.7\n3,0.9\n", "no classes"),
        ("class\nx\ny\n", "no feature columns"),
    ],
)
def test_a_bad_csv_is_refused_with_the_place(refused, content, said):
    with open("bad.csv", "w", encoding="utf-8") as stream:
        stream.write(content)
    assert said in refused(1, "fit", "bad.csv", "--label", "class")


def test_missing_values_may_be_refused(refused):
    with open("bad.csv", "w", encoding="utf-8") as stream:
        stream.write("a,b,class\n1,2,x\n1,,y\n")
    said = refused(1, "fit", "bad.csv", "--label", "class", "--missing", "refuse")
    assert "row 2 (line 3), column 'b': the value is missing" in said


def test_bad_values_are_refused_with_row_and_column(refused):
    for value in ("nan", "", "NA", "?"):
        changed(731, "Elong", value)
        assert "row 731 (line 732), column 'Elong': the value is missing" in refused(
            1, "fit", "bad.csv", "--label", "class", "--missing", "refuse"
        )
    changed(2, "Comp", "wide")
    said = refused(1, "fit", "bad.csv", "--label", "class")
    assert "row 2 (line 3), column 'Comp': 'wide' is not a number" in said
    assert "--drop" in said
    changed(2, "Comp", "inf")
    assert "infinite" in refused(1, "fit", "bad.csv", "--label", "class")
    np.savez("bad.npz", X=np.where(np.eye(846, 18), np.nan, VEHICLE.X), y=VEHICLE.y)
    assert "row 0, column 0" in refused(1, "fit", "bad.npz")


def test_bad_files_are_refused(refused, work):
    assert "nowhere.csv: No such file" in refused(1, "fit", "nowhere.csv", "--label", "class")
    assert "Did you mean 'class'?" in refused(1, "fit", "vehicle.csv", "--label", "clas")
    assert "no column 'nothing'" in refused(1, "fit", "vehicle.csv", "--label", "class", "--drop", "nothing")
    (work / "latin.csv").write_bytes("a,class\n1,gr\xfcn\n".encode("latin-1"))
    assert "UTF-8" in refused(1, "fit", "latin.csv", "--label", "class")
    for name in ("bad.npz", "bad.parquet"):
        (work / name).write_bytes(b"not an archive")
        assert f"{name} is not" in refused(1, "fit", name, "--label", "class")
    np.savez("objects.npz", X=np.array([[object()]]), y=np.zeros(1))
    assert "objects.npz is not" in refused(1, "fit", "objects.npz")
    assert "folder" in refused(1, *FIT, "--out", "nowhere/x.npz")
    (work / "folder.npz").mkdir()
    assert "not a regular file" in refused(1, *FIT, "--out", "folder.npz")
    assert "vehicle.csv is not a metric" in refused(1, "evaluate", "vehicle.csv", "vehicle.csv", "--label", "class")


def test_labels_of_pairs_must_be_plus_or_minus_one(refused):
    for label in ("0", "same", ""):
        write_csv("bad.csv", ["a_x", "b_x", "same"], [[1, 2, 1], [1, 3, -1], [2, 3, label]])
        assert "row 3 (line 4), column 'same'" in refused(1, "fit", "bad.csv", "--pairs", "same")
    write_csv("bad.csv", ["a_x", "b_x", "same"], [[1, 2, 1], [1, 3, 1]])
    np.savez("bad.npz", pairs=np.ones((2, 2, 1)), y=[1, 1])
    for bad in ("bad.csv", "bad.npz"):
        said = refused(1, "fit", bad, *(["--pairs", "same"] if bad == "bad.csv" else []))
        assert f"{bad}: no pair has the label -1 (different), but pairs of both kinds are needed. Add some" in said
    write_csv("bad.csv", ["a_x", "b_y", "same"], [[1, 2, 1], [1, 3, -1]])
    assert "'a_y'" in refused(1, "fit", "bad.csv", "--pairs", "same")
    write_csv("bad.csv", ["x", "y", "same"], [[1, 2, 1], [1, 3, -1]])
    assert "a_<name>" in refused(1, "fit", "bad.csv", "--pairs", "same")


def test_a_metric_for_other_features_is_refused(refused, metric):
    write_csv("narrow.csv", ["Comp", "Circ", "class"], [[1, 2, "bus"], [2, 3, "van"]])
    said = refused(1, "transform", "vehicle.metric.npz", "narrow.csv", "--out", "out.csv")
    assert "no column 'D.Circ'" in said
    np.savez("narrow.npz", X=np.ones((4, 2)), y=[0, 0, 1, 1], pairs=[[0, 1], [1, 2]])
    assert "2 features, but the metric is for 18" in refused(
        1, "evaluate", "vehicle.metric.npz", "narrow.npz", "--label", "y"
    )
    assert "2 features, but the metric is for 18" in refused(1, "distance", "vehicle.metric.npz", "narrow.npz")
    assert "2 values" in refused(2, "distance", "vehicle.metric.npz", "--a", "1,2", "--b", "1,2")
    assert "row number" in refused(2, "distance", "vehicle.metric.npz", "vehicle.csv", "--a", "0", "--b", "1")
    assert "also an input" in refused(2, "transform", "vehicle.metric.npz", "vehicle.csv", "--out", "vehicle.csv")
    write_csv("taken.csv", [*VEHICLE.feature_names, "z0"], [[*VEHICLE.X[0].tolist(), "mine"]])
    assert "'z0'" in refused(1, "transform", "vehicle.metric.npz", "taken.csv", "--out", "out.csv")


@pytest.mark.parametrize("out", ["out.csv", "out.npz", "out.parquet"])
def test_a_failure_while_writing_leaves_the_old_file_and_no_other(refused, metric, work, monkeypatch, out):
    (work / out).write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    said = refused(1, "transform", "vehicle.metric.npz", "vehicle.csv", "--out", out, "--force")
    assert "No space left on device" in said
    assert (work / out).read_text() == "old"


def test_parquet_without_pyarrow_says_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert 'pip install "advmetric[tables]"' in refused(1, "fit", "cars.parquet", "--label", "class")


def test_an_unexpected_error_is_one_line_and_a_trace_only_with_debug(refused, cli, monkeypatch):
    def broken(*_):
        raise KeyError("inner")

    monkeypatch.setattr("advmetric.workflows.fit.learn", broken)
    assert "--debug" in refused(1, *FIT, *QUICK)
    for arguments in (("--debug", *FIT, *QUICK), (*FIT, *QUICK, "--debug")):
        code, _, err = cli(*arguments)
        assert code == 1
        assert "Traceback" in err


# --- as a process -----------------------------------------------------------------------------------------


def test_output_that_is_not_a_terminal_is_plain_and_errors_are_one_line(cli):
    code, listed, err = cli("methods", "--verbose")
    assert (code, err) == (0, "")
    assert "\x1b" not in listed + cli("methods")[1]
    assert max(map(len, listed.splitlines())) > 100
    assert cli("--version")[1].startswith("advmetric ")
    said = "error: vehicle.csv has no column 'klass'. Did you mean 'class'?\n"
    assert cli("fit", "vehicle.csv", "--label", "klass") == (1, "", said)
    assert cli("fit", "--what")[0] == 2


def test_a_terminal_without_unicode_is_no_reason_to_fail(monkeypatch):
    write_csv("größe.csv", ["länge", "класс"], [[n, "ab"[n % 2]] for n in range(30)])
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii"))
    assert main(["fit", "größe.csv", "--label", "класс", *QUICK]) == 0
    assert b"gr\\xf6\\xdfe" in printed.getvalue()
    assert Mahalanobis.load("größe.metric.npz").feature_names == ("länge",)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_ctrl_c_exits_with_130_and_leaves_nothing(work):
    os.mkfifo("endless.csv")
    command = [sys.executable, "-m", "advmetric", "fit", "endless.csv", "--label", "class"]
    process = subprocess.Popen(
        command,
        env=ONE_THREAD,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # What a shell starts in the background ignores Ctrl-C, and so would what the tests start then.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with open("endless.csv", "w"):  # opens when the command starts to read
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err.strip()) == (130, b"", b"interrupted")
    assert sorted(path.name for path in work.iterdir()) == ["endless.csv", "vehicle.csv"]


@pytest.mark.parametrize("absent", ["typer", "rich"])
def test_without_the_extra_one_line_says_what_to_install(absent, cli, monkeypatch):
    monkeypatch.setitem(sys.modules, absent, None)
    code, out, err = cli("methods")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert 'pip install "advmetric[cli]"' in err


# --- pipes, signals, completion -----------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--help",), ("transform", "m.npz", "vehicle.csv")])
def test_a_reader_that_has_seen_enough_is_no_error(arguments, capfd, monkeypatch):
    Mahalanobis(np.eye(18), None, tuple(VEHICLE.feature_names)).save("m.npz")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert main(list(arguments)) == 0
        stdout.flush()  # as at exit
        monkeypatch.undo()
    assert capfd.readouterr() == ("", "")


def test_a_process_whose_reader_has_seen_enough_ends_without_a_word():
    Mahalanobis(np.eye(18), None, tuple(VEHICLE.feature_names)).save("m.npz")
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "advmetric", "transform", "m.npz", "vehicle.csv"]
    process = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, env=ONE_THREAD)
    os.close(reader)
    os.close(writer)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, b"")


def wait_for_importing_workers(process):
    """Wait until two workers of a process have begun to import NumPy."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if sum("/numpy/" in mapped_by(child) for child in children) >= 2:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError("no workers")


def mapped_by(pid):
    """The files that a process has mapped; none if it is gone."""
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        pytest.param(signal.SIGINT, 130, b"interrupted", marks=pytest.mark.slow),
        (signal.SIGTERM, 143, b"terminated"),
    ],
)
def test_signals_while_workers_import_leave_no_traceback_and_no_semaphore(number, code, said):
    process = subprocess.Popen(
        [sys.executable, "-m", "advmetric", "reproduce", "table1", "--quick", "--jobs", "2", "--out", "results"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ONE_THREAD,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        wait_for_importing_workers(process)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        _, err = process.communicate(timeout=300)
    finally:
        if process.poll() is None:  # the test has failed: leave nothing running
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == code
    lines = [line for line in err.splitlines() if b" runs" not in line]
    assert lines == [said]


def test_no_space_left_names_the_file(cli, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    code, _, err = cli("fit", "vehicle.csv", "--label", "class", *QUICK)
    assert (code, err) == (1, "error: vehicle.metric.npz: No space left on device\n")


def test_a_missing_optional_package_is_no_bug(refused, monkeypatch, work):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (work / "cars.xlsx").write_bytes(b"PK")
    said = refused(1, "fit", "cars.xlsx", "--label", "class")
    assert 'pip install "advmetric[tables]"' in said
    assert "bug" not in said


def test_corrupt_results_are_not_called_absent(refused, work):
    (work / "results").mkdir()
    (work / "results" / "results.jsonl").write_text("not JSON\n")
    said = refused(1, "report", "results")
    assert "no results" not in said.lower() or "1 line" in said
    assert "results.jsonl" in said


def test_shells_complete_methods(cli, capsys, monkeypatch):
    assert "--install-completion" in cli("--help")[1]
    settings = {"_ADVMETRIC_COMPLETE": "complete_bash", "COMP_WORDS": "advmetric fit --method G", "COMP_CWORD": "3"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out.split() == ["GMML"]
