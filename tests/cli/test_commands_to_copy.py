"""A command that a screen prints to be copied is, in a POSIX shell, the command that is meant."""

import re
import subprocess
from pathlib import Path

import pytest

_COMMAND = r"""(?:^ *|: |go on +)((?:topdown|pgsr) (?:'[^'\n]*'|"[^"\n]*"|[^;'" \n]| (?!  ))*)"""
_SHOW = "show() { for word; do printf '%s\\n' \"$word\"; done; }\nshow "


def copied(text: str) -> list[list[str]]:
    """Return what a shell makes of the commands of a screen, without the name of the program."""
    lines = (["/bin/sh", "-c", _SHOW + command] for command in re.findall(_COMMAND, text, re.MULTILINE))
    return [subprocess.run(line, capture_output=True, text=True).stdout.splitlines()[1:] for line in lines]


@pytest.mark.parametrize("look", ["-v", "--ascii"])
@pytest.mark.parametrize("name", ["it's 5 o'clock", "-dash", "Z\u00fcrich\u00a0$HOME", '~`a;b\\003&"c'])
def test_what_is_printed_can_be_pasted(topdown, pgsr_cli, toy, name, look):
    """Unquoted, a path with a blank, an apostrophe or a dollar makes another command, of other files."""
    run, out = Path(f"./{toy(Path(name))}"), f"./{name}/release"
    ((_, plan, *_),) = copied(topdown("plan", f"./{run}", look).ok().out)
    made = ("generate", f"./{run}", "--out", out, "--csv", "--report-language", "none", "--yes", look)
    for action, folder in copied(topdown(*made).ok().out):
        topdown(action, folder).ok()
    (go_on,) = copied(topdown(*made).err)
    assert go_on[-4:] == ["--resume", "--csv", "--report-language", "none"]
    topdown(*go_on, "--yes").ok()
    (new, _) = copied(pgsr_cli("synth", "--shape", "tiny", "--out", f"./{name}/groups", look).ok().out)
    pgsr_cli(*new).ok()
    run.write_text(run.read_text().replace('rho = "', 'rho = "1'))
    *_, again = copied(topdown("generate", plan, "--out", "other", "--yes", look).err)
    assert ("plan", run) == (again[0], Path(again[1]))
