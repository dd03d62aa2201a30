"""A release of group sizes for people and catalogues: its facts, from its certificate alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgsr.formats import CERTIFICATE, COUNTS, LEDGER
from pgsr.group_checks import is_simulation
from pgsr.group_files import TITLE
from pgsr.released_groups import OddFileError, read_certificate
from topdown.app.calls import PathText, path_of
from topdown.app.release_exports import COMPOSED, EXPORTS, NOISE, Facts, first_epsilon, sha256_of_file
from topdown.errors import ConfigError, DataError
from topdown.privacy.ledger import read_book

PARQUET = "application/vnd.apache.parquet"


def export_groups(folder: PathText, to: str) -> str:
    """Return the text of a release of group sizes for a catalogue; the same each time.

    Args:
        folder: a release. to: one of `EXPORTS`.

    Raises:
        ConfigError: C122 a simulation.
        DataError: D137 no release, D140 its certificate is damaged.
    """
    place = path_of(folder, "folder")
    return EXPORTS[to](facts_of_groups(place, certificate_of(place)))


def certificate_of(place: Path) -> dict[str, Any]:
    """Return the certificate of a release; see `export_groups` for what is refused."""
    if not (place / CERTIFICATE).is_file():
        raise DataError(f"{place} has no {CERTIFICATE}", code="D137", fix="give the folder of a pgsr release")
    if is_simulation(place):
        raise ConfigError(f"{place} holds a simulation", code="C122", fix="give a release")
    try:
        return read_certificate(place)
    except OddFileError as error:
        raise DataError(
            f"{place}: {error}", code="D140", fix="see what pgsr verify finds; get the release again"
        ) from None


def facts_of_groups(place: Path, stated: dict[str, Any]) -> Facts:
    """Return what catalogues ask of a release, as far as its certificate says it."""
    privacy, sizes, names = stated["privacy"], stated["sizes"], stated.get("names", {})
    levels, largest = stated["levels"], sizes["smallest"] + sizes["n_sizes"] - 1
    more = " or more" if sizes["too_large"] == "top-code" else ""
    rows = privacy["secrets"]
    covered = stated["coverage"][-1]
    widths = ", ".join(f"{level['name']} {level['half_widths'][-1]}" for level in levels)
    consistent = stated["mechanism"]["consistent"]
    return Facts(
        kind="release of group sizes",
        id=f"group-sizes-{stated['plan_hash'][:8]}",
        title=names.get("title") or TITLE,
        agency=names.get("agency", ""),
        contact=names.get("contact", ""),
        licence=names.get("licence", ""),
        data_set=read_book((place / LEDGER).read_bytes(), place / LEDGER)[0].binding.data_set,
        date=stated["ledger"]["up_to"]["date"],
        unit=privacy["unit"],
        neighbours="; ".join(row["neighbours"] for row in rows),
        loss_name=privacy["loss_name"],
        loss=privacy["loss"],
        epsilon=first_epsilon(rows),
        sentences=tuple(
            f"Not protected: {row['name']}, {row['sentence']}."
            if row["status"] == "disclosed"
            else row["sentence"]
            for row in rows
        ),
        exact=tuple(privacy["conditional_on"]),
        covers=f"{stated['total']:,} groups by size from {sizes['smallest']} to {largest}{more} in "
        f"{len(stated['regions']):,} regions",
        region=" ".join(reversed(stated["regions"][0][:2])),
        classes=(f"size ({sizes['n_sizes']} values)",),
        noise=NOISE["geometric" if privacy["noise"] == "geometric" else "discrete_gaussian"],
        made=f"Counts are made from the noisy answers alone by {stated['mechanism']['name']}.",
        coherence="Every region is the sum of its parts, no count is below 0, and the number of groups is kept."
        if consistent
        else "The mechanism does not promise that regions add up.",
        accuracy=(
            f"Half width of the interval of coverage {covered} of the noise alone, in groups, by level: {widths}.",
            f"An interval beside every count is {stated['intervals']['meaning']}.",
        ),
        files=(
            (COUNTS, PARQUET, "one row a region and size, with an interval"),
            ("measurements/", PARQUET, "the noisy answers"),
            (CERTIFICATE, "application/json", "privacy loss, and what was measured"),
        ),
        composition=COMPOSED[privacy["loss_name"]],
        certificate_sha256=sha256_of_file(place / CERTIFICATE),
        engine=stated["engine"],
        plan_hash=stated["plan_hash"],
    )
