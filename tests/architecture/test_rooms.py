"""Who may import whom: the house's rules, read from the source."""

import ast
from pathlib import Path

import pytest

from tests.helpers.imports import imports_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "topdown"
EDGE_ONLY = {
    "pandas",
    "pulp",
    "gurobipy",
    "networkx",
    "ortools",
    "ray",
    "piqp",
    "clarabel",
    "matplotlib",
    "duckdb",
}
ADAPTERS = {
    "gurobipy": {"topdown/solve/backends/quadratic_solvers.py"},
    "piqp": {"topdown/solve/backends/quadratic_solvers.py"},
    "clarabel": {"topdown/solve/backends/quadratic_solvers.py"},
    "ortools": {"topdown/solve/backends/ortools_flow.py"},
    "networkx": {"tests/oracles/networkx_flow.py"},
    "pandas": {"topdown/app/read_release.py"},
    "ray": {"topdown/workers/ray.py"},
    "duckdb": {"topdown/inputs/duckdb_tables.py"},
}
ALLOWED = {
    "model": {"model", "caps", "names", "errors"},
    "stores": {"stores", "errors"},
    "plan": {
        "plan",
        "laws",
        "noise",
        "caps",
        "model",
        "columns",
        "frames",
        "stores",
        "names",
        "outputs",
        "errors",
        "resources",
    },
    "noise": {"noise", "decimals", "errors"},
    "accountant": {"accountant", "laws", "lazy", "decimals", "errors", "workers"},
    "documents": {"documents", "shown"},
    "api": {
        "accountant",
        "api",
        "audit_runs",
        "caps",
        "decimals",
        "documents",
        "errors",
        "extending",
        "frames",
        "held",
        "interrupt",
        "ledger",
        "made_up",
        "measure",
        "model",
        "names",
        "noise",
        "outputs",
        "pipeline",
        "plan",
        "progress",
        "publish",
        "rehearse",
        "resolving",
        "resources",
        "run_result",
        "screen",
        "selection",
        "shown",
        "simulate",
        "solve",
        "solved_again",
        "stores",
        "synth",
        "tune",
        "workers",
    },
    "ledger": {"ledger", "laws", "caps", "errors"},
    "measure": {
        "measure",
        "canonical",
        "laws",
        "caps",
        "noise",
        "ledger",
        "plan",
        "model",
        "columns",
        "frames",
        "stores",
        "names",
        "outputs",
        "errors",
        "progress",
        "interrupt",
        "selection",
    },
    "solve": {"solve", "caps", "plan", "model", "errors", "progress", "workers"},
    "publish": {
        "publish",
        "canonical",
        "laws",
        "accountant",
        "decimals",
        "documents",
        "ledger",
        "plan",
        "model",
        "names",
        "errors",
        "progress",
        "workers",
    },
    "screen": {"screen", "allocator", "decimals", "errors", "progress"},
    "synth": {"synth", "plan", "model", "made_up", "names", "errors", "resources", "shown"},
    "audit_runs": {
        "audit_runs",
        "laws",
        "documents",
        "measure",
        "noise",
        "plan",
        "model",
        "accountant",
        "decimals",
        "errors",
        "progress",
    },
    "simulate": {
        "simulate",
        "canonical",
        "documents",
        "measure",
        "solve",
        "publish",
        "noise",
        "plan",
        "model",
        "made_up",
        "errors",
        "frames",
        "progress",
        "workers",
    },
    "tune": {"tune", "plan", "solve", "names", "caps", "errors"},
    "workers": {"workers", "allocator", "interrupt", "errors"},
    "selection": {"selection", "noise", "accountant", "errors"},
}


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_only_their_neighbours(room: str) -> None:
    """One direction, files between stages: an import the other way would let a stage reach behind the files."""
    for path in (PACKAGE / room).rglob("*.py"):
        ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("topdown.")}
        assert ours <= ALLOWED[room], f"{path.relative_to(ROOT)} imports {ours - ALLOWED[room]}"


