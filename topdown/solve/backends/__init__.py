"""Solvers behind one seam: each module adapts one library and is imported only when it is used."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.solve.backends.quadratic_solvers import NAMES

__getattr__ = lazy_face(__name__, __file__)
