"""Random tiny censuses of any shape under random constraints, made from a leaf table that meets them all."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.helpers import solved
from tests.helpers.rule_texts import exact, rule
from topdown.model import Histogram
from topdown.plan import prepare

LEVELS = ("land", "county", "block")
Cells = dict[str, list[str]]


@dataclass
class Draft:
    """What is drawn before it is written: attributes, leaf table, constraints and their public columns."""

    rng: np.random.Generator
    codes: tuple[str, ...]
    labels: list[list[str]]
    table: np.ndarray
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    text: str = ""
    bounds: list[np.ndarray] = field(default_factory=list)
    closed: list[np.ndarray] = field(default_factory=list)  # each as large as the table
    kept: list[tuple[int, str]] = field(default_factory=list)  # depth and query of what is exact
    plain: bool = False  # lower bounds on disjoint cells only, nothing exact below the root

    def pick(self) -> tuple[Cells, np.ndarray]:
        """Draw a selection of cells: labels of one or two attributes."""
        n_used = int(self.rng.integers(1, 3))
        chosen: Cells = {}
        inside = np.ones(self.table.shape[1:], dtype=bool)
        for a in sorted(self.rng.permutation(len(self.labels))[:n_used].tolist()):
            keep = self.rng.random(len(self.labels[a])) < 0.5
            keep[self.rng.integers(len(keep))] = True
            chosen[f"a{a}"] = [name for name, k in zip(self.labels[a], keep, strict=True) if k]
            axis = [1] * len(self.labels)
            axis[a] = len(keep)
            inside &= keep.reshape(axis)
        return chosen, inside

    def add(self, kind: str, cells: Cells, column: str, values: np.ndarray, *, several: bool = False) -> None:
        """Write one constraint and its column."""
        self.columns[column] = values
        picked = ", ".join(f"{a} = [{', '.join(repr(v) for v in names)}]" for a, names in cells.items())
        read = {"columns": [column]} if several else {"column": column}
        self.text += rule(kind, f"{kind} {column}", picked, **read)

    def bound(self) -> None:
        """Add a lower or upper bound, or both, unless its cells would cross those of another."""
        cells, inside = self.pick()
        for other in self.bounds:
            both = inside & other
            nested = (both == inside).all() or (both == other).all()
            if both.any() and (self.plain or not nested):
                return
        self.bounds.append(inside)
        held = self.table[:, inside].sum(axis=1)
        name, kind = f"c{len(self.columns)}", 0 if self.plain else self.rng.integers(0, 3)
        if kind != 1:
            self.add(
                "at_least", cells, name, (held * self.rng.choice([0.0, 0.5, 1.0], len(held))).astype(int)
            )
        if kind != 0:
            most = held + self.rng.integers(0, 3, len(held))
            self.add("at_most", cells, f"{name}_most", most)
            self.close(inside, most == 0)

    def zero(self) -> None:
        """Close a selection where nobody is, at all or some of these leaves."""
        cells, inside = self.pick()
        people = self.table[:, inside].sum(axis=1)
        shown = np.where(people > 0, people, self.rng.random(len(people)) < 0.3)
        self.add("none_where_zero", cells, f"c{len(self.columns)}", shown.astype(int), several=True)
        self.close(inside, shown == 0)

    def close(self, inside: np.ndarray, leaves: np.ndarray) -> None:
        """Note that nobody is in some cells of some leaves, and that everybody knows."""
        self.closed.append(inside & leaves.reshape(-1, *[1] * inside.ndim))

    def exact(self, depth: int, query: str) -> None:
        """Keep a table of one level exact."""
        level = LEVELS[depth]
        self.kept.append((depth, query))
        self.text += exact(f"{query} of {level}", level, query)

    def some_can_change(self) -> bool:
        """Tell whether some record can be another one that no rule and no exact statistic tells from it.

        Pairs are compared one by one; those that a bound counts at two leaves, or one of them only, are left out.
        """
        open_ = np.ones(self.table.shape, dtype=bool)
        for places in self.closed:
            open_ &= ~places
        alike = set()
        for place in np.argwhere(open_).tolist():
            leaf, cell = place[0], tuple(place[1:])
            seen = [(self.codes[leaf][:depth], cell[0] if query == "a0" else 0) for depth, query in self.kept]
            counted = [(leaf, n) for n, inside in enumerate(self.bounds) if inside[cell]]
            key = (tuple(seen), tuple(counted))
            if key in alike:
                return True
            alike.add(key)
        return False


def draw(seed: int, *, plain: bool = False) -> Draft:
    """Draw attributes, leaves, people and constraints."""
    rng = np.random.default_rng(seed)
    n_counties = int(rng.integers(1, 4))
    codes = [f"{c}{b}" for c in range(n_counties) for b in range(int(rng.integers(1, 5)))]
    sizes = rng.integers(2, 4, int(rng.integers(2, 4)))
    table = rng.poisson(rng.choice([0.2, 1.0, 6.0], (len(codes), *sizes)))
    table *= rng.random((len(codes), *sizes)) < rng.choice([0.3, 0.7, 1.0])
    labels = [[f"v{i}" for i in range(n)] for n in sizes]
    draft = Draft(rng, tuple(codes), labels, table, plain=plain)
    possible = np.ones(sizes, dtype=bool)
    if rng.random() < 0.3:  # a structural zero
        cells, inside = draft.pick()
        if not inside.all():
            table[:, inside], possible = 0, ~inside
            picked = ", ".join(f"{a} = [{', '.join(repr(v) for v in names)}]" for a, names in cells.items())
            draft.close(inside, np.ones(len(table), dtype=bool))
            draft.text += rule("never", "never", picked)
    table[0][tuple(np.argwhere(possible)[0])] += 1  # so that the land is not empty
    for _ in range(int(rng.integers(0, 4))):
        draft.zero()
    for _ in range(int(rng.integers(0, 4))):
        draft.bound()
    for depth in range(3):
        if rng.random() < ((0.9, 0.0, 0.0) if plain else (0.9, 0.3, 0.3))[depth]:
            draft.exact(depth, "total")
    if rng.random() < 0.15 and not plain:
        draft.exact(2, "a0")
    return draft


def make_random_census(folder: Path, seed: int, *, plain: bool = False) -> solved.Census:
    """Write a random census and return it with the people that its constraints were made from.

    Args:
        plain: only constraints that the plan accepts for any number of kinds of cells.

    Raises:
        ConfigError: constraints that are refused before anything is measured (too many kinds, crossing tables).
    """
    draft = draw(seed, plain=plain)
    rng, n = draft.rng, len(draft.labels)
    schema = "\n".join(
        f'[[attribute]]\nname = "a{a}"\nlabels = {names}\n' for a, names in enumerate(draft.labels)
    )
    (folder / "tiny.toml").write_text(
        'type = "topdown.schema"\nversion = 1\nname = "tiny"\ntitle = "Tiny"\nunit = "person"\n'
        f'source = "drawn"\n{schema}'
    )
    (folder / "own.toml").write_text(
        'type = "topdown.invariants"\nversion = 1\nname = "own"\ntitle = "Own"\nschema = "tiny"\n'
        f'source = "drawn"\n{draft.text}'
    )
    rows = [
        ",".join(map(str, (code, *values)))
        for code, *values in zip(draft.codes, *draft.columns.values(), strict=True)
    ]
    (folder / "leaves.csv").write_text(",".join(["geocode", *draft.columns]) + "\n" + "\n".join(rows) + "\n")
    text = solved.toy_run(levels="".join(_level(rng, name, n) for name in LEVELS))
    text = text.replace('schema = "toy"', 'schema = "tiny.toml"').replace(
        'invariants = "toy"', 'invariants = "own.toml"'
    )
    (folder / "run.toml").write_text(text.replace("prefix_lengths = [0, 1, 3]", "prefix_lengths = [0, 1, 2]"))
    context = prepare(folder / "run.toml").context
    flat = np.zeros((len(draft.codes), context.plan.schema.n_cells), dtype=np.int64)
    order = {code: i for i, code in enumerate(context.geography.leaves.codes)}
    for code, people in zip(draft.codes, draft.table.reshape(len(draft.codes), -1), strict=True):
        flat[order[code]] = people
    node, cell = np.nonzero(flat)
    leaves = Histogram.build(len(flat), flat.shape[1], node, cell, flat[node, cell])
    return solved.Census(context, leaves.at_every_level(context.geography))


def _level(rng: np.random.Generator, name: str, n: int) -> str:
    """Return the settings of a level: random queries, one or two passes, a chain that may cross."""
    pair = "a0 * a1" if n > 2 and rng.random() < 0.5 else "a1"
    queries = ["total", pair, "detailed"]
    passes = f'{{ queries = {queries}, table = "detailed" }}'.replace("'", '"')
    if rng.random() < 0.5:
        first = '{ queries = ["total"], table = "total" }'
        passes = f'{first}, {{ queries = ["{pair}", "detailed"], table = "detailed" }}'
    elif rng.random() < 0.3:
        passes = f'{{ queries = ["{pair}", "detailed"], table = "a0" }}, {passes}'
    chain = ["total", *(["a0"] if rng.random() < 0.5 else []), "detailed"]
    if rng.random() < 0.2:
        chain.insert(1, "a1")
    rounding = ", ".join(f'{{ table = "{t}", weight = {1 + 9 * (t == "total")} }}' for t in chain)
    return f"""
[[level]]
name = "{name}"
share = "1/3"
passes = [{passes}]
rounding = [{rounding}]

[level.queries]
"total" = "1/4"
"{pair}" = "1/4"
"detailed" = "1/2"
"""
