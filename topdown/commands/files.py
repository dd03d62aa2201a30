"""Files that the user named: written without destroying others, and named for what they are."""

from __future__ import annotations

from pathlib import Path

import click

from topdown import outputs


class Picture(click.Path):
    """An option's path of a picture, which is SVG and says so."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; refuse one that ends otherwise, whose program would find no picture in it."""
        path = Path(super().convert(value, param, ctx))  # type: ignore[arg-type]
        if path.suffix.lower() != ".svg":
            self.fail(f"{path} does not end in .svg, and pictures are drawn as SVG.", param, ctx)
        return path


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a text file; ConfigError C080 if it exists and `force` was not given, C132 if it is not to be replaced."""
    outputs.write_new(path, text.encode("utf-8"), force=force)
