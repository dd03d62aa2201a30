"""Every kind of hard rule on leaves once more, as plain arithmetic, and one of each to try.

Tests that go through all kinds take them from here: a kind that is missing makes `tests/conformance/test_rule_kinds.py`
fail. Nothing of the product is used.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # a number, or one number a record
NO_END = 1 << 60


@dataclass(frozen=True)
class Twin:
    """What a kind asks of the records in its cells at a leaf.

    Args:
        ends: the least and the most of them, from the keys of the rule and the public columns of the leaf.
        example: of the toy land, beside its own rules.
    """

    ends: Callable[[Mapping[str, Any], Mapping[str, Array]], tuple[Array, Array]]
    example: str


TWINS = {
    "none_where_zero": Twin(
        lambda rule, facts: (0, np.where(np.any([facts[c] > 0 for c in rule["columns"]], axis=0), NO_END, 0)),
        'cells = { dwelling = ["dormitory"], sex = ["female"] }\ncolumns = ["homes"]',
    ),
    "at_least": Twin(
        lambda rule, facts: (int(rule["per"]) * facts[rule["column"]], NO_END),
        'cells = { dwelling = ["dormitory"], sex = ["female"] }\ncolumn = "dormitories"',
    ),
    "at_most": Twin(
        lambda rule, facts: (0, int(rule["per"]) * facts[rule["column"]]),
        'cells = { dwelling = ["home"], age = ["65_plus"] }\ncolumn = "beds"\nper = 2',
    ),
    "never": Twin(lambda rule, facts: (0, 0), 'cells = { dwelling = ["home"], age = ["65_plus"] }'),
}


CLOSING = {"never", "none_where_zero"}  # these say where nobody can be


def columns_of(text: str) -> list[str]:
    """Return the public columns that the rules of an invariants file read."""
    found = tomllib.loads(text)
    rules = [rule for kind in TWINS for rule in found.get(kind, [])]
    names = [rule.get("columns", []) + ([rule["column"]] if "column" in rule else []) for rule in rules]
    return list(dict.fromkeys(name for each in names for name in each))


def example(kind: str) -> str:
    """Return a rule of a kind as it stands in an invariants file of the toy land."""
    return f'\n[[{kind}]]\nname = "one of {kind}"\nlegal_basis = "made up"\n{TWINS[kind].example}\n'
