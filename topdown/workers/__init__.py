"""Where work runs: tasks read and return, whoever hands them out writes."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.workers.executor import (
        Cluster,
        Executor,
        ExecutorChoice,
        LocalWorker,
        Workers,
        executor_size,
        open_executor,
        workers_with,
    )
    from topdown.workers.forked import Forked
    from topdown.workers.ray import (
        connect_cluster,
        describe_machine,
        quoted_node,
        ray_environment,
        require_closed,
        require_ray,
        require_same,
    )
    from topdown.workers.tasks import (
        MOST_AGAIN,
        Pending,
        ReportLoss,
        refuse_confidential,
        run_again,
        tell_nobody,
    )

__getattr__ = lazy_face(__name__, __file__)
