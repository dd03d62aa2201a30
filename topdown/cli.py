"""The command line `topdown`."""

from __future__ import annotations

import sys

from topdown.process import begin_program

if __name__ == "__main__" or sys.argv[0].endswith("/topdown"):
    begin_program()  # before the libraries of the screens are imported

from topdown.app import COMMANDS
from topdown.app.commands.program import Program

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
