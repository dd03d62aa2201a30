"""Pages of docs/how-to: run their commands and snippets, and look for the lines they show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def flat(text: str) -> str:
    """Forget line breaks, columns and non-breaking spaces."""
    return " ".join(text.replace("\u00a0", " ").split())


def run_page(page: Path, topdown) -> int:
    """Run a page from top to bottom; return the number of commands and snippets that ran.

    Args:
        page: Markdown with console, text and python blocks; text shows lines of the console block before it.
        topdown: runs the command line.

    """
    said, n_run = "", 0
    for language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "console":
            said = ""
            for line in body.splitlines():
                prompt, program, *arguments = shlex.split(line)
                assert (prompt, program) == ("$", "topdown")
                outcome = topdown(*arguments)
                assert outcome.code == 0, f"{line}\n{outcome.out}{outcome.err}"
                said += " " + flat(outcome.out)
                n_run += 1
        elif language == "text":
            missing = [line for line in body.splitlines() if flat(line) not in said]
            assert not missing, f"{missing} not in\n{said}"
        else:
            assert language == "python"
            exec(compile(body, str(page), "exec"), {})  # noqa: S102
            n_run += 1
    return n_run
