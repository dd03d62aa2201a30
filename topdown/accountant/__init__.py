"""The exact, certified account of privacy loss: a leaf room (stdlib, numpy, python-flint).

`Composition` and `Enclosure` are loaded when first asked for, so that the command line does not wait for numpy.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topdown.accountant.composition import Composition
    from topdown.accountant.enclosure import Enclosure

__all__ = ["Composition", "Enclosure"]


def __getattr__(name: str) -> object:
    """Load the two public names on first use."""
    if name == "Composition":
        from topdown.accountant.composition import Composition

        return Composition
    if name == "Enclosure":
        from topdown.accountant.enclosure import Enclosure

        return Enclosure
    raise AttributeError(name)
