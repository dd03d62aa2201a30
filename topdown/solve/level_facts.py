"""What is known of a release before its solve: from plan, public facts and exact statistics, level by level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from topdown.model.kinds import find_kinds
from topdown.model.public import leaf_answers, with_answers
from topdown.plan.prepare import Context
from topdown.solve.chain import Chain, NoFlow, Places, chain_of, places
from topdown.solve.exact import Margins, complete_totals, exact_margins
from topdown.solve.groups import Ints
from topdown.solve.implied.classify import Verdict, plan_verdicts
from topdown.solve.level import LevelModel, build_levels
from topdown.solve.polytopes import Polytopes


@dataclass(frozen=True, eq=False)
class Known:
    """The public side of a descent, each part made once.

    Args:
        context: plan and public facts.
        exact: exact node totals by level name.
        tables: exact tables other than totals, by name.
    """

    context: Context
    exact: dict[str, Ints]
    tables: dict[str, Ints]

    @cached_property
    def polytopes(self) -> Polytopes:
        """What can be split down to the leaves."""
        plan, geography = self.context.plan, self.context.geography
        exact = leaf_answers(plan.schema, geography, plan.invariants, self.tables)
        rules = with_answers(self.context.rules, exact)
        labels, answers = self.margins.split or (None, None)
        kinds = find_kinds(rules, answers=labels)
        totals = complete_totals(geography, rules, kinds, self.exact, answers)
        return Polytopes(kinds, rules, geography, totals, answers)

    @cached_property
    def margins(self) -> Margins:
        """Exact tables above the leaves."""
        return exact_margins(self.context, self.tables, self.exact)

    @cached_property
    def levels(self) -> tuple[LevelModel, ...]:
        """Solver's view of every level."""
        return build_levels(self.context, self.polytopes, self.margins)

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        """Rounding chain of every level."""
        exact = [v.exact.of_cell if v.exact.is_told and not v.exact_told else None for v in self.levels]
        return tuple(
            chain_of(self.polytopes, v.index, v.chain, v.chain_weights, beside)
            for v, beside in zip(self.levels, exact, strict=True)
        )

    @cached_property
    def places(self) -> tuple[Places | None, ...]:
        """Per level, where lower bounds sit in the rounding chain; None where rounding is not a flow."""
        rules = self.context.rules
        found = [places(rules, self.polytopes, i, chain) for i, chain in enumerate(self.chains)]
        return tuple(None if isinstance(at, NoFlow) else at for at in found)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the plan promises of every level; the solver holds itself to it."""
        return plan_verdicts(self.context)
