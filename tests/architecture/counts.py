"""Numbers of the code that may only fall, and what each of them counts: python -m tests.architecture."""

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.helpers.imports import PACKAGES, ROOT, imported, imports_of, modules, tree_of

EXTRAS = {
    "clarabel",
    "dp_accounting",
    "duckdb",
    "gurobipy",
    "matplotlib",
    "networkx",
    "piqp",
    "ray",
    "IPython",
}
OPEN = {"topdown", "topdown.cli", "topdown.errors", "pgsr", "pgsr.cli"}
"""Modules that anybody may import, beside packages."""
BESIDE_NAMES = {"typing", "topdown.lazy", "__future__"}
"""Modules that the `__init__` of a package imports from, not to show it."""
SMALL, LARGE = 80, 650
Function = ast.FunctionDef | ast.AsyncFunctionDef


def room_of(module: str) -> str:
    """Return the package that a module is of: the first folder of topdown, or pgsr."""
    parts = module.split(".")
    return parts[0] if parts[0] == "pgsr" else ".".join(parts[:2])


def n_lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def files() -> list[str]:
    """Files of the packages."""
    return list(modules())


def lines() -> list[str]:
    """Lines of the packages."""
    return ["line"] * sum(n_lines(path) for path in modules().values())


def test_lines() -> list[str]:
    """Lines of the tests."""
    return ["line"] * sum(n_lines(path) for path in (ROOT / "tests").rglob("*.py"))


def internal_paths() -> list[str]:
    """Modules inside packages that tests import by their own path: each is a place where a redesign breaks tests.

    A file of topdown that is in no package has no inside.
    """
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                submodules = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= (submodules & set(modules())) or {node.module}
    beside = {name for name in found if name.startswith("topdown.") and name.count(".") == 1}
    return sorted(name for name in found - OPEN - beside if name in modules() and not is_package(name))


def is_package(module: str) -> bool:
    """Tell whether a module is the `__init__` of a package."""
    return modules()[module].name == "__init__.py"


def names_in_a_room() -> list[str]:
    """Names of functions that are defined more than once in one package."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module, path in modules().items():
        for node in tree_of(path).body:
            if isinstance(node, Function) and not node.name.startswith("__"):
                places[room_of(module), node.name].append(module)
    return [f"{name} in {room}: {', '.join(at)}" for (room, name), at in places.items() if len(at) > 1]


def class_names() -> list[str]:
    """Names of classes that are defined more than once in topdown or in pgsr, documents and verifier apart."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module, path in modules().items():
        if room_of(module) not in ("topdown.verify", "topdown.formats", "pgsr.documents"):
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.ClassDef):
                    places[module.split(".")[0], node.name].append(module)
    return [f"{name}: {', '.join(at)}" for (_, name), at in places.items() if len(at) > 1]


def file_names() -> list[str]:
    """Files that share their name with another, other than the two programs."""
    names = Counter(path.name for path in modules().values() if path.name not in ("__init__.py", "cli.py"))
    return [module for module, path in modules().items() if names[path.name] > 1]


def deferred() -> list[str]:
    """List imports in functions, other than of optional libraries: order of loading that nobody sees."""
    found = {
        f"{module}:{one.line}": one.module
        for module, path in modules().items()
        for one in imported(path)
        if one.deferred and one.module.split(".")[0] not in EXTRAS
    }
    return [f"{place} {name}" for place, name in found.items()]


def circles() -> list[str]:
    """Modules in circles of imports, those in functions and those for the type checker counted."""
    graph = {
        module: {name for name in imports_of(path) if name in modules() and name != module}
        for module, path in modules().items()
        if path.name != "__init__.py"
    }
    return sorted(name for group in components(graph) if len(group) > 1 for name in group)


def components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that reach each other (Tarjan 1972, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    out = []
    for start in graph:
        work = [(start, iter(sorted(graph[start] & set(graph))))] if start not in index else []
        if work:
            index[start] = low[start] = len(index)
            stack.append(start)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(graph[other] & set(graph)))))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    out.append(stack[at:])
                    del stack[at:]
    return out


def writes_into_values() -> list[str]:
    """List writes into values behind their back: `vars(x)[...] = `, `object.__setattr__`, `__dict__`."""
    out = []
    for module, path in modules().items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
                targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
                written = any(isinstance(t, ast.Subscript) and _is_inside(t.value) for t in targets)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                changes = node.func.attr in ("pop", "update", "setdefault", "clear")
                written = ast.unparse(node.func) == "object.__setattr__" or (
                    changes and _is_inside(node.func.value)
                )
            else:
                continue
            if written:
                out.append(f"{module}:{node.lineno}")
    return out


def _is_inside(node: ast.expr) -> bool:
    """Tell whether an expression is `vars(value)` or `value.__dict__`; names of modules may be set."""
    text = ast.unparse(node)
    return (text.startswith("vars(") and "sys.modules" not in text) or text.endswith(".__dict__")


def passing_on() -> list[str]:
    """Functions that do no more than call another with the same arguments."""
    return [
        f"{module}: {node.name}"
        for module, path in modules().items()
        for node in ast.walk(tree_of(path))
        if isinstance(node, Function) and only_passes_on(node)
    ]


def only_passes_on(function: Function) -> bool:
    """Tell whether a function, or method, has one statement: a call with its own parameters in their order."""
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    own = [name for name in names if name not in ("self", "cls")]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr) or function.decorator_list:
        return False
    call = body[0].value
    if not isinstance(call, ast.Call) or not own or given.vararg or given.kwarg:
        return False
    passed = [ast.unparse(a) for a in call.args] + [ast.unparse(k.value) for k in call.keywords]
    return passed == own and not isinstance(call.func, ast.Call)


def small_files() -> list[str]:
    """Files under 80 lines that one other file imports."""
    importers: Counter[str] = Counter()
    for module, path in modules().items():
        if path.name != "__init__.py":
            importers.update(imports_of(path) - {module})
    return [
        module
        for module, path in modules().items()
        if path.name != "__init__.py" and n_lines(path) < SMALL and importers[module] == 1
    ]


def large_files() -> list[str]:
    """Files over 650 lines."""
    return [f"{module}: {n_lines(path)}" for module, path in modules().items() if n_lines(path) > LARGE]


def wide_faces() -> list[str]:
    """List packages whose `__init__` has more than 12 public names."""
    return [
        f"{module}: {n_names}"
        for module, path in modules().items()
        if is_package(module) and module not in PACKAGES and (n_names := len(public_names(path))) > 12
    ]


def public_names(face: Path) -> set[str]:
    """Return the names that a package shows: those it lists in `__all__`, or all that it imports and defines."""
    tree = tree_of(face)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = {a.asname or a.name for node in imports if node.module not in BESIDE_NAMES for a in node.names}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == "__all__" and node.value is not None:
                return set(ast.literal_eval(node.value))
            own.add(ast.unparse(target))
    return {name for name in own if not name.startswith("_")}


COUNTS: dict[str, Callable[[], list[str]]] = {
    count.__name__: count
    for count in (
        files,
        lines,
        test_lines,
        internal_paths,
        names_in_a_room,
        class_names,
        file_names,
        deferred,
        circles,
        writes_into_values,
        passing_on,
        small_files,
        large_files,
        wide_faces,
    )
}


def counted() -> dict[str, int]:
    """Return every number."""
    return {name: len(count()) for name, count in COUNTS.items()}


def shown(names: Iterable[str]) -> str:
    """Return places, one a line."""
    return "".join(f"  {name}\n" for name in names)
