"""Parameters as text: what is written is what is used, and saved."""

from __future__ import annotations

import pytest

from advmetric.utils.errors import UsageError
from advmetric.workflows.parameters import find_method, parse_params


@pytest.mark.parametrize(
    ("method", "given", "expected"),
    [
        ("GMML", "reg=0.1", {"reg": 0.1}),
        ("AML", "average=False", {"average": False}),
        ("ITML", "pairs=300", {"pairs": 300}),
        ("AML", "prior=identity", {"prior": "identity"}),
        ("AML", "n_components=None", {"n_components": None}),
    ],
)
def test_values_are_read_as_python(method, given, expected):
    assert parse_params(find_method(method), [given]) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("alpha", r"alpha needs a value: --param alpha=1\.0"),
        ("t", r"t needs a value: --param t=0\.5"),
        ("n_components", "n_components needs a value: --param n_components=1"),
        ("alhpa", "'alhpa' is not NAME=VALUE.* Did you mean 'alpha'"),
        ("alpha=-1", "alpha=-1"),
    ],
)
def test_a_wrong_parameter_says_how_it_is_written(given, said):
    with pytest.raises(UsageError, match=said):
        parse_params(find_method("AML"), [given])
