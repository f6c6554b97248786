"""Run tasks on several processes, whatever happens: resumable, shared between runners, failures recorded."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from advmetric.utils.optional import require

from .store import Record, Store, Task

__all__ = ["Display", "Silent", "run_tasks"]

Work = Callable[[Task], dict[str, Any]]
_PAUSE = 0.5
"""Seconds between looks at what another runner is doing."""


class Display(Protocol):
    """What shows the user how far the work is."""

    def update(self, done: int, total: int, running: Iterable[Task], seconds_left: float | None) -> None: ...

    def failed(self, record: Record) -> None: ...


class Silent:
    """Shows nothing."""

    def update(self, done: int, total: int, running: Iterable[Task], seconds_left: float | None) -> None: ...

    def failed(self, record: Record) -> None: ...


def run_tasks(
    tasks: Iterable[Task],
    work: Work,
    store: Store,
    *,
    jobs: int = 1,
    retry_failed: bool = False,
    display: Display | None = None,
    dask: str | None = None,
) -> int:
    """Run what is not yet in the store; return the number of runs made here (or on the cluster at ``dask``).

    A run that raises is recorded with its error. Each worker has one BLAS thread, also when jobs=1, so that the
    results do not depend on ``jobs``. Runs that another runner has claimed are waited for.
    """
    wanted = list(tasks)
    state = _Progress(wanted, store, display or Silent(), retry_failed)
    if dask is not None:
        _run_on_dask(state, work, dask, retry_failed)
    elif jobs == 1:
        _run_here(state, work, retry_failed)
    else:
        _run_in_processes(state, work, jobs, retry_failed)
    return state.made


@dataclass
class _Progress:
    """What is left, what runs, and how long the rest may take."""

    wanted: list[Task]
    store: Store
    display: Display
    retry_failed: bool
    made: int = 0
    elsewhere: deque[Task] = field(default_factory=deque)
    left: deque[Task] = field(init=False)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.left = deque(self.store.remaining(self.wanted, retry_failed=self.retry_failed))

    def show(self, running: Iterable[Task]) -> None:
        waiting = list(running)
        unfinished = len(self.left) + len(self.elsewhere) + len(waiting)
        rate = self.made / (time.monotonic() - self.started + 1e-9)
        self.display.update(
            len(self.wanted) - unfinished, len(self.wanted), waiting, unfinished / rate if self.made else None
        )

    def finished(self, task: Task, record: Record | None) -> None:
        """Take note of a run; None: another runner has it."""
        if record is None:
            self.elsewhere.append(task)
            return
        self.made += 1
        if record.failure:
            self.display.failed(record)

    def reclaim(self) -> bool:
        """Look again at what others had claimed; False when nothing is left anywhere."""
        if not self.elsewhere:
            return False
        time.sleep(_PAUSE)
        self.left.extend(self.store.remaining(self.elsewhere))
        self.elsewhere.clear()
        return bool(self.left)


def _run_here(state: _Progress, work: Work, retry_failed: bool) -> None:
    while state.left or state.reclaim():
        task = state.left.popleft()
        state.show([task])
        state.finished(task, _perform(task, work, state.store, retry_failed))
    state.show([])


def _run_in_processes(state: _Progress, work: Work, jobs: int, retry_failed: bool) -> None:
    running: dict[Future[Record | None], Task] = {}
    pool = _pool(jobs)
    try:
        while state.left or running or state.reclaim():
            while state.left and len(running) < jobs:
                task = state.left.popleft()
                with _interrupts_held():
                    running[pool.submit(_perform, task, work, state.store, retry_failed)] = task
            state.show(running.values())
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            broken = False
            for future in done:
                task = running.pop(future)
                try:
                    state.finished(task, future.result())
                except BrokenProcessPool:
                    broken = True
                    running[future] = task
            if broken:
                # A worker was killed (out of memory?), and with it the pool. Who was at fault is not known:
                # what was under way runs again, each in a pool of its own.
                suspects = list(running.values())
                running.clear()
                pool.shutdown(wait=False, cancel_futures=True)
                for task in suspects:
                    state.finished(task, _perform_alone(task, work, state.store, retry_failed))
                pool = _pool(jobs)
        state.show([])
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _run_on_dask(state: _Progress, work: Work, address: str, retry_failed: bool) -> None:
    """Let the workers of a cluster run and record; the folder of results must be theirs too."""
    store = Store(state.store.folder.resolve())
    running: dict[Future[Record | None], Task] = {}
    with require("distributed").Client(address) as client, client.get_executor(pure=False) as pool:
        _check_workers(client, store)
        while state.left or running or state.reclaim():
            while state.left and len(running) < max(1, len(client.nthreads())):  # workers may come and go
                task = state.left.popleft()
                running[pool.submit(_perform, task, work, store, retry_failed)] = task
            state.show(running.values())
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                task = running.pop(future)
                try:
                    record = future.result()
                except require("distributed").KilledWorker:  # several times: Dask runs what was lost again
                    record = Record(task, failure="the worker was killed (out of memory?)")
                    store.append(record)
                state.finished(task, record)
        state.show([])


def _check_workers(client: Any, store: Store) -> None:
    """Raise unless every worker runs one task at a time (claims belong to processes) and sees the folder."""
    if not client.nthreads() or max(client.nthreads().values()) > 1:
        raise ValueError("the cluster needs workers of one thread: dask worker ADDRESS --nworkers N --nthreads 1")
    store.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=store.folder) as file:
        blind = [worker for worker, sees in client.run(os.path.exists, file.name).items() if not sees]
    if blind:
        raise ValueError(f"the folder {store.folder} must be shared: {blind[0]} does not see what is written there.")


def _pool(jobs: int) -> ProcessPoolExecutor:
    # "spawn": no inherited locks or threads, and the same behaviour on every system.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_die_with, initargs=(os.getpid(),))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while a worker is started: it inherits this, and imports without a traceback when one comes."""
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _perform_alone(task: Task, work: Work, store: Store, retry_failed: bool) -> Record | None:
    with _pool(1) as pool:
        try:
            with _interrupts_held():
                future = pool.submit(_perform, task, work, store, retry_failed)
            return future.result()
        except BrokenProcessPool:
            record = Record(task, failure="the process was killed (out of memory?)")
            store.append(record)
            return record


def _die_with(parent: int) -> None:
    """End this worker when its runner is gone: a killed runner cannot tell."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    # Ctrl-C goes to the runner too, which tells the user: a worker ends without a word (what it wrote is complete).
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _perform(task: Task, work: Work, store: Store, retry_failed: bool = False) -> Record | None:
    """Run one task and record it; None if another runner has it."""
    with store.claim(task) as mine:
        if not mine:
            return None
        known = store.records().get(task)
        if known is not None and not (retry_failed and known.failure):
            return known
        started = time.perf_counter()
        failure, result = "", {}
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                result = work(task)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                failure = f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
        record = Record(task, result, failure, time.perf_counter() - started)
        store.append(record)
        return record
