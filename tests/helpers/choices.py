"""Candidates of the toy census: lists, lists with sides, places with centres."""

from pathlib import Path

from topdown.selection import CoverScore

LEDGER = Path("toy") / "ledger" / "persons.jsonl"
OFFICES = "candidate,geocode\nNorth,1101\nNorth,1102\nSouth,12\nEast,1301\nEast,1302\nWest,1104\n"
SIDES = (
    "candidate,geocode,side\nNorth,1101,a\nNorth,1102,a\nSouth,12,a\nEast,1301,b\nEast,1302,b\nWest,1104,b\n"
)
PLACES = "candidate,latitude,longitude\nNorth,41.5,-71.5\nFar,43,-71.5\nSouth,41.6,-71.6\n"
SITES = ("--candidates", "offices.csv", "--k", 2, "--epsilon", "1/2", "--yes")


def centres() -> str:
    """Return a centre for each leaf: one county a kilometre north of the other."""
    rows = [f"1{c}{b:02d},{41.5 + c / 111:.4f},-71.5{b}\n" for c in (1, 2, 3) for b in (1, 2, 3, 4)]
    return "geocode,latitude,longitude\n" + "".join(rows)


def write_candidates() -> None:
    """Write all tables of candidates into the folder a test runs in."""
    tables = {"offices": OFFICES, "sides": SIDES, "places": PLACES, "centres": centres()}
    for name, text in tables.items():
        Path(f"{name}.csv").write_text(text)


def n_covered(data, chosen) -> int:
    """Return how many records some items cover."""
    score = CoverScore(data)
    for item in chosen:
        score.take(item)
    return score.covered
