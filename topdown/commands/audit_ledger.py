"""`topdown audit --ledger`: everything ever released from a data set, as one exact composition."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import topdown
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen


def audit_ledger(screen: Screen, path: Path, deltas: tuple[str, ...]) -> int:
    """Show what all charges of a ledger cost together; writes nothing, needs no witness."""
    from msgspec import to_builtins

    said = to_builtins(topdown.audit_ledger(path, deltas=deltas))
    screen.document(said)
    _show(screen, said)
    return EXIT_OK


def _show(screen: Screen, said: dict[str, Any]) -> None:
    from topdown.screen import figures
    from topdown.screen.layout import Column
    from topdown.screen.look import WARN, bold

    chosen = any(r["what"] == "choice" for r in said["releases"])
    how = ", sums of ε and δ" if "charged_delta" in said else "" if chosen else ", exact"
    screen.say(
        bold(f'Everything released from "{said["data_set"]}"'),
        f"{how}, by ledger {said['ledger']} ({said['neighbours']}, one {said['unit']})",
    )
    screen.blank()
    loss = said["loss_name"]
    columns = [Column("release", wraps=True), Column("plan"), Column(figures.SYMBOL[loss], right=True)]
    columns += [Column("δ", right=True)] if "charged_delta" in said else []
    columns += [Column("charges", right=True), Column("unfinished", right=True)]
    rows = [
        (
            r["release"] + (" (choice)" if r["what"] == "choice" else ""),
            r["plan_hash"][:8],
            figures.decimal(Fraction(r["loss"]), 4, up=True),
            *((figures.tiny(Fraction(r["delta"])),) if "charged_delta" in said else ()),
            str(r["n_charges"]),
            str(r["n_unfinished"] or "-"),
        )
        for r in said["releases"]
    ]
    screen.table(columns, rows)
    for secret in said["secrets"]:
        screen.blank()
        at = [
            (f"ε at δ {delta}", figures.decimal(Fraction(box[1]), 3, up=True))
            for delta, box in secret["epsilon"].items()
        ]
        screen.pairs(
            [(secret["name"], f"at most {secret['right_in_100']} right choices in 100 (a coin: 50)"), *at]
        )
    if said["conditional_on"]:
        screen.say(f"between data sets that agree on: {', '.join(said['conditional_on'])}", indent=2)
    for void in said["voided"]:
        screen.item(
            WARN, f"record {void['record']} was taken back ({void['reason']}; seen by {void['witness']})"
        )
    for reason in said["vouched"]:
        screen.item(WARN, f"the ledger's witness was lost once; somebody vouched for it: {reason}")
    screen.blank()
    screen.last(said["secrets"][0]["sentence"] if said["secrets"] else "Nothing was ever charged.", symbol="")
