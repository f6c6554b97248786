"""Threads of BLAS: on small matrices several cost more than they save."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads", "one_blas_thread"]

_ENOUGH = 1e9
"""Operations from which several threads pay off. On two cores, fits of PairAML, NeighborAML, AML and FlatGeo to 1000 to
3000 points took 1 to 4.8 times as long with two threads at 20 to 150 features, and 0.8 to 1 times at 784."""


def blas_threads(n: int, d: int) -> AbstractContextManager[Any]:
    """Return a context in which BLAS has one thread, if products of (n, d) and (d, d) matrices are small for more."""
    r = min(n, d) or d
    return nullcontext() if float(r) ** 2 * (n + r) >= _ENOUGH else one_blas_thread()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS has one thread."""
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> Any:
    """The BLAS libraries of this process; finding them takes as long as a small fit."""
    return ThreadpoolController()
