"""Choose field offices for a made-up land, privately, and draw them beside the choice that looks at everybody.

    python examples/field_offices.py FOLDER

Writes a census, candidates and centres to FOLDER, chooses 6 of 40 offices at epsilon 1/10 within 2 km of the most
residents, and draws `offices.svg`. The people are made up, so the picture may say how many the offices cover; with
real people nobody may.
"""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import topdown
from topdown import select

K, CANDIDATES, RADIUS, EPSILON = 6, 40, 2.0, "1/10"
WIDE, HIGH = 20.0, 16.0  # kilometres
SOUTH, WEST = 41.4, -71.8
KM_NORTH, KM_EAST = 111.2, 83.2  # in a degree, near there
SCALE, MARGIN, HEAD = 22, 20, 56
Points = NDArray[np.float64]


def make_land(folder: Path) -> Path:
    """Write a census of 10,000 made-up people, centres of its blocks around towns, and candidates; return the run."""
    made = topdown.synth(folder, schema="toy", people=10_000, seed=3)
    generator = np.random.default_rng(11)
    with gzip.open(folder / "blocks.csv.gz", "rt", encoding="utf-8") as file:
        codes = [row["geocode"] for row in csv.DictReader(file)]
    towns = generator.uniform((3, 3), (WIDE - 3, HIGH - 3), (9, 2))
    home = generator.choice(len(towns), len(codes), p=np.arange(9, 0, -1) / 45)
    blocks = np.clip(towns[home] + generator.normal(0, 1.1, (len(codes), 2)), 0.2, (WIDE - 0.2, HIGH - 0.2))
    write(folder / "centres.csv", "geocode", codes, blocks)
    offices = generator.uniform((1, 1), (WIDE - 1, HIGH - 1), (CANDIDATES, 2))
    write(folder / "candidates.csv", "candidate", [f"Office {i + 1}" for i in range(CANDIDATES)], offices)
    return Path(made.run_file)


def write(path: Path, name: str, names: list[str], points: Points) -> None:
    """Write places, in kilometres from the south-west corner, as degrees."""
    rows = [f"{name},latitude,longitude\n"]
    for one, (east, north) in zip(names, points, strict=True):
        rows.append(f"{one},{SOUTH + north / KM_NORTH:.6f},{WEST + east / KM_EAST:.6f}\n")
    path.write_text("".join(rows), encoding="utf-8")


def places(path: Path, name: str) -> dict[str, tuple[float, float]]:
    """Return places by name, in kilometres east and north."""
    with path.open(encoding="utf-8") as file:
        return {
            row[name]: (
                (float(row["longitude"]) - WEST) * KM_EAST,
                (float(row["latitude"]) - SOUTH) * KM_NORTH,
            )
            for row in csv.DictReader(file)
        }