def test_solver_and_verifier_meet_in_three_places() -> None:
    """Anywhere else, the checks of `verify` could come to rest on the solver that they are to check."""
    both = set()
    for path in PACKAGE.rglob("*.py"):
        names = imports_of(path)
        solves = any(name.startswith("topdown.solve.") for name in names)
        if solves and any(name.startswith("topdown.publish.verify") for name in names):
            both.add(str(path.relative_to(PACKAGE)))
    assert both == {"pipeline.py", "extending.py", "solved_again.py"}


def test_the_api_stands_between_commands_and_stages() -> None:
    """A stage or the API that leans on a command could not be called without a screen."""
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("topdown.")}
        assert "commands" not in ours or room in {"commands", "cli.py"}, f"{path} imports commands"
        assert "api" not in ours or room in {"__init__.py", "api", "commands", "cli.py"}, (
            f"{path} imports api"
        )


STAGES = {
    "extending",
    "pipeline",
    "resolving",
    "solved_again",
    "rehearse",
    "measure",
    "solve",
    "simulate",
    "synth",
    "audit_runs",
}
WITHOUT_A_FUNCTION = {
    "init.py": "topdown.measure.run_ledger",
    "init_draft.py": ("topdown.measure.records", "topdown.measure.records"),
    "ledger.py": "topdown.measure.run_ledger",
    "demo.py": "topdown.measure.run_ledger",
    "implied.py": "topdown.solve.implied",
    "implied_area.py": "topdown.solve.implied",
}
"""Commands that no public function corresponds to, and what they take."""


def test_commands_reach_the_pipeline_through_the_api() -> None:
    """What a command does by itself, a program could not do in the same way."""
    for path in (PACKAGE / "commands").rglob("*.py"):
        taken = {name for name in imports_of(path) if name.startswith("topdown.")}
        taken = {name for name in taken if name.split(".")[1] in STAGES}
        own = WITHOUT_A_FUNCTION.get(path.name, "nothing")
        assert all(name.startswith(own) for name in taken), f"{path.name} imports {taken}"


VERIFY_MAY_USE = {
    "topdown.publish.verify",
    "topdown.errors",
    "topdown.model.constraint_rows",
    "topdown.model.query",
    "topdown.model.schema",
}
PRIVACY_MAY_USE = VERIFY_MAY_USE | {
    "topdown.privacy.accountant.composition",
    "topdown.privacy.exact_values",
    "topdown.privacy.accountant.conversions",
}


def test_the_verifier_derives_for_itself() -> None:
    """What certificates are made from must not be what they are checked with; only sums of noise are shared."""
    room = PACKAGE / "publish" / "verify"
    for path in room.rglob("*.py"):
        allowed = PRIVACY_MAY_USE if path.parent.name == "privacy" else VERIFY_MAY_USE
        for name in imports_of(path):
            parents = {name, name.rpartition(".")[0]} | {m for m in allowed if name.startswith(f"{m}.")}
            assert name == "topdown" or not name.startswith("topdown.") or parents & allowed, (
                f"{path} imports {name}"
            )


def test_heavy_libraries_stay_in_their_adapters() -> None:
    """A solver or pandas outside its adapter would be imported where nobody expects it."""
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(ROOT))
        for library in {i.split(".")[0] for i in imports_of(path)} & EDGE_ONLY:
            assert name in ADAPTERS.get(library, set()), f"{name} imports {library}"


def test_one_room_knows_of_the_cluster() -> None:
    """A stage that reaches Ray by itself could send it records; `measure` must not come near it."""
    users = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "topdown.workers.ray" in imports_of(path)
    }
    assert {"workers/workers.py", "api/call.py"} == users
    for path in (PACKAGE / "measure").rglob("*.py"):
        assert not any(name.startswith("topdown.workers") for name in imports_of(path)), path


SOLVERS = ("scipy.optimize", "scipy.sparse.csgraph", "ortools", "networkx", "highspy", "clarabel", "piqp")


def test_the_solver_calls_others_in_adapters_only() -> None:
    """What a solver says is judged where it is called; a call in passing is judged by nobody."""
    for path in (PACKAGE / "solve").rglob("*.py"):
        strange = {name for name in imports_of(path) if name.startswith(SOLVERS)}
        assert not strange or path.parent.name == "backends", f"{path} imports {strange}"


