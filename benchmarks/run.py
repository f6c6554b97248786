"""Print the performance ratios of advmetric beside their targets, with the machine's facts.

    python benchmarks/run.py                 all (about five minutes)
    python benchmarks/run.py --only scatter  one; --only may be repeated
    python benchmarks/run.py --fast          small sizes: a check that it runs, not a measurement

Both sides of a ratio are timed in the same run, in turns, and the least time of the rounds is taken. Nothing
is asserted and nothing is stored. Accuracy has its own command, ``python benchmarks/accuracy.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import bench_algorithm1
import bench_fit
import bench_import
import bench_memory
import bench_scatter
import bench_search
import bench_solver
from harness import Row, format_row, header, machine_facts

BENCHMARKS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "fit": bench_fit.rows,
    "algorithm1": bench_algorithm1.rows,
    "scatter": bench_scatter.rows,
    "search": bench_search.rows,
    "memory": bench_memory.rows,
    "solver": bench_solver.rows,
    "import": bench_import.rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks asked for; the number of missed targets is printed, not returned as a failure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), help="run this one only (repeatable)")
    parser.add_argument("--fast", action="store_true", help="small sizes, seconds: checks that it runs")
    options = parser.parse_args(arguments)
    for name, fact in machine_facts().items():
        print(f"{name + ':':<14} {fact}")
    print("timing:        least of interleaved rounds" + (", small sizes (--fast): no measurement" * options.fast))
    print("\n" + header(), flush=True)
    missed = 0
    for name in options.only or BENCHMARKS:
        started = time.monotonic()
        for row in BENCHMARKS[name](options.fast):
            if options.fast:
                row = replace(row, at_most=None, at_least=None)
            missed += row.met is False
            print(format_row(row), flush=True)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(f"\n{missed} target{'' if missed == 1 else 's'} missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
