"""Who may import whom, read from the source: a name of a package's face counts as the module that defines it."""

import ast
from pathlib import Path

import pytest

from tests.helpers.imports import imports_of, modules

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "topdown"
BELOW_ALL = {
    "errors",
    "file_names",
    "lazy",
    "arrays",
    "process",
    "progress",
    "notebook",
    "resources",
    "made_up",
    "output_paths",
}
"""Files of topdown beside its packages; what these import is tested too."""
ALLOWED = {
    "privacy": {"formats"},
    "formats": set(),
    "model": {"formats"},
    "inputs": {"formats", "model"},
    "optimal_noise": {"privacy"},
    "selection": {"formats", "privacy", "optimal_noise"},
    "workers": set(),
    "plan": {"formats", "inputs", "model", "privacy", "optimal_noise"},
    "measure": {"formats", "inputs", "model", "plan", "privacy", "selection"},
    "solve": {"formats", "model", "plan", "workers"},
    "verify": {"formats", "model", "privacy"},
    "publish": {"formats", "inputs", "model", "plan", "privacy", "verify", "workers"},
    "practice": {
        "formats", "inputs", "measure", "model", "plan", "privacy", "publish", "solve", "verify", "workers",
    },
    "app": {
        "formats", "inputs", "measure", "model", "optimal_noise", "plan", "practice", "privacy", "publish",
        "selection", "solve", "verify", "workers",
    },
}  # fmt: skip
"""What each package may import of topdown beside itself and `BELOW_ALL`."""
PRIVACY_MAY_READ = {"topdown.formats.caps", "topdown.formats.common"}
"""How files are read, and the form of what is stated of a ledger."""
EDGE_ONLY = {
    "pandas",
    "pulp",
    "gurobipy",
    "networkx",
    "ray",
    "piqp",
    "clarabel",
    "matplotlib",
    "duckdb",
}
ADAPTERS = {
    "gurobipy": {"tests/oracles/quadratic_solvers.py"},
    "piqp": {"tests/oracles/quadratic_solvers.py"},
    "clarabel": {"tests/oracles/quadratic_solvers.py"},
    "networkx": {"tests/oracles/networkx_flow.py"},
    "pandas": {"topdown/app/compare_plans.py", "topdown/app/planned.py", "topdown/app/read_release.py"},
    "ray": {"topdown/workers/ray.py"},
    "duckdb": {"topdown/inputs/database_tables.py"},
}


def of_package(*parts: str) -> list[Path]:
    """Return the files of a package of topdown."""
    return sorted((PACKAGE / Path(*parts)).rglob("*.py"))


def ours(path: Path) -> set[str]:
    """Return the modules of topdown that a file imports."""
    return {name for name in imports_of(path) if name.startswith("topdown.")}


def test_every_package_has_its_neighbours() -> None:
    """A package that the table does not have could import anything."""
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} == set(ALLOWED)


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_only_their_neighbours(room: str) -> None:
    """One direction, files between stages: an import the other way would let a stage reach behind the files."""
    for path in of_package(room):
        taken = {name.split(".")[1] for name in ours(path)}
        strange = taken - ALLOWED[room] - BELOW_ALL - {room}
        if room == "app":
            strange -= {"cli"} if path.name == "lookup_commands.py" else set()
        assert not strange, f"{path.relative_to(ROOT)} imports {strange}"


def test_privacy_imports_nothing_else_of_ours() -> None:
    """What every program rests on must not rest on one of them."""
    for path in of_package("privacy"):
        of_formats = {name for name in ours(path) if name.startswith("topdown.formats")}
        assert of_formats <= PRIVACY_MAY_READ, f"{path.relative_to(ROOT)} imports {of_formats}"


def test_files_below_all_import_none_above() -> None:
    """A file that every package may import would carry what it imports to all of them."""
    for name in BELOW_ALL:
        taken = {other.split(".")[1] for other in ours(PACKAGE / f"{name}.py")}
        assert taken <= BELOW_ALL | {"formats"}, f"{name} imports {taken}"


