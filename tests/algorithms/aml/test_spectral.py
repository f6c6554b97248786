"""Spectral functions and their divided differences against sixty-digit arithmetic."""

import itertools

import mpmath as mp
import numpy as np
import pytest

from advmetric.algorithms.aml.spectral import contracted, contraction, expanded, identity, reciprocal, shrunk

pytestmark = pytest.mark.numerical


@pytest.fixture(autouse=True)
def many_digits():
    with mp.workdps(100):
        yield


def exact_contracted(beta):
    beta = mp.mpf(beta)
    return lambda x: beta**2 * x**5 / (2 + beta * x**2) ** 2


def exact_expanded(q):
    q = mp.mpf(q)
    return lambda x: x / (1 - x / q) ** 2


def exact_shrunk(q):
    q = mp.mpf(q)
    return lambda x: 1 / (x * (1 + x / q) ** 2)


def none(_):
    return 0.0


def steepest(lam):
    return lam.min() ** -3


# Function, the same in mpmath, and the size of the poles behind its second differences. Poles are summed,
# so that where an adversary's part vanishes (βλ² → 0, λ/q → ∞) its second differences are right relative
# to the poles, not to themselves. That is all a Hessian needs: there the parts λ and 1/λ are much larger.
FUNCTIONS = {
    "identity": (identity(), lambda x: x, none),
    "reciprocal": (reciprocal(), lambda x: 1 / x, none),
    "contracted 1": (contracted(1.0), exact_contracted(1.0), lambda lam: 1.0),
    "contracted 1e-4": (contracted(1e-4), exact_contracted(1e-4), lambda lam: 1e-2),
    "contracted 1e3": (contracted(1e3), exact_contracted(1e3), lambda lam: 1e3**0.5),
    "expanded 7": (expanded(7.0), exact_expanded(7.0), none),
    "expanded 1e4": (expanded(1e4), exact_expanded(1e4), none),
    "shrunk 8": (shrunk(8.0), exact_shrunk(8.0), steepest),
    "shrunk 0.01": (shrunk(0.01), exact_shrunk(0.01), steepest),
    "f_S derived": (identity() + 3.0 * contracted(0.7), lambda x: x + 3 * exact_contracted(0.7)(x), lambda lam: 1.0),
    "f_D expanding": (
        0.5 * reciprocal() + 2.0 * shrunk(3.0),
        lambda x: 1 / (2 * x) + 2 * exact_shrunk(3.0)(x),
        steepest,
    ),
}
EIGENVALUES = {
    "distant": np.array([1e-6, 1e-3, 0.2, 1.0, 6.5]),
    "equal": np.array([1.0, 1.0, 1.0, 3.0, 3.0]),
    "nearly equal": np.array([0.7, 0.7 * (1 + 1e-9), 0.7 * (1 + 3e-9), 2.0, 2.0 * (1 + 1e-15)]),
    "at the barrier of 7": np.array([0.1, 6.9, 6.999, 6.9999999, 6.9999999]),
}


def spread(lam):
    """Eigenvalues in mpmath, moved apart by 1e-30 so that quotients of differences are defined."""
    return [mp.mpf(float(value)) * (1 + k * mp.mpf("1e-30")) for k, value in enumerate(lam)]


def first_difference(f, a, b):
    return (f(a) - f(b)) / (a - b)


def second_difference(f, a, b, c):
    return (first_difference(f, a, b) - first_difference(f, b, c)) / (a - c)


