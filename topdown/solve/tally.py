"""What is reported of the solves: sums and maxima, so that order and worker count do not matter."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from topdown.plan.plan import Plan
from topdown.solve.groups import Ints
from topdown.solve.least_squares.kkt import TARGET_PERSONS
from topdown.solve.passes import Fit
from topdown.solve.rounding import Rounded


@dataclass
class LevelTally:
    """Counts and worst cases of one level."""

    n_splits: int = 0
    n_problems: int = 0
    n_variables: int = 0
    n_unconverged: int = 0
    max_iterations: int = 0
    max_kkt_residual_persons: float = 0.0
    n_roundings: int = 0
    n_roundings_optimal: int = 0
    n_milp: int = 0
    n_enforced: int = 0
    n_dropped: int = 0
    n_broken: int = 0

    def add(self, fit: Fit, rounded: Rounded) -> None:
        """Count one split."""
        self.n_splits += 1
        self.n_problems += fit.n_problems
        self.n_variables += fit.n_variables
        self.n_unconverged += not fit.residual_persons <= TARGET_PERSONS
        self.max_iterations = max(self.max_iterations, fit.iterations)
        self.max_kkt_residual_persons = max(self.max_kkt_residual_persons, fit.residual_persons)
        self.n_roundings += 1
        self.n_roundings_optimal += rounded.optimal
        self.n_milp += rounded.route == "milp"

    def compare(self, soft: Ints, rounded: Rounded, *, enforced: bool, dropped: bool) -> None:
        """Count one split under soft rules: solved again for them, and children left breaking one."""
        self.n_enforced += enforced or rounded.route == "milp"
        self.n_dropped += dropped
        self.n_broken += int((soft @ rounded.counts > 0).any(axis=0).sum())

    def merge(self, other: LevelTally) -> None:
        """Add another tally of the same level."""
        for name, value in asdict(other).items():
            mine = getattr(self, name)
            setattr(self, name, max(mine, value) if name.startswith("max_") else mine + value)


@dataclass
class Tally:
    """One `LevelTally` a level, every use of the failsafe, and what became of leaves that broke soft rules."""

    levels: dict[str, LevelTally] = field(default_factory=dict)
    failsafe: list[dict[str, Any]] = field(default_factory=list)
    repairs: list[dict[str, Any]] = field(default_factory=list)
    broken: list[dict[str, Any]] = field(default_factory=list)

    def level(self, name: str) -> LevelTally:
        """Return the tally of a level, started if need be."""
        return self.levels.setdefault(name, LevelTally())

    def merge(self, other: Tally) -> None:
        """Add another tally."""
        for name, level in other.levels.items():
            self.level(name).merge(level)
        self.failsafe += other.failsafe
        self.repairs += other.repairs
        self.broken += other.broken

    def to_document(self, plan: Plan) -> dict[str, Any]:
        """Return the `topdown.solve` document (docs/format.md)."""
        order = [level.name for level in plan.levels]
        levels = [{"level": name, **asdict(self.level(name))} for name in order]
        compared = [
            {
                "level": level["level"],
                **{key: level.pop(key) for key in ("n_enforced", "n_dropped", "n_broken")},
            }
            for level in levels
        ]
        for level in levels:
            level["max_kkt_residual_persons"] = float(f"{level['max_kkt_residual_persons']:.2e}")
        soft = {
            "levels": compared,
            "repairs": sorted(self.repairs, key=lambda repair: repair["node"]),
            "broken": sorted(self.broken, key=lambda leaf: leaf["node"]),
        }
        return {
            "type": "topdown.solve",
            "version": 1,
            "plan_hash": plan.plan_hash,
            "target_kkt_residual_persons": TARGET_PERSONS,
            "failsafe": sorted(self.failsafe, key=lambda use: (order.index(use["level"]), use["node"])),
            "levels": levels,
            **({"comparisons": soft} if plan.invariants.no_more_than else {}),
        }
