"""Threads of BLAS while learning."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from advmetric import AML, AMLCV
from advmetric.algorithms.aml import estimator
from advmetric.utils.threads import blas_threads


def threads_of_blas():
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


@pytest.mark.parametrize(
    ("n", "d", "expected"), [(3000, 150, 1), (0, 20, 1), (20, 20_000, 1), (2000, 784, 2), (0, 2000, 2)]
)
def test_small_products_have_one_thread_and_large_ones_as_many_as_before(n, d, expected):
    with threadpool_limits(2, user_api="blas"):
        with blas_threads(n, d):
            assert threads_of_blas() == expected
        assert threads_of_blas() == 2


@pytest.mark.parametrize("learner", [AML(), AMLCV(losses=["geometric"], cv=2, n_jobs=1)])
def test_learners_learn_small_data_with_one_thread_and_restore_it(learner, monkeypatch):
    rng, seen, solve = np.random.RandomState(0), [], estimator.solve
    monkeypatch.setattr(estimator, "solve", lambda *args, **kw: seen.append(threads_of_blas()) or solve(*args, **kw))
    with threadpool_limits(2, user_api="blas"):
        learner.fit(rng.randn(40, 4), np.arange(40) % 2)
        assert threads_of_blas() == 2
    assert set(seen) == {1}
