"""The options that commands share, and the errors of those who use them wrongly."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from advmetric.algorithms.registry import SEARCH, Method, methods
from advmetric.io.arrays import holds_pairs
from advmetric.io.contents import Reading
from advmetric.io.sources import is_npz
from advmetric.io.text import TextFormat
from advmetric.workflows.parameters import find_method

__all__ = [
    "AsJson",
    "Category",
    "Data",
    "Force",
    "Group",
    "Label",
    "MethodName",
    "MetricFile",
    "Missing",
    "Out",
    "PairsColumn",
    "Param",
    "Seed",
    "Standardize",
    "kind_for",
    "kind_of",
    "method_of",
    "reads_tables",
    "wrong",
]

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="CSV (also .gz, .bz2, .xz, .zst), Parquet, .xlsx or npz file; - for stdin.",
        show_default=False,
    ),
]
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
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Leave out a column; repeatable, or with commas.")
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHAR", help="Of CSV files, or `tab`.  [default: found out]")
]
Decimal = Annotated[str, typer.Option("--decimal", metavar="CHAR", help="Before decimals in CSV files: . or ,")]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="The first line is data; the columns are called 1, 2, 3 ...")
]


def _method_names(incomplete: str) -> list[str]:
    """For the completion of shells."""
    return [method.name for method in (*methods(), SEARCH) if method.name.lower().startswith(incomplete.lower())]


MethodName = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="See `advmetric methods`; AMLCV chooses the loss.  [default: AMLCV; AML with --no-tune, --param or "
        "--chunk-rows]",
        autocompletion=_method_names,
    ),
]
Param = Annotated[list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Fix a parameter; repeatable.")]
Standardize = Annotated[
    bool, typer.Option("--standardize/--no-standardize", help="Divide features by their standard deviations.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, max=2**32 - 1, help="Of splits and random pairs.")]
Group = Annotated[
    str | None,
    typer.Option("--group", metavar="COLUMN", help="Rows of one group (a person) stay on one side of every split."),
]
Category = Annotated[
    list[str] | None,
    typer.Option(
        "--category", metavar="COLUMN", help="Numbers that are codes of categories; repeatable, or with commas."
    ),
]
Missing = Annotated[
    Literal["fill", "refuse"],
    typer.Option(
        "--missing",
        help="What to do with missing values of features: empty cells; among numbers also NA, N/A, NaN, null, None, "
        "<NA>, ? and -.",
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="CSV, Parquet or npz.  [default: CSV on stdout, as -]")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file to write if it is there already.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


_TABLE_OPTIONS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, annotation, default in (
        ("drop", Drop, None),
        ("delimiter", Delimiter, None),
        ("decimal", Decimal, "."),
        ("no_header", NoHeader, False),
    )
]


def wrong(message: str, option: str) -> NoReturn:
    """Refuse the command: exit code 2."""
    raise typer.BadParameter(message, param_hint=option)


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --drop, --delimiter, --decimal and --no-header in the place of its parameter ``reading``."""
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += _TABLE_OPTIONS if parameter.name == "reading" else [parameter]

    @functools.wraps(command)
    def run(*, drop: list[str] | None, delimiter: str | None, decimal: str, no_header: bool, **others: Any) -> None:
        command(reading=Reading(TextFormat(delimiter, decimal, not no_header), tuple(drop or ())), **others)

    # What typer looks at.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def method_of(name: str | None, *, given: bool) -> Method:
    """Return the method to learn with: by default the search among losses, or AML where parameters are given."""
    return find_method(name or ("AML" if given else SEARCH.name))


def kind_for(method: Method, path: Path, label: str | None, pairs: str | None) -> str:
    """Whether a method is to learn from a file as "points" or as "pairs"; refuse what it cannot learn from."""
    kind = kind_of(path, label, pairs)
    if kind not in method.supervision:
        wrong(f"{method.name} learns from {' and '.join(method.supervision)}, not from {kind}", "--method")
    return kind


def kind_of(path: Path, label: str | None, pairs: str | None) -> str:
    """Whether a file is to be read as "points" or as "pairs"; npz files say so themselves if the options do not."""
    if label is not None and pairs is not None:
        wrong("give one of the two: points have a --label, pairs have --pairs", "--label / --pairs")
    if label is None and pairs is None:
        if not is_npz(path):
            wrong("say which column holds the class labels, or +1 and -1 for pairs", "--label / --pairs")
        return "pairs" if holds_pairs(path) else "points"
    return "points" if pairs is None else "pairs"
