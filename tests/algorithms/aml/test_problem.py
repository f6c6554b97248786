"""Properties of AML that hold for any valid input."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning

from advmetric import AML
from advmetric.algorithms.aml.adversary import DerivedAdversary
from advmetric.algorithms.aml.objective import evaluate
from advmetric.algorithms.aml.solvers import geodesic, starting_point
from advmetric.algorithms.aml.spectral import contracted, identity
from advmetric.learners.moments import Moments
from advmetric.linalg.spd import Geodesic
from advmetric.pairs.scatter import all_pairs_scatter

pytestmark = pytest.mark.numerical

few = settings(deadline=None, max_examples=35, derandomize=True)

parameters = st.fixed_dictionaries(
    {
        "alpha": st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e3]),
        "beta": st.sampled_from([1e-4, 1e-2, 1.0, 10.0, 1e3]),
        "t": st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0]),
        "adversary": st.sampled_from(["derived", "printed", "expanding"]),
    }
)


@st.composite
def labelled_points(draw, scale=30):
    """Points and classes: with duplicates, constant and collinear features, fewer points than features, any scale.

    At t ≠ 1/2 the metric is in units of X to the power -2 … 2, and its square must be a float: hence 10^±30.
    """
    n, d = draw(st.integers(3, 25)), draw(st.integers(1, 7))
    values = st.floats(-8, 8, width=32, allow_subnormal=False).map(lambda x: x if abs(x) > 1e-6 else 0.0)
    X = draw(hnp.arrays(np.float64, (n, d), elements=values))
    flaw = draw(st.sampled_from(["none", "constant", "zero", "collinear", "duplicates", "offset"]))
    if flaw == "constant":
        X[:, -1] = 3.7
    elif flaw == "zero":
        X[:, 0] = 0.0
    elif flaw == "collinear":
        X = X[:, :1] * np.arange(1.0, d + 1)
    elif flaw == "duplicates":
        X[:] = X[0]
    elif flaw == "offset":
        X += 1e4
    X *= 10.0 ** draw(st.integers(-scale, scale))
    y = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 2)))
    y[:3] = [0, 0, 1]
    return X, y


@st.composite
def labelled_pairs(draw):
    """Pairs of generic points, enough of both kinds for one optimum (see test_solvers on several minima)."""
    d = draw(st.integers(1, 5))
    n = 10 * d + draw(st.integers(4, 30))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    y = np.where(np.arange(n) % draw(st.integers(2, 3)), -1, 1)
    return rng.standard_normal((n, 2, d)) * rng.uniform(0.3, 3.0, d), y


def fitted(learner, *data):
    """Fit; a solver that says it has not converged is honest, and not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learner.fit(*data)


def assert_metric(learner):
    """Finite, symmetric and positive definite."""
    M = learner.get_mahalanobis_matrix()
    assert np.isfinite(learner.components_).all()
    assert np.isfinite(M).all()
    assert np.array_equal(M, M.T)
    singular = np.linalg.svd(learner.components_, compute_uv=False)
    assert singular.min() > 0
    assert np.linalg.eigvalsh(M).min() > 0


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


# --- what comes back is a metric ------------------------------------------------------------------------


@few
@given(data=labelled_points(), setting=parameters)
def test_any_points_give_a_metric(data, setting):
    X, y = data
    assert_metric(fitted(AML(**setting), X, y))


@few
@given(data=labelled_points(scale=10), setting=parameters)
def test_any_points_in_single_precision_give_a_metric(data, setting):
    X, y = data
    assert_metric(fitted(AML(**setting), X.astype(np.float32), y))


@few
@given(data=labelled_points(), setting=parameters, solver=st.sampled_from(["projected-gradient", "alternating"]))
def test_the_papers_solvers_give_a_metric_for_any_points(data, setting, solver):
    X, y = data
    assert_metric(fitted(AML(**setting, solver=solver, max_iter=20), X, y))


@few
@given(data=labelled_points(scale=100), alpha=st.sampled_from([0.0, 1.0, 1e3]), beta=st.sampled_from([1e-4, 1.0, 1e3]))
def test_the_papers_model_converges_on_any_points(data, alpha, beta):
    """At t = 1/2, on scales from 10^-100 to 10^100. A ConvergenceWarning would be an error here."""
    X, y = data
    learner = AML(alpha=alpha, beta=beta).fit(X, y)
    assert learner.converged_
    assert np.all(np.diff(learner.objective_) < 0)


@few
@given(data=labelled_points(scale=200), setting=parameters)
def test_points_on_an_absurd_scale_give_a_metric_or_are_refused(data, setting):
    X, y = data
    try:
        learner = fitted(AML(**setting), X, y)
    except ValueError as error:
        if "StandardScaler" not in str(error):
            raise
    else:
        assert_metric(learner)


# --- invariances ----------------------------------------------------------------------------------------


@few
@given(data=labelled_pairs(), setting=parameters, seed=st.integers(0, 10**6))
def test_the_order_of_pairs_and_of_the_points_in_a_pair_does_not_matter(data, setting, seed):
    pairs, y = data
    rng = np.random.default_rng(seed)
    order, swapped = rng.permutation(len(y)), rng.random(len(y)) < 0.5
    shuffled = np.where(swapped[:, None, None], pairs[:, ::-1], pairs)[order]
    one, other = (fitted(AML(**setting, tol=1e-9), P, labels) for P, labels in ((pairs, y), (shuffled, y[order])))
    assert relative(other.get_mahalanobis_matrix(), one.get_mahalanobis_matrix()) < 1e-6
    assert other.threshold_ == pytest.approx(one.threshold_, rel=1e-6)


