"""Processes that start at once: a server imports the library first, and forks them.

To import it takes two seconds of processor time, and the tests start dozens of processes.
"""

import multiprocessing

import advmetric.cli
from advmetric.experiments.engine.runner import run_tasks
from advmetric.experiments.reproduce import reproduce


def quick_start():
    """A context of ``multiprocessing`` like "spawn", but with the library imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([advmetric.cli.__name__, reproduce.__module__, run_tasks.__module__])
    return context
