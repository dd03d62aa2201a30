"""`topdown plan --compare`: the part of the screen that shows another plan beside this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from topdown.api.plans_compared import ComparedNumber, PlansCompared
from topdown.screen import figures
from topdown.screen.console import Screen
from topdown.screen.layout import Column

_CHANGE = {"bounded": "a record replaced", "add_remove": "a record added or removed"}


def show_compared(screen: Screen, found: PlansCompared, name: str) -> None:
    """Write cost, noise and expected errors of two plans side by side."""
    screen.heading("Compared", f" with {name}")
    columns = [Column(""), Column("this plan", right=True), Column("the other", right=True)]
    pair = (found.here, found.there)
    screen.table(
        columns,
        [
            ("spends", *(_loss(s) for s in pair)),
            ("for", *(_CHANGE[s["neighbours"]] for s in pair)),
            ("right choices in 100, at most", *(_right(s) for s in pair)),
            ("noisy numbers", *(f"{sum(level['n_numbers'] for level in s['levels']):,}" for s in pair)),
            ("time, about", *(f"{max(1, round(s['needs']['seconds'])):,} s" for s in pair)),
            ("memory, about", *(figures.size(s["needs"]["memory_bytes"]) for s in pair)),
        ],
    )
    if found.here["neighbours"] != found.there["neighbours"]:
        screen.blank()
        screen.say(
            "The two protect different changes: their losses and choices are not about one secret.",
            indent=2,
            hang=4,
        )
    unit = found.here["privacy"]["unit"].split()[-1]
    _numbers(screen, f"Noise, standard deviation in {unit}s", found.noise)
    _numbers(screen, f"Estimates, mean standard deviation in {unit}s", found.estimates)


def _loss(s: Mapping[str, Any]) -> str:
    privacy = s["privacy"]
    return figures.loss(privacy["loss_name"], Fraction(privacy["loss"]), Fraction(privacy.get("delta", 0)))


def _right(s: Mapping[str, Any]) -> str:
    return str(s["privacy"]["certified"].get("right_in_100", "-"))


def _numbers(screen: Screen, title: str, rows: Sequence[ComparedNumber]) -> None:
    """Write the deviations that differ, with the ratio where both plans have one."""
    if not rows:
        return
    differ = [one for one in rows if one.here != one.there]
    equal = f"{len(rows) - len(differ):,} of {len(rows):,} are equal" if len(differ) < len(rows) else ""
    screen.heading(title, f"; {equal}" if equal else "")
    columns = [
        *(Column("level"), Column("query", wraps=True)),
        *(Column(name, right=True) for name in ("this plan", "the other", "ratio")),
    ]
    screen.table(columns, [(one.level, one.query, *_shown(one)) for one in differ])


def _shown(one: ComparedNumber) -> tuple[str, str, str]:
    here, there = (figures.two_digits(x) if x is not None else "-" for x in (one.here, one.there))
    ratio = f"{one.there / one.here:.2f}" if one.here and one.there is not None else "-"
    return here, there, ratio
