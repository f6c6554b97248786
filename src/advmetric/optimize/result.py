"""What every iterative solver returns, and how it reports progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from advmetric.utils.progress import get_logger

__all__ = ["Monitor", "Result", "make_monitor"]

T = TypeVar("T")
U = TypeVar("U")

Monitor = Callable[[int, float, float], None]
"""Called once per iteration with its number, the objective and the measure of convergence."""


@dataclass(frozen=True)
class Result(Generic[T]):
    """Where a solver stopped.

    Parameters
    ----------
    x : any
        The solution.
    objective : sequence of float
        Values at the start and after each iteration.
    converged : bool
        Whether the tolerance was met, or rounding hides any further decrease.
    message : str
        Why the solver stopped.
    slope : float
        The measure of convergence at x: a relative slope, residual or duality gap.
    exhausted : bool
        Whether the solver stopped at the maximum number of iterations.
    """

    x: T
    objective: Sequence[float] = ()
    converged: bool = True
    message: str = ""
    slope: float = 0.0
    exhausted: bool = False

    def mapped(self, function: Callable[[T], U]) -> Result[U]:
        """Return the same result with another form of the solution."""
        values = {name: value for name, value in vars(self).items() if name != "x"}
        return Result(function(self.x), **values)

    @property
    def n_iter(self) -> int:
        """Return the number of iterations."""
        return max(0, len(self.objective) - 1)


def make_monitor(title: str, verbose: int, measure: str = "relative slope") -> Monitor | None:
    """Return a monitor that logs each iteration to the logger "advmetric", or None if not verbose."""
    if not verbose:
        return None
    logger = get_logger()

    def monitor(iteration: int, value: float, slope: float) -> None:
        logger.info(f"{title} iteration {iteration}: objective = {value:.10g}, {measure} = {slope:.2e}")

    return monitor
