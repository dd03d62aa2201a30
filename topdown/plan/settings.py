"""Settings: who measures what with which share, and how it is solved; read from a file, or made in a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from topdown.errors import ConfigError
from topdown.formats.common import USUAL_NEIGHBOURS, Mechanism, Neighbours, OneLine, ReleaseId, Targets
from topdown.formats.strict_toml import Chance, exact_text, read_toml
from topdown.model import Schema
from topdown.notebook import card
from topdown.privacy.exact_values import rational
from topdown.resources import find

if TYPE_CHECKING:
    from topdown.privacy.exact_values import Exact

MOST_WITH_INTERVALS = 6  # attributes: see topdown.solve.tree.coverage


UNANSWERED = "?"  # an answer only a person can give, not given yet


class ReleaseInfo(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the release is called, and answers only people can give ("?" or blank while open)."""

    id: ReleaseId
    title: OneLine
    data_set: str
    agency: OneLine = UNANSWERED
    contact: OneLine = UNANSWERED
    licence: OneLine = ""


class Pass(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One pass of a level: solve `table` for the best fit to `queries` (all measured ones if empty), then fix it."""

    table: str
    queries: tuple[str, ...] = ()


class Rounding(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table of the rounding chain and the weight of one person of rounding error in it."""

    table: str
    weight: int


class LevelTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Budget share, queries and solving order of one level."""

    name: str
    share: Fraction
    queries: dict[str, Fraction]
    passes: tuple[Pass, ...]
    rounding: tuple[Rounding, ...]
    root_passes: tuple[Pass, ...] = ()


class Budget(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Total privacy loss of all levels together: rho (zCDP), epsilon (pure DP), or epsilon and delta.

    A delta above 1/1000 needs `large_delta`. Numbers set noise, so they are exact: whole, a Fraction, or text.

    >>> from topdown import Budget
    >>> Budget(rho="50 %")
    Budget(rho='1/2')

    Raises:
        TypeError: a float. ConfigError: A001 text that is no number.
    """

    rho: Fraction | None = None
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    large_delta: bool = False

    if TYPE_CHECKING:  # what it takes: numbers become Fractions

        def __init__(
            self,
            *,
            rho: Exact | None = None,
            epsilon: Exact | None = None,
            delta: Exact | None = None,
            large_delta: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("rho", "epsilon", "delta"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Fraction):
                force_setattr(self, name, rational(value, name))

    @property
    def amounts(self) -> dict[str, str]:
        """What is given, written out: "1/2" by "rho"."""
        given = {name: getattr(self, name) for name in ("rho", "epsilon", "delta")}
        return {name: exact_text(value) for name, value in given.items() if value is not None}

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in self.amounts.items())})"

    def _repr_html_(self) -> str:
        return card("Budget of all levels together", self.amounts.items())


class EstimatesTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What splits are fitted to, the children's own measurements or those below them too; coverage of intervals.

    `tuned_for` says which targets the shares were tuned for; it changes no release, but `plan` warns of others.
    """

    targets: Targets = "own"
    coverage: Chance | None = None
    tuned_for: Literal["", "own", "tree"] = ""


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who measures what with which share, and how it is solved: what a settings file says.

    >>> from topdown import Schema, Settings
    >>> schema = Schema.from_lists({"sex": ["f", "m"], "age": ["0-17", "18+"]})
    >>> Settings.from_shares(schema, {"land": "1/4", "town": "3/4"}, {"total": "1/3", "sex * age": "2/3"})
    Settings('own', land 1/4, town 3/4)
    >>> Settings.load("toy").schema
    'toy'
    """

    type: str
    version: int
    name: str
    title: str
    schema: str
    invariants: str
    neighbours: Neighbours
    mechanism: Mechanism
    budget: Budget
    level: tuple[LevelTable, ...]
    source: str = ""
    extends: str = ""  # schema of the release it extends
    estimates: EstimatesTable | None = None

    @staticmethod
    def from_shares(
        schema: Schema,
        levels: Sequence[str] | Mapping[str, Exact],
        queries: Mapping[str, Exact] | None = None,
        *,
        source: str = "",
    ) -> Settings:
        """Return settings by shares; what is left out is by rule.

        Noise is discrete Gaussian, for rho 1; geometric for epsilon 1 where the schema's unit has several records.

        The rule: levels share the budget equally. Each measures the total, every attribute by itself and every
        combination, in the shares 1/4, 1/4 and 1/2 (1/2 and 1/2 for a single attribute). Rounding goes from coarse to
        fine, attribute by attribute, those of few labels first. Counts get intervals of coverage 19/20 where the
        estimate of the whole tree exists.

        Args:
            levels: root first; with their shares of the budget, which add up to 1.
            queries: with their shares of a level, which add up to 1; those of the rule if None.
            source: where they came from.

        Raises:
            TypeError: a share is a float. ConfigError: A001 a share is no number.
        """
        telling = [a.name for a in schema.attributes if len(a.labels) > 1]
        alone = telling if len(telling) > 1 else []
        quarter = Fraction(1, 4)
        by_rule = {"total": quarter if alone else 2 * quarter}
        by_rule |= {name: quarter / len(alone) for name in alone} | {"detailed": Fraction(1, 2)}
        shares = by_rule if queries is None else _exact_shares(queries)
        given = levels if isinstance(levels, Mapping) else dict.fromkeys(levels, Fraction(1, len(levels)))
        chain = ("total", *_rounding_chain(schema), "detailed")
        rounding = tuple(Rounding(table=t, weight=100 if t == "total" else 1) for t in chain)
        several = schema.privacy_unit.most_records > 1
        many = several or len(schema.attributes) > MOST_WITH_INTERVALS or len(levels) < 2
        total, detailed = Pass(table="total", queries=("total",)), Pass(table="detailed")
        made = (
            LevelTable(
                name=name,
                share=share,
                queries=shares,
                passes=(total, detailed) if depth and "total" in shares else (detailed,),
                rounding=rounding,
            )
            for depth, (name, share) in enumerate(_exact_shares(given).items())
        )
        return Settings(
            type="topdown.settings",
            version=1,
            name=schema.name,
            title=f"Draft settings of {schema.name}",
            schema=schema.name,
            invariants="invariants.toml",
            neighbours=USUAL_NEIGHBOURS,
            mechanism="geometric" if several else "discrete_gaussian",
            source=source,
            budget=Budget(epsilon=Fraction(1)) if several else Budget(rho=Fraction(1)),
            estimates=None if many else EstimatesTable(coverage=Chance(19, 20)),
            level=tuple(made),
        )

    @staticmethod
    def load(name: str | PathLike[str]) -> Settings:
        """Return settings by their bundled name, or of a file.

        Raises:
            ConfigError: C001 there are none, or the file is no settings file.
        """
        return load_settings(find("settings", fspath(name), Path.cwd()))

    def with_budget(self, budget: Budget) -> Settings:
        """Return them with another budget."""
        return msgspec.structs.replace(self, budget=budget)

    def with_shares(self, levels: Mapping[str, Exact]) -> Settings:
        """Return them with other shares of the levels.

        Args:
            levels: shares by name, for every level.

        Raises:
            ConfigError: C344 a level is missing or unknown. TypeError: a float.
        """
        shares = _exact_shares(levels)
        known = [level.name for level in self.level]
        odd = sorted(set(known) ^ set(shares))
        if odd:
            raise ConfigError(
                f"level {odd[0]!r} is in only one of settings {self.name!r} and the shares",
                code="C344",
                fix=f"give a share for each of: {', '.join(known)}",
            )
        made = tuple(msgspec.structs.replace(level, share=shares[level.name]) for level in self.level)
        return msgspec.structs.replace(self, level=made)

    def __repr__(self) -> str:
        shares = [f"{level.name} {exact_text(level.share)}" for level in self.level]
        return f"Settings({', '.join([repr(self.name), *shares])})"

    def _repr_html_(self) -> str:
        rows = [
            (level.name, exact_text(level.share), query, exact_text(share))
            for level in self.level
            for query, share in level.queries.items()
        ]
        return card(f"Settings {self.name}", rows, head=("level", "share", "query", "share of the level"))


def _exact_shares(given: Mapping[str, Exact]) -> dict[str, Fraction]:
    return {name: rational(share, f"share of {name}") for name, share in given.items()}


def load_settings(path: Path) -> Settings:
    """Read a settings file; its numbers are checked when a plan is made from them."""
    return read_toml(path, Settings, "topdown.settings")


def _rounding_chain(schema: Schema) -> list[str]:
    """Return tables from coarse to fine between total and detailed: one attribute after the other.

    Before an attribute come its recodes, coarsest first; of these only such as divide the groups of the one before.
    """
    out, before = list[str](), list[str]()
    attributes = sorted(schema.attributes, key=lambda a: len(a.labels))
    for attribute in attributes:
        if len(attribute.labels) == 1:
            continue
        last = (0,) * len(attribute.labels)
        for recode in sorted(attribute.recodes, key=lambda r: len(r.group_labels)):
            pairs = set(zip(recode.group_of, last, strict=True))
            n = len(recode.group_labels)
            if len(pairs) == n and max((*last, 0)) + 1 < n < len(attribute.labels):
                out.append(" * ".join([*before, recode.name]))
                last = recode.group_of
        before.append(attribute.name)
        if len(before) < sum(len(a.labels) > 1 for a in attributes):
            out.append(" * ".join(before))
    return out
