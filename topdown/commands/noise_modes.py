"""What the modes of `topdown noise` share: which options go together, exact numbers, the limit of delta."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from topdown.errors import ConfigError
from topdown.noise.optimal.ask import Promise


def refuse_mixed(
    modes: Mapping[str, bool], whole_numbers_only: Mapping[str, bool], others_only: Mapping[str, bool]
) -> None:
    """Refuse two modes at once, and options of a mode that was not asked for.

    Args:
        modes: name and presence of --integer, --continuous, --dependent.
        whole_numbers_only: options of the integer mode.
        others_only: --cells and --worst-case.

    Raises: ConfigError (C005).
    """
    chosen = [name for name, given in modes.items() if given]
    if len(chosen) > 1:
        raise ConfigError(
            f"{' and '.join(chosen)} are different queries", code="C005", fix="give one of them"
        )
    mode = chosen[0] if chosen else "--integer"
    of = {"--cells": "--continuous", "--worst-case": "--dependent"}
    stray = [name for name, given in whole_numbers_only.items() if given and mode != "--integer"]
    stray += [name for name, given in others_only.items() if given and mode != of[name]]
    if stray:
        raise ConfigError(f"{stray[0]} does not go with {mode}", code="C005", fix=f"leave out {stray[0]}")


def whole(text: str) -> int:
    """Return the sensitivity of a whole-number answer.

    Raises: ConfigError (C153) for another number.
    """
    from topdown.accountant.exact import rational

    number = rational(text, "the sensitivity")
    if number.denominator != 1:
        raise ConfigError(
            f"the sensitivity is {number}, not whole", code="C153", fix="give a whole number, or --continuous"
        )
    return int(number)


def promise_of(epsilon: str, delta: str, *, large_delta: bool) -> Promise:
    """Return epsilon and delta above 0, delta at most 1/1000 unless a larger one is allowed.

    Raises: ConfigError (C151, C152, C154).
    """
    from topdown.accountant.exact import rational

    found = Promise(rational(epsilon, "epsilon"), rational(delta, "delta"))
    refuse_large(found.delta, large_delta=large_delta)
    return found


def refuse_large(delta: Fraction, *, large_delta: bool) -> None:
    """Refuse a delta above 1/1000 that was not allowed.

    Raises: ConfigError (C154).
    """
    from topdown.api.noise import LARGEST_DELTA

    if delta > LARGEST_DELTA and not large_delta:
        raise ConfigError(
            f"delta is {delta}, above {LARGEST_DELTA}: the best noise would give exact answers away",
            code="C154",
            fix="give a smaller delta, or allow it: --large-delta",
        )
