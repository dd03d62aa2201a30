"""What a report says that no document of a release holds: sums and quantiles of its public tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from topdown.privacy.exact_values import significant
from topdown.privacy.laws import LAWS

if TYPE_CHECKING:
    from topdown.app.read_release import Release

TOTAL = "total"


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
        [_stddev(m.law, m.parameter, m.whole_weights) for m in level.measurements] for level in plan.levels
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


def _stddev(law: str, parameter: Fraction, weights: tuple[int, ...]) -> str:
    return significant(Fraction(LAWS[law].stddev(parameter, weights)), 4, up=True)


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
