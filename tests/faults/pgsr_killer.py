"""Run pgsr release in children that die, or find the disk full, at chosen steps; finish it; print what came of it.

    python pgsr_killer.py FOLDER MODE FIRST STEP

Trial n of MODE `kill` dies by SIGKILL at its n-th step on the disk (half a write, before a sync, rename or new folder),
`twice` lets the first restart die at a later step too, `full` finds no room from the n-th write on until it ends. Steps
FIRST, FIRST + STEP, ...; each trial prints one JSON line; the last is the first that comes to its end undisturbed.
"""

import errno
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from pgsr import LedgerFile, binding_of, ledger_place, new_ledger, verify
from pgsr.group_checks import check_folder
from tests.helpers.groups import GROUPS, REGIONS, WHY, released
from tests.helpers.killed import die, disturb, tell
from topdown.errors import TopdownError
from topdown.privacy.ledger import read_ledger


def fill_up() -> None:
    """Fail as a write does on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def run(folder: Path, ledger_id: str, step: int, mode: str) -> dict:
    """Release in a child; return how it ended: killed, refused (with code and what it says is spent), or done."""
    there, back = os.pipe()
    child = os.fork()
    if child == 0:
        said = {"end": "odd"}
        write = os.write
        try:
            if step:
                is_full = mode == "full"
                disturb(step, fill_up if is_full else die, full=is_full, folders=not is_full)
            released(
                GROUPS, REGIONS, "tracking", "1/2", sizes=4, out=folder / "out",
                ledger=folder / "book.jsonl", ledger_id=ledger_id, registry=folder, resume=True,
            )  # fmt: skip
            said = {"end": "done"}
        except TopdownError as error:
            said = {"end": "refused", "code": error.code, "spent": dict(error.details)["this run spent"]}
        except BaseException as error:
            said = {"end": repr(error)}
        finally:
            write(back, json.dumps(said).encode())
            os._exit(0)
    os.close(back)
    with os.fdopen(there, "rb") as file:
        said = json.loads(file.read() or b'{"end": "killed"}')
    os.waitpid(child, 0)
    return said


def recorded(folder: Path) -> dict[str, str]:
    """Return the hash of every part that the ledger has recorded as drawn."""
    return {part: sha256 for (_, part), sha256 in read_ledger(folder / "book.jsonl").drawn.items()}


def finals(folder: Path) -> list[str]:
    """Return every final name in the folder whose file is empty or not whole."""
    found = []
    for path in (folder / "out").rglob("*"):
        if path.suffix == ".json" or path.suffix == ".jsonl":
            try:
                [json.loads(line) for line in ([path.read_text()] if path.suffix == ".json" else path.open())]
            except ValueError:
                found.append(path.name)
        elif path.suffix == ".parquet" and (path.read_bytes()[:4] + path.read_bytes()[-4:]) != b"PAR1PAR1":
            found.append(path.name)
    return found


def main() -> None:
    """Run the trials."""
    folder, mode, step, stride = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    warm = {"sizes": 4, "simulate": 1, "truth_is_public": WHY, "out": folder / "out"}
    released(GROUPS, REGIONS, "tracking", "1/2", **warm)  # so that no child has to load libraries
    check_folder(folder / "out")
    disturbed = True
    place = ledger_place(None, binding_of(), LedgerFile(folder / "book.jsonl", registry=folder))
    while disturbed:
        shutil.rmtree(folder / "out", ignore_errors=True)
        for path in folder.glob("*"):
            path.unlink()
        ledger_id = new_ledger(place)
        ends = [run(folder, ledger_id, step, "full" if mode == "full" else "kill")]
        disturbed = ends[0]["end"] != "done"
        torn = finals(folder)
        if mode == "twice" and disturbed:
            ends.append(run(folder, ledger_id, 1 + (7 * step) % 37, "kill"))
            torn += finals(folder)
        drawn, spent = recorded(folder), str(sum(read_ledger(folder / "book.jsonl").charged.values()))
        ends.append(run(folder, ledger_id, 0, ""))
        book = read_ledger(folder / "book.jsonl")
        files = {
            f"{path.parent.name}/{path.stem}": hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (folder / "out" / "measurements").rglob("*.parquet")
        }
        tell(
            step=step,
            ends=ends,
            torn=torn,
            spent=spent,
            kept=all(files.get(part) == sha256 for part, sha256 in drawn.items()),
            failed=[check.name for check in verify(folder / "out") if not check.ok],
            covers=[list(intent.covers) for intent in book.intents.values()],
            charged=str(sum(book.charged.values())),
            commits=len(book.committed),
        )
        step += stride


if __name__ == "__main__":
    main()
