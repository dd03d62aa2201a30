"""The claims of SECURITY.md as records: what is promised, against whom, what must hold, and what attacks it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.claims.search import PROPERTIES

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "SECURITY.md"
_HEAD = "| claim | valid against | not against | test |\n|---|---|---|---|\n"


@dataclass(frozen=True)
class Claim:
    """One row; see the head of claims.toml."""

    claim: str
    against: str
    holds: str
    tests: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()
    not_against: str = ""

    @property
    def row(self) -> str:
        """The line of the table in SECURITY.md."""
        attacks = ", ".join(f"`{name}`" for name in self.tests)
        attacks += f"; searched: {', '.join(self.searched)}" if self.searched else ""
        return f"| {self.claim} | {self.against} | {self.not_against} | {attacks} |\n".replace("|  |", "| |")


def read_claims() -> list[Claim]:
    """Return the records of claims.toml (TypeError: a field is unknown or missing)."""
    records = tomllib.loads(Path(__file__).with_name("claims.toml").read_text())["claim"]
    plain = [{k: tuple(v) if isinstance(v, list) else v for k, v in one.items()} for one in records]
    return [Claim(**one) for one in plain]


def known_tests() -> set[str]:
    """Return the names of all tests, and of all files of tests."""
    files = list(TESTS.rglob("test_*.py"))
    functions = re.findall(r"(?m)^ *def (test_\w+)\(", "\n".join(path.read_text() for path in files))
    return {path.name for path in files} | set(functions)


def problems(claims: list[Claim], known: set[str]) -> list[str]:
    """Return what is wrong with the records: nothing attacks one, or what it names is not there."""
    found = [f"nothing attacks: {one.claim}" for one in claims if not (one.tests or one.searched)]
    found += [f"no property: {one.claim}" for one in claims if not one.holds.strip()]
    found += [f"no such test: {name}" for one in claims for name in one.tests if name not in known]
    found += [f"not searched: {name}" for one in claims for name in one.searched if name not in PROPERTIES]
    searched = {name for one in claims for name in one.searched}
    return found + [f"of no claim: {name}" for name in PROPERTIES if name not in searched]


def page_with(claims: list[Claim]) -> str:
    """Return SECURITY.md with the table of these claims."""
    before, rest = PAGE.read_text().split(_HEAD)
    after = rest[re.search(r"(?m)^(?!\|)", rest).start() :]  # type: ignore[union-attr]
    return before + _HEAD + "".join(one.row for one in claims) + after
