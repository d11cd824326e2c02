"""Sphinx configuration: `make docs`. The build needs no network.

The build checks internal links (`nitpicky`, `-W`). To check external links, with a network:
`python -m sphinx -b linkcheck -D plot_gallery=0 docs docs/_build/links`.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from numpydoc.docscrape_sphinx import SphinxDocString
from sphinx.application import Sphinx

import steinpath

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "steinpath"
author = "The steinpath developers"
project_copyright = author
release = version = version_of(steinpath.__name__)

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
nitpicky = True
suppress_warnings = ["config.cache"]  # functions below cannot be pickled
# names in other packages: resolving them would need their inventories from the network
nitpick_ignore_regex = [
    ("py:.*", r"(datetime|numpy|scipy|matplotlib|sklearn|torch|dask|pyarrow)\..*")
]
linkcheck_anchors = False
linkcheck_timeout = 20
linkcheck_allowed_redirects = {r"https://doi\.org/.*": r"https://.*"}

# ------------------------------------------------------------------------------------------------
# Text
# ------------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

# ------------------------------------------------------------------------------------------------
# Reference
# ------------------------------------------------------------------------------------------------

default_role = "autolink"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False
toc_object_entries = False


def named(name: str) -> Any:
    """Return a class by its name."""
    module, _, kind = name.rpartition(".")
    return getattr(import_module(module), kind)


def own_methods(name: str) -> list[str]:
    """Return the documented public methods of a class that are defined in this package."""
    members: dict[str, Any] = {}
    for base in named(name).__mro__:
        if base.__module__.startswith("steinpath"):
            members |= {key: each for key, each in vars(base).items() if key not in members}
    return [
        key
        for key, member in members.items()
        if not key.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, classmethod))
        and inspect.getdoc(getattr(named(name), key))
    ]


autosummary_context = {"own_methods": own_methods}


def without_dead_links(
    app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]
) -> None:
    """Format attributes and parameters as code: they have no pages to link to."""
    own = named(name.rpartition(".")[0]) if what == "method" else found

    def shown(match: re.Match[str]) -> str:
        owner, _, attribute = match[1].rpartition(".")
        kind = getattr(steinpath, owner, None) if owner else own
        known = hasattr(kind, attribute) or attribute in getattr(kind, "__annotations__", ())
        is_method = callable(getattr(kind, attribute, None))
        return f"``{match[1]}``" if known and not is_method else match[0]

    lines[:] = [re.sub(r"(?<![`:\w])`([\w.]+)`(?![`\w])", shown, line) for line in lines]


def described(self: Any, param: str, desc: Any, fake_autosummary: bool) -> Any:
    """Use the description in the class docstring, also for properties."""
    return process_param(self, param, desc, False)


process_param = SphinxDocString._process_param
SphinxDocString._process_param = described


def into_gallery(app: Sphinx, docname: str, source: list[str]) -> None:
    """Link examples to their gallery pages instead of their source files."""
    link = re.compile(r"\]\(((?:\.\./)*)\.\./examples/(plot_\w+)\.py\)")
    source[0] = link.sub(r"](\1gallery/\2.rst)", source[0])


def setup(app: Sphinx) -> None:
    """Connect the handlers; priority 900 runs after numpydoc."""
    app.connect("autodoc-process-docstring", without_dead_links, priority=900)
    app.connect("source-read", into_gallery)


# ------------------------------------------------------------------------------------------------
# Gallery
# ------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "reading_order.ReadingOrder",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("steinpath",),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,  # these pages load scripts from the network
    "remove_config_comments": True,
    "abort_on_example_error": True,
}

# ------------------------------------------------------------------------------------------------
# Pages
# ------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"steinpath {release}"
html_static_path = ["_static"]
html_css_files = ["steinpath.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0072B2",
        "color-brand-content": "#0072B2",
    },
    "dark_css_variables": {
        "color-brand-primary": "#56B4E9",
        "color-brand-content": "#56B4E9",
    },
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
