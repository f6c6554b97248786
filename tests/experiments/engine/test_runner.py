"""The runner: failures are recorded, killed workers replaced, runners share a folder, jobs do not matter."""

import os
import signal
import sys
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

from advmetric.experiments.engine.runner import run_tasks
from advmetric.experiments.engine.store import Store, Task
from reference.processes import quick_start
from reference.waiting import wait_until

TASKS = [Task("any", "data", method, trial) for trial in range(3) for method in ("good", "bad", "threads")]


def work(task):
    if task.method == "bad":
        raise ValueError(f"trial {task.trial} is bad")
    if task.method == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task.method == "shared":  # with a second runner: one has two processes
        folder = Path(task.dataset)
        (folder / str(os.getpid())).touch()
        wait_until(lambda: len(list(folder.iterdir())) > 2)
    if task.method == "threads":
        X = np.ones((50, 50))
        return {"threads": max(pool["num_threads"] for pool in threadpool_info()), "sum": float((X @ X).sum())}
    warnings.warn("so slow", ConvergenceWarning, stacklevel=1)
    return {"error": float(np.random.default_rng(task.trial).random())}


@pytest.fixture
def quick_pools(monkeypatch):
    """Pools whose processes start at once (but do not end with their runner)."""
    runner = sys.modules[run_tasks.__module__]
    monkeypatch.setattr(runner, "_pool", lambda jobs: ProcessPoolExecutor(jobs, mp_context=quick_start()))


class Watched:
    def __init__(self):
        self.updates, self.failures = [], []

    def update(self, done, total, running, seconds_left):
        self.updates.append((done, total, list(running), seconds_left))

    def failed(self, record):
        self.failures.append(record)


@pytest.mark.parametrize("jobs", [1, 2])
def test_all_runs_are_made_and_failures_recorded_with_their_place(tmp_path, jobs, quick_pools):
    store, display = Store(tmp_path), Watched()
    assert run_tasks(TASKS, work, store, jobs=jobs, display=display) == len(TASKS)
    found = store.records()
    assert set(found) == set(TASKS)
    assert [t.method for t, record in found.items() if record.failure] == ["bad"] * 3
    failure = found[Task("any", "data", "bad", 2)].failure
    assert failure.startswith("ValueError: trial 2 is bad (test_runner.py:")
    assert len(display.failures) == 3
    assert display.updates[-1][:3] == (9, 9, [])
    assert all(0 < len(running) <= jobs for _, _, running, _ in display.updates[:-1])
    assert [found[t].result["threads"] for t in found if t.method == "threads"] == [1, 1, 1]


def test_results_do_not_depend_on_the_number_of_jobs(tmp_path, quick_pools):
    results = []
    for jobs in (1, 3):
        store = Store(tmp_path / str(jobs))
        run_tasks(TASKS, work, store, jobs=jobs)
        results.append({task: (record.result, record.failure) for task, record in store.records().items()})
    assert results[0] == results[1]


def test_finished_runs_are_not_made_again_and_failed_ones_only_on_request(tmp_path):
    store = Store(tmp_path)
    run_tasks(TASKS[:4], work, store)
    assert run_tasks(TASKS, work, store) == 5
    assert run_tasks(TASKS, work, store) == 0
    assert run_tasks(TASKS, work, store, retry_failed=True) == 3


def test_a_worker_that_is_killed_is_recorded_and_the_rest_goes_on(tmp_path, quick_pools):
    tasks = [Task("any", "data", "killed", 0), *TASKS]
    store = Store(tmp_path)
    run_tasks(tasks, work, store, jobs=2)
    found = store.records()
    assert set(found) == set(tasks)
    assert "killed" in found[tasks[0]].failure
    assert not found[Task("any", "data", "good", 2)].failure


def test_two_runners_on_one_folder_share_the_work(tmp_path, quick_pools):
    (tmp_path / "at work").mkdir()
    tasks = [Task("any", str(tmp_path / "at work"), "shared", trial) for trial in range(6)]
    made = []
    runners = [
        threading.Thread(target=lambda: made.append(run_tasks(tasks, work, Store(tmp_path), jobs=2))) for _ in range(2)
    ]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    assert set(Store(tmp_path).records()) == set(tasks)
    # Every run was made once: as many lines as tasks.
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == len(tasks)
    assert len(made) == 2
    assert min(made) > 0
