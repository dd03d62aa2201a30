"""The longest time without a line of output, command by command, as a log through a pipe sees it.

Run: `python -m bench.bench_silence [PEOPLE]`, 300,000 if not said, on made-up people: prints for every command its
seconds and the longest of them in which nothing was printed, with the line that ended it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEOPLE = 300_000


def longest_silence(command: list[str], folder: Path) -> tuple[float, float, str]:
    """Run a command; return its seconds, the longest of them without a line, and the line that ended these.

    Raises:
        SystemExit: the command failed; its last lines are in the message.
    """
    program = [sys.executable, "-u", "-m", "pgsr.cli" if command[0] == "pgsr" else "topdown.cli"]
    start = last = time.monotonic()
    longest, ended_by, lines = 0.0, "", list[str]()
    with subprocess.Popen(
        [*program, *command[1:]], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            now = time.monotonic()
            if now - last > longest:
                longest, ended_by = now - last, line.strip()
            last = now
            lines.append(line)
    ended = time.monotonic()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{''.join(lines[-8:])}")
    if ended - last > longest:
        longest, ended_by = ended - last, "(its end)"
    return ended - start, longest, ended_by


def commands(people: int) -> list[str]:
    """Return one line for each command, in an order in which each finds what it reads."""
    truth = "census/persons.csv.gz"
    made = [f"topdown synth --people {people} --out census"]
    for settings in ("pl94_2020_tree", "pl94_tuned"):
        made += [f"topdown synth --people {people} --settings {settings} --out {settings}"]
    made += [
        "topdown plan census/run.toml",
        "topdown plan census/run.toml --report plan.html",
        "topdown generate census/run.toml --out release --yes",
        "topdown verify release",
        "topdown report release --out report.html",
        "topdown tables release --out tables",
        f"topdown evaluate release --truth {truth}",
        "topdown audit release",
        "topdown audit release --runs 20000",
        "topdown implied --example college-town",
        f"topdown simulate census/run.toml --truth {truth} --out tried --replicates 3",
        "topdown tune pl94_2020_tree/run.toml --out pl94_2020_tree/tuned.toml",
    ]
    for settings in ("pl94_2020_tree", "pl94_tuned"):
        made += [
            f"topdown generate {settings}/run.toml --out {settings}/release --yes",
            f"topdown verify {settings}/release",
        ]
    return [
        *made,
        "topdown account --dhc2020 --proxy",
        "topdown noise --epsilon 1 --delta 1/1000000",
        "topdown demo",
        "pgsr synth --shape census --out groups",
        "pgsr ledger new groups/run.toml",
        "pgsr release groups/run.toml --out groups/release --yes",
        "pgsr verify groups/release",
        "pgsr report groups/release --out groups.html",
        "pgsr compare --shape census --epsilon 1/2",
    ]


def main() -> None:
    """Print a line for every command, and how many were silent for more than two seconds."""
    people = int(sys.argv[1]) if len(sys.argv) > 1 else PEOPLE
    silent = 0
    print(f"{'seconds':>8}{'silent':>8}  command, and the line that ended its longest silence")
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(people):
            seconds, longest, ended_by = longest_silence(command.split(), Path(folder))
            silent += longest > 2
            print(f"{seconds:>8.1f}{longest:>8.2f}  {command}\n{'':>18}{ended_by[:100]}", flush=True)
    print(f"{silent} commands were silent for more than 2 s")


if __name__ == "__main__":
    main()
