"""``advmetric explore`` writes one page, and refuses what it cannot show before any work."""

import json
import re

import numpy as np
import pandas
import pytest

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
FRAME = pandas.DataFrame(
    {"x": RNG.normal(size=90) + Y, "z": RNG.normal(size=90), "color": np.array(["red", "blue"])[Y % 2], "class": Y}
)
QUICK = ("--method", "GMML", "--no-tune")


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("cars.csv", index=False)
    x = FRAME["x"].to_numpy()
    pairs = {"same": np.where(Y[:45] == Y[45:], 1, -1), "a_x": x[:45], "b_x": x[45:]}
    pairs["same"][::2] *= -1
    pandas.DataFrame(pairs).to_csv("pairs.csv", index=False)
    return tmp_path


def view_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1))


def test_a_table_with_labels(done, work):
    out = done("explore", "cars.csv", "--label", "class", *QUICK)
    assert "Wrote cars.explore.html" in out
    view = view_of(work / "cars.explore.html")
    assert view["classes"] == ["0", "1", "2"]
    assert set(view["features"]["names"]) == {"x", "z", "color=red"}
    assert view["answer"] in out


def test_fit_and_explore_give_the_same_verdict(done):
    found = set()
    for seed in range(4):
        options = ("cars.csv", "--label", "class", *QUICK, "--seed", seed, "--force")
        verdict = re.search(r" %: (.+)\.\n", done("explore", *options)).group(1)
        assert (f": {verdict}.\n" in done("fit", *options)) == (verdict != "learning helps here")
        found.add(verdict)
    assert len(found) > 1


def test_pairs(done, work):
    done("explore", "pairs.csv", "--pairs", "same", *QUICK, "--out", "p.html")
    assert view_of(work / "p.html")["kind"] == "pairs"


def test_the_page_needs_nothing_else(done, work):
    done("explore", "cars.csv", "--label", "class", *QUICK)
    head = (work / "cars.explore.html").read_text(encoding="utf-8").partition("<script>")[0]
    assert not re.search(r'(?:src|href)="(?!data:|#)', head)


def test_an_old_page_is_kept_unless_forced(done, refused):
    done("explore", "cars.csv", "--label", "class", *QUICK)
    assert "give --force" in refused(1, "explore", "cars.csv", "--label", "class", *QUICK)
    done("explore", "cars.csv", "--label", "class", *QUICK, "--force")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--test", "0"], "not a share"),
        (["--out", "page.csv"], "must end in .html"),
        (["--method", "LMMN"], "LMNN"),
        (["--out", "-"], "written to a file"),
    ],
)
def test_wrong_options(refused, options, said):
    assert said in refused(2, "explore", "cars.csv", "--label", "class", *options)


def test_without_plotly_nothing_is_learned(refused, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    assert 'pip install "advmetric[explore]"' in refused(1, "explore", "cars.csv", "--label", "class")
