"""What a Ray cluster is refused for before anything is spent, and what is said of a lost worker."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.cluster import HAS_RAY
from tests.helpers.failing import fails_with
from tests.helpers.processes import run_python
from topdown.errors import ConfigError, InternalError
from topdown.workers import (
    MOST_AGAIN,
    Pending,
    describe_machine,
    quoted_node,
    ray_environment,
    require_closed,
    require_ray,
    require_same,
    run_again,
)


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
    with fails_with("C231", ConfigError):
        require_closed(address, mode)


@pytest.mark.parametrize(("address", "mode"), [("", ""), ("head:6379", "token"), ("local", "token")])
def test_a_closed_cluster_is_taken(address: str, mode: str) -> None:
    """A check that refuses every cluster would be no check."""
    require_closed(address, mode)


@pytest.mark.skipif(HAS_RAY, reason="the extra cluster (ray) is installed")
def test_without_ray_nothing_is_spent(tmp_path: Path) -> None:
    """A missing library must be named before the charge, not after it."""
    with fails_with("C230", ConfigError, match="not installed"):
        require_ray()


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
        with fails_with("C234", ConfigError, match="node7"):
            require_same(own, replace(own, host="node7", plan=plan), tmp_path)
    nowhere = describe_machine(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="does not see"):
        require_same(nowhere, nowhere, tmp_path)


def test_importing_the_package_imports_no_ray() -> None:
    """Ray starts threads and reads its environment when it is imported, wanted or not."""
    code = "import sys, topdown, topdown.app.pipeline, topdown.workers.ray; print('ray' in sys.modules)"
    assert run_python("-c", code).stdout == "False\n"


DIED = (  # as Ray 2.60 says it
    "Task failed because the node it was running on is dead or unavailable. Node IP: 192.0.2.2, node ID: 7ff2219490f7. "
    "To see node death information, use `ray list nodes --filter node_id=7ff2219490f7`"
)
KILLED = "The worker died unexpectedly while executing this task. Check python-core-worker-*.log files."
MACHINES = [
    ([], ""),
    (["node7"], " on node7"),
    (["node7", "node7"], " on node7"),
    (["node9", "node7"], " on node7, node9"),
    (["node7", ""], ""),
    ([""], ""),
    (
        [f"node{n:02d}" for n in range(14)],
        " on " + ", ".join(f"node{n:02d}" for n in range(12)) + ", and 2 more",
    ),
]


@pytest.mark.parametrize(("machines", "where"), MACHINES)
def test_a_machine_is_named_where_all_are_known(machines: list[str], where: str) -> None:
    """Half of the machines, or a guess, would send somebody to the wrong one."""
    said: list[str] = []
    tasks = [Pending(n, None) for n in range(max(len(machines), 1))]
    run_again(tasks, None, said.append, machines)
    assert said == [f"lost a worker{where}; its work is done again (1 of 3)"]
    assert [task.losses for task in tasks] == [1] * len(tasks)


def test_work_that_is_lost_too_often_is_named() -> None:
    """The name of a machine must not take the place of the work that is lost on every one."""
    task = Pending("area 2", None, MOST_AGAIN)
    with pytest.raises(InternalError) as error:
        run_again([task], str, lambda _: None, ["node7"])
    assert error.value.details == (("one of", "area 2"),)


@pytest.mark.parametrize(
    ("text", "node"),
    [(DIED, "7ff2219490f7"), (KILLED, ""), (DIED + " node ID: 1e5f12f3ec6c", ""), ("", "")],
)
def test_a_node_is_taken_from_an_error_that_quotes_one(text: str, node: str) -> None:
    """An error that quotes two nodes, or none, does not say where the work was."""
    assert quoted_node(text, ["1e5f12f3ec6c", "7ff2219490f7", ""]) == node
