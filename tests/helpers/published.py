"""What a release publishes of its plan and its public facts, read without the product."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tests.helpers.rule_twins import CLOSING, TWINS

Document = dict[str, Any]
Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Step:
    """One release: its plan, the public columns of its leaves, and its own microdata if another extends it."""

    plan: Document
    facts: dict[str, Array]
    table: list[Document] = field(default_factory=list)

    @property
    def attributes(self) -> list[Document]:
        """Attributes of its schema."""
        return self.plan["schema"]["attributes"]

    def groups(self, factor: str) -> tuple[int, list[int], int]:
        """Return which attribute a factor speaks of, the group of each of its labels, and how many groups there are."""
        for i, attribute in enumerate(self.attributes):
            if attribute["name"] == factor:
                return i, list(range(len(attribute["labels"]))), len(attribute["labels"])
            for recode in attribute["recodes"]:
                if recode["name"] == factor:
                    return i, recode["group_of"], len(recode["group_labels"])
        raise KeyError(factor)

    def labels(self, factor: str) -> list[str]:
        """Return the names of the groups of a factor."""
        for attribute in self.attributes:
            for each in (attribute, *attribute["recodes"]):
                if each["name"] == factor:
                    return each.get("labels") or each["group_labels"]
        raise KeyError(factor)

    def below(self, base: Step, values: Array) -> Array:
        """Return values of this schema as values of the schema of the release that is extended."""
        out = []
        for attribute, (name, factor) in zip(base.attributes, self.plan["base"]["map"], strict=True):
            assert attribute["name"] == name
            i, of, _ = self.groups(factor)
            theirs = [attribute["labels"].index(label) for label in self.labels(factor)]
            out.append(np.array(theirs)[np.array(of)[values[:, i]]])
        return np.stack(out, axis=1)

    def answers(self, query: str, values: Array) -> Array:
        """Return the number of the answer that counts each row of values."""
        names = {"total": [], "detailed": [a["name"] for a in self.attributes]}.get(query, query.split(" * "))
        out = np.zeros(len(values), dtype=np.int64)
        for name in names:
            i, of, n = self.groups(name)
            out = out * n + np.array(of)[values[:, i]]
        return out

    def inside(self, cells: list[list[Any]], values: Array) -> Array:
        """Mark the rows of values that a rule speaks of."""
        out = np.ones(len(values), dtype=bool)
        for name, labels in cells:
            i, _, _ = self.groups(name)
            out &= np.isin(values[:, i], [self.attributes[i]["labels"].index(label) for label in labels])
        return out

    def open(self, leaf: Array, values: Array) -> Array:
        """Mark the records that no zero excludes."""
        out = np.ones(len(leaf), dtype=bool)
        for kind in (kind for kind in TWINS if kind in CLOSING):
            for rule, _, most in self._ends(kind, leaf):
                out &= ~(self.inside(rule["cells"], values) & (most == 0))
        return out

    def bounds(self, leaf: Array) -> Iterator[tuple[Document, Array, Array]]:
        """Yield the rules that bound counts, with the least and the most at the leaf of each record."""
        for kind in (kind for kind in TWINS if kind not in CLOSING):
            yield from self._ends(kind, leaf)

    def _ends(self, kind: str, leaf: Array) -> Iterator[tuple[Document, Array, Array]]:
        for rule in self.plan["invariants"].get(kind, []):
            ends = TWINS[kind].ends(rule, self.facts)
            least, most = (
                np.broadcast_to(end, len(leaf)) if np.ndim(end) == 0 else end[leaf] for end in ends
            )
            yield rule, least, most


def read_step(folder: Path) -> Step:
    """Read a published release."""
    leaves = pq.read_table(folder / "public" / "leaves.parquet").to_pydict()
    table = pq.read_table(folder / "microdata" / "persons.parquet").to_pylist()
    return Step(
        json.loads((folder / "plan.json").read_text()),
        {name: np.array(v) for name, v in leaves.items() if name != "geocode"},
        table,
    )


def read_plan(plan: Path, leaves: Path) -> Step:
    """Read a plan that is not carried out yet, and the table of leaves it was made from."""
    rows = sorted(csv.DictReader(leaves.read_text().splitlines()), key=lambda row: row["geocode"])
    columns = {name: np.array([int(r[name]) for r in rows]) for name in rows[0] if name != "geocode"}
    return Step(json.loads(plan.read_text()), columns)
