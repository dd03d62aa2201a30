"""Run a choice in child processes that die by SIGKILL at chosen steps, then finish it; print what came of it.

    python choice_killer.py FOLDER FIRST STEP

FOLDER holds a run file and offices.csv. Trial n dies at its n-th step on the disk, n = FIRST, FIRST + STEP, ...; each
trial prints one JSON line; the last trial is the first that does not die.
"""

import json
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.helpers.killed import is_killed
from topdown import verify
from topdown.app import select
from topdown.measure import choosing as choose  # imported before the children fork
from topdown.measure import create_run_ledger
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
    text = re.sub('^id = "[0-9a-f]{16}".*\n', "", file.read_text(), flags=re.MULTILINE)
    killed = True
    while killed:
        for name in ("out", "ledger"):
            shutil.rmtree(folder / name, ignore_errors=True)
        for registry in folder.glob("ledger-*.registry*"):
            registry.unlink()
        file.write_text(text)
        create_run_ledger(file)
        ledger = next((folder / "ledger").iterdir())
        killed = run(file, out, step)
        book = read_ledger(ledger)
        paid_before, before = len(book.intents), [] if not book.drawn else drawn(out)
        run(file, out, 0)
        book = read_ledger(ledger)
        events = [entry.event for entry in book.entries]
        begun = [e.intent for e in events if isinstance(e, Begun)]
        print(
            json.dumps(
                {
                    "step": step,
                    "killed": killed,
                    "kept": before in ([], drawn(out)),
                    "intents": len(book.intents),
                    "paid_before": paid_before,
                    "begun": begun,
                    "drawn": sum(isinstance(e, Drawn) for e in events),
                    "commits": len(book.committed),
                    "left": [p.name for p in out.rglob("*") if p.suffix in (".drawn", ".tmp")],
                    "verified": verify(out).ok,
                    "charged": str(sum(book.charged.values()) / next(iter(book.intents.values())).loss),
                }
            ),
            flush=True,
        )
        step += stride


if __name__ == "__main__":
    main()
