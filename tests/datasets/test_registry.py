"""The table of datasets and the names it is asked for."""

import dataclasses
import doctest
import re

import pytest

from advmetric.datasets import list_datasets, load_dataset, loader, registry

NAMES = [
    "breast-cancer",
    "vehicle",
    "german-credit",
    "german-credit-numeric",
    "image-segment",
    "isolet",
    "letters",
    "mnist-4000",
]


def test_every_dataset_of_the_design_is_listed_once():
    assert [info.name for info in list_datasets()] == NAMES


def test_table_1_has_seven_datasets_and_takes_the_numeric_german_credit():
    assert [info.name for info in list_datasets() if info.table1] == [n for n in NAMES if n != "german-credit"]


def test_what_is_not_bundled_can_be_downloaded_or_comes_with_advice():
    for info in list_datasets():
        assert info.bundled or info.openml_id is not None or info.advice, info.name


@pytest.mark.parametrize("info", list_datasets(), ids=NAMES)
def test_a_record_is_complete_and_consistent(info):
    assert all([info.title, info.licence, info.citation, info.coding])
    assert re.fullmatch("[0-9a-f]{64}", info.sha256)
    assert info.files[0] == f"{info.name}.npz"
    assert len(set(info.target_names)) == info.c
    assert info.feature_names is None or len(set(info.feature_names)) == info.d
    assert info.openml_labels is None or len(set(info.openml_labels)) == info.c


def test_no_two_datasets_answer_to_the_same_file():
    files = [file for info in list_datasets() for file in info.files]
    assert len(files) == len(set(files))


def test_records_cannot_be_changed_and_the_list_is_a_copy():
    with pytest.raises(dataclasses.FrozenInstanceError):
        list_datasets()[0].n = 1
    list_datasets().clear()
    assert len(list_datasets()) == len(NAMES)


@pytest.mark.parametrize(
    ("asked", "meant"), [("breast_cancer", "breast-cancer"), ("Vehicle", "vehicle"), ("mnist", "mnist-4000")]
)
def test_an_unknown_name_gets_the_closest_and_all_known_names(asked, meant):
    with pytest.raises(ValueError, match=f"no dataset '{asked}'.*Did you mean '{meant}'") as caught:
        load_dataset(asked)
    assert all(name in str(caught.value) for name in NAMES)


def test_a_name_like_no_other_gets_the_list_without_a_guess():
    with pytest.raises(ValueError, match="Known names: breast-cancer, ") as caught:
        load_dataset("zzz")
    assert "Did you mean" not in str(caught.value)


def test_a_name_that_is_no_string_is_a_type_error():
    with pytest.raises(TypeError, match="name must be a string"):
        load_dataset(3)


@pytest.mark.parametrize("module", [registry, loader])
def test_the_examples_in_the_docstrings_hold(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
