"""The releases that an extension builds on, all the way down: their plans and the public facts they were made from."""

from __future__ import annotations

from pathlib import Path

from topdown.caps import PLAN_BYTES, read_json
from topdown.errors import CertificateError, ConfigError, TopdownError
from topdown.model.geography import Geography
from topdown.model.public import PublicFacts
from topdown.plan.base import FOLDER, LEAVES, PLAN, BaseFiles, check_same_plan
from topdown.plan.plan import Base, Plan, plan_from_document
from topdown.plan.public_files import public_sha256, read_leaves
from topdown.plan.secrets import Extended


def read_bases(files: BaseFiles, named: Base | None = None) -> tuple[Plan, ...]:
    """Return the plans of a base release and of all that it extends, oldest first.

    Args:
        files: of the base release.
        named: as the extension names it, if it is there already.

    Raises:
        ConfigError: C016, C018 one is no plan.
        CertificateError: V160 one is not the plan that the next one names.
    """
    found: list[Plan] = []
    path = files.plan
    while not found or found[-1].base is not None:
        found.append(plan_from_document(read_plan_document(path)))
        if named is not None:
            check_same_plan(named, found[-1].plan_hash, path)
        path, named = path.parent / FOLDER / PLAN, found[-1].base
    return tuple(reversed(found))


def with_facts(plans: tuple[Plan, ...], files: BaseFiles, geography: Geography) -> tuple[Extended, ...]:
    """Return a base release and all it extends with their public facts; CertificateError V160 if they are others."""
    out, path = [], files.plan
    for plan in reversed(plans):
        out.append(Extended(plan, _read_facts(path, plan, geography)))
        path = path.parent / FOLDER / PLAN
    return tuple(reversed(out))


def _read_facts(path: Path, plan: Plan, geography: Geography) -> PublicFacts:
    """Read the public facts that a plan beside them was made from; CertificateError V160 if they are others.

    Args:
        path: the plan.
        geography: of the release and of all that extend it.
    """
    try:
        facts = read_leaves(path.parent / LEAVES, geography)
        if public_sha256(geography, facts) == plan.public_sha256:
            return facts
    except (TopdownError, OSError):
        pass
    raise CertificateError(
        f"{path.parent / LEAVES} does not hold the public facts that {path.name} of {plan.release.id} was made from",
        code="V160",
        file=str(path.parent / LEAVES),
        fix="get the base release again; an extension carries them too",
    )


def read_plan_document(path: Path) -> dict[str, object]:
    """Read plan.json without its own hash; ConfigError if it does not match that hash."""
    try:
        document = read_json(path, PLAN_BYTES)
        stated = document.pop("plan_hash")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{path} is not a plan ({type(error).__name__})",
            code="C016",
            fix="make it with: topdown plan RUN.toml",
        ) from None
    document.pop("run_file", None)
    try:
        found = plan_from_document(document).plan_hash
    except ConfigError as error:
        error.file = error.file or str(path)
        raise
    if found != stated:
        raise ConfigError(
            f"{path} was altered: its hash does not match", code="C018", fix="make the plan again"
        )
    return dict(document)
