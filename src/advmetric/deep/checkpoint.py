"""Files of tensors: safetensors with a JSON header and a checksum over both. No pickle, atomic writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from advmetric.utils.archive import atomic_write, check_digest, damage_reported, digest, take_checksum
from advmetric.utils.optional import require

__all__ = ["prefixed", "read_tensors", "without_prefix", "write_tensors"]

_VERSION = 1
Tensors = Mapping[str, Tensor]


def write_tensors(path: str | os.PathLike[str], kind: str, facts: Mapping[str, Any], tensors: Tensors) -> None:
    """Write tensors and facts (what JSON can hold) to a file that is at every moment absent, old or complete.

    Parameters
    ----------
    path : path
    kind : str
        What it is, with its article: "a network". A file of one kind is not read as another.
    facts : mapping
        Values that JSON can hold; finite floats come back bit by bit.
    tensors : mapping of str to Tensor
        On any device; copied to the CPU.
    """
    save = require("safetensors.torch", "saving a network").save
    # Copies: safetensors refuses tensors that share memory, as tied weights do.
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    header = {"format": _format(kind), "version": _VERSION, "facts": dict(facts)}
    header["sha256"] = _digest(header, plain)
    with atomic_write(path) as stream:
        stream.write(save(plain, metadata={"advmetric": json.dumps(header)}))


def read_tensors(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts and tensors that :func:`write_tensors` wrote.

    Raises
    ------
    DamagedFileError
        If the file is of another kind, was changed or cut short, or comes from a newer version.
    """
    library = require("safetensors", "reading a network")
    Path(path).stat()  # raises FileNotFoundError if there is none
    with damage_reported(path, f"{kind} saved by advmetric"):
        with library.safe_open(os.fspath(path), framework="pt") as archive:
            header = json.loads((archive.metadata() or {})["advmetric"])
            checksum = take_checksum(path, header, _format(kind), _VERSION)
            # A copy: the file may be replaced while the tensors are in use.
            tensors = {name: archive.get_tensor(name).clone() for name in archive.keys()}  # noqa: SIM118
        check_digest(path, _digest(header, tensors), checksum)
        facts: dict[str, Any] = header["facts"]
    return facts, tensors


def prefixed(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    """Tensors under names that start with ``prefix`` and a point."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    """The tensors whose names start with ``prefix`` and a point, without these."""
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _format(kind: str) -> str:
    return f"advmetric-deep-{kind.split()[-1]}"


def _digest(header: Mapping[str, Any], tensors: Tensors) -> str:
    return digest(
        header,
        (
            (f"{name} {tensor.dtype} {tuple(tensor.shape)}", tensor.reshape(-1).view(torch.uint8).numpy().data)
            for name, tensor in sorted(tensors.items())
        ),
    )