def residents(folder: Path) -> dict[str, int]:
    """Return how many people live in each block."""
    found: dict[str, int] = {}
    with gzip.open(folder / "persons.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[row["geocode"]] = found.get(row["geocode"], 0) + int(row["count"])
    return found


def reached(folder: Path, out: Path) -> dict[str, set[str]]:
    """Return the blocks that each candidate covers, as the choice published them."""
    found: dict[str, set[str]] = {}
    with (out / "public" / "coverage.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["candidate"], set()).add(row["geocode"])
    return found


def greedy(covers: dict[str, set[str]], people: dict[str, int]) -> list[str]:
    """Return the choice that looks at everybody."""
    chosen: list[str] = []
    met: set[str] = set()
    for _ in range(K):
        best = max(
            (name for name in covers if name not in chosen),
            key=lambda name: sum(people.get(block, 0) for block in covers[name] - met),
        )
        chosen.append(best)
        met |= covers[best]
    return chosen


def share(chosen: list[str], covers: dict[str, set[str]], people: dict[str, int]) -> float:
    """Return the share of people within reach of some office."""
    met = set().union(*(covers[name] for name in chosen))
    return sum(people.get(block, 0) for block in met) / sum(people.values())


def picture(folder: Path, panels: list[tuple[str, list[str], str]]) -> str:
    """Return an SVG: one panel a choice, with its title and colour, blocks as dots as large as their people."""
    blocks, offices = (
        places(folder / "centres.csv", "geocode"),
        places(folder / "candidates.csv", "candidate"),
    )
    people = residents(folder)
    across, down = WIDE * SCALE, HIGH * SCALE
    width, height = len(panels) * (across + MARGIN) + MARGIN, down + HEAD + MARGIN
    said = "; ".join(title for title, _, _ in panels)
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" '
            f'font-size="17" fill="#222" role="img" aria-label="{said}"><rect width="100%" height="100%" fill="#fff"/>'
        )
    ]
    for number, (title, chosen, colour) in enumerate(panels):
        left = MARGIN + number * (across + MARGIN)
        out.append(
            f'<svg x="{left:.0f}" y="{HEAD}" width="{across:.0f}" height="{down:.0f}">'
            '<rect width="100%" height="100%" fill="#f6f6f4" stroke="#bbb"/>'
        )
        for name in chosen:
            x, y = at(offices[name])
            out.append(
                f'<circle cx="{x}" cy="{y}" r="{RADIUS * SCALE:.0f}" fill="{colour}" fill-opacity="0.16"/>'
            )
        for code, place in blocks.items():
            x, y = at(place)
            size = 0.35 * max(people.get(code, 0), 0) ** 0.5
            out.append(f'<circle cx="{x}" cy="{y}" r="{size:.1f}" fill="#555" fill-opacity="0.55"/>')
        for name, place in offices.items():
            x, y = at(place)
            if name not in chosen:
                out.append(f'<path d="M{x - 4} {y}h8M{x} {y - 4}v8" stroke="#888" stroke-width="1.5"/>')
        for x, y in (at(offices[name]) for name in chosen):
            out.append(
                f'<circle cx="{x}" cy="{y}" r="{RADIUS * SCALE:.0f}" fill="none" stroke="{colour}" stroke-width="2"/>'
            )
        for name in chosen:
            x, y = at(offices[name])
            out.append(
                f'<circle cx="{x}" cy="{y}" r="13" fill="{colour}"/><text x="{x}" y="{y + 5}" font-size="14" '
                f'text-anchor="middle" fill="#fff">{name.split()[-1]}</text>'
            )
        out.append(
            f'</svg><text x="{left + across / 2:.0f}" y="{HEAD - 20}" text-anchor="middle">{title}</text>'
        )
    return "".join(out) + "</svg>\n"


def at(place: tuple[float, float]) -> tuple[int, int]:
    """Return where a place is drawn."""
    return round(place[0] * SCALE), round((HIGH - place[1]) * SCALE)


def choose(folder: Path) -> tuple[list[str], list[str]]:
    """Make the land, choose, and draw; return the private choice and the greedy one."""
    run, out = make_land(folder), folder / "offices"
    near = {"candidates": folder / "candidates.csv", "radius": RADIUS, "centres": folder / "centres.csv"}
    chosen = select(run, "sites", EPSILON, k=K, **near).choose(out).chosen
    covers, people = reached(folder, out), residents(folder)
    best = greedy(covers, people)
    panels = [
        (f"looks at everybody: {100 * share(best, covers, people):.0f} % within 2 km", best, "#b3560f"),
        (
            f"private, epsilon {EPSILON}: {100 * share(chosen, covers, people):.0f} % within 2 km",
            chosen,
            "#0b6e99",
        ),
    ]
    (folder / "offices.svg").write_text(picture(folder, panels), encoding="utf-8")
    return chosen, best


if __name__ == "__main__":
    both = choose(Path(sys.argv[1]))
    print("private:          ", ", ".join(both[0]))
    print("looks at everybody:", ", ".join(both[1]))
