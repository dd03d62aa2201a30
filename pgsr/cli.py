"""The command line `pgsr`: its commands, where each is declared, and lists of numbers after one option."""

from __future__ import annotations

import sys

from topdown.process import begin_program

if __name__ == "__main__" or sys.argv[0].endswith("/pgsr"):
    begin_program()  # before the libraries of the screens are imported

import re
from collections.abc import Sequence

from topdown.app.commands.program import Program

COMMANDS = {
    "Commands": {
        "ledger": (
            "Make the ledger of a data set, show it, or write down what happened to it.",
            "group_commands",
        ),
        "release": ("Release group sizes once, with exact noise and a ledger.", "group_commands"),
        "compare": ("Compare mechanisms on made-up or own data, with their true epsilon.", "study_commands"),
        "audit": ("Print derived sensitivities and the real loss of the published chain.", "study_commands"),
        "verify": ("Check a release from its files alone.", "group_commands"),
        "report": ("Write a report of a release for people, as one HTML file.", "group_commands"),
        "export": ("Write what catalogues ask of a release.", "group_commands"),
        "microdata": ("Write one row for every group of a release.", "group_commands"),
        "synth": ("Write made-up counts and regions to practise with.", "study_commands"),
        "explain": ("Print the page of an error code.", "study_commands"),
        "schema": ("Print the JSON Schema of a document.", "study_commands"),
        "completion": ("Print the completion script of a shell.", "study_commands"),
    }
}
_NUMBER = re.compile(r"[0-9]+(/[0-9]+|\.[0-9]+)?")
_LISTS = ("--epsilon", "--shares")


def spread_lists(arguments: Sequence[str]) -> list[str]:
    """Repeat an option before each of the numbers that follow it: `--epsilon 1 2` means `--epsilon 1 --epsilon 2`."""
    out: list[str] = []
    option = ""
    for argument in arguments:
        if option and out[-1] != option and _NUMBER.fullmatch(argument):
            out.append(option)
        elif not _NUMBER.fullmatch(argument):
            option = argument if argument in _LISTS else ""
        out.append(argument)
    return out


PROGRAM = Program(
    name="pgsr",
    about="Release the number of groups of every size in every region, private and consistent.",
    first="First: pgsr synth --shape tiny --out practice. Then: pgsr COMMAND --help.",
    package="pgsr",
    commands=COMMANDS,
    stopped=(
        "stopped; nothing is spent, unless the next lines say so",
        "run the same command again, with --resume if the ledger was charged: noise is kept",
    ),
    read=spread_lists,
)
group = PROGRAM.group
main = PROGRAM.main

if __name__ == "__main__":
    sys.exit(main())