def relative_error(found, expected):
    return max(
        float(abs(mp.mpf(float(x)) - y) / abs(y)) if y else abs(float(x)) for x, y in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("eigenvalues", EIGENVALUES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_slopes_and_first_differences_are_right_to_the_last_digits(name, eigenvalues):
    """Relative to each entry: sums of positive terms lose nothing to cancellation."""
    function, f, _ = FUNCTIONS[name]
    lam = EIGENVALUES[eigenvalues]
    exact, other = spread(lam), [x * (1 + mp.mpf("1e-31")) for x in spread(lam)]
    assert relative_error(function.value(lam), [f(x) for x in exact]) < 3e-15
    assert (
        relative_error(function.slope(lam), [first_difference(f, *two) for two in zip(exact, other, strict=True)])
        < 3e-15
    )
    expected = [first_difference(f, x, y) for x in exact for y in other]
    assert relative_error(function.difference(lam).ravel(), expected) < 5e-15


@pytest.mark.parametrize("eigenvalues", EIGENVALUES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_difference_is_symmetric_with_the_slope_on_its_diagonal(name, eigenvalues):
    function, _, _ = FUNCTIONS[name]
    lam = EIGENVALUES[eigenvalues]
    G = function.difference(lam)
    assert np.allclose(G, G.T, rtol=1e-15, atol=0)
    assert np.allclose(np.diagonal(G), function.slope(lam), rtol=4e-15, atol=0)


@pytest.mark.parametrize("eigenvalues", ["distant", "equal", "nearly equal"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_differences_are_right_at_equal_and_distant_eigenvalues(name, eigenvalues):
    function, f, poles = FUNCTIONS[name]
    lam = EIGENVALUES[eigenvalues]
    points = [[x * (1 + k * mp.mpf("1e-33")) for x in spread(lam)] for k in range(3)]
    curvature, bend = function.curvature(lam), function.second_derivative(lam)
    for i, j in itertools.product(range(lam.size), repeat=2):
        expected = second_difference(f, points[0][i], points[1][i], points[2][j])
        scale = abs(expected) + poles(lam[[i, j]])
        assert abs(curvature[i, j] - expected) <= 1e-13 * scale
    for i in range(lam.size):
        expected = 2 * second_difference(f, points[0][i], points[1][i], points[2][i])
        scale = abs(expected) + poles(lam[[i]])
        assert abs(bend[i] - expected) <= 1e-13 * scale


@pytest.mark.parametrize("eigenvalues", ["distant", "equal", "nearly equal"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessian_product_is_the_sum_over_second_differences(name, eigenvalues):
    """Σₖ f[λᵢ,λⱼ,λₖ](VᵢₖAₖⱼ + AᵢₖVₖⱼ), written out."""
    function, f, poles = FUNCTIONS[name]
    lam = EIGENVALUES[eigenvalues]
    rng = np.random.default_rng(5)
    A, V = (X + X.T for X in rng.standard_normal((2, lam.size, lam.size)))
    found = function.hessian_product(lam, A, V)
    points = [[x * (1 + k * mp.mpf("1e-33")) for x in spread(lam)] for k in range(3)]
    for i, j in itertools.product(range(lam.size), repeat=2):
        expected, scale = 0.0, 0.0
        for k in range(lam.size):
            second = float(second_difference(f, points[0][i], points[1][j], points[2][k]))
            weight = V[i, k] * A[k, j] + A[i, k] * V[k, j]
            expected += second * weight
            scale += (abs(second) + poles(lam[[i, j, k]])) * (abs(V[i, k] * A[k, j]) + abs(A[i, k] * V[k, j]))
        assert abs(found[i, j] - expected) <= 1e-13 * scale


@pytest.mark.parametrize("beta", [1e-100, 1e-30, 1e30, 1e100])
def test_no_size_of_beta_or_of_the_eigenvalues_overflows(beta):
    lam = np.array([1e-100, 1e-40, 1.0, 1e40, 1e100])
    f = exact_contracted(beta)
    function = contracted(beta)
    exact = spread(lam)
    with np.errstate(all="raise", under="ignore"):
        value, slope, difference = function.value(lam), function.slope(lam), function.difference(lam)
    smallest = mp.mpf(np.finfo(float).tiny)
    for i, x in enumerate(exact):
        assert abs(value[i] - f(x)) <= 1e-14 * f(x) + smallest
        for j, y in enumerate(exact):
            expected = first_difference(f, x * (1 + mp.mpf("1e-31")), y)
            assert abs(difference[i, j] - expected) <= 1e-14 * expected + smallest
    assert np.allclose(slope, np.diagonal(difference), rtol=1e-14)
    for answer in (function.second_derivative(lam), function.curvature(lam)):
        assert np.isfinite(answer).all()


def test_difference_of_the_contracted_loss_lies_between_0_and_its_greatest_slope():
    """u²(5 - 4u) rises from 0 to 1 at u = 1, with a maximum of 125/108 at u = 5/6."""
    lam = np.logspace(-150, 150, 200)
    G = contracted(2.0).difference(lam)
    assert G.min() >= 0.0
    assert G.max() <= 125 / 108 + 1e-12
    assert abs(contracted(2.0).slope(np.array([1e200]))[0] - 1.0) < 1e-15


def test_contraction_is_what_the_paper_says_and_never_overflows():
    lam = np.array([1e-3, 0.5, 2.0, 40.0])
    assert np.allclose(contraction(0.3, lam), 0.3 * lam**2 / (2 + 0.3 * lam**2), rtol=1e-15)
    with np.errstate(all="raise", under="ignore"):
        assert contraction(1e10, np.array([1e-300, 1e300])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "identity"])
def test_every_loss_is_convex_in_the_logarithm_of_the_eigenvalue(name):
    """d²f/d(log λ)² = λf' + λ²f'' > 0, which makes each eigenvalue's problem convex (25 - 48u + 24u² > 0)."""
    function, _, poles = FUNCTIONS[name]
    lam = np.logspace(-3.0, np.log10(6.9), 200)
    rounding = 1e-13 * lam**2 * np.array([poles(lam[[k]]) for k in range(lam.size)])
    assert np.all(lam * function.slope(lam) + lam**2 * function.second_derivative(lam) > -rounding)
