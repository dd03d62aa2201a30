"""What verify shares with the modules that make releases, and that it finds what is wrong with the rest.

Code that both sides use is wrong on both sides at once. A release is made with a mutant, and verified while the mutant
is still there, and by a second process without it.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.imports import imports_of
from tests.helpers.processes import run_python
from tests.helpers.small_release import build, certified
from topdown.errors import CertificateError
from topdown.formats import json_bytes
from topdown.model import Query, Schema
from topdown.privacy import Enclosure, statement
from topdown.privacy.accountant import Composition
from topdown.verify import verify

ROOT = Path(__file__).resolve().parents[2]
WRITERS = {"model", "plan", "measure", "solve", "publish", "privacy", "app"}
DECLARATIONS = {
    "topdown": "public names of the package",
    "topdown.lazy": "where a public name is imported from, on first use",
    "topdown.errors": "what an error says; verify raises one, of a killed worker, which judges no release",
    "topdown.formats.common": "pieces of documents; the unit in words of the report, which verify reads itself",
    "topdown.formats.json_schema": "schemas that are printed for readers: no check reads one",
    "topdown.formats.verify_documents": "what a verification says: no check reads one",
    "topdown.formats.report_pages": "what stands in which sentence; verify reads all numbers from the page again",
    "topdown.formats.report_parts": "words, tables and pictures around figures that it is given",
}
"""Shared modules whose functions decide nothing of a release, and why."""


def shared_functions() -> set[tuple[str, str]]:
    """Return (module, function) of all code that verify and the writers of releases both import, found by walking."""
    files = {
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
        for p in (ROOT / "topdown").rglob("*.py")
    }

    def reached(rooms: set[str], *, lazily: bool) -> set[str]:
        """Return what some packages import; `lazily`: also what faces on their way import when a name is asked for."""
        found, left = set[str](), {m for m in files if m.split(".")[1:2] and m.split(".")[1] in rooms}
        while left:
            found.add(name := left.pop())
            if name != "topdown":  # it imports its public names when they are asked for
                needed = imports_of(files[name]) if lazily else _imported_at_once(files[name])
                left |= ((needed | {name.rpartition(".")[0]}) & set(files)) - found
        return found

    shared = reached({"verify"}, lazily=False) & reached(WRITERS, lazily=True)
    shared -= {m for m in files if m.startswith("topdown.verify")}
    return {(m, node.name) for m in shared for node in ast.walk(_tree(files[m])) if _is_function(node)}


def _imported_at_once(path: Path) -> set[str]:
    """Return what a file imports but for what it imports for the type checker alone, as lazy faces do."""
    found, left = set[str](), list(ast.iter_child_nodes(_tree(path)))
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            left += node.orelse
            continue
        found |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
        found |= {node.module or ""} if isinstance(node, ast.ImportFrom) else set()
        left += ast.iter_child_nodes(node)
    return found


def _tree(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def rotated(query: Query) -> np.ndarray:
    """Return the labels of a query with its groups rotated by one."""
    schema = query.schema
    labels = np.zeros(schema.n_cells, dtype=np.int32)
    values = dict(
        zip((a.name for a in schema.attributes), schema.coordinates(np.arange(schema.n_cells)), strict=True)
    )
    for factor in query.factors:
        labels = labels * len(factor.group_labels) + np.array(factor.group_of)[values[factor.attribute]]
    return ((labels + 1) % query.n_answers).astype(np.int32)


def halved(box: Enclosure) -> Enclosure:
    """Return an enclosure of half of what is true."""
    return replace(box, lower=box.lower / 2, upper=box.upper / 2)


def _rotate_labels(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Query, "labels", property(rotated))


def _select_others(patch: pytest.MonkeyPatch) -> None:
    true = Schema.select
    patch.setattr(Schema, "select", lambda self, values: np.roll(true(self, values), 1))


def _halve_epsilon(patch: pytest.MonkeyPatch) -> None:
    _compute_all(patch)
    true = Composition.epsilon
    patch.setattr(Composition, "epsilon", lambda self, *a, **k: halved(true(self, *a, **k)))


def _halve_guess(patch: pytest.MonkeyPatch) -> None:
    _compute_all(patch)
    true = Composition.delta
    patch.setattr(Composition, "delta", lambda self, *a, **k: halved(true(self, *a, **k)))


def _compute_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(statement, "stored_numbers", dict)


def _halve_stored(patch: pytest.MonkeyPatch) -> None:
    stored = statement.stored_numbers().items()
    halves = {
        key: numbers
        | {"epsilon": {d: [str(float(x) / 2) for x in ends] for d, ends in numbers["epsilon"].items()}}
        for key, numbers in stored
    }
    patch.setattr(statement, "stored_numbers", lambda: halves)


def _double_variances(patch: pytest.MonkeyPatch) -> None:
    true = Composition.of
    patch.setattr(
        Composition, "of", lambda rows: true((2 * variance, shift, n) for variance, shift, n in rows)
    )


def _other_bytes(patch: pytest.MonkeyPatch) -> None:
    true = json_bytes

    def mutant(document: Any) -> bytes:
        return (json.dumps(json.loads(true(document)), sort_keys=True, indent=1) + "\n").encode()

    for module in list(sys.modules.values()):
        if vars(module).get("json_bytes") is true:
            patch.setattr(module, "json_bytes", mutant)


def _other_numbers(patch: pytest.MonkeyPatch) -> None:
    content = sys.modules["topdown.formats.report_parts"].Content
    true = content.number
    patch.setattr(content, "number", lambda self, *a: true(self, *a).replace("</data>", "0</data>"))


def _other_unit(patch: pytest.MonkeyPatch) -> None:
    unit = sys.modules["topdown.formats.common"].PrivacyUnit
    patch.setattr(unit, "read", classmethod(lambda cls, text: cls(text, f"other {text}", text)))


OF_SHARED: dict[tuple[str, str], Callable[[pytest.MonkeyPatch], None]] = {
    ("topdown.formats.common", "read"): _other_unit,
    ("topdown.formats.json_schema", "json_bytes"): _other_bytes,
    ("topdown.formats.report_parts", "number"): _other_numbers,
}
"""A mutant of each shared function that is more than a declaration."""
OF_WRITERS = (_rotate_labels, _select_others, _halve_epsilon, _halve_guess, _halve_stored, _double_variances)
"""Mutants of what verify once took from the writers, or never may: labels, cells, sums of noise, stored numbers."""


def test_every_shared_function_is_a_declaration_or_has_a_mutant() -> None:
    """A function that verify comes to share unseen would be wrong on both sides at once."""
    found = shared_functions()
    assert {one for one in found if one[0] not in DECLARATIONS} == set()
    assert set(OF_SHARED) <= found
    assert {module for module, _ in shared_functions()} >= set(DECLARATIONS)


@pytest.mark.parametrize("mutant", [*OF_SHARED.values(), *OF_WRITERS], ids=lambda mutant: mutant.__name__[1:])
def test_verify_finds_a_release_that_a_mutant_made(
    mutant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rotated groups of a query once passed all 15 checks of a run and all of verify: 224 wrong answers."""
    _forget_numbers()
    with monkeypatch.context() as patch:
        mutant(patch)
        try:
            release = build(tmp_path).folder
        except (
            CertificateError
        ):  # found by the checks of the content, with the mutant there: nothing is sealed
            return
        finally:
            _forget_numbers()
        assert not verify(release).ok
    second = run_python("-m", "topdown.cli", "verify", release, "--json", ok=False, cwd=ROOT)
    assert second.returncode == 1, second.stdout
    assert not json.loads(second.stdout)["ok"]


def _forget_numbers() -> None:
    certified.cache_clear()
    statement._cached_numbers.cache_clear()


def test_a_release_without_a_mutant_passes(tmp_path: Path) -> None:
    """A search that finds something everywhere proves nothing."""
    assert verify(build(tmp_path).folder).ok
