"""The command line of pgsr: exit codes, error screens, JSON, and the whole way round."""

import json
import re

import pytest

from pgsr.cli import spread_lists
from tests.helpers.commands import pgsr
from tests.helpers.processes import run_python

FORBIDDEN = ("scipy", "pyarrow", "pandas", "pulp", "networkx", "numpy", "msgspec")


def test_synth_ledger_release_verify(practice):
    """The four commands a newcomer types first; a failed check is exit code 1, not an error."""
    release = ("release", practice / "run.toml", "--yes")
    assert "Release written" in pgsr(*release).ok().out
    assert "9 of 9 checks passed" in pgsr("verify", practice / "release").ok().out
    assert pgsr(*release, "--out", practice / "second").refusal == "B013"
    (practice / "release" / "counts.parquet").write_bytes(b"not parquet")
    said = pgsr("verify", practice / "release")
    assert (said.code, "SHA-256" in said.out) == (1, True)
    said = pgsr("verify", practice / "release", "--json")
    assert (said.code, said.document["ok"]) == (1, False)


def test_documents_keep_to_their_schemas(practice, check, tmp_path):
    """A program that reads our JSON relies on the printed schemas: files, results and errors, with all branches."""
    variants = (
        ("first", ["--mechanism", "M_H^dp"]),
        ("second", ["--rho", "1/8", "--simulate", "1"]),
        ("third", ["--mechanism", "M_c^ch", "--calibration", "published", "--simulate", "1"]),
    )
    text = (practice / "run.toml").read_text()
    for name, extra in variants:
        lines = [row for row in text.splitlines() if "--rho" not in extra or not row.startswith("epsilon")]
        (practice / "run.toml").write_text("\n".join(lines) + "\n")
        folder = practice / name
        released = pgsr("release", practice / "run.toml", "--yes", *extra, "--out", folder, "--json").ok()
        check(released.document)
        verified = pgsr("verify", folder, "--json")
        assert verified.code == (2 if "--simulate" in extra else 0)
        check(verified.document)
        for file in ("certificate.json", "manifest.json"):
            check(json.loads((folder / file).read_text()))
        (practice / "run.toml").write_text(text)
    for arguments in (
        ["synth", "--out", tmp_path / "more"],
        ["ledger", "new", practice / "run.toml"],
        ["release", practice / "run.toml", "--yes", "--epsilon", "0"],
    ):
        check(pgsr(*arguments, "--json").document)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--epsilon", "0"], "C144"), (["--epsilon-limit", "1/4"], "B004"), (["--nonsense"], "C005")],
)
def test_user_errors_show_code_and_fix(practice, arguments, code):
    """Every user error: exit 2, its code, a fix line, no traceback, nothing written."""
    said = pgsr("release", practice / "run.toml", "--yes", *arguments)
    assert (said.refusal, said.out) == (code, "")
    assert "fix" in said.err
    assert "Traceback" not in said.err
    assert not (practice / "release").exists()
    as_json = pgsr("release", practice / "run.toml", "--yes", *arguments, "--json")
    assert as_json.refusal == code
    assert (["this run spent", "nothing"] in as_json.document["details"]) == (code != "C005")


def test_published_chain_says_what_it_costs(practice):
    """Whoever reproduces the paper must see the true epsilon and the stamp."""
    chain = ("--mechanism", "M_c^ch", "--calibration", "published")
    out = pgsr("release", practice / "run.toml", *chain, "--epsilon", "1", "--simulate", "1").ok().out
    for words in ("NOT private", "4.3334", "NOT-A-RELEASE"):
        assert words in out


def test_audit_prints_the_proof(check):
    """The three real losses, each rounded down: the screen says that the loss is at least this."""
    out = pgsr("audit", "--shape", "tiny").ok().out
    assert all(number in out for number in ("0.643", "1.363", "2.843"))
    document = pgsr("audit", "--shape", "tiny", "--json").document
    check(document)
    assert [row["epsilon"] for row in document["published_chain_output"]] == [0.643766, 1.363715, 2.843785]


def test_audit_of_own_regions(practice):
    """The table must be that of the given tree: 13 regions for the chain."""
    said = pgsr("audit", "--hierarchy", practice / "hierarchy.csv", "--sizes", "5", "--json").ok()
    rows = {row["vector"]: row for row in said.document["sensitivities"]}
    assert (rows["chain"]["move_l1"], rows["chain"]["move_l1_by_level"]) == (13, [1, 3, 9])


def test_compare_shows_both_calibrations(tmp_path):
    """Published and correct chain side by side, several epsilons after one option, and a plot."""
    compare = ("compare", "--shape", "tiny", "--repeats", "1", "--epsilon")
    document = pgsr(*compare, "1/2", "1", "--json").ok().document
    assert {"1/2", "1"} == {row["claimed"] for row in document["rows"]}
    chain = {row["calibration"]: row for row in document["rows"] if row["mechanism"] == "M_c^ch"}
    assert {k: v["private_as_claimed"] for k, v in chain.items()} == {"published": False, "correct": True}
    out = pgsr(*compare, "1", "--plot", tmp_path / "x.svg").ok().out
    assert "M_c^ch as published" in out
    assert "L1 error per level, groups" in out  # none is 10,000 or more
    picture = (tmp_path / "x.svg").read_text()
    assert "<svg" in picture
    assert "M_c^ch as published (not private)" in picture
    assert "made up" in picture
    for number in re.findall(r' (?:cx|cy|x|y|width|height)="([^"]*)"', picture):
        assert 0 <= float(number) < 3000
    circles, lines = picture.count("<circle"), picture.count("<polyline")
    assert circles == lines > 20  # one epsilon; a panel for each level and measure, a line for each mechanism


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_pgsr_has_what_topdown_has(shell):
    """Who knows one of two programs types the same at the other."""
    assert "_PGSR_COMPLETE" in pgsr("completion", shell).ok().out
    assert pgsr("--version").ok().out.startswith("pgsr ")


