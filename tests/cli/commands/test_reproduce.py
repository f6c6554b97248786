"""``advmetric reproduce``: what is said where there is nothing to run, or where a run failed."""

from __future__ import annotations

import pytest

from advmetric.cli.commands import reproduce as module
from advmetric.experiments.engine.store import Record, Task


@pytest.mark.parametrize("profile", [[], ["--quick"]])
def test_a_dataset_that_an_experiment_does_not_have_is_named_with_those_it_has(refused, tmp_path, profile):
    out = tmp_path / "results"
    said = refused(2, "reproduce", "roc", "--datasets", "vehicle", "--out", out, *profile)
    assert "roc has no dataset 'vehicle'; there: digits-unseen, letters-unseen" in said
    assert not out.exists()
    said = refused(2, "reproduce", "roc", "deep", "--datasets", "vehicle", "--out", out)
    assert "roc and deep have no dataset 'vehicle'" in said


@pytest.mark.parametrize(("count", "said"), [(1, "1 run failed: "), (2, "2 runs failed: ")])
def test_failed_runs_are_counted(cli, monkeypatch, tmp_path, count, said):
    def fail(out, plan, groups, *, display, **_):
        for trial in range(count):
            display.failed(Record(Task("table1", "vehicle", "LMNN", trial), failure="ValueError: no way"))
        return out / "report.html"

    monkeypatch.setattr(module, "reproduce_experiments", fail)
    code, _, err = cli("reproduce", "table1", "--out", tmp_path)
    assert code == 1
    assert err.splitlines()[-1].startswith(said)
