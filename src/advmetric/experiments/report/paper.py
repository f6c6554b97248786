"""What the paper reports, to stand beside what is measured here."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["DATASET_IN_PAPER", "TABLE_1"]

DATASET_IN_PAPER = {
    "breast-cancer": "Breast-Cancer",
    "vehicle": "Vehicle",
    "german-credit": "German-Credit",
    "german-credit-numeric": "German-Credit",
    "image-segment": "Image-Segment",
    "isolet": "Isolet",
    "letters": "Letters",
    "mnist-4000": "MNIST",
}

_COLUMNS = ("Breast-Cancer", "Vehicle", "German-Credit", "Image-Segment", "Isolet", "Letters", "MNIST")
_ROWS = """
ITML     73 10  301 51  292 32   51 22   92 11   62  2  143 23
LMNN     52 12  234 21  274 13   27  8   32 12   42 20  174 20
FlatGeo  75 21  283 42  322 31   42 12   65  1   82 16  146 43
RVML     45  5  223 32  280 20   35  6   35 15   56 10  132  8
GMML     40 15  235 35  273 21   31  5   75 12   51  1  120  5
ERML     45  2  245 40  279 12   36  3   65  1   54 10  133 16
DRML     49 11  246 53  279 34   26  7   39 14   41 27  118 12
DRIFT    43  5  240 23  278 26   32  7   34 33   49 12  127 34
AML      44  1  203 21  251 12   24  4   29  9   32 20  105  1
"""
# Mean and standard deviation in thousandths, set by set.


def _parsed() -> Iterator[tuple[tuple[str, str], tuple[float, float]]]:
    for row in _ROWS.strip().splitlines():
        method, *numbers = row.split()
        for place, column in enumerate(_COLUMNS):
            yield (column, method), (int(numbers[2 * place]) / 1000, int(numbers[2 * place + 1]) / 1000)


TABLE_1: dict[tuple[str, str], tuple[float, float]] = dict(_parsed())
"""Mean and standard deviation of the error rate by (set, method)."""
