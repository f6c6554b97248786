"""Dask: rows a second of AML's fit on 2 workers over those on 1, one thread each.

    python benchmarks/scale/dask_workers.py                     # seconds
    python benchmarks/scale/dask_workers.py --rows 10000000     # minutes

Both clusters are up throughout and take turns on the same file, of which each worker reads its own chunks. A second row
is the same ratio for plain arithmetic: what the machine has to give just then (less than 2 where others use it); then
the ratio by processor seconds, a model and not a measurement. The last row is what moved between the workers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import Row, format_row, header, interleaved, machine_facts, options_parser
from streaming import load, write

from advmetric import AML


def read(like: np.ndarray, folder: str, what: int, rows: int, block_id: tuple[int, ...] = ()) -> np.ndarray:
    """One chunk of X (what = 0) or y (1), read by the worker that needs it."""
    return np.array(load(Path(folder))[what][block_id[0] * rows : (block_id[0] + 1) * rows])


def collections(folder: Path, rows: int) -> tuple[Any, Any]:
    """X and y as Dask arrays over the file."""
    found = []
    for what, stored in enumerate(load(folder)):
        empty = da.empty(stored.shape, chunks=(rows, *stored.shape[1:]), dtype=stored.dtype)
        meta = np.empty((0,) * stored.ndim, stored.dtype)
        found.append(empty.map_blocks(read, str(folder), what, rows, dtype=stored.dtype, meta=meta))
    return found[0], found[1]


def fit(client: Client, folder: Path, rows: int) -> AML:
    """The metric of all pairs, learned on a cluster."""
    with client.as_current():
        return AML().fit(*collections(folder, rows))


def busy(number: int, size: int = 150) -> float:
    """About a tenth of a second of arithmetic on data that fit in the cache."""
    X = np.full((size, size), 1.0 / size)
    for _ in range(200):
        X = X @ X
    return float(X[0, 0]) + number


def arithmetic(client: Client, tasks: int = 8) -> list[float]:
    return client.gather(client.map(busy, range(tasks), pure=False))


def cpu_seconds(client: Client, folder: Path, rows: int) -> tuple[float, float]:
    """Processor seconds of one fit: of all workers together, and of this process (client and scheduler)."""
    workers, here = sum(client.run(time.process_time).values()), time.process_time()
    fit(client, folder, rows)
    here = time.process_time() - here
    return sum(client.run(time.process_time).values()) - workers, here


def moved(dask_worker: Any) -> int:
    """Bytes that came to a worker from others since the last call."""
    total = sum(entry["total"] for entry in dask_worker.transfer_incoming_log)
    dask_worker.transfer_incoming_log.clear()
    return int(total)


def main(arguments: list[str] | None = None) -> int:
    parser = options_parser(__doc__, rows=1_000_000, features=50, classes=26, chunk=50_000, repeats=3)
    parser.add_argument("--folder", default=None, help="where the temporary file goes")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as name, ExitStack() as stack:
        folder = Path(name)
        write(folder, options.rows, options.features, options.classes, "float64")
        load_before = os.getloadavg()[0]
        clients = {}
        for n in (1, 2):
            cluster = LocalCluster(n_workers=n, threads_per_worker=1, processes=True, dashboard_address=":0")
            clients[n] = stack.enter_context(Client(stack.enter_context(cluster), set_as_default=False))
        fits = {f"fit {n}": partial(fit, client, folder, options.chunk) for n, client in clients.items()}
        plain = {f"plain {n}": partial(arithmetic, client) for n, client in clients.items()}
        seconds = interleaved(fits | plain, options.repeats)
        (alone, serial), (together, _) = (cpu_seconds(clients[n], folder, options.chunk) for n in (1, 2))
        clients[2].run(moved)
        learned = fit(clients[2], folder, options.chunk)
        between = sum(clients[2].run(moved).values())
        gap = np.abs(learned.get_mahalanobis_matrix() - (M := AML().fit(*load(folder)).get_mahalanobis_matrix())).max()
    facts = machine_facts() | {"load before, after": f"{load_before:.1f}, {os.getloadavg()[0]:.1f}"}
    print(*(f"{key}: {value}" for key, value in facts.items()), "", header(), sep="\n")
    size = f"n={options.rows:.0e} d={options.features} c={options.classes}"
    one, two = (options.rows / seconds[f"fit {n}"] for n in (1, 2))
    model = 8 * options.classes * options.features**2
    for row in (
        Row(
            f"rows a second, 2 workers / 1, {size}",
            two / one,
            at_least=1.5,
            note=f"{two:.2g} against {one:.2g}; {options.rows // options.chunk} chunks",
        ),
        Row("the same for plain arithmetic", seconds["plain 1"] / seconds["plain 2"], note="what the machine gives"),
        Row(
            "the same by processor seconds, were cores free",
            (alone + serial) / (together / 2 + serial),
            note=f"workers {alone:.2g} s (1), {together:.2g} s (2); client and scheduler {serial:.2g} s, not shared",
        ),
        Row("metric / that in memory: largest difference", gap / np.abs(M).max(), at_most=1e-10),
        Row(
            "moved between 2 workers / one worker's sum",
            between / model,
            note=f"{between / 1e6:.2g} MB of {8e-6 * options.rows * options.features:.3g} MB of rows",
        ),
    ):
        print(format_row(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
