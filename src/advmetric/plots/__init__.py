"""Pictures of a metric: functions that take and return a matplotlib Axes."""

from .metric import plot_cv_results, plot_metric, plot_spectrum
from .points import plot_adversarial_pairs, plot_embedding
from .scores import plot_bands, plot_critical_difference, plot_distances, plot_errors, plot_roc

__all__ = [
    "plot_adversarial_pairs",
    "plot_bands",
    "plot_critical_difference",
    "plot_cv_results",
    "plot_distances",
    "plot_embedding",
    "plot_errors",
    "plot_metric",
    "plot_roc",
    "plot_spectrum",
]
