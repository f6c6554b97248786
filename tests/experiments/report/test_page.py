"""The report and its tables: complete, self-contained, the same after kill -9, and sound in a real browser."""

import csv
import itertools
import json
import os
import re
import signal
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace

import numpy as np
import pytest
from selenium.webdriver import Keys

import advmetric
from advmetric.cli import main
from advmetric.experiments.catalogue import run_task
from advmetric.experiments.engine.plan import PROFILES, Plan
from advmetric.experiments.engine.store import Record, Store, Task
from advmetric.experiments.protocol import contenders
from advmetric.experiments.report.page import write_report
from advmetric.experiments.reproduce import command_line, reproduce
from advmetric.experiments.studies import few_pairs, ladder, wrong_labels
from advmetric.experiments.studies.table1 import compare
from reference.browser import Page
from reference.processes import quick_start
from reference.waiting import wait_until

ARGUMENTS = ["reproduce", "table1", "--quick", "--datasets", "breast-cancer,vehicle"]
ARGUMENTS += ["--methods", "Euclidean,RVML,GMML,AML", "--trials", "3", "--seed", "1"]
SECTIONS = ("Table 1", "Synthetic example", "What the metric does", "Sensitivity", "Adversaries", "Fewer pairs")
SECTIONS += ("Wrong labels", "Solvers", "Robustness", "Time", "How to rerun")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A complete report of a run still quicker than the quick one: two trials for Table 1, one of all else."""
    out = tmp_path_factory.mktemp("report")
    plan = Plan(profile="quick", trials=2, datasets=["breast-cancer", "vehicle"], methods=["Euclidean", "GMML", "AML"])
    tiny = replace(
        PROFILES["quick"], trials=2, draws=2, max_rows=150, tune_rows=120, max_pairs=300, tune_pairs=300, thin=12
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROFILES, "quick", tiny)
        patch.setattr(few_pairs, "STEPS", few_pairs.STEPS[2:])
        patch.setattr(wrong_labels, "STEPS", wrong_labels.STEPS[::3])
        patch.setattr(ladder, "ALPHAS", (0.0, 1.0))
        patch.setattr(ladder, "BETAS", (1.0,))
        reproduce(out, plan, ["table1"])
        reproduce(out, replace(plan, trials=1))
    return out


def made_up(errors, method_names, trials=6):
    """Records of Table 1 with given errors: {dataset: [mean of each method]}."""
    rng = np.random.default_rng(0)
    records = []
    for dataset, means in errors.items():
        for trial in range(trials):
            noise = 0.01 * rng.normal()
            for mean, method in zip(means, method_names, strict=True):
                result = {"error": mean + noise + 0.001 * rng.normal(), "params": {"t": 0.1}}
                result |= {"tune_and_fit_seconds": 1.0, "unconverged": 0}
                records.append(Record(Task("table1", dataset, method, trial), result))
    return records


def test_the_report_is_complete_and_self_contained(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    for section in SECTIONS:
        assert section in page, section
    assert page.count("<svg") == page.count("<figure>") == 8
    assert not re.search(r"(src|href)=['\"]?(https?:|//|file:)", page)
    assert "failed" not in page
    answer = page[page.index('class="headline"') : page.index("<h2>")]
    assert "Learning the distance seems to pay: over 2 sets, 5-NN errs in" in answer
    assert "By average rank over 2 sets" in answer
    assert "AML against GMML" in answer
    assert "quick run" in answer


def test_numbers_of_the_page_the_csv_and_the_store_are_the_same(folder):
    table = compare(tuple(r for r in Store(folder).records().values() if r.task.experiment == "table1"))
    with open(folder / "table1.csv", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 6
    page, tex = ((folder / name).read_text(encoding="utf-8") for name in ("report.html", "table1.tex"))
    for row in rows:
        errors = [
            r.result["error"]
            for t, r in Store(folder).records().items()
            if (t.experiment, t.dataset, t.method) == ("table1", row["dataset"], row["method"])
        ]
        assert float(row["mean"]) == pytest.approx(np.mean(errors), abs=1e-6)
        assert float(row["sd"]) == pytest.approx(np.std(errors, ddof=1), abs=1e-6)
        shown = f"{np.mean(errors):.3f} ± {np.std(errors, ddof=1):.3f}"
        assert shown in page
        assert shown.replace("0.", ".").replace("±", "\\pm") in tex
    assert set(table.best("vehicle")) <= {"GMML", "AML"}


def test_trials_are_paired_and_failures_leave_a_gap():
    records = made_up({"vehicle": [0.3, 0.2]}, ["Euclidean", "AML"])
    without = [r for r in records if not (r.task.method == "AML" and r.task.trial == 5)]
    failed = Record(Task("table1", "vehicle", "LMNN", 0), failure="MemoryError: no")
    table = compare((*without, failed))
    assert table.trials("vehicle") == [0, 1, 2, 3, 4]
    assert len(table.values("vehicle", "Euclidean")) == 5
    assert not len(table.values("vehicle", "LMNN"))
    assert table.ranked[0] == ["Euclidean", "AML"]
    assert " -- " in table.tex()


def test_a_method_that_misses_a_set_is_not_ranked_and_does_not_cost_the_others_that_set():
    names = ["Euclidean", "GMML", "AML", "LMNN"]
    means = {"vehicle": [0.3, 0.25, 0.2, 0.1], "letters": [0.06, 0.03, 0.05, 0.01]}
    records = made_up(means, names)
    partly = [r for r in records if (r.task.method, r.task.dataset) != ("LMNN", "letters")]
    alone = [Record(Task("table1", "isolet", "GMML", r.task.trial), r.result) for r in partly[:3]]
    table = compare((*partly, *alone))
    assert table.ranked[0] == ["Euclidean", "GMML", "AML"]
    assert table.ranked[1].tolist() == [3.0, 1.5, 1.5]
    assert table.complete == ["vehicle", "letters"]
    assert table.best("vehicle") == ["LMNN"]


def test_the_answer_says_who_wins_and_whether_it_is_significant():
    names = ["Euclidean", "GMML", "AML"]
    table = compare(tuple(made_up({"vehicle": [0.3, 0.25, 0.2], "letters": [0.06, 0.03, 0.05]}, names, trials=12)))
    text = " ".join(table.sentences())
    assert "AML has the lowest mean error on 1 of 2 sets (vehicle)" in text
    assert "significantly above it on letters (GMML)" in text
    assert "AML against GMML: -0.0150" in text or "AML against GMML: -0.0151" in text or "-0.0149" in text
    assert "significantly lower on vehicle, significantly higher on letters" in text
    assert table.p_values["vehicle", "AML"] == 1.0
    assert table.p_values["vehicle", "Euclidean"] < 0.05
    far = table.departures()
    assert far == [] or all(":" in line for line in far)


def test_the_headline_names_the_best_and_admits_defeat():
    names = ["Euclidean", "GMML", "AML"]
    said = compare(tuple(made_up({"vehicle": [0.3, 0.1, 0.2]}, names))).headline()
    assert re.fullmatch(
        r"Learning the distance pays: over one set, 5-NN errs in (9|10)\.\d % of the cases with GMML, the best by "
        r"average rank, (19|20)\.\d % with the paper's AML, and (29|30)\.\d % with the Euclidean distance\.",
        said,
    )
    said = compare(tuple(made_up({"vehicle": [0.1, 0.2, 0.3]}, names))).headline()
    assert said.startswith("Learning the distance does not pay here: over one set, 5-NN errs in ")
    assert compare(tuple(made_up({"vehicle": [0.1, 0.2]}, names[1:]))).headline() == ""


def exact(errors):
    """Records of Table 1 with these very errors: {method: {dataset: [of each trial]}}."""
    return tuple(
        Record(Task("table1", dataset, method, trial), {"error": error, "params": {}})
        for method, sets in errors.items()
        for dataset, values in sets.items()
        for trial, error in enumerate(values)
    )


def test_equal_means_are_equally_good():
    # The sums of these differ in the last digit.
    sets = {"LMNN": [0.1, 0.2, 0.3], "AML": [0.3, 0.2, 0.1], "Euclidean": [0.3, 0.3, 0.3]}
    assert np.mean(sets["LMNN"]) != np.mean(sets["AML"])
    table = compare(exact({method: {"vehicle": values} for method, values in sets.items()}))
    assert table.best("vehicle") == ["LMNN", "AML"]
    assert table.tex().count(r"\mathbf") == 2
    assert table.ranked[1].tolist() == [3.0, 1.5, 1.5]
    assert "AML has the lowest mean error on 1 of 1 sets (vehicle, equal with LMNN)." in table.sentences()


def test_the_headline_names_who_errs_least_on_average_beside_the_best_by_rank():
    means = {"Euclidean": (0.3, 0.3, 0.3), "AML": (0.1, 0.1, 0.28), "AMLCV": (0.11, 0.11, 0.1)}
    sets = ("vehicle", "letters", "isolet")
    errors = {method: {d: [mean] * 6 for d, mean in zip(sets, row, strict=True)} for method, row in means.items()}
    assert compare(exact(errors)).headline() == (
        "Learning the distance pays: over 3 sets, 5-NN errs in 16.0 % of the cases with AML, the best by average rank, "
        "10.7 % with AMLCV, which errs least on average, and 30.0 % with the Euclidean distance."
    )


def test_departures_from_the_paper_are_named():
    table = compare(tuple(made_up({"vehicle": [0.5, 0.203]}, ["ITML", "AML"])))
    assert table.departures() == [f"vehicle: ITML {table.mean('vehicle', 'ITML') - 0.301:+.3f}"]


def test_failed_runs_are_named_in_the_report(tmp_path):
    store = Store(tmp_path)
    for record in made_up({"vehicle": [0.3, 0.2]}, ["Euclidean", "AML"]):
        store.append(record)
    store.append(Record(Task("table1", "vehicle", "LMNN", 0), failure="ValueError: <no> way (lmnn.py:1)"))
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Runs that failed: 1" in page
    assert "LMNN on vehicle, trial 0: ValueError: &lt;no&gt; way" in page


def test_an_empty_folder_has_no_report(tmp_path):
    with pytest.raises(FileNotFoundError, match="no results"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_in_the_report_asks_for_the_same():
    plan = Plan(profile="quick", datasets=["vehicle"], methods=["AML", "GMML"], trials=4, seed=3)
    assert command_line(plan, ["table1"]) == (
        "advmetric reproduce table1 --quick --datasets vehicle --methods AML --methods GMML --trials 4 --seed 3"
    )


# --- kill -9 ----------------------------------------------------------------------------------------------


_STARTED = itertools.count()


def work_and_hang(task, data_home=None):
    """Make as many runs as asked for; the next one never ends."""
    if next(_STARTED) >= int(os.environ["RUNS_BEFORE_HANGING"]):
        threading.Event().wait()
    return run_task(task, data_home)


def command_that_hangs(out, jobs, runs):
    """The command, whose processes hang in a run after having made that many."""
    os.environ["RUNS_BEFORE_HANGING"] = str(runs)
    sys.modules[reproduce.__module__].run_task = work_and_hang
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        main([*ARGUMENTS, "--jobs", str(jobs), "--out", str(out)])


def run_and_kill(out, jobs, runs):
    """Kill the command when it has made that many more runs and is in the middle of the next."""
    target = len(Store(out).records()) + runs
    process = quick_start().Process(target=command_that_hangs, args=(out, jobs, runs))
    process.start()
    wait_until(lambda: (out / "claims.lock").exists() and len(Store(out).records()) >= target)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    process.close()


def timeless(out):
    """The page without its times."""
    page = (out / "report.html").read_text(encoding="utf-8")
    return re.sub(r"<td class=\"time\">.*?</td>", "<td></td>", page)


@pytest.mark.parametrize("kills", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_after_kills_the_report_is_that_of_an_undisturbed_run(tmp_path, cli, kills):
    undisturbed, tried = tmp_path / "undisturbed", tmp_path / "tried"
    code, out, _ = cli(*ARGUMENTS, "--jobs", "1", "--out", undisturbed)
    assert (code, out.strip()) == (0, str(undisturbed / "report.html"))
    for attempt in range(kills):
        run_and_kill(tried, jobs=2 if attempt in (1, 7) else 1, runs=min(attempt, 1))
        if attempt == 2:
            with open(tried / "results.jsonl", "ab") as stream:  # as if killed in the middle of a line
                stream.write(b'{"task":{"experiment":"table1","data')
    assert kills - 1 <= len(Store(tried).records()) < 2 * 4 * 3
    assert cli(*ARGUMENTS, "--jobs", "1", "--out", tried)[0] == 0
    assert timeless(tried) == timeless(undisturbed)
    assert (tried / "table1.csv").read_bytes() == (undisturbed / "table1.csv").read_bytes()
    lines = (tried / "results.jsonl").read_bytes().splitlines()
    done = [json.loads(line)["task"] for line in lines if line.endswith(b"}")]
    assert len({json.dumps(task, sort_keys=True) for task in done}) == len(done) == 2 * 4 * 3


# --- in a browser -----------------------------------------------------------------------------------------


@pytest.fixture
def page(folder, chromium):
    """The report in Chromium, all sections open; the console must stay empty and nothing may be fetched."""
    shown = Page(chromium, folder / "report.html").show()
    shown.run("document.querySelectorAll('details').forEach(part => { part.open = true })")
    yield shown
    assert shown.messages() == []
    assert shown.requests() == []


def sort_state(page):
    return page.run(
        "return [...document.querySelectorAll('section table')[0].tHead.rows[0].cells].map(c => c.ariaSort)"
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_fits_the_width(page, width):
    page.resize(width, 800)
    page.wait("return document.documentElement.clientWidth === arguments[0]", width)
    assert page.run("return document.documentElement.scrollWidth") <= width
    sizes = page.run(
        "return [...document.querySelectorAll('figure svg')].map(s => [s.clientWidth, s.getBoundingClientRect().right])"
    )
    assert len(sizes) == 8
    assert all(wide > 100 and right <= width for wide, right in sizes)


def test_tables_sort_by_mouse_and_keyboard(page):
    table = "section table"
    before = page.table(table)
    button = page.find("section th:nth-child(3) button")
    button.click()
    means = [float(row[2].split()[0]) for row in page.table(table)[1:]]
    assert means == sorted(means)
    assert sort_state(page)[2] == "ascending"
    button.send_keys(Keys.ENTER)
    assert [float(row[2].split()[0]) for row in page.table(table)[1:]] == sorted(means, reverse=True)
    assert sort_state(page) == [None, None, "descending", None]
    page.find("section th:first-child button").send_keys(Keys.SPACE)
    rows = page.table(table)
    assert [row[0] for row in rows[1:]] == ["AML", "Euclidean", "GMML"]
    assert sorted(map(tuple, rows)) == sorted(map(tuple, before))


def test_sections_fold_and_print_whole(page):
    count = "return document.querySelectorAll('section > details[open]').length"
    everything = page.run(count)
    page.find("#fold").click()
    assert page.run(count) == 0
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    assert page.run(count) == everything
    page.run("window.dispatchEvent(new Event('afterprint'))")
    assert page.run(count) == 0
    page.find("nav li:nth-child(2) a").click()
    page.wait("return document.querySelectorAll('section > details')[1].open")


def test_figures_take_the_colours_of_the_page(page):
    ink = "return getComputedStyle(document.querySelector('figure svg')).fill"
    light = page.run(ink)
    page.media("dark")
    assert page.run(ink) != light
    assert page.run("return document.querySelectorAll('figure svg [style*=\"#ffffff\"]').length") == 0
    page.media("dark", "print")  # on paper always dark on white
    assert page.run(ink) == light


def test_the_report_is_accessible(page):
    assert page.violations() == []


def test_contenders_are_all_methods_and_nca():
    assert list(contenders())[-5:] == ["NCA", "AML", "PairAML", "NeighborAML", "AMLCV"]
    assert len(contenders()) == len(advmetric.methods()) + 2
