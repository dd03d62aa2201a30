"""Structs of documents, the JSON Schemas made from them, and exact numbers as people type them."""

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from msgspec import UNSET, Meta, UnsetType, ValidationError, convert, to_builtins

from pgsr.formats import DOCUMENTS as PGSR_DOCUMENTS
from pgsr.formats import document_schema as pgsr_schema
from tests.helpers import policies
from tests.helpers.failing import fails_with
from tests.helpers.rule_texts import rule
from tests.helpers.schemas import problems
from tests.helpers.small_release import run_file
from topdown import Composition
from topdown.errors import ConfigError
from topdown.formats import DOCUMENTS, Count, Part, Rational, document_schema, either, schema_of, typed_number
from topdown.plan import load_run_file

TOP = Path(__file__).resolve().parents[3]
ALL = {f"topdown.{name}": document_schema(name) for name in DOCUMENTS} | {
    f"pgsr.{name}": pgsr_schema(name) for name in PGSR_DOCUMENTS
}
WITHOUT_SCHEMA = {
    "topdown.exact",
    "topdown.exact_answers",
    "topdown.measurements",
    "topdown.journal",
    "topdown.work",
}
"""Documents inside measurements/, which docs/format.md describes, and finished sections, gone with the release."""


class Leaf(Part, frozen=True, kw_only=True):
    """A part."""

    loss: Rational
    n: Count | None


class Other(Part, frozen=True, kw_only=True):
    """Another part."""

    word: str


class Tree(Part, frozen=True, kw_only=True, tag_field="type", tag="tests.tree"):
    """A document that has everything."""

    version: Literal[1] = 1
    name: Annotated[str, Meta(pattern="^[a-z]+$", max_length=5)]
    kind: Literal["a", "b"]
    leaf: Leaf
    leaves: Annotated[list[Leaf], Meta(min_length=1, max_length=2)]
    pair: tuple[str, int]
    by_name: dict[str, float]
    chosen: Annotated[dict[str, Any], either(Leaf, Other)]
    more: bool | UnsetType = UNSET


GOOD = {
    "type": "tests.tree",
    "version": 1,
    "name": "abc",
    "kind": "a",
    "leaf": {"loss": "1/2", "n": None},
    "leaves": [{"loss": "0", "n": 3}],
    "pair": ["x", 1],
    "by_name": {"x": 0.5},
    "chosen": {"word": "w"},
}
ODD: tuple[object, ...] = (None, "", "abcdef", "1/0", -1, 7, 0.5, True, [], ["x"], ["x", "y"], {}, {"x": "y"})


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*at, key)
        yield from _places(item, (*at, key))


def _with(value: Any, at: tuple[Any, ...], new: object) -> Any:
    """Return a document with one value replaced, or added."""
    if not at:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = _with(copy[at[0]] if len(at) > 1 else None, at[1:], new)
    return copy


def _fits(document: Any) -> bool:
    """Tell whether msgspec reads a document as its struct; forms that it cannot tell apart are tried in turn."""
    try:
        tree = convert(document, Tree, strict=True)
    except ValidationError:
        return False
    for form in (Leaf, Other):
        try:
            convert(tree.chosen, form, strict=True)
        except ValidationError:
            continue
        return True
    return False


def test_schema_and_struct_judge_alike():
    """A schema that takes more, or less, than the struct says something that no program keeps to."""
    schema = schema_of(Tree)
    assert problems(GOOD, schema) == []
    assert problems(1, {"type": "integer"}) == []
    assert problems(1.0, {"type": "integer"}) != []
    assert problems(to_builtins(convert(GOOD, Tree)) | {"pair": ["x", 1]}, schema) == []
    changed = [_with(GOOD, at, new) for at, new in product(_places(GOOD), ODD)]
    changed += [GOOD | {"more": new} for new in ODD]
    changed += [_with(GOOD, (*at, "new"), 1) for at in ((), ("leaf",), ("leaves", 0), ("chosen",))]
    changed += [
        {k: v for k, v in GOOD.items() if k != gone} for gone in GOOD if gone not in ("type", "version")
    ]
    judged = [(problems(document, schema) == [], _fits(document)) for document in changed]
    assert [d for d, (one, other) in zip(changed, judged, strict=True) if one != other] == []
    assert {True, False} == {one for one, _ in judged}


