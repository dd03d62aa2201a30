"""Run a choice in child processes that die by SIGKILL at chosen steps, then finish it; print what came of it.

    python choice_killer.py FOLDER FIRST STEP

FOLDER holds a run file and offices.csv. Trial n dies at its n-th step on the disk, n = FIRST, FIRST + STEP, ...; each
trial prints one JSON line; the last trial is the first that does not die.
"""

import sys
from pathlib import Path

from tests.helpers.killed import is_killed, left_over, start_anew, tell
from topdown import verify
from topdown.app import select
from topdown.measure import choosing as choose  # imported before the children fork
from topdown.privacy.ledger import Begun, Drawn, read_ledger
from topdown.publish import publish_choice as choice

LOADED = (choose, choice)


def run(file: Path, out: Path, step: int) -> bool:
    """Choose in a child that dies at a step; tell whether it was killed."""
    asked = select(file, "sites", "1/2", candidates=file.parent / "offices.csv", k=2)
    return is_killed(lambda: asked.choose(out, resume=out.exists() and any(out.iterdir())), step)


def drawn(out: Path) -> list[str]:
    """Return the bytes of every whole answer, under either name."""
    return sorted(path.read_text() for path in out.glob("choice/answer/part-000.*") if path.suffix != ".tmp")


def main() -> None:
    """Run trials until one is not killed."""
    folder, step, stride = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    file, out = folder / "run.toml", folder / "out"
    killed = True
    while killed:
        ledger = start_anew(folder)
        killed = run(file, out, step)
        book = read_ledger(ledger)
        paid_before, before = len(book.intents), [] if not book.drawn else drawn(out)
        run(file, out, 0)
        book = read_ledger(ledger)
        events = [entry.event for entry in book.entries]
        begun = [e.intent for e in events if isinstance(e, Begun)]
        tell(
            step=step,
            killed=killed,
            kept=before in ([], drawn(out)),
            intents=len(book.intents),
            paid_before=paid_before,
            begun=begun,
            drawn=sum(isinstance(e, Drawn) for e in events),
            commits=len(book.committed),
            left=left_over(out),
            verified=verify(out).ok,
            charged=str(sum(book.charged.values()) / next(iter(book.intents.values())).loss),
        )
        step += stride


if __name__ == "__main__":
    main()
