"""The survey of columns: kinds, means, and what looks like a mistake; whole or in parts."""

from __future__ import annotations

import numpy as np
import pytest

from advmetric.io.columns import Column, column_of_array
from advmetric.io.survey import MAX_LEVELS, Survey
from advmetric.io.tables import Table


def table(first=0, **columns):
    return Table(
        "t.csv", {name: column_of_array(np.array(v, dtype=object), name) for name, v in columns.items()}, {}, first
    )


def parts(size, **columns):
    n = len(next(iter(columns.values())))
    for start in range(0, n, size):
        yield table(start, **{name: values[start : start + size] for name, values in columns.items()})


COLUMNS = {
    "x": [1.0, None, 4.0, 4.0, 1e300, 2.0],
    "kind": ["a", "b", "b", None, "c", "1"],
    "code": [3, 3, 1, 2, 3, None],
}


@pytest.mark.parametrize("size", [1, 4, 6])
def test_parts_give_what_the_whole_gives(size):
    survey = Survey(["code"])
    for part in parts(size, **COLUMNS):
        survey.update(part)
    forced = [*survey.uncounted(), "code"]
    survey = Survey(forced)
    for part in parts(size, **COLUMNS):
        survey.update(part)
    assert survey.uncounted() == []
    found = survey.preparation()
    assert found.rules[0].fill == pytest.approx(np.mean([1, 4, 4, 1e300, 2]))
    assert (found.rules[1].levels, found.rules[1].fill) == (("1", "a", "b", "c"), "b")
    assert (found.rules[2].levels, found.rules[2].fill) == (("1", "2", "3"), "3")
    assert survey.missing == {"x": 1, "kind": 1, "code": 1}
    assert all(rule.fill is None for rule in survey.preparation(fill=False).rules)


def test_a_few_words_among_numbers_are_a_mistake_with_a_place():
    survey = Survey()
    for part in parts(2, x=[1, 2, 3, "wide", 5]):
        survey.update(part)
    with pytest.raises(ValueError, match=r"t.csv, row 4, column 'x': 'wide' is not a number.*--drop.*--category x"):
        survey.preparation()


@pytest.mark.parametrize("size", [1, 60])
def test_words_for_missing_are_gaps_among_numbers_and_levels_among_text(size):
    columns = {
        "med": ["None", "insulin", None, "None", "NA", "insulin"] * 10,
        "dose": ["None", 1, 2, "?", "", 3] * 10,
        "code": [1, "NA", 2, "", "NA", 2] * 10,
        "none": ["", "?", "NA", "", "", None] * 10,
    }
    survey = Survey(["code"])
    for part in parts(size, **columns):
        survey.update(part)
    survey = Survey(["code", *survey.uncounted()])
    for part in parts(size, **columns):
        survey.update(part)
    med, dose, code, none = survey.preparation().rules
    assert med.levels == ("NA", "None", "insulin")
    assert (dose.levels, dose.fill) == (None, pytest.approx(2.0))
    assert (code.levels, code.fill) == (("1", "2", "NA"), "2")
    assert (none.levels, none.fill) == (None, 0.0)
    assert survey.missing == {"med": 10, "dose": 30, "code": 10, "none": 60}
    assert survey.filled("t.csv", survey.preparation())[-1].endswith("all values are missing; they are filled with 0.")


def test_decimal_commas_are_recognised_however_many():
    for values in (["1,5", "2,5", "3,5"], [1, 2, "3,5"]):
        with pytest.raises(ValueError, match=r"'\d,5' is not a number. Give --decimal ,"):
            Survey().update(table(x=values)).preparation()


def test_text_that_is_no_category_is_named():
    for values, said in (
        ([f"n{i}" for i in range(9)], "column 'x' holds text .'n0'., of which every one differs"),
        ([f"n{i // 2}" for i in range(2 * MAX_LEVELS + 2)], f"of more than {MAX_LEVELS} kinds"),
        (["2024-01-01", "2024-01-02", "2024-01-01"], "column 'x' holds dates"),
    ):
        with pytest.raises(ValueError, match=said):
            Survey().update(table(x=values)).preparation()


@pytest.mark.parametrize("size", [3, 20])
def test_identifiers_and_constant_columns_are_named(size):
    n = 20
    rng = np.random.default_rng(0)
    survey = Survey()
    for part in parts(
        size,
        row=list(range(n)),
        down=list(range(n, 0, -1)),
        customer_id=rng.integers(0, 9, n).tolist(),
        index=rng.random(n).tolist(),  # of refraction
        age=rng.integers(0, 90, n).tolist(),
        rising=np.linspace(0, 1, n).tolist(),
        same=[7] * n,
        patient=[int(i) for i in rng.integers(10**18, 10**19, n, dtype=np.uint64)],
        long=[10**25 + i for i in range(n)],  # one number, as floats
    ):
        survey.update(part)
    said = " ".join(survey.suspicions())
    for name in ("row", "down", "customer_id", "patient", "long"):
        assert f"column {name!r} looks like an identifier" in said
    for name in ("index", "age", "rising"):
        assert repr(name) not in said
    assert "1 column has the same value in every row, which is of no use: 'same'" in said


def test_infinite_numbers_do_not_spoil_the_mean():
    survey = Survey().update(Table("t", {"x": Column(np.array([1.0, np.inf, 3.0]))}, {}))
    assert survey.preparation().rules[0].fill == 2.0
