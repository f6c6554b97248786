"""Streaming from disk: AML over all pairs of labelled rows, as a multiple of one streamed XᵀX.

    python benchmarks/scale/streaming.py                     # seconds
    python benchmarks/scale/streaming.py --rows 10000000     # the bar: <= 1.5x the bound, peak < 1 GB

Rows and labels are written to a temporary file and read as memory-mapped slices by both sides in turns. The peak is
that of a process of its own, less what it took before its first batch.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_memory import _status
from harness import Row, format_row, header, interleaved, machine_facts, options_parser

from advmetric import AML
from advmetric.pairs.batches import slices


def write(folder: Path, rows: int, features: int, classes: int, dtype: str, chunk: int = 1 << 18) -> None:
    """Rows of normal classes and their labels, made and written chunk by chunk."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((classes, features))
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", dtype, (rows, features))
    y = rng.integers(classes, size=rows)
    for start in range(0, rows, chunk):
        part = slice(start, start + chunk)
        X[part] = rng.standard_normal((len(y[part]), features)) + means[y[part]]
    X.flush()
    np.save(folder / "y.npy", y)


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    return np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")


def bound(folder: Path, batch: int) -> np.ndarray:
    """Σ XᵀX over the batches, in double precision: what no second moment can do without."""
    X, y = load(folder)
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows, _ in slices(X, y, batch):
        Z = np.asarray(rows, dtype=np.float64)
        total += Z.T @ Z
    return total


def stream(folder: Path, batch: int) -> AML:
    """The metric of all pairs."""
    return AML().fit_batches(slices(*load(folder), batch))


def peak(folder: Path, batch: int) -> float:
    """Bytes that a stream takes at most in this process, the pages of the file among them."""
    rng = np.random.default_rng(0)
    AML().fit_batches([(rng.standard_normal((1000, 20)), np.arange(1000) % 3)])  # libraries are loaded, not charged
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the kernel's record of the peak; Linux only
    stream(folder, batch)
    return _status("VmHWM") - before


def main(arguments: list[str] | None = None) -> int:
    parser = options_parser(__doc__, rows=300_000, features=50, classes=26, batch=65_536, repeats=3)
    parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    parser.add_argument("--folder", default=None, help="where the temporary file goes")
    parser.add_argument("--peak-of", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.peak_of:
        print(peak(Path(options.peak_of), options.batch))
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write(folder, options.rows, options.features, options.classes, options.dtype)
        started = time.perf_counter()
        seconds = interleaved(
            {"bound": lambda: bound(folder, options.batch), "stream": lambda: stream(folder, options.batch)},
            options.repeats,
        )
        command = [sys.executable, __file__, "--peak-of", name, "--batch", str(options.batch)]
        used = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        elapsed = time.perf_counter() - started
    print(*(f"{key}: {value}" for key, value in machine_facts().items()), "", header(), sep="\n")
    size = f"n={options.rows:.0e} d={options.features} c={options.classes} {options.dtype}"
    rate = options.rows / seconds["stream"]
    for row in (
        Row(
            f"AML().fit_batches / streamed XᵀX, {size}",
            seconds["stream"] / seconds["bound"],
            at_most=1.5,
            note=f"{seconds['stream']:.3g} s against {seconds['bound']:.3g} s; {rate:.2g} rows a second",
        ),
        Row(f"peak of the stream, {size}", used / 1e9, "GB", at_most=1, note=f"batches of {options.batch} rows"),
    ):
        print(format_row(row))
    print(f"\n{elapsed:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
