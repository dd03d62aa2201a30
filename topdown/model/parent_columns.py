"""A geography from a table of leaves whose other columns say what each leaf lies in."""

from __future__ import annotations

from collections.abc import Sequence

from topdown.errors import DataError
from topdown.model.geography import Geography, from_parents

JOIN = "-"  # between codes that name an area together, and after the level's name


def from_columns(
    names: tuple[str, ...], columns: Sequence[Sequence[str]], leaves: Sequence[str]
) -> Geography:
    """Build a geography from the codes of the areas that each leaf lies in; codes have any length.

    Where a code is used at two levels, the areas of the higher one are called by level and code, such as "region-12".

    Args:
        names: level names from the root down.
        columns: codes a level, one a leaf: of every level but the leaves', or of those between root and leaves; the
            root is then called by its level.
        leaves: geocode of every leaf, no code twice.

    Raises:
        DataError: an area lies in two others (D019), the first level has several areas (D013), two areas of the same
            code are left (D012).
    """
    above = [list(codes) for codes in columns]
    if len(above) == len(names) - 2:
        above.insert(0, [names[0]] * len(leaves))
    if len(set(above[0])) > 1:
        raise DataError(
            f"level {names[0]!r} has {len(set(above[0]))} areas; the first level must have exactly one",
            code="D013",
            fix=f"add a level in front of {names[0]!r}, such as the whole country, and no column for it",
        )
    below = set(leaves)
    for depth in range(len(above) - 1, -1, -1):
        if below & set(above[depth]):
            above[depth] = [f"{names[depth]}{JOIN}{code}" for code in above[depth]]
        below |= set(above[depth])
    rows = [(above[0][0], "", names[0])]
    for name, ups, codes in zip(names[1:], above, [*above[1:], list(leaves)], strict=True):
        parent: dict[str, str] = {}
        for up, code in zip(ups, codes, strict=True):
            if parent.setdefault(code, up) != up:
                raise _in_two(name, code, (parent[code], up))
        rows += [(code, up, name) for code, up in parent.items()]
    return from_parents(rows)


def joined_codes(parts: Sequence[Sequence[str]]) -> list[str]:
    """Return codes that name an area together, one a leaf: "1" and "7" give "1-7"."""
    return [JOIN.join(codes) for codes in zip(*parts, strict=True)]


def _in_two(level: str, code: str, areas: tuple[str, str]) -> DataError:
    return DataError(
        f"{level} {code!r} lies in {areas[0]!r} and in {areas[1]!r}",
        code="D019",
        node=code,
        fix=f"correct the row; if codes of {level} begin anew in each area above, join the columns: "
        f'geography.columns = [..., "COLUMN_ABOVE + COLUMN"]',
    )
