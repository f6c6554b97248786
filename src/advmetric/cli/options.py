"""The options that commands share, and the errors of those who use them wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

__all__ = ["AsJson", "Data", "Delimiter", "Drop", "Label", "MetricFile", "PairsColumn", "kind_of", "wrong"]

Data = Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet or npz file.", show_default=False)]
MetricFile = Annotated[
    Path, typer.Argument(metavar="METRIC", help="Metric saved by `advmetric fit`.", show_default=False)
]
Label = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="Column (npz: array) of class labels.")]
PairsColumn = Annotated[
    str | None,
    typer.Option(
        "--pairs",
        metavar="COLUMN",
        help="The rows are pairs: features in a_<name> and b_<name>; COLUMN is +1 (same) or -1 (different).",
    ),
]
Drop = Annotated[list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Leave out a column; repeatable.")]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHAR", help="Of CSV files, or `tab`.  [default: found out]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def wrong(message: str, option: str) -> NoReturn:
    """Refuse the command: exit code 2."""
    raise typer.BadParameter(message, param_hint=option)


def kind_of(path: Path, label: str | None, pairs: str | None) -> str:
    """Whether a file is to be read as "points" or as "pairs"; npz files say so themselves if the options do not."""
    if label is not None and pairs is not None:
        wrong("give one of the two: points have a --label, pairs have --pairs", "--label / --pairs")
    if label is None and pairs is None:
        if path.suffix.lower() != ".npz":
            wrong("say which column holds the class labels, or +1 and -1 for pairs", "--label / --pairs")
        from advmetric.io.samples import holds_pairs

        return "pairs" if holds_pairs(path) else "points"
    return "points" if pairs is None else "pairs"
