"""No test here may reach the network, read the developer's data home, or write to scikit-learn's."""

from pathlib import Path
from typing import Any, NoReturn

import pytest

from advmetric.datasets import loader


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**arguments: Any) -> NoReturn:
        pytest.fail(f"fetch_openml was called with {arguments}")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)
    monkeypatch.delenv("ADVMETRIC_DATA", raising=False)


@pytest.fixture
def no_bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package as if its data files had been stripped."""
    monkeypatch.setattr(loader, "BUNDLE", tmp_path / "no-such-folder")


@pytest.fixture
def shared() -> Path:
    """The development data beside the repository."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside the repository")
    return folder
