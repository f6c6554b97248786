"""What the README and the examples promise runs as written."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
GUIDES = sorted([*(ROOT / "docs" / "guides").glob("*.md"), ROOT / "docs" / "index.md"])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(script: Path) -> str:
    """What a script prints, run in its folder; in this process, where warnings are errors."""
    printed = io.StringIO()
    with contextlib.chdir(script.parent), contextlib.redirect_stdout(printed):
        runpy.run_path(str(script), run_name="__main__")
    return printed.getvalue()


@pytest.fixture(scope="session")
def printed_by(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What some code prints in a new folder; the same code runs once."""

    @functools.cache
    def printed(code: str) -> str:
        script = tmp_path_factory.mktemp("code") / "script.py"
        script.write_text(code, encoding="utf-8")
        return run(script)

    return printed


def test_there_are_blocks_and_examples_to_check():
    assert len(BLOCKS) >= 2
    assert len(EXAMPLES) >= 2


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_readme_block_runs(block, printed_by):
    printed_by(block)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_blocks_of_a_guide_run_in_turn(guide, printed_by):
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    assert printed_by("\n".join(blocks)).strip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints_its_result(example, tmp_path):
    assert run(Path(shutil.copy(example, tmp_path))).strip()


def test_readme_s_figure_for_the_labels_example_is_what_it_prints(printed_by):
    (block,) = [block for block in BLOCKS if "NeighborAML" in block]
    (claimed,) = re.findall(r"# (0\.\d+); without", block)
    assert float(printed_by(block)) == pytest.approx(float(claimed), abs=0.006)
