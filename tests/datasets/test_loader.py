"""The datasets inside the package: complete, small, documented and equal to other copies."""

import sys
from pathlib import Path

import numpy as np
import pytest

from advmetric.datasets import list_datasets, load_dataset
from advmetric.datasets.files import content_checksum

DATA = Path(sys.modules["advmetric.datasets"].__file__).parent / "data"
LETTER_COUNTS = [
    *[789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792],
    *[783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734],
]
COUNTS = {
    "breast-cancer": (699, 9, [458, 241]),
    "vehicle": (846, 18, [218, 212, 217, 199]),
    "german-credit": (1000, 20, [700, 300]),
    "image-segment": (2310, 19, [330] * 7),
    "letters": (20000, 16, LETTER_COUNTS),
    "mnist-4000": (4000, 784, [400] * 10),
}


def sorted_rows(X, y):
    """Rows with their labels in lexicographic order; NaN becomes a value that no dataset has."""
    rows = np.column_stack([np.nan_to_num(np.asarray(X, dtype=np.float32), nan=-99999), y])
    return rows[np.lexsort(rows.T[::-1])]


def test_the_registry_says_bundled_of_exactly_the_files_there_are():
    assert {path.stem for path in DATA.glob("*.npz")} == {info.name for info in list_datasets() if info.bundled}


def test_all_bundled_files_together_are_under_2_mb():
    assert 0 < sum(path.stat().st_size for path in DATA.iterdir()) < 2_000_000


@pytest.mark.parametrize("name", COUNTS)
def test_shape_and_class_counts(name):
    n, d, counts = COUNTS[name]
    data = load_dataset(name, missing="keep", download=False)
    assert data.X.shape == (n, d)
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert np.bincount(data.y).tolist() == counts
    assert len(data.target_names) == len(counts)
    assert data.source == "bundled"
    assert data.name == name


@pytest.mark.parametrize("name", COUNTS)
def test_content_has_the_checksum_of_the_registry(name):
    data = load_dataset(name, missing="keep")
    expected = {info.name: info.sha256 for info in list_datasets()}[name]
    assert content_checksum(data.X, data.y) == expected


@pytest.mark.parametrize("name", COUNTS)
def test_licence_and_citation_come_with_the_data_and_stand_in_the_licence_file(name):
    data = load_dataset(name)
    section = (DATA / "LICENSES.md").read_text(encoding="utf-8").split(f"## {name}\n")[1].split("\n## ")[0]
    table = (DATA / "LICENSES.md").read_text(encoding="utf-8").split("\n## ")[0]
    assert f"| {name}.npz |" in table
    assert data.licence in table
    assert data.citation.split("doi:")[1] in section
    for part in ("Origin: ", "Cite: ", "Changed: "):
        assert part in section


@pytest.mark.parametrize("name", COUNTS)
def test_the_description_tells_size_missing_values_and_terms(name):
    data = load_dataset(name)
    n, d = data.X.shape
    assert f"{n} points, {d} features, {len(data.target_names)} classes" in data.DESCR
    assert "missing" in data.DESCR
    assert data.licence in data.DESCR
    assert data.citation in data.DESCR
    assert "\n" not in data.DESCR


def test_rows_with_a_missing_value_are_dropped_unless_asked():
    data = load_dataset("breast-cancer")
    assert data.X.shape == (683, 9)
    assert data.y.shape == (683,)
    assert np.isfinite(data.X).all()
    assert "16 of 699 rows had a missing value and were dropped" in data.DESCR


def test_missing_values_can_be_kept():
    data = load_dataset("breast-cancer", missing="keep")
    assert np.isnan(data.X).sum(axis=0).tolist() == [0, 0, 0, 0, 0, 16, 0, 0, 0]
    assert data.feature_names[5] == "Bare.nuclei"
    assert "16 values in 16 of 699 rows are missing: they are NaN" in data.DESCR


def test_missing_values_can_become_the_median_of_their_feature():
    kept, filled = (load_dataset("breast-cancer", missing=how) for how in ("keep", "median"))
    gaps = np.isnan(kept.X)
    observed = kept.X[~gaps[:, 5], 5]
    assert (filled.X[gaps] == np.median(observed)).all()
    np.testing.assert_array_equal(filled.X[~gaps], kept.X[~gaps])
    assert "replaced by the median" in filled.DESCR


def test_an_unknown_treatment_of_missing_values_is_refused():
    with pytest.raises(ValueError, match="missing must be 'drop', 'keep' or 'median', got 'mean'"):
        load_dataset("vehicle", missing="mean")


def test_categories_of_german_credit_have_the_codes_of_uci():
    data = load_dataset("german-credit")
    values = {name: set(data.X[:, j]) for j, name in enumerate(data.feature_names)}
    assert values["checking_status"] == {1, 2, 3, 4}
    assert values["credit_history"] == {0, 1, 2, 3, 4}
    assert values["purpose"] == {0, 1, 2, 3, 4, 5, 6, 8, 9, 10}
    assert values["foreign_worker"] == {1, 2}
    assert (min(values["credit_amount"]), max(values["credit_amount"])) == (250, 18424)
    assert (min(values["age"]), max(values["age"])) == (19, 75)


def test_a_caller_may_change_what_it_got():
    first = load_dataset("vehicle")
    before = first.X[0, 0]
    first.X[0, 0] = -1
    first.target_names.append("bicycle")
    again = load_dataset("vehicle")
    assert again.X[0, 0] == before
    assert again.target_names == ["bus", "opel", "saab", "van"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("breast-cancer", "breast_cancer"),
        ("vehicle", "vehicle"),
        ("image-segment", "image_segment"),
        ("letters", "letters"),
        ("mnist-4000", "mnist4000"),
    ],
)
def test_bundled_rows_are_those_of_the_shared_copy(shared, name, file):
    data = load_dataset(name, missing="keep")
    with np.load(shared / f"{file}.npz", allow_pickle=False) as other:
        np.testing.assert_array_equal(sorted_rows(data.X, data.y), sorted_rows(other["X"], other["y"]))
        if "target_names" in other:
            assert data.target_names == other["target_names"].tolist()


def test_german_credit_agrees_with_the_numeric_edition_where_both_have_a_column(shared):
    data = load_dataset("german-credit")
    columns = [data.feature_names.index(name) for name in ("duration", "credit_history", "age", "existing_credits")]
    with np.load(shared / "german_credit.npz", allow_pickle=False) as numeric:
        np.testing.assert_array_equal(
            sorted_rows(data.X[:, columns], data.y), sorted_rows(numeric["X"][:, [1, 2, 9, 11]], numeric["y"])
        )
