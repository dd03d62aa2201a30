"""Choose field offices on Rhode Island's blocks of 2010, privately, and draw them beside the choice that looks at all.

    topdown init --schema pl94 --settings pl94_2020 --records PERSONS.csv.gz --leaves BLOCKS.csv.gz --out run.toml
    python examples/rhode_island_offices.py run.toml PERSONS.csv.gz FOLDER

Candidates are all tracts; an office covers the tracts of its county that are at most two numbers away. Writes
`offices.svg`: the files have no coordinates, so each tract is a square as large as its people, by county and number.
The counts are public (Census 2010, summary file), so the picture may say how many people the offices cover; with
confidential records nobody may.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path

from topdown import select

K, NEAR, EPSILON = 12, 2, "1/10"
COUNTIES = {
    "44001": "Bristol",
    "44003": "Kent",
    "44005": "Newport",
    "44007": "Providence",
    "44009": "Washington",
}
ACROSS, TILE, MARGIN, HEAD, LINE = 24, 20, 20, 56, 26
MOST_PEOPLE = 9_000  # of a tract: a whole square


def people_of_tracts(persons: Path) -> Counter[str]:
    """Return how many people each tract has."""
    people: Counter[str] = Counter()
    with gzip.open(persons, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            people[row["geocode"][:11]] += int(row["count"])
    return people


def covers_of(tracts: list[str]) -> dict[str, set[str]]:
    """Return the tracts within reach of each, which are those of its county with numbers near its own."""
    near = {tract: tracts[max(0, i - NEAR) : i + NEAR + 1] for i, tract in enumerate(tracts)}
    return {tract: {other for other in others if other[:5] == tract[:5]} for tract, others in near.items()}


def write_candidates(path: Path, covers: dict[str, set[str]]) -> None:
    """Write which tracts each candidate covers."""
    rows = "".join(f"{tract},{other}\n" for tract, others in covers.items() for other in sorted(others))
    path.write_text(f"candidate,geocode\n{rows}", encoding="utf-8")


def greedy(covers: dict[str, set[str]], people: Counter[str]) -> list[str]:
    """Return the choice that looks at everybody."""
    chosen: list[str] = []
    met: set[str] = set()
    for _ in range(K):
        chosen.append(max(covers, key=lambda tract: sum(people[other] for other in covers[tract] - met)))
        met |= covers[chosen[-1]]
    return chosen


def share(chosen: list[str], covers: dict[str, set[str]], people: Counter[str]) -> float:
    """Return the share of people within reach of some office."""
    return sum(people[tract] for tract in set().union(*(covers[one] for one in chosen))) / people.total()


def places(tracts: list[str]) -> tuple[dict[str, tuple[int, int]], list[tuple[str, int]], int]:
    """Return column and height of each tract's square, the height of each county's name, and of everything."""
    found: dict[str, tuple[int, int]] = {}
    names, y = [], 0
    for county, group in groupby(tracts, lambda tract: tract[:5]):
        names.append((COUNTIES[county], y))
        members = list(group)
        for i, tract in enumerate(members):
            found[tract] = i % ACROSS * TILE, y + 8 + i // ACROSS * TILE
        y += 8 + (len(members) + ACROSS - 1) // ACROSS * TILE + LINE
    return found, names, y


def picture(
    covers: dict[str, set[str]], people: Counter[str], panels: list[tuple[str, list[str], str]]
) -> str:
    """Return an SVG: one panel a choice, with its title and colour."""
    squares, names, down = places(sorted(covers))
    across = ACROSS * TILE
    width, height = len(panels) * (across + MARGIN) + MARGIN, down + HEAD + MARGIN
    said = "; ".join(title for title, _, _ in panels)
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="16" fill="#222" role="img" aria-label="{said}"><rect width="100%" height="100%" fill="#fff"/>'
        )
    ]
    for number, (title, chosen, colour) in enumerate(panels):
        left = MARGIN + number * (across + MARGIN)
        met = set().union(*(covers[one] for one in chosen))
        out.append(f'<text x="{left + across // 2}" y="24" text-anchor="middle">{title}</text>')
        out.append(f'<g transform="translate({left} {HEAD})">')
        out += [f'<text x="0" y="{y}" font-size="14">{name}</text>' for name, y in names]
        for tract, (x, y) in squares.items():
            reach = colour if tract in met else "#eeeeea"
            out.append(
                f'<rect x="{x}" y="{y}" width="{TILE - 1}" height="{TILE - 1}" fill="{reach}" '
                f'fill-opacity="{0.28 if tract in met else 1}"/>'
            )
            side = max(2, round((TILE - 4) * min(1.0, people[tract] / MOST_PEOPLE) ** 0.5))
            corner = (TILE - 1 - side) / 2
            out.append(
                f'<rect x="{x + corner}" y="{y + corner}" width="{side}" height="{side}" '
                f'fill="{colour if tract in chosen else "#777"}"/>'
            )
        out.append("</g>")
    return "".join(out) + "</svg>\n"


def choose(run: Path, persons: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Choose and draw; return the private choice and the greedy one."""
    folder.mkdir(parents=True, exist_ok=True)
    people = people_of_tracts(persons)
    covers = covers_of(sorted(people))
    write_candidates(folder / "tracts.csv", covers)
    asked = select(run, "sites", EPSILON, candidates=folder / "tracts.csv", k=K)
    chosen, best = list(asked.choose(folder / "offices").chosen), greedy(covers, people)
    say = "{}: {:.1f} % within reach"
    panels = [
        (say.format("looks at everybody", 100 * share(best, covers, people)), best, "#b3560f"),
        (say.format(f"private, epsilon {EPSILON}", 100 * share(chosen, covers, people)), chosen, "#0b6e99"),
    ]
    (folder / "offices.svg").write_text(picture(covers, people, panels), encoding="utf-8")
    return chosen, best


if __name__ == "__main__":
    both = choose(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
    print("private:          ", ", ".join(both[0]))
    print("looks at everybody:", ", ".join(both[1]))
