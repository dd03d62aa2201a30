"""The pages of the error codes that pgsr can show: its own in `explain.toml`, and topdown's."""

from __future__ import annotations

from pathlib import Path

from topdown.explain import FAMILIES, Page, pages

OWN_PAGES = Path(__file__).parent / "explain.toml"


def known_pages() -> dict[str, Page]:
    """Return all pages by code, by family, then number; where both have one, pgsr's is shown."""
    both = pages() | pages(OWN_PAGES)
    order = list(FAMILIES)
    return dict(sorted(both.items(), key=lambda item: (order.index(item[0][0]), item[0])))
