"""The report: one self-contained HTML page that opens with the answer."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from advmetric import __version__
from advmetric.experiments.catalogue import STUDIES
from advmetric.experiments.engine.store import Record, Store
from advmetric.experiments.engine.study import Section
from advmetric.utils.archive import atomic_write
from advmetric.utils.optional import require

from .content import Bullets, Cell, Drawing, Table
from .drawing import to_svg

__all__ = ["make_sections", "write_report"]


def write_report(folder: Path, *, notes: Sequence[str] = (), command: str = "advmetric reproduce") -> Path:
    """Write ``report.html`` (and table1.csv, table1.tex) for the results in a folder; return the page's path.

    Of several profiles or seeds in the folder, the one with most runs is shown.
    """
    store = Store(folder)
    everything, skipped = store.read()
    if not everything:
        reason = f"its {skipped} lines are damaged" if skipped else "there are no results in it yet"
        raise FileNotFoundError(f"{store.path}: {reason}; run `advmetric reproduce --out {folder}` first.")
    kinds = [(task.profile, task.seed) for task in everything]
    profile, seed = max(sorted(set(kinds)), key=kinds.count)
    shown = sorted(
        (r for r in everything.values() if (r.task.profile, r.task.seed) == (profile, seed)), key=lambda r: r.task
    )
    sections = make_sections(shown)
    for section in sections:
        for name, text in (section.files or {}).items():
            _write(folder / name, text)
    answers = [line for section in sections for line in section.answers]
    if profile == "quick":
        answers.append(
            "This is the quick run: subsets, few trials, thinned grids. It shows that everything works; it does not "
            "settle differences of a hundredth."
        )
    if skipped:
        answers.append(f"{skipped} lines of results.jsonl are damaged or not ours, and were left out.")
    headline = next((section.headline for section in sections if section.headline), "")
    page = _template().render(
        headline=headline or answers.pop(0) if headline or answers else "",
        answers=[*answers, *notes],
        script=_markup(_asset("page.js")),
        style=_markup(_asset("page.css")),
        sections=[{"title": s.title, "blocks": [_block(block) for block in s.blocks]} for s in sections],
        failures=[f"{r.task}: {r.failure}" for r in shown if r.failure],
        command=command,
        setting=_setting(profile, seed),
    )
    return _write(folder / "report.html", page + "\n")


def make_sections(records: Sequence[Record]) -> list[Section]:
    """Return the sections of all studies that have finished runs among the records."""
    found = []
    for study in STUDIES.values():
        mine = [r for r in records if r.task.experiment == study.name and not r.failure]
        if mine:
            found.append(study.section(mine))
    return found


def _block(block: Any) -> dict[str, Any]:
    """Return a block in the form that the template expects."""
    kind = type(block).__name__
    if isinstance(block, Drawing):
        # Beside style and script, the only text that is not escaped: matplotlib's own SVG.
        return {"kind": kind, "svg": _markup(to_svg(block.draw(), block.caption)), "caption": block.caption}
    if isinstance(block, Table):
        return {"kind": kind, "head": list(block.head), "rows": [[_cell(cell) for cell in row] for row in block.rows]}
    if isinstance(block, Bullets):
        return {"kind": kind, "lines": list(block.items)}
    return {"kind": kind, **vars(block)}


def _cell(cell: Cell | str) -> dict[str, str]:
    full = cell if isinstance(cell, Cell) else Cell(cell)
    classes = " ".join(name for name, applies in (("best", full.best), ("time", full.timing)) if applies)
    return {"text": full.text, "mark": full.mark, "below": full.below, "classes": classes}


def _template() -> Any:
    jinja2 = require("jinja2", "the report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(_asset("page.html.j2"))


def _asset(name: str) -> str:
    return (files("advmetric.experiments.report") / "templates" / name).read_text(encoding="utf-8")


def _markup(text: str) -> Any:
    return require("markupsafe", "the report").Markup(text)


def _setting(profile: str, seed: int) -> str:
    versions = {"Python": platform.python_version(), "NumPy": np.__version__, "SciPy": scipy.__version__}
    versions["scikit-learn"] = sklearn.__version__
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"Profile {profile}, seed {seed}; advmetric {__version__}, {libraries}, {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores. Every run is a line of results.jsonl beside this page; "
        "table1.csv and table1.tex hold the table."
    )


def _write(target: Path, text: str) -> Path:
    with atomic_write(target) as stream:
        stream.write(text.encode())
    return target
