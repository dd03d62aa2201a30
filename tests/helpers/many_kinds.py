"""A toy census whose constraints tell more kinds of cells apart than implied constraints are kept for."""

from pathlib import Path

from tests.helpers import policies, solved
from tests.helpers.rule_texts import rule

COUNTIES = [f"{c:02d}" for c in range(10, 40)]


def rules_by_cell() -> tuple[str, list[str]]:
    """Return a rule for every cell that people may be in, each with a public column of its own, and the columns."""
    text, columns = "", []
    for dwelling in ("home", "dormitory", "barracks"):
        for sex in ("female", "male"):
            for age in ("0_17", "18_64", "65_plus")[dwelling == "barracks" :]:
                column = f"places_{dwelling}_{sex}_{age}"
                columns.append(column)
                cells = f'dwelling = ["{dwelling}"], sex = ["{sex}"], age = ["{age}"]'
                name = f"nobody without a place: {dwelling}, {sex}, {age}"
                text += rule("none_where_zero", name, cells, columns=[column])
    return text, columns


def write_crowded_land(folder: Path) -> Path:
    """Write thirty counties whose dormitories for men are exactly as full as their lower bound demands.

    Two blocks of each county have dormitories and no homes, hence no women; the third has women in a dormitory.
    Noise that puts one man of the county into a woman's place leaves a county that meets its own bound and has no
    split. Whole numbers: each county holds 36 people.

    Returns:
        the run file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rules, columns = rules_by_cell()
    toy = (solved.TOP / "invariants" / "toy.toml").read_text()
    (folder / "own.toml").write_text(toy + policies.MIXED + rules)
    leaves = ["geocode,homes,dormitories,barracks," + ",".join(columns)]
    records = ["geocode,dwelling,sex,age,count"]
    for county in COUNTIES:
        for block in (1, 2):
            leaves.append(f"{county}0{block},0,3,0" + ",1" * len(columns))
            records.append(f"{county}0{block},dormitory,male,18_64,6")
        leaves.append(f"{county}03,5,1,1" + ",1" * len(columns))
        people = ("dormitory,female,18_64,9", "home,male,65_plus,12", "barracks,male,18_64,3")
        records += [f"{county}03,{row}" for row in people]
    (folder / "leaves.csv").write_text("\n".join(leaves) + "\n")
    (folder / "records.csv").write_text("\n".join(records) + "\n")
    run = folder / "run.toml"
    text = solved.toy_run().replace('invariants = "toy"', 'invariants = "own.toml"')
    run.write_text(text.replace("prefix_lengths = [0, 1, 3]", "prefix_lengths = [0, 2, 4]"))
    return run
