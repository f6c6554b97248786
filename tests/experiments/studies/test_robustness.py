"""Robustness: what the report says follows from the records."""

import pytest

from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.report.content import Paragraph, Table
from advmetric.experiments.studies import robustness
from advmetric.experiments.studies.robustness import DATASETS, EPSILONS, FAMILIES, SETTINGS, dominating, frontier

DIAL = list(FAMILIES["NeighborAML"])
GMML = list(FAMILIES["GMML"])


def record(method, clean, attacked, trial=0, dataset="vehicle"):
    curve = [attacked] * len(EPSILONS)
    result = {"error": clean, "attacked_error": curve, "uncertified": curve, "worst_auc": curve}
    return Record(Task("robustness", dataset, method, trial, "full"), result)


def test_who_is_beaten_by_no_setting_of_the_dial_is_named():
    points = {
        DIAL[0]: (0.1, 0.5),
        DIAL[1]: (0.2, 0.3),
        "LMNN": (0.1, 0.6),
        "ARML": (0.15, 0.4),
        "NeighborAML": (0.0, 0.0),
    }
    assert dominating(points) == {"ARML": pytest.approx(0.05)}
    assert dominating(points | {DIAL[2]: (0.0, 0.41)}) == {"ARML": pytest.approx(0.01)}
    assert dominating(points | {DIAL[2]: (0.15, 0.4)}) == {}
    arml = points["ARML"]
    assert dominating(points | {DIAL[2]: (arml[0] + 1e-16, arml[1])}) == {}  # equal but for rounding


def test_a_family_is_shown_by_the_settings_that_no_other_of_it_beats():
    points = {GMML[0]: (0.1, 0.5), GMML[1]: (0.2, 0.5), GMML[2]: (0.3, 0.2), DIAL[0]: (0.0, 0.1), "LMNN": (0.9, 0.9)}
    assert frontier(points) == [DIAL[0], GMML[0], GMML[2], "LMNN"]


@pytest.mark.parametrize(("attacked", "words"), [(0.4, "every other method"), (0.2, "in one of them): ARML (0.1000).")])
def test_the_section_says_whether_the_dial_beats_all(attacked, words):
    records = [record(DIAL[0], 0.1, 0.3, trial) for trial in range(2)]
    records += [record("ARML", 0.2, attacked, trial) for trial in range(2)]
    records.append(record("ARML", 0.0, 0.0, 2))  # a trial that the dial lacks does not count
    section = robustness.section(records)
    assert words in [block.text for block in section.blocks if isinstance(block, Paragraph)][1]
    assert words in section.answers[0]
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert len(table.rows) == 2


def test_large_sets_are_left_out_of_the_quick_profile():
    assert {task.dataset for task in robustness.tasks(Plan())} == set(DATASETS)
    quick = robustness.tasks(Plan(profile="quick"))
    assert {task.dataset for task in quick} == {"vehicle", "image-segment"}
    assert {task.dataset for task in robustness.tasks(Plan(datasets=["image-segment"]))} == {"image-segment"}
    assert "ARML" in {task.method for task in quick}
    assert {task.method for task in robustness.tasks(Plan())} > set(SETTINGS)
