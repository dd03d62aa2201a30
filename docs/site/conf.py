"""How the pages of docs/ become a site: `make docs`. Warnings are errors, and nothing is loaded from elsewhere."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

project = "topdown"
author = "the project's contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "topdown"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = html_show_sphinx = False
html_copy_source = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
smartquotes = False  # words are copied into shells and files
suppress_warnings = ["misc.highlighting_failure"]  # screens of commands are shown as they are
pygments_style = "friendly"
