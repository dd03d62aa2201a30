"""Hard least-squares problems: weights far apart, huge noise, corners without room, one cell or one child."""

from dataclasses import replace

import numpy as np

from topdown.solve import Bounds, FixedTable, LowerBounds, SubsetLimits, gram, group_sums
from topdown.solve.least_squares import Dense, Problem, SoftRules
from topdown.solve.rounding import RoundingProblem


def limits_around(rng: np.random.Generator, held: np.ndarray, *, slack: bool) -> np.ndarray:
    """Return limits on sets of groups that `held` meets, tight in places: sums of two made-up leaves' limits."""
    k, m = held.shape
    sets = np.arange(1 << k)
    inside = (sets[:, None] >> np.arange(k)) & 1
    one = np.floor(held * rng.random(held.shape))
    out = np.zeros((m, 2 << k if slack else 1 << k))
    for part in (one, held - one):
        for j in range(m):
            low = np.floor(part[:, j] * rng.random(k))
            high = part[:, j] + rng.integers(0, 3, k)
            least, most, total = inside @ low, inside @ high, part[:, j].sum()
            others = sets[::-1]
            out[j, : 1 << k] += most if slack else np.minimum(most, total - least[others])
            if slack:
                out[j, 1 << k :] -= least[others]
    return out


def bounds_of(of: np.ndarray, lower: np.ndarray, limits: np.ndarray | None) -> Bounds:
    """Return lower bounds, or limits if there are some."""
    of = np.ascontiguousarray(of.astype(np.int64))
    return LowerBounds(of, lower) if limits is None else SubsetLimits(of, len(lower), limits)


def hard_problem(seed: int) -> tuple[Problem, np.ndarray]:
    """Draw a problem and a table that meets its constraints."""
    rng = np.random.default_rng(seed)
    root = rng.random() < 0.25
    n, m = int(rng.integers(1, 15)), 1 if root else int(rng.integers(1, 7))
    size = rng.choice([0.05, 0.3, 3, 40, 1000], size=(n, 1)) if rng.random() < 0.9 else np.zeros((n, 1))
    truth = rng.poisson(size, size=(n, m)).astype(float)
    allowed = (rng.random((n, m)) < rng.choice([0.0, 0.3, 0.9, 1.0])) | (truth > 0)
    labels, weights, g = _answers(rng, truth, singular=rng.random() < 0.25)
    group = np.unique(rng.integers(0, 2, n), return_inverse=True)[1].reshape(-1)
    n_groups, order = int(group.max()) + 1, np.arange(n)
    if not root:
        pointers, sums = np.arange(0, n * m + 1, m), truth.sum(axis=1)
    elif rng.random() < 0.2:
        pointers, sums = np.array([0, n]), np.array([-1.0 if rng.random() < 0.5 else truth.sum()])
    else:
        order = np.argsort(group, kind="stable")
        pointers = np.searchsorted(group[order], np.arange(n_groups + 1))
        sums = np.array([truth[group == i].sum() for i in range(n_groups)])
    bound_of, lower, table = np.full(n, -1), np.zeros((0, m)), None
    kind = rng.choice(["none", "bounds", "limits", "slack"])
    if kind == "bounds":
        n_bounds = int(rng.integers(1, 4))
        bound_of = rng.integers(-1, n_bounds, n)
        lower = np.floor(group_sums(truth, bound_of, n_bounds) * rng.choice([0, 0.5, 1.0], (n_bounds, m)))
    elif kind != "none":
        n_bounds = int(rng.integers(1, 5))
        bound_of = rng.integers(0, n_bounds, n)
        table = limits_around(rng, group_sums(truth, bound_of, n_bounds), slack=kind == "slack")
        lower = np.zeros((n_bounds, m))
    fixed = not root and rng.random() < 0.4
    if fixed and rng.random() < 0.3:
        group, n_groups = np.zeros(n, dtype=np.int64), 1
    problem = Problem(
        quadratic=Dense(
            gram(np.ascontiguousarray(labels[:, order]), weights),
            np.ascontiguousarray(g[order]),
            curvature=0.0 if len(labels) < 4 else float(weights[3]),
            scale=float(weights.min()),
        ),
        pointers=pointers.astype(np.int64),
        sums=sums.astype(np.float64),
        allowed=np.ascontiguousarray(allowed[order]),
        fixed=FixedTable(group, group_sums(truth, group, n_groups))
        if fixed
        else FixedTable.none(n, m).floats(),
        bounds=bounds_of(bound_of[order], lower, table),
        compared=SoftRules.none(n, m),
    )
    return problem, truth[order]


