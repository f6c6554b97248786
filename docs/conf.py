"""Sphinx configuration: `make docs` builds the site into docs/_build/html."""

import re
from importlib.metadata import version as installed_version
from pathlib import Path

project = "advmetric"
author = "the advmetric developers"
copyright = "the advmetric developers, BSD 3-Clause"
release = version = installed_version("advmetric")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "results", "gallery/**/README.txt"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

templates_path = ["_templates"]
html_theme = "furo"
html_title = "advmetric"
html_copy_source = False
pygments_dark_style = "github-dark"  # the theme's own underlines names of modules like links
html_static_path = ["_static"]
html_css_files = ["site.css"]

autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"
autodoc_default_options = {"inherited-members": False}
# The site opens offline: no inventory of another site is fetched.
intersphinx_mapping: dict[str, tuple[str, None]] = {}

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "write_computation_times": False,  # a page that loads scripts from elsewhere
    "capture_repr": (),  # not the legend that the last line returned
}


def skip_routing(app, what, name, obj, skip, options):
    """Leave out scikit-learn's methods of metadata routing."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


# What axe-core finds in the pages of Sphinx and its theme: headings without a level, code and tables that scroll but
# cannot be reached by keyboard, landmarks without a name. And a mean stays on the line of its deviation.
REPAIRS = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    "<pre>": '<pre tabindex="0">',
    " ± ": "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}",
    '<div class="table-wrapper': '<div tabindex="0" role="group" aria-label="Table" class="table-wrapper',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Site">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="Page">',
}


def repair_pages(app, error):
    """Make the pages accessible, after the build."""
    if error is None and app.builder.format == "html":
        for path in Path(app.outdir).rglob("*.html"):
            text = path.read_text(encoding="utf-8")
            repaired = text
            for old, new in REPAIRS.items():
                repaired = repaired.replace(old, new)
            if repaired != text:
                path.write_text(repaired, encoding="utf-8")


def setup(app):
    """Connect the above."""
    app.connect("autodoc-skip-member", skip_routing)
    app.connect("build-finished", repair_pages)
