"""Whether a page is valid HTML that stands alone, and whether everybody can read it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections import Counter
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import html5lib
import pytest

_HTML = "{http://www.w3.org/1999/xhtml}"
_SVG = "{http://www.w3.org/2000/svg}"
_NOT_ALLOWED = {_HTML + name for name in ("script", "img", "iframe", "object", "embed", "form", "link")}


def check_html(page: str) -> None:
    """Fail if a page is no valid HTML, loads anything, or leaves somebody out who does not see it."""
    found = list(html5lib.HTMLParser(strict=True).parse(page).iter())
    assert not {element.tag for element in found} & _NOT_ALLOWED
    ids = [element.get("id") for element in found if element.get("id")]
    assert len(ids) == len(set(ids))
    links = [element.get("href") or element.get("src") for element in found]
    assert all(link[0] == "#" and link[1:] in ids for link in links if link)
    levels = [int(element.tag[-1]) for element in found if re.fullmatch(_HTML + "h[1-6]", element.tag)]
    assert levels[0] == 1
    assert Counter(levels)[1] == 1
    assert all(below - above <= 1 for above, below in pairwise(levels)), "a heading skips a level"
    for picture in (element for element in found if element.tag == _SVG + "svg"):
        named = {element.get("id") for element in picture.iter() if element.text}
        assert picture.get("aria-hidden") or set((picture.get("aria-labelledby") or "-").split()) <= named
    assert not re.findall(r"[{}]", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)), "an empty slot"


def check_accessible(page: str, folder: Path, widths: tuple[int, ...] = (400, 900, 1400)) -> None:
    """Fail if axe-core, in a browser of each width in pixels, finds what some readers cannot read or reach.

    Args:
        page: HTML. folder: for the copy that the browser opens.
    """
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None or find_spec("axe_core_python") is None:
        pytest.skip("no browser, or axe-core-python is not installed")
    import axe_core_python  # type: ignore[import-untyped]

    axe = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    report = (
        "axe.run().then(found => { document.body.replaceChildren(); document.body.textContent = "
        "'found' + btoa(unescape(encodeURIComponent(JSON.stringify(found.violations.map("
        "v => [v.id, v.nodes.map(n => n.html).slice(0, 3)]))))) + 'end'; });"
    )
    copy = folder / "page.html"
    scripts = f"<script>{axe}</script><script>{report}</script></body>"
    allowed = re.sub("<meta http-equiv=[^>]*>", "", page)  # the page itself forbids scripts
    copy.write_text(allowed.replace("</body>", scripts), encoding="utf-8")
    for width in widths:
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},1200"]
        options += ["--virtual-time-budget=60000", "--timeout=60000", f"--user-data-dir={folder / 'profile'}"]
        shown = subprocess.run(
            [browser, *options, "--dump-dom", copy.as_uri()], capture_output=True, text=True
        )
        said = re.search(r"found([\w+/=]*)end", shown.stdout)
        assert said, shown.stderr[-2000:]
        found = json.loads(base64.b64decode(said[1]))
        assert found == [], (width, found)
