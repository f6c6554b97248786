"""Preparation of columns: one-hot as scikit-learn does it, fills of training, facts without pickle."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from advmetric.io.columns import Column, column_of_array
from advmetric.io.preparation import Preparation, Rule, UnpreparedError, raw_matrix
from advmetric.io.survey import Survey
from advmetric.io.tables import Table

RNG = np.random.default_rng(0)
KINDS = np.array(["red", "green", "blue"], dtype=object)[RNG.integers(3, size=50)]
SIDES = np.array(["left", "right"], dtype=object)[RNG.integers(2, size=50)]
X = RNG.normal(size=50)
X[::7] = np.nan


def table(x, kinds, sides):
    values = {"x": x, "kind": kinds, "side": sides}
    return Table("t.csv", {name: column_of_array(np.asarray(v, dtype=object), name) for name, v in values.items()}, {})


TABLE = table(X, KINDS, SIDES)


def test_the_features_are_those_of_scikit_learn():
    found = Survey().update(TABLE).preparation()
    raw, notes = raw_matrix(TABLE, found)
    hot = OneHotEncoder(drop="if_binary", sparse_output=False).fit(np.column_stack([KINDS, SIDES]))
    filled = SimpleImputer().fit_transform(X[:, None])
    expected = np.hstack([filled, hot.transform(np.column_stack([KINDS, SIDES]))])
    np.testing.assert_allclose(found.encode(raw), expected, rtol=1e-12)
    assert found.feature_names == ("x", "kind=blue", "kind=green", "kind=red", "side=right")
    assert notes == [f"t.csv, column 'x': 8 missing values are filled with {np.nanmean(X):.6g}, the mean in training."]


def test_levels_and_fills_are_learned_from_the_rows_given():
    whole = Survey().update(TABLE).preparation()
    raw, _ = raw_matrix(TABLE, whole)
    train = np.flatnonzero(KINDS != "green")
    part = whole.learn(raw[train])
    assert part.rules[0].fill == pytest.approx(np.nanmean(X[train]))
    assert part.rules[1].levels == ("blue", "red")
    values, counts = np.unique(KINDS[train].astype(str), return_counts=True)
    assert part.rules[1].fill == values[counts.argmax()]
    encoded = part.encode(raw, whole.levels)  # green is unknown: zero
    np.testing.assert_array_equal(encoded[:, 1], KINDS == "red")


def test_new_tables_are_encoded_by_the_levels_of_training():
    known = Survey().update(TABLE).preparation()
    raw, notes = raw_matrix(table([1.0, 2.0, None], ["mauve", "red", None], ["left", "up", "right"]), known)
    common = known.rules[1].fill
    hot = [[0, 0, 0], [0, 0, 1], [common == "blue", common == "green", common == "red"]]
    np.testing.assert_allclose(known.encode(raw), np.column_stack([[1, 2, np.nanmean(X)], hot, [0, 0, 1]]))
    assert "1 rows have a level that was not there in training ('mauve')" in " ".join(notes)


def test_what_is_missing_in_a_new_table_is_what_was_missing_in_training():
    rules = Preparation((Rule("x", None, 5.0), Rule("kind", ("None", "red"), "red")))
    new = {"x": ["None", 1, None], "kind": ["None", "NA", None]}
    columns = {name: column_of_array(np.array(values, dtype=object), name) for name, values in new.items()}
    raw, notes = raw_matrix(Table("t.csv", columns, {}), rules)
    np.testing.assert_array_equal(rules.encode(raw), [[5, 0], [1, 0], [5, 1]])
    assert [note.partition(": ")[2][:22] for note in notes] == [
        "2 missing values are f",
        "1 rows have a level th",
        "1 missing value is fil",
    ]


def test_what_a_rule_does_not_provide_for_is_refused_with_its_place():
    def refused(values, rule, said, error=UnpreparedError):
        with pytest.raises(error, match=said):
            raw_matrix(
                Table("t.csv", {"x": column_of_array(np.array(values, dtype=object), "")}, {}), Preparation((rule,))
            )

    refused([1, None], Rule("x"), "t.csv, row 2, column 'x': the value is missing")
    refused(["a", None], Rule("x", ("a", "b")), "t.csv, row 2, column 'x': the value is missing")
    refused([1, "red"], Rule("x", None, 0.0), "row 2, column 'x': 'red' is not a number")
    refused([1, np.inf], Rule("x", None, 0.0), "row 2, column 'x': the value is infinite", ValueError)


def test_facts_survive_json_and_nonsense_is_refused():
    known = Survey().update(TABLE).preparation()
    assert Preparation.of_facts(json.loads(json.dumps(known.facts()))) == known
    for facts in (
        [{"name": "x"}],
        [3],
        7,
        [{"name": "x", "levels": None, "fill": "red"}],
        [{"name": "x", "levels": None, "fill": float("nan")}],
        [{"name": "x", "levels": ["a", "a"], "fill": None}],
        [{"name": "x", "levels": ["a"], "fill": "b"}],
        [{"name": "x", "levels": 3, "fill": None}],
        [{"name": "x", "levels": None, "fill": []}],
    ):
        with pytest.raises(ValueError, match="column"):
            Preparation.of_facts(facts)


def test_numbers_that_need_nothing_are_not_copied():
    raw = RNG.normal(size=(5, 1))
    rules = Preparation((Rule("x", None, 0.0),))
    assert rules.encode(raw) is raw
    assert len(Column(raw[:, 0])) == 5
