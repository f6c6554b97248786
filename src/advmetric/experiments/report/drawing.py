"""Matplotlib figures without a display, and as inline SVG."""

from __future__ import annotations

import hashlib
import html
import io
import re
from typing import TYPE_CHECKING

from advmetric.plots.axes import COLORS
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


def to_svg(figure: Figure, label: str = "") -> str:
    """Return the figure as an SVG element; the same figure gives the same text.

    The page chooses the colours: black becomes ``currentColor``, the colours of our palette become the variables
    ``--hue-1``, ``--hue-2`` ... with themselves as fallback, and there is no background. ``label`` is for readers who
    cannot see the figure.
    """
    mpl = require("matplotlib", "the report")
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "advmetric", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    svg = text[text.index("<svg") :]
    svg = re.sub(r' id="[A-Za-z0-9]+_\d+"', "", svg)  # names of groups, equal in all figures; nothing refers to them
    # Names of glyphs and clips occur in several figures: told apart by the figure's own text.
    tag = hashlib.sha256(f"{label}{svg}".encode()).hexdigest()[:8]
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>f{tag}-", svg).replace("#000000", "currentColor")
    for place, color in enumerate(COLORS[:-1], start=1):
        svg = svg.replace(f": {color}", f": var(--hue-{place}, {color})")
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1)
