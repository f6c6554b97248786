"""The commands in one table, and what becomes of their errors: one line on stderr and an exit code."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from advmetric import __version__
from advmetric.utils.errors import UsageError
from advmetric.utils.optional import MissingDependencyError

from .commands.evaluate import evaluate
from .commands.explore import explore
from .commands.fit import fit
from .commands.listing import datasets, methods
from .commands.measure import distance, transform
from .commands.reproduce import report, reproduce
from .commands.verify import verify

__all__ = ["app", "run"]

app = typer.Typer(
    # Plain help: it reads the same on a terminal, in a pipe and in a log.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"advmetric {__version__}")
        raise typer.Exit


@app.callback()
def advmetric(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error; may stand anywhere.")] = False,
) -> None:
    """Learn the distance: Mahalanobis metrics from class labels or from pairs.

    A first session, with a table that has a column "class":

    \b
      advmetric fit cars.csv --label class --out cars.metric.npz
      advmetric evaluate cars.metric.npz more-cars.csv --label class
      advmetric transform cars.metric.npz more-cars.csv --out embedded.csv

    Data are CSV (also compressed: .csv.gz, .bz2, .xz, .zst), Parquet, Excel (.xlsx, first sheet) or npz files, told
    apart by their suffix, or `-` for standard input. Results go to stdout; progress, warnings and errors go to
    stderr, an error as one line.

    \b
    Exit codes:
      0    done
      1    the work failed: a file is missing or damaged, or the data are not fit for it
      2    the command is wrong: unknown option, method or parameter
      130  interrupted by Ctrl-C
      143  ended by SIGTERM
    """


def add(command: Callable[..., Any], *examples: str) -> None:
    """Add a command under its function's name, with its docstring as help and examples below."""
    lines = "\n".join(f"  {example}" for example in examples)
    summary = (command.__doc__ or "").partition("\n")[0]  # all of it: typer would cut it at 45 characters
    app.command(command.__name__, short_help=summary, epilog=f"\b\nExamples:\n{lines}")(command)


add(
    fit,
    "advmetric fit cars.csv --label class",
    "advmetric fit cars.csv --label class --method LMNN --param n_neighbors=3 --no-tune",
    "advmetric fit cars.parquet --label class --drop id --test 0.3 --seed 1 --out cars.metric.npz",
    "advmetric fit patients.xlsx --label ill --group person --category ward --force",
    "zcat cars.csv.gz | advmetric fit - --label 5 --no-header --decimal , --out cars.metric.npz",
    "advmetric fit faces.csv --pairs same        # columns a_<feature>, b_<feature>; same is +1 or -1",
    "advmetric fit rows.parquet --label class --chunk-rows 100000     # larger than memory",
)
add(
    explore,
    "advmetric explore cars.csv --label class     # writes cars.explore.html",
    "advmetric explore faces.csv --pairs same --method PairAML --out faces.html",
)
add(
    evaluate,
    "advmetric evaluate cars.metric.npz new.csv --label class --train cars.csv",
    "advmetric evaluate faces.metric.npz pairs.csv --pairs same --json",
)
add(
    transform,
    "advmetric transform cars.metric.npz cars.csv --out embedded.csv",
    "advmetric transform cars.metric.npz cars.csv --label class --out embedded.npz",
    "advmetric transform cars.metric.npz cars.csv | head",
)
add(
    distance,
    "advmetric distance faces.metric.npz pairs.csv --out distances.csv",
    "advmetric distance cars.metric.npz cars.csv --a 1 --b 17        # two rows of a file of points",
    "advmetric distance small.metric.npz --a 5.1,3.5 --b 6.2,2.9     # two points by their values",
)
add(
    verify,
    "advmetric verify faces.metric.npz pairs.csv --out verdicts.csv",
    "advmetric verify faces.metric.npz probe.csv gallery.csv --probability 0.99",
)
add(datasets, "advmetric datasets", "advmetric datasets --json")
add(methods, "advmetric methods", "advmetric methods --verbose", "advmetric methods --json")
add(
    reproduce,
    "advmetric reproduce --quick                  # everything on bundled data: a few minutes",
    "advmetric reproduce table1 --jobs 2 --data-home ~/data --out results",
    "advmetric reproduce synthetic sensitivity --trials 30",
    "advmetric reproduce table1 --datasets vehicle,letters --methods AML,GMML,LMNN",
)
add(report, "advmetric report results")
# A further command is a function with typer's annotations, imported above, and a line here: add(function, "example").


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # do not fail on a terminal without Unicode
    debug = "--debug" in arguments
    command = typer.main.get_command(app)
    chosen = [argument for argument in arguments if argument != "--debug"] or ["--help"]
    stdout = sys.stdout
    with warnings.catch_warnings(), _ended_by_sigterm():
        _warn_in_lines()
        try:
            code = command.main(chosen, prog_name="advmetric", standalone_mode=False)
            sys.stdout.flush()
            if code == 130:
                _say("interrupted")
            return code if isinstance(code, int) else 0
        except (KeyboardInterrupt, typer.Abort):
            _say("interrupted")
            return 130
        except _Terminated:
            _say("terminated")
            return 143
        except BrokenPipeError:
            return _reader_gone(sys.stdout)
        except SystemExit as error:
            if isinstance(error.__context__, BrokenPipeError):  # which typer turns into exit code 1
                return _reader_gone(stdout)
            raise
        except Exception as error:
            if debug:
                traceback.print_exc()
            message, code = _told(error)
            _say(f"error: {message}")
            return code


def _reader_gone(stdout: Any) -> int:
    """The reader (`head`, say) has seen enough: say nothing, and nothing more at exit either."""
    sys.stdout = stdout
    os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
    return 0


class _Terminated(BaseException):
    """SIGTERM came: an exception, so that files and processes are cleaned up on the way out."""


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """End by an exception on SIGTERM, and end the worker processes: they would otherwise finish their runs first."""

    def end(*_: object) -> None:
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told(error: Exception) -> tuple[str, int]:
    """The line to print for an error, and the exit code."""
    if hasattr(error, "format_message"):  # typer's own errors; their class moved between its versions
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        return f"{error.format_message().rstrip('.')}{hint}", int(getattr(error, "exit_code", 2))
    if isinstance(error, UsageError):
        return f"Invalid value for {error.option}: {str(error).rstrip('.')}", 2
    if isinstance(error, MissingDependencyError):
        return str(error), 1
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror, 1
    if isinstance(error, MemoryError):
        return f"not enough memory {error}", 1
    if isinstance(error, (ValueError, TypeError, OSError)):
        return str(error), 1
    return f"{type(error).__name__}: {error} (this looks like a bug; --debug shows the trace)", 1


def _say(message: str) -> None:
    """Print a message on stderr, as one line whatever is in it."""
    print(" ".join(message.split()), file=sys.stderr)


def _warn_in_lines() -> None:
    """Show what users should know (a solver that did not converge) as one line, once; hide developers' warnings."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            _say(f"warning: {message}")

    # Files left open: as before, that is ignored for users and an error in the tests.
    leaks = next((entry[0] for entry in warnings.filters if issubclass(ResourceWarning, entry[2])), "ignore")
    warnings.simplefilter("ignore")
    warnings.simplefilter(leaks, ResourceWarning)  # type: ignore[arg-type]
    warnings.simplefilter("always", UserWarning)
    warnings.simplefilter("ignore", DeprecationWarning)  # pyparsing's are UserWarnings, too
    warnings.showwarning = show
