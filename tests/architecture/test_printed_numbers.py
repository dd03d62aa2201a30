"""Numbers that claim something are rounded in `topdown.privacy.exact_values`, read from the source."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIGITS = re.compile(r"\.[0-9]*[efg]")


def test_no_exact_number_is_printed_through_a_float() -> None:
    """`f"{float(bound):.9f}"` rounds to nearest: half of the printed ends would exclude the truth."""
    found = []
    for path in [*(ROOT / "topdown").rglob("*.py"), *(ROOT / "pgsr").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                through_float = "float(" in ast.unparse(node.value)
                if through_float and DIGITS.search(ast.unparse(node.format_spec)):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    sizes_only = {"topdown/privacy/accountant/calibrate.py", "topdown/privacy/accountant/composition.py"}
    assert sizes_only >= {place.split(":")[0] for place in found}, found
