"""Every public name is in the reference, with an example that the tests run and a way on."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("advmetric", "advmetric.plots", "advmetric.streaming", "advmetric.deep", "advmetric.features")
MODULES += ("advmetric.evaluation.robustness",)
NAMES = [(module, name) for module in MODULES for name in importlib.import_module(module).__all__]
REFERENCE = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")


def listed():
    """Names of the reference, with their modules."""
    module, found = "", set()
    for line in REFERENCE.splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif re.fullmatch(r"   \w+", line):
            found.add((module, line.strip()))
    return found


def test_the_reference_lists_what_is_public_and_nothing_else():
    assert listed() == set(NAMES)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part)
def test_a_public_name_has_an_example_and_a_way_on(module, name):
    obj = getattr(importlib.import_module(module), name)
    text = inspect.getdoc(obj)
    assert "\nExamples\n--------\n>>> " in text
    assert text.count("\nSee Also\n--------\n") == 1
    # pytest collects doctests of src: the example is in the module that the name is defined in.
    assert ">>>" in inspect.getsource(obj)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part)
def test_what_is_pointed_at_exists(module, name):
    text = inspect.getdoc(getattr(importlib.import_module(module), name))
    block = text.partition("See Also\n--------\n")[2].partition("\n\n")[0]
    for target in re.findall(r"^([\w., ]+) :", block, re.MULTILINE):
        for word in target.split(", "):
            place, _, last = word.rpartition(".")
            owner = importlib.import_module(module)
            for part in [p for p in place.split(".") if p and p != "advmetric"]:
                owner = getattr(importlib.import_module("advmetric"), part)
            owner = owner if place.count(".") or not place else importlib.import_module("advmetric")
            assert hasattr(owner, last), f"{word} in See Also of {name}"
