"""The command line `topdown`: its commands by purpose, and where each is declared."""

from __future__ import annotations

import sys

from topdown.app.commands.program import Program

COMMANDS = {
    "Make a release": {
        "demo": ("Make and check a release of a made-up county.", "demo_command"),
        "init": ("Write a complete, commented run file.", "init_command"),
        "ledger": (
            "Make the ledger of a data set, or write down what happened to it.",
            "ledger_command",
        ),
        "plan": (
            "Show what a release would measure, at what cost; spend nothing.",
            "plan_commands",
        ),
        "tune": ("Write a run file with shares that suit the tree estimate.", "plan_commands"),
        "generate": ("Spend the budget once and write the release.", "release_commands"),
        "measure": ("Spend the budget once and write noisy answers only.", "release_commands"),
        "resolve": ("Solve the measurement of a release in another way.", "release_commands"),
        "extend": ("Extend a release by new attributes and keep its table.", "release_commands"),
        "select": (
            "Make a private choice from the records and charge it to the ledger.",
            "select_command",
        ),
        "synth": ("Write made-up records and areas to practise with.", "practice_commands"),
        "simulate": ("Show the error that releases of a plan would have.", "practice_commands"),
    },
    "Check a release": {
        "verify": ("Check a release from its files alone.", "check_commands"),
        "audit": ("Compute the exact privacy loss of a plan or release.", "audit_command"),
        "evaluate": ("Compare a release with the confidential records.", "check_commands"),
        "interval": ("Print intervals for counts of any union of areas.", "check_commands"),
        "tables": ("Write tables of a release for ordinary programs.", "check_commands"),
    },
    "Look things up": {
        "account": (
            "Compute the exact privacy loss of composed measurements.",
            "account_command",
        ),
        "noise": ("Make the best noise for one answer, with its proof.", "noise_command"),
        "explain": ("Print the page of an error code.", "lookup_commands"),
        "implied": ("Show what invariants imply for areas above the leaves.", "implied_command"),
        "schema": (
            "Print the JSON Schema of a document, or the reference of an input file.",
            "lookup_commands",
        ),
        "completion": ("Print the completion script of a shell.", "lookup_commands"),
    },
}
PROGRAM = Program(
    name="topdown",
    about="Make private, consistent census releases, and check them.",
    first="First: topdown demo. Then: topdown COMMAND --help.",
    package="topdown.app.commands",
    commands=COMMANDS,
    stopped=("stopped; nothing is spent", "run the command again when you are ready"),
)
group = PROGRAM.group
main = PROGRAM.main

if __name__ == "__main__":
    sys.exit(main())
