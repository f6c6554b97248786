"""The page: one HTML file with its data, styles, script and plotting library inside."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from advmetric.utils.archive import atomic_write
from advmetric.utils.optional import require

__all__ = ["plotting_library", "write_page"]

SCRIPTS = ("numbers.js", "plots.js", "page.js")


def plotting_library() -> str:
    """Return plotly.js as the Python package plotly ships it."""
    source: str = require("plotly.offline", "the explorer").get_plotlyjs()
    return source


def write_page(view: dict[str, Any], target: Path) -> None:
    """Write a view (see :func:`advmetric.explorer.view.make_view`) as a page that needs no server and no network."""
    assets = files("advmetric.explorer") / "assets"
    read = {name: (assets / name).read_text(encoding="utf-8") for name in ("page.html", "style.css", *SCRIPTS)}
    parts = {
        "title": html.escape(str(view["title"])),
        "style": read["style.css"],
        # "<" only occurs in strings, where JSON has an escape for it: no name of a class can end the element.
        "data": json.dumps(view, allow_nan=False).replace("<", "\\u003c"),
        "library": plotting_library().replace("</script", "<\\/script"),
        "script": "\n".join(read[name] for name in SCRIPTS),
    }
    with atomic_write(target) as stream:
        # Cut, not substituted: a part may contain what looks like the mark of another.
        for text in read["page.html"].split("{{"):
            name, mark, rest = text.partition("}}")
            stream.write((parts[name] + rest if mark else text).encode())