def test_compare_shows_peers_and_known_totals(check):
    """Kuo et al. know the totals, so that they are compared with ours that know them too; errors are in persons."""
    said = pgsr("compare", "--shape", "tiny", "--epsilon", "1", "--repeats", "2", "--json").ok()
    check(said.document)
    rows = {(row["mechanism"], row["totals"]): row for row in said.document["rows"]}
    known = {"tracking", "posterior"}
    assert {"Kuo counts", "Kuo sizes", *known} == {m for m, t in rows if t == "public"}
    assert all(row["true_epsilon"] == "1" for (_, totals), row in rows.items() if totals == "public")
    known, guessed = (rows["posterior", totals]["emd"][-1] for totals in ("public", "not public"))
    assert known < guessed
    ours = rows["posterior", "public"]["intervals"]
    assert list(ours) == ["1/2", "9/10", "19/20", "99/100"]
    assert len(ours["1/2"]["held"]) == 3
    assert min(ours["19/20"]["held"]) > 0.9
    assert all(ours["1/2"]["width"][i] < ours["99/100"]["width"][i] for i in range(3))
    assert rows["Kuo counts", "public"]["intervals"] is None


def compare_own(folder):
    """Return the command that compares mechanisms on the groups of a folder."""
    shape, regions = folder / "groups.csv", folder / "hierarchy.csv"
    return ("compare", "--shape", shape, "--hierarchy", regions, "--sizes", "8")


def test_simulations_need_made_up_or_public_groups(practice, check):
    """The mark of `pgsr synth` fits its own file; a changed one is anybody's, and needs a reason that is shown."""
    own = compare_own(practice)
    own = (*own, "--epsilon", "1", "--repeats", "1", "--mechanism", "tracking", "--json")
    simulated = ("release", practice / "run.toml", "--simulate", "1", "--json")
    assert pgsr(*own).document["truth"]["generator"] == "pgsr synth --shape tiny"
    lines = (practice / "groups.csv").read_text().splitlines(keepends=True)
    (practice / "groups.csv").write_text("".join([lines[0], *lines[:0:-1]]))
    for arguments in (own, simulated):
        assert pgsr(*arguments).refusal == "C121"
    assert not (practice / "release").exists()
    reason = ("--truth-is-public", "still made up here")
    document = pgsr(*own, *reason).document
    check(document)
    assert document["truth"]["reason"] == reason[1]
    pgsr(*simulated, *reason).ok()
    stated = json.loads((practice / "release" / "certificate.json").read_text())
    check(stated)
    assert (stated["stamp"], stated["truth"]["reason"]) == ("NOT-A-RELEASE", reason[1])


def test_compare_does_not_run_the_published_chain_on_own_data(practice):
    """Own data must not be put through a mechanism that is known to leak, unless asked."""
    own = (*compare_own(practice), "--epsilon", "1", "--repeats", "1")
    said = pgsr(*own).ok()
    assert "M_c^ch as published" not in said.out
    assert "A103" in said.err
    assert "M_c^ch as published" in pgsr(*own, "--anyway").out


def test_a_blank_name_is_none(practice):
    """A title of one blank, or an agency of a character without width, would stand as given in every paper."""
    blank = ["--title", " ", "--agency", "\u200b", "--contact", "?", "--licence", "  "]
    pgsr("release", practice / "run.toml", "--yes", *blank).ok()
    readme = (practice / "release" / "README.txt").read_text()
    assert readme.splitlines()[1] == "Numbers of groups by size"
    assert readme.count("not stated") == 4  # one of them in the line to cite
    pgsr("verify", practice / "release").ok()


@pytest.mark.parametrize("arguments", [["nothing"], ["compare", "--shape", "nowhere"], ["verify", "nowhere"]])
def test_unknown_names_are_user_errors(arguments):
    """A typing error ends with 2 and a fix, as everywhere."""
    said = pgsr(*arguments)
    assert (said.code, "fix" in said.err) == (2, True)


def test_lists_after_one_option():
    """`--epsilon 1/10 1/2 1` is what people type."""
    spread = spread_lists(["--epsilon", "1/10", "1", "--json"])
    assert spread == ["--epsilon", "1/10", "--epsilon", "1", "--json"]
    assert spread_lists(["--sizes", "5", "7"]) == ["--sizes", "5", "7"]
    assert spread_lists(["--epsilon", "1", "--sizes", "5"]) == ["--epsilon", "1", "--sizes", "5"]


def test_help_is_light():
    """`pgsr --help` must not load the compiler or a data library."""
    script = f"import sys, pgsr.cli; pgsr.cli.main(['--help']); print([m for m in {FORBIDDEN!r} if m in sys.modules])"
    assert run_python("-c", script).stdout.splitlines()[-1] == "[]"