@few
@given(data=labelled_pairs(), setting=parameters, seed=st.integers(0, 10**6))
def test_the_order_of_points_and_the_names_of_classes_do_not_matter(data, setting, seed):
    points = data[0].reshape(len(data[1]) * 2, -1)
    y = np.arange(len(points)) % 3
    order = np.random.default_rng(seed).permutation(len(points))
    one = fitted(AML(**setting, tol=1e-9), points, y)
    other = fitted(AML(**setting, tol=1e-9), points[order], np.array(["c", "a", "b"])[y[order]])
    assert relative(other.get_mahalanobis_matrix(), one.get_mahalanobis_matrix()) < 1e-6


@few
@given(data=labelled_pairs(), setting=parameters, seed=st.integers(0, 10**6))
def test_rotating_the_data_rotates_the_metric(data, setting, seed):
    """With the identity as prior: M becomes R M Rᵀ for points Rx; distances stay as they are."""
    pairs, y = data
    d = pairs.shape[2]
    R, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    one, other = (fitted(AML(**setting, tol=1e-9), P, y) for P in (pairs, pairs @ R.T))
    assert relative(other.get_mahalanobis_matrix(), R @ one.get_mahalanobis_matrix() @ R.T) < 1e-6
    assert np.allclose(other.pair_distance(pairs @ R.T), one.pair_distance(pairs), rtol=1e-6)


@few
@given(data=labelled_pairs(), setting=parameters, seed=st.integers(0, 10**6))
def test_moving_all_points_together_does_not_change_the_metric(data, setting, seed):
    pairs, y = data
    shift = 100.0 * np.random.default_rng(seed).standard_normal(pairs.shape[2])
    one, other = (fitted(AML(**setting, tol=1e-9), P, y) for P in (pairs, pairs + shift))
    assert relative(other.get_mahalanobis_matrix(), one.get_mahalanobis_matrix()) < 1e-6


# --- scaling --------------------------------------------------------------------------------------------

scales = st.sampled_from([1e-3, 0.1, 0.5, 2.0, 7.0, 1e3])


@few
@given(data=labelled_pairs(), setting=parameters, scale=st.sampled_from([1e-60, 1e-3, 0.1, 7.0, 1e3, 1e60]))
def test_at_t_one_half_the_unit_of_the_features_does_not_matter(data, setting, scale):
    """Both terms of D are multiplied by s²."""
    pairs, y = data
    setting["t"] = 0.5
    one, other = (fitted(AML(**setting, tol=1e-9), P, y) for P in (pairs, scale * pairs))
    assert relative(other.get_mahalanobis_matrix(), one.get_mahalanobis_matrix()) < 1e-6


@few
@given(data=labelled_pairs(), t=st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]), scale=scales)
def test_at_other_t_the_metric_without_an_adversary_is_multiplied_by_a_power_of_the_scale(data, t, scale):
    pairs, y = data
    one, other = (AML(alpha=0.0, t=t, tol=1e-9).fit(P, y) for P in (pairs, scale * pairs))
    expected = scale ** (4 * t - 2) * one.get_mahalanobis_matrix()
    assert relative(other.get_mahalanobis_matrix(), expected) < 1e-6


class OtherPriceForSimilarPairs(DerivedAdversary):
    """The derived adversary with another beta in f_S than in κ."""

    def __init__(self, alpha, beta, beta_similar):
        super().__init__(alpha, beta)
        self.similar = identity() + alpha * contracted(beta_similar)


@few
@given(
    data=labelled_pairs(),
    t=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 1.0]),
    scale=scales,
    alpha=st.sampled_from([0.1, 1.0, 30.0]),
    beta=st.sampled_from([1e-2, 1.0, 1e2]),
)
def test_at_other_t_beta_acts_as_if_multiplied_by_a_power_of_the_scale(data, t, scale, alpha, beta):
    """The law in AML's docstring: M(sX, β) = s^(4t-2) M(X, β s^(8t-4) in f_S, β in κ)."""
    points = data[0].reshape(len(data[1]) * 2, -1)
    y = np.arange(len(points)) % 2
    scaled = AML(alpha=alpha, beta=beta, t=t, tol=1e-10).fit(scale * points, y)

    moments = Moments.regularised(all_pairs_scatter(points, y))
    opponent = OtherPriceForSimilarPairs(alpha, beta, beta * scale ** (8 * t - 4))
    start = evaluate(Geodesic.between(moments.A, moments.B).at(t), *moments.weighted(t), opponent)
    expected = scale ** (4 * t - 2) * geodesic(starting_point(start, opponent), tol=1e-10).x.matrix
    assert relative(scaled.get_mahalanobis_matrix(), expected) < 1e-6


@few
@given(
    data=labelled_pairs(),
    t=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 1.0]),
    scale=st.sampled_from([0.1, 0.5, 2.0, 7.0]),
)
def test_the_bound_of_the_expanding_adversary_scales_with_the_metric(data, t, scale):
    """M(sX, β) = c M(X, β/c), c = s^(4t-2): here beta is in the units of the metric."""
    pairs, y = data
    c = scale ** (4 * t - 2)
    one = fitted(AML(adversary="expanding", beta=3.0 / c, t=t, tol=1e-10), pairs, y)
    other = fitted(AML(adversary="expanding", beta=3.0, t=t, tol=1e-10), scale * pairs, y)
    assert relative(other.get_mahalanobis_matrix(), c * one.get_mahalanobis_matrix()) < 1e-5
