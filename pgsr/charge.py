"""What a release tells its ledger and its reader about the charge: what is drawn, for whom, and who has spent it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import wraps
from typing import ParamSpec, TypeVar

from pgsr.budget import Calibration
from pgsr.vectors import Relation
from topdown.errors import TopdownError

LAWS = {"geometric": "two_sided_geometric", "gaussian": "discrete_gaussian"}
UNKNOWN = "B006"
SPENT = "this run spent"
P = ParamSpec("P")
R = TypeVar("R")
Drawn = tuple[str, Fraction, int, int]


def tells_what_was_spent(run: Callable[P, R]) -> Callable[P, R]:
    """Make a command add to every error what it has spent itself: nothing, unless `charged` said more.

    A ledger that could not be written (B006) says so itself; whether its last line counts only the file tells.
    """

    @wraps(run)
    def telling(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return run(*args, **kwargs)
        except TopdownError as error:
            if error.code != UNKNOWN and SPENT not in dict(error.details):
                error.details += ((SPENT, "nothing"),)
            raise

    return telling


@contextmanager
def charged(loss_name: str, loss: Fraction, code: str = "") -> Iterator[None]:
    """Add to every error raised in the block (or only to those of `code`) that the loss is spent."""
    try:
        yield
    except TopdownError as error:
        if code in ("", error.code):
            error.details += ((SPENT, f"{loss_name} {loss}"),)
        raise


def relation_name(relations: tuple[Relation, ...], smallest: int) -> str:
    """Return the neighbour relation as a ledger is bound to it: "move", "move+new", "move+new of size 0 or 1"."""
    words: dict[str, str] = {"new": "new of size 0 or 1"} if smallest == 0 else {}
    return "+".join(words.get(relation, relation) for relation in relations)


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
