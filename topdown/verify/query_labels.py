"""Label arithmetic: how a query groups the values of attributes, and how an extended release reads in the newest."""

from __future__ import annotations

from topdown.model import Schema

Groups = dict[
    str, tuple[int, ...]
]  # attribute: group of each of its values; left out if it makes no difference
Reading = dict[
    str, tuple[str, tuple[int, ...]]
]  # attribute there: attribute here, value there of each value here


def resolve_factor(schema: Schema, name: str) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """Return (attribute, labels, label of each value) of an attribute or recode; ValueError if there is none."""
    for attribute in schema.attributes:
        if name == attribute.name:
            return name, attribute.labels, tuple(range(len(attribute.labels)))
        for recode in attribute.recodes:
            if name == recode.name:
                return attribute.name, recode.group_labels, recode.group_of
    raise ValueError(f"{name!r} is no attribute or recode")


def query_groups(schema: Schema, query: str, reading: Reading) -> Groups:
    """Return the groups of values that a query tells apart, in attributes of the newest release.

    A record is counted once, in the answer that the groups of its values name.
    """
    names = {"total": [], "detailed": [a.name for a in schema.attributes]}.get(query, query.split(" * "))
    out = {}
    for name in names:
        attribute, _, group_of = resolve_factor(schema, name)
        here, value = reading[attribute]
        groups = tuple(group_of[v] for v in value)
        if len(set(groups)) > 1:
            out[here] = groups
    return out


def selected_values(
    schema: Schema, cells: tuple[tuple[str, tuple[str, ...]], ...], reading: Reading
) -> Groups:
    """Return, for each attribute here that a selection of cells speaks of, 1 for its values inside and 0 outside."""
    out = {}
    for name, labels in cells:
        attribute, own, _ = resolve_factor(schema, name)
        here, value = reading[attribute]
        out[here] = tuple(int(own[v] in labels) for v in value)
    return out


def identity_reading(schema: Schema) -> Reading:
    """Return the reading of a schema in itself."""
    return {a.name: (a.name, tuple(range(len(a.labels)))) for a in schema.attributes}


def read_below(above: Schema, reading: Reading, below: Schema, names: tuple[tuple[str, str], ...]) -> Reading:
    """Return the reading of a release in the newest, from that of the release that extends it.

    Args:
        above, reading: schema of the extension, and how it reads in the newest.
        below, names: schema of what it extends, and its [base.map].

    Raises:
        ValueError: an attribute is missing, has other values, or shares its attribute with another one.
    """
    out: Reading = {}
    for name, ours in names:
        labels = resolve_factor(below, name)[1]
        middle, middle_labels, middle_of = resolve_factor(above, ours)
        if sorted(middle_labels) != sorted(labels):
            raise ValueError(f"{ours!r} has other values than {name!r}")
        here, value = reading[middle]
        out[name] = here, tuple(labels.index(middle_labels[middle_of[v]]) for v in value)
    used = [here for here, _ in out.values()]
    if set(out) != {a.name for a in below.attributes} or not len(names) == len(out) == len(set(used)):
        raise ValueError("the map of the base release does not give each attribute one of its own")
    return out