def test_solver_and_verifier_meet_in_few_places() -> None:
    """Anywhere else, the checks of `verify` could come to rest on the solver that they are to check."""
    both = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if {"solve", "verify"} <= {name.split(".")[1] for name in ours(path)}
    }
    assert both <= {
        "app/__init__.py",  # names both for commands, and loads neither
        "app/pipeline.py",
        "app/preflight.py",
        "app/resolve_release.py",  # checks what was measured, then solves it
        "app/verify_by_solving.py",
        "practice/simulation.py",
    }


def test_only_programs_import_the_app() -> None:
    """A stage that leans on a function of the API or a command could not be called without a screen."""
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("app/") and name not in ("cli.py", "__init__.py"):
            taken = {other for other in ours(path) if other.startswith("topdown.app")}
            assert not taken, f"{name} imports {taken}"
        if not name.startswith("app/commands/") and name not in (
            "cli.py",
            "app/__init__.py",
            "app/screens/noise_screen.py",
        ):
            assert not any(other.startswith("topdown.app.commands") for other in ours(path)), name


def test_screens_know_no_stage() -> None:
    """A screen shows documents; one that reaches a stage could show what no document holds."""
    for path in of_package("app", "screens"):
        taken = {name.split(".")[1] for name in ours(path)} & {"measure", "solve", "practice"}
        assert not taken, f"{path.name} imports {taken}"


STAGES = {"measure", "solve", "practice"}
WITHOUT_A_FUNCTION = {
    "init_command.py": "topdown.measure.run_ledger",
    "draft_dialogue.py": "topdown.measure.records",
    "ledger_command.py": "topdown.measure.run_ledger",
    "demo_command.py": "topdown.measure.run_ledger",
    "implied_command.py": "topdown.solve.implied",
    "select_command.py": "topdown.measure.choosing",
}
"""Commands that no public function corresponds to, and what they take."""


def test_commands_reach_the_stages_through_functions() -> None:
    """What a command does by itself, a program could not do in the same way."""
    for path in of_package("app", "commands"):
        taken = {name for name in ours(path) if name.split(".")[1] in STAGES}
        own = WITHOUT_A_FUNCTION.get(path.name, "nothing")
        assert all(name.startswith(own) for name in taken), f"{path.name} imports {taken}"


VERIFY_MAY_USE = {
    "topdown",
    "topdown.lazy",
    "topdown.errors",
    "topdown.arrays",
    "topdown.formats.release_documents",
    "topdown.formats.verify_documents",
    "topdown.formats.choice_documents",
    "topdown.formats.report_pages",  # words and layout; figures and roundings are verify's own
    "topdown.formats.report_parts",
}


def test_the_verifier_derives_for_itself() -> None:
    """What releases are made from must not be what they are checked with; forms of documents alone are shared."""
    for path in of_package("verify"):
        taken = {name for name in ours(path) if not name.startswith("topdown.verify")}
        assert taken <= VERIFY_MAY_USE, f"{path} imports {taken - VERIFY_MAY_USE}"


def test_heavy_libraries_stay_in_their_adapters() -> None:
    """A solver or pandas outside its adapter would be imported where nobody expects it."""
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(ROOT))
        for library in {i.split(".")[0] for i in imports_of(path)} & EDGE_ONLY:
            assert name in ADAPTERS.get(library, set()), f"{name} imports {library}"


def test_one_room_knows_of_the_cluster() -> None:
    """A stage that reaches Ray by itself could send it records; `measure` must not come near it."""
    users = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if _uses_ray(path)}
    assert users <= {"workers/__init__.py", "workers/executor.py", "app/calls.py"}
    for path in of_package("measure"):
        assert not any(name.startswith("topdown.workers") for name in imports_of(path)), path


def _uses_ray(path: Path) -> bool:
    return any(name.startswith("topdown.workers.ray") for name in imports_of(path))


