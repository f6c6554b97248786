"""Progress bars and log lines: what a user sees of long work."""

import io
import logging
import sys
from unittest import TestCase

import pytest

from advmetric import AML, AMLCV
from advmetric.utils.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_switched_off_bar_writes_nothing(capsys):
    assert list(progress(iter("abc"), 3, "work", enabled=False)) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_one_line_is_redrawn_to_the_end(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert list(progress(range(4), 4, "work")) == [0, 1, 2, 3]
    drawn = terminal.getvalue()
    assert drawn.count("\r") == 4
    assert drawn.count("\n") == 1
    assert drawn.endswith("\n")
    assert "\rwork [#####               ] 1/4" in drawn
    assert "[####################] 4/4" in drawn
    assert drawn.rstrip().endswith("0 s left")


@pytest.mark.parametrize("columns", [24, 40, 80])
def test_no_line_is_wider_than_the_terminal(monkeypatch, columns):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", str(columns))
    list(progress(range(3), 3, "a search of many settings and folds"))
    assert {len(line.rstrip("\n")) for line in terminal.getvalue().split("\r")[1:]} == {columns - 1}


def test_in_a_file_a_line_is_written_at_every_tenth(capsys):
    assert sum(progress(range(1000), 1000, "work")) == 499500
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1].startswith("work [####################] 1000/1000")


def test_nothing_to_do_draws_nothing(capsys):
    assert list(progress([], 0, "work")) == []
    assert capsys.readouterr().err == ""


def test_items_are_passed_on_one_by_one():
    bar = progress(iter([1, 2]), 2, "work")
    assert next(bar) == 1
    assert next(bar) == 2
    with pytest.raises(StopIteration):
        next(bar)


@pytest.fixture
def logger():
    """The library's logger, put back as it was."""
    found = logging.getLogger("advmetric")
    level, handlers = found.level, list(found.handlers)
    yield found
    found.setLevel(level)
    found.handlers[:] = handlers


@pytest.mark.parametrize("solver", ["geodesic", "projected-gradient", "alternating"])
def test_verbose_aml_logs_each_iteration(solver, vehicle, logger):
    with TestCase().assertLogs("advmetric", "INFO") as log:
        learned = AML(solver=solver, verbose=1).fit(vehicle.X[:, :4], vehicle.y)
    lines = [record.getMessage() for record in log.records]
    assert lines[0].startswith(f"AML {solver} iteration 0: objective = ")
    assert len(lines) == len(learned.objective_)
    assert float(lines[0].split("objective = ")[1].split(",")[0]) == pytest.approx(learned.objective_[0], rel=1e-8)
    assert float(lines[-1].split("objective = ")[1].split(",")[0]) == pytest.approx(learned.objective_[-1], rel=1e-8)


def test_aml_is_silent_by_default(vehicle, capsys):
    with TestCase().assertNoLogs("advmetric"):
        AML().fit(vehicle.X, vehicle.y)
        AMLCV(alphas=1, betas=1, ts=0.5, cv=2).fit(vehicle.X, vehicle.y)
    assert capsys.readouterr() == ("", "")


def test_verbose_amlcv_shows_a_bar_over_folds(vehicle, capsys):
    AMLCV(alphas=[0, 1], betas=1, ts=0.5, n_components=[None, 2], cv=3, verbose=1).fit(vehicle.X, vehicle.y)
    err = capsys.readouterr().err
    assert err.startswith("AMLCV, geometric [######              ] 1/3")
    assert "3/3" in err


def test_each_line_is_shown_once_whether_logging_is_set_up_or_not(vehicle, capsys, logger, monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # pytest's own
    logger.handlers.clear()
    for _ in range(2):
        capsys.readouterr()
        AML(verbose=1).fit(vehicle.X[:, :4], vehicle.y)
        without = capsys.readouterr().err
    logger.handlers.clear()
    logging.basicConfig(format="mine %(message)s")
    AML(verbose=1).fit(vehicle.X[:, :4], vehicle.y)
    with_logging = capsys.readouterr().err
    assert without.count("AML geodesic iteration 0: objective = ") == without.count("iteration 0") == 1
    assert with_logging.count("iteration 0") == with_logging.count("mine AML geodesic iteration 0") == 1
