"""The page that says where a change goes names files that are there, and no kind of rule is left out of one."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from topdown.model import Invariants
from topdown.model import constraint_rows as constraint

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "where-does-my-change-go.md"
KINDS = [f.name for f in fields(Invariants) if f.name not in ("name", "title", "schema", "source")]
OF_EVERY_KIND = """
api/plan_summary documents/evaluation documents/plan documents/plan_summary plan/invariants_file
publish/certificate publish/verify/expected_certificate publish/verify/plan_file solve/implied/describe
"""
OF_HARD_KINDS = """
measure/checks model/constraint_table plan/secrets publish/verify/check_constraints publish/verify/privacy/chain
solve/implied/node
"""
SOFT = {"no_more_than"}
OF_BOUNDS = """
topdown/solve/wide tests/helpers/attacked tests/helpers/attacker tests/helpers/implied_brute
tests/property/test_synth_invariants
"""
BOUNDS = [
    kind for kind in KINDS if "column" in getattr(constraint, kind.title().replace("_", "")).__annotations__
]


def test_files_of_the_page_are_there() -> None:
    """A page that names files of last year sends its reader to look for them."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        folder = ROOT
        for name in re.findall(r"`([A-Za-z_/]+(?:\.(?:py|md|toml)|/))`", line):
            found = next((at for at in (ROOT / name, folder / name) if at.exists()), ROOT / name)
            assert found.exists() or found.stem == "NAME", f"{name} in: {line}"
            folder = found if found.is_dir() else found.parent


@pytest.mark.parametrize("name", OF_EVERY_KIND.split() + OF_HARD_KINDS.split())
def test_every_kind_of_rule_is_named_where_rules_are_handled(name: str) -> None:
    """A kind that verify, the certificate or the plan passes over would be promised by nobody."""
    text = (ROOT / "topdown" / f"{name}.py").read_text(encoding="utf-8")
    for kind in set(KINDS) - (SOFT if name in OF_HARD_KINDS.split() else set()):
        of_class = kind.title().replace("_", "")
        assert hasattr(constraint, of_class)
        assert re.search(rf"\b({kind}|{of_class})\b", text), kind


@pytest.mark.parametrize("name", OF_BOUNDS.split())
def test_every_bound_is_named_where_no_result_would_be_wrong(name: str) -> None:
    """A helper that passes over a kind leaves tests green that attack nothing; a memory need is foretold too small."""
    text = (ROOT / f"{name}.py").read_text(encoding="utf-8")
    assert BOUNDS
    assert [kind for kind in BOUNDS if not re.search(rf"\b{kind}\b", text)] == []
