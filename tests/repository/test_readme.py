"""What the README and the examples promise runs as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(code: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, *code], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_blocks_and_examples_to_check():
    assert len(BLOCKS) >= 2
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_readme_block_runs(block, tmp_path):
    run(["-c", block], tmp_path)


@pytest.mark.parametrize("guide", sorted((ROOT / "docs").glob("guide-*.md")), ids=lambda path: path.stem)
def test_the_blocks_of_a_guide_run_in_turn(guide, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    assert run(["-c", "\n".join(blocks)], tmp_path).strip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints_its_result(example, tmp_path):
    assert run([str(example)], tmp_path).strip()


def test_readme_s_figure_for_the_labels_example_is_what_it_prints(tmp_path):
    (block,) = [block for block in BLOCKS if "AMLCV" in block]
    (claimed,) = re.findall(r"# (0\.\d+); without", block)
    assert float(run(["-c", block], tmp_path)) == pytest.approx(float(claimed), abs=0.006)
