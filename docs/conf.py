"""Sphinx configuration: `make docs` builds the site into docs/_build/html."""

import re
from importlib.metadata import version as installed_version

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
    "min_reported_time": 1,
}


def skip_routing(app, what, name, obj, skip, options):
    """Leave out scikit-learn's methods of metadata routing."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app):
    """Connect the above."""
    app.connect("autodoc-skip-member", skip_routing)
