"""Progress says nothing in these tests, however slow the machine; tests of progress set the time themselves."""

import pytest

from advmetric.workflows import stages, stream


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(stages, "QUIET", 1e6)
    monkeypatch.setattr(stream, "_QUIET", 1e6)
