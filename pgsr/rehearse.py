"""Try all that a release does after its charge on made-up answers: what would fail there is refused uncharged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pgsr.check_privacy import check_privacy
from pgsr.documents.certificate import Certificate
from pgsr.prepared import Prepared
from pgsr.verify_files import Files, check_form
from pgsr.write import certificate, contents
from topdown.errors import ConfigError


def refuse_unverifiable(plan: Prepared) -> None:
    """Refuse a plan whose estimator stops, whose files cannot be written or whose certificate would not verify.

    Raises:
        ConfigError: C175 the certificate would fail its own check; or what the estimator refuses.
    """
    made = plan.rehearsed()
    document = certificate(made)
    try:
        contents(made)
        check_form(document, Certificate)
    except ValueError as error:  # a text that no file holds, or a number past what a certificate may state
        raise _refused(str(error)[:200] if str(error).isprintable() else type(error).__name__) from None
    tree = plan.hierarchy.tree
    found = check_privacy(
        Files(
            Path(),
            document,
            made.counts,
            *made.bounds,
            made.noisy,
            tree.parent,
            tree.level_of.astype(np.int64),
        )
    )
    if not found.ok:
        raise _refused(found.findings[0])


def _refused(why: str) -> ConfigError:
    return ConfigError(
        f"this release would not pass pgsr verify: {why}",
        code="C175",
        fix="change what the message names; nothing was spent",
    )
