"""Compile the kernels when a wheel is built or a checkout is installed; without a compiler they stay Python."""

from __future__ import annotations

import sys
from pathlib import Path
from platform import machine
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))  # `build_kernels` and what it imports of the package


class CompiledKernels(BuildHookInterface):
    """What hatchling calls around a build."""

    def dependencies(self) -> list[str]:
        """Return the compiler that comes as a wheel where the machine has none."""
        from build_kernels import find_compiler

        wanted = self.target_name == "wheel" and machine() in ("x86_64", "aarch64", "arm64")
        return ["ziglang"] if wanted and not find_compiler() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in place, and put the compiled files into the wheel."""
        if self.target_name != "wheel":
            return
        from build_kernels import build

        root = Path(self.root)
        try:
            made = build(root)
        except (
            Exception
        ) as error:  # an installation that is slow is better than none; `topdown` says that it is
            self.app.display_warning(f"kernels stay plain Python: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version != "editable":
            build_data["force_include"].update({str(path): str(path.relative_to(root)) for path in made})
