"""What a Ray cluster is refused for, before anything is spent; nothing of this needs Ray itself."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.cluster import HAS_RAY
from topdown.errors import ConfigError
from topdown.workers import describe_machine, ray_environment, require_closed, require_ray, require_same


@pytest.mark.parametrize("address", ["", "local", "10.0.0.1:6379"])
def test_ray_reports_to_nobody(address: str) -> None:
    """Ray sends what it is used for to its makers unless it is told not to before it is imported."""
    assert ray_environment(address)["RAY_USAGE_STATS_ENABLED"] == "0"
    assert (ray_environment(address).get("RAY_AUTH_MODE") == "token") == (address == "10.0.0.1:6379")


@pytest.mark.parametrize(
    ("address", "mode"),
    [("", "disabled"), ("127.0.0.1:6379", "Disabled"), ("head:6379", "disabled "), ("ray://head:10001", "")],
)
def test_an_open_cluster_is_refused(address: str, mode: str) -> None:
    """Whoever reaches a port of a cluster without tokens runs code on every machine of it."""
    with pytest.raises(ConfigError) as error:
        require_closed(address, mode)
    assert error.value.code == "C231"


@pytest.mark.parametrize(("address", "mode"), [("", ""), ("head:6379", "token"), ("local", "token")])
def test_a_closed_cluster_is_taken(address: str, mode: str) -> None:
    """A check that refuses every cluster would be no check."""
    require_closed(address, mode)


@pytest.mark.skipif(HAS_RAY, reason="the extra cluster (ray) is installed")
def test_without_ray_nothing_is_spent(tmp_path: Path) -> None:
    """A missing library must be named before the charge, not after it."""
    with pytest.raises(ConfigError, match="not installed") as error:
        require_ray()
    assert error.value.code == "C230"


def test_other_machines_are_refused_by_name(tmp_path: Path) -> None:
    """A machine with another library or processor gives other bytes, and nobody would know which machine it was."""
    (tmp_path / "plan.json").write_text("{}")
    own = describe_machine(tmp_path)
    require_same(own, replace(describe_machine(tmp_path), host="other"), tmp_path)
    assert {"numpy", "scipy", "pyarrow", "BLAS", "processor", "python"} <= set(own.kind)
    for key in own.kind:
        other = replace(own, host="node7", kind=own.kind | {key: "another"})
        with pytest.raises(ConfigError, match="node7") as error:
            require_same(own, other, tmp_path)
        assert ("C233", key) == (error.value.code, error.value.details[0][0])
        assert own.kind[key] in error.value.details[0][1]
    (tmp_path / "plan.json").write_text("{ }")
    for plan in (describe_machine(tmp_path).plan, describe_machine(tmp_path / "elsewhere").plan):
        with pytest.raises(ConfigError, match="node7") as error:
            require_same(own, replace(own, host="node7", plan=plan), tmp_path)
        assert error.value.code == "C234"
    nowhere = describe_machine(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="does not see"):
        require_same(nowhere, nowhere, tmp_path)


def test_importing_the_package_imports_no_ray() -> None:
    """Ray starts threads and reads its environment when it is imported, wanted or not."""
    code = "import sys, topdown, topdown.app.pipeline, topdown.workers.ray; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
