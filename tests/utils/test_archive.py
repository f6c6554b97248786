"""npz files: atomic writes, one reader, and one error for every kind of damage."""

import io
import json
import zipfile

import numpy as np
import pytest

from advmetric.utils.archive import (
    DamagedFileError,
    atomic_write,
    read_archive,
    read_arrays,
    write_archive,
    write_arrays,
)


def npy(header: bytes, content: bytes = b"") -> bytes:
    header += b" " * (-len(header) % 64)
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def write_zip(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_what_is_written_is_read(tmp_path):
    arrays = {"a": np.arange(3.0), "b": np.array([["x"]]), "c": np.zeros((0, 2)), "d": np.array(5)}
    write_arrays(tmp_path / "a.npz", arrays)
    found = read_arrays(tmp_path / "a.npz")
    assert list(found) == list(arrays)
    for name, value in arrays.items():
        np.testing.assert_array_equal(found[name], value)
    assert list(read_arrays(tmp_path / "a.npz", ("c",))) == ["c"]


def test_an_absent_array_is_named(tmp_path):
    write_arrays(tmp_path / "a.npz", {"a": np.arange(3.0)})
    with pytest.raises(DamagedFileError, match=r"a\.npz.*it has no array 'b'"):
        read_arrays(tmp_path / "a.npz", ("b",))


def test_a_file_that_cannot_be_opened_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "absent.npz")


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (3",  # SyntaxError or TokenError
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-3,)}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}",  # OverflowError
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,)}",  # MemoryError
        b"{'descr': '<q9', 'fortran_order': False, 'shape': (3,)}",  # TypeError
        b"{'descr': 3, 'fortran_order': False, 'shape': (3,)}",
        b"{'descr': '<f8', 'shape': (3,)}",  # KeyError
        b"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
        b"[]",
        b"\xff\xfe",
        b"",
    ],
)
def test_every_damaged_header_is_one_error(tmp_path, header):
    write_zip(tmp_path / "a.npz", {"X.npy": npy(header, bytes(24))})
    with pytest.raises(DamagedFileError, match=r"a\.npz is not an npz file of plain arrays, or it is damaged"):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize("content", [b"", b"P", b"PK", b"a,b\n1,2\n", b"PK\x03\x04" + bytes(50), b"\x80\x04K\x01."])
def test_other_files_are_refused_and_nothing_is_unpickled(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DamagedFileError):
        read_arrays(tmp_path / "a.npz")


def test_a_member_that_is_no_array_is_named(tmp_path):
    write_zip(tmp_path / "a.npz", {"notes.txt": b"hello"})
    with pytest.raises(DamagedFileError, match=r"notes\.txt is not an array"):
        read_arrays(tmp_path / "a.npz")


def test_an_archive_that_expands_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    header = json.dumps({"format": "advmetric-metric", "version": 1, "sha256": ""})
    np.savez_compressed(path, header=np.array(header), components=np.zeros((2000, 2000)))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("the file was read"))
    with (
        pytest.raises(DamagedFileError, match=r"claims \d+ bytes, more than it can hold"),
        read_archive(path, "a metric"),
    ):
        pass


def test_sizes_beyond_what_deflate_can_do_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.zeros(1000))
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02") + 24  # the uncompressed size in the directory
    content[place : place + 4] = (2**31).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match="more than it can hold"):
        read_arrays(path)


def test_members_that_share_their_bytes_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    one = io.BytesIO()
    with zipfile.ZipFile(one, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (100000,)}", bytes(100_000)))
        entry = archive.infolist()[0]
        for number in range(2000):
            again = zipfile.ZipInfo(f"a{number}.npy")
            for name in ("compress_type", "CRC", "compress_size", "file_size", "header_offset"):
                setattr(again, name, getattr(entry, name))
            archive.filelist.append(again)
        archive._didModify = True
    path.write_bytes(one.getvalue())
    with pytest.raises(DamagedFileError, match="overlap"):
        read_arrays(path)


def test_a_changed_archive_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, "a metric", {"threshold": 1.0}, {"components": np.eye(2)})
    with read_archive(path, "a metric") as (facts, arrays):
        assert facts["threshold"] == 1.0
        np.testing.assert_array_equal(arrays["components"], np.eye(2))
    with pytest.raises(DamagedFileError, match="another format"), read_archive(path, "an index"):
        pass
    content = read_arrays(path)
    np.savez(path, **content | {"components": 2 * np.eye(2)})
    with pytest.raises(DamagedFileError, match="its checksum does not match"), read_archive(path, "a metric"):
        pass
    np.savez(
        path, **content | {"header": np.array(json.dumps({"format": "advmetric-metric", "version": 2, "sha256": ""}))}
    )
    with pytest.raises(DamagedFileError, match="saved by a newer advmetric"), read_archive(path, "a metric"):
        pass


@pytest.mark.parametrize("header", ["null", "[]", "{}", "5", "{", "\ud800", json.dumps({"format": 3}), "[" * 100_000])
def test_a_header_that_is_no_header_is_refused(tmp_path, header):
    path = tmp_path / "a.npz"
    np.savez(path, header=np.array(header.encode("utf-8", "surrogatepass").decode("utf-8", "replace")))
    with pytest.raises(DamagedFileError), read_archive(path, "a metric"):
        pass


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(b"old")

    def write_half():
        with atomic_write(path) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a.npz", b"old")]


def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "a.npz"

    def write():
        with atomic_write(path):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*a\.npz'"):
        write()
