"""Run files of `pgsr release`: strict TOML, paths relative to the file, the command line wins."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from pgsr.budget import Budget
from pgsr.ledger import LedgerFile
from pgsr.plan import Plan
from pgsr.policy import Policy
from pgsr.read import public_totals
from pgsr.sizes import Sizes
from pgsr.source import Source
from topdown.errors import ConfigError
from topdown.ledger.durable import Disk
from topdown.plan.document import read_toml

PATHS = ("groups", "hierarchy", "public", "ledger", "witness", "out")
Settings = Mapping[str, Any]


class RunFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every key a run file may have; the command line has an option for each."""

    groups: str | None = None
    hierarchy: str | None = None
    mechanism: str | None = None
    epsilon: Fraction | None = None
    rho: Fraction | None = None
    sizes: int | None = None
    smallest: int | None = None
    too_large: str | None = None
    total: int | None = None
    public: str | None = None
    shares: tuple[Fraction, ...] | None = None
    relations: tuple[str, ...] | None = None
    unit: str | None = None
    direction: str | None = None
    calibration: str | None = None
    data_set: str | None = None
    ledger: str | None = None
    ledger_id: str | None = None
    witness: str | None = None
    limit: Fraction | None = None
    limit_reason: str | None = None
    ignore: tuple[str, ...] | None = None
    simulate: int | None = None
    truth_is_public: str | None = None
    out: str | None = None


def settings_of(run: Path | None, given: Settings) -> dict[str, Any]:
    """Return the settings of a run file, by key, with those of the command line put over them.

    Args:
        run: TOML file with the keys of `RunFile`, or None.
        given: settings of the command line.

    Raises:
        ConfigError: unreadable file, unknown key (with the one that was meant), or a value of the wrong type.
    """
    if run is None:
        return dict(given)
    read = structs.asdict(read_toml(run, RunFile, None))
    said = {key: value for key, value in read.items() if value is not None}
    return {**said, **{key: run.parent / said[key] for key in PATHS if key in said}, **given}


def plan_of(settings: Settings) -> Plan:
    """Return what is released, and how it is measured (DataError: see `public_totals`; ConfigError: see `Plan`)."""
    public, ignored = settings.get("public"), settings.get("ignore", ())
    return Plan(
        Sizes(settings["sizes"], **_some(settings, "smallest", "too_large")),
        Budget(**_some(settings, "epsilon", "rho", "shares", "calibration")),
        public={} if public is None else public_totals(public, ignored),
        **_some(settings, "mechanism", "direction", "relations", "unit", "total"),
    )


def source_of(settings: Settings) -> Source:
    """Return what is read."""
    return Source(settings["groups"], settings["hierarchy"], **_some(settings, "data_set", "ignore"))


def ledger_of(settings: Settings) -> LedgerFile:
    """Return which ledger is charged."""
    return LedgerFile(settings.get("ledger"), settings.get("ledger_id", ""), settings.get("witness"))


def policy_of(settings: Settings, *, again: bool, resume: bool) -> Policy:
    """Return what may be charged."""
    return Policy(settings.get("limit"), settings.get("limit_reason", ""), again, resume)


def _some(settings: Settings, *names: str) -> dict[str, Any]:
    return {name: settings[name] for name in names if name in settings}


def write_settings(run: Path, found: dict[str, str]) -> None:
    """Set keys of a run file to texts, in one durable step; a key that is there is replaced, others go to its end.

    Raises:
        ConfigError: C166 the file does not say so after all; it is left as it was.
    """
    if not found:
        return
    text = run.read_text(encoding="utf-8")
    for key, value in found.items():
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        there = re.search(rf"^{key}[ \t]*=.*$", text, re.MULTILINE)
        if there is None:
            text += ("\n" if text and not text.endswith("\n") else "") + line + "\n"
        else:
            text = text[: there.start()] + line + text[there.end() :]
    said = tomllib.loads(text)
    if any(said.get(key) != value for key, value in found.items()):
        raise ConfigError(
            f"{run} could not be told about its ledger",
            code="C166",
            fix="; ".join(f"write {key} = {value!r} into it" for key, value in found.items()),
        )
    try:
        Disk().replace(run, text.encode("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{run} cannot be written: {error.strerror}", code="C166", file=str(run), fix="correct its rights"
        ) from None
