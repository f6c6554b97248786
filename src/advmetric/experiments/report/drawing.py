"""Matplotlib figures without a display, and as inline SVG."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from advmetric.utils.optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["subplots", "to_svg"]


def subplots(n: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Return a figure that needs no display, with n axes of the given size in inches."""
    mpl = require("matplotlib", "the report")
    agg, figures = require("matplotlib.backends.backend_agg"), require("matplotlib.figure")
    mpl.rcParams["font.size"] = 9
    rows = -(-n // columns)
    figure = figures.Figure(figsize=(size[0] * min(n, columns), size[1] * rows), layout="constrained")
    agg.FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, min(n, columns), i + 1) for i in range(n)]


def to_svg(figure: Figure) -> str:
    """Return the figure as an SVG element; the same figure gives the same text."""
    mpl = require("matplotlib", "the report")
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "advmetric", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
