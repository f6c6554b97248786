"""``advmetric fit`` on files as users have them: categories, gaps, groups, any format; and what it asks or says."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pandas
import pytest
from sklearn.preprocessing import StandardScaler

from advmetric import GMML, Mahalanobis
from advmetric.cli.commands import fit as fit_command
from advmetric.workflows import stages

QUICK = ("--method", "GMML", "--no-tune")
RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
FRAME = pandas.DataFrame(
    {
        "x": RNG.normal(size=90) + Y,
        "z": RNG.normal(size=90) - Y,
        "color": np.array(["red", "green", "blue"])[RNG.integers(3, size=90)],
        "class": np.array(["a", "b", "c"])[Y],
    }
)
NUMBERS = FRAME.drop(columns="color")
GAPS = FRAME.copy()
GAPS.loc[[3, 30], "x"] = np.nan
GAPS.loc[5, "color"] = None


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    NUMBERS.to_csv("points.csv", index=False)
    return tmp_path


def expected_metric(features):
    scaler = StandardScaler().fit(features)
    return GMML().fit(scaler.transform(features), Y).components_ / scaler.scale_


# --- formats ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.tsv", "t.xlsx", "t.parquet", "comma.csv", "bare.csv"]
)
def test_every_format_gives_the_same_metric(done, name):
    options = ["--label", "class"]
    if name.endswith("xlsx"):
        NUMBERS.to_excel(name, index=False)
    elif name.endswith("parquet"):
        NUMBERS.to_parquet(name)
    elif name == "comma.csv":
        NUMBERS.to_csv(name, index=False, sep=";", decimal=",")
        options += ["--decimal", ","]
    elif name == "bare.csv":
        NUMBERS.to_csv(name, index=False, header=False)
        options = ["--label", "3", "--no-header"]
    else:
        NUMBERS.to_csv(name, index=False, sep="\t" if name == "t.tsv" else ",")
    done("fit", name, *options, *QUICK)
    found = Mahalanobis.load(f"{name.split('.')[0]}.metric.npz")
    np.testing.assert_allclose(found.components, expected_metric(NUMBERS[["x", "z"]].to_numpy()), rtol=1e-12)
    assert found.feature_names == (("1", "2") if name == "bare.csv" else ("x", "z"))
    embedded = pandas.read_csv(io.StringIO(done("transform", f"{name.split('.')[0]}.metric.npz", name, *options)))
    assert embedded.shape == (90, 3)
    assert done("fit", name, *options, *QUICK, "--test", 0) == done(
        "fit", name, *options, "--method", "GMML", "--chunk-rows", 7
    )


def test_standard_input(done, monkeypatch, work):
    text = (work / "points.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert "90 points" in done("fit", "-", "--label", "class", *QUICK)
    from_file = done("transform", "stdin.metric.npz", "points.csv")
    assert done("transform", "stdin.metric.npz", "-", "--out", "-") == from_file
    assert from_file.count("\n") == 91


# --- categories and missing values ------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("name", ["gaps.csv", "gaps.parquet", "gaps.xlsx"])
def test_categories_and_gaps_are_learned_saved_and_used(done, cli, name, chunked):
    {"csv": GAPS.to_csv, "parquet": GAPS.to_parquet, "xlsx": GAPS.to_excel}[name[5:]](name, index=False)
    options = ("--method", "GMML", "--chunk-rows", 11) if chunked else QUICK
    code, _, err = cli("fit", name, "--label", "class", *options)
    assert code == 0, err
    assert "column 'x': 2 missing values are filled with" in err
    common = GAPS["color"].mode()[0]
    assert f"column 'color': 1 missing value is filled with '{common}'" in err
    metric = Mahalanobis.load("gaps.metric.npz")
    assert metric.feature_names == ("x", "z", "color=blue", "color=green", "color=red")
    filled = GAPS.fillna({"x": GAPS["x"].mean(), "color": common})
    hot = pandas.get_dummies(filled["color"]).to_numpy(float)
    features = np.column_stack([filled[["x", "z"]].to_numpy(), hot])
    np.testing.assert_allclose(metric.matrix, expected_metric(features).T @ expected_metric(features), atol=1e-8)
    # A new file is prepared as the training file was, not by its own means and levels.
    new = pandas.DataFrame({"color": ["red", None, "mauve"], "z": [0.0, 1.0, 2.0], "x": [None, 50.0, 60.0]})
    new.to_csv("new.csv", index=False)
    code, out, err = cli("transform", "gaps.metric.npz", "new.csv")
    assert code == 0
    assert "column 'color': 1 rows have a level that was not there in training ('mauve')" in err
    found = pandas.read_csv(io.StringIO(out)).to_numpy()
    mean = GAPS["x"].mean()
    hot = [[0, 0, 1], [common == level for level in ("blue", "green", "red")], [0, 0, 0]]
    by_hand = np.column_stack([[mean, 50, 60], [0, 1, 2], np.array(hot, float)])
    np.testing.assert_allclose(found, by_hand @ metric.components.T, rtol=1e-9)
    rows = done("distance", "gaps.metric.npz", "new.csv", "--a", 1, "--b", 2)
    assert rows == done("distance", "gaps.metric.npz", "--a", ",0,red", "--b", f"50,1,{common}")
    assert "leave-one-out" in done("evaluate", "gaps.metric.npz", name, "--label", "class")


@pytest.mark.parametrize("name", ["med.csv", "med.parquet", "med.xlsx"])
@pytest.mark.parametrize("options", [QUICK, (*QUICK, "--category", "med"), ("--method", "GMML", "--chunk-rows", 7)])
def test_none_and_na_are_values_like_others_in_columns_of_text(done, cli, name, options):
    frame = NUMBERS.assign(med=np.array(["None", "insulin", "NA"])[Y], dose=np.where(Y == 1, "?", "2.5"))
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[name[4:]]
    write(name, index=False)
    code, _, err = cli("fit", name, "--label", "class", *options)
    assert code == 0, err
    assert "column 'dose': 30 missing values are filled with 2.5, the mean" in err
    assert "column 'med'" not in err
    metric = Mahalanobis.load("med.metric.npz")
    assert metric.feature_names == ("x", "z", "med=NA", "med=None", "med=insulin", "dose")
    known, other, gap = (f"0,0,{med},2.5" for med in ("NA", "None", ""))
    code, out, err = cli("distance", "med.metric.npz", "--a", known, "--b", other)
    assert float(out.split()[1]) > 0.1
    assert err == ""
    assert "'med': 1 missing value is filled" in cli("distance", "med.metric.npz", "--a", known, "--b", gap)[2]


def test_pairs_with_categories(done, cli):
    left, right = RNG.integers(90, size=(2, 200))
    sides = [
        GAPS[["x", "color"]].iloc[rows].reset_index(drop=True).add_prefix(p)
        for rows, p in ((left, "a_"), (right, "b_"))
    ]
    same = pandas.Series(np.where(Y[left] == Y[right], 1, -1), name="same")
    pandas.concat([*sides, same], axis=1).to_csv("pairs.csv", index=False)
    code, _, err = cli("fit", "pairs.csv", "--pairs", "same", *QUICK, "--test", 0)
    assert code == 0, err
    metric = Mahalanobis.load("pairs.metric.npz")
    assert metric.feature_names == ("x", "color=blue", "color=green", "color=red")
    found = pandas.read_csv(io.StringIO(done("verify", "pairs.metric.npz", "pairs.csv")))
    u, v = (f"{sides[k].iloc[0, 0]},{sides[k].iloc[0, 1]}" for k in range(2))
    assert float(done("distance", "pairs.metric.npz", "--a", u, "--b", v).split()[1]) == pytest.approx(
        found["distance"][0]
    )
    in_parts = done("fit", "pairs.csv", "--pairs", "same", "--method", "GMML", "--chunk-rows", 7)
    assert "4 features" in in_parts
    np.testing.assert_allclose(Mahalanobis.load("pairs.metric.npz").matrix, metric.matrix, atol=1e-9)


def test_codes_are_categories_if_declared(done, refused):
    FRAME.assign(ward=np.arange(90) % 4).to_csv("wards.csv", index=False)
    done("fit", "wards.csv", "--label", "class", *QUICK, "--category", "ward")
    names = ("color=blue", "color=green", "color=red", "ward=0", "ward=1", "ward=2", "ward=3")
    assert Mahalanobis.load("wards.metric.npz").feature_names == ("x", "z", *names)
    expected = Mahalanobis.load("wards.metric.npz").matrix
    done("fit", "wards.csv", "--label", "class", "--method", "GMML", "--category", "ward", "--chunk-rows", 9)
    np.testing.assert_allclose(Mahalanobis.load("wards.metric.npz").matrix, expected, atol=1e-9)
    assert "no column 'warden'" in refused(
        1, "fit", "wards.csv", "--label", "class", "--category", "warden", "--out", "o.npz"
    )


@pytest.mark.parametrize("name", ["many.csv", "many.parquet", "many.xlsx"])
def test_columns_may_be_listed_with_commas_unless_one_has_that_name(done, refused, name):
    frame = NUMBERS.assign(ward=np.arange(90) % 3, site=np.arange(90) % 2, **{"x,z": RNG.normal(size=90)})
    {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[name[5:]](name, index=False)
    arguments = ("fit", name, "--label", "class", "--method", "GMML")
    for way in ("--no-tune", "--chunk-rows=20"):
        done(*arguments, way, "--drop", "x,z", "--category", "ward, site")
        names = Mahalanobis.load("many.metric.npz").feature_names
        assert names == ("x", "z", "ward=0", "ward=1", "ward=2", "site=1")
        done(*arguments, way, "--drop", "x,site", "--drop", "x,z")
        assert Mahalanobis.load("many.metric.npz").feature_names == ("z", "ward")
    assert "has no column 'y'" in refused(1, *arguments, "--drop", "x,y", "--out", "o.npz")


def test_a_category_that_begins_with_numbers_is_counted_from_the_first_row(done):
    codes = ["1", "2", *["A", "B"] * 44]
    NUMBERS.assign(code=codes).to_csv("codes.csv", index=False)
    done("fit", "codes.csv", "--label", "class", "--method", "GMML", "--chunk-rows", 2)
    assert Mahalanobis.load("codes.metric.npz").feature_names[2:] == ("code=1", "code=2", "code=A", "code=B")


def test_a_metric_whose_preparation_was_changed_is_refused(refused, done):
    GAPS.to_csv("gaps.csv", index=False)
    done("fit", "gaps.csv", "--label", "class", *QUICK)
    metric = Mahalanobis.load("gaps.metric.npz")
    for change in ([], [{"name": "x"}], metric.preparation[1:]):
        Mahalanobis(metric.components, None, metric.feature_names, None, change).save("gaps.metric.npz")
        assert "gaps.metric.npz is not a metric saved by advmetric" in refused(
            1, "transform", "gaps.metric.npz", "gaps.csv"
        )


# --- groups -----------------------------------------------------------------------------------------------------


def test_groups_are_kept_together_and_are_no_feature(done, refused):
    FRAME.drop(columns="color").assign(person=np.arange(90) // 6).to_csv("people.csv", index=False)
    found = json.loads(done("fit", "people.csv", "--label", "class", "--method", "GMML", "--group", "person", "--json"))
    assert Mahalanobis.load("people.metric.npz").feature_names == ("x", "z")
    assert found["test"] % 6 == 0
    np.savez("people.npz", X=NUMBERS[["x", "z"]].to_numpy(), y=Y, person=np.arange(90) // 6)
    again = json.loads(done("fit", "people.npz", "--method", "GMML", "--group", "person", "--json"))
    assert again["scores"] == found["scores"]
    assert "no array 'who'" in refused(1, "fit", "people.npz", "--group", "who", "--out", "o.npz")
    assert "--chunk-rows" in refused(2, "fit", "people.npz", "--group", "person", "--chunk-rows", 5, "--out", "o.npz")


# --- what is said before and after ------------------------------------------------------------------------------


def test_an_existing_metric_is_not_replaced_without_force(done, refused, work):
    done("fit", "points.csv", "--label", "class", *QUICK)
    said = refused(1, "fit", "points.csv", "--label", "class", *QUICK)
    assert "points.metric.npz is there already: give --force" in said
    assert "is there already" in refused(1, "fit", "nowhere.csv", "--label", "class", "--out", "points.metric.npz")


def test_a_folder_that_cannot_be_written_to_is_found_before_the_work(refused, monkeypatch):
    def fail(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    monkeypatch.setattr("advmetric.cli.commands.fit.fit_samples", None)  # not reached
    said = refused(1, "fit", "points.csv", "--label", "class", "--out", "far.npz")
    assert said == "error: far.npz: Read-only file system, so the output cannot be written"


def test_identifiers_and_constant_columns_are_named(cli):
    NUMBERS.assign(id=range(90), unit=1).to_csv("ids.csv", index=False)
    for options in (QUICK, ("--chunk-rows", 13)):
        code, _, err = cli("fit", "ids.csv", "--label", "class", *options, "--force")
        assert code == 0
        assert "warning: ids.csv: column 'id' looks like an identifier" in err
        assert "1 column has the same value in every row, which is of no use: 'unit'" in err
    assert cli("fit", "ids.csv", "--label", "class", "--drop", "id", "--drop", "unit", *QUICK, "--force")[2] == ""


@pytest.mark.parametrize("name", ["dates.csv", "dates.parquet", "dates.xlsx"])
def test_columns_of_dates_and_names_are_called_by_their_name(refused, name):
    kind = name[6:]
    for column, said in (
        (pandas.date_range("2024-01-01", periods=90), "column 'extra' holds dates"),
        ([f"name {i}" for i in range(90)], "column 'extra' holds text ('name 0'), of which every one differs"),
    ):
        frame = NUMBERS.assign(extra=column)
        {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[kind](name, index=False)
        message = refused(1, "fit", name, "--label", "class")
        assert said in message
        assert "--drop" in message


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("x,class\n1,a\n2,a\n3,b\n", (), "too few rows to hold some out"),
        ("x,class\n1,a\n2,b\n", (), "2 rows are too few to hold some out"),
        ("x,class\n1,a\n2,a\n3,b\n4,b\n", ("--test", 0), "learn without a search (AML instead of AMLCV, --no-tune"),
        ("x,class\n1,a\n2,a\n3,b\n4,b\n", ("--test", 0, "--method", "AML"), "too few rows to tune"),
        ("5.1,3.5,setosa\n4.9,3.0,virginica\n", (), "first line is data"),
        ("5,3,setosa\n4,3,virginica\n", (), "if it is data, give --no-header"),
        ('x,class\n1,a\n2,"b\n3,a\n4,b\n', (), "line 3: a quote is not closed"),
        ('x,class\n1,a\n2,"b\n3,a\n4,b\n', ("--chunk-rows", 1), "line 3: a quote is not closed"),
        ("x,class\n1,a\n2,None\n3,\n", (), "row 3 (line 4), column 'class': the label is missing"),
        ("x,kind\n1,a\n", (), "no column 'class'. It has x, kind."),
        ("x,z,class\n1,2,a\n", ("--delimiter", ";"), "one column, 'x,z,class': correct --delimiter or --decimal."),
        ("x,z,class\n1,2,a\n", ("--decimal", ","), "one column, 'x,z,class': correct --delimiter or --decimal."),
        ("x,class\n1,a\n2,a\nlow,b\n2,b\n", (), "'low' is not a number. Correct it, leave the column out with --drop"),
    ],
)
def test_messages_say_what_is_the_matter(refused, content, options, said):
    with open("bad.csv", "w", encoding="utf-8") as stream:
        stream.write(content)
    assert said in refused(1, "fit", "bad.csv", "--label", "class", *options)


def test_given_parameters_are_saved_and_shown(done):
    found = json.loads(
        done("fit", "points.csv", "--label", "class", "--method", "GMML", "--param", "reg=0.1", "--json")
    )
    assert found["params"]["reg"] == 0.1
    assert "t" in found["params"]  # tuned beside it
    done("fit", "points.csv", "--label", "class", *QUICK, "--param", "reg=0.1")
    X = StandardScaler().fit_transform(NUMBERS[["x", "z"]].to_numpy())
    scale = NUMBERS[["x", "z"]].to_numpy().std(axis=0)
    expected = GMML(reg=0.1).fit(X, Y).components_ / scale
    np.testing.assert_allclose(Mahalanobis.load("points.metric.npz").components, expected, rtol=1e-9)
    found = json.loads(done("fit", "points.csv", "--label", "class", "--no-tune", "--param", "average=False", "--json"))
    assert found["params"] == {"average": False}


def test_a_long_run_says_what_it_does(cli, monkeypatch):
    monkeypatch.setattr(stages, "QUIET", 0.0)
    code, _, err = cli("fit", "points.csv", "--label", "class", "--method", "GMML")
    assert code == 0
    for title in ("Reading points.csv", "Tuning GMML: ", "Fitting GMML on 72 rows", "Judging: "):
        assert title in err


@pytest.mark.slow
def test_two_hundred_thousand_rows_in_half_a_minute(work):
    y = RNG.integers(4, size=200_000)
    X = RNG.normal(size=(200_000, 12)) + 0.6 * RNG.normal(size=(4, 12))[y]
    pandas.DataFrame(X).add_prefix("f").assign(label=y).to_csv("big.csv", index=False)
    command = [sys.executable, "-m", "advmetric", "fit", "big.csv", "--label", "label", "--no-tune"]
    environment, before = os.environ | {"OPENBLAS_NUM_THREADS": "1"}, os.times()
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "On a random sample of 1250 of 40000 held-out points" in run.stdout
    used = np.subtract(os.times()[2:4], before[2:4]).sum()
    assert used < 30.0  # of the processor: the machine may be shared


# --- the method --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [((), "AMLCV"), (("--no-tune",), "AML"), (("--param", "alpha=0"), "AML"), (("--chunk-rows", "9"), "AML")],
)
def test_the_loss_is_chosen_unless_parameters_are_given(cli, monkeypatch, options, expected):
    asked = []

    def watching(method, *arguments, **others):
        asked.append(method.name)
        raise ValueError("enough")

    monkeypatch.setattr(fit_command, "fit_samples", watching)
    monkeypatch.setattr(fit_command, "fit_stream", watching)
    assert cli("fit", "points.csv", "--label", "class", *options)[0] == 1
    assert asked == [expected]


def test_what_was_chosen_is_said(done):
    NUMBERS[:45].to_csv("few.csv", index=False)
    said = done("fit", "few.csv", "--label", "class", "--test", 0, "--out", "few.npz")
    assert "loss " in said
    assert "chosen among" in said
    assert "in 5-fold cross-validation" in said
