"""What a made-up population looks like: a TOML file a schema, and sensible defaults where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.formats.strict_toml import read_toml
from topdown.model import Attribute, Schema, parse_query

_FOLDER = Path(__file__).resolve().parent / "profiles"


class LevelShape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One level of the tree; spreads are standard deviations of logarithms, in percent.

    `people` a node on average; `spread` of people between siblings; `count_spread` of the number of nodes
    between parents; `follows_people`: parents get children in proportion to their people, or all the same.
    """

    name: str
    people: int
    spread: int = 50
    count_spread: int = 30
    follows_people: bool = True


class ShareTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Relative weights of labels, for people who match `when` (recode or attribute to groups)."""

    shares: dict[str, int]
    when: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class AttributeShape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How one attribute is drawn: the first table that matches, moved at each level by `spread` percent.

    `together` names a recode whose groups move as one (all combinations of races, say); `shared`: people
    of one household tend to be alike in it.
    """

    name: str
    table: tuple[ShareTable, ...]
    spread: dict[str, int] = msgspec.field(default_factory=dict)
    together: str = ""
    shared: bool = False


class FacilityShape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Facilities counted by one public column: how many, how big (median, spread), how many a site.

    `kinds`: columns that count some of them each (for men only, for women only, for both), with their shares;
    used where the invariants read them.
    """

    column: str
    per_million: int
    size: int
    spread: int = 80
    per_site: int = 1
    kinds: dict[str, int] = msgspec.field(default_factory=dict)


class Profile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole profile; attributes are drawn in the order given."""

    type: str = "topdown.synth_profile"
    version: int = 1
    schema: str = ""
    settings: str = ""
    invariants: str = ""  # instead of those the settings name
    base: str = ""  # schema of the release that one of this schema extends
    base_settings: str = ""
    sums: dict[str, tuple[str, ...]] = msgspec.field(
        default_factory=dict
    )  # its public columns, as sums of ours
    source: str = ""
    empty: int = 30  # percent of leaves without people
    vacant: int = 9  # percent of those that have dwellings all the same
    people_per_dwelling: int = 234  # in hundredths
    household_size: int = 250  # in hundredths
    shared: int = 75  # percent of people with the shared attributes of the first person of their household
    level: tuple[LevelShape, ...] = ()
    attribute: tuple[AttributeShape, ...] = ()
    facility: tuple[FacilityShape, ...] = ()


DEFAULT_SPREAD = 50
DEFAULT_FACILITY = FacilityShape(column="", per_million=1500, size=20)


def load_profile(schema: Schema) -> Profile:
    """Return the bundled profile of a schema, completed with defaults for attributes it leaves out.

    Raises:
        ConfigError: the profile names an attribute, group or label the schema lacks.
    """
    path = _FOLDER / f"{schema.name}.toml"
    profile = read_toml(path, Profile, "topdown.synth_profile") if path.is_file() else Profile()
    named = {shape.name for shape in profile.attribute}
    rest = tuple(_default_profile(a) for a in schema.attributes if a.name not in named)
    return msgspec.structs.replace(profile, attribute=profile.attribute + rest)


def _default_profile(attribute: Attribute) -> AttributeShape:
    shares = {label: 10_000 // (rank + 1) for rank, label in enumerate(attribute.labels)}
    return AttributeShape(name=attribute.name, table=(ShareTable(shares=shares),))


def level_shapes(profile: Profile, names: tuple[str, ...]) -> tuple[LevelShape, ...]:
    """Return the shape of each level, root first; unknown levels hold 40, 1000, 5000, 25000, ... people."""
    known = {shape.name: shape for shape in profile.level}
    out = []
    for depth, name in enumerate(names):
        up = len(names) - 1 - depth
        people = 40 if up == 0 else 200 * 5**up
        out.append(known.get(name) or LevelShape(name=name, people=people, follows_people=up > 0))
    return tuple(out)


def facility_shape(profile: Profile, column: str) -> FacilityShape:
    """Return the shape of the facilities a public column counts."""
    return next((f for f in profile.facility if f.column == column), DEFAULT_FACILITY)


def log_weights(attribute: Attribute, table: ShareTable) -> NDArray[np.float64]:
    """Return the log weight of every label, -inf for those the table leaves out."""
    wrong = [label for label in table.shares if label not in attribute.labels]
    if wrong:
        raise ConfigError(
            f"profile: attribute {attribute.name!r} has no value {wrong[0]!r}",
            code="C025",
            fix="use labels of the schema",
        )
    weights = np.array([table.shares.get(label, 0) for label in attribute.labels], dtype=np.float64)
    with np.errstate(divide="ignore"):
        out: NDArray[np.float64] = np.log(weights)
    return out


def matching_values(schema: Schema, when: Mapping[str, tuple[str, ...]]) -> dict[str, NDArray[np.bool_]]:
    """Turn a condition on attributes and recodes into a mask of labels for each attribute it reads."""
    masks: dict[str, NDArray[np.bool_]] = {}
    for name, groups in when.items():
        factor = parse_query(schema, name).factors[0]
        wrong = [group for group in groups if group not in factor.group_labels]
        if wrong:
            raise ConfigError(
                f"profile: {name!r} has no group {wrong[0]!r}", code="C025", fix="use labels of the schema"
            )
        keep = [factor.group_labels[g] in groups for g in factor.group_of]
        masks[factor.attribute] = masks.get(factor.attribute, np.ones(len(keep), dtype=bool)) & np.array(keep)
    return masks
