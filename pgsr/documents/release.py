"""The document of `pgsr release`."""

from __future__ import annotations

from typing import Literal

from pgsr.documents.shared import Privacy, Stamp
from topdown.documents.shared import Count, Part, Rational, Sha256


class Release(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.release"):
    """The result of pgsr release --json."""

    version: Literal[3] = 3
    engine: str
    release: bool
    stamp: Stamp
    folder: str
    mechanism: str
    plan_hash: Sha256
    n_regions: Count
    n_sizes: Count
    total: Count
    charged: Rational
    n_attempts: Count
    privacy: Privacy
