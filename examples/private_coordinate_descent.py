"""Logistic regression by noisy coordinate steps, on made-up records: what the kind of noise changes.

Run: `python -m examples.private_coordinate_descent`. Each step takes the sum over records of one partial derivative;
features are at most 1 in size, so replacing one record changes the sum by at most 2. The table compares kinds of
noise at the same budget for each step; what all steps promise together stands below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from examples.learning_noise import KINDS, Spent, draw, loss_table

N_RECORDS, N_FEATURES, N_ROUNDS = 86, 14, 100
PENALTY, SENSITIVITY = 1e-8, 2.0
Floats = NDArray[np.float64]


def made_up(seed: int) -> tuple[Floats, Floats]:
    """Make features, at most 1 in size with a constant one, and labels of -1 and 1."""
    generator = np.random.default_rng(seed)
    features = generator.uniform(-1, 1, (N_RECORDS, N_FEATURES))
    features[:, 0] = 1.0
    truth = generator.normal(0, 2, N_FEATURES)
    chance = 1 / (1 + np.exp(-features @ truth))
    return features, np.where(generator.random(N_RECORDS) < chance, 1.0, -1.0)


def per_round() -> int:
    """Return the coordinates that one round goes through."""
    return -(-N_FEATURES // 4)


def descend(features: Floats, labels: Floats, kind: str | None, seed: int) -> Floats:
    """Return the last iterate of proximal coordinate descent, with noise in every step or with none.

    Each round steps along some random coordinates, one after the other from the newest point, and goes on from the
    mean of the points it met.

    Args:
        features: (records, features), at most 1 in size.
        labels: -1 or 1.
        kind: of noise; None for none.
        seed: of start, coordinates and noise.

    """
    generator, noise = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    point = generator.uniform(-1, 1, N_FEATURES)
    for _ in range(N_ROUNDS):
        met = []
        for k in generator.permutation(N_FEATURES)[: per_round()]:
            margin = labels * (features @ point)
            total = -(labels * features[:, k] / (1 + np.exp(margin))).sum()
            if kind is not None:
                total += SENSITIVITY * draw(kind, (1,), noise)[0]
            moved = point[k] - total / N_RECORDS
            point = point.copy()
            point[k] = np.sign(moved) * max(abs(moved) - PENALTY, 0.0)
            met.append(point)
        point = np.mean(met, axis=0)
    return point


def error(point: Floats, features: Floats, labels: Floats) -> float:
    """Return the share of records on the wrong side."""
    return float((np.where(features @ point > 0, 1.0, -1.0) != labels).mean())


def spent() -> Spent:
    """Count the steps: every record is in every sum."""
    return Spent(N_ROUNDS * per_round(), N_ROUNDS * per_round())


def main(n_runs: int = 10, seed: int = 1) -> list[str]:
    """Return the lines of the comparison.

    Args:
        n_runs: descents with each kind.
        seed: of records, starts and noise.

    """
    features, labels = made_up(seed)
    lines = [*loss_table(), ""]
    for kind in (None, *KINDS):
        errors = [
            error(descend(features, labels, kind, seed + run), features, labels) for run in range(n_runs)
        ]
        lines.append(f"{kind or 'none':>4}: {100 * np.mean(errors):.2f} % on the wrong side")
    return [*lines, "", *spent().lines()]


if __name__ == "__main__":
    print("\n".join(main()))
