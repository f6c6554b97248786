"""The benchmarks run, measure what they say, and their own plain code is right (tiny sizes, no timing asserted)."""

import importlib
import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine

from advmetric.algorithms.aml.adversary import make_adversary
from advmetric.algorithms.aml.objective import evaluate

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    """Import a module of benchmarks/ as its scripts do: by its bare name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("script", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_every_script_can_be_imported(bench, monkeypatch, script):
    monkeypatch.syspath_prepend(str(script.parent))
    bench(script.stem)


def test_interleaved_reports_the_least_time_of_one_call(bench, monkeypatch):
    harness, now, calls = bench("harness"), [0.0], []

    def lasting(name, *seconds):
        turns = itertools.cycle(seconds)

        def function():
            calls.append(name)
            now[0] += next(turns)

        return function

    monkeypatch.setattr(harness, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    functions = {"short": lasting("short", 0.0003, 0.0004), "long": lasting("long", 0.2, 0.25, 0.21)}
    found = harness.interleaved(functions, repeats=2)
    assert found == pytest.approx({"short": 0.0003, "long": 0.21}), "the first call of each is not timed"
    assert calls.count("long") == 3
    assert calls.count("short") > 250, "short calls are repeated inside a round"


def test_count_calls_counts_and_puts_the_function_back(bench):
    original = np.linalg.eigh
    with bench("harness").count_calls(np.linalg, "eigh") as calls:
        np.linalg.eigh(np.eye(2))
        np.linalg.eigh(np.eye(3))
    assert calls == [2]
    assert np.linalg.eigh is original


def test_a_row_knows_whether_its_target_is_met(bench):
    harness = bench("harness")
    assert harness.Row("a", 5.0, at_most=5).met is True
    assert harness.Row("a", 5.1, at_most=5).met is False
    assert harness.Row("a", 999.0, at_least=1000).met is False
    assert harness.Row("a", 1000.0, at_least=1000).met is True
    assert harness.Row("a", 1.0).met is None
    assert "MISS" in harness.format_row(harness.Row("a", 5.1, at_most=5))


def test_a_number_that_could_not_be_measured_meets_no_target(bench):
    harness = bench("harness")
    assert harness.Row("a", float("nan"), at_most=1).met is False
    assert "nan" in harness.format_row(harness.Row("a", float("nan"), at_most=1))


def test_the_machine_is_described(bench):
    facts = bench("harness").machine_facts()
    assert {"CPU", "cores", "RAM", "Python", "numpy", "scipy", "scikit-learn", "BLAS", "commit"} <= set(facts)
    assert all(facts.values())


@pytest.mark.parametrize("adversary", ["derived", "printed"])
def test_algorithm_1_as_printed_has_the_exact_gradient_where_eigenvalues_differ(bench, adversary):
    algorithm1 = bench("bench_algorithm1")
    pairs = algorithm1.credit_pairs(60)
    problem = algorithm1.Problem.of(pairs, alpha=2.0, beta=0.7, adversary=adversary)
    A, B = problem.scatter(1), problem.scatter(-1)
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal(A.shape))
    M = (Q * np.linspace(0.5, 2.0, len(A))) @ Q.T
    exact = evaluate(M, A, B, make_adversary(adversary, 2.0, 0.7)).gradient
    np.testing.assert_allclose(algorithm1.printed_gradient(problem, M, A, B), exact, rtol=0, atol=1e-9)


def test_algorithm_1_decreases_the_objective_on_averaged_pairs(bench):
    algorithm1 = bench("bench_algorithm1")
    problem = algorithm1.Problem.of(algorithm1.credit_pairs(60), 1.0, 1.0, "derived")
    A, B = problem.scatter(1), problem.scatter(-1)
    opponent = make_adversary("derived", 1.0, 1.0)
    M, count = algorithm1.algorithm_1(problem, 20)
    assert count == 20
    assert evaluate(M, A, B, opponent).value < evaluate(np.eye(len(A)), A, B, opponent).value
    goal = evaluate(M, A, B, opponent).value
    _, count = algorithm1.algorithm_1(problem, 40, lambda M: evaluate(M, A, B, opponent).value <= goal)
    assert count == 20


def test_decompositions_of_a_fit_are_counted(bench):
    def fit():
        np.linalg.eigh(np.eye(2))
        np.linalg.svd(np.eye(2))
        np.linalg.eigh(np.eye(3))

    assert bench("bench_fit").decompositions(fit) == "2 eigh + 1 svd"


def test_stacked_differences_give_the_same_scatter(bench):
    scatter = bench("bench_scatter")
    X, y = load_wine(return_X_y=True)
    pairs = scatter.BalancedPairs(500).sample(X, y, random_state=0)
    assert scatter.relative_gap(scatter.stacked_scatter(pairs), scatter.pairs_scatter(pairs)) < 1e-10


def test_the_search_and_the_grid_search_score_the_same_candidates_alike(bench):
    search = bench("bench_search")
    X, y = search.vehicle()
    functions = search.contestants(X[:200], y[:200], grid=(0.1, 10.0))
    np.testing.assert_allclose(search._by_params(functions["AMLCV"]()), search._by_params(functions["GridSearchCV"]()))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel's record of the peak is Linux's")
def test_memory_is_charged_for_what_the_task_allocates(bench, monkeypatch):
    memory = bench("bench_memory")
    hog = 200_000_000

    def greedy(pairs):
        np.ones(hog // 8).sum()

    monkeypatch.setattr(memory, "pairs_scatter", greedy)
    peak, _ = memory.measure("scatter", 2000, 3000, 4)
    assert 0.9 * hog < peak < 1.5 * hog


def test_accuracy_compares_the_methods_on_the_same_splits(bench):
    accuracy = bench("accuracy")
    X, y = load_wine(return_X_y=True)
    setting = accuracy.Setting(grid={"alphas": (0, 1), "betas": 1, "ts": 0.5, "cv": 2}, tuned_bar=0.0)
    errors, chosen = accuracy.split_errors(X, y, setting, n_splits=2)
    assert list(errors) == ["Euclidean", "GMML", "AML", "AMLCV"]
    assert all(len(values) == 2 and (values < 0.2).all() for values in errors.values())
    assert sum(chosen.values()) == 2
    printed = list(accuracy.lines("wine", errors, chosen, setting))
    assert len(printed) == 4
    assert "chosen: t=0.5" in printed[3]


def test_every_bundled_set_of_the_issue_has_its_bar(bench):
    settings = bench("accuracy").SETTINGS
    assert {name: s.tuned_bar for name, s in settings.items() if s.tuned_bar} == {
        "vehicle": 0.215,
        "image-segment": 0.036,
        "letters": 0.045,
        "isolet": 0.055,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scatter", "solver"])
def test_one_command_prints_a_table_with_the_machines_facts(bench, capsys, name):
    assert bench("run").main(["--fast", "--only", name]) == 0
    printed = capsys.readouterr().out
    assert "CPU:" in printed
    assert "commit:" in printed
    assert name in printed.split("benchmark", 1)[1]


@pytest.mark.slow
def test_the_benchmark_of_searches_prints_its_ratios(bench, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER / "scale"))
    sizes = ["--points", "3000", "--queries", "100", "--brute-queries", "50", "--classes", "5", "--threads", "1"]
    assert bench("search").main(sizes) == 0
    printed = capsys.readouterr().out
    assert "brute force / kind='exact'" in printed
    assert "recall 1.0000" in printed
    assert "classified in a second" in printed


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel's record of the peak is Linux's")
def test_the_streaming_benchmark_prints_its_ratio_and_its_peak(bench, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER / "scale"))
    assert bench("streaming").main(["--rows", "3000", "--batch", "500", "--repeats", "1"]) == 0
    printed = capsys.readouterr().out
    assert "AML().fit_batches / streamed" in printed
    assert "peak of the stream" in printed


@pytest.mark.slow
def test_every_benchmark_runs(bench, capsys):
    assert bench("run").main(["--fast"]) == 0
    assert "AML / GMML" in capsys.readouterr().out


def test_the_slopes_of_growth_are_those_of_the_largest_sizes(bench, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER / "scale"))
    growth = bench("growth")
    sizes = [1, 10, 100, 1000, 10_000]
    assert growth.slope(sizes, [1.0, 1.0, *(5e-4 * size**2 for size in sizes[2:])]) == pytest.approx(2.0)
    assert np.isnan(growth.slope([10], [1.0]))
    points = {10: {"failed": "too large"}, 100: {"seconds": 1.0, "bytes": 1e6, "bound": 0.5}}
    lines = list(growth.table("solve", (10, 100), lambda name, size: points[size]))
    assert "too large" in lines[2]
    assert "2.00" in lines[3]
    assert "expected 3" in lines[4]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel's record of the peak is Linux's")
@pytest.mark.parametrize("table", ["n", "stream", "N", "scatter", "solve"])
def test_every_point_of_growth_is_measured_beside_its_bound(bench, monkeypatch, table):
    monkeypatch.syspath_prepend(str(FOLDER / "scale"))
    found = bench("growth").measure(table, 10 if table in ("scatter", "solve") else 2500, 1)
    assert min(found["seconds"], found["bound"]) > 0.0
    assert found["bytes"] >= 0.0
    assert ("with graph" in found) == (table == "N")


@pytest.mark.slow
def test_the_benchmark_of_discriminative_losses_prints_its_ratios(bench, capsys):
    assert bench("discriminative").main(["--fast", "--only", "pairs"]) == 0
    printed = capsys.readouterr().out
    assert "PairAML / GMML" in printed
    assert "memory above the data" in printed
