"""Search for counterexamples of SECURITY.md: python -m tests.claims [--minutes 60] [--depth 4].

With --page, write the table of SECURITY.md from claims.toml instead.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.claims.claim_records import PAGE, page_with, read_claims
from tests.claims.moves import STARTS
from tests.claims.search import Tally, search


def main() -> int:
    """Print each counterexample as it is found; exit with 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.claims", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--start", action="append", choices=tuple(STARTS))
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    if asked.page:
        PAGE.write_text(page_with(read_claims()))
        return 0
    n_found, tally = 0, Tally()
    with TemporaryDirectory() as folder:
        starts = asked.start or tuple(STARTS)
        for found in search(
            Path(folder), depth=asked.depth, seconds=60 * asked.minutes, starts=starts, tally=tally
        ):
            n_found += 1
            sys.stdout.write(f"{found}\n")
            sys.stdout.flush()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    minutes = sum(one.ru_utime + one.ru_stime for one in used) / 60
    sys.stdout.write(f"{tally}\n{minutes:.1f} CPU minutes, {n_found} counterexamples\n")
    return int(n_found > 0)


if __name__ == "__main__":
    sys.exit(main())
