"""Columns: numbers to the last digit, what is missing, what is text."""

from __future__ import annotations

import datetime
import struct

import numpy as np
import pyarrow
import pytest

from advmetric.io.columns import column_of_array, column_of_text, is_date, is_number


def strings(*values):
    return pyarrow.chunked_array([pyarrow.array(values, pyarrow.string())])


def test_numbers_are_those_of_python_to_the_last_bit():
    bits = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)
    numbers = [x for x in np.frombuffer(bits.tobytes()).tolist() if np.isfinite(x)]
    written = [repr(x) for x in numbers] + [
        "0.1",
        "2.2250738585072011e-308",
        "1e23",
        " 5. ",
        "+7",
        ".5",
        "9007199254740993",
    ]
    found = column_of_text(strings(*written))
    assert found.text is None
    assert [struct.pack("d", x) for x in found.numbers.tolist()] == [struct.pack("d", float(x)) for x in written]


def test_missing_and_text_are_told_apart():
    found = column_of_text(strings("1", " NA", "wide", "", "?", "2_000", "nan", "<NA>", "3"))
    np.testing.assert_array_equal(found.numbers, [1, *[np.nan] * 7, 3])
    assert found.is_text.tolist() == [False, False, True, False, False, True, False, False, False]
    assert found.as_text().tolist() == ["1", "NA", "wide", "", "?", "2_000", "nan", "<NA>", "3"]


@pytest.mark.parametrize("gap", ["NA", "nan", "-nan", "?", "-", "None"])
def test_a_gap_among_numbers_keeps_what_is_written(gap):
    for found in (column_of_text(strings("1", gap, "", "2")), column_of_array(np.array([1, gap, None, "2"], "O"), "")):
        np.testing.assert_array_equal(found.numbers, [1, np.nan, np.nan, 2])
        assert not found.is_text.any()
        assert found.as_text().tolist() == ["1", gap, "", "2"]


def test_whole_numbers_that_lose_digits_are_noticed():
    for written in ("1234567890123456789", "12345678901234567890123456", "-9007199254740993"):
        assert column_of_text(strings("", written)).rounded
        assert column_of_array(np.array([None, written], dtype=object), "").rounded
    assert column_of_array(np.array([1, 2**53 + 1]), "").rounded
    assert column_of_array(np.array([1, 2**53 + 1], dtype=object), "").rounded
    for kept in ("9007199254740992", "1e300", "0.12345678901234567890", "inf"):
        assert not column_of_text(strings("", kept)).rounded
        assert not column_of_array(np.array([kept], dtype=object), "").rounded


def test_a_decimal_comma():
    found = column_of_text(strings("1,5", "-2", "1.234,5", ""), ",")
    np.testing.assert_array_equal(found.numbers, [1.5, -2, np.nan, np.nan])
    assert found.is_text.tolist() == [False, False, True, False]
    assert is_number("1,5", ",")
    assert not is_number("1.5", ",")


def test_a_number_has_one_form_as_a_category_however_it_is_written():
    assert column_of_text(strings("01", "1.0", "1", "A", "2.50")).as_text().tolist() == ["1", "1", "1", "A", "2.5"]
    assert column_of_array(np.array([1, 1, 2]), "").as_text().tolist() == ["1", "1", "2"]
    assert column_of_array(np.array([1.5, np.nan, np.inf]), "").as_text().tolist() == ["1.5", "", "inf"]


def test_typed_columns():
    mixed = column_of_array(np.array([1, None, "NA", "red", 2.5, "3", True], dtype=object), "")
    np.testing.assert_array_equal(mixed.numbers, [1, np.nan, np.nan, np.nan, 2.5, 3, 1])
    assert mixed.is_text.tolist() == [False, False, False, True, False, False, False]
    assert column_of_array(np.array([True, False]), "").numbers.tolist() == [1.0, 0.0]
    for dates in (
        np.array(["2024-01-01"], "datetime64[ns]"),
        np.array([None, datetime.date(2024, 1, 1)], dtype=object),
    ):
        with pytest.raises(ValueError, match=r"t.parquet, column 'when' holds dates"):
            column_of_array(dates, "t.parquet, column 'when'")


def test_dates_are_known_by_their_look():
    assert all(map(is_date, ("2024-01-05", "2024-1-5 12:00", "5.1.2024", "01/05/24", "2024-01-05T10:11:12Z")))
    assert not any(map(is_date, ("red", "2024", "1.5", "a-b-c")))
