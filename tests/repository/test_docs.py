"""The notes point at things that exist."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

import pytest
from PIL import Image

from advmetric import load_dataset

ROOT = Path(__file__).resolve().parents[2]
NOTES = (ROOT / "docs" / "paper-notes.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "docs" / "paper-notes.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
"""What is read on GitHub; docs/index.md is for the site."""
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


def test_every_test_that_the_notes_name_exists():
    named = re.findall(r"`(test_\w+)`", NOTES)
    assert len(named) >= 10
    assert [name for name in named if f"def {name}(" not in TESTS] == []


def test_every_file_and_name_in_the_equation_table_exists():
    rows = [line for line in NOTES.splitlines() if line.startswith("| ") and ".py`" in line]
    assert len(rows) >= 8
    for row in rows:
        files = [ROOT / "src" / "advmetric" / name for name in re.findall(r"`([\w/]+\.py)`", row)]
        source = "\n".join(path.read_text(encoding="utf-8") for path in files)
        for name in re.findall(r"`([a-z_]\w+)`", row):
            assert f"def {name}(" in source, f"{name} is not in {files}"


def links_of(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"\]\(((?!https?:)[^)]+)\)", text)


@pytest.mark.parametrize(
    ("page", "link"),
    [(page, link) for page in PAGES for link in links_of(page)],
    ids=lambda value: getattr(value, "stem", value),
)
def test_every_link_leads_somewhere_without_the_site(page, link):
    name, _, heading = link.partition("#")
    target = page.parent / name if name else page
    assert target.exists()
    headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
    slugs = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings]
    assert heading in ["", *slugs]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_read_without_the_site_have_no_directives(page):
    assert re.findall(r"^[`:]{3,}\{.*|\{\w+\}`.*?`", page.read_text(encoding="utf-8"), re.MULTILINE) == []


def test_the_paper_miscounts_letters_and_vehicle():
    assert len(load_dataset("letters").target_names) == 26
    assert len(load_dataset("vehicle").X) == 846


def test_pictures_show_the_numbers_of_the_records(monkeypatch):
    """If this fails: python tools/readme_figure.py."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    figure = import_module("readme_figure")
    for name in figure.PICTURES:
        with Image.open(figure.FOLDER / name) as picture:
            assert json.loads(picture.text["Description"]) == figure.percentages(), name
