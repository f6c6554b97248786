"""Where tables come from: suffixes, compression, standard input and pipes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from pathlib import Path

import pyarrow
import pytest

from advmetric.io.sources import open_source, stem_of
from advmetric.utils.errors import UsageError

CONTENT = b"x,class\n1.5,a\n2.5,b\n"
WRITE = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pyarrow.compress(content, "zstd", asbytes=True),
}


def content_of(source):
    with source.open() as stream:
        return stream.read()


@pytest.mark.parametrize("suffix", WRITE)
def test_compressed_files_are_read_again_and_again(tmp_path, suffix):
    path = tmp_path / f"cars.csv{suffix}"
    path.write_bytes(WRITE[suffix](CONTENT))
    source = open_source(path)
    assert content_of(source) == content_of(source) == CONTENT
    assert stem_of(path) == "cars"


@pytest.mark.parametrize("suffix", WRITE)
def test_damage_of_compressed_files_is_one_kind_of_error(tmp_path, suffix):
    path = tmp_path / f"cars.csv{suffix}"
    for content in (CONTENT, WRITE[suffix](CONTENT * 1000)[:-12]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"is not a {suffix} file, or it is damaged"):
            content_of(open_source(path))
    path.unlink()
    with pytest.raises(FileNotFoundError) as found:
        content_of(open_source(path))
    assert found.value.filename == str(path)


def test_other_suffixes_are_a_wrong_command(tmp_path):
    for name in ("cars.ods", "cars", "cars.parquet.gz", "cars.gz"):
        with pytest.raises(UsageError, match=r"must end in \.csv.*\.xlsx"):
            open_source(tmp_path / name)


def test_standard_input_is_copied_and_says_what_it_is(monkeypatch):
    for content, kind in ((CONTENT, "text"), (b"PAR1...", "parquet"), (b"PK\x03\x04", "excel")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        source = open_source(Path("-"))
        assert (source.format, source.name) == (kind, "standard input")
        assert content_of(source) == content_of(open_source(Path("-"))) == content
    assert stem_of(Path("-")) == "stdin"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_copied(tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(CONTENT,))
    writer.start()
    source = open_source(path)
    writer.join()
    assert content_of(source) == content_of(source) == CONTENT


def test_zst_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "cars.csv.zst").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="advmetric\\[tables\\]"):
        content_of(open_source(tmp_path / "cars.csv.zst"))
