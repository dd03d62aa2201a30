"""What a release tells its ledger and its reader about the charge: what is drawn, for whom, and who has spent it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pgsr.budget import Calibration
from pgsr.policy import Policy
from pgsr.prepared import Prepared
from topdown.errors import BudgetError, DataError, TopdownError

if TYPE_CHECKING:
    from topdown.ledger.drawn_law import DrawnLaw
    from topdown.ledger.place import Place
    from topdown.ledger.protocol import Spend

LAWS = {"geometric": "two_sided_geometric", "gaussian": "discrete_gaussian"}
QUERY = "group sizes"
SPENT = "this run spent"
NOTHING = "nothing"
KEPT = "finished noise is kept: go on with --resume"
P = ParamSpec("P")
R = TypeVar("R")
Drawn = tuple[str, Fraction, int, int]


def tells_what_was_spent(run: Callable[P, R]) -> Callable[P, R]:
    """Make a command add to every error what it has spent itself: nothing, unless it was said before."""

    @wraps(run)
    def telling(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return run(*args, **kwargs)
        except TopdownError as error:
            if SPENT not in dict(error.details):
                error.details += ((SPENT, NOTHING),)
            raise

    return telling


@contextmanager
def says_what_was_spent(place: Place, plan_hash: str) -> Iterator[None]:
    """Add to whatever ends the block what the ledger says that it has spent on a plan, and how to go on.

    Raises:
        DataError: D050 in place of an OSError.
    """
    before = spent_on(place, plan_hash)
    try:
        yield
    except OSError as error:
        where = str(error.filename or place.path)
        raise DataError(
            f"cannot write {where}: {error.strerror or type(error).__name__}",
            code="D050",
            file=where,
            details=((SPENT, _said(place, plan_hash, before)),),
            fix="make room or correct the rights, then run the same command again, with --resume if it spent anything",
        ) from None
    except TopdownError as error:
        error.details += ((SPENT, _said(place, plan_hash, before)),)
        raise
    except (KeyboardInterrupt, Exception) as error:
        error.add_note(f"{SPENT}: {_said(place, plan_hash, before)}")
        raise


def spent_on(place: Place, plan_hash: str) -> Fraction:
    """Return what a ledger was charged for a plan, in all folders and attempts; 0 if there is none.

    Raises:
        BudgetError: damaged (B006).
    """
    from topdown.ledger.ledger import read_ledger

    intents = read_ledger(place.path).live.values()
    return sum((intent.loss for intent in intents if intent.plan_hash == plan_hash), Fraction(0))


def _said(place: Place, plan_hash: str, before: Fraction) -> str:
    try:
        spent = spent_on(place, plan_hash) - before
    except BudgetError:
        return "unknown: the ledger cannot be read"
    return f"{place.binding.loss_name} {spent}; {KEPT}" if spent else NOTHING


def spend_of(plan: Prepared, place: Place, policy: Policy, so_far: Fraction) -> Spend:
    """Return what a release may charge.

    Args:
        plan: what will be drawn, once.
        place: the ledger.
        policy: the most that may ever be charged to the data set, and why; without a limit this release, and what of
            it has to be drawn again after a crash.
        so_far: what this run was charged before.
    """
    from topdown.ledger.protocol import Spend

    laws = ledger_laws(plan.calibration, plan.hierarchy.level_names)
    return Spend(
        release=f"{place.binding.data_set}-{plan.plan_hash[:8]}",
        plan_hash=plan.plan_hash,
        laws={level: (law,) for level, law in laws.items()},
        exact=tuple(plan.sections["privacy"]["conditional_on"]),
        limit=plan.calibration.loss + so_far if policy.most is None else policy.most,
        limit_reason=policy.reason,
    )


def ledger_laws(calibration: Calibration, levels: tuple[str, ...]) -> dict[str, DrawnLaw]:
    """Return the law of every level as the ledger records it."""
    from topdown.ledger.drawn_law import DrawnLaw

    drawn = laws_drawn(calibration, levels)
    return {level: DrawnLaw(*law, level, QUERY) for level, law in drawn.items()}


def laws_drawn(calibration: Calibration, levels: tuple[str, ...]) -> dict[str, Drawn]:
    """Return, per level, (law, parameter, shift, coordinates): what the worst neighbour moves there, exactly.

    One step is the worst at every level at once (see `vectors.joint_sensitivity`), and moves each answer by one
    at most, so the composition of these laws is the loss of a single pair of neighbours.

    Args:
        calibration: noise of every level.
        levels: their names, root first.
    """
    law = LAWS[calibration.noise]
    drawn = zip(levels, calibration.parameters, calibration.sensitivities, strict=True)
    return {name: (law, parameter, 1, changed) for name, parameter, changed in drawn}
