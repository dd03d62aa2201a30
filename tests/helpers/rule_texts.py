"""Rules as they stand in an invariants file."""

import json


def rule(
    kind: str, name: str, cells: str = "", *, than: str = "", basis: str = "made up", **more: object
) -> str:
    """Return a rule; `cells` and `than` are labels by attribute as in TOML, `more` are keys and their values."""
    tables = {key: f"{{ {labels} }}" for key, labels in (("cells", cells), ("than", than)) if labels}
    keys = {"name": json.dumps(name)} | tables | {key: json.dumps(value) for key, value in more.items()}
    lines = [f"{key} = {text}" for key, text in keys.items()]
    return "\n".join(["", f"[[{kind}]]", *lines, f"legal_basis = {json.dumps(basis)}", ""])


def exact(name: str, level: str, query: str, basis: str = "made up") -> str:
    """Return an exact statistic."""
    return rule("exact", name, level=level, query=query, basis=basis)
