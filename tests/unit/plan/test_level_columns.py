"""Columns of levels in a public table: found by name and by what determines what, never guessed."""

from pathlib import Path

import pytest

from topdown.errors import ConfigError
from topdown.plan import GeographyTable, find_level_columns, read_public

PLACES = (
    "canton_code;canton;commune_code;commune;village_code;village;post\n"
    "K1;West;7;Aa;12;One;100\nK1;West;8;Bb;3;Two;100\nK2;East;9;Aa;705;Three;200\nK2;East;9;Aa;44;Four;201\n"
)
LEVELS = ("country", "canton", "commune", "village")


def places(folder: Path, text: str = PLACES) -> Path:
    """Write a table of leaves."""
    path = folder / "places.csv"
    path.write_text(text)
    return path


def test_codes_are_taken_before_names(tmp_path):
    """Two communes of one name in two cantons would be one area."""
    found = find_level_columns(places(tmp_path), LEVELS)
    assert (found.key, found.above) == ("village_code", ("canton_code", "commune_code"))
    assert found.told[0] == "country: one area that holds all others"


def test_codes_that_begin_anew_are_joined_and_told(tmp_path):
    """Commune 1 of one canton is not commune 1 of another."""
    text = PLACES.replace(";7;", ";1;").replace(";8;", ";2;").replace(";9;", ";1;")
    path = places(tmp_path, text)
    found = find_level_columns(path, LEVELS)
    assert found.above == ("canton_code", "canton_code + commune_code")
    assert "codes begin anew in each canton" in " ".join(found.told)
    table = GeographyTable(levels=LEVELS, columns=found.above)
    tree, _ = read_public(path, table, (), tmp_path, None, {"geocode": found.key})
    assert [len(level) for level in tree.levels] == [1, 2, 3, 4]


def test_what_no_column_is_called_like_is_asked_for(tmp_path):
    """A column that happens to fit is nobody's decision where another fits too."""
    path = places(tmp_path)
    with pytest.raises(ConfigError) as refused:
        find_level_columns(path, ("country", "canton", "gemeinde", "village"))
    assert (refused.value.code, "gemeinde=COLUMN" in refused.value.fix) == ("C338", True)
    named = find_level_columns(
        path, ("country", "canton", "gemeinde", "village"), {"gemeinde": "commune_code"}
    )
    assert named.above == ("canton_code", "commune_code")


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (("canton", "commune", "village"), "single one"),
        (("country", "canton", "commune"), "each row must be one commune"),
        (("country", "canton", "hamlet"), "no column called like 'hamlet'"),
    ],
)
def test_tables_that_do_not_hold_the_levels_are_refused(tmp_path, levels, said):
    """A tree with two roots or leaves in several rows is found out at the end of a long way."""
    path = places(tmp_path, PLACES.replace(";village_code;", ";nr;").replace(";village;", ";hamlets;"))
    with pytest.raises(ConfigError) as refused:
        find_level_columns(places(tmp_path) if "village" in levels or "commune" in levels else path, levels)
    assert said in refused.value.text
