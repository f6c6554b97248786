"""The page for users of metric-learn, run in both libraries on the same data."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "compare_metric_learn.py"
PAGE = (ROOT / "docs" / "guides" / "metric-learn.md").read_text(encoding="utf-8")
CLASSES = ["ITML", "LMNN", "NCA", "RCA", "Covariance", "LFDA", "MMC", "SDML", "SCML", "LSML", "MLKR"]
CLASSES += [f"{name}_Supervised" for name in ("ITML", "RCA", "MMC", "SDML", "SCML", "LSML")]


def test_the_page_has_every_class_of_metric_learn():
    assert [name for name in CLASSES if f"`{name}" not in PAGE and f"### {name}\n" not in PAGE] == []


def test_every_comparison_of_the_page_is_found():
    found = [match[0] for match in runpy.run_path(str(TOOL))["EXAMPLE"].findall(PAGE)]
    assert len(found) == PAGE.count("```py\n") == len(re.findall("<!-- compare", PAGE)) == 10
    assert "-theirs" not in PAGE


@pytest.mark.slow
def test_both_libraries_learn_what_the_page_says():
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, there, here in re.findall(r"(\w+): 5-NN error (\S+) there, (\S+) here", done.stdout):
        row = re.search(rf"\| `{name}[^|]*\|[^|]*\| (\S+) \| (\S+) \|", PAGE)
        assert (float(row[1]), float(row[2])) == pytest.approx((float(there), float(here)), abs=0.015)
