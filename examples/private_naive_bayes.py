"""Naive Bayes from noisy counts and sums, on made-up patients: what the kind of noise changes.

Run: `python -m examples.private_naive_bayes`. Released are class counts, counts of values by class, and per class
and numeric feature the sums of x and x^2, x in [0, 1] from public bounds; replacing one record changes each by at
most 1. (Means would need sensitivities that divide by a confidential class count, which would give it away.) The
table compares kinds of noise at the same budget for each release; what all releases promise together stands below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from examples.learning_noise import KINDS, Spent, draw, loss_table

N_RECORDS, N_CLASSES, N_VALUES, N_CATEGORICAL, N_NUMERIC = 86, 2, 3, 7, 1
LEAST_COUNT, LEAST_VARIANCE = 1e-6, 1e-3
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Patients:
    """Made-up records: a class each, values 0 .. 2 of categorical features, numeric features in [0, 1]."""

    classes: NDArray[np.int64]
    values: NDArray[np.int64]
    numbers: Floats


@dataclass(frozen=True)
class Model:
    """Counts of classes, counts by (class, feature, value), and sums of x and x^2 by (power, class, feature)."""

    classes: Floats
    values: Floats
    sums: Floats


def made_up(seed: int) -> Patients:
    """Make records whose features lean to their class."""
    generator = np.random.default_rng(seed)
    classes = (generator.random(N_RECORDS) < 0.35).astype(np.int64)
    leaning = generator.dirichlet(np.ones(N_VALUES), (N_CLASSES, N_CATEGORICAL))
    uniform = generator.random((N_RECORDS, N_CATEGORICAL, 1))
    values = (uniform > leaning.cumsum(axis=2)[classes]).sum(axis=2).clip(0, N_VALUES - 1)
    numbers = generator.normal(0.4 + 0.25 * classes[:, None], 0.15, (N_RECORDS, N_NUMERIC)).clip(0, 1)
    return Patients(classes, values, numbers)


def count(patients: Patients) -> Model:
    """Count and add up, without noise."""
    by_class = np.eye(N_CLASSES)[patients.classes]
    by_value = np.eye(N_VALUES)[patients.values]
    powers = np.stack([patients.numbers, patients.numbers**2])
    return Model(
        by_class.sum(axis=0),
        np.einsum("nc,nfv->cfv", by_class, by_value),
        np.einsum("nc,pnf->pcf", by_class, powers),
    )


def released(model: Model, kind: str, generator: np.random.Generator) -> Model:
    """Add fresh noise to every count and sum."""
    return Model(
        *(part + draw(kind, part.shape, generator) for part in (model.classes, model.values, model.sums))
    )


def error(model: Model, patients: Patients) -> float:
    """Return the share of records that the model puts in the wrong class."""
    sizes = np.maximum(model.classes, LEAST_COUNT)
    shares = np.maximum(model.values, LEAST_COUNT) / sizes[:, None, None]
    mean = (model.sums[0] / sizes[:, None]).clip(0, 1)
    variance = np.maximum(model.sums[1] / sizes[:, None] - mean**2, LEAST_VARIANCE)
    score = np.log(sizes) + sum(np.log(shares[:, f, patients.values[:, f]].T) for f in range(N_CATEGORICAL))
    away = (patients.numbers[:, None, :] - mean) ** 2
    score = score - (away / variance + np.log(variance)).sum(axis=2) / 2
    return float((score.argmax(axis=1) != patients.classes).mean())


def spent() -> Spent:
    """Count the releases; a record that is replaced moves two classes, two values a feature, two classes' sums."""
    n_releases = N_CLASSES * (1 + N_CATEGORICAL * N_VALUES + 2 * N_NUMERIC)
    return Spent(n_releases, 2 * (1 + N_CATEGORICAL + 2 * N_NUMERIC))


def main(n_draws: int = 200, seed: int = 1) -> list[str]:
    """Return the lines of the comparison.

    Args:
        n_draws: noisy models of each kind.
        seed: of records and noise.

    """
    patients = made_up(seed)
    model = count(patients)
    lines = [*loss_table(), "", f"without noise: {100 * error(model, patients):.2f} % in the wrong class"]
    for kind in KINDS:
        generator = np.random.default_rng(seed)
        errors = [error(released(model, kind, generator), patients) for _ in range(n_draws)]
        spread = np.std(errors, ddof=1) / np.sqrt(n_draws)
        lines.append(f"{kind:>4}: {100 * np.mean(errors):.2f} % +- {100 * spread:.2f}")
    return [*lines, "", *spent().lines()]


if __name__ == "__main__":
    print("\n".join(main()))
