"""What the tests of the contract share: the learners, and data for each kind of supervision."""

import copy
import gc
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import advmetric
from advmetric import AML, AMLCV, DRML, GMML, ITML, LMNN, FlatGeo, NeighborPairs
from reference.browser import find_chromium, open_chromium
from reference.vehicle import Labelled, labelled_vehicle

SMALL_GRID: dict[str, Any] = {"alphas": (0.0, 1.0), "betas": (1.0,), "ts": (0.25, 0.5), "cv": 2}


def small(estimator: type) -> Any:
    """An estimator that draws few pairs and takes few random steps, the same ones each time."""
    learner = estimator()
    known = learner.get_params()
    settings = {"random_state": 0} if "random_state" in known else {}
    settings |= {"pairs": 500} if known.get("pairs") == "random" else {}
    settings |= {"tol": 0.03} if estimator is LMNN else {}
    return learner.set_params(**settings | ({"n_steps": 30} if "n_steps" in known else {}))


LEARNERS = {method.name: small(method.estimator) for method in advmetric.methods()} | {"AMLCV": AMLCV(**SMALL_GRID)}
"""Every learner: what is in ``advmetric.methods()`` is held to the contract."""

FURTHER_SETTINGS = [
    AML(solver="alternating"),
    AML(n_components=1),
    AML(pairs=200, random_state=0),
    ITML(solver="projections", gamma=0.01, pairs=200, random_state=0),
    AML(solver="projected-gradient"),
    AML(adversary="printed"),
    AML(adversary="expanding"),
    AML(t=0.1, alpha=10.0, average=False),
    AML(pairs=NeighborPairs(2, 2)),
    GMML(n_components=1, t=0.1),
    LMNN(n_components=1, n_neighbors=1, tol=5e-2),
    FlatGeo(n_components=1, pairs=200, random_state=0),
    DRML(n_components=1, pairs=200, random_state=0),
    AMLCV(alphas=1.0, betas=1.0, ts=0.5, cv=2, n_components=(None, 1), scoring="balanced_accuracy"),
]
"""Settings that scikit-learn's checks see beside the defaults, in ``make test-slow``; other tests run their code."""


SHARED = {
    "tests/learners/test_dask.py": "cluster",
    "tests/algorithms/discriminative/test_distributed.py": "cluster",
    "tests/experiments/report/test_page.py": "browser and fork server",
    "tests/explorer/test_page.py": "browser and fork server",
    "tests/experiments/engine/test_runner.py": "browser and fork server",
    "tests/experiments/engine/test_store.py": "browser and fork server",
    "tests/features/test_cache.py": "browser and fork server",
}
"""Files that share something slow to start, by what it is."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of a file in one process, for the fixtures that they share; those of the contract anywhere.

    xdist_group and --dist loadgroup would do, but have no effect with pytest 9.2 (pytest-dev/pytest-xdist#1386).
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFixtures(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            spread = path.startswith("tests/contract/") and path != "tests/contract/test_joblib.py"
            return nodeid if spread else SHARED.get(path, path)

    return ByFixtures(config, log)


gc.disable()  # until all tests are collected: what imports make stays


def pytest_collection_finish() -> None:
    """Look for garbage among what tests make only, not among the modules and the thousands of collected tests."""
    gc.freeze()
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"estimator", "check"} <= set(metafunc.fixturenames):
        mark = parametrize_with_checks([*LEARNERS.values(), *FURTHER_SETTINGS]).mark
        names, cases = mark.args
        # scikit-learn skips this one unless SCIPY_ARRAY_API is set before SciPy is imported: see the test that does so.
        cases = [
            pytest.param(*case, marks=pytest.mark.slow if any(case[0] is slow for slow in FURTHER_SETTINGS) else ())
            for case in cases
            if case[1].func.__name__ != "check_array_api_input"
        ]
        metafunc.parametrize(names, cases, **mark.kwargs)


@pytest.fixture(scope="session")
def learners() -> dict[str, Any]:
    """All learners by name."""
    return LEARNERS


@pytest.fixture(params=LEARNERS)
def learner(request: pytest.FixtureRequest) -> Any:
    """Each learner in turn, unfitted."""
    return clone(LEARNERS[request.param])


def _those_that_learn_from(kind: str) -> list[str]:
    return [name for name, estimator in LEARNERS.items() if kind in estimator.supervision]


@pytest.fixture(params=_those_that_learn_from("pairs"))
def pair_learner(request: pytest.FixtureRequest) -> Any:
    """Each learner that takes pairs in turn, unfitted."""
    return clone(LEARNERS[request.param])


@pytest.fixture(params=_those_that_learn_from("points"))
def point_learner(request: pytest.FixtureRequest) -> Any:
    """Each learner that takes points with labels in turn, unfitted."""
    return clone(LEARNERS[request.param])


@pytest.fixture(scope="session")
def fitted(vehicle: Labelled) -> Callable[[str, str], Any]:
    """Fit a learner to the points or pairs of ``vehicle``, once; give back a copy."""

    @cache
    def fit(name: str, kind: str) -> Any:
        given = (vehicle.X, vehicle.y) if kind == "points" else (vehicle.formed, vehicle.kinds)
        return clone(LEARNERS[name]).fit(*given)

    return lambda name, kind: copy.deepcopy(fit(name, kind))


@pytest.fixture(params=_those_that_learn_from("pairs"))
def fitted_on_pairs(request: pytest.FixtureRequest, fitted: Callable[[str, str], Any]) -> Any:
    """Each learner that takes pairs in turn, fitted to those of ``vehicle``."""
    return fitted(request.param, "pairs")


@pytest.fixture(params=_those_that_learn_from("points"))
def fitted_on_points(request: pytest.FixtureRequest, fitted: Callable[[str, str], Any]) -> Any:
    """Each learner that takes points in turn, fitted to those of ``vehicle``."""
    return fitted(request.param, "points")


@pytest.fixture(scope="session")
def vehicle() -> Labelled:
    """Vehicle, standardised, with 400 index pairs: half of them similar."""
    return labelled_vehicle()


@pytest.fixture
def cli(capsys):
    """Run a command in this process; return its exit code, stdout and stderr."""

    def run(*arguments):
        from advmetric.cli import main

        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def chromium():
    """A real browser, for all tests of pages; skips where there is none."""
    found = find_chromium()
    if found is None:
        pytest.skip("chromium and chromedriver are not installed")
    driver = open_chromium(*found)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    """A cluster of two processes, started once; slowly where the machine has other work."""
    import dask
    import distributed

    folder = str(tmp_path_factory.mktemp("dask"))
    patient = {"distributed.comm.timeouts.connect": "120s", "distributed.comm.timeouts.tcp": "120s"}
    # The cluster lives until the last test: what it does while idle (a profile every 10 ms) takes minutes in all.
    idle = {
        "distributed.worker.profile.enabled": False,
        "distributed.worker.memory.monitor-interval": "2s",
        "distributed.admin.tick.interval": "1s",
        "distributed.admin.system-monitor.interval": "10s",
    }
    workers = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "local_directory": folder}
    with (
        dask.config.set(patient | idle),
        # Any port: None is 8787, which the next cluster on this machine has taken.
        distributed.LocalCluster(**workers, dashboard_address="127.0.0.1:0", silence_logs=60) as cluster,
        distributed.Client(cluster, timeout=120) as client,
    ):
        yield client
