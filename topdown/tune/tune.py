"""Shares of a plan's budget, exact, that suit the whole-tree estimate and some goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from topdown.plan.prepare import Context
from topdown.solve.tree.covered import LatticeForm
from topdown.solve.tree.lattice import Floats
from topdown.tune.goals import Goals
from topdown.tune.search import Wishes, best_shares
from topdown.tune.uniform import uniform

PARTS = 4096  # least denominator of shares
NEGLIGIBLE = 1e-6  # deviation, relative to the largest, that is no goal


@dataclass(frozen=True, eq=False)
class LevelShares:
    """Shares of one level: of the budget, and of the level by the number of each query; 0 where it is dropped."""

    share: Fraction
    queries: tuple[Fraction, ...]


@dataclass(frozen=True, eq=False)
class Tuned:
    """New shares.

    Args:
        levels: root first.
        compared: what deviations were compared with: those of levels fitted to their own measurements only, or,
            where these do not tell every cell apart, those of the tree under the old shares.
    """

    levels: tuple[LevelShares, ...]
    compared: Literal["own", "tree"]


def tune(
    context: Context,
    form: LatticeForm,
    goals: Goals,
    exact: Mapping[tuple[int, int], bool],
    names: Sequence[str],
) -> Tuned:
    """Return shares that make the largest of all deviations, relative to goals, as small as they can be.

    Args:
        context: plan and public facts. form: its lattice form.
        goals: what matters more.
        exact: per index of a level and of a name, whether all its answers are exact by policy.
        names: tables that count.

    Cost: about 300 sweeps of the tree; ten seconds for Rhode Island.
    """
    plan = context.plan
    model = uniform(context, form, names)
    start = [np.array([float(m.loss / plan.loss) for m in level.measurements]) for level in plan.levels]
    linear = model.linear(start)
    wished = model.deviations(start) if linear is None else linear
    wished = np.where(wished > NEGLIGIBLE * wished.max(), wished, 0.0)
    worthless, least = [], []
    for depth, level in enumerate(plan.levels):
        for i, name in enumerate(names):
            told = exact[depth, i]
            wished[depth, i] *= 0.0 if told else float(goals.of.get((level.name, name), Fraction(1)))
        known = np.array([exact[depth, names.index(m.query)] for m in level.measurements])
        worthless.append(known & (not known.all()))
        finest = np.array([m.query == "detailed" for m in level.measurements])
        least.append(np.where(finest, float(goals.least_detailed), 0.0))
    found = best_shares(model, start, Wishes(wished, tuple(worthless), tuple(least)))
    return Tuned(_exact_shares(context, found), "tree" if linear is None else "own")


def _exact_shares(context: Context, found: Sequence[Floats]) -> tuple[LevelShares, ...]:
    """Return shares as fractions: those of levels add up to what they did, those of queries to 1."""
    plan = context.plan
    whole = sum((level.share for level in plan.levels), Fraction(0))
    times = -(-PARTS // whole.numerator)
    levels = _parts([float(level_shares.sum()) for level_shares in found], whole.numerator * times)
    kept = _kept(context, found)
    out = []
    for n, level_shares, keeps in zip(levels, found, kept, strict=True):
        counts = iter(_parts([float(x) for x, keep in zip(level_shares, keeps, strict=True) if keep], PARTS))
        queries = tuple(Fraction(next(counts), PARTS) if keep else Fraction(0) for keep in keeps)
        out.append(LevelShares(Fraction(n, whole.denominator * times), queries))
    return tuple(out)


def _kept(context: Context, found: Sequence[Floats]) -> list[list[bool]]:
    """Tell which queries are kept: those of a share worth writing, and each where it is largest, for its table.

    A level without `detailed` keeps all: fewer might not tell its cells apart.
    """
    levels = context.plan.levels
    parts = [level_shares / level_shares.sum() for level_shares in found]
    most: dict[str, float] = {}
    for level, level_shares in zip(levels, parts, strict=True):
        for m, part in zip(level.measurements, level_shares, strict=True):
            most[m.query] = max(most.get(m.query, 0.0), float(part))
    kept = []
    for level, level_shares in zip(levels, parts, strict=True):
        names = [m.query for m in level.measurements]
        last = [
            part == most[name] and name != "total" for name, part in zip(names, level_shares, strict=True)
        ]
        kept.append(
            [
                "detailed" not in names or only or float(part) * PARTS >= 1
                for only, part in zip(last, level_shares, strict=True)
            ]
        )
    return kept


def _parts(weights: Sequence[float], total: int) -> list[int]:
    """Return whole numbers, at least 1 each, that add up to a total and are nearest to proportional."""
    spare = total - len(weights)
    exact = [Fraction(w) / sum(map(Fraction, weights)) * total for w in weights]
    above = [max(x - 1, Fraction(0)) for x in exact]
    scaled = [x * spare / sum(above) if sum(above) else Fraction(spare, len(weights)) for x in above]
    out = [int(x) for x in scaled]
    order = sorted(range(len(out)), key=lambda i: (out[i] - scaled[i], i))
    for i in order[: spare - sum(out)]:
        out[i] += 1
    return [1 + n for n in out]
