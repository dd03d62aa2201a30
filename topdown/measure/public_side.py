"""What a release holds before anything is spent: plan, public facts, and the base it extends."""

from __future__ import annotations

import json
from pathlib import Path

from topdown.ledger.durable import Disk
from topdown.plan.base import BaseFiles, check_same_base
from topdown.plan.prepare import Prepared
from topdown.plan.public_files import write_public


def write_public_side(out: Path, prepared: Prepared, disk: Disk) -> None:
    """Write plan.json, public/ and what an extension carries of its base, durably, before anything is spent."""
    context = prepared.context
    disk.make_folder(out / "public")
    write_public(out / "public", context.geography, context.facts)
    for name in disk.names(out / "public"):
        disk.sync(out / "public" / name)
    disk.sync_folder(out / "public")
    if prepared.base is not None:
        _copy_base(out, prepared, prepared.base, disk)
    document = context.plan.to_document()
    head = {"type": document.pop("type"), "version": document.pop("version")}
    text = json.dumps(head | document | {"plan_hash": context.plan.plan_hash}, ensure_ascii=False, indent=1)
    part = out / "plan.json.tmp"
    disk.write_new(part, (text + "\n").encode())
    disk.rename(part, out / "plan.json")
    disk.sync_folder(out)


def _copy_base(out: Path, prepared: Prepared, base: BaseFiles, disk: Disk) -> None:
    check_same_base(prepared.context.plan, base)
    for path, data in base.bytes_of().items():
        disk.make_folder((out / path).parent)
        part = out / f"{path}.tmp"
        disk.write_new(part, data)
        disk.rename(part, out / path)
        disk.sync_folder((out / path).parent)
