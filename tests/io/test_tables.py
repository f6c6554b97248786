"""Tables: the same columns from every format, whole or in parts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

from advmetric.io.tables import read_table, read_tables
from advmetric.io.text import TextFormat

FRAME = pandas.DataFrame(
    {"id": ["007", "008", "009"], "x": [1.5, np.nan, 3.0], "color": ["red", "blue", None], "n": [1, 2, 3]}
)


def write(path: Path) -> Path:
    if path.suffix == ".parquet":
        FRAME.to_parquet(path)
    elif path.suffix == ".xlsx":
        FRAME.to_excel(path, index=False)
    else:
        FRAME.to_csv(path, index=False)
    return path


def features(header):
    return [name for name in header if name != "id"]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.parquet", "t.xlsx"])
def test_every_format_gives_the_same(tmp_path, name):
    path = write(tmp_path / name)
    table = read_table(path, features)
    assert table.others["id"].tolist() == ["007", "008", "009"]
    np.testing.assert_array_equal(table.features["x"].numbers, [1.5, np.nan, 3.0])
    assert table.features["color"].as_text().tolist() == ["red", "blue", ""]
    np.testing.assert_array_equal(table.features["n"].numbers, [1, 2, 3])
    line = "" if name.endswith("parquet") else " (line 4)"
    assert table.place(2, "x") == f"{path}, row 3{line}, column 'x'"
    parts = list(read_tables(path, features, rows=2, keep=[]))
    assert [(len(part), part.first, part.others) for part in parts] == [(2, 0, {}), (1, 2, {})]
    assert parts[1].place(0, "x") == table.place(2, "x")


def test_excel_without_a_header_or_with_bad_names(tmp_path):
    path = tmp_path / "t.xlsx"
    FRAME.to_excel(path, index=False, header=False)
    table = read_table(path, lambda header: header[1:2], TextFormat(header=False))
    assert list(table.features) == ["2"]
    assert table.others["1"].tolist() == ["007", "008", "009"]
    assert "row 1 (line 1)" in table.place(0, "2")
    pandas.DataFrame([[1, 2]], columns=["a", "a"]).to_excel(path, index=False)
    with pytest.raises(ValueError, match="two columns called 'a'"):
        read_table(path, features)
    FRAME.to_excel(path)  # the index has no name
    with pytest.raises(ValueError, match="column 1 has no name"):
        read_table(path, features)
    FRAME[:0].to_excel(path, index=False)
    with pytest.raises(ValueError, match="no rows"):
        read_table(path, features)
    path.write_bytes(b"PK no workbook")
    with pytest.raises(ValueError, match="not an Excel file, or it is damaged"):
        read_table(path, features)


@pytest.mark.parametrize(("name", "module"), [("t.csv", "pyarrow"), ("t.xlsx", "pandas"), ("t.xlsx", "openpyxl")])
def test_what_is_not_installed_is_named(tmp_path, monkeypatch, name, module):
    path = write(tmp_path / name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {module}: pip install \"advmetric\[tables\]\""):
        read_table(path, features)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.xlsx"])
def test_damaged_files_end_in_value_errors(tmp_path, name):
    path = write(tmp_path / name)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    outcomes = set()
    for _ in range(60):
        content = bytearray(whole)
        place = int(rng.integers(len(content)))
        kind = rng.integers(3)
        if kind == 0:
            del content[place:]
        elif kind == 1:
            content[place] ^= int(rng.integers(1, 256))
        else:
            content[place:place] = bytes(rng.choice(list(b'",\n\0\xff'), 3).tolist())
        path.write_bytes(content)
        try:
            read_table(path, features)
            outcomes.add("read")
        except ValueError as error:
            outcomes.add(f"refused, with the name: {name in str(error)}")
    assert "refused, with the name: True" in outcomes
    assert "refused, with the name: False" not in outcomes
