"""What a release promises: one row for each neighbour step, read together with what is published exactly.

The noise protects two data sets that are neighbours *and agree on every exact statistic*. The number of groups is
always exact, so a step that changes it is disclosed, whatever the noise; where groups past the last size are
refused, the release also tells that there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgsr._account import DIGITS, account
from pgsr.budget import Calibration
from pgsr.groups import Sizes
from pgsr.hierarchy import Tree
from pgsr.vectors import Kind, Relation, sensitivity
from topdown.errors import ConfigError

NUMBER = "number of groups"
PUBLIC = "public numbers of groups of regions"


@dataclass(frozen=True)
class Step:
    """A neighbour step in words, and the exact statistics that it alters.

    Args:
        relation: the step.
        name: whose secret it is.
        neighbours: how the two data sets differ.
        always, sometimes: exact statistics that every such step alters, and that some do.
    """

    relation: Relation
    name: str
    neighbours: str
    always: tuple[str, ...]
    sometimes: tuple[str, ...]

    @property
    def status(self) -> str:
        """Return "disclosed", "conditional" or "protected"."""
        return "disclosed" if self.always else "conditional" if self.sometimes else "protected"


def exact_statistics(sizes: Sizes, public: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of what is true of the data and published without noise."""
    too_large = () if sizes.too_large == "top-code" else (f"no group larger than {sizes.largest}",)
    return (NUMBER, *too_large, *((PUBLIC,) if public else ()))


def step(relation: Relation, sizes: Sizes, public: Mapping[str, int], unit: str) -> Step:
    """Return what a neighbour step means for the sizes and public facts of a release."""
    _, *others = exact_statistics(sizes, public)
    totals = tuple(name for name in others if name == PUBLIC)
    if relation == "move":
        return Step(
            relation,
            f"presence of one {unit} in a group that is counted either way",
            "one group of one leaf region changes its size by one",
            (),
            tuple(name for name in others if name != PUBLIC),
        )
    if relation == "new":
        size = "1" if sizes.smallest == 1 else "0 or 1"
        name = f"presence of one {unit} with whom a group of size {size} appears"
        return Step(relation, name, f"one group of size {size} appears or disappears", (NUMBER,), totals)
    last = f"{sizes.largest}{' or more' if sizes.too_large == 'top-code' else ''}"
    name = f"presence of one group of the last size, {last}"
    return Step(relation, name, f"one group of size {last} appears or disappears", (NUMBER,), totals)


def refuse_empty_promise(kind: Kind, relations: tuple[Relation, ...], tree: Tree, n_sizes: int) -> None:
    """Refuse a release whose neighbours never agree on the exact statistics or never differ in an answer.

    Raises:
        ConfigError: C169.
    """
    if "move" not in relations:
        raise ConfigError(
            f"every pair of neighbours ({', '.join(relations)}) differs in the {NUMBER}, which is published exactly",
            code="C169",
            fix='protect "move" too (--relations move), which leaves the number of groups as it is',
        )
    if sensitivity(kind, "move", tree, n_sizes).l1 == 0:
        raise ConfigError(
            "with one size, no step that keeps the number of groups changes an answer: noise protects nothing",
            code="C169",
            fix="raise the number of sizes (--sizes)",
        )


def privacy(
    kind: Kind, tree: Tree, sizes: Sizes, plan: Calibration, public: Mapping[str, int], unit: str
) -> dict[str, Any]:
    """Return the section `privacy` of a release: what is protected, from whom, and what it costs.

    Args:
        kind: measured vector.
        tree: the regions.
        sizes: public range of sizes.
        plan: noise and exact loss.
        public: public numbers of groups of some regions.
        unit: name of who adds one to the size of a group, such as "person".

    Raises:
        ConfigError: the accountant has no bound (A009).
    """
    known = exact_statistics(sizes, public)
    return {
        "unit": unit,
        "unit_means": f"one {unit} adds at most one to the size of one group",
        "relations": list(plan.relations),
        "conditional_on": list(known),
        "noise": plan.noise,
        "calibration": plan.name,
        "claimed": str(plan.claimed),
        "loss_name": "epsilon" if plan.noise == "geometric" else "rho",
        "loss": str(plan.loss),
        "private_as_claimed": plan.private,
        "secrets": [
            _row(step(relation, sizes, public, unit), kind, tree, sizes, plan, known)
            for relation in plan.relations
        ],
    }


def _row(
    this: Step, kind: Kind, tree: Tree, sizes: Sizes, plan: Calibration, known: tuple[str, ...]
) -> dict[str, Any]:
    row = {
        "name": this.name,
        "kind": "presence",
        "relation": this.relation,
        "neighbours": this.neighbours,
        "status": this.status,
        "exact": [*this.always, *this.sometimes],
    }
    if this.always:
        return row | {"sentence": f"disclosed by: {', '.join(this.always)}"}
    moved = sensitivity(kind, this.relation, tree, sizes.n_sizes, sizes.smallest).l1_by_level
    cost = account(plan.noise, [(p, n) for p, n in zip(plan.parameters, moved, strict=True) if n])
    return row | {
        "loss": str(cost.loss),
        "n_counts_moved": cost.n_counts_moved,
        "epsilon": {cost.delta: list(cost.epsilon.texts(DIGITS))},
        "best_guess": list(cost.best_guess.texts(DIGITS)),
        "right_in_100": cost.right_in_100,
        "method": cost.best_guess.method,
        "sentence": sentence(this, cost.right_in_100, known),
    }


def sentence(this: Step, right_in_100: int, known: tuple[str, ...]) -> str:
    """Return the sentence an official can quote."""
    return (
        f"Someone who reads only this release, knows everybody else, and must tell whether one group has one more in "
        f"it or not, both of which fit what is exact ({', '.join(known)}), chooses rightly at most {right_in_100} "
        "times in 100; a coin gives 50."
    )
