"""CPU seconds of whole commands beside an older checkout's, in one run on one machine.

Run: `python -m bench.bench_beside_older CHECKOUT [ROW ...]`, where CHECKOUT has its own `.venv/bin/topdown`; without
rows all, in two hours. Each command runs once in both checkouts uncounted, then they take turns three
times; medians and their ratio, children included, one worker; memory of the largest process. Real blocks of Rhode
Island are read from ../shared. Compiled modules are kept in a folder of the bench, as an installed program has them:
where PYTHONDONTWRITEBYTECODE is set, each run would compile all modules of a checkout, 0.3 s of 5.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.country import LEVELS, write_country

HERE = Path(__file__).resolve().parents[1]
DATA = HERE.parent / "shared" / "data" / "rhode_island_2010"
RUNS = 3


@dataclass(frozen=True)
class Checkout:
    """One version of the programs, with its own environment."""

    folder: Path

    def topdown(self, *arguments: object) -> str:
        """Run a command (CalledProcessError if it fails) and return what it says."""
        command = self.command(*arguments)
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=True).stdout

    def command(self, *arguments: object) -> list[str]:
        """Return the words of a command of this version."""
        return [str(self.folder / ".venv" / "bin" / "topdown"), *map(str, arguments)]

    def offers(self, command: str, option: str) -> bool:
        """Tell whether a command of this version has an option."""
        return option in self.topdown(command, "--help")


def rhode_island(settings: str) -> Callable[[Checkout, Path], list[object]]:
    """Return what sets up a release of real Rhode Island blocks and returns the command that makes it."""

    def set_up(checkout: Checkout, folder: Path) -> list[object]:
        run = folder / "run.toml"
        files = ["--records", DATA / "persons.csv.gz", "--leaves", DATA / "blocks.csv.gz"]
        registry = ["--registry", folder] if checkout.offers("init", "--registry") else []
        checkout.topdown("init", "--settings", settings, *files, "--out", run, *registry)
        return ["generate", run, "--out", folder / "release", "--yes", "--workers", 1]

    return set_up


def own_schema(ages: int, settlements: int, targets: str) -> Callable[[Checkout, Path], list[object]]:
    """Return what drafts all files for 425,000 made-up people of 96 times `ages` cells; see `rhode_island`."""

    def set_up(checkout: Checkout, folder: Path) -> list[object]:
        write_country(folder, 425_000, settlements, ages=ages)
        run, codes = folder / "run.toml", ["--codes", folder / "codes.csv", "--levels", ",".join(LEVELS)]
        tables = ["--records", folder / "people.csv", "--leaves", folder / "places.csv", "--no-count"]
        registry = ["--registry", folder] if checkout.offers("init", "--registry") else []
        checkout.topdown("init", *codes, *tables, "--out", run, *registry)
        fitted = f'[estimates]\ntargets = "{targets}"\n'
        run.write_text(re.sub(r"\[estimates\]\n(targets = .*\n)?", fitted, run.read_text()))
        return ["generate", run, "--out", folder / "release", "--yes", "--workers", 1]

    return set_up


def verified(settings: str) -> Callable[[Checkout, Path], list[object]]:
    """Return what makes a release of real Rhode Island blocks and returns the command that verifies it."""

    def set_up(checkout: Checkout, folder: Path) -> list[object]:
        checkout.topdown(*rhode_island(settings)(checkout, folder))
        return ["verify", folder / "release"]

    return set_up


def extension(people: int) -> Callable[[Checkout, Path], list[object]]:
    """Return what releases made-up people under P.L. 94-171 and returns the command that extends it to DHC persons."""

    def set_up(checkout: Checkout, folder: Path) -> list[object]:
        checkout.topdown("synth", "--schema", "dhc_persons", "--people", people, "--out", folder, "--force")
        base, run = folder / "base", folder / "run.toml"
        checkout.topdown("generate", folder / "base.toml", "--out", base, "--yes", "--workers", 1)
        return ["extend", run, "--base", base, "--out", folder / "release", "--yes", "--workers", 1]

    return set_up


def made_up_people(people: int) -> Callable[[Checkout, Path], list[object]]:
    """Return what makes up a census of so many people and returns the command that releases it."""

    def set_up(checkout: Checkout, folder: Path) -> list[object]:
        checkout.topdown("synth", "--people", people, "--seed", 5, "--out", folder, "--force")
        return ["generate", folder / "run.toml", "--out", folder / "release", "--yes", "--workers", 1]

    return set_up


def demonstration(checkout: Checkout, folder: Path) -> list[object]:
    """Return the command of the demo."""
    return ["demo", "--out", folder / "demo-release"]


def plain(*arguments: object) -> Callable[[Checkout, Path], list[object]]:
    """Return what needs no set-up."""
    return lambda checkout, folder: list(arguments)


ROWS = {
    "help": plain("--help"),
    "generate_help": plain("generate", "--help"),
    "demo": demonstration,
    "pairs": plain("account", "--dhc2020", "--delta", "1e-10"),
    "marginal_first": rhode_island("pl94_2020_marginal_first"),
    "verify": verified("pl94_2020_marginal_first"),
    "tree": rhode_island("pl94_2020_tree"),
    "own_plain": own_schema(100, 900, "own"),
    "own_tree": own_schema(105, 574, "tree"),  # 710 areas
    "ten_million": made_up_people(10_000_000),
    "thirty_million": made_up_people(30_000_000),  # for a nation
    "extension_20k": extension(20_000),
    "extension_100k": extension(100_000),
}


def taken(checkout: Checkout, row: str) -> tuple[float, float]:
    """Return the CPU seconds of a row's command, its processes included, and the largest one's gigabytes."""
    with tempfile.TemporaryDirectory() as name:
        command = checkout.command(*ROWS[row](checkout, Path(name)))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=checkout.folder)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9


def main(folder: str, *rows: str) -> None:
    """Print a line a row."""
    with tempfile.TemporaryDirectory() as kept:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = kept
        compare(Checkout(HERE), Checkout(Path(folder).resolve()), rows or tuple(ROWS))


def compare(now: Checkout, older: Checkout, rows: Sequence[str]) -> None:
    """Print a line a row."""
    for row in rows:
        found = [(*taken(now, row), *taken(older, row)) for _ in range(RUNS + 1)][1:]
        mine, gb, theirs, their_gb = (statistics.median(column) for column in zip(*found, strict=True))
        print(
            f"{row:16} {mine:8.2f} CPU s, older {theirs:8.2f}: {mine / theirs:.2f} x; "
            f"{gb:.2f} GB, older {their_gb:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
