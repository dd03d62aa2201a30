"""Write every case of release.toml as a folder, for another verifier: python -m tests.corpus.write_releases DIR."""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.corpus.test_corpus import cases, start, write_valid


def write_releases(target: Path) -> int:
    """Write all cases and what is expected of them; return how many there are."""
    expected = {"sound": {"code": "", "exit": 0}}
    target.mkdir(parents=True)
    with TemporaryDirectory() as folder:
        valid, homes = Path(folder) / "valid", Path(folder) / "homes"
        write_valid(valid)
        shutil.copytree(valid / "made" / "out", target / "sound")
        for each in cases():
            case, name = each.values[0], str(each.id)
            if name.startswith("release-"):
                start(case, valid, homes / name)
                shutil.copytree(homes / name / "out", target / name, symlinks=True, copy_function=_copy)
                expected[name] = {"code": case["code"], "exit": case["exit"]}
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    return len(expected) - 1


def _copy(source: str, target: str) -> None:
    """Move, so that pipes stay pipes."""
    shutil.move(source, target)


if __name__ == "__main__":
    sys.stdout.write(f"{write_releases(Path(sys.argv[1]))} cases\n")
