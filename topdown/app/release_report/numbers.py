"""Numbers of a report: how they are written, where they are found, and those derived from the published tables.

A claim is never rounded in its own favour: a privacy loss, an attacker's chance and an error are rounded up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from topdown.privacy.exact_values import fixed, significant

if TYPE_CHECKING:
    from topdown.app.read_release import Release

TOTAL = "total"
Form = Literal["whole", "up1", "up2", "up4", "percent", "percent_up", "text"]
"""How a number is written: whole; rounded up to 1, 2 or 4 digits; per cent, to the nearest or up; as it stands."""
_DIGITS = {"up1": 1, "up2": 2, "up4": 4}


def written(value: object, form: Form) -> str:
    """Write a number in a form.

    Args:
        value: an integer, an exact fraction such as "7/8", or a decimal as text; a float only where a file holds one.
        form: see `Form`.

    >>> written("16.21939", "up2"), written(1052567, "whole"), written("7/8", "percent")
    ('16.22', '1,052,567', '87.5 %')
    """
    if form == "text":
        return str(value)
    exact = Fraction(str(value))
    if form == "whole":
        if exact.denominator != 1:
            raise ValueError(f"{value} is no whole number")
        return f"{exact.numerator:,}"
    if form in ("percent", "percent_up"):
        return f"{_with_commas(fixed(100 * exact, 1, up=True if form == 'percent_up' else None))} %"
    return _with_commas(fixed(exact, _DIGITS[form], up=True))


def _with_commas(number: str) -> str:
    return f"{Decimal(number):,}"


def found(documents: Mapping[str, Any], source: str) -> Any:
    """Return what stands at a place, `certificate.json#/privacy/loss`.

    Raises:
        LookupError: there is no such place.
    """
    name, _, pointer = source.partition("#/")
    value = documents[name]
    for key in pointer.split("/"):
        value = (
            value[int(key)] if isinstance(value, list) else value[key.replace("~1", "/").replace("~0", "~")]
        )
    return value


def derived_document(release: Release) -> dict[str, Any]:
    """Return the numbers of a report that are derived from the plan and the published tables.

    Args:
        release: a finished release.

    Returns:
        leaf, n_leaves, n_records; n_checks, n_checks_ok, n_failsafe, n_open; certificate_sha256; `noise`, standard
        deviations by level and measurement in records, rounded up; `total_noise` of the leaves and of the level with
        the least; `intervals`, half widths by table and level.

    Cost: one reading of the tables that have intervals.
    """
    plan, certificate = release.plan, release.certificate
    root, leaf = plan.levels[0], plan.levels[-1]
    records = release.arrow(TOTAL, root.name)["count"].to_numpy()
    noise = [
        [significant(Fraction(m.stddev), 4, up=True) for m in level.measurements] for level in plan.levels
    ]
    checks = certificate["checks"]
    return {
        "leaf": leaf.name,
        "n_leaves": leaf.n_nodes,
        "n_records": int(records.sum()),
        "n_checks": len(checks),
        "n_checks_ok": sum(bool(one["ok"]) for one in checks),
        "n_failsafe": len(release.document("solve.json")["failsafe"]),
        "n_open": len(certificate["open_answers"]),
        "certificate_sha256": hashlib.sha256((release.path / "certificate.json").read_bytes()).hexdigest(),
        "noise": noise,
        "total_noise": _total_noise(release, noise),
        "intervals": list(_half_widths(release)) if plan.estimates is not None else [],
    }


def _total_noise(release: Release, noise: list[list[str]]) -> dict[str, Any]:
    found = [
        {"level": level.name, "stddev": noise[i][j]}
        for i, level in enumerate(release.plan.levels)
        for j, m in enumerate(level.measurements)
        if m.query == TOTAL
    ]
    at_leaves = [one for one in found if one["level"] == release.levels[-1]]
    if not at_leaves:
        return {}
    return {"leaf": at_leaves[0], "best": min(found, key=lambda one: Fraction(one["stddev"]))}


def _half_widths(release: Release) -> Iterator[dict[str, Any]]:
    """Yield quantiles of the half widths of a table's intervals at a level; counts that are exact are left out."""
    for query in release.tables:
        for level in release.levels:
            table = release.arrow(query, level)
            if "low" not in table.column_names:
                continue
            low, high = (table[name].to_numpy() for name in ("low", "high"))
            widths = np.sort((high - low)[high > low])
            if widths.size:
                yield {
                    "query": query,
                    "level": level,
                    "n_counts": int(widths.size),
                    "half_width_50": _quantile(widths, Fraction(1, 2)),
                    "half_width_95": _quantile(widths, Fraction(19, 20)),
                }


def _quantile(widths: np.ndarray, share: Fraction) -> str:
    """Return the least half width that at least a share of the sorted widths do not exceed."""
    return str(Fraction(int(widths[-(-len(widths) * share.numerator // share.denominator) - 1]), 2))