def test_processes_start_in_two_places() -> None:
    """Processes started elsewhere hang when one of them is killed, outlive the run, or draw the same noise."""
    starters = {"multiprocessing", "concurrent", "subprocess"}
    places = {PACKAGE / "workers" / "forked.py", PACKAGE / "measure" / "children.py"}
    for folder in (PACKAGE, ROOT / "pgsr"):
        for path in folder.rglob("*.py"):
            found = {name.split(".")[0] for name in imports_of(path)} & starters
            assert not found or path in places, f"{path} imports {found}"


def test_the_noise_calls_a_solver_in_one_place() -> None:
    """A law of the noise that a solver made must be checked as its answer is taken, not wherever it is used."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in (PACKAGE / "noise").rglob("*.py")
        if any(name.startswith((*SOLVERS, "scipy")) for name in imports_of(path))
    }
    assert found == {"noise/optimal/highs.py"}


OPTIMAL = "topdown.noise.optimal."
CHECKS_OF_A_LAW = {
    "verify.py": {f"{OPTIMAL}losses"},
    "law.py": {f"{OPTIMAL}ask", f"{OPTIMAL}verify", "topdown.errors"},
    "inverse.py": {f"{OPTIMAL}law", "topdown.privacy.bits"},
}


def test_laws_of_noise_are_checked_and_drawn_without_their_makers() -> None:
    """A mistake in the program that makes a law must not be a mistake in what finds it private."""
    for name, allowed in CHECKS_OF_A_LAW.items():
        ours = {i for i in imports_of(PACKAGE / "noise" / "optimal" / name) if i.startswith("topdown.")}
        assert ours == allowed, name


def test_selection_never_opens_records() -> None:
    """What chooses by itself what to read could choose records that nobody charged for."""
    for path in (PACKAGE / "selection").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not {name for name in called if name.split(".")[-1] in {"open", "read_text", "read_bytes"}}
        assert not imports_of(path) & {"pathlib", "os", "io", "csv", "pyarrow", "tomllib"}


EXACT_NOISE = (
    "ask",
    "closed_form",
    "compact",
    "elimination",
    "inverse",
    "law",
    "losses",
    "quantise",
    "truncated",
    "verify",
)


def test_exact_files_of_optimal_noise_have_no_floats() -> None:
    """A float in a weight, a bound of e^epsilon or a delta would round a promise."""
    for name in EXACT_NOISE:
        for node in ast.walk(
            ast.parse((PACKAGE / "noise" / "optimal" / f"{name}.py").read_text(encoding="utf-8"))
        ):
            literal = isinstance(node, ast.Constant) and isinstance(node.value, float)
            called = isinstance(node, ast.Call) and ast.unparse(node.func) in ("float", "math.exp", "np.exp")
            assert not literal, f"{name}: {ast.unparse(node)}"
            assert not called, f"{name}: {ast.unparse(node)}"


def test_noise_and_solver_never_meet() -> None:
    """The solver must not be able to draw noise, nor to open records."""
    for path in (PACKAGE / "solve").rglob("*.py"):
        for name in imports_of(path):
            assert not name.startswith(("topdown.measure", "topdown.noise"))


def test_seeded_noise_has_two_users() -> None:
    """A seed within reach of the measure stage could decide the noise of a release."""
    users = {
        str(path.relative_to(ROOT))
        for folder in (PACKAGE, ROOT / "pgsr")
        for path in folder.rglob("*.py")
        if "SimulationBits" in path.read_text(encoding="utf-8")
    }
    noise = {"topdown/privacy/__init__.py", "topdown/privacy/bits.py"}
    assert noise | {"topdown/practice/simulation.py", "pgsr/level_noise.py"} == users


def test_safety_does_not_rest_on_assert() -> None:
    """`python -O` drops asserts; checks of the package must be real exceptions."""
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree)), f"{path} uses assert"


def test_no_pickle_of_data() -> None:
    """Pickle runs code from files; no stage may read one."""
    for path in PACKAGE.rglob("*.py"):
        assert not imports_of(path) & {"pickle", "marshal", "shelve", "joblib", "dill"}