def _answers(
    rng: np.random.Generator, truth: np.ndarray, *, singular: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels and weights of random queries, up to 10^4 apart, and the linear term of their noisy answers."""
    n = len(truth)
    tables = [np.zeros(n, dtype=np.int64), rng.integers(0, 3, n), rng.integers(0, 2, n), np.arange(n)]
    labels = np.stack(tables[: 3 if singular else 4])
    weights = 10.0 ** rng.uniform(0, rng.choice([0.5, 2, 4]), len(labels)) * 10.0 ** rng.uniform(-6, -1)
    noise = rng.choice([0, 1, 30, 300])
    g = np.zeros(truth.shape)
    for label, weight in zip(labels, weights, strict=True):
        answers = group_sums(truth, label, int(label.max()) + 1)
        g += weight * np.rint(answers + rng.normal(size=answers.shape) * noise / np.sqrt(weight))[label]
    return labels, weights, np.zeros_like(g) if rng.random() < 0.1 else g


def rounding_of_stage(
    estimate: np.ndarray,
    before: FixedTable,
    sums: np.ndarray | None,
    chain: tuple[np.ndarray, ...] = (),
    weights: tuple[int, ...] = (1,),
) -> RoundingProblem:
    """Return what a stage of an extension rounds: no soft rules, records anywhere."""
    n, m = estimate.shape
    tables = [np.zeros(n, dtype=np.int64), before.of, *chain, np.arange(n)]
    return RoundingProblem(
        estimate=estimate,
        allowed=np.ones((n, m), dtype=bool),
        sums=np.full(n, -1) if sums is None else sums,
        chain=np.stack(tables),
        weights=(0, 0, *weights),
        totals=FixedTable.total(n, before.answers.sum(axis=0)),
        exact=before,
        exact_place=1,
        bounds=LowerBounds.none(n, m),
        bound_places=(),
        arcs=(),
        comparisons=np.zeros((0, n), dtype=np.int64),
        most=np.zeros((0, m), dtype=np.int64),
    )


def noisy_split(
    rng: np.random.Generator, truth: np.ndarray, labels: np.ndarray, weights: np.ndarray, **known: object
) -> Problem:
    """Return a split of true counts (rows, children), asked for groups of rows with noise, and of what is known."""
    (n, m), g = truth.shape, np.zeros(truth.shape)
    for label, weight in zip(labels, weights, strict=True):
        answers = group_sums(truth, label, int(label.max()) + 1)
        g += weight * (answers + rng.normal(size=answers.shape) / np.sqrt(weight))[label]
    return Problem(
        quadratic=Dense(gram(labels, weights), g, curvature=float(weights[-1]), scale=float(weights.min())),
        pointers=np.arange(0, n * m + 1, m),
        sums=truth.sum(axis=1),
        allowed=np.ones((n, m), dtype=bool),
        **{"fixed": FixedTable.none(n, m).floats(), "compared": SoftRules.none(n, m)} | known,
    )


def wide_problem(seed: int, n: int, m: int, people: float) -> Problem:
    """Draw a split over very many children: n rows, m children of about `people` each, with tight lower bounds."""
    rng = np.random.default_rng(seed)
    share = np.array([1.0, 1.0, 0.001, 0.001, *[0.01] * (n - 4)])
    truth = rng.poisson(people * share[:, None], size=(n, m)).astype(float)
    labels = np.stack([np.zeros(n, dtype=np.int64), np.arange(n) % 2, np.arange(n)])
    bound_of = np.where(np.arange(n) < 2, -1, np.arange(n) % 2)
    bounds = LowerBounds(bound_of, group_sums(truth, bound_of, 2))
    return noisy_split(rng, truth, labels, np.array([0.7, 0.2, 0.04]), bounds=bounds)


def skewed_problem(seed: int, n: int = 48, m: int = 14) -> Problem:
    """Draw a split over children of very unequal sizes and mixtures, with fixed totals, some next to none, and bounds.

    First-order steps crawl on many of them: by thousands of steps.
    """
    rng = np.random.default_rng(seed)
    size = np.exp(1.5 * rng.normal(size=m)) * np.exp(1.2 * rng.normal(size=(n, m)))
    rate = 100.0 * 10.0 ** rng.uniform(-3, 1.5, (n, 1)) * size
    rate[n // 6 :, rng.random(m) < 0.15] = 0.0
    truth = rng.poisson(rate).astype(float)
    truth = truth[truth.sum(axis=1) > 0]
    n, cell = len(truth), np.arange(len(truth))
    labels = np.stack([cell % 2, cell % 12, cell // 2, cell])
    bound_of, none = np.where(cell < n // 6, cell % 2, -1), np.zeros((2, m))
    split = noisy_split(
        rng, truth, labels, np.array([0.01, 0.5, 0.02, 0.06]), bounds=LowerBounds(bound_of, none)
    )
    totals = np.maximum(truth.sum(axis=0) + rng.normal(size=m), 0.1)
    lower = np.minimum(group_sums(truth, bound_of, 2), rng.integers(0, 3, (2, m)))
    totals = np.maximum(totals, lower.sum(axis=0) + 0.01)
    totals[totals.argmax()] += truth.sum() - totals.sum()
    return replace(split, fixed=FixedTable.total(n, totals), bounds=LowerBounds(bound_of, lower))
