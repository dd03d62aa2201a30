"""Run files of mechanism "optimal", made of those of another mechanism."""

import re
from fractions import Fraction

from topdown.optimal_noise import ErrorLoss


def optimal(text: str, epsilon: str = "4", delta: str = "1/100000", limit: str = "1/20000") -> str:
    """Return a run file with the best noise for single counts, and a limit of delta in its ledger.

    Args:
        text: run file with a budget of rho.
        epsilon, delta: the whole budget.
        limit: of delta.
    """
    budget = next(line for line in text.splitlines() if line.startswith("rho ="))
    text = text.replace('mechanism = "discrete_gaussian"', 'mechanism = "optimal"', 1)
    text = text.replace(budget, f'epsilon = "{epsilon}"\ndelta = "{delta}"', 1)
    text = re.sub(r'\nrho_limit = "[^"]*"', '\nepsilon_limit = "9"', text, count=1)
    return text.replace("[ledger]\n", f'[ledger]\ndelta_limit = "{limit}"\n', 1)


def error_costs(loss: ErrorLoss, radius: int) -> tuple[Fraction, ...]:
    """Return the loss of -radius .. radius."""
    return tuple(map(loss.at, range(-radius, radius + 1)))
