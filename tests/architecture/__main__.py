"""Print the numbers of the code and their limits: python -m tests.architecture [--write] [NAME ...].

With names, every place is printed that a number counts. --write lowers limits to what the numbers are now.
"""

import json
import sys
from pathlib import Path

from tests.architecture.counts import COUNTS, counted, shown

LIMITS = Path(__file__).with_name("limits.json")


def main(arguments: list[str]) -> None:
    """Print numbers, or the places of some; lower the limits if asked to."""
    names = [name for name in arguments if name in COUNTS]
    for name in names:
        sys.stdout.write(f"{COUNTS[name].__doc__}\n{shown(COUNTS[name]())}")
    if names:
        return
    limits, now = read_limits(), counted()
    for name, number in now.items():
        limit = limits.get(name, "none")
        sys.stdout.write(f"{name:20} {number:6} limit {limit:>6}  {_first_line(name)}\n")
    if "--write" in arguments:
        lower = {name: min(number, limits.get(name, number)) for name, number in now.items()}
        LIMITS.write_text(json.dumps(lower, indent=1) + "\n", encoding="utf-8")


def _first_line(name: str) -> str:
    return (COUNTS[name].__doc__ or "").splitlines()[0]


def read_limits() -> dict[str, int]:
    """Return the most that each number may be."""
    return json.loads(LIMITS.read_text(encoding="utf-8")) if LIMITS.exists() else {}


if __name__ == "__main__":
    main(sys.argv[1:])
