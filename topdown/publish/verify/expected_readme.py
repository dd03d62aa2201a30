"""README.txt, written out once more from plan, microdata and certificate: people read it before anything else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from textwrap import fill
from typing import Any

from topdown.publish.verify.arithmetic import exact_text
from topdown.publish.verify.csv_file import CSV
from topdown.publish.verify.plan_doc import MeasuredDoc
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.session import Session

COLUMNS = 112
_CSV = " persons.csv.gz: one line a record."
_ZEROS = "answers that are zero are left out, but not in `total`."
_INTERVALS = "each count with an interval; the stamp `rows` says whether zeros are listed."
_CHANCE = (
    "Intervals: before the noise was drawn, the chance that this interval would contain the count in the confidential "
    "records was at least {odds}, counting noise as normal. That is of one number chosen beforehand, not of numbers "
    "picked because they look large; of the records, not of the true population. Two intervals are not independent: "
    "those of sums do not follow from them but are made by topdown interval."
)
_AFTERWARDS = (
    "How it is solved may have been chosen after the noise was drawn: the chances of its intervals hold if that choice "
    "did not depend on the noise."
)
_TEXT = """\
{head}
{title} ({id})
{people}; made from protected statistics, none is copied from anyone's answers.
microdata/      {persons}: one row an area and cell, with its count.{csv}
tables/         one folder a table, one {file} a level; {listed}
measurements/   the noisy numbers the release was made from, and the statistics that are exact by policy.
plan.json       what is exact and why, what was measured with which noise; plan {plan}.
certificate.json  the privacy loss, every check, the files that decide; ledger.jsonl: what was spent.
manifest.json   SHA-256 of every file. Geocodes are text: keep their leading zeros.
{said}Check it with:  topdown verify FOLDER
"""


def expected_readme(session: Session, due: Sequence[str]) -> str:
    """Return the text that README.txt must have.

    Args:
        session: of the release.
        due: stamps that its first line must show.
    """
    plan, tree = session.plan, session.tree
    n_records = session.n_records
    parted = session.cuts.n_sections > 1
    return _TEXT.format(
        persons="persons/, in parts" if parted else "persons.parquet",
        file="file, or folder of parts," if parted else "file",
        head=f"{', '.join(due)}: not for use as official statistics" if due else "Release",
        title=plan.doc.release.title,
        id=plan.doc.release.id,
        people=f"{n_records:,} {plan.schema.unit} records in {len(tree.geocodes[-1]):,} {tree.names[-1]} areas",
        csv=_CSV if os.path.lexists(session.root / CSV) else "",
        listed=_ZEROS if plan.coverage is None else _INTERVALS,
        plan=plan.computed_hash[:8],
        said="".join(
            fill(line, COLUMNS) + "\n" for line in _promised(plan, session.certificate.get("privacy"))
        ),
    )


def _of_another(plan: PlanFile, measured: MeasuredDoc) -> str:
    """Return whose measurement it is."""
    text = (
        f"This release solves the measurement of {measured.release}, plan {measured.plan_hash[:8]}, in another way: "
        "no noise was drawn for it and nothing charged."
    )
    return text if plan.coverage is None else f"{text} {_AFTERWARDS}"


def _promised(plan: PlanFile, privacy: Any) -> list[str]:
    """Return what is said of privacy: the sentence, and every secret that is not protected."""
    stated = privacy if isinstance(privacy, dict) else {}
    rows = [row for row in stated.get("secrets", []) if isinstance(row, dict)]
    disclosed = [row for row in rows if row.get("status") == "disclosed"]
    said = [] if plan.doc.measured is None else [_of_another(plan, plan.doc.measured)]
    said += [str(stated["sentence"])] if "sentence" in stated else []
    if plan.loss_name == "epsilon_delta":
        both = f"Epsilon {exact_text(plan.loss)}, delta {exact_text(plan.delta)}"
        said += [f"{both}: sums over every count that one record moves."]
    said += [f"Not protected: {row.get('name')}, {row.get('sentence')}." for row in disclosed]
    if plan.coverage is None:
        return said
    n, of = (100 * plan.coverage).as_integer_ratio()
    odds = f"{n} in 100" if of == 1 else f"{plan.coverage.numerator} in {plan.coverage.denominator}"
    return [*said, _CHANCE.format(odds=odds)]
