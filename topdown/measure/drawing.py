"""The files of measured parts: true counts plus fresh noise, drawn here or in forked children."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

from topdown.ledger.journal import MeasuredPart
from topdown.measure.children import drawn_in_children
from topdown.measure.draw import LevelDrawer, PartPlan, level_drawer
from topdown.measure.encode import encode
from topdown.measure.truth import Truth
from topdown.noise import AesBits, BitSource
from topdown.plan.prepare import Context


class PartDrawer:
    """Draws the parts of a plan from one source of bits; one a process.

    Args:
        context: plan and public facts.
        truth: true counts.
        plans: the parts.
        bits: where all noise is from.

    """

    def __init__(self, context: Context, truth: Truth, plans: Sequence[PartPlan], bits: BitSource) -> None:
        self.bits = bits
        self._context, self._truth, self._plans = context, truth, {plan.part: plan for plan in plans}
        self._level: tuple[int, LevelDrawer] | None = None

    def file_of(self, part: MeasuredPart) -> bytes:
        """Return the file of a part, with fresh noise."""
        plan = self._plans[part]
        if self._level is None or self._level[0] != plan.depth:
            counts = self._truth.counts(plan.depth)
            self._level = plan.depth, level_drawer(self._context, plan.depth, counts, self.bits)
        return encode(self._context, plan, self._level[1].draw(plan.nodes))


def files_drawn(
    drawer: Callable[[BitSource], PartDrawer], parts: Iterator[MeasuredPart], n_children: int
) -> Generator[bytes]:
    """Yield the files of parts in their order; none of them is drawn twice.

    Args:
        drawer: makes what draws, from a source of bits.
        parts: taken one by one, see `ledger.protocol.Work`.
        n_children: forked processes that draw; 0: this one does.

    Raises:
        InternalError: see `drawn_in_children`.

    """
    if n_children:
        yield from drawn_in_children(lambda: drawer(AesBits()), parts, n_children)
    else:
        yield from map(drawer(AesBits()).file_of, parts)
