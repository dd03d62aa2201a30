"""The exact, certified account of privacy loss: a leaf room (stdlib, numpy, python-flint).

`Composition` and `Enclosure` are loaded when first asked for, so that the command line does not wait for numpy.
"""

from typing import TYPE_CHECKING

from topdown.lazy import first_use

if TYPE_CHECKING:
    from topdown.accountant.composition import Composition
    from topdown.accountant.enclosure import Enclosure

__all__ = ["Composition", "Enclosure"]


__getattr__ = first_use(__name__, {"Composition": "composition", "Enclosure": "enclosure"})
