"""Progress: silent at first, then lines; redrawn on a terminal."""

from __future__ import annotations

import io
import sys
import time

import pytest

from advmetric.workflows import stages
from advmetric.workflows.stages import Stage, stage


class Terminal(io.StringIO):
    def isatty(self):
        return True


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_quick_says_nothing(capsys):
    with stage("Quick"):
        pass
    assert capsys.readouterr().err == ""


def test_what_takes_long_says_so_in_lines(monkeypatch, capsys):
    monkeypatch.setattr(stages, "QUIET", 0.0)
    monkeypatch.setattr(stages, "PAUSE", 0.01)
    said = []
    with stage("Judging", 4) as current:
        current.advance(2)
        until(lambda: said.append(capsys.readouterr().err) or sum(text.count("Judging: 2 of 4") for text in said) >= 2)
    assert "Judging: 2 of 4, " in "".join(said)
    assert all(line.startswith("Judging: ") for line in "".join(said).splitlines())


def test_on_a_terminal_one_line_is_redrawn_and_ended(monkeypatch):
    monkeypatch.setattr(stages, "QUIET", 0.0)
    monkeypatch.setattr(stages, "TERMINAL_PAUSE", 0.01)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with stage("Fitting"):
        until(lambda: sys.stderr.getvalue().count("\r") >= 2)
    assert sys.stderr.getvalue().count("\n") == 1
    assert sys.stderr.getvalue().endswith("\n")


def test_an_error_ends_the_drawing(monkeypatch, capsys):
    with pytest.raises(ValueError, match="inner"), stage("Fitting"):
        raise ValueError("inner")


def test_the_time_left_follows_from_the_steps(monkeypatch):
    current = Stage("Tuning", 10)
    monkeypatch.setattr(stages.time, "monotonic", lambda: current._started + 8.0)
    assert current.line() == "Tuning: 0 of 10, 8 s"
    current.advance(4)
    assert current.line() == "Tuning: 4 of 10, 8 s, 12 s left"
