"""What the user asked for, and how thorough a profile is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .store import Task

__all__ = ["PROFILES", "Plan", "Profile"]


@dataclass(frozen=True)
class Profile:
    """How thorough a run is."""

    trials: int
    draws: int
    """Of the synthetic experiment."""
    max_rows: int | None
    """A stratified subset of larger sets."""
    tune_rows: int
    """Parameters are chosen on at most this many training points (stratified)."""
    max_pairs: int | None
    """For the methods that draw pairs, instead of 1000 c (c - 1)."""
    tune_pairs: int
    """Parameters are chosen with at most this many of these pairs, unless they weigh a sum over pairs."""
    thin: int
    """Only every n-th value of each grid is tried."""
    search_folds: int
    """Of AMLCV's search; the other methods are tuned with 3."""


PROFILES = {
    "quick": Profile(
        trials=3,
        draws=10,
        max_rows=1000,
        tune_rows=600,
        max_pairs=5000,
        tune_pairs=5000,
        thin=2,
        search_folds=3,
    ),
    "full": Profile(
        trials=20,
        draws=30,
        max_rows=None,
        tune_rows=4000,
        max_pairs=None,
        tune_pairs=50_000,
        thin=1,
        search_folds=5,
    ),
}


@dataclass(frozen=True)
class Plan:
    """What the user asked for."""

    profile: str = "full"
    seed: int = 0
    trials: int | None = None
    datasets: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    data_home: Path | None = None
    """Folder with further datasets."""

    @property
    def settings(self) -> Profile:
        """Return the profile."""
        return PROFILES[self.profile]

    def tasks(
        self, study: str, datasets: Sequence[str], methods: Sequence[str], trials: int | None = None
    ) -> list[Task]:
        """Return all runs of one study, a trial of everything before the next trial begins.

        ``trials`` caps their number, for studies that need fewer.
        """
        count = self.trials or self.settings.trials
        count = count if trials is None else min(count, trials)
        return [
            Task(study, dataset, method, trial, self.profile, self.seed)
            for trial in range(count)
            for dataset in datasets
            for method in methods
        ]
