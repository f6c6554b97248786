"""``advmetric datasets`` and ``advmetric methods``: what there is."""

from __future__ import annotations

from advmetric import methods as all_methods
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


def methods(as_json: AsJson = False) -> None:
    """List the methods of `fit`: what they learn from, what is tuned."""
    known = all_methods()
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
    show(
        ("name", "learns from", "certainty", "grid", "paper"),
        [
            (
                method.name,
                ", ".join(method.supervision),
                method.certainty,
                "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in method.grid.items()),
                method.paper,
            )
            for method in known
        ],
    )
