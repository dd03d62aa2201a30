"""Show an evaluation as plain text, and keep it out of the release it is about."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from topdown.errors import ConfigError

WIDTH = 80
_HEAD = f"{'':<24}{'MAE':>9}{'RMSE':>9}{'bias':>9}{'95 %':>8}{'max':>8}{'TV':>7}"


def render_text(document: dict[str, Any]) -> str:
    """Return the document as aligned lines of at most 80 columns; every page starts with the heading."""
    heading, lines = document["heading"], []
    records = document["n_records"]
    lines += [heading, "", f'Error of release "{_cut(document["release_id"], 60)}" against the true records']
    lines.append(f"{records['released']:,} {document['unit']}s released, {records['true']:,} true")
    lines.append(f"unit: {document['unit']}s; bias: released minus true; TV: total variation of the shares")
    for level in document["levels"]:
        lines += ["", heading, f"{level['level']}, {level['n_nodes']:,} areas", _HEAD]
        for table in level["tables"]:
            lines.append(_row(table["query"] + ("" if table["measured"] else ", not measured"), table))
            one_by_one = () if table["measured"] else table.get("answers", ())
            lines += [_row("  " + answer["label"], answer) for answer in one_by_one]
        lines += ["", "total by true population"]
        for bin_ in level["total_by_population"]:
            lines.append(_row(f"  {_range(bin_['from'], bin_['to'])} ({bin_['n_nodes']:,})", bin_))
    lines += ["", heading, f"invariants, {_percent(document['invariants']['percent'])} exact"]
    for check in document["invariants"]["checks"]:
        places = f"{check['n_met']:,} of {check['n_checked']:,}"
        lines.append(f"  {_cut(check['name'], 49):<49} {places:>19} {_percent(check['percent']):>8}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def write_evaluation(document: dict[str, Any], out: Path, release: Path) -> None:
    """Write the document as JSON, readable by its owner only.

    Raises:
        ConfigError: `out` lies inside the release folder, where it could be published (C067).
    """
    if out.resolve().is_relative_to(release.resolve()):
        raise ConfigError(
            f"{out} lies inside the release; an evaluation is confidential and must not be published with it",
            code="C067",
            file=str(out),
            fix="write it to another folder",
        )
    part = out.with_name(out.name + ".tmp")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)
        file.write("\n")
    part.replace(out)


def _row(name: str, of: dict[str, Any]) -> str:
    worst = of["quantiles"]
    variation = of.get("mean_total_variation")
    shown = "" if variation is None else f"{variation:.3f}"
    numbers = f"{_number(of['mae']):>9}{_number(of['rmse']):>9}{_number(of['bias'], '+'):>9}"
    line = f"{numbers}{worst['95']:>8,}{worst['max']:>8,}{shown:>7}"
    return f"{name:<24}{line}" if len(name) <= 24 else f"{_cut(name, WIDTH)}\n{'':<24}{line}"


def _number(value: float, sign: str = "") -> str:
    digits = 4 if 0 < abs(value) < 0.1 else 2 if abs(value) < 1000 else 0
    return f"{value:{sign if value else ''},.{digits}f}"


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{low:,}+"
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _percent(value: float) -> str:
    return "100 %" if value == 100 else f"{value:.3f} %"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