def test_type_and_version_are_required():
    """A reader that does not know what it reads, or of which version, cannot be strict."""
    for name, schema in ALL.items():
        assert {"type", "version"} <= set(schema["required"])
        assert f"{name}.{schema['properties']['version']['const']}" == schema["$id"]
        assert name == schema["properties"]["type"]["const"]


@pytest.mark.parametrize("name", ALL)
def test_schemas_are_closed_and_sound(name):
    """An object that takes any other key hides misspelled ones; a reference that leads nowhere accepts nothing."""
    schema = ALL[name]
    Draft202012Validator.check_schema(schema)
    parts = [schema, *schema.get("$defs", {}).values()]
    assert all(part["additionalProperties"] is False for part in parts)
    used = set(re.findall(r"'#/\$defs/(\w+)'", str(schema)))
    assert used == set(schema.get("$defs", {}))


def test_every_document_that_is_written_has_a_schema():
    """A type that no schema describes cannot be relied on."""
    written = set()
    for path in (p for room in ("topdown", "pgsr") for p in (TOP / room).rglob("*.py")):
        written |= set(re.findall(r'(?:"type": |tag=)"((?:topdown|pgsr)\.[\w.]+)"', path.read_text("utf-8")))
    assert set(ALL) | WITHOUT_SCHEMA == written


@pytest.mark.parametrize(("package", "documents"), [("topdown", DOCUMENTS), ("pgsr", PGSR_DOCUMENTS)])
def test_documents_are_found_by_their_names(package, documents):
    """A struct nobody finds is written a second time."""
    for name, place in documents.items():
        module, _, struct = place.partition(":")
        assert f"{package}.{name}" == getattr(import_module(module), struct).__struct_config__.tag


SOFT = rule("no_more_than", "children", 'age = ["0_17"]', than='age = ["18_64", "65_plus"]')


def test_plans_with_caps_and_soft_rules_fit_their_schema(tmp_path):
    """Two kinds of rules were in plan.json and not in its schema."""
    plan = policies.make_census(tmp_path, 1, policies.FULL_BARRACKS + SOFT).context.plan
    document = plan.to_document() | {"plan_hash": plan.plan_hash}
    assert {"at_most", "no_more_than"} <= set(document["invariants"])
    assert problems(json.loads(json.dumps(document)), document_schema("plan")) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/2", Fraction(1, 2)),
        ("0.95", Fraction(19, 20)),
        (".5", Fraction(1, 2)),
        ("95%", Fraction(19, 20)),
        ("95 %", Fraction(19, 20)),
        ("12 034", Fraction(12034)),
        ("12'034.5", Fraction(24069, 2)),
        ("1_000", Fraction(1000)),
        ("1e-10", Fraction(1, 10**10)),
    ],
)
def test_a_typed_number_is_the_number_that_was_meant(text, value):
    """A rule that differs between a file and an option makes one of two equal texts another budget."""
    assert value == typed_number(text)
    assert Composition.from_rho({text: 1}, "bounded").rho == Composition.from_rho({value: 1}, "bounded").rho


@pytest.mark.parametrize(
    "text", ["0,95", "1,500", "1 00", "12 0345", "", "%", "1/0", "1..5", "\u0661", "50 % %", "1e"]
)
def test_what_can_be_read_in_two_ways_is_refused(text):
    """1,500 is a thousand and a half in one office and fifteen hundred in another."""
    with pytest.raises(ValueError, match="write"):
        typed_number(text)
    with fails_with("A001", ConfigError):
        Composition.from_rho({text: 1}, "bounded")


def test_a_run_file_reads_the_same_numbers(tmp_path: Path) -> None:
    """A budget typed without quotes is a binary number that nobody typed; a coverage sets no noise."""
    run = tmp_path / "run.toml"
    text = run_file().replace('rho = "2"', 'rho = "50 %"') + "\n[estimates]\ncoverage = 0.95\n"
    run.write_text(text)
    found = load_run_file(run)
    assert (found.budget.rho, found.estimates.coverage) == (Fraction(1, 2), Fraction(19, 20))
    run.write_text(text.replace('"50 %"', "0.5"))
    with pytest.raises(ConfigError, match='write "1/2"'):
        load_run_file(run)
