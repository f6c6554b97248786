"""Where pictures are drawn, and in which colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advmetric.utils.optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "MARKERS", "axes_or_current"]

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")
"""Okabe and Ito's palette, told apart by colour-blind readers too."""
MARKERS = ("o", "^", "s", "P", "X", "D", "v", "*")
"""For the first eight classes, the next eight, and so on."""


def axes_or_current(ax: Axes | None) -> Axes:
    """Return the axes, or those that pyplot draws on if there are none."""
    if ax is not None:
        return ax
    return require("matplotlib.pyplot", "plotting").gca()
