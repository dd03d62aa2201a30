"""A command that a screen prints to be copied is, in a POSIX shell, the command that is meant."""

import re
import subprocess
from pathlib import Path

import pytest

TO_COPY = re.compile(
    r"""(?:^ *|: |go on +)((?:topdown|pgsr|cat) (?:'[^'\n]*'|"[^"\n]*"|[^;'" \n]| (?!  ))*)""", re.MULTILINE
)


def copied(text: str) -> list[list[str]]:
    """Return what a shell makes of the commands of a screen; the first path of each must be there."""
    show = "show() { for word; do printf '%s\\n' \"$word\"; done; }\nshow "
    shell = (["/bin/sh", "-c", show + command] for command in TO_COPY.findall(text))
    found = [
        subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines() for line in shell
    ]
    named = [next(word for word in command[2:] if word not in ("new", "--diff")) for command in found]
    assert [path for path in named if not Path(path).exists()] == []
    return found


@pytest.mark.parametrize("look", ["--quiet=", "--ascii"])
@pytest.mark.parametrize("name", ["it's 5 o'clock", "-dash", "Z\u00fcrich\u00a0$HOME", "~`a;b\\003&c", '"'])
def test_what_is_printed_can_be_pasted(topdown, pgsr_cli, toy, name, look):
    """Unquoted, a path with a blank, an apostrophe or a dollar makes another command, of other files."""
    screen = [look] if look == "--ascii" else []
    run, out = f"./{toy(Path(name))}", f"./{name}/release"
    (generate,) = copied(topdown("plan", run, *screen).ok().out)
    assert generate[1] == "generate"
    made = ("generate", run, "--out", out, "--csv", "--report-language", "none", "--yes", *screen)
    assert [line[1] for line in copied(topdown(*made).ok().out)] == ["verify", "audit"]
    (go_on,) = copied(topdown(*made).err)
    assert go_on[-4:] == ["--resume", "--csv", "--report-language", "none"]
    topdown(*go_on[1:], "--yes").ok()
    (check,) = copied(topdown("report", out, "--out", f"{out}.html", *screen).ok().out)
    topdown(*check[1:]).ok()
    made = pgsr_cli("synth", "--shape", "tiny", "--out", f"./{name}/groups", *screen).ok()
    assert [line[1] for line in copied(made.out)] == ["ledger", "release"]
    plan = Path(generate[2])
    Path(run).write_text(Path(run).read_text().replace('rho = "', 'rho = "1'))
    said = topdown("generate", f"./{plan}", "--out", "other", "--yes", *screen)
    *_, again = copied(said.err)
    assert (said.refusal, again[1], Path(again[2])) == ("C082", "plan", Path(run))
