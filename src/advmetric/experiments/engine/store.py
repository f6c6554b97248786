"""Results of runs, one line each, in a file that is only ever appended to.

kill -9 at any moment loses at most the runs under way: a line is written at once and synced, a half-written
one is skipped by readers and closed by the next writer. Several runners may share a folder: writers take
turns, and a run is claimed by a lock that the system releases when its process dies.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows: one runner a folder there
    fcntl = None

__all__ = ["Record", "Store", "Task"]

_BINARY = getattr(os, "O_BINARY", 0)
"""On Windows, keep line ends as they are."""


@dataclass(frozen=True, order=True)
class Task:
    """One run: what is measured, on what, by which method, which trial, how thoroughly, under which seed."""

    experiment: str
    dataset: str
    method: str
    trial: int
    profile: str = "full"
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.experiment}: {self.method} on {self.dataset}, trial {self.trial}"


@dataclass(frozen=True)
class Record:
    """What a run found, or why it failed."""

    task: Task
    result: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    seconds: float = 0.0


class Store:
    """The results of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / "results.jsonl"

    def append(self, record: Record) -> None:
        """Write one line atomically: a reader sees all of it or nothing."""
        line = json.dumps(asdict(record), allow_nan=True, separators=(",", ":")).encode() + b"\n"
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, 0o644)
        try:
            if fcntl:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.lseek(descriptor, 0, os.SEEK_END)
            if size:
                os.lseek(descriptor, size - 1, os.SEEK_SET)
                if os.read(descriptor, 1) != b"\n":
                    # A writer was killed in the middle of a line: end that line, so that this one is readable.
                    line = b"\n" + line
            while line:
                line = line[os.write(descriptor, line) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def records(self) -> dict[Task, Record]:
        """Return all finished runs; of several of the same run the last success counts, or else the last failure."""
        return self.read()[0]

    def read(self) -> tuple[dict[Task, Record], int]:
        """Return all finished runs, and the number of lines that are no records.

        A line that a killed writer left unfinished is expected and does not count.
        """
        found: dict[Task, Record] = {}
        skipped = 0
        for line in self._lines():
            record = _parsed(line)
            if record is None:
                skipped += not _unfinished(line)
                continue
            known = found.get(record.task)
            if known is None or known.failure or not record.failure:
                found[record.task] = record
        return found, skipped

    def _lines(self) -> list[bytes]:
        try:
            return [line for line in self.path.read_bytes().split(b"\n") if line.strip()]
        except FileNotFoundError:
            return []

    def remaining(self, tasks: Iterable[Task], *, retry_failed: bool = False) -> list[Task]:
        """Those of the tasks that have not been run."""
        done = self.records()
        return [task for task in tasks if task not in done or (retry_failed and done[task].failure)]

    @contextmanager
    def claim(self, task: Task) -> Iterator[bool]:
        """Whether this process may run the task; no other may until the block, or the process, ends.

        One byte of a lock file stands for a task. Locks belong to a process, so claim one at a time.
        """
        if fcntl is None:
            yield True
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        place = int.from_bytes(hashlib.sha256(repr(task).encode()).digest()[:7], "big")
        descriptor = os.open(self.folder / "claims.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except OSError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)


_FIELDS = {"task": dict, "result": dict, "failure": str, "seconds": (int, float)}
_TASK_FIELDS = {"experiment": str, "dataset": str, "method": str, "trial": int, "profile": str, "seed": int}


def _parsed(line: bytes) -> Record | None:
    """Return the record of a line, or None if it does not match the schema."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not _matches(values, _FIELDS) or not _matches(values["task"], _TASK_FIELDS):
        return None
    if not _plain(values["result"]):
        return None
    return Record(Task(**values["task"]), **{name: values[name] for name in ("result", "failure", "seconds")})


def _unfinished(line: bytes) -> bool:
    """Return whether a line is the beginning of a record."""
    if not line.startswith(b'{"task":{"experiment":"'[: len(line)]):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False


def _matches(values: Any, fields: dict[str, Any]) -> bool:
    """Return whether values is a dict with exactly these fields, each of its type."""
    return (
        isinstance(values, dict)
        and set(values) == set(fields)
        and all(isinstance(values[name], kind) and not isinstance(values[name], bool) for name, kind in fields.items())
    )


def _plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value is made of numbers, text, lists and dicts, not nested deeper than results are."""
    if depth > 6:
        return False
    if isinstance(value, dict):
        return all(isinstance(name, str) and _plain(item, depth + 1) for name, item in value.items())
    if isinstance(value, list):
        return all(_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))
