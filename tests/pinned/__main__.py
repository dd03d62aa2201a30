"""Say whether releases are still published as they were: python -m tests.pinned [KIND ...] [--write] [--keep DIR].

--write stores the digests of what is published now; --keep leaves the folders in DIR, to compare two of them by
hand. Without a kind, all but the slow ones are made.
The digests are of made-up releases with fixed noise, see `releases` and `forms`. Residuals are sums of floats, which
libraries add up in another order on a processor with wider registers: the program starts anew with what all have.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.pinned.forms import compared, stored_form
from tests.pinned.releases import KINDS, SLOW, make

DIGESTS = Path(__file__).with_name("digests.json")
EVERYWHERE = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",  # those beyond AVX2
}


def read_digests() -> dict[str, dict[str, str]]:
    """Return the stored digests: kind, path, digest."""
    return json.loads(DIGESTS.read_text(encoding="utf-8")) if DIGESTS.exists() else {}


def main(arguments: list[str]) -> int:
    """Make the releases, compare or store them."""
    parser = argparse.ArgumentParser(prog="python -m tests.pinned", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args(arguments)
    digests, n_different = read_digests(), 0
    with TemporaryDirectory() as scratch:
        for kind in asked.kinds or [kind for kind in KINDS if kind not in SLOW]:
            folder, before = (asked.keep or Path(scratch)) / kind, time.process_time()
            make(kind, folder)
            found = compared(folder, digests.get(kind, {}))
            seconds = time.process_time() - before
            if asked.write:
                digests[kind] = stored_form(folder)
            n_different += len(found)
            sys.stdout.write(f"{kind}: {len(found)} differences, {seconds:.1f} CPU seconds\n")
            sys.stdout.writelines(f"  {line}\n" for line in found[:20])
    if asked.write:
        text = json.dumps(digests, indent=0, sort_keys=True, ensure_ascii=False)
        DIGESTS.write_text(text + "\n", encoding="utf-8")
    return int(n_different > 0 and not asked.write)


if __name__ == "__main__":
    if not EVERYWHERE.items() <= os.environ.items():
        again = [sys.executable, "-m", "tests.pinned", *sys.argv[1:]]
        sys.exit(subprocess.run(again, env=os.environ | EVERYWHERE, check=False).returncode)
    sys.exit(main(sys.argv[1:]))
