"""Sphinx configuration; `make docs` builds the documentation."""

import os
import re
from pathlib import Path

import autotvm_opevo

# The gallery resolves what the tutorials import; without TVM these attributes would raise an
# ImportError.
autotvm_opevo.OpEvoTuner = autotvm_opevo.tune_network = None

ROOT = Path(__file__).parents[1]

project = "autotvm_opevo"
author = "the authors of autotvm_opevo"
copyright = f"2026, {author}"
version = release = autotvm_opevo.__version__

extensions = [
    "autoapi.extension",
    "myst_parser",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"autotvm_opevo {version}"
default_role = "literal"
myst_heading_anchors = 3
napoleon_use_ivar = True
# sphinx_gallery_conf holds a function and a class, which cannot be pickled
suppress_warnings = ["config.cache"]

# Parsed, not imported: no environment has both AutoTVM and MetaSchedule.
autoapi_dirs = [str(ROOT / "autotvm_opevo")]
autoapi_generate_api_docs = False
autoapi_options = ["members"]

# In the order in which a person meets them.
TUTORIALS = [
    "tune_your_model.py",
    "tune_alexnet.py",
    "tune_alexnet_relax.py",
    "decide_by_a_report.py",
    "tune_your_template.py",
    "tune_on_a_farm.py",
    "tune_for_a_board.py",
    "tune_a_c_program.py",
    "draw_topologies.py",
]


class ReadingOrder:
    """Sorts the gallery; a tutorial that is not in the list is an error."""

    def __init__(self, folder):
        pass

    def __call__(self, name):
        return TUTORIALS.index(name)


os.environ["MPLBACKEND"] = "Agg"
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "tutorials"),
    "gallery_dirs": "tutorials",
    # Scripts that tune are shown, not run: they need TVM and minutes. The tests run them.
    "filename_pattern": r"draw_topologies\.py",
    "reset_argv": lambda _, script: ["--out", str(ROOT / "docs" / "_build" / "figures")],
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "within_subsection_order": ReadingOrder,
}


def setup(app):
    """Turn links to tutorial scripts, which work when the Markdown is read directly, into links to
    their gallery pages.
    """

    def link(_, name, text):
        text[0] = re.sub(r"\(\.\./((?:\.\./)*tutorials/\w+)\.py\)", r"(\1.rst)", text[0])

    app.connect("source-read", link)
