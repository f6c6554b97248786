"""The contract is tested on a third of vehicle: every learner is fitted some hundred times."""

import pytest

from reference.vehicle import Labelled, labelled_vehicle


@pytest.fixture(scope="session")
def vehicle() -> Labelled:
    """Vehicle (282 points), standardised, with 400 index pairs: half of them similar."""
    return labelled_vehicle(every=3)
