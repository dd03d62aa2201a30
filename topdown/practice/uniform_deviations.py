"""Deviations of a plan's answers as functions of its shares, as if the same cells were open in every area.

The matrices of `solve.tree.gls` on one pattern T of open dense values, so that all leaves of one parent are alike and
one of them, counted as often as there are, stands for all. Reverse differentiation gives the gradient: from the root
back up to the leaves it goes the way of the sweep in the other direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from topdown.arrays import Floats, Ints
from topdown.plan import Plan, PublicContext
from topdown.solve import product_query
from topdown.solve.tree import LatticeForm, axis_factors, open_values, regular_inverse

EXACT = 1e-9  # variance, relative to the largest, from which an answer counts as exact


@dataclass(frozen=True, eq=False)
class UniformDeviations:
    """A plan on one pattern of open cells.

    Args:
        parent: per level below the root, int64 (n_nodes,), index in the level above; at the leaves one for each parent.
        count: per level, how many areas each entry stands for.
        grams: per level, (n_queries, n_components, t, t): information of each measured query for the whole budget.
        exact: per component, (n_rows, t): sums that are exact at the root.
        forms: (n_answers, n_components * t * t), variances of the answers whose deviations are wanted, linear in V.
        places: int64 (n_answers,), which table each is of.
    """

    parent: tuple[Ints, ...]
    count: tuple[Floats, ...]
    grams: tuple[Floats, ...]
    exact: tuple[Floats, ...]
    forms: Floats
    places: Ints

    def deviations(self, shares: Sequence[Floats]) -> Floats:
        """Return mean standard deviations under the tree estimate, (n_levels, n_tables), 0 for exact answers.

        Args:
            shares: per level, of the whole budget, one a query.
        """
        return _measured(self, _sweep_up(self, shares).v)[0]

    def with_gradient(
        self, shares: Sequence[Floats], weigh: Callable[[Floats], Floats]
    ) -> tuple[Floats, list[Floats]]:
        """Return the deviations, and by every share the derivative of their sum times weights.

        Args:
            shares: as in `deviations`.
            weigh: weights (n_levels, n_tables) from deviations.
        """
        swept = _sweep_up(self, shares)
        found = _measured(self, swept.v)[0]
        return found, _sweep_down(self, swept, _measured(self, swept.v, weigh(found))[1])

    def linear(self, shares: Sequence[Floats]) -> Floats | None:
        """Return deviations if each level is fitted to its own measurements and nothing must be at least 0.

        V_c = s (1 - 1/m) + V_parent / m^2 with s the inverse of a level's own information and m children.
        None where a level's own queries do not tell every cell apart.
        """
        try:
            own = [regular_inverse(a) for a in _information(self, shares)]
        except np.linalg.LinAlgError:
            return None
        v = [_root_information(self, own[0])[1][None]]
        for depth, parent in enumerate(self.parent, start=1):
            m = np.bincount(parent, weights=self.count[depth], minlength=len(v[-1]))[parent][
                :, None, None, None
            ]
            v.append(own[depth] * (1 - 1 / m) + v[-1][parent] / m**2)
        return _measured(self, v)[0]


@dataclass(frozen=True, eq=False)
class _SweptLevel:
    beyond: list[Floats]  # K of every level above the leaves
    spread: list[Floats]  # Sig of every level, one for all at the leaves
    v: list[Floats]
    gain: Floats  # of the root, I - Sig P


def uniform_deviations(context: PublicContext, form: LatticeForm, names: Sequence[str]) -> UniformDeviations:
    """Return a plan on the pattern of open dense values that most of its leaves have.

    Args:
        context: plan and public facts. form: its lattice form.
        names: queries whose deviations are wanted.
    """
    plan, lattice, rules = context.plan, form.lattice, context.rules
    leaf = open_values(lattice, rules.class_of_cell, rules.open[-1])
    patterns, counts = np.unique(leaf[leaf.any(axis=1)], axis=0, return_counts=True)
    t = np.flatnonzero(patterns[counts.argmax()])
    parent, count = _areas(context)
    grams = []
    for level in plan.levels:
        # What a query of share 1 of the whole loss tells: weights grow in proportion to the loss.
        each = [float(1 / (m.variance * (m.loss / plan.loss))) for m in level.measurements]
        of = [product_query(lattice, plan.query(m.query)).gram(lattice) for m in level.measurements]
        grams.append(np.array([w * g[:, t[:, None], t] for w, g in zip(each, of, strict=True)]))
    known = [
        product_query(lattice, plan.query(e.query)) for e in plan.invariants.exact if _is_root(plan, e.level)
    ]
    exact = []
    for c in range(lattice.n_components):
        rows = [np.arange(q.n_groups)[:, None] == q.group[t] for q in known if c & ~q.kept == 0]
        table = np.vstack([np.zeros((0, len(t))), *rows])
        exact.append(table[table.any(axis=1)])
    forms, places = [], []
    for i, name in enumerate(names):
        query = product_query(lattice, plan.query(name))
        chosen = [1 if query.kept >> a & 1 else n for a, n in enumerate(lattice.sizes)]
        groups = (np.unique(query.group[t])[:, None] == query.group[t]).astype(np.float64)
        of = np.einsum("c,gd,ge->gcde", axis_factors(lattice, chosen), groups, groups)
        forms.append(of.reshape(len(groups), -1))
        places += [i] * len(groups)
    return UniformDeviations(parent, count, tuple(grams), tuple(exact), np.vstack(forms), np.array(places))


def _is_root(plan: Plan, level: str) -> bool:
    return plan.levels[0].name == level


def _areas(context: PublicContext) -> tuple[tuple[Ints, ...], tuple[Floats, ...]]:
    """Return parents and counts of inhabited areas; leaves of one parent are one."""
    parents: list[Ints] = []
    counts = [np.ones(1)]
    place = np.zeros(1, dtype=np.int64)
    last = len(context.geography.levels) - 1
    for depth, (level, here) in enumerate(
        zip(context.geography.levels[1:], context.rules.inhabited[1:], strict=True), start=1
    ):
        above = place[level.parent[here]]
        if depth == last:
            known, many = np.unique(above, return_counts=True)
            parents.append(known.astype(np.int64))
            counts.append(many.astype(np.float64))
        else:
            parents.append(above.astype(np.int64))
            counts.append(np.ones(len(above)))
        place = np.full(len(here), -1, dtype=np.int64)
        place[here] = np.arange(int(here.sum()))
    return tuple(parents), tuple(counts)


def _information(model: UniformDeviations, shares: Sequence[Floats]) -> list[Floats]:
    return [np.einsum("q,qcde->cde", s, g)[None] for s, g in zip(shares, model.grams, strict=True)]


def _root_information(model: UniformDeviations, spread: Floats) -> tuple[Floats, Floats]:
    """Return I - Sig P and V of the root, with P = F'(F Sig F')^+ F by components."""
    gain = np.tile(np.eye(spread.shape[-1]), (len(model.exact), 1, 1))
    for c, rows in enumerate(model.exact):
        if len(rows):
            half = spread[0, c] @ rows.T
            gain[c] -= half @ np.linalg.pinv(rows @ half, hermitian=True) @ rows
    return gain, gain @ spread[0]


def _sweep_up(model: UniformDeviations, shares: Sequence[Floats]) -> _SweptLevel:
    own = _information(model, shares)
    spread, beyond = [regular_inverse(own[-1])], []
    for depth in range(len(own) - 1, 0, -1):
        parent, n = model.parent[depth - 1], len(model.count[depth - 1])
        held = model.count[depth][:, None, None, None] * spread[-1]
        sums = np.zeros((n, *held.shape[1:]))
        np.add.at(sums, parent, held)
        beyond.append(regular_inverse(sums))
        spread.append(regular_inverse(own[depth - 1] + beyond[-1]))
    spread, beyond = spread[::-1], beyond[::-1]
    gain, v = _root_information(model, spread[0])
    found = [v[None]]
    for k, sig, parent in zip(beyond, spread[1:], model.parent, strict=True):
        change = k @ found[-1] @ k - k
        found.append(sig + sig @ change[parent] @ sig)
    return _SweptLevel(beyond, spread, found, gain)


def _measured(
    model: UniformDeviations, v: Sequence[Floats], weights: Floats | None = None
) -> tuple[Floats, list[Floats]]:
    """Return mean deviations, and what they weigh by each covariance if weights are given."""
    out, back = np.zeros((len(v), model.places.max() + 1)), []
    mean = 1.0 / np.bincount(model.places)[model.places]
    for depth, (at, count) in enumerate(zip(v, model.count, strict=True)):
        found = at.reshape(len(at), -1) @ model.forms.T
        scale = np.abs(at).reshape(len(at), -1).mean(axis=0) @ np.abs(model.forms).T
        sd = np.sqrt(np.where(found > EXACT * scale, found, 0.0))
        share = count / count.sum()
        out[depth] = np.bincount(model.places, weights=mean * (share @ sd))
        if weights is not None:
            slope = share[:, None] * (weights[depth][model.places] * mean) / np.where(sd > 0, 2 * sd, np.inf)
            back.append((slope @ model.forms).reshape(at.shape))
    return out, back


def _sweep_down(model: UniformDeviations, swept: _SweptLevel, back: list[Floats]) -> list[Floats]:
    """Return derivatives by shares from those by covariances of all levels."""
    last = len(back) - 1
    of_spread = [np.zeros_like(sig) for sig in swept.spread]
    of_beyond = [np.zeros_like(k) for k in swept.beyond]
    for depth in range(last, 0, -1):
        k, sig, parent, here = (
            swept.beyond[depth - 1],
            swept.spread[depth],
            model.parent[depth - 1],
            back[depth],
        )
        above = swept.v[depth - 1]
        change = (k @ above @ k - k)[parent]
        one = here @ sig @ change
        direct = here + one + np.swapaxes(one, -1, -2)
        of_spread[depth] += direct if depth < last else direct.sum(axis=0, keepdims=True)
        moved = np.zeros_like(k)
        np.add.at(moved, parent, sig @ here @ sig)
        half = moved @ k @ above
        of_beyond[depth - 1] += half + np.swapaxes(half, -1, -2) - moved
        back[depth - 1] = back[depth - 1] + k @ moved @ k
    of_spread[0] += np.swapaxes(swept.gain, -1, -2) @ back[0] @ swept.gain
    grads = []
    for depth, sig in enumerate(swept.spread):
        if depth:
            k = swept.beyond[depth - 1]
            of_sum = -(k @ of_beyond[depth - 1] @ k)
            each = of_sum[model.parent[depth - 1]]
            if depth == last:
                each = (model.count[depth][:, None, None, None] * each).sum(axis=0, keepdims=True)
            of_spread[depth] += each
        of_own = -(sig @ of_spread[depth] @ sig)
        if depth < last:
            of_beyond[depth] += of_own
        grads.append(np.einsum("cde,qcde->q", of_own.sum(axis=0), model.grams[depth]))
    return grads
