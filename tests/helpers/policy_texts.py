"""Texts of invariants beyond the bundled ones: one of each kind, and what happens when they meet."""

from pathlib import Path

from tests.helpers.rule_twins import TWINS, example

TOY = Path(__file__).resolve().parents[2] / "invariants" / "toy.toml"
BASIS = 'legal_basis = "made up"\n'
FEW = f"""
[[no_more_than]]
name = "few"
cells = {{ age = ["0_17"] }}
than = {{ age = ["18_64"] }}
times = 9
{BASIS}"""
BLOCKS = f'[[exact]]\nname = "blocks"\nlevel = "block"\nquery = "total"\n{BASIS}'
FEWER_WOMEN = f"""
[[no_more_than]]
name = "no more women than men at home"
cells = {{ dwelling = ["home"], sex = ["female"] }}
than = {{ dwelling = ["home"], sex = ["male"] }}
{BASIS}"""
COUNTIES = BLOCKS.replace("block", "county")
DWELLINGS = BLOCKS.replace('"total"', '"dwelling"')
FULL_BARRACKS = f"""
[[at_most]]
name = "at most four in each barracks"
cells = {{ dwelling = ["barracks"] }}
column = "barracks"
per = 4
{BASIS}"""
OLD_AT_HOME = f"""
[[at_most]]
name = "at most one old person in each home"
cells = {{ dwelling = ["home"], age = ["65_plus"] }}
column = "homes"
{BASIS}"""
WOMEN = f"""
[[at_least]]
name = "at least one woman in each dormitory"
cells = {{ dwelling = ["dormitory"], sex = ["female"] }}
column = "dormitories"
{BASIS}"""
MIXED = f"""
[[none_where_zero]]
name = "no women in dormitories without homes near"
cells = {{ dwelling = ["dormitory"], sex = ["female"] }}
columns = ["homes"]
{BASIS}"""


def exact(name: str, level: str, query: str) -> str:
    """Return an exact statistic as it stands in an invariants file."""
    return f'[[exact]]\nname = "{name}"\nlevel = "{level}"\nquery = "{query}"\n{BASIS}'


def inexact_toy() -> str:
    """Return the bundled toy invariants without their exact statistic, as one must have to add or remove records."""
    text = TOY.read_text(encoding="utf-8")
    first, second = text.index("[[exact]]"), text.index("[[none_where_zero]]")
    return text[:first] + text[second:]


ONE_OF_EACH = {f"one of {kind}": example(kind) for kind in TWINS}
POLICIES = {
    "blocks": BLOCKS,
    "counties": COUNTIES,
    "caps": FULL_BARRACKS,
    "caps inside": OLD_AT_HOME + FULL_BARRACKS,
    "nested": WOMEN,
    "mixed": MIXED,
    "blocks, caps, nested": BLOCKS + FULL_BARRACKS + WOMEN,
    "counties, caps, mixed": COUNTIES + OLD_AT_HOME + MIXED,
    "blocks, mixed": BLOCKS + MIXED,
    "tables": DWELLINGS,
    "tables, nested, caps inside": DWELLINGS + WOMEN + OLD_AT_HOME,
    "land ages": exact("ages", "land", "age"),
    "land ages, caps inside": exact("ages", "land", "age") + OLD_AT_HOME + FULL_BARRACKS,
    "land ages, block totals": exact("ages", "land", "age * sex") + BLOCKS + MIXED,
    "land dwellings": exact("dwellings", "land", "dwelling"),
    "county dwellings": exact("dwellings", "county", "dwelling"),
    "county dwellings, nested": exact("dwellings", "county", "dwelling")
    + WOMEN
    + OLD_AT_HOME
    + FULL_BARRACKS,
    "county dwellings x sex": exact("both", "county", "dwelling * sex") + exact("homes", "land", "dwelling"),
    "county and land cross": exact("both", "county", "dwelling") + exact("ages", "land", "age * sex"),
}
