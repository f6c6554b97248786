"""One thread and no autograd surprises: what the tests of the deep part share."""

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def batch():
    """Twelve points of four classes in five dimensions, in double precision."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(12, 5, dtype=torch.float64, generator=generator), torch.arange(4).repeat(3)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
