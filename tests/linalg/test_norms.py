"""Norms of rows beyond the range in which squares can be added."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from advmetric.linalg.norms import row_norms, squares_are_finite


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-160, 1.0, 1e160, 1e300])
@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_norms_are_those_of_unscaled_rows_times_the_scale(scale, convert):
    Z = np.array([[3.0, 4.0], [0.0, 0.0], [-5.0, 12.0]])
    np.testing.assert_allclose(row_norms(convert(Z * scale)), np.array([5.0, 0.0, 13.0]) * scale, rtol=1e-14)


def test_norms_of_tensors_do_not_overflow():
    torch = pytest.importorskip("torch")
    Z = torch.tensor([[3e200, 4e200], [0.0, 0.0], [3e-200, 4e-200]], dtype=torch.float64)
    np.testing.assert_allclose(row_norms(Z).numpy(), [5e200, 0.0, 5e-200])


def test_a_norm_that_is_not_a_number_stays_so():
    assert not np.isfinite(row_norms(np.array([[np.inf, 1.0]]))).any()


@pytest.mark.parametrize(("size", "finite"), [(1e150, True), (1e155, False), (1e-200, True)])
def test_squares(size, finite):
    assert squares_are_finite(np.full((2, 2), size)) is finite
    assert squares_are_finite(csr_array(np.full((2, 2), size))) is finite
