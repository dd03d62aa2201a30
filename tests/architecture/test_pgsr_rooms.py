"""What pgsr takes of topdown, and its checks of the rest of pgsr."""

import ast
from pathlib import Path

from tests.helpers.imports import imports_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "topdown"
PGSR_MAY_USE = {
    "app",
    "arrays",
    "errors",
    "file_names",
    "formats",
    "inputs",
    "lazy",
    "made_up",
    "model",
    "notebook",
    "output_paths",
    "privacy",
    "process",
    "publish",
    "resources",
    "progress",
    "verify",
}
OF_THE_VERIFIER = {
    f"topdown.verify.{name}"
    for name in (
        "change_losses",
        "check_ledger",
        "check_privacy",
        "exact_arithmetic",
        "findings",
        "ledger_reader",
        "stated_losses",
        "strict_parquet",
        "strict_reader",
    )
}


def test_pgsr_reads_strictly_and_checks_by_itself() -> None:
    """Of the verifier pgsr shares strict readers, losses and statements of ledgers; the rest is its own."""
    for path in (ROOT / "pgsr").rglob("*.py"):
        taken = {name for name in imports_of(path) if name.startswith("topdown.verify")}
        assert taken <= OF_THE_VERIFIER, f"{path.relative_to(ROOT)} imports {taken - OF_THE_VERIFIER}"
        published = {name for name in imports_of(path) if name.startswith("topdown.publish")}
        assert published <= {"topdown.publish.ledger_statement"}, f"{path.relative_to(ROOT)}: {published}"


def test_pgsr_builds_on_topdown_and_never_back() -> None:
    """A cycle would make one product impossible to change without the other."""
    for path in PACKAGE.rglob("*.py"):
        assert not any(name.split(".")[0] == "pgsr" for name in imports_of(path)), f"{path} imports pgsr"
    for path in (ROOT / "pgsr").rglob("*.py"):
        ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("topdown.")}
        assert ours <= PGSR_MAY_USE, f"{path.relative_to(ROOT)} imports {ours - PGSR_MAY_USE}"
        assert not any(
            isinstance(n, ast.Assert) for n in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )


PGSR_CHECKS = ("group_checks", "released_groups")
PGSR_CHECKS_MAY_USE = {*PGSR_CHECKS, "estimators", "formats", "hierarchy", "neighbours"}
FROM_ESTIMATORS = {"MEANING", "MECHANISMS", "OF_MODEL", "count_bounds", "half_width"}


def test_pgsr_checks_with_code_of_its_own() -> None:
    """A sensitivity or loss that was derived wrongly would be found right by the code that derived it."""
    for name in PGSR_CHECKS:
        taken = {i.split(".")[1] for i in imports_of(ROOT / "pgsr" / f"{name}.py") if i.startswith("pgsr.")}
        assert taken <= PGSR_CHECKS_MAY_USE, f"{name}.py imports {taken - PGSR_CHECKS_MAY_USE}"
        tree = ast.parse((ROOT / "pgsr" / f"{name}.py").read_text(encoding="utf-8"))
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == "pgsr.estimators"]
        assert {alias.name for node in nodes for alias in node.names} <= FROM_ESTIMATORS
