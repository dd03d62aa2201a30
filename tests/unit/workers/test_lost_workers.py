"""What is said of a lost worker: its machine where it is known, and never a guess."""

import pytest

from topdown.errors import InternalError
from topdown.workers import MOST_AGAIN, Pending, quoted_node, run_again

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
