"""``advmetric datasets`` and ``advmetric methods``: what there is."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Annotated

import typer

from advmetric.algorithms.registry import SEARCH, Method
from advmetric.algorithms.registry import methods as all_methods
from advmetric.cli.options import AsJson
from advmetric.cli.output import show, show_json
from advmetric.datasets import DatasetInfo, list_datasets

__all__ = ["datasets", "methods"]


def datasets(as_json: AsJson = False) -> None:
    """List the datasets of `load_dataset`: size, source, licence."""
    known = list_datasets()
    if as_json:
        fields = ("name", "title", "n", "d", "bundled", "openml_id", "licence", "citation")
        show_json(
            [
                {name: getattr(info, name) for name in fields} | {"classes": info.c, "source": _source(info)}
                for info in known
            ]
        )
        return
    show(
        ("name", "points", "features", "classes", "from", "licence"),
        [(info.name, info.n, info.d, info.c, _source(info), info.licence) for info in known],
    )


def _source(info: DatasetInfo) -> str:
    if info.bundled:
        return "bundled"
    return "data home" if info.openml_id is None else f"OpenML {info.openml_id}"


Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="Also the values that are tried, how sure the formulas are, and the reference."),
]


def methods(verbose: Verbose = False, as_json: AsJson = False) -> None:
    """List the methods of `fit`: what they learn from, what is tuned.

    AMLCV is the default of `fit`: it chooses the loss, and with it one of AML, PairAML, NeighborAML and Euclidean.
    """
    known = (*all_methods(), SEARCH)
    if as_json:
        show_json(
            [
                {
                    "name": method.name,
                    "learns_from": list(method.supervision),
                    "certainty": method.certainty,
                    "grid": {name: list(values) for name, values in method.grid.items()},
                    "paper": method.paper,
                }
                for method in known
            ]
        )
        return
    if not verbose:
        show(
            ("name", "learns from", "tunes", "from"),
            [(method.name, ", ".join(method.supervision), _tuned(method), _origin(method.paper)) for method in known],
        )
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 100_000
    for method in known:
        print(f"{method.name}: learns from {', '.join(method.supervision)}")
        values = [f"{name} among {', '.join(map(str, tried))}" for name, tried in method.grid.items()]
        for what, text in (
            ("tunes", "; ".join(values) or _tuned(method)),
            ("formulas", method.certainty),
            ("reference", method.paper),
        ):
            print(textwrap.fill(f"{what}: {text}", width, initial_indent="  ", subsequent_indent="    "))


def _tuned(method: Method) -> str:
    return "loss and parameters" if method is SEARCH else ", ".join(method.grid) or "-"


def _origin(paper: str) -> str:
    """Conference and year, in which a reference ends."""
    ours = "this library"
    return ours if paper.startswith(ours) else paper.rpartition(". ")[2]
