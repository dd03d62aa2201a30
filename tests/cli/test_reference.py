"""The reference of input files: every key once, examples that are read, error codes that have a page."""

import tomllib
from dataclasses import dataclass

import msgspec
import pytest

from topdown.app import TITLES, TOPDOWN_PAGES, file_tables, key_texts, reference
from topdown.formats import dec_hook

TOLD = key_texts()
PAGES = tomllib.loads(TOPDOWN_PAGES.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Key:
    """A key as the struct has it."""

    table: str
    name: str
    kind: type


KEYS = {
    (table.name, field.encode_name): Key(table.name, field.encode_name, field.type)
    for name in TITLES
    for table in file_tables(name)
    for field in msgspec.structs.fields(table.struct)
}


def test_every_key_is_told_and_no_other() -> None:
    """A key that nobody explains is found by guessing; one that is gone is typed in vain."""
    assert {(table, key) for table, keys in TOLD.items() for key in keys} == set(KEYS)
    assert {code for keys in TOLD.values() for _, _, codes in keys.values() for code in codes.split()} <= set(
        PAGES
    )


@pytest.mark.parametrize("place", KEYS, ids="/".join)
def test_examples_are_read_as_they_are_typed(place: tuple[str, str]) -> None:
    """An example that is refused costs more than none."""
    text, example, _ = TOLD[place[0]][place[1]]
    assert text.endswith(".")
    if example:
        value = tomllib.loads(f"x = {example}")["x"]
        if place[1] != "attribute":
            msgspec.convert(value, KEYS[place].kind, dec_hook=dec_hook)


def test_defaults_and_types_are_those_of_the_structs() -> None:
    """A default of another version is worse than none."""
    keys = {
        key.key: key for table in reference("run").tables if table.table == "[input]" for key in table.keys
    }
    assert [
        (keys[n].type, keys[n].default, keys[n].required) for n in ("records", "ignore", "count", "columns")
    ] == [
        ("text", "", True),
        ("list of texts", "[]", False),
        ("true or false", "true", False),
        ("table of texts by name", "{}", False),
    ]
    (kinds,) = [
        key.type for table in reference("settings").tables for key in table.keys if key.key == "neighbours"
    ]
    assert kinds == 'one of "bounded", "add_remove"'


def test_the_command_prints_them(topdown, check) -> None:
    """A reference that is only in the program helps nobody who types."""
    for name in TITLES:
        said = topdown("schema", name).ok()
        document = topdown("schema", name, "--json").document
        check(document)
        assert all(key["key"] in said.out for table in document["tables"] for key in table["keys"])
    assert "geography" in topdown("schema").out
