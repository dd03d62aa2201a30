"""The public names of pgsr."""

import importlib
import pkgutil

import pgsr


def test_no_module_hides_a_public_name() -> None:
    """A module called like a public function takes its place once it is imported."""
    modules = {module.name for module in pkgutil.iter_modules(pgsr.__path__)}
    assert not modules & set(pgsr.__all__)
    for name in modules - {"__main__"}:
        importlib.import_module(f"pgsr.{name}")
    assert all(callable(getattr(pgsr, name)) for name in pgsr.__all__)
