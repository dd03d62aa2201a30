"""The page that says where a change goes names files that are there, and no kind of rule is left out of one."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tests.helpers.imports import modules
from topdown.model import Invariants
from topdown.model import constraint_rows as constraint

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "where-does-my-change-go.md"
KINDS = [f.name for f in fields(Invariants) if f.name not in ("name", "title", "schema", "source")]
SOFT = "no_more_than"
SOME, DISTINCT = 3, "none_where_zero"  # a file that names so many kinds, this one among them, handles kinds
NOT_ALL = {  # handle some kinds for what these have in common
    "topdown.plan.preparation",
    "topdown.practice.synth.public_columns",
    "topdown.solve.implied.level_verdicts",
    "topdown.solve.lattice",
    "topdown.verify.check_constraints",
    "topdown.verify.released_records",
}
OF_BOUNDS = """
topdown/solve/objectives tests/helpers/attacked tests/helpers/attacker tests/helpers/implied_brute
tests/property/test_synth_invariants
"""
BOUNDS = [
    kind
    for kind in KINDS
    if "column" in {field.name for field in fields(getattr(constraint, kind.title().replace("_", "")))}
]


def test_files_of_the_page_are_there() -> None:
    """A page that names files of last year sends its reader to look for them."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        folder = ROOT
        for name in re.findall(r"`([A-Za-z_/]+(?:\.(?:py|md|toml)|/))`", line):
            found = next((at for at in (ROOT / name, folder / name) if at.exists()), ROOT / name)
            assert found.exists() or found.stem == "NAME", f"{name} in: {line}"
            folder = found if found.is_dir() else found.parent


def test_every_kind_of_rule_is_named_where_rules_are_handled() -> None:
    """A kind that verify, the certificate or the plan passes over would be promised by nobody."""
    missing, n_handling = {}, 0
    for module, path in modules().items():
        text = path.read_text(encoding="utf-8")
        named = [k for k in KINDS if re.search(rf"\b({k}|{k.title().replace('_', '')})\b", text)]
        if len(named) < SOME or DISTINCT not in named or module in NOT_ALL:
            continue
        n_handling += 1
        if left_out := set(KINDS) - set(named) - (set() if SOFT in named else {SOFT}):
            missing[module] = left_out
    assert missing == {}
    assert n_handling > SOME


@pytest.mark.parametrize("name", OF_BOUNDS.split())
def test_every_bound_is_named_where_no_result_would_be_wrong(name: str) -> None:
    """A helper that passes over a kind leaves tests green that attack nothing; a memory need is foretold too small."""
    text = (ROOT / f"{name}.py").read_text(encoding="utf-8")
    assert BOUNDS
    assert [kind for kind in BOUNDS if not re.search(rf"\b{kind}\b", text)] == []