SOLVERS = ("scipy.optimize", "scipy.sparse.csgraph", "networkx", "highspy", "clarabel", "piqp")


def test_the_solver_calls_others_in_adapters_only() -> None:
    """What a solver says is judged where it is called; a call in passing is judged by nobody."""
    for path in of_package("solve"):
        strange = {name for name in imports_of(path) if name.startswith(SOLVERS)}
        assert not strange or path.name == "scipy_programs.py", f"{path} imports {strange}"


def test_processes_start_in_two_places() -> None:
    """Processes started elsewhere hang when one of them is killed, outlive the run, or draw the same noise."""
    starters = {"multiprocessing", "concurrent", "subprocess"}
    places = {PACKAGE / "workers" / "forked.py", PACKAGE / "measure" / "children.py"}
    for path in modules().values():
        found = {name.split(".")[0] for name in imports_of(path)} & starters
        assert not found or path in places, f"{path} imports {found}"


def test_the_noise_calls_a_solver_in_one_place() -> None:
    """A law of the noise that a solver made must be checked as its answer is taken, not wherever it is used."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in (*of_package("privacy"), *of_package("optimal_noise"))
        if any(name.startswith((*SOLVERS, "scipy")) for name in imports_of(path))
    }
    assert found == {"optimal_noise/linear_programs.py"}


OPTIMAL = "topdown.optimal_noise."
BESIDE_A_LAW = {f"{OPTIMAL}noise_request", "topdown.errors", "topdown.privacy.bits"}


def test_laws_of_noise_are_checked_and_drawn_without_their_makers() -> None:
    """A mistake in the program that makes a law must not be a mistake in what finds it private."""
    assert ours(PACKAGE / "optimal_noise" / "certified_law.py") <= BESIDE_A_LAW


EXACT_NOISE = ("certified_law", "exact_laws", "noise_request")


@pytest.mark.parametrize("name", EXACT_NOISE)
def test_exact_files_of_optimal_noise_have_no_floats(name: str) -> None:
    """A float in a weight, a bound of e^epsilon or a delta would round a promise."""
    text = (PACKAGE / "optimal_noise" / f"{name}.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        literal = isinstance(node, ast.Constant) and isinstance(node.value, float)
        called = isinstance(node, ast.Call) and ast.unparse(node.func) in ("float", "math.exp", "np.exp")
        assert not literal, f"{name}: {ast.unparse(node)}"
        assert not called, f"{name}: {ast.unparse(node)}"


def test_selection_never_opens_records() -> None:
    """What chooses by itself what to read could choose records that nobody charged for."""
    for path in of_package("selection"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not {name for name in called if name.split(".")[-1] in {"open", "read_text", "read_bytes"}}
        assert not imports_of(path) & {"pathlib", "os", "io", "csv", "pyarrow", "tomllib"}


def test_noise_and_solver_never_meet() -> None:
    """The solver must not be able to draw noise, nor to open records."""
    for path in of_package("solve"):
        taken = {name for name in ours(path) if name.startswith(("topdown.measure", "topdown.privacy"))}
        assert not taken, f"{path} imports {taken}"


def test_seeded_noise_has_three_users() -> None:
    """A seed within reach of the measure stage could decide the noise of a release."""
    users = {
        path.relative_to(ROOT).as_posix()
        for path in modules().values()
        if "SimulationBits" in path.read_text(encoding="utf-8")
    }
    noise = {"topdown/privacy/__init__.py", "topdown/privacy/bits.py"}
    studies = {"topdown/practice/simulation.py", "pgsr/level_noise.py", "topdown/app/noise_law.py"}
    assert noise | studies == users


def test_safety_does_not_rest_on_assert() -> None:
    """`python -O` drops asserts; checks of the packages must be real exceptions."""
    for path in modules().values():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree)), f"{path} uses assert"


def test_no_pickle_of_data() -> None:
    """Pickle runs code from files; no stage may read one."""
    for path in modules().values():
        assert not imports_of(path) & {"pickle", "marshal", "shelve", "joblib", "dill"}
