"""The 43 published spine paths of the 2020 DHC persons release, and their pair search."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from importlib.resources import files

from topdown.accountant.exact import Threshold
from topdown.accountant.paths import Path, Worst, path, worst_epsilon


def dhc_paths() -> tuple[list[Path], int]:
    """Return the 43 paths (named "1".."43") and the index of the un-bypassed one."""
    text = (files("topdown.accountant") / "data" / "dhc_persons_2020.json").read_text(encoding="utf-8")
    document = json.loads(text)
    paths = [
        path(str(number), [(Fraction(rho), n) for level in levels.values() for rho, n in level.items()])
        for number, levels in enumerate(document["paths"], start=1)
    ]
    return paths, int(document["unbypassed"]) - 1


def dhc_worst(deltas: Iterable[Threshold], *, proxy: bool = False) -> list[Worst]:
    """Return the worst pair at each delta, over all 946 pairs or (proxy) the un-bypassed path with itself.

    Cost: about 10 s for all pairs; milliseconds for the proxy, which is right to 1e-6 and meant for tuning.
    """
    paths, unbypassed = dhc_paths()
    return worst_epsilon([paths[unbypassed]] if proxy else paths, deltas)
