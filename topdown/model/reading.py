"""How the attributes of a release read in the schema of one that extends it."""

from __future__ import annotations

from collections.abc import Mapping

from topdown.errors import ConfigError
from topdown.model.query import Query, parse_query
from topdown.model.schema import Schema

# attribute there -> the attribute here that decides it, and the value there of each value here
Reading = Mapping[str, tuple[str, tuple[int, ...]]]
Groups = dict[
    str, tuple[int, ...]
]  # attribute -> group of each value; attributes left out make no difference


def same(schema: Schema) -> Reading:
    """Return how a schema reads in itself."""
    return {a.name: (a.name, tuple(range(len(a.labels)))) for a in schema.attributes}


def read_in(schema: Schema, base: Schema, names: Mapping[str, str]) -> Reading:
    """Return how the attributes of `base` read in `schema`.

    Args:
        schema: of the extension.
        base: of the release that is extended.
        names: base attribute to the attribute or recode of `schema` with the same values; the same name if
            left out.

    Raises:
        ConfigError: C093 an unknown name, other values, or one attribute used twice.
    """
    unknown = sorted(set(names) - {a.name for a in base.attributes})
    if unknown:
        raise ConfigError(
            f"base.map names {unknown[0]!r}, which is no attribute of the base schema {base.name!r}",
            code="C093",
            fix="use its attributes: " + ", ".join(a.name for a in base.attributes),
        )
    out: dict[str, tuple[str, tuple[int, ...]]] = {}
    used: set[str] = set()
    for attribute in base.attributes:
        name = names.get(attribute.name, attribute.name)
        try:
            (factor,) = parse_query(schema, name).factors
        except (ConfigError, ValueError):
            raise ConfigError(
                f"base attribute {attribute.name!r} is no attribute or recode of schema {schema.name!r}",
                code="C093",
                fix=f'add a recode with its values, or name one: [base.map] {attribute.name} = "..."',
            ) from None
        if set(factor.group_labels) != set(attribute.labels) or factor.attribute in used:
            problem = "is used twice" if factor.attribute in used else "has other values"
            raise ConfigError(
                f"{name!r} of schema {schema.name!r} cannot stand for base attribute {attribute.name!r}: it {problem}",
                code="C093",
                fix="give each base attribute its own attribute or recode with exactly the same labels",
            )
        used.add(factor.attribute)
        order = [attribute.labels.index(label) for label in factor.group_labels]
        out[attribute.name] = (factor.attribute, tuple(order[group] for group in factor.group_of))
    return out


def then(first: Reading, second: Reading) -> Reading:
    """Return how the oldest of three releases reads in the newest.

    Args:
        first: the oldest in the middle one.
        second: the middle one in the newest.
    """
    out = {}
    for name, (middle, oldest_value) in first.items():
        here, middle_value = second[middle]
        out[name] = (here, tuple(oldest_value[value] for value in middle_value))
    return out


def groups_of(query: Query, reading: Reading) -> Groups:
    """Return how a query of an older release groups the values of the attributes here that can change its answers."""
    out = {}
    for factor in query.factors:
        if len(factor.group_labels) > 1:
            here, value = reading[factor.attribute]
            out[here] = tuple(factor.group_of[v] for v in value)
    return out
