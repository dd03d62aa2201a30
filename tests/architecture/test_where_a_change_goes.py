"""The page that says where a change goes names files that are there; kinds of rules and relations are declared once."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

from tests.helpers.imports import modules, tree_of
from topdown.formats import InvariantKindName, InvariantRules
from topdown.model import KINDS, Invariants, SoftRule
from topdown.privacy import RELATIONS
from topdown.verify import RULE_KINDS, ClosingRule, CountBound, SoftComparison

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "where-does-my-change-go.md"
NAMES = [kind.kind for kind in KINDS]
HEAD = {"name", "title", "schema", "source"}
PLACES = {"topdown.formats.release_documents", "topdown.model.invariants", "topdown.verify.rule_kinds"}
RELATION_PLACES = {"topdown.formats.common", "topdown.privacy.relation", "topdown.verify.noise_laws"}
COLOURS = "never", "topdown.app."  # what --color may be


def test_files_of_the_page_are_there() -> None:
    """A page that names files of last year sends its reader to look for them."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        folder = ROOT
        for name in re.findall(r"`([A-Za-z_/]+(?:\.(?:py|md|toml)|/))`", line):
            found = next((at for at in (ROOT / name, folder / name) if at.exists()), ROOT / name)
            assert found.exists() or found.stem == "NAME", f"{name} in: {line}"
            folder = found if found.is_dir() else found.parent


def test_every_kind_of_rule_is_known_on_every_side() -> None:
    """A kind that verify or plan.json passes over would be promised by nobody."""
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) == set(get_args(InvariantKindName))
    assert set(NAMES) == {field.name for field in fields(Invariants)} - HEAD
    assert set(NAMES) == set(get_type_hints(InvariantRules)) - HEAD
    assert set(NAMES) == set(RULE_KINDS)
    for kind in KINDS:
        own = RULE_KINDS[kind.kind]
        assert issubclass(own, ClosingRule) == kind.closes
        assert issubclass(own, SoftComparison) == issubclass(kind, SoftRule)
        if issubclass(own, CountBound):
            assert (own.is_least, own.is_most) == (kind.is_lower, kind.is_upper)
            assert own.is_least or own.is_most


def test_a_kind_of_rule_is_named_where_it_is_declared_only() -> None:
    """Code that asks for one kind by name passes over the next one that is alike."""
    names = {kind.kind for kind in KINDS if kind.kind != "exact"} | {kind.__name__ for kind in KINDS[1:]}
    named = {}
    for module in modules():
        if module.startswith(("topdown.optimal_noise", "pgsr")) or module in PLACES | {"topdown.model"}:
            continue
        found = {
            said
            for node in ast.walk(tree_of(modules()[module]))
            for said in (
                getattr(node, "attr", None),
                getattr(node, "name", None),
                getattr(node, "value", None),
            )
            if isinstance(said, str) and said in names and (said, module[:12]) != COLOURS
        }
        if found:
            named[module] = found
    assert named == {}


def test_a_neighbour_relation_is_named_where_it_is_declared_only() -> None:
    """Code that asks for one relation by name decides by accident for the next one."""
    declared = tree_of(modules()["topdown.privacy.relation"]).body
    assigned = [
        (ast.unparse(s.targets[0]), ast.unparse(s.value)) for s in declared if isinstance(s, ast.Assign)
    ]
    values = {name for name, value in assigned if value.startswith("Relation(")}
    assert len(values) == len(RELATIONS)
    named = {}
    for module in modules():
        if module in RELATION_PLACES:
            continue
        nodes = list(ast.walk(tree_of(modules()[module])))
        found = {
            node.value for node in nodes if isinstance(node, ast.Constant) and node.value in [*RELATIONS]
        }
        found |= {node.id for node in nodes if isinstance(node, ast.Name) and node.id in values}
        if found:
            named[module] = found
    assert named == {
        "topdown.privacy.accountant.account": {"REPLACED"}
    }  # what was published in 2020 protects
