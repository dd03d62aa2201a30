"""Plan: a run file with everything public it names, before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topdown.api.call import PathText, held, place, public
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.accountant.exact import Exact
    from topdown.api.budget_for import BudgetFor
    from topdown.api.noise_compared import NoiseCompared
    from topdown.api.plans_compared import PlansCompared
    from topdown.frames import ArrowTable, HeldTable
    from topdown.plan.plan import Plan
    from topdown.plan.prepare import Prepared


@dataclass(frozen=True, eq=False)
class Planned:
    """A run file with its plan: what a release would measure, at what exact cost. `topdown.plan` makes it.

    Args:
        prepared: run file, plan and public facts.
        base: folder of the release that it extends; None if it extends none.
    """

    prepared: Prepared
    base: Path | None = None

    @property
    def plan(self) -> Plan:
        """Levels, queries, laws of noise, invariants, budget."""
        return self.prepared.context.plan

    @property
    def plan_hash(self) -> str:
        """SHA-256 of the plan, in hex; the ledger charges under it."""
        return self.plan.plan_hash

    @property
    def loss(self) -> Fraction:
        """What a release spends: exact, in rho or epsilon (`plan.loss_name`)."""
        return self.plan.loss

    @property
    def delta(self) -> Fraction:
        """What a release spends of delta beside `loss`: exact, 0 unless losses are pairs."""
        return self.plan.delta_of(self.plan.loss)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The `topdown.plan_summary` document: areas, noise, certified privacy, ledger, needs, warnings."""
        from topdown.api.plan_summary import plan_summary

        return plan_summary(self.prepared)

    def compare_noise(self, delta: Exact, epsilon: Exact | None = None) -> NoiseCompared:
        """Compare discrete Gaussian noise with the best noise for single counts, under one promise for all queries.

        Nothing is drawn or charged. A run file has the second kind with mechanism = "optimal"; its shares split
        epsilon and delta, so it reaches the variances here only where they come from sums.

        Args:
            delta: of all queries together, exact, above 0, at most 1/1000.
            epsilon: of all queries together, exact, 1/1000 .. 100; what the plan costs at delta if None.

        Returns: variances of both kinds, about in the plan's proportions, and what each kind needs, certified.

        Raises:
            ConfigError: C005 an extension, C151 epsilon, C152 and C154 delta, C155 too wide noise.

        Cost: seconds, more for many queries of different noise.
        """
        from topdown.accountant.exact import rational
        from topdown.api.noise_compared import compare_noise

        wanted = None if epsilon is None else rational(epsilon, "epsilon")
        return compare_noise(self.plan, rational(delta, "delta"), wanted)

    def compare(self, other: Planned) -> PlansCompared:
        """Compare with another plan of the same schema: cost, noise, and how far estimates will be off.

        Args:
            other: from `topdown.plan`.

        Raises:
            ConfigError: C005 two schemas or units.

        Cost: that of both summaries.
        """
        from topdown.api.plans_compared import compare_plans

        return compare_plans(self.summary, other.summary)

    def budget_for(self, epsilon: Exact, delta: Exact = "1e-10") -> BudgetFor:
        """Find the budget of at most four digits that costs at most epsilon at delta, with the plan's own shares.

        Args:
            epsilon: exact, 1/1000 .. 100. delta: exact, above 0, below 1.

        Raises:
            ConfigError: C005 an extension or mechanism optimal, C151 epsilon, C152 delta, A014 nothing certified.

        Cost: a second or two.
        """
        from topdown.accountant.exact import rational
        from topdown.api.budget_for import budget_for

        return budget_for(self.plan, rational(epsilon, "epsilon"), rational(delta, "delta"))

    def save(self, path: PathText) -> None:
        """Write plan.json, which `generate` takes in place of the run file.

        Args:
            path: file; another plan there is replaced.

        Raises:
            ConfigError: C080 another file is there, C132 the run needs the file or it lies inside a release.
            DataError: D050 the disk refuses.
        """
        from topdown.api.plan_file import save_plan

        public(save_plan)(self.prepared, place(path, "path"))

    def __repr__(self) -> str:
        return (
            f"Planned({self.plan.release.id!r}, {self.plan.loss_name} {self.loss}, plan {self.plan_hash[:8]})"
        )

    def _repr_html_(self) -> str:
        from topdown.shown import card

        plan = self.plan
        rows = [
            (at.name, f"{at.n_nodes:,}", f"{plan.numbers_at(depth):,}", at.loss)
            for depth, at in enumerate(plan.levels)
        ]
        return card(
            f"Plan of {plan.release.id}: {plan.loss_name} {self.loss}",
            rows,
            head=("level", "areas", "noisy numbers", plan.loss_name),
            note=f"Plan {self.plan_hash[:8]}. Nothing was spent.",
        )


@public
def plan(
    run: PathText, *, base: PathText | None = None, leaves: ArrowTable | None = None, final: bool = False
) -> Planned:
    """Plan a release and spend nothing; the confidential records are not opened.

    Args:
        run: run file.
        base: folder of the published release that the run extends.
        leaves: the public leaf table as a data frame, or anything with an Arrow C stream; the file that the run file
            names if None.
        final: refuse answers that only a person can give and that are still open.

    Raises:
        ConfigError: a file says something impossible, H001 an answer is open, C122 the base is a simulation, C250
            `leaves` is no table.
        DataError: a public table breaks a rule.
        BudgetError: the budget does not add up.
        InfeasibleError: the constraints contradict each other.

    Cost: seconds; `summary` computes the certified loss when it is first asked for.
    """
    from topdown.rehearse.memory import check_memory

    found = opened(place(run, "run"), None if base is None else place(base, "base"), held(leaves, "leaves"))
    check_memory(found.plan)
    require_answers(found, final=final)
    return found


def opened(run: Path, base: Path | None = None, leaves: HeldTable | None = None) -> Planned:
    """Open a run file with the release it extends."""
    from topdown.made_up import refuse_simulation
    from topdown.plan.prepare import prepare

    if base is not None:
        refuse_simulation(base)
    return Planned(prepare(run, base, leaves=leaves), base)


def opened_again(run: Path, leaves: HeldTable | None = None) -> Planned:
    """Open a run file, or a plan.json that must still be the plan of its run file."""
    from topdown.api.plan_file import open_plan

    return Planned(open_plan(run, leaves))


def require_answers(planned: Planned, *, final: bool) -> None:
    """Refuse a final release while answers are open (H001)."""
    from topdown.publish.certificate import open_answers

    unanswered = open_answers(planned.plan) if final else []
    if unanswered:
        raise ConfigError(
            f"{len(unanswered)} answers only a person can give are still open",
            code="H001",
            details=tuple(("open", key) for key in unanswered[:12]),
            fix='replace "?" in the run file and the invariants, or leave --final out: a DRAFT',
        )
