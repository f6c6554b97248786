"""What the benchmarks share: timing side by side, one row of the table, and the machine's facts."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

__all__ = ["Row", "count_calls", "format_row", "header", "interleaved", "machine_facts"]


def interleaved(
    functions: Mapping[str, Callable[[], Any]], repeats: int = 5, least_round: float = 0.05
) -> dict[str, float]:
    """Least seconds of one call of each function, over rounds in which they take turns.

    Turns, and the least rather than the mean: what else the machine does in the meantime should count
    as little as possible, and alike. One untimed call of each comes first; a short function is called
    for ``least_round`` seconds a turn, each call timed by itself.
    """
    for function in functions.values():
        function()
    least = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            elapsed = 0.0
            while elapsed < least_round:
                started = time.perf_counter()
                function()
                seconds = time.perf_counter() - started
                least[name], elapsed = min(least[name], seconds), elapsed + seconds
    return least


@contextmanager
def count_calls(module: Any, name: str) -> Iterator[list[int]]:
    """Count the calls of ``module.name`` inside the block: the list's one entry is the number."""
    original, calls = getattr(module, name), [0]

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return original(*args, **kwargs)

    setattr(module, name, counted)
    try:
        yield calls
    finally:
        setattr(module, name, original)


# --- the table ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One measured number beside its target; without a target it is there for information."""

    what: str
    measured: float
    unit: str = "x"
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.at_most is None and self.at_least is None:
            return None
        above = self.at_least is None or self.measured >= self.at_least
        below = self.at_most is None or self.measured <= self.at_most
        return above and below


def options_parser(description: str | None, **defaults: int) -> argparse.ArgumentParser:
    """Return a parser with an option of a whole number for each default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    return parser


def header() -> str:
    """Column titles of the table."""
    titles = f"{'benchmark':<68} {'measured':>11} {'target':>11}       notes"
    return titles + "\n" + " ".join("-" * width for width in (68, 11, 11, 4)) + "  -----"


def format_row(row: Row) -> str:
    """One line of the table."""
    target = ""
    if row.at_most is not None:
        target = f"<= {_number(row.at_most)} {row.unit}"
    elif row.at_least is not None:
        target = f">= {_number(row.at_least)} {row.unit}"
    verdict = {True: "ok", False: "MISS", None: ""}[row.met]
    measured = f"{_number(row.measured)} {row.unit}"
    return f"{row.what:<68} {measured:>11} {target:>11} {verdict:<4}  {row.note}".rstrip()


def _number(value: float) -> str:
    if value >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"


# --- the machine ----------------------------------------------------------------------------------------


def machine_facts() -> dict[str, str]:
    """What a ratio may depend on: processor, memory, versions, BLAS and its threads, commit."""
    blas = [
        f"{pool['internal_api']} {pool.get('version') or '?'} ({Path(pool['filepath']).name.split('-')[0]}), "
        f"{pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        "CPU": _cpu_model(),
        "cores": f"{os.cpu_count()} logical, {len(_affinity())} usable",
        "RAM": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "BLAS": "; ".join(blas) or "not known",
        "commit": _commit(),
    }


def _affinity() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "not known"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "not known")


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (AttributeError, ValueError, OSError):
        return "not known"


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=20
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "../src")
        return git("rev-parse", "--short=12", "HEAD") + (" with uncommitted changes in src" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "not known"
