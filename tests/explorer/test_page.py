"""The page in a real browser: clicking, selecting and sliding change what they should."""

import base64

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Keys

from advmetric.explorer.page import write_page
from reference.browser import Page

READY = "return document.body.dataset.ready === 'true'"


def floats(text, columns=1):
    return np.frombuffer(base64.b64decode(text), dtype="<f4").reshape(-1, columns)


@pytest.fixture(scope="module")
def cars_path(point_view, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "cars.html"
    write_page(point_view, path)
    return path


@pytest.fixture(scope="module")
def loaded(chromium, cars_path):
    return Page(chromium, cars_path, ready=READY)


@pytest.fixture
def page(loaded):
    """The page of cars, with nothing chosen; at the end the console must be empty."""
    loaded.show().run("document.getElementById('clear').click()")
    loaded.wait("return document.getElementById('neighbours').hidden")
    yield loaded
    assert loaded.messages() == []
    assert loaded.requests() == []


@pytest.fixture(scope="module")
def loaded_pairs(chromium, pair_view, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "pairs.html"
    write_page(pair_view, path)
    return Page(chromium, path, ready=READY)


@pytest.fixture
def pair_page(loaded_pairs):
    """The page of pairs; at the end the console must be empty."""
    yield loaded_pairs.show()
    assert loaded_pairs.messages() == []


PLACE = """
const div = document.getElementById(arguments[0]), layout = div._fullLayout, at = arguments[1];
let best = null;
div._fullData.forEach((trace, t) => [...trace.x].forEach((x, i) => {
  const px = layout.xaxis._offset + layout.xaxis.l2p(x), py = layout.yaxis._offset + layout.yaxis.l2p(trace.y[i]);
  if (trace.customdata[i] === at) best = [px, py];
}));
div.scrollIntoView({block: "center", behavior: "instant"});
const box = div.getBoundingClientRect();
return [box.left + best[0], box.top + best[1]];
"""

SELECTED = """
const traces = document.getElementById(arguments[0])._fullData;
return traces.reduce((sum, trace) => sum + (trace.selectedpoints ?? []).length, 0) === arguments[1];
"""
BOX = "const b = document.getElementById('before').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]"
CUT = """
return [...document.querySelectorAll('.plot .xtitle, .plot .ytitle')].filter((title) => {
  const text = title.getBoundingClientRect(), box = title.closest('.plot').getBoundingClientRect();
  return text.left < box.left + 3 || text.right > box.right - 3 || text.bottom > box.bottom - 3;
}).map((title) => title.textContent)
"""
PAPER = "return document.getElementById('roc')._fullLayout.paper_bgcolor"


def loneliest(view, plane):
    """The point that is farthest from all others in a picture: a click there can mean no other."""
    P = np.hstack([floats(view["planes"][plane][axis]) for axis in "xy"])
    gaps = np.linalg.norm(P[:, None] - P[None], axis=2) + np.diag(np.full(len(P), np.inf))
    return int(np.argmax(gaps.min(axis=1)))


@pytest.mark.parametrize("picture", ["before", "after"])
def test_a_click_shows_the_neighbours_under_both_distances(page, point_view, picture):
    point = loneliest(point_view, picture)
    x, y = page.run(PLACE, picture, point)
    mouse = ActionChains(page.driver)
    mouse.w3c_actions.pointer_action.move_to_location(round(x), round(y))
    mouse.w3c_actions.pointer_action.click()
    mouse.perform()
    page.wait("return !document.getElementById('neighbours').hidden")
    assert page.text("#chosen").startswith(f"Chosen: row {point + 1}, ")
    shapes = page.run("return document.getElementById(arguments[0]).layout.shapes.map(s => s.type)", picture)
    assert sorted(shapes) == ["circle"] * 9 + ["rect"] * 8  # the point and its neighbours under the two distances
    for name in ("learned", "euclidean"):
        rows = page.table(f"#near-{name}")[1:]
        assert [row[0] for row in rows] == [f"row {i + 1}" for i in point_view["points"][name]["nearest"][point]]
        shown = floats(point_view["points"][name]["distances"], 8)[point]
        np.testing.assert_allclose([float(row[2]) for row in rows], shown, rtol=1e-3)


def test_differences_of_two_points_add_up_to_their_distance(page, point_view):
    page.find("#row").send_keys("5", Keys.ENTER)
    page.wait("return !document.getElementById('pair').hidden")
    other = point_view["points"]["learned"]["nearest"][4][0]
    assert page.text("#pair-title") == f"row 5 and row {other + 1}"
    values, L = (floats(point_view["features"][name], 18).astype(float) for name in ("values", "components"))
    gap = values[4] - values[other]
    distance = np.linalg.norm(L @ gap)
    assert f"Learned distance {float(f'{distance:.4g}'):g}," in page.text("#pair-note")
    shares = gap * (L.T @ (L @ gap)) / distance**2
    assert shares.sum() == pytest.approx(1.0)
    names = np.array(point_view["features"]["names"])
    order = np.argsort(-np.abs(shares))[:12]
    rows = page.table("#differences")[1:]
    assert [row[0] for row in rows] == names[order].tolist()
    np.testing.assert_allclose([float(row[5].split()[0]) for row in rows], 100 * shares[order], atol=0.06)
    np.testing.assert_allclose([float(row[3]) for row in rows], gap[order], atol=0.006)


def test_comparing_with_another_neighbour_moves_there(page, point_view):
    page.find("#row").send_keys("5", Keys.ENTER)
    page.run("document.querySelector('#near-euclidean tbody tr:nth-child(3) button').click()")
    other = point_view["points"]["euclidean"]["nearest"][4][2]
    assert page.text("#pair-title") == f"row 5 and row {other + 1}"
    assert page.run("return document.activeElement.id") == "pair-title"


def test_a_number_of_the_confusion_matrix_selects_its_points_in_both_pictures(page, point_view):
    table = np.array(point_view["confusion"]["tables"]["learned"])
    i, j = np.unravel_index(np.argmax(table - np.diag(np.diag(table))), table.shape)
    page.run(
        f"document.querySelector('#confusion-learned tbody').rows[{i}].cells[{j + 1}].querySelector('button').click()"
    )
    assert page.text("#selection").startswith(f"{table[i, j]} of 300 points selected: ")
    for picture in ("before", "after"):
        page.wait(SELECTED, picture, int(table[i, j]))
    page.run("document.getElementById('clear').click()")
    page.wait("return document.getElementById('after')._fullData[0].selectedpoints === undefined")
    assert page.text("#selection") == ""


def test_the_lasso_selects_in_the_other_picture_too(page):
    page.run("document.getElementById('before').scrollIntoView({block: 'center', behavior: 'instant'})")
    box = page.run(BOX)
    corners = [(0.2, 0.3), (0.5, 0.3), (0.5, 0.8), (0.2, 0.8), (0.2, 0.35)]
    mouse = ActionChains(page.driver, duration=20)
    pointer = mouse.w3c_actions.pointer_action
    for step, (u, v) in enumerate(corners):
        pointer.move_to_location(round(box[0] + u * box[2]), round(box[1] + v * box[3]))
        if step == 0:
            pointer.pointer_down()
    pointer.pointer_up()
    mouse.perform()
    page.wait("return document.getElementById('selection').textContent.includes('by lasso')")
    count = int(page.text("#selection").split()[0])
    assert 0 < count < 300
    page.wait(SELECTED, "after", count)
    rows = page.table("#selected table")[1:]
    assert sum(int(row[1]) for row in rows) == count


def check_slider(page, view):
    distances, kinds = floats(view["pairs"]["learned"]["distances"])[:, 0], np.array(view["pairs"]["kinds"])
    before = page.table("#counts")
    slider = page.find("#threshold")
    slider.send_keys(*[Keys.ARROW_RIGHT] * 40)
    threshold = float(slider.get_attribute("value"))
    near = distances <= threshold
    expected = [[str(np.sum(near[kinds == k])), str(np.sum(~near[kinds == k]))] for k in (1, -1)]
    after = page.table("#counts")
    assert [row[1:] for row in after[1:]] == expected
    assert after != before
    assert f"{100 * near[kinds == 1].mean():.1f} % of the same pairs" in page.text("#rates")
    page.wait(
        "return Math.abs(document.getElementById('roc')._fullData[2].x[0] - arguments[0]) < 1e-6",
        float(near[kinds == -1].mean()),
    )
    line = page.run("return document.getElementById('histogram').layout.shapes[0].x0")
    assert line == pytest.approx(threshold)
    page.find("#best").click()
    assert page.table("#counts") == before


def test_the_slider_decides_as_numpy_does(page, point_view):
    check_slider(page, point_view)


def test_the_curve_has_scikit_learn_s_area(page, point_view):
    x, y = page.run("const t = document.getElementById('roc')._fullData[0]; return [[...t.x], [...t.y]]")
    assert np.trapezoid(y, x) == pytest.approx(point_view["pairs"]["learned"]["auc"], abs=1e-9)


def test_the_hardest_pairs_are_the_most_wrong_ones(page, point_view):
    distances, kinds = floats(point_view["pairs"]["learned"]["distances"])[:, 0], np.array(point_view["pairs"]["kinds"])
    far = [float(row[1]) for row in page.table("#hardest-same")[1:]]
    np.testing.assert_allclose(far, np.sort(distances[kinds == 1])[::-1][:10], rtol=1e-3)
    close = [float(row[1]) for row in page.table("#hardest-different")[1:]]
    np.testing.assert_allclose(close, np.sort(distances[kinds == -1])[:10], rtol=1e-3)
    name = page.table("#hardest-same")[1][0]
    page.run("document.querySelector('#hardest-same button').click()")
    assert page.text("#pair-title") == name


def test_everything_can_be_reached_by_keyboard(page, point_view):
    page.run("document.getElementById('row').focus()")
    ActionChains(page.driver).send_keys(Keys.TAB, Keys.TAB, Keys.ENTER).perform()  # past "Previous" to "Next"
    assert page.text("#chosen").startswith("Chosen: row 1, ")
    ActionChains(page.driver).send_keys(Keys.TAB, Keys.ENTER).perform()  # "Next error"
    said, classes = (
        np.array(v) for v in (point_view["confusion"]["predicted"]["learned"], point_view["points"]["classes"])
    )
    wrong = np.flatnonzero((said >= 0) & (said != classes))
    assert page.text("#chosen").startswith(f"Chosen: row {wrong[wrong > 0][0] + 1}, ")
    ActionChains(page.driver).send_keys(Keys.TAB, Keys.ENTER).perform()  # "Clear"
    assert page.text("#chosen") == ""


def test_the_page_is_accessible(page):
    page.run("document.querySelectorAll('details').forEach(part => { part.open = true })")
    page.run("document.getElementById('next').click(); document.querySelector('#confusion-learned button').click()")
    assert page.violations() == []


def test_nothing_offers_to_send_the_data_away(page):
    titles = page.run("return [...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    assert set(titles) == {"Lasso Select", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}


def test_names_are_text_whatever_is_in_them(page, point_view):
    assert page.text("h1") == "The metric of <cars>"
    assert page.table("#confusion-learned")[0][1] == "</script><b>bus</b>"
    assert page.run("return document.getElementById('weight-table').textContent.includes('<i>compactness</i>')")
    assert page.run("return document.querySelectorAll('table b, table i').length") == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_the_width(page, width):
    page.resize(width, 800)
    page.wait("return document.documentElement.clientWidth === arguments[0]", width)
    assert page.run("return document.documentElement.scrollWidth") <= width
    columns = page.run("return getComputedStyle(document.querySelector('.two')).gridTemplateColumns.split(' ').length")
    assert columns == (2 if width == 1280 else 1)
    page.wait("return document.getElementById('roc')._fullLayout.width < arguments[0] / arguments[1]", width, columns)
    assert page.run("return document.querySelectorAll('.plot .xtitle').length") == 3
    assert page.run(CUT) == []


def test_dark_mode_changes_page_and_pictures(page):
    ground = "return getComputedStyle(document.body).backgroundColor"
    light, light_page = page.run(PAPER), page.run(ground)
    page.media("dark")
    page.wait(PAPER + " !== arguments[0]", light)
    assert page.run(ground) != light_page
    page.media("light")
    page.wait(PAPER + " === arguments[0]", light)


def test_pairs_are_named_by_their_row_and_side(pair_page, pair_view):
    pair_page.run("document.getElementById('next').click()")
    assert pair_page.text("#chosen").startswith(f"Chosen: point {pair_view['points']['names'][0]} (")
    links = sum(0 in link[:2] for link in pair_view["points"]["links"])
    lines = (
        "return document.getElementById('after').layout.shapes.filter(s => s.type === 'line').length === arguments[0]"
    )
    pair_page.wait(lines, links)


def test_the_slider_of_pairs_decides_as_numpy_does(pair_page, pair_view):
    check_slider(pair_page, pair_view)
