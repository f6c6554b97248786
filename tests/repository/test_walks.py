"""Pages that show commands with their output: the commands run as written and print what the page says."""

import contextlib
import re
import shlex
from pathlib import Path

import pytest

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def steps(page):
    """(kind, text, output) in the order of the page: Python blocks, and commands with what they print."""
    found = []
    for kind, block in re.findall(r"```(python|console)\n(.*?)```", page, re.DOTALL):
        if kind == "python":
            found.append(("python", block, ""))
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith("advmetric "):
                found.append(("command", command, output))
    return found


def assert_same_output(printed, shown):
    """The same words; numbers may differ in what another processor rounds differently."""
    assert NUMBER.sub("0", printed) == NUMBER.sub("0", shown)
    numbers, expected = (list(map(float, NUMBER.findall(text))) for text in (printed, shown))
    assert numbers == pytest.approx(expected, rel=0.03, abs=0.012)


@pytest.mark.parametrize(
    ("guide", "commands"),
    [("command-line", 3), pytest.param("first-steps", 5, marks=pytest.mark.slow)],
)
def test_a_page_of_commands_prints_what_it_shows(guide, commands, cli, tmp_path, capsys):
    found = steps((GUIDES / f"{guide}.md").read_text(encoding="utf-8"))
    assert sum(kind == "command" for kind, _, _ in found) == commands
    with contextlib.chdir(tmp_path):
        for kind, text, output in found:
            if kind == "python":
                exec(text, {})
                continue
            code, printed, errors = cli(*shlex.split(text)[1:])
            assert code == 0, errors
            assert_same_output(printed, output)
