"""The sentences a release may say of itself, written out once more."""

from __future__ import annotations

from collections.abc import Sequence


def named(kind: str, of: str, unit: str) -> str:
    """Return the name of a row."""
    if kind == "attribute":
        return f"{of} only"
    if kind == "within_level":
        return f"place within one {of}"
    return f"one {unit}, {kind}"


def disclosed_by(names: Sequence[str]) -> str:
    """Return the sentence of a secret that exact statistics give away."""
    return "disclosed by: " + ", ".join(names)


def sentence(
    kind: str, of: str, unit: str, exact: Sequence[str], times: int, *, public_facts: bool, reads: str
) -> str:
    """Return the sentence of a secret that noise protects.

    Args:
        exact: names of the exact statistics that some change alters.
        times: right choices in 100.
        public_facts: whether public facts narrow what an answer can be.
        reads: "release", "chain" (with what it extends) or "step" (of a chain).
    """
    read = {
        "release": "this release",
        "chain": "this release and what it extends",
        "step": "the measurements of this step",
    }[reads]
    facts = [f"what is exact ({', '.join(exact)})"] if exact else []
    fits = " and ".join(facts + ["the public facts"] * public_facts)
    which = f", both of which fit {fits}," if fits else ","
    if kind == "presence":
        which = f", where both fit {fits}," if fits else ","
        middle = f", and must tell whether one {unit}'s answers were there at all"
    elif kind == "everything":
        middle = f", and must tell which of two answers one {unit} gave"
    elif kind == "attribute":
        middle = f" and all of one {unit}'s but {of}, and must tell which of two values that is"
    else:
        middle = f" and all of one {unit}'s but the place within one {of}, and must tell which of two places that is"
    return (
        f"Someone who reads only {read}, knows every other {unit}'s answers{middle}{which} chooses rightly at most "
        f"{times} times in 100; a coin gives 50."
    )


def ledger_sentence(kind: str, data_set: str, unit: str, exact: Sequence[str], times: int) -> str:
    """Return the sentence about everything ever released from a data set."""
    if kind == "presence":
        asked = f"whether one {unit}'s answers were there at all, where both fit"
    else:
        asked = f"which of two answers one {unit} gave, both of which fit"
    published = f"what was published exactly ({', '.join(exact)}) and " if exact else ""
    return (
        f'Someone who reads everything ever released from "{data_set}", knows every other {unit}\'s answers, and must '
        f"tell {asked} {published}the public facts, chooses rightly at most {times} times in 100; a coin gives 50."
    )
