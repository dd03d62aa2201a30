"""What `topdown plan --base` shows of the release that is extended."""

from __future__ import annotations

from typing import Any

from topdown.screen.console import Screen


def show_base(screen: Screen, base: dict[str, Any]) -> None:
    """Write the section about the base release."""
    screen.heading("Extends", f' "{base["release_id"]}", and keeps every count of it in every area')
    names = ", ".join(
        f"{row['base']} as {row['here']}" if row["base"] != row["here"] else row["base"]
        for row in base["map"]
    )
    n, reserved = base["n_patterns"], base["n_reserved"]
    screen.pairs(
        [
            ("plan", base["plan_hash"][:8]),
            ("schema", f"{base['schema']}: {names}"),
            ("records", f"{base['n_records']:,}"),
            (
                "patterns",
                f"{n:,} of cells open in a leaf" if n > 1 else "1: the same cells are open in every leaf",
            ),
            ("set aside", f"{reserved:,} people, for lower bounds" if reserved else "nobody"),
        ]
    )
