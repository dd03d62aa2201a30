"""Numbers of bundled settings that are read, not computed: equal to what is computed, and never read by a check.

`python -m tests.conformance.test_stored_losses` writes the file.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import topdown
from tests.helpers.ledgers import with_ledger
from topdown.plan import ReleaseChain, load_settings, prepare
from topdown.practice.synth import synth
from topdown.privacy import statement as said
from topdown.privacy.accountant import Composition
from topdown.publish import certified_privacy, claims_of, steps_of
from topdown.resources import bundled_names, find

DELTAS = ("1e-10",)
HAVE_BASES = {"dhc_persons_2022_tracts": ("us", "state", "county", "tract", "block_group", "block")}
"""Levels by settings of an extension, where a bundled base has them too."""


def bundled_chains(*only: str) -> Iterator[ReleaseChain]:
    """Yield what statements are made from, of bundled settings and their bases, with and without a nation."""
    for name in only or bundled_names("settings"):
        asked = load_settings(find("settings", name, Path.cwd()))
        levels = HAVE_BASES.get(name, tuple(level.name for level in asked.level))
        for first in range(1 + (levels[0] == "us")):
            with tempfile.TemporaryDirectory() as folder:
                made = synth(
                    Path(folder), people=300, schema=asked.schema, settings=name, levels=levels[first:]
                )
                base, release = Path(folder) / "base.toml", None
                if base.exists():
                    if name not in HAVE_BASES:
                        continue
                    release = Path(folder) / "base"
                    with_ledger(base)
                    topdown.generate(base, release)
                yield prepare(made.run_file, release).context.policy


def losses(chain: ReleaseChain) -> dict[str, Composition]:
    """Return the losses of a statement by their keys; those of other laws are quick to compute."""
    rows = said.protected_attributes([m for s in steps_of(chain) for m in s.measurements], claims_of(chain))
    found = [row.loss for row in rows if isinstance(row.loss, Composition)]
    return {said.loss_sha256(loss, DELTAS, balls=True): loss for loss in found}


def computed() -> dict[str, dict[str, Any]]:
    """Return the numbers of every loss, computed anew."""
    every = {key: loss for chain in bundled_chains() for key, loss in losses(chain).items()}
    return {key: said.loss_numbers(every[key], DELTAS, anew=True) for key in sorted(every)}


@pytest.mark.slow
def test_what_is_stored_is_what_is_computed() -> None:
    """A wrong number in the file would be in every certificate of a bundled setting, until verify refuses it."""
    assert computed() == said.stored_numbers()


def test_plans_of_a_bundled_setting_read_their_numbers() -> None:
    """Two CPU seconds of every release went into numbers that are the same for all of them."""
    for chain in bundled_chains("pl94_2020", *HAVE_BASES):
        assert len(losses(chain)) > 5
        assert losses(chain).keys() <= said.stored_numbers().keys()


def test_an_audit_computes_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit that read the file would agree with whatever is in it."""
    made = synth(tmp_path / "in", people=300, settings="pl94_2020")
    true = topdown.audit(made.run_file).statement["secrets"][0]
    false = true | {"right_in_100": 1}
    stored = json.loads(said.LOSSES.read_text(encoding="utf-8"))
    (tmp_path / "losses.json").write_text(
        json.dumps(stored | {"losses": dict.fromkeys(stored["losses"], false)})
    )
    monkeypatch.setattr(said, "LOSSES", tmp_path / "losses.json")
    _forget()
    try:
        chain = prepare(made.run_file).context.policy
        assert certified_privacy(chain).secrets[0]["right_in_100"] == 1
        assert topdown.audit(made.run_file).statement["secrets"][0] == true
    finally:
        _forget()


def _forget() -> None:
    said.stored_numbers.cache_clear()
    said._cached_numbers.cache_clear()


if __name__ == "__main__":
    document = {
        "type": "topdown.certified_losses",
        "version": 1,
        "deltas": list(DELTAS),
        "losses": computed(),
    }
    Path(str(said.LOSSES)).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
