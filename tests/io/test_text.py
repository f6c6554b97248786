"""Text tables: what a file may look like, and the line of what is wrong with it."""

from __future__ import annotations

import pytest

from advmetric.io.sources import open_source
from advmetric.io.text import TextFormat, line_of_row, read_header, read_text
from advmetric.utils.errors import UsageError


@pytest.fixture
def read(tmp_path):
    """Read a text; return rows, each a list of strings."""

    def run(content, rows=None, **form):
        path = tmp_path / "some.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        source = open_source(path)
        header = read_header(source, TextFormat(**form))
        tables = list(read_text(source, header, rows))
        return [list(row.values()) for table in tables for row in table.to_pylist()]

    return run


@pytest.mark.parametrize("rows", [None, 1, 2])
def test_quotes_blank_rows_and_line_ends(read, rows):
    text = '\ufeffa,b\r\n1,"x, ""y""\r\nz"\r\n\r\n   \r\n , \r\n,\r\n2,w'
    assert read(text, rows) == [["1", 'x, "y"\r\nz'], ["2", "w"]]


def test_parts_have_as_many_rows_as_asked(read, tmp_path):
    text = "a,b\n" + "".join(f"{i},x\n" for i in range(25_000))
    assert read(text, 777) == read(text) == [[str(i), "x"] for i in range(25_000)]
    source = open_source(tmp_path / "some.csv")
    sizes = [table.num_rows for table in read_text(source, read_header(source, TextFormat()), 777)]
    assert sizes == [777] * 32 + [25_000 - 32 * 777]


@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('a,b\n1,2\n3,"4\n5,6\n7,8\n', "some.csv, line 3: a quote is not closed"),  # in the last column
        ('a,b\n1,2\n"3,4\n5,6\n7,8\n', "some.csv, line 3: a quote is not closed"),
        ('a,b\n1,2\n3,"4' + "\n5,6" * 100_000, "some.csv, line 3: a quote is not closed"),
        ("a,b\n1,2\n\n3\n", "some.csv, line 4 has 1 values, but the header has 2 names"),
        ("a,b\n1,2\n3,4,5\n", "some.csv, line 3 has 3 values, but the header has 2 names"),
        (b"a,b\n1,2\n3,\xff\n", "some.csv is not UTF-8"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(read, content, said, rows):
    with pytest.raises(ValueError, match=said):
        read(content, rows)


def test_a_stray_quote_within_a_value_is_no_error(read):
    assert read('a,b\n1,5" pipe\n2,x\n') == [["1", '5" pipe'], ["2", "x"]]


def test_without_a_header_columns_are_numbered(read, tmp_path):
    assert read("1.5,2,a\n3,4,b\n", header=False) == [["1.5", "2", "a"], ["3", "4", "b"]]
    assert read_header(open_source(tmp_path / "some.csv"), TextFormat(header=False)).names == ["1", "2", "3"]
    with pytest.raises(ValueError, match="line 2 has 2 values, but the first row has 3"):
        read("1.5,2,a\n3,4\n", header=False)


@pytest.mark.parametrize("text", ["1,2,3\n4,5,6\n", "5.1,3.5,setosa\n4.9,3.0,setosa\n"])
def test_a_first_line_of_data_is_no_header(read, text):
    with pytest.raises(ValueError, match=r"first line is data.*--no-header"):
        read(text)


def test_columns_named_by_whole_numbers_are_a_header(read):
    assert read("0,1,2,label\n9,8,7,a\n") == [["9", "8", "7", "a"]]


def test_the_decimal_sign_is_not_taken_for_the_delimiter(read):
    assert read("a;b\n1,5;2,5\n3,5;4,5\n", decimal=",") == [["1,5", "2,5"], ["3,5", "4,5"]]
    for form in ({"delimiter": "ab"}, {"decimal": "x"}, {"decimal": ",", "delimiter": ","}):
        with pytest.raises(UsageError):
            TextFormat(**form)


def test_lines_of_rows_count_what_is_skipped(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text('a,b\n1,"x\ny"\n\n2,z\n')
    source = open_source(path)
    header = read_header(source, TextFormat())
    assert [line_of_row(source, header, row) for row in range(3)] == [3, 5, None]
