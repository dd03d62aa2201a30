"""Run measure in child processes that die by SIGKILL at chosen steps, then finish it; print what came of it.

    python measure_killer.py FOLDER FIRST STEP WORKERS [TWICE]

FOLDER holds a run file. Trial n dies at its n-th step on the disk, n = FIRST, FIRST + STEP, ...; with TWICE the
first restart dies too. Each trial prints one JSON line; the last trial is the first that does not die.
"""

import hashlib
import random
import re
import sys
from pathlib import Path

from tests.helpers.killed import is_killed, left_over, start_anew, tell
from topdown.measure import draw as draw_module
from topdown.measure import measure
from topdown.plan import prepare
from topdown.privacy.ledger import read_ledger

draw_module.NUMBERS_PER_ROW_GROUP = draw_module.NUMBERS_PER_PART = 60


def run(folder: Path, step: int, workers: int) -> bool:
    """Measure in a child that dies at a step; tell whether it was killed."""
    return is_killed(lambda: measure(prepare(folder / "run.toml"), folder / "out", workers=workers), step)


def whole_parts(folder: Path) -> dict[str, str]:
    """Return level/part and SHA-256 of every part that is whole, under either name."""
    found = {}
    for path in (folder / "out" / "measurements").rglob("part-*"):
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        match = re.fullmatch(r"(part-\d+)(?:\.\d+\.([0-9a-f]{64})\.drawn|\.parquet)", path.name)
        if match and match[2] in (None, sha256):
            found[f"{path.parent.name}/{match[1]}"] = sha256
    return found


def main() -> None:
    """Run the trials."""
    folder, (step, stride, workers) = Path(sys.argv[1]), map(int, sys.argv[2:5])
    twice = len(sys.argv) > 5
    killed = True
    while killed:
        ledger = start_anew(folder)
        killed = run(folder, step, workers)
        before = whole_parts(folder)
        n_kills = int(killed)
        if twice and killed:
            n_kills += run(folder, random.Random(step).randrange(1, 40), workers)
            before = whole_parts(folder)
        run(folder, 0, workers)
        after = whole_parts(folder)
        book = read_ledger(ledger)
        tell(
            step=step,
            kills=n_kills,
            kept=all(after.get(k) == v for k, v in before.items()),
            parts=len(after),
            left=left_over(folder / "out"),
            charged=str(sum(book.charged.values())),
            covers=[list(i.covers) for i in book.intents.values()],
            commits=len(book.committed),
        )
        step += stride


if __name__ == "__main__":
    main()
