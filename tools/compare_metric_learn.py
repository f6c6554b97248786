"""Run the code of docs/guides/metric-learn.md in both libraries on the same data, and compare what they learn.

    python tools/compare_metric_learn.py [--write]

metric-learn 0.7.0 does not run on current scikit-learn, so this makes a virtual environment of its own (.venv-peers,
beside the sources; advmetric is taken from the sources) and runs itself there. A comment before two blocks says how
they compare: "M equal within 1e-6", "M proportional within 1e-6", or "error" (5-NN on the test rows). ``--write`` puts
measured errors into the table of the page. The exit code is 1 if two blocks disagree, or if an error here is more than
0.02 above the one there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks" / "peers"))

from environment import ROOT, is_among_peers, run_among_peers

PAGE = ROOT / "docs" / "guides" / "metric-learn.md"
EXAMPLE = re.compile(r"<!-- compare: (\S+), (.+?) -->\n```py\n(.*?)```\n```python\n(.*?)```", re.DOTALL)
WORSE = 0.02
"""Four rows of the test part: less is chance."""


def knn_error(names: dict[str, Any], M: Any) -> float:
    """Share of the test rows that their 5 nearest training rows under M give another class."""
    import numpy as np
    from sklearn.neighbors import KNeighborsClassifier

    e, U = np.linalg.eigh(M)
    L = (U * np.sqrt(np.clip(e, 0.0, None))).T
    model = KNeighborsClassifier(5).fit(names["X"] @ L.T, names["y"])
    return float(1.0 - model.score(names["X_test"] @ L.T, names["y_test"]))


def compare(page: str) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """Return the errors there and here, by example, and what disagrees."""
    import numpy as np

    start = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert start
    errors, wrong = {}, []
    for name, how, theirs, ours in EXAMPLE.findall(page):
        found = []
        for code in (theirs, ours):
            names: dict[str, Any] = {}
            with contextlib.redirect_stdout(io.StringIO()):
                exec(start.group(1) + code, names)
            found.append(names)
        if how == "error":
            there, here = (knn_error(names, names["M"]) for names in found)
            errors[name] = there, here
            print(f"{name}: 5-NN error {there:.3f} there, {here:.3f} here")
            if here > there + WORSE:
                wrong.append(name)
            continue
        variable, relation, tolerance = re.fullmatch(r"(\w+) (equal|proportional) within (\S+)", how).groups()  # type: ignore[union-attr]
        A, B = (np.asarray(names[variable], dtype=float) for names in found)
        if relation == "proportional":
            A, B = A / np.trace(A), B / np.trace(B)
        gap = float(np.abs(A - B).max() / np.abs(A).max())
        print(f"{name}: {variable} {relation}, relative difference {gap:.1e}")
        if not gap <= float(tolerance):
            wrong.append(name)
    return errors, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the measured errors into the page")
    given = parser.parse_args()
    if not is_among_peers():
        return run_among_peers(__file__)
    warnings.simplefilter("ignore")
    page = PAGE.read_text(encoding="utf-8")
    errors, wrong = compare(page)
    if given.write:
        for name, (there, here) in errors.items():
            row = rf"(\| `{name}[^|]*\|[^|]*\|)[^|]*\|[^|]*\|"
            page = re.sub(row, rf"\g<1> {there:.3f} | {here:.3f} |", page, count=1)
        PAGE.write_text(page, encoding="utf-8")
    for name in wrong:
        print(f"{name} disagrees", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
